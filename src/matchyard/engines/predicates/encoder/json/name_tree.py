"""The buffers that the JSON scanner writes to, and the tree of names.

A node of the tree is a key of an object that its parent names. The scanner thus notices a key that
comes twice in one object. Consecutive events tend to have the same keys in the same order: every
node remembers its successor, and the scanner first compares the text with the successor's key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.json.faults import (
    FULL_ATTRIBUTES,
    FULL_ELEMENTS,
    FULL_NODES,
    FULL_UNESCAPED,
    NO_FAULT,
)
from matchyard.engines.predicates.encoder.json.strings import BACKSLASH, string_end, unescape
from matchyard.kernels.growing import put
from matchyard.kernels.hashing import is_equal, mix64, xxh64

# Counters of `Room.counts`.
N_ATTRIBUTES, N_ELEMENTS, N_NODES, N_ARRAYS, N_OBJECTS, N_UNESCAPED, N_SLOW, POSITION = range(8)
# Columns of `nodes`: the node of the object that has the key, and where the key stands; which nodes
# came next in the same object and first within it, last time; which object it was last seen in; and
# where it was there again: in which object, and before which attribute its values no longer count.
PARENT, KEY_START, KEY_END, NEXT, FIRST, SEEN_IN, HASH, AGAIN_IN, AGAIN_AT = range(9)


class Room(NamedTuple):
    """The buffers of the scanner; see `Column` for the attributes."""

    row_start: NDArray[np.int64]
    attributes: NDArray[np.int64]
    elements: NDArray[np.int32]  # [2, n_elements] the element that contains it, and its array
    nodes: NDArray[np.int64]  # [n_nodes, 9] the first is the event itself; see above
    slots: NDArray[np.int32]  # hash table of (parent, key): node, 0 is free
    paths: NDArray[
        np.uint8
    ]  # text of the nodes' keys, one after the other; with those of the nodes
    # above them, many nodes in a long name would take the square of the event
    unescaped: NDArray[np.uint8]  # strings without their escapes
    counts: NDArray[np.int64]  # [16] how much of the above is used; the same before this event


def new_room(n_events: int, n_bytes: int) -> Room:
    """Buffers for events of this number and size; `grown` enlarges them."""
    counts = np.zeros(16, np.int64)
    counts[N_ELEMENTS] = counts[N_NODES] = counts[POSITION] = 1
    nodes = np.empty((64, 9), np.int64)
    nodes[0] = 0
    return Room(
        np.zeros(n_events + 1, np.int64),
        np.empty((n_bytes // 16 + 16, 3), np.int64),
        np.zeros((2, 16), np.int32),
        nodes,
        np.zeros(128, np.int32),
        np.empty(1024, np.uint8),
        np.empty(64, np.uint8),
        counts,
    )


_GROWS = {
    FULL_ATTRIBUTES: ("attributes",),
    FULL_NODES: ("nodes", "paths"),
    FULL_ELEMENTS: ("elements",),
    FULL_UNESCAPED: ("unescaped",),
}


def grown(room: Room, fault: int) -> Room:
    """The same with twice the room in the buffer that was too small."""
    arrays = {}
    for name in _GROWS[fault]:
        array = getattr(room, name)
        axis = 1 if name == "elements" else 0
        arrays[name] = np.concatenate([array, np.zeros_like(array)], axis=axis)
    room = room._replace(**arrays)
    if fault == FULL_NODES:
        room = room._replace(slots=np.zeros(2 * len(room.slots), np.int32))
        fill_slots(room.nodes, room.slots, room.counts[N_NODES])
    return room


@njit(nogil=True, cache=True)
def find_node(nodes, slots, paths, counts, parent, text, start, end):
    """The node of a key, added if it is new; -1 if there is no room for it."""
    code = mix64(xxh64(text, start, end) + np.uint64(parent))
    mask = len(slots) - 1
    slot = np.int64(code & np.uint64(mask))
    length = end - start
    while slots[slot] > 0:
        node = np.int64(slots[slot])
        key_start = nodes[node, KEY_START]
        if (
            nodes[node, PARENT] == parent
            and nodes[node, KEY_END] - key_start == length
            and is_equal(paths, key_start, text, start, length)
        ):
            return node
        slot = (slot + 1) & mask
    node = counts[N_NODES]
    key_start = nodes[node - 1, KEY_END]
    if node == len(nodes) or key_start + length > len(paths):
        return -1
    slots[slot] = node
    nodes[node] = -1
    put(paths, key_start, text, start, end)
    nodes[node, PARENT], nodes[node, KEY_START] = parent, key_start
    nodes[node, KEY_END] = key_start + length
    nodes[node, HASH] = np.int64(code)
    counts[N_NODES] = node + 1
    return node


@njit(nogil=True, cache=True)
def fill_slots(nodes, slots, n_nodes):
    """Enter all nodes into a hash table that is still empty."""
    mask = len(slots) - 1
    for node in range(1, n_nodes):
        slot = nodes[node, HASH] & mask
        while slots[slot] > 0:
            slot = (slot + 1) & mask
        slots[slot] = node


@njit(nogil=True, cache=True)
def read_key(text, position, end, nodes, slots, paths, unescaped, counts, parent, last):
    """(fault, position after the key, node) of a key that is not the expected one."""
    fault, stop = string_end(text, position, end)
    if fault:
        return fault, stop, np.int64(0)
    if text[stop] == BACKSLASH:
        n_used = counts[N_UNESCAPED]
        fault, stop, n_end = unescape(text, position, end, unescaped, n_used)
        if fault:
            return fault, stop, np.int64(0)
        node = find_node(nodes, slots, paths, counts, parent, unescaped, n_used, n_end)
    else:
        node = find_node(nodes, slots, paths, counts, parent, text, position, stop)
        if node > 0:  # keys with escapes cannot be compared byte by byte
            if last > 0:
                nodes[last, NEXT] = node
            else:
                nodes[parent, FIRST] = node
    return (NO_FAULT if node > 0 else FULL_NODES), stop + 1, node
