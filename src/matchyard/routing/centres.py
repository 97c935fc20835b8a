"""The centre of a network, exactly, from few shortest-path searches.

The eccentricity of a node is the distance to the node farthest from it; a centre has the least. One
search from v bounds the eccentricity of every other node u: at least max(d(u, v), ecc(v) - d(u, v))
and at most ecc(v) + d(u, v). Nodes that the bounds rule out are never searched from.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from matchyard.errors import UsageError
from matchyard.routing.topology import Topology

_ROUNDING = 1e-9  # relative; far above the rounding error of sums of thousands of weights


def centre(topology: Topology) -> int:
    """The node of least eccentricity; ties go to the most links, then to the least number.

    >>> from matchyard.routing.topology import from_links
    >>> centre(from_links([(0, 1), (1, 2), (2, 3), (3, 4)]))
    2
    """
    return search(topology)[0]


def search(topology: Topology) -> tuple[int, float, int]:
    """The centre, its eccentricity, and the number of searches."""
    if not topology.n_nodes:
        raise UsageError("no centre of a network without nodes")
    matrix = topology.matrix()
    rank = np.empty(topology.n_nodes, np.int64)  # breaks ties of eccentricity
    rank[np.lexsort((np.arange(topology.n_nodes), -topology.degrees))] = np.arange(topology.n_nodes)
    lower = np.zeros(topology.n_nodes)
    is_open = np.ones(
        topology.n_nodes, np.bool_
    )  # True: not searched from, and still a possible centre
    slack = 0.0 if np.array_equal(topology.weights, np.rint(topology.weights)) else _ROUNDING
    best, least, n_searches = -1, np.inf, 0
    while is_open.any():
        # Search from the most promising node, then from the node farthest from it: the second
        # search gives tight bounds for many nodes.
        node = _first(lower, rank, is_open)
        distance = distances_from(matrix, topology, node)
        n_searches += 1
        eccentricity = distance.max()
        if (eccentricity, rank[node]) < (least, rank[best] if best >= 0 else 0):
            best, least = node, eccentricity
        is_open[node] = False
        far = int(distance.argmax())
        from_far = distances_from(matrix, topology, far)
        n_searches += 1
        for bounding in (distance, from_far):
            np.maximum(lower, np.maximum(bounding, bounding.max() - bounding), out=lower)
        # Sums of fractions are rounded, so the bounds are inexact: nodes within the slack stay open.
        is_open &= (
            (lower < least)
            | ((lower == least) & (rank < rank[best]))
            | (lower - least < slack * least)
        )
    return best, float(least), n_searches


def _first(lower: NDArray[np.float64], rank: NDArray[np.int64], is_open: NDArray[np.bool_]) -> int:
    nodes = np.flatnonzero(is_open)
    nodes = nodes[lower[nodes] == lower[nodes].min()]
    return int(nodes[rank[nodes].argmin()])


def distances_from(matrix: object, topology: Topology, node: int) -> NDArray[np.float64]:
    """The weight of the shortest path from a node to every other."""
    distances: NDArray[np.float64] = dijkstra(matrix, indices=node)
    if not np.isfinite(distances).all():
        lost = topology.names[int(np.isinf(distances).argmax())]
        raise UsageError(
            f"no path of finite weight from {topology.names[node]} to {lost}; expected a connected "
            "network, e.g. its largest component"
        )
    return distances
