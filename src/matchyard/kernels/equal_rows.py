"""Merge equal rows of any kind: keep each row once, with the keys of all its copies."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.csr import count_values, ragged
from matchyard.kernels.hashing import prefetch


@njit(nogil=True, cache=True)
def first_alike(codes):
    """For each row, the first row with the same hash. The caller checks that they are equal; it
    gives rows that differ another hash and calls again."""
    n_rows, size = len(codes), 16
    while size < 2 * n_rows:
        size *= 2
    slots = np.full(size, -1, np.int32)
    first_of = np.empty(n_rows, np.int64)
    for row in range(n_rows):
        if row + 16 < n_rows:
            prefetch(slots, np.int64(codes[row + 16] & np.uint64(size - 1)))
        slot = np.int64(codes[row] & np.uint64(size - 1))
        while slots[slot] >= 0 and codes[slots[slot]] != codes[row]:
            slot = (slot + 1) & (size - 1)
        if slots[slot] < 0:
            slots[slot] = row
        first_of[row] = slots[slot]
    return first_of


def grouped_keys(
    first_of: NDArray[np.int64], keys: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(the first row of each group of equal rows, `key_start`, the keys in the same order)."""
    is_first = first_of == np.arange(len(first_of))
    first = np.flatnonzero(is_first)
    if len(first) == len(first_of):
        return first, np.arange(len(keys) + 1), keys
    rows = (np.cumsum(is_first) - 1)[first_of]
    key_start = ragged(count_values(rows, len(first)))
    return first, key_start, keys[np.argsort(rows, kind="stable")]
