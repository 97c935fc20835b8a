"""Lists of rows, one per cell, that grow and shrink without being rebuilt.

A cell is a stretch of `ids`, ascending, and of `values` where rows are stored with a bound. A full
cell moves to the end of the arrays, with half as much room again. When the arrays are full, all cells
are laid out anew. Both cost constant time per insertion, amortised.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared import intervals
from matchyard.kernels.inspection import Inspection

GROWING = ("cell_start", "cell_size", "cell_room", "used", "ids", "values")


class Cells(NamedTuple):
    """The lists of all cells."""

    cell_start: NDArray[np.int64]  # [n_cells] where a cell begins
    cell_size: NDArray[np.int32]  # [n_cells] rows in it
    cell_room: NDArray[np.int32]  # [n_cells] rows that it has room for
    used: NDArray[np.int64]  # [1] from here on there are no cells yet
    ids: NDArray[np.int32]
    values: NDArray[np.signedinteger]  # bounds; empty where rows are stored without


def inspect(look: Inspection, n_cells: int, has_values: bool) -> None:
    """Refuse damaged cells: see `kernels.inspection`."""
    for name in ("cell_start", "cell_size", "cell_room"):
        look.shape(name, n_cells)
    look.shape("used", 1)
    n_ids = look.length("ids")
    look.shape("values", n_ids if has_values else 0)


def empty(n_rows: NDArray[np.int32], dtype: Any) -> Cells:
    """Cells with room for so many rows, and none yet; dtype is that of the bounds, or None."""
    start = np.zeros(len(n_rows) + 1, np.int64)
    np.cumsum(n_rows, out=start[1:])
    total = int(start[-1])
    return Cells(
        start[:-1],
        np.zeros(len(n_rows), np.int32),
        n_rows,
        start[-1:].copy(),
        np.empty(total, np.int32),
        np.empty(0, np.int64) if dtype is None else np.empty(total, dtype),
    )


def laid_out_anew(table: Any) -> Any:
    """The table with a quarter of slack in every cell, and as much again for cells that move."""
    room = table.cell_size + (table.cell_size >> 2) + 2
    has_values = len(table.values) > 0 or table.values.dtype == table.low.dtype
    cells = empty(room.astype(np.int32), table.low.dtype if has_values else None)
    spare = len(cells.ids) // 4 + 1024
    ids = intervals.extended(cells.ids, spare)
    values = intervals.extended(cells.values, spare) if has_values else cells.values
    cells = cells._replace(ids=ids, values=values)
    _copy(table, cells)
    return table._replace(**cells._asdict())


@njit(nogil=True, cache=True)
def _copy(source, target):
    for cell in range(len(source.cell_start)):
        at, to = source.cell_start[cell], target.cell_start[cell]
        for i in range(source.cell_size[cell]):
            target.ids[to + i] = source.ids[at + i]
            if len(source.values):
                target.values[to + i] = source.values[at + i]
        target.cell_size[cell] = source.cell_size[cell]


@njit(nogil=True, cache=True)
def put(cells, cell, row, value):
    """Append a row to a cell that has room for it; rows come in ascending order."""
    at = cells.cell_start[cell] + cells.cell_size[cell]
    cells.ids[at] = row
    if len(cells.values):
        cells.values[at] = value
    cells.cell_size[cell] += 1


@njit(nogil=True, cache=True)
def make_room(cells, cell):
    """Move a cell if it is full; false if the arrays have no room for it."""
    size = cells.cell_size[cell]
    if size < cells.cell_room[cell]:
        return True
    room = size + (size >> 1) + 4
    at, to = cells.cell_start[cell], cells.used[0]
    if to + room > len(cells.ids):
        return False
    for i in range(size):
        cells.ids[to + i] = cells.ids[at + i]
    if len(cells.values):
        for i in range(size):
            cells.values[to + i] = cells.values[at + i]
    cells.cell_start[cell], cells.cell_room[cell] = to, room
    cells.used[0] = to + room
    return True


@njit(nogil=True, cache=True)
def drop(cells, cell, row):
    """Take a row out of a cell."""
    start, size = cells.cell_start[cell], cells.cell_size[cell]
    at = start + np.searchsorted(cells.ids[start : start + size], row)
    for i in range(at, start + size - 1):
        cells.ids[i] = cells.ids[i + 1]
    if len(cells.values):
        for i in range(at, start + size - 1):
            cells.values[i] = cells.values[i + 1]
    cells.cell_size[cell] -= 1
