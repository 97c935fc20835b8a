"""The interfaces of a router on each tree, from 1 on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from matchyard.errors import UsageError
from matchyard.routing.saved_ribs import MOST_INTERFACES, MOST_TREES
from matchyard.routing.topology import Topology
from matchyard.routing.trees import Tree, check_tree
from matchyard.routing.whole_numbers import whole_number


def links_at(topology: Topology, trees: Sequence[Tree], node: int) -> list[list[int]]:
    """The interfaces of a node on each tree: they lead to its parent and its children.

    >>> from matchyard.routing import from_links, shortest_paths
    >>> network = from_links([(0, 1), (1, 2), (2, 0)])
    >>> links_at(network, [shortest_paths(network, 0), shortest_paths(network, 1)], 1)
    [[1], [1, 2]]
    """
    node = topology.checked_node(node)
    near = topology.neighbours[topology.start[node] : topology.start[node + 1]]
    links = []
    for tree in trees:
        check_tree(topology, tree)
        is_on = (tree.parent[near] == node) | (near == tree.parent[node])
        links.append((np.flatnonzero(is_on) + 1).tolist())
    return links


def checked_links(links: Sequence[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    """Check the interfaces on each tree; return them sorted, each once."""
    expected = "expected the interfaces on each tree, e.g. [[1, 2], [2]]"
    try:
        checked = tuple(
            tuple(sorted({whole_number(one, "interface") for one in tree})) for tree in links
        )
    except TypeError as error:
        raise UsageError(f"not links: {error}; {expected}") from None
    if len(checked) > MOST_TREES:
        raise UsageError(f"{len(checked)} trees; expected at most {MOST_TREES}")
    odd = [one for tree in checked for one in tree if not 1 <= one < MOST_INTERFACES]
    if odd:
        raise UsageError(f"interface {odd[0]}; expected 1 to {MOST_INTERFACES - 1}")
    return checked
