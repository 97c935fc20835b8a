"""Binary search in a part of a sorted array, inlined into the kernels that call it."""

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True, forceinline=True)
def first_at_least(values, low, high, wanted):
    """The first position in [low, high) whose value is at least `wanted`, or high."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True, forceinline=True)
def first_above(values, low, high, wanted):
    """The first position in [low, high) whose value is above `wanted`, or high."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] <= wanted:
            low = middle + 1
        else:
            high = middle
    return low
