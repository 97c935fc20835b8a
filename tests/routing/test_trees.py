"""Trees of shortest paths, their roots, and centres that are exact."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import dijkstra

import matchyard as my
from matchyard.routing import centres
from matchyard.routing.formats import topology
from matchyard.routing.models import generate
from matchyard.routing.topology import Topology, from_links, largest_component
from matchyard.routing.trees import Tree, first_equal, grow, links_of, shortest_paths

DATA = Path(os.environ.get("MATCHYARD_DATA", "")) / "topology"


@st.composite
def networks(draw: st.DrawFn) -> Topology:
    """A connected network of up to twelve nodes with weights 1 to 3."""
    link = st.tuples(st.integers(0, 11), st.integers(0, 11), st.integers(1, 3))
    links = draw(st.lists(link, min_size=1, max_size=30))
    return largest_component(from_links([one[:2] for one in links], [one[2] for one in links]))


def check_tree(network: Topology, tree: Tree, weights: np.ndarray) -> None:
    """Each node hangs below a neighbour that is nearer to the root, by as much as the link weighs."""
    distance = dijkstra(network.matrix(weights), indices=tree.root)
    place = np.empty(network.n_nodes, np.int64)
    place[tree.order] = np.arange(network.n_nodes)
    assert sorted(tree.order) == list(range(network.n_nodes))
    for node in range(network.n_nodes):
        parent = int(tree.parent[node])
        if node == tree.root:
            assert (parent, tree.depth[node], place[node]) == (-1, 0, 0)
            continue
        row = slice(network.start[node], network.start[node + 1])
        weight = dict(zip(network.neighbours[row], weights[network.links[row]], strict=True))
        assert distance[parent] + weight[parent] == distance[node]
        assert tree.depth[node] == tree.depth[parent] + 1
        assert place[parent] < place[node]
        near = [one for one in weight if distance[one] + weight[one] == distance[node]]
        assert parent == min(near)


@given(networks(), st.integers(0, 99))
def test_trees_are_of_shortest_paths_and_take_the_least_parent(
    network: Topology, seed: int
) -> None:
    check_tree(network, shortest_paths(network, seed % network.n_nodes), network.weights)


@given(networks(), st.integers(0, 99))
def test_random_ties_are_of_shortest_paths_too(network: Topology, seed: int) -> None:
    root = seed % network.n_nodes
    found = shortest_paths(network, root, np.random.default_rng(seed))
    least = shortest_paths(network, root)
    distance = dijkstra(network.matrix(), indices=root)
    cost = np.zeros(network.n_nodes)
    cost[np.flatnonzero(found.parent >= 0)] = network.weights[links_of(network, found)]
    for node in found.order[1:]:
        assert distance[found.parent[node]] + cost[node] == distance[node]
    assert np.array_equal(found.order, least.order)


def test_random_ties_take_each_parent_at_times() -> None:
    network = from_links([(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4)])
    found = {
        int(grow(network, lambda *_: 0, 1, seed, ties="random")[0].parent[4]) for seed in range(40)
    }
    assert found == {1, 2, 3}


@given(networks())
def test_centres_are_those_that_all_eccentricities_give(network: Topology) -> None:
    eccentricity = dijkstra(network.matrix()).max(axis=1)
    nodes = range(network.n_nodes)
    best = min(nodes, key=lambda node: (eccentricity[node], -network.degrees[node], node))
    found, least, _ = centres.search(network)
    assert (found, least) == (best, eccentricity[best])


def test_centres_need_few_searches() -> None:
    network = generate("barabasi-albert", 2000)
    assert centres.search(network)[2] < 60


@given(networks(), st.integers(1, 4), st.sampled_from([None, 0.0, 2.0]))
def test_links_that_a_tree_uses_weigh_more_for_the_next(
    network: Topology, count: int, increment: float | None
) -> None:
    before = network.weights.copy()
    weights = before.copy()
    for tree in grow(network, "LC", count, increment=increment):
        assert tree.root == centres.centre(
            Topology(network.start, network.neighbours, network.links, weights, network.names)
        )
        check_tree(network, tree, weights)
        used = np.unique(links_of(network, tree))
        assert len(used) == network.n_nodes - 1
        weights[used] += 1.0 if increment is None else increment
    assert np.array_equal(network.weights, before)


def test_weights_that_get_lost_in_sums_are_refused() -> None:
    """Two nodes would be each other's parents, and whoever climbs such a tree never arrives."""
    network = from_links([(2, 0), (0, 1), (2, 3), (2, 4), (2, 5)], [1, 1e-20, 1, 1, 1])
    with pytest.raises(my.UsageError, match="weighs so little"):
        grow(network, lambda *_: 2, 1)
    with pytest.raises(my.UsageError, match="weighs so little"):
        grow(generate("grid", 9), "LC", 3, increment=1e16)


@given(networks(), st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.7, 1.1]), min_size=30, max_size=30))
def test_centres_of_rounded_sums_are_those_of_all_searches(
    network: Topology, weights: list[float]
) -> None:
    network = from_links(network.ends(), weights[: network.n_links], network.names)
    eccentricity = np.array(
        [dijkstra(network.matrix(), indices=node).max() for node in range(network.n_nodes)]
    )
    nodes = range(network.n_nodes)
    best = min(nodes, key=lambda node: (eccentricity[node], -network.degrees[node], node))
    assert centres.centre(network) == best


def test_roots_follow_their_rule() -> None:
    network = generate("barabasi-albert", 40)
    roots = [tree.root for tree in grow(network, "L", 40)]
    assert sorted(roots) == list(range(40))
    assert roots != [tree.root for tree in grow(network, "L", 40, seed=2)]
    assert [tree.root for tree in grow(network, "H3")] == list(range(40))
    degrees = network.degrees[[tree.root for tree in grow(network, "degree", 5)]]
    assert degrees.tolist() == sorted(network.degrees, reverse=True)[:5]
    assert [tree.root for tree in grow(network, lambda _, trees, __: 7 + len(trees), 3)] == [
        7,
        8,
        9,
    ]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"rule": "X"}, "no rule 'X'; expected one of L, LC, H3, degree"),
        ({"count": 0}, "0 trees"),
        ({"count": 10}, "10 trees of 9 nodes; expected 1 to 9"),
        ({"increment": -1}, "increment"),
        ({"increment": float("inf")}, "increment"),
        ({"seed": -1}, "seed"),
        ({"rule": ["L"]}, "no rule"),
        ({"rule": lambda *_: None}, "no node None"),
        ({"rule": lambda *_: 1.5}, "no node 1.5"),
        ({"ties": "all"}, "ties"),
        ({"rule": lambda *_: 9}, "no node 9"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(my.UsageError, match=reason):
        grow(generate("grid", 9), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(("n_nodes", "n_different"), [(5, 1), (6, 4), (9, 1), (10, 6)])
def test_equal_trees_are_known(n_nodes: int, n_different: int) -> None:
    ring = from_links([(node, (node + 1) % n_nodes) for node in range(n_nodes)])
    trees = grow(ring, "LC", 8)
    assert len({tree.parent.tobytes() for tree in trees}) == n_different
    orders = {(tree.parent.tobytes(), tree.order.tobytes()) for tree in trees}
    assert len({id(tree) for tree in trees}) == len(orders)
    first = first_equal(trees)
    pairs = zip(first, trees, strict=True)
    assert all(np.array_equal(trees[number].parent, tree.parent) for number, tree in pairs)
    assert all(number == first[number] for number in first)
    assert len(set(first)) == n_different


def test_networks_that_are_not_connected_are_refused() -> None:
    network = from_links([(0, 1), (2, 3)], names=["a", "b", "c", "d"])
    for rule in ("L", "LC", "H3"):
        with pytest.raises(my.UsageError, match=r"no path of finite weight from . to ."):
            grow(network, rule, 1)


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="needs MATCHYARD_DATA")
def test_the_internet_has_its_centres_where_few_searches_find_them() -> None:
    internet = topology(DATA / "caida-as-rel-20120601.txt.gz")
    roots = [internet.names[tree.root] for tree in grow(internet, "LC", 5)]
    assert roots == ["174", "3356", "7018", "1239", "209"]
