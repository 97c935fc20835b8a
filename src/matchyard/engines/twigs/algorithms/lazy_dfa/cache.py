"""lazy_dfa: the states and frames that documents have reached so far; each is made on first use.

    scope   the requirements that the children of an element may meet, for it or its ancestors
    state   of an element: the scope around it, its symbol, and the scope for its children
    frame   a state, and the requirements that elements below have *met* so far
    up      of a frame: the requirements that its element meets for its ancestors when it closes

All are numbers. A set of requirements has a number as well; equal sets have the same number. A set
is stored as the non-zero words of its bits. When the cache is full, everything is forgotten except
for the entries of the open elements.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.bitset import ZERO
from matchyard.kernels.hashing import mix64

EMPTY = 0  # the set without members
UNKNOWN = 0  # in `next_state`, `frame_up`, `set_scope` and steps, whose numbers start at 1
ONCE = -1  # a step that occurred once; the frame after it was not stored
AS_BITS = -1  # instead of a frame: the met requirements are kept as bits
(N_SETS, N_WORDS, N_SCOPES, N_STATES, N_FRAMES, N_STEPS, N_MASKS, N_CLEARED) = range(8)
_ODD = np.uint64(0x9E3779B97F4A7C15)
_NEAR = np.uint64(4)  # slots per frame, next to the slots of frames of about the same time
_TOP = np.uint64(62)  # the highest two bits of a hash choose one of them


class Cache(NamedTuple):
    """Arrays of fixed size; `used` counts the elements in use."""

    used: NDArray[np.int64]  # [8] indexed by N_SETS … N_CLEARED
    set_start: NDArray[np.int64]  # [n_sets + 1]
    word_at: NDArray[np.int32]  # [n_words] the position of each word, ascending in a set
    words: NDArray[np.uint64]
    set_slots: NDArray[np.int32]  # hash tables: set and frame by their contents
    frame_slots: NDArray[np.int32]
    set_scope: NDArray[np.int32]  # [n_sets] from 1
    scope_set: NDArray[np.int32]  # [n_scopes]
    next_state: NDArray[np.int32]  # [n_scopes, n_symbols] from 1; of a leaf: the set that it meets
    state_scope: NDArray[np.int32]  # [n_states] the scope for the children
    first_frame: NDArray[np.int32]  # the frame with nothing met
    state_symbol: NDArray[np.int32]
    state_asking: NDArray[np.int32]  # the set of the scope around the element
    state_sure: NDArray[np.int32]  # its requirements that the element meets whatever is below it
    state_late: NDArray[np.int32]  # its requirements that only negated conditions can refute
    state_closed: NDArray[np.int32]  # how many closing elements were examined
    state_masks: NDArray[np.int32]  # where its masks begin, from 1; -1 if there was no room
    frame_state: NDArray[np.int32]  # [n_frames]
    frame_met: NDArray[np.int32]
    frame_up: NDArray[np.int32]  # sets from 1
    steps: NDArray[np.uint64]  # [size, 2] hash table: (frame, up) to the next frame
    masks: NDArray[np.uint64]  # see `masks`


def new_cache(n_symbols: int, n_bytes: int, n_least: int) -> Cache:
    """An empty cache of about `n_bytes` bytes, with room for at least `n_least` words."""
    n_words = max(n_bytes // 32, n_least)
    n_scopes = max(n_bytes // 4 // (4 * n_symbols), 4)
    n_sets = n_bytes // 8 // 96 + 16
    size, n_steps = 16, 16
    while size < 2 * n_sets:
        size *= 2
    while 4 * 16 * n_steps < n_bytes:
        n_steps *= 2
    # The operating system provides pages of zeros on first use, so that unused parts cost nothing.
    cache = Cache(
        used=np.zeros(8, np.int64),
        set_start=np.zeros(n_sets + 1, np.int64),
        word_at=np.zeros(n_words, np.int32),
        words=np.zeros(n_words, np.uint64),
        set_slots=np.zeros(size, np.int32),
        frame_slots=np.zeros(size, np.int32),
        set_scope=np.zeros(n_sets, np.int32),
        scope_set=np.zeros(n_scopes, np.int32),
        next_state=np.zeros((n_scopes, n_symbols), np.int32),
        state_scope=np.zeros(n_sets, np.int32),
        first_frame=np.zeros(n_sets, np.int32),
        state_symbol=np.zeros(n_sets, np.int32),
        state_asking=np.zeros(n_sets, np.int32),
        state_sure=np.zeros(n_sets, np.int32),
        state_late=np.zeros(n_sets, np.int32),
        state_closed=np.zeros(n_sets, np.int32),
        state_masks=np.zeros(n_sets, np.int32),
        frame_state=np.zeros(n_sets, np.int32),
        frame_met=np.zeros(n_sets, np.int32),
        frame_up=np.zeros(n_sets, np.int32),
        steps=np.zeros((n_steps, 2), np.uint64),
        masks=np.zeros(n_bytes // 64, np.uint64),
    )
    _begin(cache)
    return cache


@njit(nogil=True, cache=True)
def clear(cache):
    """Forget everything."""
    cache.set_slots[:] = 0
    cache.frame_slots[:] = 0
    cache.steps[:] = ZERO
    cache.set_scope[: cache.used[N_SETS]] = UNKNOWN
    cache.next_state[: cache.used[N_SCOPES]] = UNKNOWN
    cache.used[:N_CLEARED] = 0
    cache.used[N_CLEARED] += 1
    _begin(cache)


@njit(nogil=True, cache=True)
def _begin(cache):
    """Add the empty set and its scope, which have the number 0."""
    intern_set(cache, cache.used[N_WORDS])
    intern_scope(cache, EMPTY)


@njit(nogil=True, cache=True)
def has_room(cache, n_words):
    """True if a new state, a frame and sets of `n_words` words in all fit."""
    return (
        cache.used[N_WORDS] + n_words <= len(cache.words)
        and cache.used[N_SETS] + 8 < len(cache.set_start)
        and cache.used[N_SCOPES] + 2 < len(cache.scope_set)
        and cache.used[N_STATES] + 4 < len(cache.state_scope)
        and cache.used[N_FRAMES] + 4 < len(cache.frame_state)
        and 2 * cache.used[N_STEPS] + 4 < len(cache.steps)
    )


@njit(nogil=True, cache=True, forceinline=True)
def append(word_at, words, target, at, word):
    """Write a word of a set, unless it is 0; returns the position of the next word."""
    word_at[target] = at
    words[target] = word
    return target + (word != ZERO)


@njit(nogil=True, cache=True)
def intern_set(cache, end):
    """The number of the set whose words were appended up to `end`."""
    word_at, words, set_start = cache.word_at, cache.words, cache.set_start
    begin = cache.used[N_WORDS]
    n_words = end - begin
    hashed = np.uint64(n_words)
    for i in range(begin, begin + n_words):
        hashed += mix64(words[i] ^ (np.uint64(word_at[i]) * _ODD))
    slots = cache.set_slots
    slot = np.int64(mix64(hashed) & np.uint64(len(slots) - 1))
    while slots[slot] > 0:
        number = slots[slot] - 1
        start = set_start[number]
        is_same = set_start[number + 1] - start == n_words
        i = 0
        while is_same and i < n_words:
            is_same = words[start + i] == words[begin + i]
            is_same = is_same and word_at[start + i] == word_at[begin + i]
            i += 1
        if is_same:
            return np.int64(number)
        slot = (slot + 1) & (len(slots) - 1)
    number = cache.used[N_SETS]
    set_start[number] = begin
    set_start[number + 1] = end
    slots[slot] = number + 1
    cache.used[N_SETS] += 1
    cache.used[N_WORDS] += n_words
    return number


@njit(nogil=True, cache=True)
def take(cache, bits, number):
    """Add a set to `bits`."""
    word_at, words = cache.word_at, cache.words
    for i in range(cache.set_start[number], cache.set_start[number + 1]):
        bits[word_at[i]] |= words[i]


@njit(nogil=True, cache=True)
def intern_scope(cache, number):
    """The scope of a set."""
    if cache.set_scope[number] == UNKNOWN:
        cache.scope_set[cache.used[N_SCOPES]] = number
        cache.used[N_SCOPES] += 1
        cache.set_scope[number] = cache.used[N_SCOPES]
    return np.int64(cache.set_scope[number]) - 1


@njit(nogil=True, cache=True)
def new_state(cache, asking, symbol, scope, sure, late):
    """The number of a new state, with its first frame."""
    number = cache.used[N_STATES]
    cache.used[N_STATES] += 1
    cache.state_asking[number], cache.state_symbol[number] = asking, symbol
    cache.state_scope[number] = scope
    cache.state_sure[number], cache.state_late[number] = sure, late
    cache.state_closed[number], cache.state_masks[number] = 0, UNKNOWN
    cache.first_frame[number] = intern_frame(cache, number, EMPTY)
    return number


@njit(nogil=True, cache=True)
def intern_frame(cache, state, met):
    """The number of the frame of a state with the set `met`."""
    slots = cache.frame_slots
    hashed = mix64((np.uint64(state) << np.uint64(32)) | np.uint64(met))
    slot = np.int64(hashed & np.uint64(len(slots) - 1))
    while slots[slot] > 0:
        number = slots[slot] - 1
        if cache.frame_state[number] == state and cache.frame_met[number] == met:
            return np.int64(number)
        slot = (slot + 1) & (len(slots) - 1)
    number = cache.used[N_FRAMES]
    cache.used[N_FRAMES] += 1
    slots[slot] = number + 1
    cache.frame_state[number], cache.frame_met[number] = state, met
    cache.frame_up[number] = UNKNOWN
    return number


@njit(nogil=True, cache=True, forceinline=True)
def _near(key, hashed, size):
    """A slot near those of frames of about the same time, which are likely needed together."""
    return np.int64(((key >> np.uint64(32)) * _NEAR + (hashed >> _TOP)) & np.uint64(size - 1))


@njit(nogil=True, cache=True, forceinline=True)
def find_step(steps, frame, up):
    """The frame after `up` was met in `frame`, from 1; or UNKNOWN or ONCE."""
    key = (np.uint64(frame) << np.uint64(32)) | np.uint64(up)
    hashed = mix64(key)
    slot = _near(key, hashed, len(steps))
    if steps[slot, 0] == key:
        return np.int64(steps[slot, 1])
    slot = np.int64(hashed & np.uint64(len(steps) - 1))
    while steps[slot, 0] != ZERO:
        if steps[slot, 0] == key:
            return np.int64(steps[slot, 1])
        slot = (slot + 1) & (len(steps) - 1)
    return np.int64(UNKNOWN)


@njit(nogil=True, cache=True)
def note_step(cache, frame, up, following):
    """Store the frame that follows `frame` and `up`, for `find_step`."""
    steps = cache.steps
    key = (np.uint64(frame) << np.uint64(32)) | np.uint64(up)
    hashed = mix64(key)
    slot = _near(key, hashed, len(steps))
    if steps[slot, 0] != ZERO and steps[slot, 0] != key:
        slot = np.int64(hashed & np.uint64(len(steps) - 1))
    while steps[slot, 0] != ZERO and steps[slot, 0] != key:
        slot = (slot + 1) & (len(steps) - 1)
    cache.used[N_STEPS] += steps[slot, 0] == ZERO
    steps[slot, 0] = key
    steps[slot, 1] = np.uint64(np.int64(following))
