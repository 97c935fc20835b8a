"""One event to entries, within kernels: the steps of `intake`, `scanner` and `entries` for single events.

A reader scans an event into buffers that it keeps. It also keeps the tree of names from event to event,
since a service gets events of few kinds. Whoever encodes the event remembers the id of each name in its own
vocabulary (`name_of`), until the reader starts a new tree. An event that takes more (numbers of many
digits, texts that Python has to fold, more room) is left to `intake`, and so is a bad one.
"""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.events.entries import UNASKED, encode_arrays
from matchyard.engines.predicates.encoder.events.intake import one_text
from matchyard.engines.predicates.encoder.json.faults import FULL_NODES, NO_FAULT
from matchyard.engines.predicates.encoder.json.name_tree import (
    KEY_END,
    N_ARRAYS,
    N_ATTRIBUTES,
    N_ELEMENTS,
    N_NODES,
    N_SLOW,
    N_UNESCAPED,
    PARENT,
    Room,
)
from matchyard.engines.predicates.encoder.json.scanner import scan
from matchyard.engines.predicates.encoder.layout import Batch, Vocabulary
from matchyard.kernels.growing import put
from matchyard.kernels.prepared import Prepared, bytes_array, opened

_BYTES = 1 << 14  # of an event
_ATTRIBUTES, _ELEMENTS = 1 << 12, 1 << 8
NODES = 1 << 10  # of the tree of names; a full tree is started anew
_trees = count()  # numbers trees of names, so that nobody takes one for another


class Text(NamedTuple):
    """What a reader has besides the buffers of the scanner."""

    text: NDArray[np.uint8]  # [2 * _BYTES] the event, then its strings without escapes; read-only
    buffer: NDArray[np.uint8]  # the same memory
    text_start: NDArray[np.int64]  # [2]
    name_start: NDArray[np.int64]  # [NODES + 1] as in `Column`
    name_parent: NDArray[np.int64]  # [NODES]
    tree: NDArray[np.int64]  # [2] its number, and how many of its nodes are in the two arrays above


class Reader:
    """Reads events one at a time; `read` returns the reader itself, for `encode_one`."""

    def __init__(self, options: Any) -> None:
        self._max_depth = options.max_depth
        buffer = np.empty(2 * _BYTES, np.uint8)
        text = buffer.view()
        text.flags.writeable = False
        self._room = Room(
            np.zeros(2, np.int64),
            np.empty((_ATTRIBUTES, 3), np.int64),
            np.zeros((2, _ELEMENTS), np.int32),
            np.zeros((NODES, 9), np.int64),
            np.zeros(4 * NODES, np.int32),
            np.empty(16 * NODES, np.uint8),
            np.empty(0, np.uint8),  # `Text.buffer` has the room for strings without escapes
            np.zeros(16, np.int64),
        )
        self._text = Text(
            text, buffer, np.zeros(2, np.int64), np.zeros(NODES + 1, np.int64),
            np.full(NODES, -1, np.int64), np.zeros(2, np.int64),
        )  # fmt: skip
        self.prepared = Prepared((self._room, self._text))
        self._start_tree()

    def _start_tree(self) -> None:
        self._room.slots[:] = 0
        self._room.nodes[0] = 0
        self._room.counts[:] = 0
        self._room.counts[N_NODES] = 1
        self._text.tree[:] = next(_trees), 1

    def read(self, event: Any) -> Reader | None:
        """Scan an event; None if it has to be matched as a batch."""
        text = one_text(event)
        if text is None or len(text) > _BYTES:
            return None
        fault = _scan_one(self.prepared, text, self._max_depth)
        if fault == FULL_NODES:
            self._start_tree()
            fault = _scan_one(self.prepared, text, self._max_depth)
        return self if fault == NO_FAULT else None


@njit(cache=True)
def _scan_one(prepared, data, max_depth):
    room, texts = opened(prepared)
    data, counts, tree = bytes_array(data), room.counts, texts.tree
    n_bytes = len(data)
    put(texts.buffer, 0, data, 0, n_bytes)
    texts.text_start[1] = n_bytes
    counts[N_ATTRIBUTES] = counts[N_UNESCAPED] = counts[N_SLOW] = counts[N_ARRAYS] = 0
    counts[N_ELEMENTS] = 1
    fault, _, _ = scan(
        texts.text[:n_bytes], texts.text_start, 0, max_depth, room.row_start, room.attributes,
        room.elements, room.nodes, room.slots, room.paths, texts.buffer[n_bytes:], counts,
    )  # fmt: skip
    for node in range(tree[1], counts[N_NODES]):
        texts.name_start[node + 1] = room.nodes[node, KEY_END]
        parent = room.nodes[node, PARENT]
        texts.name_parent[node] = parent if parent else -1  # the first node is the event itself
    tree[1] = counts[N_NODES]
    if fault == NO_FAULT and counts[N_SLOW]:
        return np.int64(N_SLOW)  # any fault will do
    return np.int64(fault)


class Given(NamedTuple):
    """The arrays of a vocabulary that `encode_one` takes, and the names that it has looked up."""

    names: tuple[NDArray[Any], ...]
    texts: tuple[NDArray[Any], ...]
    slots: tuple[NDArray[Any], ...]
    name_of: NDArray[np.int64]  # [NODES] the id of each node's name, -1 for none, or UNASKED
    tree: NDArray[np.int64]  # [1] the number of the tree


def given(vocabulary: Vocabulary) -> Given:
    """The arrays of a vocabulary for `encode_one`."""
    name_of, tree = np.full(NODES, UNASKED, np.int64), np.full(1, -1, np.int64)
    return Given(vocabulary.names[:3], vocabulary.texts[:3], tuple(vocabulary[2:]), name_of, tree)


@njit(cache=True)
def encode_one(room, texts, given):
    """(True, batch); or False and a batch without meaning, if Python has to fold a text."""
    name_of, counts = given.name_of, room.counts
    if given.tree[0] != texts.tree[0]:
        given.tree[0] = texts.tree[0]
        for node in range(len(name_of)):
            name_of[node] = UNASKED
    n_nodes, n_elements = counts[N_NODES], counts[N_ELEMENTS]
    names_table, names_start, names_text = given.names
    texts_table, texts_start, texts_text = given.texts
    slot_start, kinds, modes, domain_start, domain, domain_rest, gram_slots, grams = given.slots
    event_start, slots, codes, elements, unfolded = encode_arrays(
        room.row_start, room.attributes[: counts[N_ATTRIBUTES]], texts.name_start[: n_nodes + 1],
        texts.name_parent[:n_nodes], room.paths, texts.text, names_table, names_start, names_text,
        texts_table, texts_start, texts_text, slot_start, kinds, modes, domain_start, domain,
        domain_rest, gram_slots, grams, name_of, np.empty((0, 2), np.int64), np.empty(0, np.uint8),
    )  # fmt: skip
    batch = Batch(
        event_start, slots, codes, elements, room.elements[0][:n_elements],
        room.elements[1][:n_elements],
    )  # fmt: skip
    return len(unfolded) == 0, batch
