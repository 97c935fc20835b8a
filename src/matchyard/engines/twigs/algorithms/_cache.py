"""lazy_dfa: the states met so far, and what follows from each; made when first needed.

    state   what may still be met: the classes that the element *entered*, the *deep*
            requirements, which any element below may meet, and what those above are *asking* for
    frame   a state, and the requirements that elements below have *met* so far
    up      of a frame: the requirements that its element meets for those above, when it closes

All are numbers; a set of classes or requirements is a number too, one per content. When there is no
room left, all is forgotten but what the open elements need.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.hashing import mix64

EMPTY = 0  # the set without members, and the frame and state of an element that nobody asks for
UNKNOWN = 0  # in `next_state`, `frame_up` and `steps`, which hold numbers counted from 1
(N_SETS, N_MEMBERS, N_STATES, N_FRAMES, N_STEPS, N_CLEARED) = range(6)


class Cache(NamedTuple):
    """Arrays with room for a fixed number of each; `used` says how much is taken."""

    used: NDArray[np.int64]  # [6] see N_SETS and its like
    set_start: NDArray[np.int64]  # [n_sets + 1]
    members: NDArray[np.int32]  # of all sets, ascending in each
    set_places: NDArray[np.int32]  # hash tables: set, state and frame by their contents
    state_places: NDArray[np.int32]
    frame_places: NDArray[np.int32]
    entered: NDArray[np.int32]  # [n_states] sets of classes
    deep: NDArray[np.int32]  # sets of requirements, and so the next
    asking: NDArray[np.int32]  # what the element may meet for those above
    relevant: NDArray[np.int32]  # what its children may meet, for the element or those above
    next_state: NDArray[np.int32]  # [n_states, n_tags] from 1, UNKNOWN where nobody asked yet
    frame_state: NDArray[np.int32]  # [n_frames] frame i < n_states is state i with nothing met…
    frame_met: NDArray[np.int32]
    frame_up: NDArray[np.int32]  # sets from 1
    first_frame: NDArray[np.int32]  # [n_states] …and here it is found
    step_keys: NDArray[np.uint64]  # hash table: frame and up to the frame with both
    step_frames: NDArray[np.int32]


def new_cache(n_tags: int, n_bytes: int, n_least: int) -> Cache:
    """An empty cache of about that many bytes, with room for at least `n_least` members."""
    n_members = max(n_bytes // 16, n_least)
    n_sets = n_members // 2 + 8
    n_states = max(n_bytes // 4 // (4 * n_tags), 4)
    n_frames = n_sets
    size = 16
    while size < 2 * n_sets:
        size *= 2
    # Memory that is not touched is not taken: only zeros may be asked for.
    cache = Cache(
        np.zeros(6, np.int64),
        np.zeros(n_sets + 1, np.int64),
        np.zeros(n_members, np.int32),
        np.zeros(size, np.int32),
        np.zeros(size, np.int32),
        np.zeros(size, np.int32),
        np.zeros(n_states, np.int32),
        np.zeros(n_states, np.int32),
        np.zeros(n_states, np.int32),
        np.zeros(n_states, np.int32),
        np.zeros((n_states, n_tags), np.int32),
        np.zeros(n_frames, np.int32),
        np.zeros(n_frames, np.int32),
        np.zeros(n_frames, np.int32),
        np.zeros(n_states, np.int32),
        np.zeros(size, np.uint64),
        np.zeros(size, np.int32),
    )
    clear(cache)
    return cache


@njit(nogil=True, cache=True)
def clear(cache):
    """Forget everything; the empty set, state and frame are made anew."""
    cache.set_places[:] = 0
    cache.state_places[:] = 0
    cache.frame_places[:] = 0
    cache.step_keys[:] = np.uint64(0)
    cache.next_state[: cache.used[N_STATES]] = UNKNOWN
    cache.used[:N_CLEARED] = 0
    cache.used[N_CLEARED] += 1
    nothing = np.empty(0, np.int32)
    intern_set(cache, nothing)
    intern_state(cache, EMPTY, EMPTY, EMPTY, EMPTY)


@njit(nogil=True, cache=True)
def has_room(cache, n_members):
    """Is there room for a few new states and frames with sets of so many members in all?"""
    return (
        cache.used[N_MEMBERS] + n_members <= len(cache.members)
        and cache.used[N_SETS] + 8 < len(cache.set_start)
        and cache.used[N_STATES] + 2 < len(cache.entered)
        and cache.used[N_FRAMES] + 4 < len(cache.frame_state)
        and 2 * cache.used[N_STEPS] + 4 < len(cache.step_keys)
    )


@njit(nogil=True, cache=True, forceinline=True)
def set_of(cache, number):
    """The members of a set."""
    return cache.members[cache.set_start[number] : cache.set_start[number + 1]]


@njit(nogil=True, cache=True)
def intern_set(cache, members):
    """The number of the set with these members, ascending."""
    hashed = np.uint64(len(members))
    for member in members:
        hashed = mix64(hashed ^ np.uint64(member))
    places = cache.set_places
    place = np.int64(hashed & np.uint64(len(places) - 1))
    while places[place] > 0:
        number = places[place] - 1
        found = set_of(cache, number)
        if len(found) == len(members) and (found == members).all():
            return np.int64(number)
        place = (place + 1) & (len(places) - 1)
    number = cache.used[N_SETS]
    start = cache.used[N_MEMBERS]
    cache.members[start : start + len(members)] = members
    cache.set_start[number] = start
    cache.set_start[number + 1] = start + len(members)
    places[place] = number + 1
    cache.used[N_SETS] += 1
    cache.used[N_MEMBERS] += len(members)
    return number


@njit(nogil=True, cache=True, forceinline=True)
def _pair(first, second):
    return mix64((np.uint64(first) << np.uint64(32)) | np.uint64(second))


@njit(nogil=True, cache=True)
def find_state(cache, entered, deep, asking):
    """The state with these sets, or -1."""
    places = cache.state_places
    place = np.int64(mix64(_pair(entered, deep) ^ np.uint64(asking)) & np.uint64(len(places) - 1))
    while places[place] > 0:
        number = places[place] - 1
        is_same = cache.entered[number] == entered and cache.deep[number] == deep
        if is_same and cache.asking[number] == asking:
            return np.int64(number)
        place = (place + 1) & (len(places) - 1)
    return np.int64(-1)


@njit(nogil=True, cache=True)
def intern_state(cache, entered, deep, asking, relevant):
    """The number of a new state, with its first frame."""
    places = cache.state_places
    place = np.int64(mix64(_pair(entered, deep) ^ np.uint64(asking)) & np.uint64(len(places) - 1))
    while places[place] > 0:
        place = (place + 1) & (len(places) - 1)
    number = cache.used[N_STATES]
    cache.used[N_STATES] += 1
    places[place] = number + 1
    cache.entered[number], cache.deep[number] = entered, deep
    cache.asking[number], cache.relevant[number] = asking, relevant
    cache.first_frame[number] = intern_frame(cache, number, EMPTY)
    return number


@njit(nogil=True, cache=True)
def intern_frame(cache, state, met):
    """The number of the frame of that state in which this set is met."""
    places = cache.frame_places
    place = np.int64(_pair(state, met) & np.uint64(len(places) - 1))
    while places[place] > 0:
        number = places[place] - 1
        if cache.frame_state[number] == state and cache.frame_met[number] == met:
            return np.int64(number)
        place = (place + 1) & (len(places) - 1)
    number = cache.used[N_FRAMES]
    cache.used[N_FRAMES] += 1
    places[place] = number + 1
    cache.frame_state[number], cache.frame_met[number] = state, met
    cache.frame_up[number] = UNKNOWN
    return number


@njit(nogil=True, cache=True, forceinline=True)
def find_step(keys, frames, frame, up):
    """The frame after `up` was met in `frame`; UNKNOWN where nobody asked yet, otherwise from 1."""
    key = (np.uint64(frame) << np.uint64(32)) | np.uint64(up)
    place = np.int64(mix64(key) & np.uint64(len(keys) - 1))
    while keys[place] != np.uint64(0):
        if keys[place] == key:
            return np.int64(frames[place])
        place = (place + 1) & (len(keys) - 1)
    return np.int64(UNKNOWN)


@njit(nogil=True, cache=True)
def note_step(cache, frame, up, found):
    """Remember what `find_step` is to find."""
    keys = cache.step_keys
    key = (np.uint64(frame) << np.uint64(32)) | np.uint64(up)
    place = np.int64(mix64(key) & np.uint64(len(keys) - 1))
    while keys[place] != np.uint64(0):
        place = (place + 1) & (len(keys) - 1)
    keys[place] = key
    cache.step_frames[place] = found + 1
    cache.used[N_STEPS] += 1
