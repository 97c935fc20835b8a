"""A network: nodes and weighted links between them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from matchyard.errors import UsageError
from matchyard.routing.whole_numbers import whole_number

_log = logging.getLogger("matchyard")
MOST_NODES = 1 << 31


@dataclass(frozen=True, eq=False, repr=False)
class Topology:
    """Nodes 0 … n - 1, each with the neighbours that its interfaces lead to.

    Interface i of node v, from 1 on, leads to `neighbours[start[v] + i - 1]`. Interface 0 leads to
    the node's own applications.

    >>> network = from_links([(0, 1), (1, 2)], names=["a", "b", "c"])
    >>> network.neighbours[network.start[1] : network.start[2]].tolist()
    [0, 2]
    >>> network.node("c")
    2
    """

    start: NDArray[np.int64]  # [n_nodes + 1]
    neighbours: NDArray[np.int32]  # [2 * n_links] ascending within a node
    links: NDArray[np.int32]  # [2 * n_links] the link behind each interface
    weights: NDArray[np.float64]  # [n_links] above 0
    names: tuple[str, ...]  # [n_nodes]

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return len(self.start) - 1

    @property
    def n_links(self) -> int:
        """The number of links; a link leads both ways."""
        return len(self.weights)

    @property
    def degrees(self) -> NDArray[np.int64]:
        """The number of interfaces of each node, without interface 0."""
        return np.diff(self.start)

    def node(self, name: object) -> int:
        """The number of the node with a name."""
        try:
            return self._numbers[str(name)]
        except KeyError:
            some = ", ".join(self.names[:3])
            raise UsageError(
                f"no node {str(name)!r} among {self.n_nodes}; expected a name such as {some}"
            ) from None

    def checked_node(self, node: Any) -> int:
        """Check the number of a node and return it."""
        number = whole_number(node, "node")
        if not 0 <= number < self.n_nodes:
            raise UsageError(f"no node {number}; expected a number from 0 to {self.n_nodes - 1}")
        return number

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def __repr__(self) -> str:
        return f"Topology({self.n_nodes} nodes, {self.n_links} links)"

    def ends(self) -> NDArray[np.int32]:
        """The two nodes of each link, the lower number first: [n_links, 2]."""
        low = np.repeat(np.arange(self.n_nodes, dtype=np.int32), self.degrees)
        is_first = low < self.neighbours
        pairs = np.empty((self.n_links, 2), np.int32)
        pairs[self.links[is_first], 0] = low[is_first]
        pairs[self.links[is_first], 1] = self.neighbours[is_first]
        return pairs

    def matrix(self, weights: NDArray[np.float64] | None = None) -> csr_array:
        """The network as a SciPy matrix, optionally with other weights."""
        data = (self.weights if weights is None else weights)[self.links]
        return csr_array((data, self.neighbours, self.start), shape=(self.n_nodes, self.n_nodes))


def from_links(
    links: ArrayLike,
    weights: ArrayLike | None = None,
    names: Iterable[object] | None = None,
    n_nodes: int | None = None,
) -> Topology:
    """Make a network from pairs of node numbers.

    Links from a node to itself are dropped. Of several links between two nodes, the lightest stays.
    The default weight is 1.

    >>> from_links([(0, 1), (1, 0), (1, 1)]).n_links
    1
    """
    ends = _pairs(links)
    costs = np.ones(len(ends)) if weights is None else _numbers_of(weights)
    called = None if names is None else [str(name) for name in names]
    n = int(ends.max(initial=-1)) + 1 if n_nodes is None else n_nodes
    n = n if called is None else len(called)
    _check(ends, costs, n, called)
    kept = ends[:, 0] != ends[:, 1]
    low, high = np.sort(ends[kept], axis=1).T
    order = np.lexsort((costs[kept], high, low))
    low, high, costs = low[order], high[order], costs[kept][order]
    is_first = np.append(True, (np.diff(low) != 0) | (np.diff(high) != 0))[: len(low)]
    low, high, costs = low[is_first], high[is_first], costs[is_first]
    of_link = np.tile(np.arange(len(low), dtype=np.int32), 2)
    here, there = np.concatenate([low, high]), np.concatenate([high, low])
    order = np.lexsort((there, here))
    start = np.append(0, np.cumsum(np.bincount(here, minlength=n)))
    return Topology(
        start.astype(np.int64),
        there[order].astype(np.int32),
        of_link[order],
        costs,
        tuple(map(str, range(n)) if called is None else called),
    )


def _pairs(links: ArrayLike) -> NDArray[np.int64]:
    try:
        ends = np.asarray(links)
        if not ends.size:
            return np.empty((0, 2), np.int64)
        if ends.ndim != 2 or ends.shape[1] != 2 or ends.dtype.kind not in "iu":
            raise ValueError(f"an array of {ends.dtype} of shape {ends.shape}")
        return ends.astype(np.int64)
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"not links: {error}; expected pairs of node numbers") from None


def _numbers_of(weights: ArrayLike) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(weights, np.float64)
    except (ValueError, TypeError) as error:
        raise UsageError(f"not weights: {error}; expected a number for each link") from None
    if numbers.ndim != 1:
        raise UsageError(f"weights of shape {numbers.shape}; expected a number for each link")
    return numbers


def _check(ends: NDArray[Any], costs: NDArray[Any], n: int, names: Sequence[str] | None) -> None:
    if len(costs) != len(ends):
        raise UsageError(f"{len(costs)} weights for {len(ends)} links; expected one for each")
    if n > MOST_NODES:
        raise UsageError(f"{n} nodes; expected at most {MOST_NODES}")
    if ends.min(initial=0) < 0:
        raise UsageError(f"a link to node {ends.min()}; expected numbers from 0 on")
    if ends.max(initial=-1) >= n:
        raise UsageError(f"a link to node {ends.max()} of {n} nodes; expected numbers below that")
    if names is not None and len(set(names)) != n:
        raise UsageError("two nodes have one name; expected names that differ")
    odd = costs[~(np.isfinite(costs) & (costs > 0))]
    if len(odd):
        raise UsageError(f"a link of weight {odd[0]}; expected a finite number above 0")


def largest_component(topology: Topology) -> Topology:
    """The largest connected component of a network.

    >>> largest_component(from_links([(0, 1), (2, 3), (3, 4)])).names
    ('2', '3', '4')
    """
    n_components, component = connected_components(topology.matrix(), directed=False)
    if n_components <= 1:
        return topology
    is_kept = component == np.bincount(component).argmax()
    number = np.cumsum(is_kept) - 1
    ends = topology.ends()
    kept = is_kept[ends[:, 0]]
    _log.info("kept the largest component: %d of %d nodes", is_kept.sum(), topology.n_nodes)
    return from_links(
        number[ends[kept]],
        topology.weights[kept],
        [name for name, stays in zip(topology.names, is_kept, strict=True) if stays],
    )
