"""Buffers that grow while a kernel fills them.

Kernels copy element by element: LLVM makes a `memcpy` of the loop. For an assignment to a slice Numba
compiles a check of the lengths with its error message, which takes a second.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def with_room(array, n_used, n_needed):
    """The array, or a copy of its used part that has room for `n_needed` and twice as much as before."""
    if n_needed <= len(array):
        return array
    larger = np.empty(max(2 * len(array), n_needed), array.dtype)
    put(larger, 0, array, 0, n_used)
    return larger


@njit(nogil=True, cache=True)
def with_rows(table, n_used, n_needed):
    """As `with_room`, for the rows of a table."""
    if n_needed <= len(table):
        return table
    larger = np.empty((max(2 * len(table), n_needed), table.shape[1]), table.dtype)
    for row in range(n_used):
        for column in range(table.shape[1]):
            larger[row, column] = table[row, column]
    return larger


@njit(nogil=True, cache=True)
def put(target, at, source, start, end):
    """Copy source[start:end] to `target` from `at` on. The two do not overlap."""
    for i in range(end - start):
        target[at + i] = source[start + i]
