"""Ragged rows in CSR form, and the key table: from the sets that matched to their keys.

Every table ends in the same four arrays, the key table [TagMatch §3.4]:

    key_start     [n_sets + 1]  the keys of each distinct set
    keys          [n_keys]      keys of equal sets side by side, so that a match is a copy
    removed_keys  hash set of keys that are gone; empty in a table without removals
    removed_at    hash set of positions in `keys` that are gone; likewise
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.kernels.hashing import mix64, prefetch

FREE = np.int64(np.iinfo(np.int64).min)  # a free slot of a hash set; its last entry says…
LARGEST_OFFSET = (1 << 31) - 1  # that tables can store, which have 32 bits for one


def check_offsets(*ends: int) -> None:
    """Refuse a table of more rows or values than its offsets can say."""
    if max(ends) > LARGEST_OFFSET:
        raise UsageError("more than 2^31 values in one table: use a smaller shard_size")


@njit(nogil=True, cache=True)
def ragged(counts):
    """Offsets of rows of the given lengths, as int64 with one more entry than rows."""
    start = np.empty(len(counts) + 1, np.int64)
    start[0] = 0
    for row in range(len(counts)):
        start[row + 1] = start[row] + counts[row]
    return start


@njit(nogil=True, cache=True)
def count_values(values, n_values):
    """How often each of 0 … n_values - 1 occurs, others left out; NumPy's bincount would copy them
    to 64 bits."""
    counts = np.zeros(n_values, np.int64)
    for i in range(len(values)):
        if 0 <= values[i] < n_values:
            counts[values[i]] += 1
    return counts


@njit(nogil=True, cache=True)
def append_new(row, n_values, value):
    """Append a value to a short row unless it is there; returns how many there are."""
    for i in range(n_values):
        if row[i] == value:
            return n_values
    row[n_values] = value
    return n_values + 1


@njit(nogil=True, cache=True)
def take_rows(start, values, rows):
    """The given rows, in that order: (start, values)."""
    new_start = np.empty(len(rows) + 1, np.int64)
    new_start[0] = 0
    for i in range(len(rows)):
        new_start[i + 1] = new_start[i] + start[rows[i] + 1] - start[rows[i]]
    taken = np.empty(new_start[-1], values.dtype)
    for i in range(len(rows)):
        source = start[rows[i]]
        for j in range(new_start[i + 1] - new_start[i]):
            taken[new_start[i] + j] = values[source + j]
    return new_start, taken


@njit(nogil=True, cache=True)
def by_upper_half(words, n_rows):
    """Sorted words of two halves as rows by the upper one: (start, lower halves); a word that is
    there twice counts once."""
    start = np.zeros(n_rows + 1, np.int64)
    halves = np.empty(len(words), np.int32)
    end, row = 0, 0
    for i in range(len(words)):
        if i > 0 and words[i] == words[i - 1]:
            continue
        while row < np.int64(words[i] >> np.uint64(32)):
            row += 1
            start[row] = end
        halves[end] = np.int64(words[i] & np.uint64(0xFFFFFFFF))
        end += 1
    start[row + 1 :] = end
    return start, halves[:end]


def hash_set(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """An open-addressed set of 64-bit integers; no values make an array of length 0."""
    if len(values) == 0:
        return np.empty(0, np.int64)
    table = np.full((1 << int(2 * len(values)).bit_length()) + 1, FREE, np.int64)
    table[-1] = np.any(values == FREE)  # …whether the value that marks free slots is in it
    _insert_all(table, np.ascontiguousarray(values, np.int64))
    return table


def hash_set_values(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """The values in a hash set."""
    values = table[:-1]
    lowest = np.full(int(table[-1:].any()), FREE, np.int64)
    return np.concatenate([values[values != FREE], lowest])


@njit(nogil=True, cache=True)
def _insert_all(table, values):
    mask = len(table) - 2
    for i in range(len(values)):
        slot = np.int64(mix64(values[i]) & np.uint64(mask))
        while table[slot] != FREE and table[slot] != values[i]:
            slot = (slot + 1) & mask
        table[slot] = values[i]


@njit(nogil=True, cache=True)
def in_hash_set(table, value):
    """Is the value in the set?"""
    if len(table) == 0:
        return False
    if value == FREE:
        return table[-1] != 0
    mask = len(table) - 2
    slot = np.int64(mix64(value) & np.uint64(mask))
    while table[slot] != FREE:
        if table[slot] == value:
            return True
        slot = (slot + 1) & mask
    return False


class KeyTable(NamedTuple):
    """The key table of a table alone: what takes it is compiled once for all algorithms."""

    key_start: NDArray[np.int32]
    keys: NDArray[np.int64]
    removed_keys: NDArray[np.int64]
    removed_at: NDArray[np.int64]


def key_table(table: Any) -> KeyTable:
    """The last four arrays of a table."""
    return KeyTable(table.key_start, table.keys, table.removed_keys, table.removed_at)


@njit(nogil=True, cache=True)
def is_removed(table, position):
    """Is the subscription at this position of the key table gone?"""
    return in_hash_set(table.removed_keys, table.keys[position]) or in_hash_set(
        table.removed_at, position
    )


@njit(nogil=True, cache=True)
def positions_of(keys, wanted):
    """Where the keys of a hash set stand, in one pass."""
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
    """How many positions of the key table are not removed."""
    return int(_n_living(key_table(table)))


@njit(nogil=True, cache=True)
def _n_living(table):
    total = 0
    for position in range(len(table.keys)):
        total += not is_removed(table, position)
    return total


def living(table: Any) -> NDArray[np.int64]:
    """The positions of the key table that are not removed."""
    return _living(key_table(table))


@njit(nogil=True, cache=True)
def _living(table):
    positions = np.empty(len(table.keys), np.int64)
    n_living = 0
    for position in range(len(table.keys)):
        if not is_removed(table, position):
            positions[n_living] = position
            n_living += 1
    return positions[:n_living]


def gather(
    table: Any, hit_start: NDArray[np.int64], hits: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The keys of the sets that matched: (event_start, keys), counted first, then filled."""
    table = key_table(table)
    if len(hits) > len(table.key_start) and has_one_each(table):
        return hit_start, table.keys[hits]
    event_start = np.empty(len(hit_start), np.int64)
    return event_start, fill(table, hit_start, hits, count(table, hit_start, hits, event_start))


@njit(nogil=True, cache=True)
def has_one_each(table):
    """Has every set one key, none of them removed?"""
    if len(table.removed_keys) > 0 or len(table.removed_at) > 0:
        return False
    key_start = table.key_start
    n_others = 0
    for row in range(len(key_start)):  # without an exit, and so many at a time
        n_others += key_start[row] != row
    return n_others == 0


@njit(nogil=True, cache=True)
def count(table, hit_start, hits, event_start):
    """Offsets of the keys of each event; returns their number."""
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
    """The keys themselves. NumPy makes the array, since it asks for huge pages: touching fresh
    memory costs four times as much as the copy where the pages are small."""
    keys = np.empty(n_keys, np.int64)
    copy_keys(key_table(table), hit_start, hits, keys)
    return keys


@njit(nogil=True, cache=True)
def copy_keys(table, hit_start, hits, found):
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
            found[end] = keys[position]
            end += 1


def rows_at(key_start: NDArray[Any], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows whose keys stand at those positions of the key table."""
    return np.searchsorted(key_start, positions, side="right") - 1


def interleave(
    left_start: NDArray[np.int64],
    left: NDArray[Any],
    right_start: NDArray[np.int64],
    right: NDArray[Any],
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Two lists of keys per event, joined event by event; narrow where both are."""
    if len(right) == 0:
        return left_start, left
    joined = np.empty(len(left) + len(right), np.result_type(left, right))
    _interleave(left_start, left, right_start, right, joined)
    return left_start + right_start, joined


@njit(nogil=True, cache=True)
def _interleave(left_start, left, right_start, right, joined):
    end = 0
    for event in range(len(left_start) - 1):
        for i in range(left_start[event], left_start[event + 1]):
            joined[end] = left[i]
            end += 1
        for i in range(right_start[event], right_start[event + 1]):
            joined[end] = right[i]
            end += 1


def unique(
    event_start: NDArray[np.int64], keys: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Each key once per event, in order of first appearance."""
    start, found = np.empty_like(event_start), np.empty_like(keys)
    return start, found[: _unique(event_start, keys, start, found)]


@njit(nogil=True, cache=True)
def _unique(event_start, keys, start, found):
    n_events = len(event_start) - 1
    longest = 0
    for event in range(n_events):
        longest = max(longest, event_start[event + 1] - event_start[event])
    size = 16
    while size < 2 * longest:
        size *= 2
    table = np.empty(size, np.int64)  # places in `found`, so that every key is allowed
    end = 0
    for event in range(n_events):
        start[event] = end
        first, last = event_start[event], event_start[event + 1]
        size = 16
        while size < 2 * (last - first):
            size *= 2
        table[:size] = -1
        for i in range(first, last):
            slot = np.int64(mix64(keys[i]) & np.uint64(size - 1))
            while table[slot] >= 0 and found[table[slot]] != keys[i]:
                slot = (slot + 1) & (size - 1)
            if table[slot] < 0:
                table[slot] = end
                found[end] = keys[i]
                end += 1
    start[n_events] = end
    return end


def next_interfaces(
    event_start: NDArray[np.int64],
    keys: NDArray[Any],
    trees: NDArray[np.int64],
    incoming: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """ICN forwarding [thesis §3.4.5]: keys are tree << 32 | interface; keep each interface on the
    event's own tree once, except the one that the event came from."""
    start, kept = np.empty_like(event_start), np.empty(len(keys), np.int64)
    n_kept = _on_tree(event_start, keys, trees, incoming, start, kept)
    return unique(start, kept[:n_kept])


@njit(nogil=True, cache=True)
def _on_tree(event_start, keys, trees, incoming, start, kept):
    end = 0
    for event in range(len(event_start) - 1):
        start[event] = end
        for i in range(event_start[event], event_start[event + 1]):
            key = np.int64(keys[i])
            interface = key & 0xFFFFFFFF
            if key >> 32 == trees[event] and interface != incoming[event]:
                kept[end] = interface
                end += 1
    start[len(event_start) - 1] = end
    return end
