"""Nodes that only talk to their neighbours find the same trees and labels as the central way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.sparse.csgraph import dijkstra

import matchyard as my
from matchyard.routing.labels import label
from matchyard.routing.models import generate
from matchyard.routing.rounds import Built, build
from matchyard.routing.topology import Topology, from_links
from matchyard.routing.trees import Tree, grow
from tests.routing.test_trees import networks


def check_same(network: Topology, built: Built, tree: Tree) -> None:
    for found, want in zip(built.tree, tree, strict=True):
        assert np.array_equal(found, want)
    labels = label(network, tree)
    width = labels.n_rank_bits
    packed = [(number << width | ranks) << width | ends for number, ranks, ends in built.labels]
    assert packed == labels.labels.tolist()


@given(networks())
def test_messages_lead_to_the_same_trees_and_labels(network: Topology) -> None:
    trees = grow(network, "LC", 3)
    for built, tree in zip(build(network, 3), trees, strict=True):
        check_same(network, built, tree)


@pytest.mark.parametrize(
    ("network", "count", "increment"),
    [
        (from_links([(0, 1), (2, 3)]), 1, 1.0),
        (from_links([]), 1, 1.0),
        (generate("grid", 9), 2, -1.0),
        (generate("grid", 9), 0, 1.0),
    ],
)
def test_what_no_tree_can_be_built_of_is_refused(
    network: Topology, count: int, increment: float
) -> None:
    with pytest.raises(my.UsageError):
        build(network, count, increment)


@pytest.mark.parametrize("kind", ["barabasi-albert", "grid", "tree"])
def test_rounds_and_messages_are_those_that_the_protocol_needs(kind: str) -> None:
    network = generate(kind, 60)
    [built], [tree] = build(network), grow(network, "LC", 1)
    check_same(network, built, tree)
    cost = {one.step: one for one in built.costs}
    eccentricity = dijkstra(network.matrix()).max(axis=1)
    diameter, height, n_others = eccentricity.max(), tree.depth.max(), network.n_nodes - 1
    # The last to learn something says so, too.
    assert cost["distances"].rounds == diameter + 1
    assert cost["election"].rounds <= diameter + 1
    assert cost["tree"].rounds == eccentricity.min() + 1
    assert (cost["children"].rounds, cost["children"].messages) == (1, n_others)
    assert (cost["sizes"].rounds, cost["sizes"].messages) == (height, n_others)
    assert (cost["labels"].rounds, cost["labels"].messages) == (height, n_others)
    # Each node says each news to each neighbour once: as many rounds as it is eccentric, and one.
    assert cost["distances"].messages == ((eccentricity + 1) * network.degrees).sum()
    assert cost["tree"].messages == 2 * network.n_links
