"""Generated networks: scale-free networks, grids and trees."""

from __future__ import annotations

import numpy as np

from matchyard.errors import UsageError
from matchyard.routing.topology import Topology, from_links


def generate(kind: str, n_nodes: int, seed: int = 1, links_per_node: int = 2) -> Topology:
    """Generate a network of a kind: "barabasi-albert", "grid" or "tree".

    The seed has no effect on grids. In a network of Barabási and Albert, each new node is linked to
    `links_per_node` others, chosen by their degree. A grid is as square as `n_nodes` allows.

    >>> generate("grid", 6)
    Topology(6 nodes, 7 links)
    >>> generate("barabasi-albert", 100)
    Topology(100 nodes, 196 links)
    """
    if kind not in _KINDS:
        raise UsageError(f"no network {kind!r}; expected one of {', '.join(_KINDS)}")
    if n_nodes < 1 or links_per_node < 1:
        raise UsageError(f"{n_nodes} nodes with {links_per_node} links each; expected at least 1")
    if seed < 0:
        raise UsageError(f"seed {seed}; expected a number from 0 on")
    return _KINDS[kind](n_nodes, np.random.default_rng(seed), links_per_node)


def _barabasi_albert(n: int, random: np.random.Generator, n_links: int) -> Topology:
    """Link each new node to random ends of existing links, which chooses nodes by degree."""
    if n <= n_links:
        raise UsageError(f"{n} nodes with {n_links} links each; expected more nodes than that")
    ends = list(range(n_links))  # the first new node is linked to all nodes before it
    links = []
    for node in range(n_links, n):
        chosen: set[int] = set()
        while len(chosen) < n_links:
            chosen.add(ends[int(random.integers(len(ends)))])
        if node == n_links:
            ends.clear()
        for other in sorted(chosen):
            links.append((node, other))
            ends += [node, other]
    return from_links(links, n_nodes=n)


def _grid(n: int, random: np.random.Generator, n_links: int) -> Topology:
    width = max(1, round(n**0.5))
    nodes = np.arange(n)
    right = nodes[(nodes % width != width - 1) & (nodes + 1 < n)]
    down = nodes[nodes + width < n]
    links = np.concatenate(
        [np.stack([right, right + 1], axis=1), np.stack([down, down + width], axis=1)]
    )
    return from_links(links, n_nodes=n)


def _tree(n: int, random: np.random.Generator, n_links: int) -> Topology:
    """Link each node to a random earlier node, all of them equally likely."""
    nodes = np.arange(1, n)
    return from_links(np.stack([nodes, random.integers(nodes)], axis=1), n_nodes=n)


_KINDS = {"barabasi-albert": _barabasi_albert, "grid": _grid, "tree": _tree}
