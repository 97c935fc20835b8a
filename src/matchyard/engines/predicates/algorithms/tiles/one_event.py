"""One event to its keys with one call of a kernel: for a single event, every other step costs more."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared.exact_check import no_slots
from matchyard.engines.predicates.algorithms.shared.stored_filters import NARROW, n_slots, rows_of
from matchyard.engines.predicates.algorithms.tiles.sweep_one import sweep_one
from matchyard.engines.predicates.algorithms.tiles.visits import visit
from matchyard.engines.predicates.algorithms.tiles.walk import select, verify
from matchyard.engines.predicates.encoder import Reader, encode_one, given
from matchyard.kernels import key_table
from matchyard.kernels.prepared import Prepared, opened

_KEYS = 256  # room for the keys of most events; it grows
_LEFT_TO_BATCH = -1
_CANDIDATES, _N_EVENTS = 0, 1  # in `Scratch.counts`


class Scratch(NamedTuple):
    """Arrays that the search of one event changes."""

    first: NDArray[np.int32]  # see `exact_check`
    seen: NDArray[np.int64]  # [n_postings] the event that visited a posting last
    ends: NDArray[np.int32]  # [n_postings] see `walk.by_posting`
    pairs: NDArray[np.int32]  # [2, n] candidates
    hit_start: NDArray[np.int64]  # [2]
    event_start: NDArray[np.int64]  # [2]
    keys: NDArray[np.int64]
    counts: NDArray[np.int64]  # [2] candidates of the last event; how many events there were


class Finder:
    """Finds the keys of one event at a time, for one thread."""

    def __init__(self, table: Any, vocabulary: Any, options: Any, input_options: Any) -> None:
        n_postings = len(table.posting_start) - 1
        self._arrays = given(vocabulary), table
        self.counts = np.zeros(2, np.int64)
        self._marks = (
            no_slots(n_slots(table)),
            np.full(n_postings, -1, np.int64),
            np.zeros(n_postings, np.int32),
        )
        self._find = _find_dense if len(table.tile_start) else _find
        self._make_room(_KEYS)

    def _make_room(self, n_keys: int) -> None:
        self.keys = np.empty(n_keys, np.int64)
        pairs, (hits, keys) = np.empty((2, 4096), np.int32), np.zeros((2, 2), np.int64)
        scratch = Scratch(*self._marks, pairs, hits, keys, self.keys, self.counts)
        self._prepared = Prepared((*self._arrays, scratch))

    def find(self, event: Reader) -> int:
        """Write the keys of the event to `keys` and the number of candidates to `counts`; returns how
        many keys there are."""
        n_keys: int = self._find(self._prepared, event.prepared)
        if n_keys > len(self.keys):
            self._make_room(2 * n_keys)
            n_keys = self._find(self._prepared, event.prepared)
        return n_keys


@njit(cache=True)
def _find(prepared, event):
    given, table, scratch = opened(prepared)
    is_read, batch, cells, signatures, postings, events = _visits(given, table, scratch, event)
    if not is_read:
        return _LEFT_TO_BATCH
    pairs, n_pairs, candidates = select(
        table, cells, signatures, postings, events, scratch.ends, scratch.pairs
    )
    scratch.counts[_CANDIDATES] = candidates
    hit_start, no_marks = scratch.hit_start, (np.empty(0, np.int32), np.empty(0, np.int64), 0)
    hits = verify(table, batch, pairs[:, :n_pairs], scratch.first, no_marks, hit_start)
    return _copy_keys(table, hits, scratch)


@njit(cache=True)
def _find_dense(prepared, event):
    given, table, scratch = opened(prepared)
    is_read, batch, _, _, postings, _ = _visits(given, table, scratch, event)
    if not is_read:
        return _LEFT_TO_BATCH
    hits, n_flips = sweep_one(table, batch, postings)
    scratch.counts[_CANDIDATES] = n_flips
    hit_start, no_marks = scratch.hit_start, (np.empty(0, np.int32), np.empty(0, np.int64), 0)
    hit_start[1] = len(hits)
    has_elements = False
    for i in range(len(batch.elements)):
        has_elements |= batch.elements[i] > 0
    if has_elements:
        pairs = np.zeros((2, len(hits)), np.int32)
        for i in range(len(hits)):
            pairs[1, i] = hits[i]
        hits = verify(table, batch, pairs, scratch.first, no_marks, hit_start)
    return _copy_keys(table, hits, scratch)


@njit(cache=True)
def _visits(given, table, scratch, event):
    """(is the event read, batch, cells, signatures, postings, events): see `tiles._match`."""
    scratch.counts[_N_EVENTS] += 1  # here: an interrupt may come after this call
    is_read, batch = encode_one(*opened(event), given)
    if table.low.itemsize == 4:
        codes = batch.codes
        for i in range(len(codes)):
            codes[i] = min(max(codes[i], -2 * NARROW + 1), 2 * NARROW - 2)
    cells = np.zeros((1, len(table.bound_start) - 1), np.uint8)
    signatures = np.zeros(1, np.uint64)
    n_seen = scratch.counts[_N_EVENTS]
    postings, events = visit(table, batch, cells, signatures, scratch.seen, n_seen)
    return is_read, batch, cells, signatures, postings, events


@njit(cache=True)
def _copy_keys(table, hits, scratch):
    hit_start = scratch.hit_start
    if len(table.filter_row):
        hit_start, hits = rows_of(table.filter_row, hit_start, hits)
    n_keys = key_table.count(table, hit_start, hits, scratch.event_start)
    if n_keys <= len(scratch.keys):
        key_table.copy_keys(table, hits, 0, hit_start[-1], scratch.keys)
    return n_keys
