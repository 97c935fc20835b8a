"""One event to its keys, with one call of a kernel: for a single event, every other step costs more."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from matchyard.engines.predicates.algorithms.shared.stored_filters import NARROW, rows_of
from matchyard.engines.predicates.algorithms.tiles.visits import visit
from matchyard.engines.predicates.algorithms.tiles.walk import select, verify
from matchyard.engines.predicates.encoder import encode_one, given_arrays, one_room, one_text
from matchyard.kernels import key_table

_FEW = 256  # keys of an event; more are left to a batch
_LEFT_TO_BATCH = -1


class Scratch:
    """The buffers of a thread for single events."""

    def __init__(self, vocabulary: Any) -> None:
        self.vocabulary, self.given = vocabulary, given_arrays(vocabulary)
        self.room = one_room()
        self.keys = np.empty(_FEW, np.int64)


def match_one(
    table: Any, vocabulary: Any, event: Any, workspace: Any, options: Any, input_options: Any
) -> list[int] | None:
    """The keys of one event; None if it has to be matched as a batch."""
    text = None if len(table.tile_start) else one_text(event)  # a sweep is made for many events
    if text is None:
        return None
    scratch = workspace.scratch
    if scratch is None or scratch.vocabulary is not vocabulary:
        scratch = workspace.scratch = Scratch(vocabulary)
    n_keys = _match_one(
        np.frombuffer(text, np.uint8), input_options.max_depth, scratch.room, scratch.given, table,
        workspace.seen, workspace.n_seen, workspace.ends, workspace.pairs, workspace.first,
        scratch.keys,
    )  # fmt: skip
    workspace.n_seen += 1
    keys: list[int] | None = scratch.keys[:n_keys].tolist() if n_keys >= 0 else None
    return keys


@njit(nogil=True, cache=True)
def _match_one(text, max_depth, room, given, table, seen, n_seen, ends, pairs, first, few_keys):
    is_read, batch = encode_one(text, max_depth, room, given)
    if not is_read:
        return _LEFT_TO_BATCH
    if table.low.itemsize == 4:
        codes = batch.codes
        for i in range(len(codes)):
            codes[i] = min(max(codes[i], -2 * NARROW + 1), 2 * NARROW - 2)
    cells = np.zeros((1, len(table.bound_start) - 1), np.uint8)
    signatures = np.zeros(1, np.uint64)
    postings, events = visit(table, batch, cells, signatures, seen, n_seen)
    pairs, n_pairs, _ = select(table, cells, signatures, postings, events, ends, pairs)
    hit_start, event_start = np.empty(2, np.int64), np.empty(2, np.int64)
    marks = (np.empty(0, np.int32), np.empty(0, np.int64), n_seen)
    hits = verify(table, batch, pairs[:, :n_pairs], first, marks, hit_start)
    if len(table.filter_row):
        hit_start, hits = rows_of(table.filter_row, hit_start, hits)
    n_keys = key_table.count(table, hit_start, hits, event_start)
    if n_keys > len(few_keys):
        return _LEFT_TO_BATCH
    key_table.copy_keys(table, hit_start, hits, few_keys)
    return n_keys
