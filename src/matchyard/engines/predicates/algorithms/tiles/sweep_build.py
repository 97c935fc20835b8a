"""tiles for many matches, the build: where the filters of a tile begin and cease to hold.

If events match much of a tile, bitsets rule out little. Such a table has *lists* instead: for a tile and a slot, the codes at which one of the 512 filters begins to be satisfied or
ceases to be, in ascending order, and for every cell of the slot a row of bits with the filters that
are satisfied where the cell begins. The row of an event's cell, with the bits flipped of all ends
up to the event's own code, says of 512 filters exactly which are satisfied in the slot.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared.exact_check import pieces_of
from matchyard.engines.predicates.algorithms.tiles.bits import TILE, TILE_WORDS
from matchyard.engines.predicates.algorithms.tiles.cells import Cells
from matchyard.kernels.bitset import flip
from matchyard.kernels.inspection import Inspection

_ONES = ~np.uint64(0)
_MOST_ON_SLOT = (
    64  # constraints of a filter: each is in a list of its own, with rows for a whole tile
)


class Lists(NamedTuple):
    """The ends of all tiles, list after list. A filter with several constraints on a slot has each
    in a list of its own, since different values of an event may satisfy them."""

    tile_start: NDArray[np.int32]  # [n_tiles + 1] lists of each tile
    slot: NDArray[np.uint8]  # their slots, numbered among those that have cells
    row_at: NDArray[np.int64]  # where their rows begin: without the slot, then one per cell
    rows: NDArray[np.uint64]
    end_start: NDArray[np.int64]  # [n_lists + 1] their ends
    end_codes: NDArray[np.signedinteger]
    end_filters: NDArray[np.uint16]  # within the tile
    cell_at: NDArray[np.int64]  # [n_lists] where in `cell_ends` the cells of each begin
    cell_ends: NDArray[np.int32]  # per cell, the ends before it; and behind the last, all


def inspect(look: Inspection, table: Any, n_tiles: int) -> None:
    """Refuse lists that sweeping must not be given; -1 tiles have none: see `kernels.inspection`."""
    n_lists, n_rows, n_ends = (
        look.length(name) for name in ("list_slot", "list_rows", "end_codes")
    )
    look.offsets("tile_start", n_tiles, n_lists) if n_tiles >= 0 else look.shape("tile_start", 0)
    look.values("list_slot", 0, len(table.bound_start) - 1)
    look.shape("list_row_at", n_lists)
    look.shape("end_start", n_lists + 1 if n_tiles >= 0 else 0)
    if n_tiles >= 0:
        look.offsets("end_start", n_lists, n_ends)
    look.values("end_filters", 0, TILE, n_ends)
    look.shape("cell_at", n_lists)
    n_cells = look.length("cell_ends")
    if look.is_thorough and n_tiles >= 0:
        width = (np.diff(table.bound_start) + 2)[table.list_slot].astype(np.int64)
        row_end, cell_end = np.cumsum(width) * TILE_WORDS, np.cumsum(width + 1)
        is_so = np.array_equal(table.list_row_at, row_end - width * TILE_WORDS)
        look.expect("list_row_at", is_so and n_rows == width.sum() * TILE_WORDS, "has other widths")
        is_so = np.array_equal(table.cell_at, cell_end - width - 1)
        look.expect("cell_at", is_so and n_cells == (width + 1).sum(), "has other widths")
        most = np.repeat(np.diff(table.end_start), width + 1)
        is_so = (table.cell_ends >= 0) & (table.cell_ends <= most)
        look.expect("cell_ends", is_so.all(), "counts more ends than there are")


def no_lists() -> Lists:
    """Of a table that has none."""
    kinds = (np.int32, np.uint8, np.int64, np.uint64, np.int64, np.int32, np.uint16, np.int64)
    return Lists._make((*(np.empty(0, kind) for kind in kinds), np.empty(0, np.int32)))


def can_list(table: Any, slots: NDArray[np.int32], uses: NDArray[np.int64], cells: Cells) -> bool:
    """True if lists can hold all constraints: none negated, on several slots or on a slot without
    cells. Pieces must not overlap, since each would flip the same bit."""
    if len(table.groups) or uses[cells.slot_bit >= 0].sum() < len(slots):
        return False
    return not len(table.piece_start) or bool(_are_apart(table))


@njit(nogil=True, cache=True)
def _are_apart(table):
    """True if the pieces of every constraint ascend and do not touch each other."""
    for c in range(len(table.piece_start) - 1):
        for p in range(table.piece_start[c] + 1, table.piece_start[c + 1]):
            if table.low[p] <= table.high[p - 1]:
                return False
    return True


def lists(table: Any, slots: NDArray[np.int32], cells: Cells) -> Lists:
    """The lists of a table all of whose constraints have cells."""
    depth = _nth_on_slot(table, slots)
    tile_start, slot, size = _count_ends(table, slots, cells, depth)
    end_start = np.concatenate([[0], np.cumsum(size)])
    width = (np.diff(cells.bound_start) + 2)[slot]  # without the slot, and the cells
    row_end, cell_end = np.cumsum(width) * TILE_WORDS, np.cumsum(width + 1)
    made = Lists(
        tile_start,
        slot,
        row_end - width * TILE_WORDS,
        np.empty(int(row_end[-1]) if len(row_end) else 0, np.uint64),
        end_start,
        np.empty(int(end_start[-1]), table.low.dtype),
        np.empty(int(end_start[-1]), np.uint16),
        cell_end - width - 1,
        np.empty(int(cell_end[-1]) if len(cell_end) else 0, np.int32),
    )
    _fill(table, slots, cells, depth, made)
    return made


def are_too_deep(table: Any, slots: NDArray[np.int32]) -> bool:
    """True if a filter has too many constraints on one slot: their lists would need much memory."""
    return int(_nth_on_slot(table, slots).max(initial=0)) >= _MOST_ON_SLOT


@njit(nogil=True, cache=True)
def _nth_on_slot(table, slots):
    """Per constraint, how many before it in its filter are on the same slot."""
    depth = np.empty(len(slots), np.int32)
    n_on_slot = np.zeros(slots.max() + 1 if len(slots) else 0, np.int32)
    for f in range(len(table.filter_start) - 1):
        first, last = table.filter_start[f], table.filter_start[f + 1]
        for c in range(first, last):
            depth[c] = n_on_slot[slots[c]]
            n_on_slot[slots[c]] += 1
        for c in range(first, last):
            n_on_slot[slots[c]] = 0
    return depth


@njit(nogil=True, cache=True)
def _number_lists(table, slots, cells, depth, tile, n_lists, number_of, touched):
    """Number the lists of a tile by slot and depth, in `number_of`; the same on every call."""
    first, last = TILE * tile, min(TILE * (tile + 1), len(table.filter_start) - 1)
    n_touched = 0
    for c in range(table.filter_start[first], table.filter_start[last]):
        name = np.int64(depth[c]) * (len(cells.bound_start) - 1) + cells.slot_bit[slots[c]]
        if number_of[name] < 0:
            number_of[name] = n_lists + n_touched
            touched[n_touched] = name
            n_touched += 1
    return n_touched


@njit(nogil=True, cache=True)
def _count_ends(table, slots, cells, depth):
    """The lists of each tile, their slots, and how many ends they have."""
    lowest, highest = np.iinfo(table.low.dtype).min, np.iinfo(table.low.dtype).max
    n_bit_slots, n_filters = len(cells.bound_start) - 1, len(table.filter_start) - 1
    n_tiles = (n_filters + TILE - 1) // TILE
    n_names = n_bit_slots * (np.int64(depth.max()) + 1 if len(depth) else 1)
    number_of, touched = np.full(n_names, -1, np.int64), np.empty(n_names, np.int64)
    tile_start = np.zeros(n_tiles + 1, np.int32)
    room = 1024
    slot, size = np.empty(room, np.uint8), np.zeros(room, np.int64)
    for tile in range(n_tiles):
        begin = tile_start[tile]
        n_touched = _number_lists(table, slots, cells, depth, tile, begin, number_of, touched)
        while begin + n_touched > room:
            slot, size = np.append(slot, slot), np.append(size, np.zeros(room, np.int64))
            room *= 2
        first, last = TILE * tile, min(TILE * (tile + 1), n_filters)
        for c in range(table.filter_start[first], table.filter_start[last]):
            name = np.int64(depth[c]) * n_bit_slots + cells.slot_bit[slots[c]]
            from_piece, to_piece = pieces_of(table, c)
            for p in range(from_piece, to_piece):
                size[number_of[name]] += table.low[p] != lowest
                size[number_of[name]] += table.high[p] != highest
        for i in range(n_touched):
            slot[begin + i] = touched[i] % n_bit_slots
            number_of[touched[i]] = -1
        tile_start[tile + 1] = begin + n_touched
    return tile_start, slot[: tile_start[-1]].copy(), size[: tile_start[-1]].copy()


@njit(nogil=True, cache=True)
def _fill(table, slots, cells, depth, made):
    lowest, highest = np.iinfo(table.low.dtype).min, np.iinfo(table.low.dtype).max
    n_bit_slots, n_filters = len(cells.bound_start) - 1, len(table.filter_start) - 1
    n_names = n_bit_slots * (np.int64(depth.max()) + 1 if len(depth) else 1)
    number_of, touched = np.full(n_names, -1, np.int64), np.empty(n_names, np.int64)
    end_codes, end_filters = made.end_codes, made.end_filters
    end = made.end_start[:-1].copy()
    row = np.empty(TILE_WORDS, np.uint64)
    for tile in range(len(made.tile_start) - 1):
        begin = made.tile_start[tile]
        n_touched = _number_lists(table, slots, cells, depth, tile, begin, number_of, touched)
        without = np.full((n_touched, TILE_WORDS), _ONES)
        lowest_row = without.copy()
        first, last = TILE * tile, min(TILE * (tile + 1), n_filters)
        for f in range(first, last):
            for c in range(table.filter_start[f], table.filter_start[f + 1]):
                name = np.int64(depth[c]) * n_bit_slots + cells.slot_bit[slots[c]]
                number = number_of[name]
                flip(without[number - begin], f - first)
                flip(lowest_row[number - begin], f - first)
                from_piece, to_piece = pieces_of(table, c)
                for p in range(from_piece, to_piece):
                    if table.low[p] == lowest:
                        flip(lowest_row[number - begin], f - first)
                    else:
                        end_codes[end[number]] = table.low[p]
                        end_filters[end[number]] = f - first
                        end[number] += 1
                    if table.high[p] != highest:
                        end_codes[end[number]] = table.high[p] + 1
                        end_filters[end[number]] = f - first
                        end[number] += 1
        for i in range(n_touched):
            number_of[touched[i]] = -1
            row[:] = lowest_row[i]
            _fill_rows(cells, made, begin + i, without[i], row)


@njit(nogil=True, cache=True)
def _fill_rows(cells, made, number, without, row):
    """Sort the ends of a list, and note what holds where its cells begin."""
    first, last = made.end_start[number], made.end_start[number + 1]
    codes, filters = made.end_codes[first:last], made.end_filters[first:last]
    order = np.argsort(codes)
    codes[:], filters[:] = codes[order], filters[order]
    bound, stop = cells.bound_start[made.slot[number]], cells.bound_start[made.slot[number] + 1]
    rows, cell_ends = made.rows[made.row_at[number] :], made.cell_ends[made.cell_at[number] :]
    rows[:TILE_WORDS] = without
    cell_ends[0] = 0
    n_passed = 0
    for cell in range(1, stop - bound + 2):
        if cell > 1:
            while n_passed < len(codes) and codes[n_passed] <= cells.bounds[bound + cell - 2]:
                flip(row, np.int64(filters[n_passed]))
                n_passed += 1
        rows[cell * TILE_WORDS : (cell + 1) * TILE_WORDS] = row
        cell_ends[cell] = n_passed
    cell_ends[stop - bound + 2] = len(codes)
