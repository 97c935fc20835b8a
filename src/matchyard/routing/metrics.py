"""What trees cost: how much longer paths get, how much more links carry, and what routers keep. [Thesis
2.4.2]"""

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
LANES: int = kernels.LANES  # sources that `stretch_from` takes at most
COUNTS = (1, 2, 4, 8, 16, 32)


class Distribution(NamedTuple):
    """Values that rise, and how many there are of each."""

    values: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def n(self) -> int:
        """How many there are of all."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """Their mean."""
        return float((self.values * self.counts).sum() / self.n) if self.n else float("nan")

    def quantile(self, share: float) -> float:
        """The least value that at least this share of all does not exceed.

        >>> Distribution(np.array([1.0, 2.0]), np.array([3, 1])).quantile(0.75)
        1.0
        """
        if not 0 <= share <= 1:
            raise UsageError(f"a share of {share}; expected a number from 0 to 1")
        if not self.n:
            return float("nan")
        wanted = np.ceil(share * self.n * (1 - 1e-12))  # 0.07 of 100 are 7, not a bit more
        place = int(np.searchsorted(np.cumsum(self.counts), max(1, wanted)))
        return float(self.values[place])

    def to_arrow(self) -> pa.Table:
        """Columns value and count."""
        return pa.table({"value": self.values, "count": self.counts})


def distribution(values: Iterable[float]) -> Distribution:
    """The distribution of some values."""
    found, counts = np.unique(np.asarray(list(values), np.float64), return_counts=True)
    return Distribution(found, counts.astype(np.int64))


# -------------------------------------------------------------------- stretch


def stretch(
    topology: Topology,
    trees: Sequence[Tree],
    counts: Sequence[int] = COUNTS,
    progress: Callable[[int], object] | None = None,
) -> dict[int, Distribution]:
    """The mean stretch of each pair of nodes over the first 1, 2, 4, … trees, of all pairs exactly.

    The stretch of a pair on a tree is the number of links between them on the tree, divided by the
    fewest links between them on the network, whatever links weigh. `progress` is called with the
    number of sources that were done.

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
    """Numbers of trees that there are, each once."""
    kept = sorted({count for count in counts if 1 <= count <= len(trees)})
    if not kept:
        raise UsageError(
            f"stretch over {list(counts)} of {len(trees)} trees; expected some of them"
        )
    return kept


def stretch_from(
    topology: Topology, trees: Sequence[Tree], counts: Sequence[int], sources: NDArray[np.int64]
) -> dict[int, NDArray[np.int64]]:
    """Pairs by distance on the network and sum of distances on the first trees, for up to 64 sources;
    of each pair the source is the node with the lower number."""
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
    found = {}
    for number, tree in enumerate(trees[: counts[-1]], 1):
        kernels.add_tree(tree.parent, tree.depth, tree.order, sources, below, room, sums)
        if number in counts:
            found[number] = np.zeros((deepest + 1, deepest * number + 1), np.int64)
            kernels.tally(sources, distances, sums, found[number])
    return found


def _as_stretch(pairs: NDArray[np.int64], count: int) -> Distribution:
    length, total = np.nonzero(pairs)
    values, place = np.unique(total / (count * length), return_inverse=True)
    return Distribution(values, np.bincount(place, pairs[length, total]).astype(np.int64))


# -------------------------------------------------------------------- congestion


def congestion(topology: Topology, trees: Sequence[Tree]) -> NDArray[np.float64]:
    """How many times as much each link carries as with the best use of all links; 0 where no tree
    uses it.

    A link of a tree cuts its nodes in two. It carries what all links of the network between the
    two parts could share, for one k-th of the traffic with k trees.

    >>> from matchyard.routing.topology import from_links
    >>> from matchyard.routing.trees import shortest_paths
    >>> ring = from_links([(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> congestion(ring, [shortest_paths(ring, 0)]).tolist()
    [2.0, 2.0, 2.0, 0.0]
    """
    if not trees:
        raise UsageError("congestion of no trees; expected at least one")
    ends = topology.ends()
    found = np.zeros(topology.n_links)
    for tree in trees:
        check_tree(topology, tree)
        cuts = cuts_of(tree.parent, tree.depth, tree.order, ends)
        found[links_of(topology, tree)] += cuts[np.flatnonzero(tree.parent >= 0)]
    return found / len(trees)


# -------------------------------------------------------------------- state


def label_bytes(labels: Sequence[Labels]) -> NDArray[np.int64]:
    """What each router keeps to route by labels on all these trees: its own label, eight numbers, and the interfaces
    to its light children. What it keeps to route by descriptors is in `Rib.memory`.

    >>> from matchyard.routing import from_links, label, shortest_paths
    >>> star = from_links([(0, 1), (0, 2), (0, 3)])
    >>> label_bytes([label(star, shortest_paths(star, 0))]).tolist()
    [48, 40, 40, 40]
    """
    if not labels:
        raise UsageError("labels of no trees; expected at least one")
    found = np.zeros(len(labels[0].labels), np.int64)
    for one in labels:
        if len(one.labels) != len(found):
            raise UsageError("labels of different networks; expected those of one")
        fixed = one.labels.itemsize + one.ups.itemsize * one.ups.shape[1]
        fixed += one.downs.itemsize * one.downs.shape[1]
        found += fixed + one.ports.itemsize * one.downs[:, N_LIGHT].astype(np.int64)
    return found
