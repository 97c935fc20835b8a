"""One event to its keys with one call of a kernel: for a single event, every other step costs more."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.tags.encoder import encode_one, new_room
from matchyard.kernels import key_table, subset
from matchyard.kernels.hashing import prefetch
from matchyard.kernels.prepared import Prepared, bytes_array, opened

_KEYS = 256  # room for the keys of most events; it grows
_ALL = np.empty(0, np.bool_)


class Scratch(NamedTuple):
    """Arrays that the search of one event changes."""

    leaf: NDArray[np.int64]  # [1] the option
    hit_start: NDArray[np.int64]  # [2]
    event_start: NDArray[np.int64]  # [2]
    hits: NDArray[np.int32]
    keys: NDArray[np.int64]
    counts: NDArray[np.int64]  # [1] candidates
    checked: NDArray[np.bool_]  # groups of rows: see `kernels.csr`; empty if all are


class Finder:
    """Finds the keys of one event at a time, for one thread."""

    def __init__(
        self,
        table: Any,
        vocabulary: Any,
        options: Any,
        input_options: Any,
        checked: NDArray[np.bool_] = _ALL,
    ) -> None:
        self._arrays, self._checked = (vocabulary, table, new_room()), checked
        self._leaf = np.array([options.leaf])
        self.counts = np.zeros(1, np.int64)
        self._make_room(_KEYS)

    def _make_room(self, n_keys: int) -> None:
        self.keys = np.empty(n_keys, np.int64)
        (hit_start, event_start), hits = np.zeros((2, 2), np.int64), np.empty(4096, np.int32)
        scratch = Scratch(
            self._leaf, hit_start, event_start, hits, self.keys, self.counts, self._checked
        )
        self._prepared = Prepared((*self._arrays, scratch))

    def find(self, data: bytes) -> int:
        """Write the keys of the event to `keys` and the number of candidates to `counts`; returns how
        many keys there are, or -1 if the event needs rows that are not checked yet."""
        n_keys: int = _find(self._prepared, data)
        if n_keys > len(self.keys):
            self._make_room(2 * n_keys)
            n_keys = _find(self._prepared, data)
        return n_keys


@njit(cache=True)
def _find(prepared, data):
    names, table, room, scratch = opened(prepared)
    n_tags = encode_one(names, bytes_array(data), room)
    tags = room.tags
    if len(scratch.checked) and not subset.may_read(table, tags, n_tags, scratch.checked):
        return -1
    for i in range(n_tags):  # cache misses of a step overlap
        prefetch(table.posting_start, tags[i])
    for i in range(n_tags):
        row = table.posting_start[tags[i]]
        prefetch(table.signatures, row)
        prefetch(table.id_start, row)
    hits, candidates = subset.select(
        table, room.tag_start, tags, scratch.leaf[0], scratch.hits, scratch.hit_start
    )
    scratch.counts[0] = candidates
    n_keys = key_table.count(table, scratch.hit_start, hits, scratch.event_start)
    if n_keys <= len(scratch.keys):
        key_table.copy_keys(table, hits, 0, scratch.hit_start[-1], scratch.keys)
    return n_keys
