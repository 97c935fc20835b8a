"""The cost of trees: longer paths, higher load of links, and the state of routers. [Thesis 2.4.2]"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.kernels.routing import stretch as kernels
from matchyard.kernels.routing.trees import N_LIGHT, cuts_of
from matchyard.routing.labels import Labels
from matchyard.routing.topology import Topology
from matchyard.routing.trees import Tree, check_tree, links_of

_MOST_BINS = 1 << 24
LANES: int = kernels.LANES  # the most sources per call of `stretch_from`
COUNTS = (1, 2, 4, 8, 16, 32)


class Distribution(NamedTuple):
    """Rising values, and the number of occurrences of each."""

    values: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def n(self) -> int:
        """The number of all occurrences."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """The mean of all occurrences."""
        return float((self.values * self.counts).sum() / self.n) if self.n else float("nan")

    def quantile(self, share: float) -> float:
        """The least value such that at least this share of all occurrences is not above it.

        >>> Distribution(np.array([1.0, 2.0]), np.array([3, 1])).quantile(0.75)
        1.0
        """
        if not 0 <= share <= 1:
            raise UsageError(f"a share of {share}; expected a number from 0 to 1")
        if not self.n:
            return float("nan")
        wanted = np.ceil(
            share * self.n * (1 - 1e-12)
        )  # rounding must not make 0.07 of 100 exceed 7
        position = int(np.searchsorted(np.cumsum(self.counts), max(1, wanted)))
        return float(self.values[position])

    def to_arrow(self) -> pa.Table:
        """A table with the columns value and count."""
        return pa.table({"value": self.values, "count": self.counts})


def distribution(values: Iterable[float]) -> Distribution:
    """Count the occurrences of each value."""
    distinct, counts = np.unique(np.asarray(list(values), np.float64), return_counts=True)
    return Distribution(distinct, counts.astype(np.int64))


# -------------------------------------------------------------------- stretch


def stretch(
    topology: Topology,
    trees: Sequence[Tree],
    counts: Sequence[int] = COUNTS,
    progress: Callable[[int], object] | None = None,
) -> dict[int, Distribution]:
    """The distribution over all pairs of nodes of the mean stretch on the first 1, 2, 4, … trees.

    The stretch of a pair on a tree is the number of links between them on the tree, divided by the
    fewest links between them on the network; weights are ignored. `progress` is called with the
    number of finished sources.

    >>> from matchyard.routing.topology import from_links
    >>> from matchyard.routing.trees import shortest_paths
    >>> ring = from_links([(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> stretch(ring, [shortest_paths(ring, 0)], [1])[1]
    Distribution(values=array([1., 3.]), counts=array([5, 1]))
    """
    kept = check_counts(trees, counts)
    for tree in trees[: kept[-1]]:
        check_tree(topology, tree)
    totals: dict[int, NDArray[np.int64]] = {}
    for first in range(0, topology.n_nodes, kernels.LANES):
        sources = np.arange(first, min(topology.n_nodes, first + kernels.LANES))
        for count, pairs in stretch_from(topology, trees, kept, sources).items():
            totals[count] = totals.get(count, 0) + pairs
        if progress is not None:
            progress(len(sources))
    return {count: _as_stretch(pairs, count) for count, pairs in totals.items()}


def check_counts(trees: Sequence[Tree], counts: Sequence[int]) -> list[int]:
    """The sorted distinct counts that do not exceed the number of trees."""
    kept = sorted({count for count in counts if 1 <= count <= len(trees)})
    if not kept:
        raise UsageError(
            f"stretch over {list(counts)} of {len(trees)} trees; expected counts from 1 to {len(trees)}"
        )
    return kept


def stretch_from(
    topology: Topology, trees: Sequence[Tree], counts: Sequence[int], sources: NDArray[np.int64]
) -> dict[int, NDArray[np.int64]]:
    """Count pairs by distance on the network and by sum of distances on the first trees.
    There are up to 64 sources; the source of a pair is its node with the lower number."""
    n_nodes = topology.n_nodes
    deepest = 2 * max(int(tree.depth.max(initial=0)) for tree in trees[: counts[-1]])
    width: type[np.unsignedinteger] = np.uint8 if deepest < 256 else np.uint16
    if deepest**2 * counts[-1] > _MOST_BINS or deepest * counts[-1] > np.iinfo(np.uint16).max:
        raise UsageError(
            f"{counts[-1]} trees with paths of up to {deepest} links; exact stretch needs fewer or shallower "
            "ones"
        )
    distances = np.empty((n_nodes, kernels.LANES), width)
    if not kernels.links_between(topology.start, topology.neighbours, sources, distances):
        raise UsageError("no path between some nodes; expected a connected network")
    room = np.zeros((n_nodes, kernels.LANES), width)
    sums = np.zeros((n_nodes, kernels.LANES), np.uint16)
    below = np.zeros(n_nodes, np.uint64)
    pairs = {}
    for number, tree in enumerate(trees[: counts[-1]], 1):
        kernels.add_tree(tree.parent, tree.depth, tree.order, sources, below, room, sums)
        if number in counts:
            pairs[number] = np.zeros((deepest + 1, deepest * number + 1), np.int64)
            kernels.tally(sources, distances, sums, pairs[number])
    return pairs


def _as_stretch(pairs: NDArray[np.int64], count: int) -> Distribution:
    length, total = np.nonzero(pairs)
    values, position = np.unique(total / (count * length), return_inverse=True)
    return Distribution(values, np.bincount(position, pairs[length, total]).astype(np.int64))


# -------------------------------------------------------------------- congestion


def congestion(topology: Topology, trees: Sequence[Tree]) -> NDArray[np.float64]:
    """The load of each link relative to an ideal use of all links; 0 if no tree uses the link.

    A link of a tree cuts the nodes into two parts. On that tree, this link alone carries the traffic
    between the parts, which all network links between them could share. With k trees, each tree
    carries one k-th of the traffic.

    >>> from matchyard.routing.topology import from_links
    >>> from matchyard.routing.trees import shortest_paths
    >>> ring = from_links([(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> congestion(ring, [shortest_paths(ring, 0)]).tolist()
    [2.0, 2.0, 2.0, 0.0]
    """
    if not trees:
        raise UsageError("congestion of no trees; expected at least one")
    ends = topology.ends()
    load = np.zeros(topology.n_links)
    for tree in trees:
        check_tree(topology, tree)
        cuts = cuts_of(tree.parent, tree.depth, tree.order, ends)
        load[links_of(topology, tree)] += cuts[np.flatnonzero(tree.parent >= 0)]
    return load / len(trees)


# -------------------------------------------------------------------- state


def label_bytes(labels: Sequence[Labels]) -> NDArray[np.int64]:
    """The bytes that each router stores to route by labels on all these trees.

    These are its own label, eight numbers, and the interfaces to its light children. `Rib.memory` has
    the bytes for routing by descriptors.

    >>> from matchyard.routing import from_links, label, shortest_paths
    >>> star = from_links([(0, 1), (0, 2), (0, 3)])
    >>> label_bytes([label(star, shortest_paths(star, 0))]).tolist()
    [48, 40, 40, 40]
    """
    if not labels:
        raise UsageError("labels of no trees; expected at least one")
    sizes = np.zeros(len(labels[0].labels), np.int64)
    for one in labels:
        if len(one.labels) != len(sizes):
            raise UsageError("labels of different networks; expected those of one")
        fixed = one.labels.itemsize + one.ups.itemsize * one.ups.shape[1]
        fixed += one.downs.itemsize * one.downs.shape[1]
        sizes += fixed + one.ports.itemsize * one.downs[:, N_LIGHT].astype(np.int64)
    return sizes
