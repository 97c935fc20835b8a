"""Off-line partitioning [TagMatch §3.1, Algorithm 1; thesis §3.4.1 for the pivot strategies]."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.bitset import ALL, ONE, WORD, ZERO, is_one, n_leading_zeros, set_one

PIVOTS = ("balanced", "frequent", "prefix")
_BALANCED, _PREFIX = 0, 2


def partition(
    rows: NDArray[np.uint64], max_partition: int, pivot: str
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]]:
    """Cut signatures in lexicographic order into partitions that share the bits of a mask.

    Returns (bounds of each partition, its mask, order of the rows), and reorders `rows` in place.
    Splitting is stable, so every partition stays in lexicographic order.
    """
    source = np.arange(len(rows), dtype=np.int64)
    bounds, masks = _partition(rows, source, max_partition, PIVOTS.index(pivot))
    return bounds, masks, source


@njit(nogil=True, cache=True)
def _count_bits(rows, start, stop):
    """The frequency of every bit position in rows[start:stop].

    Four bit planes count up to fifteen rows for 64 positions at once. The costly addition to 64
    counters happens once per fifteen rows.
    """
    counts = np.zeros(rows.shape[1] * WORD, np.int64)
    for word in range(rows.shape[1]):
        at = start
        while at < stop:
            end = min(at + 15, stop)
            ones, twos, fours, eights = ZERO, ZERO, ZERO, ZERO
            for i in range(at, end):
                carry = rows[i, word]
                ones, carry = ones ^ carry, ones & carry
                twos, carry = twos ^ carry, twos & carry
                fours, carry = fours ^ carry, fours & carry
                eights ^= carry
            for bit in range(WORD):
                shift = np.uint64(WORD - 1 - bit)
                counts[word * WORD + bit] += np.int64(
                    ((ones >> shift) & ONE)
                    + (((twos >> shift) & ONE) << np.uint64(1))
                    + (((fours >> shift) & ONE) << np.uint64(2))
                    + (((eights >> shift) & ONE) << np.uint64(3))
                )
            at = end
    return counts


@njit(nogil=True, cache=True)
def _choose(counts, size, used, pivot):
    """The unused position with the best frequency, or -1 if all are used.

    At equal distance from one half the more frequent bit wins: it lengthens the masks of more sets,
    and a bit of all sets beats a bit of none.
    """
    best, best_cost = -1, 0
    for position in range(len(counts)):
        if is_one(used, position):
            continue
        cost = -2 * counts[position]
        if pivot == _BALANCED:
            cost = 2 * abs(2 * counts[position] - size) + (2 * counts[position] < size)
        if best < 0 or cost < best_cost:
            best, best_cost = position, cost
    return best


@njit(nogil=True, cache=True)
def _first_unused(used):
    for word in range(len(used)):
        if used[word] != ALL:
            return word * WORD + n_leading_zeros(~used[word])
    return -1


@njit(nogil=True, cache=True)
def _split(rows, source, start, stop, position, spare_rows, spare_source):
    """Put the rows without the bit first, in a stable order; returns the start of the other rows.

    Each row is written to both sides and one side advances: there is no branch to mispredict.
    """
    word, shift = position >> 6, np.uint64(63 - (position & 63))
    zeros, ones = start, 0
    for i in range(start, stop):
        bit = np.int64((rows[i, word] >> shift) & ONE)
        origin = source[i]
        for k in range(rows.shape[1]):
            value = rows[i, k]
            rows[zeros, k] = value
            spare_rows[ones, k] = value
        source[zeros] = origin
        spare_source[ones] = origin
        ones += bit
        zeros += 1 - bit
    rows[zeros:stop] = spare_rows[:ones]
    source[zeros:stop] = spare_source[:ones]
    return zeros


@njit(nogil=True, cache=True)
def _divide(rows, source, start, stop, mask, used, max_partition, pivot, spare_rows, spare_source):
    """Repeat Algorithm 1 on one part until the part splits in two or is done.

    Returns the pivot and the first row that has it, or -1 if the part is done. A part that no
    unused bit can split is done at any size; its mask is empty if it holds only the zero signature.
    Bits of all sets join the mask and split nothing.
    """
    size = stop - start
    counts = np.empty(0, np.int64)
    while size > max_partition or not mask.any():
        if pivot == _PREFIX:
            position = _first_unused(used)
        else:
            if len(counts) == 0:
                counts = _count_bits(rows, start, stop)
            position = _choose(counts, size, used, pivot)
            # If no set has the best bit, no bit splits the part.
            if position >= 0 and counts[position] == 0:
                break
        if position < 0:
            break
        set_one(used, position)
        middle = _split(rows, source, start, stop, position, spare_rows, spare_source)
        if start < middle < stop:
            return position, middle
        if middle == start:
            set_one(mask, position)
    return -1, stop


@njit(nogil=True, cache=True)
def _partition(rows, source, max_partition, pivot):
    """Algorithm 1, depth first: at most one half per used bit waits on the stack."""
    n_rows, n_words = rows.shape
    bounds = np.empty((16, 2), np.int64)
    masks = np.empty((16, n_words), np.uint64)
    depth = n_words * WORD + 2
    todo = np.zeros((depth, 2), np.int64)
    todo_mask = np.zeros((depth, n_words), np.uint64)
    todo_used = np.zeros((depth, n_words), np.uint64)
    todo[0, 1] = n_rows
    n_found, n_waiting = 0, min(1, n_rows)
    spare_rows = np.empty((n_rows + 1, n_words), np.uint64)
    spare_source = np.empty(n_rows + 1, np.int64)
    while n_waiting:
        top = n_waiting - 1
        start, stop = todo[top]
        mask, used = todo_mask[top], todo_used[top]
        position, middle = _divide(
            rows, source, start, stop, mask, used, max_partition, pivot, spare_rows, spare_source
        )
        if position >= 0:  # the zeros replace their parent, the ones go on top
            todo[top, 1] = middle
            todo[n_waiting, 0], todo[n_waiting, 1] = middle, stop
            todo_used[n_waiting] = used
            todo_mask[n_waiting] = mask
            set_one(todo_mask[n_waiting], position)
            n_waiting += 1
            continue
        if n_found == len(bounds):
            bounds = np.concatenate((bounds, np.empty_like(bounds)))
            masks = np.concatenate((masks, np.empty_like(masks)))
        bounds[n_found, 0], bounds[n_found, 1] = start, stop
        masks[n_found] = mask
        n_found += 1
        n_waiting -= 1
    return bounds[:n_found].copy(), masks[:n_found].copy()
