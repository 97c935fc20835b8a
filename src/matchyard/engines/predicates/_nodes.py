"""The room that the JSON scanner writes to, and the names in it.

Names are interned as a tree: a node is a key within the object that its parent names, so that the
same key twice in one object is noticed. Events that follow each other tend to have the same keys
in the same order: every node remembers which one came after it, and mostly only bytes that are
expected are compared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates._faults import FULL_NODES, NO_FAULT
from matchyard.engines.predicates._strings import BACKSLASH, string_end, unescape
from matchyard.kernels.hashing import is_equal, mix64, xxh64

# Counters of `Room.counts`.
N_ATTRIBUTES, N_PLACES, N_NODES, N_ARRAYS, N_OBJECTS, N_UNESCAPED, N_SLOW, POSITION = range(8)
# Columns of `nodes`.
PARENT, KEY_START, NEXT, FIRST, SEEN_IN, HASH = range(6)
# Columns of `stack`: the object or array we are in.
AT_NODE, AT_OBJECT, AT_LAST, AT_PLACE, AT_ARRAY, AT_ATTRIBUTES, AT_IS_ARRAY = range(7)


class Room(NamedTuple):
    """What the scanner writes; see `Column` for the attributes."""

    row_start: NDArray[np.int64]
    names: NDArray[np.int32]
    types: NDArray[np.uint8]
    values: NDArray[np.int64]
    sizes: NDArray[np.int32]
    places: NDArray[np.int32]
    place_parent: NDArray[np.int32]
    place_array: NDArray[np.int32]
    path_start: NDArray[np.int64]  # [n_nodes + 1] dotted names; the root's is empty
    path_text: NDArray[np.uint8]
    nodes: NDArray[np.int64]  # [n_nodes, 6] see above
    slots: NDArray[np.int32]  # hash table of (parent, key): node, 0 is free
    unescaped: NDArray[np.uint8]  # strings without their escapes
    stack: NDArray[np.int64]  # [max_depth + 1, 7] see above
    counts: NDArray[np.int64]  # [16] how much of the above is used; before this event


@njit(nogil=True, cache=True)
def find_node(room, parent, text, start, end):
    """The node of a key, negative if there is no room for a new one."""
    code = mix64(xxh64(text, start, end) + np.uint64(parent))
    mask = len(room.slots) - 1
    slot = np.int64(code & np.uint64(mask))
    length = end - start
    while room.slots[slot] > 0:
        node = room.slots[slot]
        key_start = room.nodes[node, KEY_START]
        if (
            room.nodes[node, PARENT] == parent
            and room.path_start[node + 1] - key_start == length
            and is_equal(room.path_text, key_start, text, start, length)
        ):
            return np.int64(node)
        slot = (slot + 1) & mask
    node = room.counts[N_NODES]
    above, stop = room.path_start[parent], room.path_start[parent + 1]
    begin = room.path_start[node]
    if node == len(room.nodes) or begin + stop - above + 1 + length > len(room.path_text):
        return -1
    room.slots[slot] = node
    end_of_path = begin
    if parent > 0:
        room.path_text[begin : begin + stop - above] = room.path_text[above:stop]
        end_of_path += stop - above + 1
        room.path_text[end_of_path - 1] = 46  # a dot
    room.path_text[end_of_path : end_of_path + length] = text[start:end]
    room.path_start[node + 1] = end_of_path + length
    room.nodes[node] = -1
    room.nodes[node, PARENT] = parent
    room.nodes[node, KEY_START] = end_of_path
    room.nodes[node, HASH] = np.int64(code)
    room.counts[N_NODES] = node + 1
    return node


@njit(nogil=True, cache=True)
def fill_slots(room):
    """Enter all nodes into a hash table that is still empty."""
    mask = len(room.slots) - 1
    for node in range(1, room.counts[N_NODES]):
        slot = room.nodes[node, HASH] & mask
        while room.slots[slot] > 0:
            slot = (slot + 1) & mask
        room.slots[slot] = node


@njit(nogil=True, cache=True)
def read_key(text, position, end, room, parent, last):
    """(fault, position after the key, node) of a key that is not the expected one."""
    nodes = room.nodes
    fault, stop = string_end(text, position, end)
    if fault:
        return fault, stop, 0
    if text[stop] == BACKSLASH:
        n_used = room.counts[N_UNESCAPED]
        fault, stop, n_end = unescape(text, position, end, room.unescaped, n_used)
        if fault:
            return fault, stop, 0
        node = find_node(room, parent, room.unescaped, n_used, n_end)
    else:
        node = find_node(room, parent, text, position, stop)
        if node > 0:  # only keys that are spelt as they are can be told by their bytes
            if last > 0:
                nodes[last, NEXT] = node
            else:
                nodes[parent, FIRST] = node
    return (NO_FAULT if node > 0 else FULL_NODES), stop + 1, node
