"""Random numbers: a function of seed, row and number, with the promised distribution."""

from __future__ import annotations

import numpy as np

from matchyard.kernels.random import below, draw, fraction, pick, zipf


def test_draws_are_repeatable_and_differ_in_every_argument() -> None:
    draws = {
        draw(seed, row, number) for seed in (1, 2) for row in range(30) for number in range(30)
    }
    assert len(draws) == 2 * 30 * 30
    assert draw(7, 8, 9) == draw(7, 8, 9)


def test_fractions_and_integers_stay_below_their_limit() -> None:
    top = np.uint64(2**64 - 1)
    assert fraction(np.uint64(0)) == 0.0
    assert 0.999 < fraction(top) < 1.0
    assert (below(np.uint64(0), 10), below(top, 10)) == (0, 9)


def test_zipf_draws_ranks_as_often_as_their_weights() -> None:
    table = zipf(50, 0.9)
    n_draws = 40_000
    drawn = np.bincount(
        [pick(table, np.uint64(draw(3, row, 0))) for row in range(n_draws)], minlength=50
    )
    weights = np.arange(1, 51) ** -0.9
    wanted = n_draws * weights / weights.sum()
    assert len(drawn) == 50
    assert (np.abs(drawn - wanted) < 5 * np.sqrt(wanted)).all()
