"""One event to entries, within a kernel: the steps of `intake`, `scanner` and `entries` in one call.

The steps write to buffers that are kept from call to call. An event that takes more (escapes, numbers
of many digits, texts that Python has to fold, more room) is left to `intake`, and so is a bad one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from matchyard.engines.predicates.encoder.events.entries import encode_arrays
from matchyard.engines.predicates.encoder.json.faults import NO_FAULT
from matchyard.engines.predicates.encoder.json.name_tree import (
    KEY_END,
    N_ATTRIBUTES,
    N_ELEMENTS,
    N_NODES,
    N_SLOW,
    N_UNESCAPED,
    PARENT,
    POSITION,
    Room,
    new_room,
)
from matchyard.engines.predicates.encoder.json.scanner import scan
from matchyard.engines.predicates.encoder.layout import Batch, Vocabulary

_BYTES = 1 << 14  # of an event; the room for its attributes follows from it


def one_room() -> Room:
    """Buffers for one event at a time."""
    return new_room(1, _BYTES)


def given_arrays(vocabulary: Vocabulary) -> tuple[Any, ...]:
    """The arrays of a vocabulary that `encode_one` takes, as one tuple of arrays."""
    return (*vocabulary.names[:3], *vocabulary.texts[:3], *vocabulary[2:])


@njit(nogil=True, cache=True)
def _cleared(room):
    """Forget the last event."""
    for i in range(len(room.counts)):
        room.counts[i] = 0
    room.counts[N_ELEMENTS] = room.counts[N_NODES] = room.counts[POSITION] = 1
    for i in range(room.nodes.shape[1]):
        room.nodes[0, i] = 0
    for i in range(len(room.slots)):
        room.slots[i] = 0
    room.elements[0, 0] = room.elements[1, 0] = 0
    room.row_start[0] = 0


@njit(nogil=True, cache=True)
def encode_one(text, max_depth, room, given):
    """(True, batch), or False and a batch without meaning if `intake` has to read the event."""
    _cleared(room)
    text_start = np.zeros(2, np.int64)
    text_start[1] = len(text)
    fault, _, _ = scan(
        text, text_start, 0, max_depth, room.row_start, room.attributes, room.elements, room.nodes,
        room.slots, room.paths, room.unescaped, room.counts,
    )  # fmt: skip
    counts = room.counts
    is_read = fault == NO_FAULT and counts[N_SLOW] == 0 and counts[N_UNESCAPED] == 0
    if not is_read:
        room.row_start[1] = counts[N_ATTRIBUTES] = 0
    n_nodes = counts[N_NODES]
    name_start, name_parent = np.zeros(n_nodes + 1, np.int64), np.empty(n_nodes, np.int64)
    for node in range(n_nodes):
        name_start[node + 1] = room.nodes[node, KEY_END]
        parent = room.nodes[node, PARENT]
        name_parent[node] = parent if parent else -1  # the first node is the event itself
    names_table, names_start, names_text, texts_table, texts_start, texts_text = given[:6]
    slot_start, kinds, modes, domain_start, domain, domain_rest, gram_slots, grams = given[6:]
    event_start, slots, codes, elements, unfolded = encode_arrays(
        room.row_start, room.attributes[: counts[N_ATTRIBUTES]], name_start, name_parent, room.paths,
        text, names_table, names_start, names_text, texts_table, texts_start, texts_text, slot_start,
        kinds, modes, domain_start, domain, domain_rest, gram_slots, grams,
        np.empty((0, 2), np.int64), np.empty(0, np.uint8),
    )  # fmt: skip
    n_elements = counts[N_ELEMENTS]
    batch = Batch(
        event_start, slots, codes, elements, room.elements[0][:n_elements],
        room.elements[1][:n_elements],
    )  # fmt: skip
    return is_read and len(unfolded) == 0, batch
