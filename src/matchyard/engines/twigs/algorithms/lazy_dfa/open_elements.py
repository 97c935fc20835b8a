"""lazy_dfa: the open elements with the requirements met so far, and how to forget the rest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.algorithms.lazy_dfa.cache import (
    AS_BITS,
    EMPTY,
    N_WORDS,
    ONCE,
    append,
    clear,
    has_room,
    intern_frame,
    intern_set,
    note_step,
    take,
)
from matchyard.engines.twigs.algorithms.lazy_dfa.masks import MOST_MASKS
from matchyard.engines.twigs.algorithms.lazy_dfa.states import (
    document_scope,
    enter,
    n_words_at_most,
)
from matchyard.kernels.bitset import ZERO
from matchyard.kernels.growing import put

N_STAMPS = 1 << 14


class Levels(NamedTuple):
    """The open elements, and scratch memory."""

    symbols: NDArray[np.int32]  # by depth; 0 is the document
    states: NDArray[np.int64]
    scopes: NDArray[np.int64]
    frames: NDArray[np.int64]
    element: NDArray[np.int64]  # the number of an element that is kept as bits, from 1
    bits: NDArray[np.uint64]  # [depth, n_words] the requirements met
    scratch: NDArray[np.uint64]  # this and the next are zeros between uses
    above: NDArray[np.uint64]
    alive: NDArray[np.uint64]  # this and the next are for `find_by_masks`
    failing: NDArray[np.int64]
    n_elements: NDArray[np.int64]  # [1] how many were kept as bits
    stamps: NDArray[np.int64]  # by hash: sets that an element kept as bits already has


def new_levels(depth: int, n_words: int) -> Levels:
    """Memory for `depth` open elements."""
    return Levels(
        np.zeros(depth, np.int32),
        np.zeros(depth, np.int64),
        np.zeros(depth, np.int64),
        np.zeros(depth, np.int64),
        np.zeros(depth, np.int64),
        np.zeros((depth, n_words), np.uint64),
        np.zeros(n_words, np.uint64),
        np.zeros(n_words, np.uint64),
        np.zeros(n_words + 16, np.uint64),
        np.zeros(MOST_MASKS + 8, np.int64),
        np.zeros(1, np.int64),
        np.full(N_STAMPS, -1, np.int64),
    )


@njit(nogil=True, cache=True, forceinline=True)
def keep_as_bits(levels, level):
    """Keep the requirements that an element meets as bits from now on."""
    levels.n_elements[0] += 1
    levels.element[level] = levels.n_elements[0]
    levels.frames[level] = AS_BITS
    levels.bits[level, :] = ZERO


@njit(nogil=True, cache=True)
def meet(cache, levels, level, up, step, small):
    """Add the set `up`, which a child met, to an element; `step` is the result of `find_step`. Most
    steps occur only once. A frame is made for the second occurrence; until then the element is kept
    as bits."""
    frame, state = levels.frames[level], levels.states[level]
    if frame != AS_BITS:
        known = cache.frame_met[frame]
        if step == ONCE:
            end = _append_union(cache, known, up)
            if end - cache.used[N_WORDS] <= small:
                following = intern_frame(cache, state, intern_set(cache, end))
                note_step(cache, frame, up, following + 1)
                levels.frames[level] = following
                return
        else:
            note_step(cache, frame, up, ONCE)
        keep_as_bits(levels, level)
        take(cache, levels.bits[level], known)
    take(cache, levels.bits[level], up)


@njit(nogil=True, cache=True)
def _append_union(cache, left, right):
    """Write the union of two sets; returns its end."""
    word_at, words, target = cache.word_at, cache.words, cache.used[N_WORDS]
    i, last = cache.set_start[left], cache.set_start[left + 1]
    j, end = cache.set_start[right], cache.set_start[right + 1]
    while i < last and j < end:
        at, word = min(word_at[i], word_at[j]), ZERO
        has_left, has_right = word_at[i] == at, word_at[j] == at
        if has_left:
            word |= words[i]
        if has_right:
            word |= words[j]
        target = append(word_at, words, target, at, word)
        i += has_left
        j += has_right
    for rest in range(i, last):
        target = append(word_at, words, target, word_at[rest], words[rest])
    for rest in range(j, end):
        target = append(word_at, words, target, word_at[rest], words[rest])
    return target


@njit(nogil=True, cache=True)
def forget(table, cache, levels, level):
    """Clear the cache except for the entries of the open elements; true if there is room then."""
    start = np.zeros(level + 2, np.int64)
    for at in range(level + 1):
        met = cache.frame_met[levels.frames[at]] if levels.frames[at] >= 0 else EMPTY
        start[at + 1] = start[at] + cache.set_start[met + 1] - cache.set_start[met]
    word_at, words = np.empty(start[-1], np.int32), np.empty(start[-1], np.uint64)
    for at in range(level + 1):
        if levels.frames[at] >= 0:
            met = cache.frame_met[levels.frames[at]]
            first, last = cache.set_start[met], cache.set_start[met + 1]
            put(word_at, start[at], cache.word_at, first, last)
            put(words, start[at], cache.words, first, last)
    clear(cache)
    levels.stamps[:] = -1
    most = n_words_at_most(table)
    levels.scopes[0] = document_scope(table, cache)
    for at in range(1, level + 1):
        if not has_room(cache, most):
            return False
        state = enter(table, cache, levels.scopes[at - 1], levels.symbols[at]) - 1
        levels.states[at], levels.scopes[at] = state, cache.state_scope[state]
        if levels.frames[at] >= 0:
            target = cache.used[N_WORDS]
            for i in range(start[at], start[at + 1]):
                target = append(cache.word_at, cache.words, target, word_at[i], words[i])
            levels.frames[at] = intern_frame(cache, state, intern_set(cache, target))
    return has_room(cache, most)
