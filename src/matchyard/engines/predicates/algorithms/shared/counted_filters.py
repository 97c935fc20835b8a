"""Shared by the counting algorithms: constraints as entries, and counters that are rarely reset.

Filters are ordered by the number of constraints to satisfy. Filters with none come first and are
always candidates; filters with one come next and need no counter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared import exact_check, stored_filters
from matchyard.engines.predicates.algorithms.shared.stored_filters import Stored
from matchyard.engines.predicates.encoder.layout import Filters
from matchyard.kernels.csr import ragged

STEP = 4096  # constraints that are counted between two looks at the full counts
_LAST = np.iinfo(np.int32).max


class Entries(NamedTuple):
    """The constraints to satisfy, one entry per piece; "all but [a, b]" is one too."""

    slots: NDArray[np.int32]
    low: NDArray[np.signedinteger]  # above `high` in an entry that excludes what is between
    high: NDArray[np.signedinteger]
    targets: NDArray[np.int32]  # the filter, or ~ the number of a constraint with several entries
    union_filter: NDArray[np.int32]  # the filters of those constraints
    sizes: NDArray[np.int32]  # [n_filters] ascending: constraints to satisfy


class Counters(NamedTuple):
    """The counters of a thread. A count below `base` is of an earlier event and means 0."""

    counts: NDArray[np.int32]  # [n_filters]
    stamps: NDArray[np.int32]  # the last event that satisfied a constraint with several entries
    base: NDArray[np.int32]  # [1]
    first: NDArray[np.int32]  # see `exact_check`
    satisfied: NDArray[np.int32]  # [STEP] targets of constraints…
    full: NDArray[np.int32]  # [STEP] …and filters with a full count


def store(subscriptions: Filters, keys: NDArray[np.int64]) -> Stored:
    """The filters in the order of their sizes."""
    rows = stored_filters.distinct(subscriptions, keys)
    filters = rows.filters
    positive = ragged(filters.groups == 0)[filters.filter_start]
    sizes = np.diff(positive)[filters.row_start[0] : filters.row_start[-1]]
    return stored_filters.store(rows, np.argsort(sizes, kind="stable"))


def entries(stored: Stored) -> Entries:
    """The entries of a table, slot by slot."""
    n_filters, n_constraints = len(stored.filter_start) - 1, int(stored.filter_start[-1])
    filter_of = np.repeat(np.arange(n_filters, dtype=np.int32), np.diff(stored.filter_start))
    is_positive = stored.groups == 0 if len(stored.groups) else np.ones(n_constraints, bool)
    sizes = np.bincount(filter_of[is_positive], minlength=n_filters).astype(np.int32)
    start = stored.piece_start if len(stored.piece_start) else np.arange(n_constraints + 1)
    n_pieces = np.diff(start)
    excludes = np.flatnonzero((n_pieces == 2) & is_positive)
    excludes = excludes[_is_all_but(stored, start[excludes])]
    low, high = stored.low.copy(), stored.high.copy()
    low[start[excludes]] = low[start[excludes] + 1]
    n_pieces[excludes] = 1
    is_union = (n_pieces > 1) & is_positive
    targets = np.where(is_union, ~(np.cumsum(is_union) - 1), filter_of).astype(np.int32)
    kept = np.repeat(is_positive, np.diff(start)) & (stored.low <= stored.high)
    kept[start[excludes] + 1] = False
    chosen = np.flatnonzero(kept)
    chosen = chosen[np.argsort(stored.slots[chosen], kind="stable")]
    targets = np.repeat(targets, np.diff(start))[chosen]
    return Entries(
        stored.slots[chosen], low[chosen], high[chosen], targets, filter_of[is_union], sizes
    )


def _is_all_but(stored: Stored, pieces: NDArray[Any]) -> NDArray[np.bool_]:
    """True if a piece and the next one are all codes but an interval."""
    limits, after = np.iinfo(stored.low.dtype), pieces + 1
    is_split = (stored.low[pieces] == limits.min) & (stored.high[after] == limits.max)
    is_split &= stored.slots[pieces] == stored.slots[after]
    return is_split & (stored.high[pieces] < stored.low[after])


def counters(table: Any, n_stamps: int) -> Counters:
    """Counters for one thread."""
    return Counters(
        np.zeros(len(table.sizes), np.int32),
        np.zeros(n_stamps, np.int32),
        np.zeros(1, np.int32),
        exact_check.no_slots(stored_filters.n_slots(table)),
        np.empty(STEP + 1, np.int32),
        np.empty(STEP + 1, np.int32),
    )


@njit(nogil=True, cache=True)
def next_base(counters, stride):
    """Begin an event with a new base above all counts of earlier events. CCM resets one copy of its
    counters while it uses the other; here a reset is due every few million events."""
    if counters.base[0] > _LAST - 2 * stride:
        counters.counts[:] = 0
        counters.stamps[:] = 0
        counters.base[0] = 0
    counters.base[0] += stride
    return counters.base[0]


@njit(nogil=True, cache=True)
def stride_of(sizes):
    """The distance of bases, more than any count of an event."""
    return (sizes[-1] if len(sizes) else 0) + 1


@njit(nogil=True, cache=True)
def n_below(sizes, size):
    """The number of filters with fewer constraints."""
    return np.searchsorted(sizes, size)


@njit(nogil=True, cache=True)
def count_all(targets, start, end, union_filter, counts, stamps, sizes, n_small, base, full):
    """Count up the filters of satisfied constraints; those whose count is full go to `full`, and
    their number is returned. Arrays are passed one by one: a table is copied at every call.

    A filter's size is only looked up where it matters: most that are counted once in an event are
    not counted again.
    """
    n_full = 0
    for i in range(start, end):
        number = targets[i]
        if number < 0:
            if stamps[~number] == base:
                continue
            stamps[~number] = base
            number = union_filter[~number]
        count = counts[number]
        if count < base:
            counts[number] = base + 1
            full[n_full] = number
            n_full += number < n_small
        else:
            counts[number] = count + 1
            full[n_full] = number
            n_full += count + 1 - base == sizes[number]
    return n_full


@njit(nogil=True, cache=True)
def put(values, end, value):
    """Append to an array that grows by doubling; returns it."""
    if end == len(values):
        values = np.append(values, np.empty(max(1024, end), values.dtype))
    values[end] = value
    return values
