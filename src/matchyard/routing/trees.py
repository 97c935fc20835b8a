"""Trees that span a network: packets follow one of them and so never loop. [Thesis 2.3.4]

L       random roots, shortest paths from each                         low latency
LC      root in the centre; links of earlier trees weigh more          low latency and load
H3      a tree of shortest paths for each node                         least latency, small networks
degree  roots are the nodes with the most links
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.kernels.routing.trees import depths_of, parents_of
from matchyard.routing.centres import centre, distances_from
from matchyard.routing.topology import Topology


class Tree(NamedTuple):
    """A tree that spans a network."""

    root: int
    parent: NDArray[np.int32]  # [n_nodes] -1: the root
    depth: NDArray[np.int32]  # [n_nodes] the number of links to the root
    order: NDArray[np.int32]  # [n_nodes] all nodes, each after its parent


# Returns the root of the next tree, from the network with its present weights, the earlier trees,
# and a random generator.
Rule = Callable[[Topology, Sequence[Tree], np.random.Generator], int]


def grow(
    topology: Topology,
    rule: str | Rule = "L",
    count: int | None = None,
    seed: int = 1,
    increment: float | None = None,
    ties: str = "least",
) -> list[Tree]:
    """Grow trees of shortest paths by a rule: "L", "LC", "H3", "degree", or a function that names roots.

    Trees may be equal: on a small network, "LC" finds the same one again (see `first_equal`). Trees with the same order of
    nodes, too, are one object. Each link of a tree weighs `increment` more for the next trees: by default 1 for "LC", 0 for other
    rules. Of several equally near parents, a node takes the one with the least number, or a random
    one with `ties="random"`.

    >>> from matchyard.routing.models import generate
    >>> [tree.root for tree in grow(generate("grid", 9), "LC", 2)]
    [4, 4]
    """
    name, choose = _rule(rule, topology)
    if ties not in ("least", "random"):
        raise UsageError(f'ties must be "least" or "random", not {ties!r}')
    n_trees = (topology.n_nodes if name == "H3" else 1) if count is None else count
    if n_trees < 1 or (name in ("H3", "L", "degree") and n_trees > topology.n_nodes):
        most = f" to {topology.n_nodes}" if name in ("H3", "L", "degree") else " or more"
        raise UsageError(f"{n_trees} trees of {topology.n_nodes} nodes; expected 1{most}")
    added = float(name == "LC") if increment is None else increment
    if not (added >= 0 and math.isfinite(added)):
        raise UsageError(f"increment must be a number from 0 on, not {increment}")
    if seed < 0:
        raise UsageError(f"seed {seed}; expected a number from 0 on")
    random = np.random.default_rng(seed)
    weighted = replace(topology, weights=topology.weights.copy())
    trees: list[Tree] = []
    known: dict[tuple[bytes, bytes], Tree] = {}
    for _ in range(n_trees):
        root = choose(weighted, trees, random)
        tree = shortest_paths(weighted, root, random if ties == "random" else None)
        as_it_is = tree.parent.tobytes(), tree.order.tobytes()  # weights change the order of nodes
        trees.append(known.setdefault(as_it_is, tree))
        weighted.weights[links_of(weighted, tree)] += added
    return trees


def first_equal(trees: Sequence[Tree]) -> list[int]:
    """For each tree, the number of the first tree that is equal to it.

    >>> from matchyard.routing.topology import from_links
    >>> first_equal(grow(from_links([(0, 1), (1, 2), (2, 3), (3, 0)]), "LC", 4))
    [0, 1, 2, 1]
    """
    first: dict[bytes, int] = {}
    return [first.setdefault(tree.parent.tobytes(), number) for number, tree in enumerate(trees)]


def shortest_paths(
    topology: Topology, root: int, random: np.random.Generator | None = None
) -> Tree:
    """The tree of shortest paths from a node; `random` chooses among equally near parents."""
    if not isinstance(root, int | np.integer) or not 0 <= root < topology.n_nodes:
        raise UsageError(f"no node {root!r}; expected a number from 0 to {topology.n_nodes - 1}")
    distance = distances_from(topology.matrix(), topology, int(root))
    order = np.argsort(distance, kind="stable").astype(np.int32)
    draws = np.empty(0) if random is None else random.random(topology.n_nodes)
    parent = parents_of(
        topology.start, topology.neighbours, topology.links, topology.weights, distance, draws
    )
    if (parent < 0).sum() != 1:
        raise UsageError(
            "a link weighs so little beside others that rounding loses it in the sum of a path; "
            "expected weights of similar size"
        )
    return Tree(int(root), parent, depths_of(parent, order), order)


def check_tree(topology: Topology, tree: Tree) -> None:
    """Raise an error unless the tree spans this network: kernels do not check it."""
    n_nodes, others = topology.n_nodes, np.flatnonzero(tree.parent >= 0)
    is_tree = (
        tree.parent.shape == tree.depth.shape == tree.order.shape == (n_nodes,)
        and 0 <= tree.root < n_nodes
        and np.array_equal(np.delete(np.arange(n_nodes), tree.root), others)
        and len(links_of(topology, tree)) == n_nodes - 1
        and np.array_equal(tree.depth[others], tree.depth[tree.parent[others]] + 1)
        and tree.depth[tree.root] == 0
        and np.array_equal(np.sort(tree.order), np.arange(n_nodes))
    )
    if is_tree:
        position = np.empty(n_nodes, np.int64)
        position[tree.order] = np.arange(n_nodes)
        is_tree = bool((position[tree.parent[others]] < position[others]).all())
    if not is_tree:
        raise UsageError(f"a tree of another network than {topology}; expected one that spans it")


def links_of(topology: Topology, tree: Tree) -> NDArray[np.int32]:
    """The link from each node to its parent, in the order of nodes, without the root."""
    nodes = np.repeat(np.arange(topology.n_nodes, dtype=np.int32), topology.degrees)
    links: NDArray[np.int32] = topology.links[topology.neighbours == tree.parent[nodes]]
    return links


def _rule(rule: str | Rule, topology: Topology) -> tuple[str, Rule]:
    if callable(rule):
        return "", rule
    if not isinstance(rule, str) or rule not in RULES:
        raise UsageError(f"no rule {rule!r}; expected one of {', '.join(RULES)}, or a function")
    return rule, RULES[rule]


def _at_random(topology: Topology, trees: Sequence[Tree], random: np.random.Generator) -> int:
    """A random node that is no root yet."""
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
