"""Ragged rows in CSR form (values, and the offset of each row), and hash sets of integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.kernels.hashing import mix64

Ragged = TypeVar("Ragged", bound=tuple[Any, ...])
FREE = np.int64(np.iinfo(np.int64).min)  # a free slot of a hash set
LARGEST_OFFSET = (1 << 31) - 1  # offsets in tables have 32 bits


def check_offsets(*ends: int) -> None:
    """Refuse a table with more rows or values than its offsets can address."""
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


def concatenated(parts: Sequence[Ragged], n_levels: int) -> Ragged:
    """Join tuples of arrays, of which the first `n_levels` are offsets into the level below each; all begin
    with 0."""
    if len(parts) == 1:
        return parts[0]
    starts: list[Any] = []
    for level in range(n_levels):
        start = np.empty(1 + sum(len(part[level]) - 1 for part in parts), np.int64)
        start[0] = row = end = 0
        for part in parts:
            n_rows = len(part[level]) - 1
            np.add(part[level][1:], end, out=start[row + 1 : row + 1 + n_rows])
            row, end = row + n_rows, end + int(part[level][-1])
        starts.append(start)
    rest = zip(*(part[n_levels:] for part in parts), strict=True)
    return type(parts[0])(*starts, *map(np.concatenate, rest))


@njit(nogil=True, cache=True)
def count_values(values, n_values):
    """How often each of 0 … n_values - 1 occurs, without the int64 copy of NumPy's bincount."""
    counts = np.zeros(n_values, np.int64)
    for i in range(len(values)):
        if 0 <= values[i] < n_values:
            counts[values[i]] += 1
    return counts


@njit(nogil=True, cache=True)
def append_new(row, n_values, value):
    """Append a value to a short row unless the row has it; return the new length."""
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
    """Group sorted 64-bit words by upper half: (start, lower halves), without duplicates."""
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
    """An open-addressed set of 64-bit integers; an empty set is an array of length 0."""
    if len(values) == 0:
        return np.empty(0, np.int64)
    table = np.full((1 << int(2 * len(values)).bit_length()) + 1, FREE, np.int64)
    table[-1] = np.any(values == FREE)  # the last element: is the value FREE in the set?
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
    """True if the value is in the set."""
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


def interleave(
    left_start: NDArray[np.int64],
    left: NDArray[Any],
    right_start: NDArray[np.int64],
    right: NDArray[Any],
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Join two lists of keys per event, event by event, in the wider of the two types."""
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
    """Keep each key once per event, in order of first appearance."""
    start, distinct = np.empty_like(event_start), np.empty_like(keys)
    return start, distinct[: _unique(event_start, keys, start, distinct)]


@njit(nogil=True, cache=True)
def _unique(event_start, keys, start, distinct):
    n_events = len(event_start) - 1
    longest = 0
    for event in range(n_events):
        longest = max(longest, event_start[event + 1] - event_start[event])
    size = 16
    while size < 2 * longest:
        size *= 2
    table = np.empty(size, np.int64)  # positions in `distinct`, so that every key is allowed
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
            while table[slot] >= 0 and distinct[table[slot]] != keys[i]:
                slot = (slot + 1) & (size - 1)
            if table[slot] < 0:
                table[slot] = end
                distinct[end] = keys[i]
                end += 1
    start[n_events] = end
    return end


# -------------------------------------------------------------------- groups of consecutive rows

# A large saved table is checked in groups of rows (`matchyard.storage.unchecked`), of which each array has some
# hundred kilobytes.
GROUP_BITS = 15


def no_groups(n_rows: int) -> NDArray[np.bool_]:
    """The groups of so many rows, none marked."""
    return np.zeros(-(-n_rows >> GROUP_BITS), np.bool_)


def mark_groups(low: NDArray[Any], high: NDArray[Any], is_marked: NDArray[np.bool_]) -> int:
    """Mark the groups that have a row of one of the ranges; return the number of rows of all ranges."""
    return int(_mark_groups(low, high, is_marked))


@njit(nogil=True, cache=True)
def _mark_groups(low, high, is_marked):
    n_rows = 0
    for i in range(len(low)):
        n_rows += np.int64(high[i]) - np.int64(low[i])
        if high[i] > low[i]:
            for group in range(low[i] >> GROUP_BITS, ((high[i] - 1) >> GROUP_BITS) + 1):
                is_marked[group] = True
    return n_rows


@njit(nogil=True, cache=True)
def are_marked(low, high, is_marked):
    """True if all groups that have a row from `low` to `high` - 1 are marked."""
    if high > low:
        for group in range(low >> GROUP_BITS, ((high - 1) >> GROUP_BITS) + 1):
            if not is_marked[group]:
                return False
    return True
