"""tiles: cells, the parts into which the codes of a slot are cut."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared.exact_check import pieces_of
from matchyard.kernels.csr import ragged

MAX_BIT_SLOTS = 254
MAX_CELLS = 253  # per slot; cell 0 is for events without it, one past the last for several values
_STEPS = 1024  # per slot; see `_steps`
_SAMPLES = 4096  # bounds that decide where the cells of a slot end


class Cells(NamedTuple):
    """The slots that have bits, and where their cells end."""

    slot_bit: NDArray[np.int16]  # [n_slots] number among the slots that have bits, -1 for none
    bound_start: NDArray[np.int32]  # [n_bit_slots + 1]
    bounds: NDArray[np.int64]  # ascending; code x is in cell 1 + (bounds <= x)


class Shares(NamedTuple):
    """How the bounds of a slot's constraints lie in its cells, slot after slot."""

    of_bounds: NDArray[np.float64]  # the share of them in each cell
    of_point: NDArray[np.float64]  # the share of a cell that one code has: of those seen in it


def no_cells(n_slots: int) -> Cells:
    """No slot has cells."""
    return Cells(np.full(n_slots, -1, np.int16), np.zeros(1, np.int32), np.empty(0, np.int64))


def cut_cells(
    table: Any, slots: NDArray[np.int32], uses: NDArray[np.int64], n_cells: int
) -> tuple[Cells, Shares]:
    """Cut the slots that filters use most into at most `n_cells` cells, all used equally often."""
    chosen = np.argsort(-uses, kind="stable")[:MAX_BIT_SLOTS]
    chosen = np.sort(chosen[uses[chosen] > 0])
    slot_bit = np.full(len(uses), -1, np.int16)
    slot_bit[chosen] = np.arange(len(chosen))
    sample_start, samples = _sample_bounds(table, slots, slot_bit, uses[chosen])
    all_bounds, of_bounds, of_point = [], [np.empty(0)], [np.empty(0)]
    for number in range(len(chosen)):
        ends = np.sort(samples[sample_start[number] : sample_start[number + 1]])
        distinct = np.unique(ends)
        bounds = distinct
        if len(distinct) > n_cells - 1:
            at = np.linspace(0, len(ends) - 1, n_cells + 1)[1:-1].astype(np.int64)
            bounds = np.unique(ends[at])
        all_bounds.append(bounds)
        counts = _count_in_cells(bounds, ends)
        of_bounds.append((counts + 0.01) / (counts + 0.01).sum())
        of_point.append(1 / np.maximum(_count_in_cells(bounds, distinct), 1))
    starts = ragged(np.array([len(ends) for ends in all_bounds], np.int64)).astype(np.int32)
    cells = Cells(slot_bit, starts, np.concatenate([*all_bounds, np.empty(0, np.int64)]))
    return cells, Shares(np.concatenate(of_bounds), np.concatenate(of_point))


def _count_in_cells(bounds: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of codes in each cell."""
    return np.bincount(np.searchsorted(bounds, codes, side="right"), minlength=len(bounds) + 1)


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
    """The cell of a code, by a search in the bounds of its slot without branches, which the CPU
    could not predict."""
    low, size = first, last - first
    while size > 0:
        half = (size + 1) // 2
        low += half if bounds[low + half - 1] <= code else 0
        size -= half
    return low - first + 1


@njit(nogil=True, cache=True)
def piece_cells(table, slots, cells):
    """The first and last cell of every piece; 1 and 0 where its slot has no bits."""
    n_pieces = len(table.slots)
    slot_bit, bound_start, bounds = cells.slot_bit, cells.bound_start, cells.bounds
    piece_start, low_codes, high_codes = table.piece_start, table.low, table.high
    shifts, steps = _steps(bound_start, bounds)
    low, high = np.ones(n_pieces, np.uint8), np.zeros(n_pieces, np.uint8)
    for c in range(len(slots)):
        if slots[c] < 0 or slot_bit[slots[c]] < 0:
            continue
        number = slot_bit[slots[c]]
        start, end, shift = bound_start[number], bound_start[number + 1], shifts[number]
        first, last = (piece_start[c], piece_start[c + 1]) if len(piece_start) else (c, c + 1)
        for p in range(first, last):
            low[p] = _cell_by_steps(bounds, start, end, steps, number, shift, low_codes[p])
            high[p] = _cell_by_steps(bounds, start, end, steps, number, shift, high_codes[p])
    return low, high


@njit(nogil=True, cache=True)
def _steps(bound_start, bounds):
    """Per slot, a way into its bounds without a search: between the first and the last there are
    up to _STEPS steps of equal length, a power of two, each with the cell in which it begins."""
    n_slots = len(bound_start) - 1
    shifts = np.zeros(n_slots, np.uint64)
    steps = np.zeros((n_slots, _STEPS), np.uint8)
    for number in range(n_slots):
        start, end = bound_start[number], bound_start[number + 1]
        if start == end:
            continue
        span = np.uint64(bounds[end - 1]) - np.uint64(bounds[start])
        while span >> shifts[number] >= np.uint64(_STEPS):
            shifts[number] += np.uint64(1)
        cell = 1
        for step in range(_STEPS):
            begin = np.uint64(step) << shifts[number]
            while cell - 1 < end - start:
                if np.uint64(bounds[start + cell - 1]) - np.uint64(bounds[start]) > begin:
                    break
                cell += 1
            steps[number, step] = cell
    return shifts, steps


@njit(nogil=True, cache=True, forceinline=True)
def _cell_by_steps(bounds, first, last, steps, number, shift, code):
    """As `cell_of`."""
    if first == last or code < bounds[first]:
        return 1
    if code >= bounds[last - 1]:
        return last - first + 1
    step = (np.uint64(code) - np.uint64(bounds[first])) >> shift
    cell = np.int64(steps[number, np.int64(step)])
    while bounds[first + cell - 1] <= code:
        cell += 1
    return cell


def likelihood(cells: Cells, shares: Shares, by_length: float = 0.5) -> NDArray[np.float64]:
    """Cumulated probabilities that an event falls into the cells of each slot: the mean of the cells'
    lengths and of the bounds in them, since nothing is known about events."""
    sums = [np.empty(0)]
    for number, (start, stop) in enumerate(pairwise(cells.bound_start)):
        share = shares.of_bounds[start + number : stop + number + 1].copy()
        if len(share) > 2:
            lengths = np.diff(cells.bounds[start:stop].astype(np.float64))
            lengths += lengths.sum() == 0  # neighbouring codes may be the same as doubles
            lengths *= share[1:-1].sum() / lengths.sum()
            share[1:-1] += by_length * (lengths - share[1:-1])
        sums.append(np.concatenate([[0.0], np.cumsum(share)]))
    return np.concatenate(sums)


def share_matched(
    table: Any,
    slots: NDArray[np.int32],
    is_point: NDArray[np.bool_],
    uses: NDArray[np.int64],
    cells: Cells,
    shares: Shares,
    low: NDArray[Any],
    high: NDArray[Any],
) -> float:
    """The share of the filters that an event is likely to match, by some of them. Events are taken
    to have four times the slots that filters ask for; in a slot they lie like the bounds of the
    filters, or evenly: the mean of both cases, of which the larger decides. Who asks for one code is
    only looked at by events that have it: it is as likely as the others that are named in its cell."""
    n_filters = len(table.filter_start) - 1
    present = np.minimum(1.0, 4 * uses[cells.slot_bit >= 0] / max(n_filters, 1))
    matched = [
        _share_matched(table, slots, is_point, cells, low, high, likely, shares.of_point, present)
        for likely in (likelihood(cells, shares, by_length) for by_length in (0.0, 1.0))
    ]
    return float(np.mean(matched))


@njit(nogil=True, cache=True)
def _share_matched(table, slots, is_point, cells, low, high, likely, of_point, present):
    filter_start, slot_bit, bound_start = table.filter_start, cells.slot_bit, cells.bound_start
    n_filters = len(filter_start) - 1
    stride = n_filters // _SAMPLES + 1
    total, n_seen = 0.0, 0
    for f in range(0, n_filters, stride):
        matched = 1.0
        for c in range(filter_start[f], filter_start[f + 1]):
            number = slot_bit[slots[c]]
            at = bound_start[number] + 2 * number
            passed = 0.0
            first, last = pieces_of(table, c)
            for p in range(first, last):
                passed += likely[at + np.int64(high[p])] - likely[at + np.int64(low[p]) - 1]
            if is_point[c]:
                passed *= of_point[bound_start[number] + number + np.int64(low[first]) - 1]
            matched *= min(passed, 1.0) * present[number]
        total += matched
        n_seen += 1
    return total / max(n_seen, 1)
