"""The two ends of every interval in cells, as REIN and HEM keep them [HEM §4.2].

Per attribute and end, LOW and HIGH, there are n_cells cells; a cell holds (bound, row) pairs. An
interval does not contain a code when its low end lies in a later cell, or its high end in an
earlier one; only the ends in the code's own cell need comparing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared import cell_lists, intervals
from matchyard.engines.predicates.algorithms.shared.cell_lists import Cells
from matchyard.engines.predicates.algorithms.shared.intervals import Domains, cell_of, mark
from matchyard.engines.predicates.algorithms.shared.stored_filters import Stored

LOW, HIGH = 0, 1


def fill(
    stored: Stored, domains: Domains, n_cells: int, is_skipped: NDArray[np.bool_] | None = None
) -> Cells:
    """Put both ends of all intervals in their cells, but for attributes that are skipped."""
    if is_skipped is None:
        is_skipped = np.zeros(len(domains.lowest), bool)
    counts = _count(stored, domains, n_cells, is_skipped)
    cells = cell_lists.empty(counts, stored.low.dtype)
    _fill(stored, domains, n_cells, is_skipped, cells)
    return cells


def insert(table: Any, first: int, n_cells: int) -> Any:
    """Put the rows from `first` on in their cells."""
    table = intervals.writable(table, cell_lists.GROWING)
    row, piece = first, int(table.filter_start[first])
    while True:
        row, piece = _insert(table, row, piece, n_cells)
        if row == len(table.filter_start) - 1:
            return table
        table = cell_lists.laid_out_anew(table)


@njit(nogil=True, cache=True)
def number_of(attribute, end, cell, n_cells):
    """The number of a cell among all cells."""
    return (attribute * 2 + end) * n_cells + cell


@njit(nogil=True, cache=True)
def ends_of(table, domains, piece, n_cells):
    """The cells of both ends of an interval."""
    attribute = domains.attribute_of[table.slots[piece]]
    low = cell_of(domains, attribute, table.low[piece], n_cells)
    high = cell_of(domains, attribute, table.high[piece], n_cells)
    return number_of(attribute, LOW, low, n_cells), number_of(attribute, HIGH, high, n_cells)


@njit(nogil=True, cache=True)
def _count(stored, domains, n_cells, is_skipped):
    counts = np.zeros(len(domains.lowest) * 2 * n_cells, np.int32)
    for piece in range(len(stored.slots)):
        if is_skipped[domains.attribute_of[stored.slots[piece]]]:
            continue
        low, high = ends_of(stored, domains, piece, n_cells)
        counts[low] += 1
        counts[high] += 1
    return counts


@njit(nogil=True, cache=True)
def _fill(stored, domains, n_cells, is_skipped, cells):
    for row in range(len(stored.filter_start) - 1):
        for piece in range(stored.filter_start[row], stored.filter_start[row + 1]):
            if is_skipped[domains.attribute_of[stored.slots[piece]]]:
                continue
            low, high = ends_of(stored, domains, piece, n_cells)
            cell_lists.put(cells, low, row, stored.low[piece])
            cell_lists.put(cells, high, row, stored.high[piece])


@njit(nogil=True, cache=True)
def _insert(table, row, piece, n_cells):
    """Insert rows until there is no room; returns the row to go on with."""
    while row < len(table.filter_start) - 1:
        while piece < table.filter_start[row + 1]:
            low, high = ends_of(table, table, piece, n_cells)
            if not (cell_lists.make_room(table, low) and cell_lists.make_room(table, high)):
                return row, piece
            cell_lists.put(table, low, row, table.low[piece])
            cell_lists.put(table, high, row, table.high[piece])
            piece += 1
        row += 1
    return row, piece


@njit(nogil=True, cache=True)
def remove(table, rows, n_cells):
    """Take rows out of their cells."""
    for row in rows:
        for piece in range(table.filter_start[row], table.filter_start[row + 1]):
            low, high = ends_of(table, table, piece, n_cells)
            cell_lists.drop(table, low, row)
            cell_lists.drop(table, high, row)


@njit(nogil=True, cache=True)
def compare(cells, low_cell, high_cell, code, bits):
    """Mark the rows of two cells whose intervals begin after the code or end before it."""
    start, size = cells.cell_start[low_cell], cells.cell_size[low_cell]
    for i in range(start, start + size):
        if cells.values[i] > code:
            mark(bits, cells.ids[i])
    n_compared = size
    start, size = cells.cell_start[high_cell], cells.cell_size[high_cell]
    for i in range(start, start + size):
        if cells.values[i] < code:
            mark(bits, cells.ids[i])
    return n_compared + size


@njit(nogil=True, cache=True)
def mark_cells(cells, first, stop, bits):
    """Mark all rows of some consecutive cells one by one; returns how many."""
    n_marks, cell = 0, first
    while cell < stop:
        start = cells.cell_start[cell]
        end = start + cells.cell_size[cell]
        cell += 1
        while cell < stop and cells.cell_start[cell] == end:  # as they are where none has moved
            end += cells.cell_size[cell]
            cell += 1
        for row in cells.ids[start:end]:
            mark(bits, row)
        n_marks += end - start
    return n_marks


@njit(nogil=True, cache=True)
def mark_attribute(cells, attribute, code, is_present, n_cells, bits):
    """Mark every row that asks for something else of an attribute, all one by one [REIN].

    Returns how many marks, and how many comparisons.
    """
    first_low = number_of(attribute, LOW, 0, n_cells)
    first_high = number_of(attribute, HIGH, 0, n_cells)
    if not is_present:
        return mark_cells(cells, first_low, first_high, bits), 0
    cell = cell_of(cells, attribute, code, n_cells)
    n_compared = compare(cells, first_low + cell, first_high + cell, code, bits)
    n_marks = mark_cells(cells, first_low + cell + 1, first_high, bits)
    return n_marks + mark_cells(cells, first_high, first_high + cell, bits), n_compared
