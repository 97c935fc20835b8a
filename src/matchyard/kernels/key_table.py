"""The key table: from the rows that matched to their keys.

Every table ends in the same four arrays [TagMatch §3.4]:

    key_start     [n_rows + 1]  the keys of each distinct subscription
    keys          [n_keys]      keys of equal subscriptions side by side, so that a match is a copy
    removed_keys  hash set of removed keys; empty in a table without removals
    removed_at    hash set of removed positions in `keys`; likewise
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.csr import in_hash_set
from matchyard.kernels.hashing import prefetch


class KeyTable(NamedTuple):
    """The key table alone: functions that take it are compiled once for all algorithms."""

    key_start: NDArray[np.int32]
    keys: NDArray[np.int64]
    removed_keys: NDArray[np.int64]
    removed_at: NDArray[np.int64]


def key_table(table: Any) -> KeyTable:
    """The last four arrays of a table."""
    return KeyTable(table.key_start, table.keys, table.removed_keys, table.removed_at)


@njit(nogil=True, cache=True)
def is_removed(table, position):
    """True if the subscription at this position of the key table is removed."""
    return in_hash_set(table.removed_keys, table.keys[position]) or in_hash_set(
        table.removed_at, position
    )


@njit(nogil=True, cache=True)
def positions_of(keys, wanted):
    """The positions of the keys that are in the hash set `wanted`."""
    positions = np.empty(64, np.int64)
    n_found = 0
    for position in range(len(keys)):
        if in_hash_set(wanted, keys[position]):
            if n_found == len(positions):
                positions = np.append(positions, np.empty(n_found, np.int64))
            positions[n_found] = position
            n_found += 1
    return positions[:n_found]


def n_living(table: Any) -> int:
    """The number of positions of the key table that are not removed."""
    return int(_n_living(key_table(table)))


@njit(nogil=True, cache=True)
def _n_living(table):
    total = 0
    for position in range(len(table.keys)):
        total += not is_removed(table, position)
    return total


def living(table: Any, start: int = 0, stop: int | None = None) -> NDArray[np.int64]:
    """The positions of the key table from `start` to `stop` that are not removed."""
    end = len(table.keys) if stop is None else min(stop, len(table.keys))
    return _living(key_table(table), start, end)


@njit(nogil=True, cache=True)
def _living(table, start, stop):
    positions = np.empty(stop - start, np.int64)
    n_living = 0
    for position in range(start, stop):
        if not is_removed(table, position):
            positions[n_living] = position
            n_living += 1
    return positions[:n_living]


def gather(
    table: Any, hit_start: NDArray[np.int64], hits: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The keys of the rows that matched: (event_start, keys), counted first, then filled."""
    table = key_table(table)
    if len(hits) > len(table.key_start) and has_one_each(table):
        return hit_start, table.keys[hits]
    event_start = np.empty(len(hit_start), np.int64)
    return event_start, fill(table, hit_start, hits, count(table, hit_start, hits, event_start))


@njit(nogil=True, cache=True)
def has_one_each(table):
    """True if every row has one key, and none is removed."""
    if len(table.removed_keys) > 0 or len(table.removed_at) > 0:
        return False
    key_start = table.key_start
    n_others = 0
    for row in range(len(key_start)):  # without an early exit, so that the loop is vectorized
        n_others += key_start[row] != row
    return n_others == 0


@njit(nogil=True, cache=True)
def count(table, hit_start, hits, event_start):
    """Fill `event_start` with the offsets of each event's keys; return the number of keys."""
    n_events, n_hits = len(hit_start) - 1, hit_start[-1]
    key_start = table.key_start
    check = len(table.removed_keys) > 0 or len(table.removed_at) > 0
    total = 0
    for event in range(n_events):
        event_start[event] = total
        for i in range(hit_start[event], hit_start[event + 1]):
            if i + 24 < n_hits:
                prefetch(key_start, hits[i + 24])
            if check:
                for position in range(key_start[hits[i]], key_start[hits[i] + 1]):
                    total += not is_removed(table, position)
            else:
                total += key_start[hits[i] + 1] - key_start[hits[i]]
    event_start[n_events] = total
    return total


def fill(
    table: Any, hit_start: NDArray[np.int64], hits: NDArray[np.int32], n_keys: int
) -> NDArray[np.int64]:
    """The keys of the hits. NumPy allocates the array, since it asks for huge pages: with small
    pages, touching fresh memory costs four times as much as the copy."""
    keys = np.empty(n_keys, np.int64)
    copy_keys(key_table(table), hit_start, hits, keys)
    return keys


@njit(nogil=True, cache=True)
def copy_keys(table, hit_start, hits, copied):
    """Copy the keys of the hits, event after event, into an array with room for them."""
    key_start, keys, n_hits = table.key_start, table.keys, hit_start[-1]
    check = len(table.removed_keys) > 0 or len(table.removed_at) > 0
    end = 0
    for i in range(n_hits):
        if i + 16 < n_hits:
            prefetch(keys, key_start[hits[i + 16]])
        for position in range(key_start[hits[i]], key_start[hits[i] + 1]):
            if check and is_removed(table, position):
                continue
            copied[end] = keys[position]
            end += 1


def rows_at(key_start: NDArray[Any], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of the keys at the given positions of the key table."""
    return np.searchsorted(key_start, positions, side="right") - 1
