"""Stretch and congestion, against their definitions."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import shortest_path

import matchyard as my
from matchyard.routing.metrics import Distribution, congestion, distribution, stretch
from matchyard.routing.models import generate
from matchyard.routing.topology import Topology, from_links
from matchyard.routing.trees import Tree, grow, shortest_paths
from tests.routing.test_labels import distances

kinds = st.sampled_from(["tree", "grid", "barabasi-albert"])


def plain_stretch(network: Topology, trees: list[Tree]) -> Counter[Fraction]:
    """The mean over trees for each pair, as fractions."""
    links = shortest_path(network.matrix(), unweighted=True)
    low, high = np.triu_indices(network.n_nodes, 1)
    sums = sum(distances(tree, low, high) for tree in trees)
    return Counter(
        Fraction(int(total), len(trees) * int(links[a, b]))
        for a, b, total in zip(low, high, np.atleast_1d(sums), strict=True)
    )


@given(st.integers(4, 150), st.integers(0, 999), kinds, st.sampled_from(["L", "LC"]))
def test_stretch_is_the_mean_over_trees_of_all_pairs(
    n_nodes: int, seed: int, kind: str, rule: str
) -> None:
    network = generate(kind, n_nodes, seed)
    trees = grow(network, rule, 4, seed)
    found = stretch(network, trees, [1, 3, 4, 9])
    assert list(found) == [1, 3, 4]
    for count, pairs in found.items():
        want = plain_stretch(network, trees[:count])
        assert pairs.n == n_nodes * (n_nodes - 1) // 2
        assert dict(zip(pairs.values, pairs.counts, strict=True)) == {
            float(value): number for value, number in want.items()
        }


def test_stretch_is_of_links_whatever_they_weigh() -> None:
    ring = from_links([(0, 1), (1, 2), (2, 0)], [5, 5, 1])
    found = stretch(ring, [shortest_paths(ring, 0)], [1])[1]
    assert dict(zip(found.values, found.counts, strict=True)) == {1.0: 2, 2.0: 1}


def test_stretch_of_long_paths_is_exact() -> None:
    n_nodes = 400  # more links than a byte counts
    ring = from_links([(node, (node + 1) % n_nodes) for node in range(n_nodes)])
    found = stretch(ring, grow(ring, lambda _, trees, __: 100 * len(trees), 2), [1, 2])
    assert found[1].values[-1] == n_nodes - 1
    assert found[1].n == found[2].n == n_nodes * (n_nodes - 1) // 2
    path = from_links([(node, node + 1) for node in range(6000)])
    with pytest.raises(my.UsageError, match="paths of up to 12000 links"):
        stretch(path, [shortest_paths(path, 0)], [1])


def test_stretch_tells_how_far_it_is() -> None:
    network, done = generate("grid", 150), []
    stretch(network, grow(network, "L", 1), progress=done.append)
    assert done == [64, 64, 22]


def test_stretch_of_no_trees_or_parts_is_refused() -> None:
    network = from_links([(0, 1), (2, 3)])
    with pytest.raises(my.UsageError, match="of 0 trees"):
        stretch(network, [], [1])
    [tree] = grow(from_links([(0, 1), (1, 2), (2, 3)]), "LC", 1)
    with pytest.raises(my.UsageError, match="another network"):
        stretch(network, [tree], [1])


@given(st.integers(4, 40), st.integers(0, 999), kinds)
def test_congestion_counts_links_across_the_cut_of_each_tree_link(
    n_nodes: int, seed: int, kind: str
) -> None:
    network = generate(kind, n_nodes, seed)
    trees = grow(network, "LC", 3, seed)
    ends = network.ends()
    want = np.zeros(network.n_links)
    for tree in trees:
        below = {node: {node} for node in range(n_nodes)}
        for node in tree.order[:0:-1]:
            below[int(tree.parent[node])] |= below[int(node)]
        for number, (here, there) in enumerate(ends.tolist()):
            for child, parent in ((here, there), (there, here)):
                if tree.parent[child] == parent:
                    part = below[child]
                    want[number] += sum((a in part) != (b in part) for a, b in ends.tolist())
    assert np.array_equal(congestion(network, trees), want / 3)


def test_congestion_of_no_trees_is_refused() -> None:
    with pytest.raises(my.UsageError, match="no trees"):
        congestion(generate("grid", 9), [])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.floats(0, 1))
def test_quantiles_are_those_of_the_sorted_list(values: list[int], share: float) -> None:
    found = distribution(values)
    place = max(1, int(np.ceil(share * len(values))))
    if abs(share * len(values) - round(share * len(values))) < 1e-9:
        place = max(1, round(share * len(values)))
    assert found.quantile(share) == sorted(values)[place - 1]
    assert found.mean == pytest.approx(np.mean(values))
    assert found.to_arrow().num_rows == len(set(values))


def test_quantiles_that_are_none_are_refused() -> None:
    with pytest.raises(my.UsageError, match="from 0 to 1"):
        distribution([1.0]).quantile(1.5)
    nothing = Distribution(np.empty(0), np.empty(0, np.int64))
    assert np.isnan(nothing.quantile(0.5))
    assert np.isnan(nothing.mean)


def test_quantiles_are_not_off_by_a_rounding() -> None:
    found = distribution(range(1, 101))
    assert [found.quantile(percent / 100) for percent in range(1, 101)] == list(range(1, 101))
