"""lazy_dfa: the loop over the signals of documents, and the memory of a thread."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from matchyard.engines.twigs.algorithms.lazy_dfa.cache import (
    EMPTY,
    UNKNOWN,
    clear,
    find_step,
    has_room,
    new_cache,
)
from matchyard.engines.twigs.algorithms.lazy_dfa.closing import close_bits, close_frame
from matchyard.engines.twigs.algorithms.lazy_dfa.open_elements import (
    N_STAMPS,
    Levels,
    forget,
    keep_as_bits,
    meet,
    new_levels,
)
from matchyard.engines.twigs.algorithms.lazy_dfa.states import (
    document_scope,
    enter,
    enter_leaf,
    holds,
    n_words_at_most,
)
from matchyard.engines.twigs.encoder.layout import CLOSE
from matchyard.kernels.bitset import ONE, ZERO, lowest_one
from matchyard.kernels.growing import with_room

_LEAST_BYTES = 1 << 20  # of a new cache…
_BYTES_EACH = 8192  # …plus this for each requirement


class Workspace:
    """The cache of one thread."""

    def __init__(self, table: Any, options: Any) -> None:
        self.most = options.cache_bytes
        self.n_bytes = min(self.most, _LEAST_BYTES + _BYTES_EACH * len(table.lead))
        self.cache = self._new(table)
        self.seen = np.full(len(table.key_start) - 1, -1, np.int64)
        self.n_seen = 0
        self._levels = new_levels(16, len(table.is_deep))

    def _new(self, table: Any) -> Any:
        n_least = 3 * n_words_at_most(table)
        return new_cache(len(table.tag_start) - 2, self.n_bytes, n_least)

    def levels(self, depth: int) -> Levels:
        """Scratch memory for `depth` nested elements."""
        n_levels, n_words = self._levels.bits.shape
        if n_levels < depth + 2:
            self._levels = new_levels(2 * depth, n_words)
        return self._levels

    def enlarge(self, table: Any) -> None:
        """Make a larger cache. It exceeds the limit only if the open elements need that."""
        if self.n_bytes < self.most:
            self.n_bytes = min(4 * self.n_bytes, self.most)
        else:
            self.most = self.n_bytes = 2 * max(self.n_bytes, 4096)
        self.cache = self._new(table)
        self._levels.stamps[:] = -1


@njit(nogil=True, cache=True)
def match_documents(table, cache, batch, first, levels, small, seen, n_seen, hit_start, may_grow):
    """Match the documents from `first` on; returns (next document, rows, examined trees). It stops
    before a document whose open elements do not fit in the cache, or if the cache may grow."""
    signals, signal_start, n_symbols = batch.signals, batch.signal_start, len(table.tag_start) - 2
    next_state, state_scope, first_frame = cache.next_state, cache.state_scope, cache.first_frame
    frame_up, steps = cache.frame_up, cache.steps
    symbols, states, scopes, frames = levels.symbols, levels.states, levels.scopes, levels.frames
    element, stamps = levels.element, levels.stamps
    most = n_words_at_most(table)
    hits, n_hits, n_looked, n_before = np.empty(256, np.int32), np.int64(0), 0, hit_start[first]
    has_forgotten = False
    for document in range(first, len(signal_start) - 1):
        if may_grow and (has_forgotten or not has_room(cache, most)):
            return document, hits[:n_hits], n_looked
        if not has_room(cache, most):
            clear(cache)
            stamps[:] = -1
        scopes[0] = document_scope(table, cache)
        level = np.int64(0)  # a literal 0 has a type of its own: callees would be compiled twice
        keep_as_bits(levels, level)
        is_full = not has_room(cache, most)
        for i in range(signal_start[document], signal_start[document + 1]):
            signal = signals[i]
            if is_full:
                if not forget(table, cache, levels, level):
                    return document, hits[:n_hits], n_looked
                is_full, has_forgotten = False, True
            if signal >= 0:
                symbol = signal if signal < n_symbols else np.int32(0)
                state = np.int64(next_state[scopes[level], symbol])
                if state == UNKNOWN:
                    state = enter(table, cache, scopes[level], symbol)
                    is_full = not has_room(cache, most)
                level += 1
                symbols[level] = symbol
                states[level] = state - 1
                scopes[level] = state_scope[state - 1]
                frames[level] = first_frame[state - 1]
                continue
            if signal == CLOSE:
                frame = frames[level]
                if frame >= 0:
                    up = np.int64(frame_up[frame]) - 1
                    if up < 0:
                        up = close_frame(table, cache, levels, frame)
                        is_full = not has_room(cache, most)
                else:
                    up = close_bits(table, cache, levels, level)
                    is_full = not has_room(cache, most)
                level -= 1
            else:
                symbol = np.int32(-2) - signal
                if symbol >= n_symbols:
                    continue
                up = np.int64(next_state[scopes[level], symbol]) - 1
                if up < 0:
                    up = enter_leaf(table, cache, scopes[level], symbol) - 1
                    is_full = not has_room(cache, most)
            if up == EMPTY:
                continue
            frame, step = frames[level], np.int64(UNKNOWN)
            if frame >= 0:
                step = find_step(steps, frame, up)
                if step > UNKNOWN:
                    frames[level] = step - 1
                    continue
            else:
                stamp = (element[level] << 32) | up
                slot = (up * 40503 + element[level]) & (N_STAMPS - 1)
                if stamps[slot] == stamp:
                    continue
                stamps[slot] = stamp
            meet(cache, levels, level, up, step, small)
            is_full = not has_room(cache, most)
        hits, n_hits, n_here = _append_rows(table, levels, seen, n_seen + document, hits, n_hits)
        n_looked += n_here
        hit_start[document + 1] = n_before + n_hits
    return len(signal_start) - 1, hits[:n_hits], n_looked


@njit(nogil=True, cache=True)
def _append_rows(table, levels, seen, mark, hits, n_hits):
    """Append the rows of a document; returns (hits, n_hits, examined trees)."""
    bits, asked_start, asked = levels.bits[0], table.asked_start, table.asked
    n_looked = len(table.free_trees)
    for at in range(len(bits)):
        word = bits[at]
        if word == ZERO:
            continue
        hits = with_room(hits, n_hits, n_hits + asked_start[64 * at + 64] - asked_start[64 * at])
        while word != ZERO:
            requirement = 64 * at + lowest_one(word)
            word &= word - ONE
            start, end = asked_start[requirement], asked_start[requirement + 1]
            n_looked += end - start
            for i in range(start, end):
                row = asked[i]
                if row < 0:
                    if not _is_row_of(table, -1 - row, bits, seen, mark):
                        continue
                    row = table.tree_row[-1 - row]
                hits[n_hits] = row
                n_hits += 1
    hits = with_room(hits, n_hits, n_hits + len(table.free_trees))
    for tree in table.free_trees:
        if _is_row_of(table, tree, bits, seen, mark):
            hits[n_hits] = table.tree_row[tree]
            n_hits += 1
    return hits, n_hits, n_looked


@njit(nogil=True, cache=True)
def _is_row_of(table, tree, bits, seen, mark):
    """True if the tree holds, and no tree of its row did before."""
    row = table.tree_row[tree]
    if seen[row] == mark or not holds(table.asking_start, table.asking_conditions, tree, bits):
        return False
    seen[row] = mark
    return True
