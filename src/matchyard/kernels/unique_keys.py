"""The distinct keys of each event, straight from the key table: a key that an event has already is not written.

Each key of the table has a mark, the last event that had the key. An event that has all keys of the table is done.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.growing import with_room
from matchyard.kernels.key_table import KeyTable, is_removed, key_at, keys_of, type_of

_SPARSE = 8  # marks per key at most: keys that are farther apart have none


class _Marks(NamedTuple):
    lowest: np.int64  # the key of the first mark
    n_distinct: np.int64  # keys
    events: NDArray[np.int32]  # the last event that had each key, counted from 2


def unique_keys(
    table: KeyTable, hit_start: NDArray[np.int64], hits: NDArray[np.int32], writes: bool = True
) -> tuple[NDArray[np.int64], NDArray[np.signedinteger]] | None:
    """(event_start, keys) with each key once per event, or event_start alone and no keys; None if the keys of the
    table are too far apart for marks. This looks at all keys of the table first."""
    keys = keys_of(table)
    if not len(keys):
        return None
    lowest, highest = int(keys.min()), int(keys.max())
    if highest - lowest >= _SPARSE * len(keys):
        return None
    events = np.zeros(highest - lowest + 1, np.int32)
    marks = _Marks(np.int64(lowest), np.int64(_n_distinct(table, lowest, events)), events)
    event_start = np.zeros(len(hit_start), np.int64)
    found = _unique(table, hit_start, hits, marks, event_start, writes)
    return event_start, found.astype(type_of(table))


@njit(nogil=True, cache=True)
def _n_distinct(table, lowest, events):
    n_distinct = 0
    for position in range(table.key_start[-1]):
        mark = key_at(table, position) - lowest
        n_distinct += events[mark] == 0
        events[mark] = 1
    return n_distinct


@njit(nogil=True, cache=True)
def _unique(table, hit_start, hits, marks, event_start, writes):
    key_start, events = table.key_start, marks.events
    check = len(table.removed_keys) > 0 or len(table.removed_at) > 0
    keys, end = np.empty(1024 if writes else 0, np.int64), 0
    for event in range(len(hit_start) - 1):
        stamp, begin = np.int32(event + 2), end
        for i in range(hit_start[event], hit_start[event + 1]):
            if end - begin == marks.n_distinct:
                break
            low, high = key_start[hits[i]], key_start[hits[i] + 1]
            if writes:
                keys = with_room(keys, end, end + high - low)
            for position in range(low, high):
                key = key_at(table, position)
                if events[key - marks.lowest] == stamp or (check and is_removed(table, position)):
                    continue
                events[key - marks.lowest] = stamp
                if writes:
                    keys[end] = key
                end += 1
        event_start[event + 1] = end
    return keys[:end] if writes else keys
