"""Trees that span a network: packets follow one of them and so never loop. [Thesis 2.3.4]

L       roots at random, shortest paths from each                      low latency
LC      root in the centre; links that a tree uses then weigh more     low latency and load
H3      a tree of shortest paths for each node                         least latency, small networks
degree  roots are the nodes with the most links
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from matchyard.errors import UsageError
from matchyard.kernels.trees import depths_of, parents_of
from matchyard.routing.centres import centre
from matchyard.routing.topology import Topology


class Tree(NamedTuple):
    """A tree that spans a network."""

    root: int
    parent: NDArray[np.int32]  # [n_nodes] -1: the root
    depth: NDArray[np.int32]  # [n_nodes] links up to the root
    order: NDArray[np.int32]  # [n_nodes] all nodes, each after its parent


# The root of the next tree, from the network with its present weights, the trees before, and
# random numbers.
Rule = Callable[[Topology, Sequence[Tree], np.random.Generator], int]


def grow(
    topology: Topology,
    rule: str | Rule = "L",
    count: int | None = None,
    seed: int = 1,
    increment: float | None = None,
    ties: str = "least",
) -> list[Tree]:
    """Trees of shortest paths by a rule: "L", "LC", "H3", "degree", or a function that names roots.

    Each link that a tree uses weighs `increment` more for the next ones: 1 for "LC", 0 for others.
    Of several parents that are equally near, a node takes the one with the least number, or with
    `ties="random"`, any.

    >>> from matchyard.routing.models import generate
    >>> [tree.root for tree in grow(generate("grid", 9), "LC", 2)]
    [4, 4]
    """
    name, choose = _rule(rule, topology)
    if ties not in ("least", "random"):
        raise UsageError(f'ties must be "least" or "random", not {ties!r}')
    n_trees = (topology.n_nodes if name == "H3" else 1) if count is None else count
    if n_trees < 1 or (name in ("H3", "L", "degree") and n_trees > topology.n_nodes):
        raise UsageError(f"{n_trees} trees of {topology.n_nodes} nodes; expected 1 or more")
    added = float(name == "LC") if increment is None else increment
    if not added >= 0:
        raise UsageError(f"increment must be at least 0, not {increment}")
    random = np.random.default_rng(seed)
    weighted = replace(topology, weights=topology.weights.copy())
    trees: list[Tree] = []
    for _ in range(n_trees):
        root = choose(weighted, trees, random)
        tree = shortest_paths(weighted, root, random if ties == "random" else None)
        trees.append(tree)
        weighted.weights[links_of(weighted, tree)] += added
    return trees


def shortest_paths(
    topology: Topology, root: int, random: np.random.Generator | None = None
) -> Tree:
    """The tree of shortest paths from a node; with random numbers, any of the equally near parents."""
    if not 0 <= root < topology.n_nodes:
        raise UsageError(f"no node {root}; expected a number from 0 to {topology.n_nodes - 1}")
    distance = dijkstra(topology.matrix(), indices=root)
    if not np.isfinite(distance).all():
        lost = topology.names[int(np.isinf(distance).argmax())]
        raise UsageError(
            f"no path from {topology.names[root]} to {lost}; expected a connected network, "
            "e.g. its largest component"
        )
    order = np.argsort(distance, kind="stable").astype(np.int32)
    draws = np.empty(0) if random is None else random.random(topology.n_nodes)
    parent = parents_of(
        topology.start, topology.neighbours, topology.links, topology.weights, distance, draws
    )
    return Tree(root, parent, depths_of(parent, order), order)


def links_of(topology: Topology, tree: Tree) -> NDArray[np.int32]:
    """The link from each node to its parent, for all nodes but the root, in the order of nodes."""
    nodes = np.repeat(np.arange(topology.n_nodes, dtype=np.int32), topology.degrees)
    found: NDArray[np.int32] = topology.links[topology.neighbours == tree.parent[nodes]]
    return found


def _rule(rule: str | Rule, topology: Topology) -> tuple[str, Rule]:
    if callable(rule):
        return "", rule
    if rule not in RULES:
        raise UsageError(f"no rule {rule!r}; expected one of {', '.join(RULES)}, or a function")
    return rule, RULES[rule]


def _at_random(topology: Topology, trees: Sequence[Tree], random: np.random.Generator) -> int:
    """Any node that is no root yet."""
    taken = {tree.root for tree in trees}
    while (root := int(random.integers(topology.n_nodes))) in taken:
        pass
    return root


def _in_the_centre(topology: Topology, trees: Sequence[Tree], random: np.random.Generator) -> int:
    return centre(topology)


def _one_by_one(topology: Topology, trees: Sequence[Tree], random: np.random.Generator) -> int:
    return len(trees)


def _by_degree(topology: Topology, trees: Sequence[Tree], random: np.random.Generator) -> int:
    return int(np.argsort(-topology.degrees, kind="stable")[len(trees)])


RULES: dict[str, Rule] = {
    "L": _at_random,
    "LC": _in_the_centre,
    "H3": _one_by_one,
    "degree": _by_degree,
}
