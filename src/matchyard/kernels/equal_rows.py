"""Equal rows put together, whatever a row is: each is kept once, with the keys of all its copies."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.csr import count_values, ragged
from matchyard.kernels.hashing import prefetch


@njit(nogil=True, cache=True)
def first_alike(codes):
    """Per row the first with the same hash. Whether they are equal is for those to say who know what
    a row is; to those that are not they give another hash, and ask again."""
    n_rows, size = len(codes), 16
    while size < 2 * n_rows:
        size *= 2
    places = np.full(size, -1, np.int32)
    first_of = np.empty(n_rows, np.int64)
    for row in range(n_rows):
        if row + 16 < n_rows:
            prefetch(places, np.int64(codes[row + 16] & np.uint64(size - 1)))
        place = np.int64(codes[row] & np.uint64(size - 1))
        while places[place] >= 0 and codes[places[place]] != codes[row]:
            place = (place + 1) & (size - 1)
        if places[place] < 0:
            places[place] = row
        first_of[row] = places[place]
    return first_of


def grouped_keys(
    first_of: NDArray[np.int64], keys: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(the rows that are the first of their kind, `key_start`, the keys in the order of those)."""
    is_first = first_of == np.arange(len(first_of))
    first = np.flatnonzero(is_first)
    if len(first) == len(first_of):
        return first, np.arange(len(keys) + 1), keys
    rows = (np.cumsum(is_first) - 1)[first_of]
    key_start = ragged(count_values(rows, len(first)))
    return first, key_start, keys[np.argsort(rows, kind="stable")]
