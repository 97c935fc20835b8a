"""The canonical order inside encoded subscriptions: equal subscriptions have equal arrays.

Pieces of a constraint by slot, otherwise as they are; constraints of a filter by group, then by
their pieces; filters of a predicate by their constraints; each constraint and filter once.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.layout import Filters
from matchyard.kernels.csr import take_rows

_SHORT = 64  # constraints that are sorted by shifting them


def ordered(filters: Filters) -> Filters:
    """The same subscriptions in canonical order; sorts in place if it can."""
    if len(filters.slots) == len(filters.groups):  # each constraint is one piece
        _sort_single(filters)
    else:
        _sort_pieces(filters)
    if _is_ordered(filters):
        return filters
    filters = _chosen(filters, filters.row_start, *_sorted(filters, filters.filter_start, False))
    row_start, chosen = _sorted(filters, filters.row_start, True)
    starts = take_rows(filters.filter_start, np.arange(len(filters.groups)), chosen)
    return _chosen(filters, row_start, *starts)


def _chosen(
    filters: Filters,
    row_start: NDArray[np.int64],
    filter_start: NDArray[np.int64],
    constraints: NDArray[np.int64],
) -> Filters:
    piece_start, pieces = take_rows(filters.piece_start, np.arange(len(filters.slots)), constraints)
    return Filters(
        row_start, filter_start, piece_start, filters.groups[constraints],
        filters.slots[pieces], filters.low[pieces], filters.high[pieces],
    )  # fmt: skip


@njit(nogil=True, cache=True)
def _sort_pieces(filters):
    slots, low, high = filters.slots, filters.low, filters.high
    for c in range(len(filters.groups)):
        for p in range(filters.piece_start[c] + 1, filters.piece_start[c + 1]):
            slot, from_code, to_code = slots[p], low[p], high[p]
            q = p
            while q > filters.piece_start[c] and slots[q - 1] > slot:
                slots[q], low[q], high[q] = slots[q - 1], low[q - 1], high[q - 1]
                q -= 1
            slots[q], low[q], high[q] = slot, from_code, to_code


@njit(nogil=True, cache=True)
def _sort_single(filters):
    """Sort the constraints of short filters, of one piece each, where they are."""
    groups, slots, low, high = filters.groups, filters.slots, filters.low, filters.high
    filter_start = filters.filter_start
    for f in range(len(filter_start) - 1):
        if filter_start[f + 1] - filter_start[f] > _SHORT:
            continue
        for p in range(filter_start[f] + 1, filter_start[f + 1]):
            group, slot, from_code, to_code = groups[p], slots[p], low[p], high[p]
            q = p
            while q > filter_start[f] and (
                groups[q - 1] > group
                or (
                    groups[q - 1] == group
                    and (
                        slots[q - 1] > slot
                        or (
                            slots[q - 1] == slot
                            and (
                                low[q - 1] > from_code
                                or (low[q - 1] == from_code and high[q - 1] > to_code)
                            )
                        )
                    )
                )
            ):
                groups[q], slots[q] = groups[q - 1], slots[q - 1]
                low[q], high[q] = low[q - 1], high[q - 1]
                q -= 1
            groups[q], slots[q], low[q], high[q] = group, slot, from_code, to_code


@njit(nogil=True, cache=True)
def _compare_constraints(filters, left, right):
    """Negative, 0 or positive: the left one comes before, equals or comes after the right one."""
    if filters.groups[left] != filters.groups[right]:
        return -1 if filters.groups[left] < filters.groups[right] else 1
    p, q = filters.piece_start[left], filters.piece_start[right]
    p_end, q_end = filters.piece_start[left + 1], filters.piece_start[right + 1]
    while p < p_end and q < q_end:
        if filters.slots[p] != filters.slots[q]:
            return -1 if filters.slots[p] < filters.slots[q] else 1
        if filters.low[p] != filters.low[q]:
            return -1 if filters.low[p] < filters.low[q] else 1
        if filters.high[p] != filters.high[q]:
            return -1 if filters.high[p] < filters.high[q] else 1
        p += 1
        q += 1
    return (p_end - p) - (q_end - q)


@njit(nogil=True, cache=True)
def _compare_filters(filters, left, right):
    c, d = filters.filter_start[left], filters.filter_start[right]
    c_end, d_end = filters.filter_start[left + 1], filters.filter_start[right + 1]
    while c < c_end and d < d_end:
        sign = _compare_constraints(filters, c, d)
        if sign != 0:
            return sign
        c += 1
        d += 1
    return (c_end - c) - (d_end - d)


@njit(nogil=True, cache=True)
def _is_ordered(filters):
    for f in range(len(filters.filter_start) - 1):
        for c in range(filters.filter_start[f] + 1, filters.filter_start[f + 1]):
            if _compare_constraints(filters, c - 1, c) >= 0:
                return False
    for row in range(len(filters.row_start) - 1):
        for f in range(filters.row_start[row] + 1, filters.row_start[row + 1]):
            if _compare_filters(filters, f - 1, f) >= 0:
                return False
    return True


@njit(nogil=True, cache=True)
def _position_in(filters, order, start, end, number, are_filters):
    """The position for the number in order[start:end], or -1 if its equal is there."""
    low, high = start, end
    middle = end - 1  # most are in order already
    while low < high:
        if are_filters:
            sign = _compare_filters(filters, number, order[middle])
        else:
            sign = _compare_constraints(filters, number, order[middle])
        if sign == 0:
            return -1
        if sign < 0:
            high = middle
        else:
            low = middle + 1
        middle = (low + high) >> 1
    return low


@njit(nogil=True, cache=True)
def _sorted(filters, group_start, are_filters):
    """Distinct members of each group in order: (start, members). Insertion sort, since few members
    are out of order."""
    start = np.empty(len(group_start), np.int64)
    start[0] = 0
    order = np.empty(group_start[-1] - group_start[0], np.int64)
    end = 0
    for group in range(len(group_start) - 1):
        first = end
        for number in range(group_start[group], group_start[group + 1]):
            position = _position_in(filters, order, first, end, number, are_filters)
            if position >= 0:
                for i in range(end, position, -1):
                    order[i] = order[i - 1]
                order[position] = number
                end += 1
        start[group + 1] = end
    return start, order[:end]
