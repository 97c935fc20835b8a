"""Random numbers as a function of (seed, row, draw): a row can be made without the others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.hashing import mix64
from matchyard.kernels.search import first_above


class Zipf(NamedTuple):
    """Walker's alias table of a Zipf distribution: one look-up per draw."""

    threshold: NDArray[np.float64]  # [n] a fraction below it means: take the column itself…
    alias: NDArray[np.int32]  # [n] …otherwise take this rank


def zipf(n_ranks: int, exponent: float) -> Zipf:
    """The table of ranks 0 … n_ranks-1 with weights (rank + 1) ** -exponent."""
    weights = np.arange(1, n_ranks + 1, dtype=np.float64) ** -exponent
    return Zipf(*_alias(weights * (n_ranks / weights.sum())))


@njit(nogil=True, cache=True)
def _alias(scaled):
    n_ranks = len(scaled)
    threshold = scaled.copy()
    alias = np.arange(n_ranks).astype(np.int32)
    small = np.empty(n_ranks, np.int32)
    large = np.empty(n_ranks, np.int32)
    n_small = n_large = 0
    for rank in range(n_ranks):
        if scaled[rank] < 1.0:
            small[n_small] = rank
            n_small += 1
        else:
            large[n_large] = rank
            n_large += 1
    while n_small and n_large:
        n_small -= 1
        poor, rich = small[n_small], large[n_large - 1]
        alias[poor] = rich
        threshold[rich] -= 1.0 - threshold[poor]
        if threshold[rich] < 1.0:
            n_large -= 1
            small[n_small] = rich
            n_small += 1
    return threshold, alias


@njit(nogil=True, cache=True)
def draw(seed, row, number):
    """The `number`-th random 64-bit word of `row`."""
    return mix64(mix64(np.uint64(seed) ^ mix64(row)) + np.uint64(number))


@njit(nogil=True, cache=True)
def fraction(word):
    """A float in [0, 1) from the upper bits of a random word."""
    return np.float64(word >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(nogil=True, cache=True)
def below(word, limit):
    """An integer in [0, limit) from a random word."""
    return np.int64(fraction(word) * limit)


@njit(nogil=True, cache=True)
def pick(table, word):
    """Draw a rank from a `Zipf` table: `word` chooses a column, its hash decides on the alias."""
    column = below(word, len(table.threshold))
    if fraction(mix64(word)) < table.threshold[column]:
        return column
    return np.int64(table.alias[column])


@njit(nogil=True, cache=True)
def choose_each(shares, numbers, seed):
    """For each number, a position in cumulative shares, drawn by the number."""
    positions = np.empty(len(numbers), np.int32)
    for i in range(len(numbers)):
        share = fraction(draw(seed, numbers[i], 0))
        positions[i] = first_above(shares, 0, len(shares) - 1, share)
    return positions
