"""Plans: versions that every release computes alike, and equal trees."""

from __future__ import annotations

import numpy as np
import pytest

from matchyard.network import plan as plans
from matchyard.network.peers import Input, InputKind, Peer, Role
from matchyard.network.plan import Plan
from matchyard.network.questions import status
from matchyard.network.settings import Settings
from matchyard.network.station import Station
from matchyard.routing import from_links, label

RING = from_links([(node, (node + 1) % 6) for node in range(6)], names="abcdef")


def test_equal_trees_are_labelled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    n_labelled = 0

    def counted(*given: object) -> object:
        nonlocal n_labelled
        n_labelled += 1
        return label(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(plans, "label", counted)
    plan = Plan(RING, 8)
    assert (n_labelled, plan.n_different, len(plan.labels)) == (4, 4, 8)
    for number, tree in enumerate(plan.trees):
        for found, alone in zip(plan.labels[number], label(RING, tree, number), strict=True):
            np.testing.assert_array_equal(found, alone)


def test_a_version_is_that_of_earlier_releases() -> None:
    """Routers of several releases share a map, and must grow the same trees from it."""
    plan = Plan(RING, 8)
    assert plan.version == 0x7ED8BB025D1961EE
    assert plan.part(2).links == [[1, 2], [1], [1, 2], [1, 2], [1], [1, 2], [1], [1, 2]]


def test_the_status_says_how_many_trees_are_different() -> None:
    a = Station("a", 1, Settings(trees=8))
    assert (status(a, [])["trees"], status(a, [])["different_trees"]) == (8, 1)
    a.process([Input(Peer(Role.ROUTER, "b"), InputKind.MEETING, 2)])
    assert status(a, [])["different_trees"] == 1
