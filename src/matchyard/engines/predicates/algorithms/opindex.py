"""opindex: file rows under their rarest attribute, and count the bounds that hold [OpIndex].

The rarest attribute of a filter is its *pivot*: an event that lacks it cannot match. Per pivot and
attribute there are two sorted lists, of the bounds for `>=` and for `<=`; a value
satisfies the first bounds of one list and the last of the other. A row matches when all its bounds
are counted. Rows are in the order of their pivots. A pivot with many rows has its lists in several
parts, so that the counts of one part stay in the cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared import intervals, stored_filters
from matchyard.engines.predicates.encoder.layout import Batch, Filters, Vocabulary
from matchyard.errors import UsageError
from matchyard.kernels import csr
from matchyard.kernels.inspection import Inspection
from matchyard.matches import Part

DEVICES = ("cpu",)
SUPPORTS = intervals.SUPPORTS
workspace = intervals.workspace
subscriptions = stored_filters.subscriptions


class Options(NamedTuple):
    """The options of the algorithm."""

    part: int = 16384  # rows of one pivot that are counted together


class Table(NamedTuple):
    """Sorted lists per pivot and attribute, and the filters with the key table."""

    attribute_of: NDArray[np.int32]  # [n_slots] as in `intervals.Domains`
    part_pivots: NDArray[np.int32]  # [n_parts] their attributes, ascending
    part_start: NDArray[np.int64]  # [n_parts + 1] rows of each part; those before have no pivot
    list_start: NDArray[np.int64]  # [n_parts + 1] lists of each part
    list_attributes: NDArray[np.int32]  # [n_lists]
    bound_start: NDArray[np.int64]  # [n_lists + 1] bounds of each list, in the next four
    low_bounds: NDArray[np.signedinteger]  # ascending within a list
    low_rows: NDArray[np.int32]
    high_bounds: NDArray[np.signedinteger]  # likewise
    high_rows: NDArray[np.int32]
    n_wanted: NDArray[np.unsignedinteger]  # [n_rows] bounds: two per constraint
    filter_row: NDArray[np.int32]  # the rest is as in `stored_filters.Stored`
    filter_start: NDArray[np.int32]
    piece_start: NDArray[np.int32]
    groups: NDArray[np.int16]
    slots: NDArray[np.int32]
    low: NDArray[np.signedinteger]
    high: NDArray[np.signedinteger]
    key_start: NDArray[np.int32]
    keys: NDArray[np.signedinteger]
    removed_keys: NDArray[np.int64]
    removed_at: NDArray[np.int64]


def check(options: Options) -> None:
    """Refuse options outside their limits."""
    if options.part < 1:
        raise UsageError(f'option "part" must be at least 1, not {options.part}')


def accept(column: Any, options: Options) -> None:
    """Refuse subscriptions that are not intervals."""
    intervals.accept_column(column, "opindex")


def inspect(look: Inspection, table: Table, vocabulary: Vocabulary, options: Options) -> None:
    """Refuse a damaged table: see `kernels.inspection`."""
    n_rows = stored_filters.inspect(look, table, vocabulary)
    look.length("attribute_of")
    n_parts, n_lists = look.length("part_pivots"), look.length("list_attributes")
    look.offsets("part_start", n_parts, n_rows, first=None)
    look.offsets("list_start", n_parts, n_lists)
    n_bounds = look.length("low_bounds")
    look.offsets("bound_start", n_lists, n_bounds)
    for name in ("low_rows", "high_bounds", "high_rows"):
        look.shape(name, n_bounds)
    look.shape("n_wanted", n_rows)
    look.same(lambda: stored_filters.build_anew(compile, table, vocabulary, options))


def compile(
    subscriptions: Filters, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """Order the rows by pivot and sort the bounds of each list."""
    intervals.checked(subscriptions, "opindex")
    distinct = stored_filters.distinct(subscriptions, keys)
    stored = stored_filters.store(distinct)
    attribute_of = intervals.domains(stored).attribute_of
    n_attributes = int(attribute_of.max(initial=-1)) + 1
    pivots = _pivots(stored.filter_start, attribute_of[stored.slots], n_attributes)
    stored = stored_filters.store(distinct, np.argsort(pivots, kind="stable"))
    part_pivots, part_start = _parts(np.sort(pivots), options.part)
    attributes = attribute_of[stored.slots]
    list_start, list_attributes, bound_start, pieces = _lists(
        stored.filter_start, attributes, part_start, n_attributes
    )
    rows = np.repeat(np.arange(len(pivots), dtype=np.int32), np.diff(stored.filter_start))[pieces]
    lows = _sorted(bound_start, stored.low[pieces], rows.copy())
    highs = _sorted(bound_start, stored.high[pieces], rows)
    n_wanted = 2 * np.diff(stored.filter_start)
    n_wanted = n_wanted.astype(np.min_scalar_type(int(n_wanted.max(initial=0))))
    lists = (list_start, list_attributes, bound_start, *lows, *highs)
    return Table._make((attribute_of, part_pivots, part_start, *lists, n_wanted, *stored))


def _parts(pivots: NDArray[np.int64], size: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Cut rows with these ascending pivots into parts of one pivot and at most that size."""
    number = np.arange(len(pivots)) - np.searchsorted(pivots, pivots)  # among those of its pivot
    starts = np.flatnonzero((pivots >= 0) & (number % size == 0))
    return pivots[starts].astype(np.int32), np.append(starts, len(pivots))


def match(table: Table, batch: Batch, workspace: None, options: Options) -> Part:
    """The keys per event; candidates are the bounds counted."""
    batch = intervals.accept(table, batch, "opindex")
    return stored_filters.finish(table, *_match(table, batch))


def estimate(n_subscriptions: int, n_constraints: int, n_slots: int, options: Options) -> int:
    """Bytes of the table without keys, where bounds take 32 bits."""
    lists = 16 * n_constraints + 12 * min(n_slots * n_slots, n_constraints)
    return lists + n_subscriptions + stored_filters.estimate(n_subscriptions, n_constraints)


@njit(nogil=True, cache=True)
def _pivots(filter_start, attributes, n_attributes):
    """The rarest attribute of each filter, -1 where it has none."""
    counts = csr.count_values(attributes, n_attributes)
    pivots = np.full(len(filter_start) - 1, -1, np.int64)
    for row in range(len(pivots)):
        for i in range(filter_start[row], filter_start[row + 1]):
            if pivots[row] < 0 or counts[attributes[i]] < counts[pivots[row]]:
                pivots[row] = attributes[i]
    return pivots


@njit(nogil=True, cache=True)
def _lists(filter_start, attributes, part_start, n_attributes):
    """The lists of each part, and the pieces in the order of the lists."""
    n_parts = len(part_start) - 1
    list_start = np.zeros(n_parts + 1, np.int64)
    list_attributes = np.empty(1024, np.int32)
    sizes = np.empty(1024, np.int64)
    pieces = np.empty(len(attributes), np.int32)
    size_of = np.zeros(n_attributes, np.int64)
    used = np.empty(n_attributes, np.int32)
    n_lists, end = 0, 0
    for part in range(n_parts):
        first, last = filter_start[part_start[part]], filter_start[part_start[part + 1]]
        n_used = 0
        for attribute in attributes[first:last]:
            if size_of[attribute] == 0:
                used[n_used] = attribute
                n_used += 1
            size_of[attribute] += 1
        while n_lists + n_used > len(sizes):
            list_attributes = np.append(list_attributes, np.empty_like(list_attributes))
            sizes = np.append(sizes, np.empty_like(sizes))
        for attribute in np.sort(used[:n_used]):
            list_attributes[n_lists], sizes[n_lists] = attribute, size_of[attribute]
            size_of[attribute] = end  # from here on: its next position
            end += sizes[n_lists]
            n_lists += 1
        for i in range(first, last):
            pieces[size_of[attributes[i]]] = i
            size_of[attributes[i]] += 1
        size_of[used[:n_used]] = 0
        list_start[part + 1] = n_lists
    return list_start, list_attributes[:n_lists].copy(), csr.ragged(sizes[:n_lists]), pieces


@njit(nogil=True, cache=True)
def _sorted(bound_start, bounds, rows):
    """Sort every list by its bounds."""
    for i in range(len(bound_start) - 1):
        start, end = bound_start[i], bound_start[i + 1]
        order = np.argsort(bounds[start:end])
        bounds[start:end] = bounds[start:end][order]
        rows[start:end] = rows[start:end][order]
    return bounds, rows


@njit(nogil=True, cache=True)
def _count_part(table, part, codes, is_present, n_missing):
    """Count the bounds that hold among the rows of a part; returns how many."""
    work = 0
    for i in range(table.list_start[part], table.list_start[part + 1]):
        attribute = table.list_attributes[i]
        if not is_present[attribute]:
            continue
        code = codes[attribute]
        start, end = table.bound_start[i], table.bound_start[i + 1]
        stop = start + np.searchsorted(table.low_bounds[start:end], code, side="right")
        for row in table.low_rows[start:stop]:
            n_missing[row] -= 1
        first = start + np.searchsorted(table.high_bounds[start:end], code)
        for row in table.high_rows[first:end]:
            n_missing[row] -= 1
        work += stop - start + end - first
    return work


@njit(nogil=True, cache=True)
def _match(table, batch):
    """The rows per event: (start, rows, work)."""
    n_attributes = 1 + (table.attribute_of.max() if len(table.attribute_of) else -1)
    codes = np.empty(n_attributes, np.int64)
    is_present = np.empty(n_attributes, np.bool_)
    n_missing = np.empty_like(table.n_wanted)
    n_events = len(batch.event_start) - 1
    hit_start = np.empty(n_events + 1, np.int64)
    hits = np.empty(256, np.int32)
    n_hits, work = 0, 0
    for event in range(n_events):
        hit_start[event] = n_hits
        intervals.read(batch, event, table.attribute_of, codes, is_present)
        hits, n_hits = intervals.zeros(table.n_wanted, 0, table.part_start[0], hits, n_hits)
        for part in range(len(table.part_pivots)):
            if not is_present[table.part_pivots[part]]:
                continue
            first, last = table.part_start[part], table.part_start[part + 1]
            n_missing[first:last] = table.n_wanted[first:last]
            work += _count_part(table, part, codes, is_present, n_missing)
            hits, n_hits = intervals.zeros(n_missing, first, last, hits, n_hits)
    hit_start[n_events] = n_hits
    return hit_start, hits[:n_hits], work
