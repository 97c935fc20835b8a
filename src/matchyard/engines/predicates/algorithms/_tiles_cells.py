"""tiles: cells, the parts into which the codes of a slot are cut."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms._holds import pieces_of
from matchyard.kernels.csr import ragged

MAX_BIT_SLOTS = 254
MAX_CELLS = 253  # per slot; cell 0 is for events without it, one past the last for several values
_SAMPLES = 4096  # bounds that decide where the cells of a slot end


class Cells(NamedTuple):
    """The slots that have bits, and where their cells end."""

    slot_bit: NDArray[np.int16]  # [n_slots] number among the slots that have bits, -1 for none
    bound_start: NDArray[np.int32]  # [n_bit_slots + 1]
    bounds: NDArray[np.int64]  # ascending; code x is in cell 1 + (bounds <= x)


def cut_cells(table: Any, slots: NDArray[np.int32], n_slots: int, n_cells: int) -> Cells:
    """Cut the slots that filters use most into at most `n_cells` cells, all used equally often."""
    uses = np.bincount(slots[slots >= 0], minlength=n_slots)
    chosen = np.argsort(-uses, kind="stable")[:MAX_BIT_SLOTS]
    chosen = np.sort(chosen[uses[chosen] > 0])
    slot_bit = np.full(n_slots, -1, np.int16)
    slot_bit[chosen] = np.arange(len(chosen))
    sample_start, samples = _sample_bounds(table, slots, slot_bit, uses[chosen])
    found = []
    for number in range(len(chosen)):
        ends = np.sort(samples[sample_start[number] : sample_start[number + 1]])
        distinct = np.unique(ends)
        if len(distinct) > n_cells - 1:
            at = np.linspace(0, len(ends) - 1, n_cells + 1)[1:-1].astype(np.int64)
            distinct = np.unique(ends[at])
        found.append(distinct)
    starts = ragged(np.array([len(ends) for ends in found], np.int64)).astype(np.int32)
    return Cells(slot_bit, starts, np.concatenate([*found, np.empty(0, np.int64)]))


@njit(nogil=True, cache=True)
def _sample_bounds(table, slots, slot_bit, uses):
    """Some of the bounds of each slot's constraints, evenly spread over the table."""
    lowest, highest = np.iinfo(table.low.dtype).min, np.iinfo(table.low.dtype).max
    stride = np.empty(len(uses), np.int64)
    start = np.zeros(len(uses) + 1, np.int64)
    for number in range(len(uses)):
        stride[number] = uses[number] // _SAMPLES + 1
    seen = np.zeros(len(uses), np.int64)
    for counting in (True, False):
        end = start[:-1].copy()
        if not counting:
            samples = np.empty(start[-1], np.int64)
        else:
            samples = np.empty(0, np.int64)
        seen[:] = 0
        for c in range(len(slots)):
            if slots[c] < 0 or slot_bit[slots[c]] < 0:
                continue
            number = slot_bit[slots[c]]
            seen[number] += 1
            if seen[number] % stride[number]:
                continue
            first, last = pieces_of(table, c)
            for p in range(first, last):
                low, high = np.int64(table.low[p]), np.int64(table.high[p])
                if low != lowest:
                    if not counting:
                        samples[end[number]] = low
                    end[number] += 1
                if high not in (highest, low):
                    if not counting:
                        samples[end[number]] = high + 1
                    end[number] += 1
        if counting:
            total = 0
            for number in range(len(uses)):
                start[number + 1] = start[number] + end[number]
                total += end[number]
    return start, samples


@njit(nogil=True, cache=True, forceinline=True)
def cell_of(bounds, first, last, code):
    """The cell of a code, given where the bounds of its slot are."""
    low, size = first, last - first
    while size > 0:
        half = size // 2
        if bounds[low + half] <= code:
            low += half + 1
            size -= half + 1
        else:
            size = half
    return low - first + 1


@njit(nogil=True, cache=True)
def piece_cells(table, slots, cells):
    """The first and last cell of every piece; 1 and 0 where its slot has no bits."""
    n_pieces = len(table.slots)
    low, high = np.ones(n_pieces, np.uint8), np.zeros(n_pieces, np.uint8)
    for c in range(len(slots)):
        if slots[c] < 0 or cells.slot_bit[slots[c]] < 0:
            continue
        number = cells.slot_bit[slots[c]]
        start, end = cells.bound_start[number], cells.bound_start[number + 1]
        first, last = pieces_of(table, c)
        for p in range(first, last):
            low[p] = cell_of(cells.bounds, start, end, table.low[p])
            high[p] = cell_of(cells.bounds, start, end, table.high[p])
    return low, high


@njit(nogil=True, cache=True)
def inner_cells(table, slots, cells, low, high):
    """The first and last cell that each piece covers as a whole; first after last where none is."""
    lowest, highest = np.iinfo(table.low.dtype).min, np.iinfo(table.low.dtype).max
    bounds, bound_start = cells.bounds, cells.bound_start
    inner_low, inner_high = low.copy(), high.copy()
    for p in range(len(slots)):
        number = cells.slot_bit[slots[p]]
        start, end = bound_start[number], bound_start[number + 1]
        first, last = np.int64(low[p]), np.int64(high[p])
        bottom = bounds[start + first - 2] if first > 1 else lowest
        top = bounds[start + last - 1] - 1 if last - 1 < end - start else highest
        inner_low[p] = first + (table.low[p] > bottom)
        inner_high[p] = last - (table.high[p] < top)
    return inner_low, inner_high


def likelihood(cells: Cells) -> NDArray[np.float64]:
    """How likely an event falls into the cells up to each, slot after slot: half by their number
    and half by their length, since nothing is known about events."""
    found = []
    for start, stop in pairwise(cells.bound_start):
        n_cells = stop - start + 1
        share = np.full(n_cells, 1 / n_cells)
        if n_cells > 2:
            lengths = np.diff(cells.bounds[start:stop].astype(np.float64))
            lengths += lengths.sum() == 0  # neighbouring codes may be the same as doubles
            share[1:-1] = share[1:-1] / 2 + lengths / lengths.sum() * share[1:-1].sum() / 2
        found.append(np.concatenate([[0.0], np.cumsum(share)]))
    return np.concatenate([*found, np.empty(0)])
