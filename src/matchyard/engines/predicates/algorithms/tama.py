"""tama: find the intervals that contain a value level by level, and count them [TAMA].

Level l divides the domain of an attribute into 2^l cells. An interval is in the fewest cells, of
any level, that it covers in full, and in the cells of the finest level that it covers in part; only
the latter are compared. A row matches when all its constraints are counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared import cell_lists, intervals, stored_filters
from matchyard.engines.predicates.algorithms.shared.intervals import cell_of
from matchyard.engines.predicates.encoder.layout import Batch, Filters, Vocabulary
from matchyard.errors import UsageError
from matchyard.kernels.inspection import Inspection
from matchyard.matches import Part

DEVICES = ("cpu",)
SUPPORTS = intervals.SUPPORTS
workspace = intervals.workspace
subscriptions = stored_filters.subscriptions


class Options(NamedTuple):
    """The options of the algorithm."""

    n_levels: int = 13


class Table(NamedTuple):
    """Cells of all levels, and the filters with the key table.

    Per attribute, cell i of level l is number 2^l + i, and the intervals that cover cell i of the
    finest level in part are number 2^n_levels + i.
    """

    attribute_of: NDArray[np.int32]  # these three as in `intervals.Domains`
    lowest: NDArray[np.float64]
    scale: NDArray[np.float64]
    cell_start: NDArray[np.int64]  # this and the next five: `cell_lists`
    cell_size: NDArray[np.int32]
    cell_room: NDArray[np.int32]
    used: NDArray[np.int64]
    ids: NDArray[np.int32]
    values: NDArray[np.signedinteger]  # empty
    n_wanted: NDArray[np.unsignedinteger]  # [n_rows] constraints; the largest number: row removed
    built: NDArray[np.int64]  # [2] rows when it was built; was anything inserted since?
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
    if not 1 <= options.n_levels <= 24:
        raise UsageError(f'option "n_levels" must be from 1 to 24, not {options.n_levels}')


def accept(column: Any, options: Options) -> None:
    """Refuse subscriptions that are not intervals."""
    intervals.accept_column(column, "tama")


def inspect(look: Inspection, table: Table, vocabulary: Vocabulary, options: Options) -> None:
    """Refuse a damaged table: see `kernels.inspection`."""
    n_attributes = intervals.inspect(look, table, vocabulary)
    cell_lists.inspect(look, n_attributes * 3 << (options.n_levels - 1), has_values=False)
    look.shape("n_wanted", len(table.filter_start) - 1)
    look.shape("built", 2)
    look.same(lambda: stored_filters.build_anew(compile, table, vocabulary, options))


def compile(
    subscriptions: Filters, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """Put all intervals in cells."""
    return _build(intervals.store(subscriptions, keys, "tama"), options)


def _build(stored: stored_filters.Stored, options: Options) -> Table:
    domains = intervals.domains(stored)
    n_wanted = np.diff(stored.filter_start)
    dtype = np.min_scalar_type(int(n_wanted.max(initial=0)) + 1)
    cells = cell_lists.empty(_count(stored, domains, options.n_levels), None)
    _fill(stored, domains, options.n_levels, cells)
    built = np.array([len(n_wanted), 0])
    return Table._make((*domains, *cells, n_wanted.astype(dtype), built, *stored))


def match(table: Table, batch: Batch, workspace: None, options: Options) -> Part:
    """The keys per event; candidates are the constraints counted or compared."""
    batch = intervals.accept(table, batch, "tama")
    return stored_filters.finish(table, *_match(table, batch, options.n_levels))


def insert(
    table: Table, subscriptions: Filters, keys: NDArray[np.int64], options: Options
) -> Table:
    """The table with more subscriptions; it takes the arrays of the given table, which becomes invalid."""
    intervals.checked(subscriptions, "tama")
    n_wanted = np.diff(subscriptions.filter_start)
    if (
        n_wanted.max(initial=0) >= np.iinfo(table.n_wanted.dtype).max
        or intervals.must_rebuild(table, subscriptions)
    ):  # fmt: skip
        stored = intervals.store(*intervals.joined(table, subscriptions, keys), "tama")
        return _build(stored, options)
    first = len(table.filter_start) - 1
    table = intervals.appended(table, subscriptions, keys)
    wanted = intervals.extended(table.n_wanted, len(table.filter_start) - 1 - first)
    wanted[first:] = np.diff(table.filter_start[first:])
    return _put_rows(table._replace(n_wanted=wanted), first, options.n_levels)


def _put_rows(table: Any, first: int, n_levels: int) -> Any:
    table = intervals.writable(table, cell_lists.GROWING)
    cells = np.empty(2 * n_levels + 2, np.int64)
    row, piece = first, int(table.filter_start[first])
    while True:
        row, piece = _insert(table, row, piece, n_levels, cells)
        if row == len(table.filter_start) - 1:
            return table
        table = cell_lists.laid_out_anew(table)


def remove(table: Table, rows: NDArray[np.int64], options: Options) -> Table:
    """The table without these rows, which it must have; the given table becomes invalid."""
    table = intervals.writable(table, (*cell_lists.GROWING, "n_wanted"))
    _remove(table, rows, options.n_levels)
    table.n_wanted[rows] = np.iinfo(table.n_wanted.dtype).max
    return intervals.without_rows(table, rows)


def estimate(n_subscriptions: int, n_constraints: int, n_slots: int, options: Options) -> int:
    """Bytes of the table without keys, for intervals a third of their domains wide."""
    ids = 4 * n_constraints * options.n_levels
    cells = 24 * n_slots << options.n_levels
    return ids + cells + n_subscriptions + stored_filters.estimate(n_subscriptions, n_constraints)


@njit(nogil=True, cache=True)
def _cells_of(stored, domains, piece, n_levels, cells):
    """The numbers of the cells of an interval; returns how many."""
    low, high = stored.low[piece], stored.high[piece]
    if low > high:
        return 0
    attribute = domains.attribute_of[stored.slots[piece]]
    n_finest = 1 << (n_levels - 1)
    base = attribute * 3 * n_finest
    limits = np.iinfo(stored.low.dtype)
    first = cell_of(domains, attribute, low, n_finest)
    last = cell_of(domains, attribute, high, n_finest)
    n_cells = 0
    left, right = n_finest, 2 * n_finest  # what is covered in full, unless there is a bound
    if low != limits.min:
        cells[n_cells] = base + 2 * n_finest + first
        n_cells += 1
        left = n_finest + first + 1
    if high != limits.max:
        if n_cells == 0 or last != first:
            cells[n_cells] = base + 2 * n_finest + last
            n_cells += 1
        right = n_finest + last
    while left < right:
        if left & 1:
            cells[n_cells] = base + left
            n_cells += 1
            left += 1
        if right & 1:
            right -= 1
            cells[n_cells] = base + right
            n_cells += 1
        left >>= 1
        right >>= 1
    return n_cells


@njit(nogil=True, cache=True)
def _count(stored, domains, n_levels):
    counts = np.zeros(len(domains.lowest) * 3 << (n_levels - 1), np.int32)
    cells = np.empty(2 * n_levels + 2, np.int64)
    for piece in range(len(stored.slots)):
        for i in range(_cells_of(stored, domains, piece, n_levels, cells)):
            counts[cells[i]] += 1
    return counts


@njit(nogil=True, cache=True)
def _fill(stored, domains, n_levels, target):
    cells = np.empty(2 * n_levels + 2, np.int64)
    for row in range(len(stored.filter_start) - 1):
        for piece in range(stored.filter_start[row], stored.filter_start[row + 1]):
            for i in range(_cells_of(stored, domains, piece, n_levels, cells)):
                cell_lists.put(target, cells[i], row, 0)


@njit(nogil=True, cache=True)
def _insert(table, row, piece, n_levels, cells):
    """Put rows in until there is no room; returns where to go on."""
    while row < len(table.filter_start) - 1:
        while piece < table.filter_start[row + 1]:
            n_cells = _cells_of(table, table, piece, n_levels, cells)
            for i in range(n_cells):
                if not cell_lists.make_room(table, cells[i]):
                    return row, piece
            for i in range(n_cells):
                cell_lists.put(table, cells[i], row, 0)
            piece += 1
        row += 1
    return row, piece


@njit(nogil=True, cache=True)
def _remove(table, rows, n_levels):
    cells = np.empty(2 * n_levels + 2, np.int64)
    for row in rows:
        for piece in range(table.filter_start[row], table.filter_start[row + 1]):
            for i in range(_cells_of(table, table, piece, n_levels, cells)):
                cell_lists.drop(table, cells[i], row)


@njit(nogil=True, cache=True)
def _compare(table, cell, slot, code, n_missing):
    """Count the rows of a cell whose intervals contain the code; returns how many were looked at."""
    start, size = table.cell_start[cell], table.cell_size[cell]
    for row in table.ids[start : start + size]:
        piece = intervals.piece_on(table, row, slot)
        if table.low[piece] <= code <= table.high[piece]:
            n_missing[row] -= 1
    return size


@njit(nogil=True, cache=True)
def _match(table, batch, n_levels):
    """The rows per event: (start, rows, work)."""
    n_finest = 1 << (n_levels - 1)
    n_missing = np.empty_like(table.n_wanted)
    n_events = len(batch.event_start) - 1
    hit_start = np.empty(n_events + 1, np.int64)
    hits = np.empty(256, np.int32)
    n_hits, work = 0, 0
    for event in range(n_events):
        hit_start[event] = n_hits
        n_missing[:] = table.n_wanted
        for entry in range(batch.event_start[event], batch.event_start[event + 1]):
            slot, code = batch.slots[entry], batch.codes[entry]
            if slot >= len(table.attribute_of) or table.attribute_of[slot] < 0:
                continue
            attribute = table.attribute_of[slot]
            base = attribute * 3 * n_finest
            cell = n_finest + cell_of(table, attribute, code, n_finest)
            work += _compare(table, base + n_finest + cell, slot, code, n_missing)
            while cell > 0:
                start, size = table.cell_start[base + cell], table.cell_size[base + cell]
                for row in table.ids[start : start + size]:
                    n_missing[row] -= 1
                work += size
                cell >>= 1
        hits, n_hits = intervals.zeros(n_missing, 0, len(n_missing), hits, n_hits)
    hit_start[n_events] = n_hits
    return hit_start, hits[:n_hits], work
