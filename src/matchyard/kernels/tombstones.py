"""Removed keys, each with the version since which it is removed: a set that grows while threads read it.

A reader knows its own version and ignores newer entries, so nobody has to copy the set for a
removal. A free slot has the version NEVER. Whichever half of a new entry another thread sees first, it is no
entry for that thread: a thread with a version that includes the entry got this version after both.

    slots   [n_slots + 1, 2] key and version; the last is for the key that marks free slots
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.csr import FREE
from matchyard.kernels.growing import put
from matchyard.kernels.hashing import mix64

NEVER = np.int64(np.iinfo(np.int64).max)


def new_slots(n_slots: int) -> NDArray[np.int64]:
    """An empty set with a power of two of slots."""
    slots = np.full((n_slots + 1, 2), NEVER, np.int64)
    slots[:, 0] = FREE
    return slots


@njit(cache=True)
def _find(slots, key):
    """The slot of a key, or the free slot for it."""
    mask = len(slots) - 2
    if key == FREE:
        return np.int64(len(slots) - 1)
    slot = np.int64(mix64(key) & np.uint64(mask))
    while slots[slot, 0] != FREE and slots[slot, 0] != key:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True)
def insert(slots, keys, version):
    """Enter keys, of which less than half as many as slots may be in the set; returns how many are new.
    A key that is in the set keeps its version."""
    n_new = 0
    for i in range(len(keys)):
        slot = _find(slots, keys[i])
        if slots[slot, 1] == NEVER:
            slots[slot, 0], slots[slot, 1] = keys[i], version
            n_new += 1
    return n_new


@njit(cache=True)
def copy_entries(slots, larger):
    """Enter all entries of a set into a larger one."""
    for i in range(len(slots)):
        if slots[i, 1] != NEVER:
            slot = _find(larger, slots[i, 0])
            larger[slot, 0], larger[slot, 1] = slots[i, 0], slots[i, 1]


@njit(nogil=True, cache=True)
def is_removed(slots, key, version):
    """True if a reader of this version sees that the key is removed."""
    return slots[_find(slots, key), 1] <= version


@njit(nogil=True, cache=True)
def keep_living(slots, version, event_start, keys):
    """(event_start, keys) without the keys that are removed."""
    start, living, n_living = np.empty_like(event_start), np.empty_like(keys), 0
    for event in range(len(event_start) - 1):
        start[event] = n_living
        for i in range(event_start[event], event_start[event + 1]):
            living[n_living] = keys[i]
            n_living += not is_removed(slots, np.int64(keys[i]), version)
    start[len(event_start) - 1] = n_living
    kept = np.empty(n_living, keys.dtype)
    put(kept, 0, living, 0, n_living)
    return start, kept


@njit(cache=True)
def first_living(slots, version, keys, n_keys):
    """Move the keys that are not removed to the front of `keys`; returns how many of `n_keys` they are."""
    n_living = 0
    for i in range(n_keys):
        if not is_removed(slots, keys[i], version):
            keys[n_living] = keys[i]
            n_living += 1
    return n_living


@njit(nogil=True, cache=True)
def living_among(slots, version, keys, positions):
    """The positions whose keys are not removed."""
    kept, n_kept = np.empty(len(positions), np.int64), 0
    for i in range(len(positions)):
        kept[n_kept] = positions[i]
        n_kept += not is_removed(slots, keys[positions[i]], version)
    return kept[:n_kept]
