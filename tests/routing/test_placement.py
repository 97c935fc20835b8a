"""Where users are placed."""

from __future__ import annotations

import numpy as np
import pytest

from matchyard.routing import (
    PLACEMENTS,
    generate,
    place,
)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_users_stay_where_they_are_placed(placement: str) -> None:
    network = generate("barabasi-albert", 50)
    users = np.arange(20_000)
    nodes = place(users, network, placement, seed=3)
    assert np.array_equal(place(users[::-1], network, placement, 3), nodes[::-1])
    assert (nodes != place(users, network, placement, 4)).any()
    shares = np.sort(np.bincount(nodes, minlength=50))[::-1] / len(users)
    if placement == "zipf":
        wanted = 1 / np.arange(1, 51) / (1 / np.arange(1, 51)).sum()
        assert np.abs(shares - wanted).max() < 0.01
    if placement == "uniform":
        assert shares.max() < 0.03
    if placement == "degree":
        by_degree = np.bincount(nodes, minlength=50) / len(users)
        assert np.abs(by_degree - network.degrees / network.degrees.sum()).max() < 0.01
