"""The table of `tiles` on a GPU: tiles of 1024 filters in large postings, and their rows of bits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared.exact_check import pieces_of
from matchyard.engines.predicates.algorithms.tiles.cells import Cells, piece_cells
from matchyard.engines.predicates.algorithms.tiles.filing import describe
from matchyard.engines.predicates.algorithms.tiles.tiles import Table
from matchyard.gpu.resident import kept, on_card

ROW_WORDS = 32  # a word per lane of a warp
TILE = 32 * ROW_WORDS
SMALL = 64  # filters of a posting up to which it has no tiles
ROW_BYTES = 96 << 10  # of a tile, so that two are on a processor with 228 KiB of shared memory
_WORDS_PER_FILTER = 64  # of rows, in tiles that are not full: they would be mostly empty
_MOST_SLOTS = 32  # with rows in a tile: one per lane
_ENOUGH = 0.02  # filters of a tile that its rows should let pass, on average
_USELESS = 0.97  # the share of filters that a slot lets pass, above which it has no rows
_ONE = np.uint32(1)
_ONES = np.uint32(0xFFFFFFFF)


class Layout(NamedTuple):
    """A table as the kernels read it; arrays are on the card. See `Filters` in events.cuh."""

    posting_place: Any
    tile_first: Any
    tile_last: Any
    tile_place: Any
    list_start: Any
    list_slot: Any
    list_at: Any
    row_start: Any
    rows: Any
    n_large: int  # postings that have tiles
    n_tiles: int
    shared_bytes: int  # rows of the tile that has most


class Cut(NamedTuple):
    """The tiles of a table, and which of its postings have any."""

    posting_place: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    place: NDArray[np.int32]


def cut_tiles(posting_start: NDArray[np.int32]) -> Cut:
    """Tiles of postings with more than SMALL filters; the last of each has what is left."""
    sizes = np.diff(posting_start).astype(np.int64)
    large = np.flatnonzero(sizes > SMALL)
    posting_place = np.full(len(sizes), -1, np.int32)
    posting_place[large] = np.arange(len(large))
    n_tiles = -(-sizes[large] // TILE)
    place = np.repeat(np.arange(len(large)), n_tiles)
    number = np.arange(len(place)) - np.repeat(np.cumsum(n_tiles) - n_tiles, n_tiles)
    first = posting_start[large][place] + TILE * number
    last = np.minimum(first + TILE, posting_start[large + 1][place])
    return Cut(posting_place, *(array.astype(np.int32) for array in (first, last, place)))


@njit(nogil=True, cache=True)
def _width(bound_start, number):
    """Rows of a slot: for events without it, its cells, and for events with several values."""
    return bound_start[number + 1] - bound_start[number] + 3


@njit(nogil=True, cache=True)
def list_slots(table, slots, cells, low, high, cut, most_words):
    """Which slots have rows in which tile, by the share of filters that an event is let pass to, if
    it falls into all cells equally often: (list_start, list_slot, list_at, row_start)."""
    slot_bit, bound_start, filter_start = cells.slot_bit, cells.bound_start, table.filter_start
    n_tiles = len(cut.first)
    list_start, row_start = np.zeros(n_tiles + 1, np.int32), np.zeros(n_tiles + 1, np.int64)
    list_slot = np.empty(n_tiles * _MOST_SLOTS, np.int32)
    list_at = np.empty(n_tiles * _MOST_SLOTS, np.int32)
    passed = np.ones(len(bound_start) - 1, np.float64)
    n_listed = 0
    for tile in range(n_tiles):
        first, last = cut.first[tile], cut.last[tile]
        passed[:] = 1.0
        for c in range(filter_start[first], filter_start[last]):
            number = slot_bit[slots[c]] if slots[c] >= 0 else -1
            if number < 0:
                continue
            covered = 0
            from_piece, to_piece = pieces_of(table, c)
            for p in range(from_piece, to_piece):
                covered += np.int64(high[p]) - np.int64(low[p]) + 1
            share = min(1.0, covered / (_width(bound_start, number) - 2))
            passed[number] -= (1.0 - share) / (last - first)
        left, n_words, n_here = np.float64(last - first), 0, 0
        room = min(most_words, _WORDS_PER_FILTER * (last - first))
        for number in np.argsort(passed):
            if left <= _ENOUGH or passed[number] > _USELESS or n_here == _MOST_SLOTS:
                break
            size = _width(bound_start, number) * ROW_WORDS
            if n_words + size > room:
                continue  # one with fewer cells may fit
            list_slot[n_listed], list_at[n_listed] = number, n_words
            left *= max(passed[number], 0.0)
            n_words += size
            n_here += 1
            n_listed += 1
        list_start[tile + 1] = n_listed
        row_start[tile + 1] = row_start[tile] + n_words
    return list_start, list_slot[:n_listed].copy(), list_at[:n_listed].copy(), row_start


@njit(nogil=True, cache=True)
def fill_rows(table, slots, cells, low, high, cut, lists):
    """The rows of all tiles: a filter has a bit in the cells that all of its constraints on the slot
    let pass, and all have one for events with several values."""
    slot_bit, bound_start, filter_start = cells.slot_bit, cells.bound_start, table.filter_start
    list_start, list_slot, list_at, row_start = lists
    rows = np.full(row_start[-1], _ONES, np.uint32)
    place = np.full(len(bound_start) - 1, -1, np.int64)
    for tile in range(len(cut.first)):
        for i in range(list_start[tile], list_start[tile + 1]):
            place[list_slot[i]] = row_start[tile] + list_at[i]
        for f in range(cut.first[tile], cut.last[tile]):
            own = f - cut.first[tile]
            mask = ~(_ONE << np.uint32(own & 31))
            for c in range(filter_start[f], filter_start[f + 1]):
                number = slot_bit[slots[c]] if slots[c] >= 0 else -1
                if number < 0 or place[number] < 0:
                    continue
                at, n_rows = place[number] + (own >> 5), _width(bound_start, number) - 1
                from_piece, to_piece = pieces_of(table, c)
                for cell in range(n_rows):
                    is_in = False
                    for p in range(from_piece, to_piece):
                        is_in |= low[p] <= cell <= high[p]
                    if not is_in:
                        rows[at + cell * ROW_WORDS] &= mask
        for i in range(list_start[tile], list_start[tile + 1]):
            place[list_slot[i]] = -1
    return rows


def _laid_out(table: Table, row_bytes: int) -> Layout:
    cut = cut_tiles(table.posting_start)
    cells = Cells(table.slot_bit, table.bound_start, table.bounds)
    slots, _ = describe(table)
    low, high = piece_cells(table, slots, cells)
    lists = list_slots(table, slots, cells, low, high, cut, row_bytes // 4)
    rows = fill_rows(table, slots, cells, low, high, cut, lists)
    *_, row_start = lists
    most_words = int(np.diff(row_start).max(initial=0))
    there = [on_card(array) for array in (*cut, *lists, rows)]
    n_large = int((cut.posting_place >= 0).sum())
    return Layout._make((*there, n_large, len(cut.first), 4 * most_words))


def layout_of(table: Table, row_bytes: int) -> Layout:
    """The layout of a table with at most so many bytes of rows per tile, made at first use. Removals
    keep it."""
    laid_out: Layout = kept.of(
        table.filter_start, ("tiles", row_bytes), lambda: _laid_out(table, row_bytes)
    )
    return laid_out
