"""Labels lead every packet along the tree, and labels of other trees are noticed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import matchyard as my
from matchyard.routing.formats import topology
from matchyard.routing.labels import Labels, label, next_hop
from matchyard.routing.metrics import congestion, stretch
from matchyard.routing.models import generate
from matchyard.routing.topology import Topology, from_links
from matchyard.routing.trees import Tree, grow, shortest_paths

DATA = Path(os.environ.get("MATCHYARD_DATA", "")) / "topology"


def routed(
    network: Topology, labels: Labels, sources: NDArray[np.int64], targets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where packets end, and the number of their hops."""
    at, hops = sources.copy(), np.zeros(len(sources), np.int64)
    for _ in range(network.n_nodes):
        interface = next_hop(labels, at, labels.labels[targets])
        moves = interface > 0
        if not moves.any():
            break
        at[moves] = network.neighbours[network.start[at[moves]] + interface[moves] - 1]
        hops[moves] += 1
    return at, hops


def distances(
    tree: Tree, sources: NDArray[np.int64], targets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Links between pairs of nodes on a tree, by climbing it."""
    here, there, found = sources.copy(), targets.copy(), np.zeros(len(sources), np.int64)
    while (apart := here != there).any():
        is_lower = tree.depth[here] >= tree.depth[there]
        here[apart & is_lower] = tree.parent[here[apart & is_lower]]
        there[apart & ~is_lower] = tree.parent[there[apart & ~is_lower]]
        found += apart
    return found


def check_all_pairs(network: Topology, tree: Tree, number: int = 0) -> Labels:
    labels = label(network, tree, number)
    sources, targets = np.divmod(np.arange(network.n_nodes**2), network.n_nodes)
    at, hops = routed(network, labels, sources, targets)
    assert np.array_equal(at, targets)
    assert np.array_equal(hops, distances(tree, sources, targets))
    one_by_one = [next_hop(labels, node, labels.labels) for node in range(network.n_nodes)]
    each = next_hop(labels, sources, labels.labels[targets])
    assert np.array_equal(np.concatenate(one_by_one), each)
    return labels


@given(
    st.integers(1, 60), st.integers(0, 999), st.sampled_from(["tree", "grid", "barabasi-albert"])
)
def test_every_packet_takes_the_path_of_the_tree(n_nodes: int, seed: int, kind: str) -> None:
    network = generate(kind, max(n_nodes, 3), seed)
    check_all_pairs(network, shortest_paths(network, seed % network.n_nodes), seed % 5)


def test_stars_and_paths_have_the_shortest_labels() -> None:
    star = from_links([(0, node) for node in range(1, 65)])
    labels = check_all_pairs(star, shortest_paths(star, 0))
    assert labels.n_bits == 7 + 2 * 6  # a number, and ranks 1 to 63
    path = from_links([(node, node + 1) for node in range(63)])
    assert check_all_pairs(path, shortest_paths(path, 0)).n_bits == 6


def test_a_node_alone_has_arrived() -> None:
    alone = from_links([], n_nodes=1)
    labels = label(alone, shortest_paths(alone, 0))
    assert next_hop(labels, 0, labels.labels[0]) == 0


def test_batches_of_all_lengths_are_the_same_as_single_packets() -> None:
    network = generate("barabasi-albert", 300)
    [tree] = grow(network, "degree", 1)
    labels = label(network, tree)
    targets = labels.labels[np.random.default_rng(1).integers(0, 300, 5000)]
    singles = np.array([next_hop(labels, tree.root, one) for one in targets])
    for n_packets in (0, 1, 7, 8, 2047, 2048, 2049, 5000):
        found = next_hop(labels, tree.root, targets[:n_packets])
        assert np.array_equal(found, singles[:n_packets])


def test_labels_of_trees_with_longer_labels_are_refused() -> None:
    network = generate("barabasi-albert", 500, 1)
    labels = [label(network, tree, n) for n, tree in enumerate(grow(network, "L", 8, 1))]
    assert len({one.n_bits for one in labels}) > 1
    for own in labels:
        for other in labels:
            if other.tree != own.tree:
                with pytest.raises(my.UsageError, match="another tree"):
                    next_hop(own, 0, other.labels[7])


def test_trees_of_another_network_are_refused() -> None:
    [tree] = grow(generate("grid", 9), "LC", 1)
    for network in (generate("tree", 5), generate("grid", 16), generate("tree", 9)):
        with pytest.raises(my.UsageError, match="another network"):
            label(network, tree)
        with pytest.raises(my.UsageError, match="another network"):
            stretch(network, [tree], [1])
        with pytest.raises(my.UsageError, match="another network"):
            congestion(network, [tree])


def test_packets_come_in_arrays_of_any_shape_and_integer_type() -> None:
    network = generate("tree", 60)
    labels = label(network, shortest_paths(network, 0))
    want = next_hop(labels, 3, labels.labels)
    assert np.array_equal(next_hop(labels, 3, labels.labels.reshape(6, 10)), want.reshape(6, 10))
    nodes = np.full(60, 3)
    for kind in ("uint8", ">i4", "int32", "uint64"):
        assert np.array_equal(next_hop(labels, nodes.astype(kind), labels.labels), want)
    assert np.array_equal(next_hop(labels, nodes[::-1], labels.labels[::-1]), want[::-1])
    assert next_hop(labels, [], []).tolist() == []
    assert next_hop(labels, 3, np.empty((0, 4), np.uint64)).shape == (0, 4)
    for odd in (-1, 2**64, "x", None, 0.5, [float("nan")], [True]):
        with pytest.raises(my.UsageError, match="expected integers"):
            next_hop(labels, 3, odd)  # type: ignore[arg-type]
    for number in (-1, 1.5, True):
        with pytest.raises(my.UsageError, match="from 0 on"):
            label(network, shortest_paths(network, 0), number)  # type: ignore[arg-type]
    assert label(network, shortest_paths(network, 0), np.int32(5)).tree == 5  # type: ignore[arg-type]


def test_labels_of_another_tree_are_refused() -> None:
    network = generate("barabasi-albert", 50)
    first, second = (label(network, tree, n) for n, tree in enumerate(grow(network, "LC", 2)))
    for at in (3, np.full(50, 3)):
        with pytest.raises(my.UsageError, match="another tree than 0"):
            next_hop(first, at, second.labels)
    with pytest.raises(my.UsageError, match="another tree"):
        next_hop(first, 3, first.labels | np.uint64(1) << np.uint64(63))


@given(st.integers(0, 2**64 - 1), st.integers(0, 49))
def test_any_number_as_a_label_is_refused_or_leads_to_an_interface(number: int, node: int) -> None:
    network = generate("barabasi-albert", 50)
    labels = label(network, shortest_paths(network, 0))
    number &= (1 << labels.n_bits) - 1
    for at in (node, np.array([node])):
        try:
            found = np.ravel(next_hop(labels, at, np.array([number], np.uint64)))[0]
        except my.UsageError:
            continue
        assert 0 <= found <= network.degrees[node]


@pytest.mark.parametrize("at", [-1, 50, [0, 1], 0.5, [50]])
def test_packets_at_no_node_are_refused(at: object) -> None:
    network = generate("tree", 50)
    labels = label(network, shortest_paths(network, 0))
    with pytest.raises(my.UsageError, match="expected"):
        next_hop(labels, at, labels.labels[:1])  # type: ignore[arg-type]


def test_labels_that_are_too_long_are_refused() -> None:
    """Five equal subtrees at each of eight levels: ranks of 3 bits for every fifth of the nodes."""
    nodes = np.arange(1, (5**9 - 1) // 4)
    network = from_links(np.stack([nodes, (nodes - 1) // 5], axis=1))
    with pytest.raises(my.UsageError, match="bits, expected at most 64"):
        label(network, shortest_paths(network, 0))


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="needs MATCHYARD_DATA")
@pytest.mark.parametrize("rule", ["L", "LC"])
def test_labels_of_the_internet_have_at_most_46_bits_and_lead_right(rule: str) -> None:
    internet = topology(DATA / "caida-as-rel-20120601.txt.gz")
    random = np.random.default_rng(1)
    for number, tree in enumerate(grow(internet, rule, 4)):
        labels = label(internet, tree, number)
        assert labels.n_bits == labels.bits().max() <= 46
        sources, targets = random.integers(0, internet.n_nodes, (2, 20_000))
        at, hops = routed(internet, labels, sources, targets)
        assert np.array_equal(at, targets)
        assert np.array_equal(hops, distances(tree, sources, targets))
