"""The placement of users: the node of a network to which each user belongs. [Thesis 2.4.4]

The thesis has users in all networks of the Internet, but does not say how many users each has. A
placement names such a distribution: the share of users at each node. The node of a user depends only
on the user's number, the seed and the placement, not on other users.

zipf      the largest node has twice as many users as the second, three times as many as the third, …;
          the order of the nodes is random
uniform   all nodes have the same share
degree    the share of a node is proportional to its number of links
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchyard.errors import UsageError
from matchyard.kernels.random import choose_each
from matchyard.routing.topology import Topology
from matchyard.routing.whole_numbers import whole_number, whole_numbers

_USER = 0x5553  # separates the random numbers of placements from others


def _zipf(topology: Topology, seed: int) -> NDArray[np.float64]:
    ranks = np.random.default_rng(seed).permutation(topology.n_nodes)
    shares: NDArray[np.float64] = 1 / (ranks + 1.0)
    return shares


def _uniform(topology: Topology, seed: int) -> NDArray[np.float64]:
    return np.ones(topology.n_nodes)


def _degree(topology: Topology, seed: int) -> NDArray[np.float64]:
    return np.maximum(topology.degrees, 1).astype(np.float64)


PLACEMENTS: dict[str, Callable[[Topology, int], NDArray[np.float64]]] = {
    "zipf": _zipf,
    "uniform": _uniform,
    "degree": _degree,
}


def place(
    users: ArrayLike, topology: Topology, placement: str = "zipf", seed: int = 1
) -> NDArray[np.int32]:
    """The node of each user, from the number of that user.

    >>> from matchyard.routing import generate
    >>> place([3, 4, 3], generate("grid", 9))[[0, 2]].tolist()
    [2, 2]
    """
    if placement not in PLACEMENTS:
        raise UsageError(
            f"no placement {placement!r}; expected one of {', '.join(PLACEMENTS)}, e.g. 'zipf'"
        )
    seed = whole_number(seed, "seed")
    if not 0 <= seed < 1 << 63:
        raise UsageError(f"seed {seed}; expected a number from 0 to 2^63 - 1")
    if topology.n_nodes == 0:
        raise UsageError("no node to place users at; expected a network with at least one")
    shares = np.cumsum(PLACEMENTS[placement](topology, seed))
    numbers = whole_numbers(users, "users")
    nodes: NDArray[np.int32] = choose_each(shares / shares[-1], numbers, seed ^ _USER)
    return nodes
