"""The random numbers of generated workloads: names, filters and events, any rows of them."""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.kernels.random import below, draw, fraction, pick


@njit(nogil=True, cache=True)
def _choose(seed, row, chosen, n_wanted, n_ranks, alpha, popularity):
    """So many distinct ranks, drawn one after the other. Where popular ones keep coming back, the
    rest is drawn at once, by the smallest of exponential variables with those weights."""
    n_chosen, n_tries = 0, 0
    while n_chosen < n_wanted and n_tries < 8 * n_wanted:
        rank = pick(popularity, draw(seed, row, 1000 + n_tries))
        n_tries += 1
        is_new = True
        for i in range(n_chosen):
            is_new &= chosen[i] != rank
        if is_new:
            chosen[n_chosen] = rank
            n_chosen += 1
    if n_chosen == n_wanted:
        return
    times = np.empty(n_ranks, np.float64)
    for rank in range(n_ranks):
        chance = 1.0 - fraction(draw(seed, row, 100_000 + rank))
        times[rank] = -np.log(chance) * (rank + 1.0) ** alpha
    for i in range(n_chosen):
        times[chosen[i]] = np.inf
    rest = np.argsort(times)
    for i in range(n_wanted - n_chosen):
        chosen[n_chosen + i] = rest[i]


@njit(nogil=True, cache=True)
def draw_names(seed, start, stop, n_each, n_names, alpha, popularity):
    """[n_rows, n_each] distinct names in each row."""
    names = np.empty((stop - start, n_each), np.int64)
    for row in range(start, stop):
        _choose(seed, row, names[row - start], n_each, n_names, alpha, popularity)
    return names


@njit(nogil=True, cache=True)
def draw_fractions(seed, start, stop, n_each, first):
    """[n_rows, n_each] fractions; `first` numbers the columns, so that others are independent."""
    values = np.empty((stop - start, n_each), np.float64)
    for row in range(start, stop):
        for i in range(n_each):
            values[row - start, i] = fraction(draw(seed, row, first + i))
    return values


@njit(nogil=True, cache=True)
def draw_filters(
    seed, start, stop, fewest, most, numeric, number_ops, text_ops, n_values, popularity
):
    """Lengths of filters, then names, operators (0 to 3 of numbers, 4 to 7 of texts) and values."""
    counts = np.empty(stop - start, np.int64)
    names = np.empty((stop - start) * most, np.int64)
    ops, values = np.empty_like(names), np.empty_like(names)
    end = 0
    for row in range(start, stop):
        counts[row - start] = fewest + below(draw(seed, row, 1), most - fewest + 1)
        for i in range(counts[row - start]):
            names[end] = pick(popularity, draw(seed, row, 1000 + i))
            is_number = fraction(draw(seed, row, 2000 + i)) < numeric
            shares = number_ops if is_number else text_ops
            chance = fraction(draw(seed, row, 3000 + i)) * shares[-1]
            ops[end] = np.searchsorted(shares, chance, side="right") + (0 if is_number else 4)
            values[end] = below(draw(seed, row, 4000 + i), n_values)
            end += 1
    return counts, names[:end].copy(), ops[:end].copy(), values[:end].copy()


@njit(nogil=True, cache=True)
def draw_events(seed, start, stop, fewest, most, n_names, numeric, n_values, alpha, popularity):
    """How many attributes events have, then names, whether they are numbers, and values."""
    counts = np.empty(stop - start, np.int64)
    names = np.empty((stop - start) * most, np.int64)
    is_number, values = np.empty(len(names), np.bool_), np.empty_like(names)
    end = 0
    for row in range(start, stop):
        count = fewest + below(draw(seed, row, 1), most - fewest + 1)
        counts[row - start] = count
        _choose(seed, row, names[end : end + count], count, n_names, alpha, popularity)
        for i in range(count):
            is_number[end] = fraction(draw(seed, row, 2000 + i)) < numeric
            values[end] = below(draw(seed, row, 4000 + i), n_values)
            end += 1
    return counts, names[:end].copy(), is_number[:end].copy(), values[:end].copy()
