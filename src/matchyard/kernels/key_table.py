"""The key table: from the rows that matched to their keys.

Every table ends in the same four arrays [TagMatch §3.4]:

    key_start     [n_rows + 1]  the keys of each distinct subscription
    keys          [n_keys]      keys of equal subscriptions side by side, so that a match is a copy
    removed_keys  hash set of removed keys; empty in a table without removals
    removed_at    hash set of removed positions in `keys`; likewise

Keys have 32 bits if all keys of the table fit, else 64. Kernels see both as *words* of 32 bits, one or two for
each key, so that they are compiled once: see `in_words`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.csr import in_hash_set
from matchyard.kernels.growing import copy_run
from matchyard.kernels.hashing import prefetch

_MEMCPY = 16  # words: fewer are copied one by one


class KeyTable(NamedTuple):
    """The key table alone: functions that take it are compiled once for all algorithms."""

    key_start: NDArray[np.int32]
    keys: NDArray[np.int32]  # words
    removed_keys: NDArray[np.int64]
    removed_at: NDArray[np.int64]


def key_table(table: Any) -> KeyTable:
    """The last four arrays of a table, with its keys in words."""
    return KeyTable(
        table.key_start, table.keys.view(np.int32), table.removed_keys, table.removed_at
    )


def in_words(table: Any) -> Any:
    """The table with its keys in words, for kernels."""
    return table._replace(keys=table.keys.view(np.int32))


def keys_of(table: Any) -> NDArray[Any]:
    """The keys of a table whose keys may be in words."""
    is_narrow = len(table.keys) == table.key_start[-1]
    keys: NDArray[Any] = table.keys if is_narrow else table.keys.view(np.int64)
    return keys


def narrowed(keys: NDArray[Any]) -> NDArray[Any]:
    """The keys in 32 bits if all of them fit.

    >>> narrowed(np.array([7, -9])).dtype, narrowed(np.array([7, 1 << 31])).dtype
    (dtype('int32'), dtype('int64'))
    """
    limits = np.iinfo(np.int32)
    if len(keys) and not (keys.min() >= limits.min and keys.max() <= limits.max):
        return keys
    return keys.astype(np.int32, copy=False)


@njit(nogil=True, cache=True)
def key_at(table, position):
    """The key at a position of the key table, whose keys are in words."""
    words = table.keys
    if len(words) == table.key_start[-1]:
        return np.int64(words[position])
    low, high = np.int64(words[2 * position]), np.int64(words[2 * position + 1])
    return (high << 32) | (low & 0xFFFFFFFF)


@njit(nogil=True, cache=True)
def is_removed(table, position):
    """True if the subscription at this position of the key table is removed."""
    return in_hash_set(table.removed_keys, key_at(table, position)) or in_hash_set(
        table.removed_at, position
    )


@njit(nogil=True, cache=True)
def positions_of(keys, wanted):
    """The positions of the keys that are in the hash set `wanted`."""
    positions = np.empty(64, np.int64)
    n_found = 0
    for position in range(len(keys)):
        if in_hash_set(wanted, np.int64(keys[position])):
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
    for position in range(table.key_start[-1]):
        total += not is_removed(table, position)
    return total


def living(table: Any, start: int = 0, stop: int | None = None) -> NDArray[np.int64]:
    """The positions of the key table from `start` to `stop` that are not removed."""
    n_keys = int(table.key_start[-1])
    end = n_keys if stop is None else min(stop, n_keys)
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
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The keys of the rows that matched: (event_start, keys), counted first, then filled."""
    if len(hits) > len(table.key_start) and has_one_each(key_table(table)):
        return hit_start, keys_of(table)[hits]
    event_start = np.empty(len(hit_start), np.int64)
    keyed = key_table(table)
    n_keys = count(keyed, hit_start, hits, event_start)
    return event_start, fill(keyed, hits, 0, int(hit_start[-1]), np.empty(n_keys, type_of(keyed)))


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


def type_of(table: KeyTable) -> type[np.signedinteger]:
    """The type of the keys of a key table."""
    return np.int32 if len(table.keys) == table.key_start[-1] else np.int64


def fill(
    table: KeyTable, hits: NDArray[np.int32], first: int, last: int, keys: NDArray[Any]
) -> NDArray[Any]:
    """Write the keys of hits[first:last] into an array with room for them, of the type of the table or wider.

    Its memory should have huge pages: with small pages, touching fresh memory costs four times as much as the copy."""
    if keys.dtype == type_of(table):
        _copy_words(table, hits, first, last, keys.view(np.int32))
    else:
        copy_keys(table, hits, first, last, keys)
    return keys


@njit(nogil=True, cache=True)
def _copy_words(table, hits, first, last, copied):
    """Copy the words of hits[first:last]."""
    key_start, words = table.key_start, table.keys
    width = 1 if len(words) == key_start[-1] else 2
    check = len(table.removed_keys) > 0 or len(table.removed_at) > 0
    end = 0
    for i in range(first, last):
        if i + 16 < last:
            prefetch(words, width * np.int64(key_start[hits[i + 16]]))
        low, high = np.int64(key_start[hits[i]]), np.int64(key_start[hits[i] + 1])
        if check:
            for position in range(low, high):
                if is_removed(table, position):
                    continue
                for word in range(width * position, width * position + width):
                    copied[end] = words[word]
                    end += 1
            continue
        n_words = width * (high - low)
        if n_words >= _MEMCPY:
            copy_run(copied, end, words, width * low, n_words)
        else:
            for word in range(n_words):
                copied[end + word] = words[width * low + word]
        end += n_words


@njit(nogil=True, cache=True)
def copy_keys(table, hits, first, last, copied):
    """Copy the keys of hits[first:last] into an array of 64 bits."""
    key_start, words = table.key_start, table.keys
    check = len(table.removed_keys) > 0 or len(table.removed_at) > 0
    is_narrow = len(words) == key_start[-1]
    end = 0
    for i in range(first, last):
        low, high = np.int64(key_start[hits[i]]), np.int64(key_start[hits[i] + 1])
        if is_narrow and not check:
            if i + 16 < last:
                prefetch(words, key_start[hits[i + 16]])
            for number in range(high - low):  # unsigned, so that the loop becomes vector code
                copied[np.uint64(end) + np.uint64(number)] = words[
                    np.uint64(low) + np.uint64(number)
                ]
            end += high - low
            continue
        for position in range(low, high):
            if check and is_removed(table, position):
                continue
            copied[end] = key_at(table, position)
            end += 1


def rows_at(key_start: NDArray[Any], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of the keys at the given positions of the key table."""
    return np.searchsorted(key_start, positions, side="right") - 1
