"""tiles, second half of the build: which filters may match, as bits per slot and cell.

The codes of a slot are cut into *cells*. For a *tile* of 512 filters and one of its slots there is a
row of 512 bits per cell, with a bit for every filter that some code in the cell may satisfy, and
one for events without the slot. A *block* of 64 tiles has the same with a bit per tile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared.exact_check import pieces_of
from matchyard.engines.predicates.algorithms.tiles.cells import Cells
from matchyard.kernels.growing import with_room
from matchyard.kernels.inspection import Inspection
from matchyard.kernels.search import first_above

TILE_WORDS = 8  # a row is one cache line and one vector
TILE = 64 * TILE_WORDS
GROUP = 8  # rows that are ANDed at once
_MOST_SLOTS = 64  # per tile
_MOST_ROWS = 256  # of a slot
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


class Bits(NamedTuple):
    """Bits of tiles or of blocks."""

    list_start: NDArray[np.int32]  # [n_tiles + 1] slots with bits, the most selective first
    list_slot: NDArray[np.uint8]  # their number among the slots that have bits
    list_at: NDArray[np.int64]  # where their bits begin: the row of cell 0, then one per cell
    bits: NDArray[np.uint64]


def inspect(look: Inspection, table: Any, kind: str, n_lists: int, group: int) -> None:
    """Refuse the bits of tiles or blocks that matching must not be given, which reads the lists of
    tiles in groups: see `kernels.inspection`."""
    n_listed, n_bits = look.length(f"{kind}_list_slot"), look.length(f"{kind}_bits")
    look.offsets(f"{kind}_list_start", n_lists, n_listed)
    look.values(f"{kind}_list_slot", 0, len(table.bound_start) - 1)
    look.shape(f"{kind}_list_at", n_listed)
    if look.is_thorough:
        start, slot, at = (
            getattr(table, f"{kind}_list_{name}") for name in ("start", "slot", "at")
        )
        look.expect(f"{kind}_list_start", not (start % group).any(), "has half a group")
        n_rows = (np.diff(table.bound_start) + 3)[slot] * (TILE_WORDS if group > 1 else 1)
        is_inside = (at >= 0) & (at <= n_bits - n_rows)
        look.expect(f"{kind}_list_at", is_inside.all(), f"leads out of {n_bits} words")


@njit(nogil=True, cache=True)
def _pick(touched, n_touched, share, left, target):
    """Sort slots by the share that passes them; returns how many reduce `left` to `target`."""
    for i in range(1, n_touched):
        slot = touched[i]
        at = i
        while at > 0 and share[touched[at - 1]] > share[slot]:
            touched[at] = touched[at - 1]
            at -= 1
        touched[at] = slot
    n_picked = 0
    while n_picked < min(n_touched, _MOST_SLOTS) and left > target:
        passed = share[touched[n_picked]]
        if passed > 0.97:
            break
        left *= passed
        n_picked += 1
    return n_picked


@njit(nogil=True, cache=True, forceinline=True)
def _width(bound_start, number):
    """Rows of a slot: for events without it, its cells, and for events with several values."""
    return bound_start[number + 1] - bound_start[number] + 3


def tile_bits(
    table: Any,
    slots: NDArray[np.int32],
    cells: Cells,
    low: NDArray[np.uint8],
    high: NDArray[np.uint8],
    likely: NDArray[np.float64],
    target: float,
) -> Bits:
    """The bits of all tiles, with slots until about `target` filters of a tile are let through."""
    *lists, n_bits = _list_slots(table, slots, cells, low, high, likely, target)
    bits = np.empty(n_bits, np.uint64)  # by NumPy, since it asks for huge pages
    tiles = Bits._make((*lists, bits))
    _fill_bits(table, slots, cells, low, high, tiles)
    return tiles


@njit(nogil=True, cache=True)
def _list_slots(table, slots, cells, low, high, likely, target):
    """Choose the slots with bits of each tile. The last slot is repeated to fill a group: another AND
    with the same row changes nothing."""
    filter_start, slot_bit, bound_start = table.filter_start, cells.slot_bit, cells.bound_start
    n_filters = len(filter_start) - 1
    n_tiles = (n_filters + TILE - 1) // TILE
    n_bit_slots = len(bound_start) - 1
    list_start = np.zeros(n_tiles + 1, np.int32)
    list_slot = np.empty(n_tiles * (_MOST_SLOTS + GROUP), np.uint8)
    list_at = np.empty(n_tiles * (_MOST_SLOTS + GROUP), np.int64)
    share = np.ones(n_bit_slots, np.float64)
    seen_in = np.full(n_bit_slots, -1, np.int64)
    touched = np.empty(n_bit_slots, np.int64)
    n_listed, n_bits = 0, 0
    for tile in range(n_tiles):
        first, last = TILE * tile, min(TILE * (tile + 1), n_filters)
        n_touched = 0
        for f in range(first, last):
            for c in range(filter_start[f], filter_start[f + 1]):
                number = slot_bit[slots[c]] if slots[c] >= 0 else -1
                if number < 0:
                    continue
                passed = 0.0
                at = bound_start[number] + 2 * number
                from_piece, to_piece = pieces_of(table, c)
                for p in range(from_piece, to_piece):
                    passed += likely[at + np.int64(high[p])] - likely[at + np.int64(low[p]) - 1]
                if seen_in[number] < first:
                    touched[n_touched] = number
                    n_touched += 1
                    share[number] = 1.0
                if seen_in[number] != f:  # one constraint per slot tells enough
                    share[number] -= (1.0 - passed) / (last - first)
                seen_in[number] = f
        n_picked = _pick(touched, n_touched, share, np.float64(TILE), target)
        for i in range(n_picked):
            list_slot[n_listed], list_at[n_listed] = touched[i], n_bits
            n_listed += 1
            n_bits += _width(bound_start, touched[i]) * TILE_WORDS
        while n_picked and (n_listed - list_start[tile]) % GROUP:
            list_slot[n_listed], list_at[n_listed] = list_slot[n_listed - 1], list_at[n_listed - 1]
            n_listed += 1
        list_start[tile + 1] = n_listed
    return list_start, list_slot[:n_listed].copy(), list_at[:n_listed].copy(), n_bits


@njit(nogil=True, cache=True)
def _fill_bits(table, slots, cells, low, high, tiles):
    """Bits are flipped where a piece begins and where it has ended; then each row takes over the
    one before it."""
    filter_start, slot_bit, bound_start = table.filter_start, cells.slot_bit, cells.bound_start
    list_start, list_slot, list_at, bits = tiles
    n_filters, n_bit_slots = len(filter_start) - 1, len(bound_start) - 1
    members = np.zeros((n_bit_slots, TILE_WORDS), np.uint64)
    bits_at = np.full(n_bit_slots, -1, np.int64)
    repeats = np.empty(len(slots), np.int32)
    is_in = np.empty(_MOST_ROWS, np.bool_)
    for tile in range(len(list_start) - 1):
        first, last = TILE * tile, min(TILE * (tile + 1), n_filters)
        for i in range(list_start[tile], list_start[tile + 1]):
            bits_at[list_slot[i]] = list_at[i]
            members[list_slot[i]] = _ZERO
            n_words = _width(bound_start, list_slot[i]) * TILE_WORDS
            bits[list_at[i] : list_at[i] + n_words] = _ZERO
        n_repeats = 0
        for f in range(first, last):
            word, bit = (f - first) >> 6, _ONE << np.uint64((f - first) & 63)
            for c in range(filter_start[f], filter_start[f + 1]):
                number = slot_bit[slots[c]] if slots[c] >= 0 else -1
                if number < 0 or bits_at[number] < 0:
                    continue
                if members[number, word] & bit:
                    repeats[n_repeats] = c
                    n_repeats += 1
                    continue
                members[number, word] |= bit
                at = bits_at[number] + word
                from_piece, to_piece = pieces_of(table, c)
                if to_piece - from_piece == 1:
                    bits[at + np.int64(low[from_piece]) * TILE_WORDS] ^= bit
                    bits[at + (np.int64(high[from_piece]) + 1) * TILE_WORDS] ^= bit
                    continue
                is_in[:] = False  # pieces may meet in a cell
                for p in range(from_piece, to_piece):
                    is_in[low[p] : np.int64(high[p]) + 1] = True
                for cell in range(1, _width(bound_start, number)):
                    if is_in[cell] != is_in[cell - 1]:
                        bits[at + cell * TILE_WORDS] ^= bit
        for i in range(list_start[tile], list_start[tile + 1]):
            number, at = list_slot[i], list_at[i]
            if i > list_start[tile] and at == list_at[i - 1]:
                continue  # the last one, repeated
            width = _width(bound_start, number)
            for row in range(1, width):
                for word in range(at + row * TILE_WORDS, at + (row + 1) * TILE_WORDS):
                    bits[word] ^= bits[word - TILE_WORDS]
            for row in range(width):
                for word in range(TILE_WORDS):
                    free = ~_ZERO if row == width - 1 else ~members[number, word]
                    bits[at + row * TILE_WORDS + word] |= free
        _leave_common(table, slots, slot_bit, bound_start, low, high, first, bits_at, bits,
                      repeats[:n_repeats])  # fmt: skip
        for i in range(list_start[tile], list_start[tile + 1]):
            bits_at[list_slot[i]] = -1


@njit(nogil=True, cache=True)
def _leave_common(
    table, slots, slot_bit, bound_start, low, high, first, bits_at, bits, constraints
):  # fmt: skip
    """Clear the bits that a second constraint of a filter on a slot rules out."""
    for c in constraints:
        f = first_above(table.filter_start, 0, len(table.filter_start), c) - 1 - first
        bit, number = _ONE << np.uint64(f & 63), slot_bit[slots[c]]
        at = bits_at[number] + (f >> 6)
        from_piece, to_piece = pieces_of(table, c)
        for cell in range(1, _width(bound_start, number) - 1):
            is_in = False
            for p in range(from_piece, to_piece):
                is_in |= low[p] <= cell <= high[p]
            if not is_in:
                bits[at + cell * TILE_WORDS] &= ~bit


@njit(nogil=True, cache=True, forceinline=True)
def _is_dead(bits, at):
    for word in range(TILE_WORDS):
        if bits[at + word] != _ZERO:
            return False
    return True


def no_bits(n_tiles: int = 0) -> Bits:
    """The bits of tiles that have none."""
    starts = np.zeros(n_tiles + 1, np.int32)
    return Bits(starts, np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.uint64))


def block_bits(tiles: Bits, cells: Cells) -> Bits:
    """The bits of all blocks, from those of their tiles."""
    return Bits._make(_block_bits(tiles, cells))


@njit(nogil=True, cache=True)
def _block_bits(tiles, cells):
    n_tiles = len(tiles.list_start) - 1
    n_blocks = (n_tiles + 63) // 64
    n_bit_slots = len(cells.bound_start) - 1
    list_start = np.zeros(n_blocks + 1, np.int32)
    list_slot = np.empty(n_blocks * _MOST_SLOTS, np.uint8)
    list_at = np.empty(n_blocks * _MOST_SLOTS, np.int64)
    bits = np.empty(1024, np.uint64)
    share = np.empty(n_bit_slots, np.float64)
    is_touched = np.zeros(n_bit_slots, np.bool_)
    bits_at = np.full(n_bit_slots, -1, np.int64)
    touched = np.empty(n_bit_slots, np.int64)
    n_listed, n_bits = 0, 0
    for block in range(n_blocks):
        first, last = 64 * block, min(64 * block + 64, n_tiles)
        n_touched = 0
        for i in range(tiles.list_start[first], tiles.list_start[last]):
            number = tiles.list_slot[i]
            if not is_touched[number]:
                is_touched[number] = True
                touched[n_touched] = number
                n_touched += 1
                share[number] = 1.0
            if i > 0 and tiles.list_at[i] == tiles.list_at[i - 1]:
                continue
            width, dead = _width(cells.bound_start, number), 0
            for cell in range(1, width - 1):
                dead += _is_dead(tiles.bits, tiles.list_at[i] + cell * TILE_WORDS)
            share[number] -= dead / (width - 2) / (last - first)
        n_picked = _pick(touched, n_touched, share, 64.0, 0.5)
        for i in range(n_picked):
            number = touched[i]
            width = _width(cells.bound_start, number)
            bits = with_room(bits, n_bits, n_bits + width)
            bits[n_bits : n_bits + width] = ~_ZERO
            list_slot[n_listed], list_at[n_listed] = number, n_bits
            bits_at[number] = n_bits
            n_listed += 1
            n_bits += width
        for tile in range(first, last):
            bit = _ONE << np.uint64(tile - first)
            for i in range(tiles.list_start[tile], tiles.list_start[tile + 1]):
                number = tiles.list_slot[i]
                if bits_at[number] < 0:
                    continue
                for cell in range(_width(cells.bound_start, number)):
                    if _is_dead(tiles.bits, tiles.list_at[i] + cell * TILE_WORDS):
                        bits[bits_at[number] + cell] &= ~bit
        for i in range(n_touched):
            is_touched[touched[i]] = False
            bits_at[touched[i]] = -1
        list_start[block + 1] = n_listed
    return list_start, list_slot[:n_listed].copy(), list_at[:n_listed].copy(), bits[:n_bits].copy()
