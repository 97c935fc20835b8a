"""Sets of ids as rows of rising numbers: sorting, hashing and comparing them."""

import numpy as np
from numba import njit

from matchyard.kernels.hashing import mix64
from matchyard.kernels.subset import id_bits


@njit(nogil=True, cache=True)
def sort_some(values, low, high):
    """Sort a range of values in place; mostly there are few."""
    if high - low > 32:
        values[low:high] = np.sort(values[low:high])
        return
    for i in range(low + 1, high):
        value, j = values[i], i
        while j > low and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@njit(nogil=True, cache=True)
def sort_rows(start, ids):
    """Sort each row in place and drop repeats; return the new offsets and ids."""
    new_start = np.empty(len(start), np.int64)
    new_start[0] = 0
    kept = np.empty(len(ids), np.int32)
    end = 0
    for row in range(len(start) - 1):
        low, high = start[row], start[row + 1]
        sort_some(ids, low, high)
        for i in range(low, high):
            if i == low or ids[i] != ids[i - 1]:
                kept[end] = ids[i]
                end += 1
        new_start[row + 1] = end
    return new_start, kept[:end]


@njit(nogil=True, cache=True)
def signature_of(ids, low, high):
    """The signature of a set: two bits for each id."""
    signature = np.uint64(0)
    for i in range(low, high):
        signature |= id_bits(ids[i])
    return signature


@njit(nogil=True, cache=True)
def hash_rows(start, ids):
    """The hash of each set."""
    codes = np.empty(len(start) - 1, np.uint64)
    for row in range(len(codes)):
        codes[row] = hash_of(ids, start[row], start[row + 1])
    return codes


@njit(nogil=True, cache=True)
def hash_of(ids, low, high):
    """The hash of one set."""
    code = np.uint64(high - low)
    for i in range(low, high):
        code = mix64(code ^ np.uint64(ids[i]))
    return mix64(code)


@njit(nogil=True, cache=True, forceinline=True)
def is_within(small, small_low, small_high, large, low, high):
    """True if every id of the first set is in the second one; both rise."""
    if small_high - small_low > high - low:
        return False
    for i in range(small_low, small_high):
        while low < high and large[low] < small[i]:
            low += 1
        if low == high or large[low] != small[i]:
            return False
        low += 1
    return True
