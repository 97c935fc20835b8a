"""One document to its keys with one call of a kernel: for a small document, every other step costs more."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.algorithms.lazy_dfa.documents import Workspace, match_documents
from matchyard.engines.twigs.encoder import encode_one, new_buffers, reading
from matchyard.engines.twigs.encoder.layout import Batch
from matchyard.kernels import key_table
from matchyard.kernels.prepared import Prepared, bytes_array, opened

_KEYS = 256  # room for the keys of most documents; it grows
_LEFT_TO_BATCH, _NO_LEVELS, _NO_CACHE = -1, -2, -3  # instead of the number of keys
_CANDIDATES, _N_SEEN, _DEPTH = 0, 1, 2  # in `Scratch.counts`


class Scratch(NamedTuple):
    """Arrays that the search of one document changes."""

    seen: NDArray[np.int64]  # see `Workspace`
    limits: NDArray[np.int64]  # [2] the option `small`; may the cache grow?
    signal_start: NDArray[np.int64]  # [2]
    depth: NDArray[np.int32]  # [1]
    hit_start: NDArray[np.int64]  # [2]
    event_start: NDArray[np.int64]  # [2]
    keys: NDArray[np.int64]
    counts: NDArray[np.int64]  # [3] candidates, documents so far, depth of the document


class Finder:
    """Finds the keys of one document at a time, for one thread."""

    def __init__(self, table: Any, vocabulary: Any, options: Any, input_options: Any) -> None:
        self._arrays = reading(vocabulary, input_options), new_buffers(input_options), table
        self._small, self._workspace = options.small, Workspace(table, options)
        self.counts = np.zeros(3, np.int64)
        self._make_room(_KEYS)

    def _make_room(self, n_keys: int) -> None:
        self.keys = np.empty(n_keys, np.int64)
        self._prepare()

    def _prepare(self) -> None:
        space = self._workspace
        limits = np.array([self._small, space.n_bytes < space.most], np.int64)
        signals, hits, keys = np.zeros((3, 2), np.int64)
        scratch = Scratch(
            space.seen, limits, signals, np.zeros(1, np.int32), hits, keys, self.keys, self.counts
        )
        levels = space.levels(int(self.counts[_DEPTH]))
        self._prepared = Prepared((*self._arrays, space.cache, levels, scratch))

    def find(self, document: bytes) -> int:
        """Write the keys of the document to `keys` and the number of candidates to `counts`; returns how
        many keys there are."""
        while True:
            n_keys: int = _find(self._prepared, document)
            if n_keys == _NO_CACHE:
                self._workspace.enlarge(self._arrays[2])
                self._prepare()
            elif n_keys == _NO_LEVELS:
                self._prepare()
            elif n_keys > len(self.keys):
                self._make_room(2 * n_keys)
            else:
                return n_keys


@njit(cache=True)
def _find(prepared, document):
    reading, buffers, table, cache, levels, scratch = opened(prepared)
    counts = scratch.counts
    n_signals, depth = encode_one(bytes_array(document), reading, buffers)
    if depth < 0:
        return _LEFT_TO_BATCH
    if depth + 2 > len(levels.bits):
        counts[_DEPTH] = depth
        return _NO_LEVELS
    counts[_N_SEEN] += 1
    scratch.signal_start[1], scratch.depth[0] = n_signals, depth
    batch = Batch(scratch.signal_start, buffers.signals, scratch.depth)
    done, hits, candidates = match_documents(
        table, cache, batch, 0, levels, scratch.limits[0], scratch.seen, counts[_N_SEEN],
        scratch.hit_start, scratch.limits[1] != 0,
    )  # fmt: skip
    if done == 0:
        return _NO_CACHE
    counts[_CANDIDATES] = candidates
    n_keys = key_table.count(table, scratch.hit_start, hits, scratch.event_start)
    if n_keys <= len(scratch.keys):
        key_table.copy_keys(table, hits, 0, scratch.hit_start[-1], scratch.keys)
    return n_keys
