"""Labels that route on a tree. A node computes the next hop of a packet in a few instructions from
the label of the destination, without a table of the other nodes. [Thesis 2.3.7, Thorup and Zwick 2001]

The heavy child of a node is the child with the largest subtree; the others are light. Node numbers
put the subtrees of the light children first and the subtree of the heavy child last:

    node v:   v   | light subtrees …   | heavy subtree        |
    numbers:  v     v + 1 … heavy - 1    heavy … last

A label holds the number of its node. For each light edge on the path from the root, it also holds
the rank of the child among its siblings; the largest subtree has rank 1. Labels are short, because a
path has few light edges and a child of high rank has a small subtree: 46 bits for the 41 203 networks
of the Internet in 2012.

    label:   number | ranks, the edge next to the root in the lowest bits | ends of ranks
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchyard.errors import UsageError
from matchyard.kernels.routing.trees import (
    children_of,
    hop_at_each,
    hop_at_one,
    labels_of,
    sizes_of,
)
from matchyard.routing.topology import Topology
from matchyard.routing.trees import Tree, check_tree

_MOST_BITS = 64
_TAG_AT, _TAG_MASK = 48, (1 << 16) - 1


class Labels(NamedTuple):
    """The labels of all nodes of one tree, and the arrays by which each node routes.

    The upper 16 bits of a label hold the number of its tree, so that labels of another tree are
    noticed. They hold 0 if the route needs these bits; on all networks tried so far, it does not.
    """

    labels: NDArray[np.uint64]  # [n_nodes]
    ups: NDArray[np.int32]  # [n_nodes, 4] the state of routers for packets that go up…
    downs: NDArray[np.int32]  # [n_nodes, 4] …and down: see `kernels.trees`
    ports: NDArray[np.int32]  # interfaces of the light children of all nodes, by rank
    n_rank_bits: int  # the width of the ranks of a label, and of their ends
    n_bits: int  # the length of the longest label, without the tree
    tree: int

    @property
    def form(self) -> tuple[int, int]:
        """The first bit of the tree's number in a label, and that number; 0 if it does not fit."""
        has_room = self.n_bits <= _TAG_AT
        return (_TAG_AT, self.tree & _TAG_MASK) if has_room else (self.n_bits, 0)

    def of_tree(self, number: int) -> Labels:
        """The labels of an equal tree with another number."""
        other = self._replace(tree=number)
        above, tag = other.form
        if above < _MOST_BITS:
            own = self.labels & np.uint64((1 << above) - 1)
            other = other._replace(labels=own | np.uint64(tag << above))
        return other

    def bits(self) -> NDArray[np.int64]:
        """The length of each label in bits: its number, its ranks and their ends."""
        mask = self.labels & np.uint64((1 << self.n_rank_bits) - 1)
        n_used = np.zeros(len(mask), np.int64)
        for bit in range(self.n_rank_bits):
            n_used[mask >> np.uint64(bit) > 0] = bit + 1
        return self.n_bits - 2 * (self.n_rank_bits - n_used)


def label(topology: Topology, tree: Tree, number: int = 0) -> Labels:
    """Label the nodes of a tree; `number` is its number among the trees of the network.

    >>> from matchyard.routing.models import generate
    >>> from matchyard.routing.trees import grow
    >>> network = generate("tree", 9)
    >>> [tree] = grow(network, "LC", 1)
    >>> labels = label(network, tree)
    >>> next_hop(labels, tree.root, labels.labels[tree.root])
    0
    """
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
        raise UsageError(f"tree {number!r}; expected a number from 0 on")
    check_tree(topology, tree)
    number = int(number)
    sizes = sizes_of(tree.parent, tree.order)
    # Children in the order of their parents, the largest subtree first, ties by number.
    children = np.lexsort((np.arange(len(sizes)), -sizes, tree.parent))[1:].astype(np.int32)
    child_start = children_of(tree.parent)
    numbers, ranks, ends, ups, downs, ports = labels_of(
        topology.start, topology.neighbours, tree.parent, tree.order, sizes, child_start, children
    )
    n_rank_bits = int(ends.max(initial=0)).bit_length()
    n_bits = max(1, (topology.n_nodes - 1).bit_length()) + 2 * n_rank_bits
    if n_bits > _MOST_BITS:
        raise UsageError(
            f"labels of this tree have {n_bits} bits, expected at most {_MOST_BITS}: its paths have "
            "too many light edges of high rank; take another root or rule"
        )
    width = np.uint64(n_rank_bits)
    packed = (numbers.astype(np.uint64) << width | ranks.astype(np.uint64)) << width
    packed |= ends.astype(np.uint64)
    return Labels(packed, ups, downs, ports, n_rank_bits, n_bits, 0).of_tree(number)


def next_hop(labels: Labels, at: ArrayLike, destinations: ArrayLike) -> Any:
    """The interface by which each packet leaves, from the label of its destination; 0 on arrival.

    `at` is one node for all packets, or one node per packet.

    >>> from matchyard.routing.topology import from_links
    >>> from matchyard.routing.trees import shortest_paths
    >>> network = from_links([(0, 1), (1, 2)])
    >>> labels = label(network, shortest_paths(network, 0))
    >>> next_hop(labels, 1, labels.labels).tolist()
    [1, 0, 2]
    """
    wanted, nodes = _integers(destinations, np.uint64), _integers(at, np.int64)
    n_nodes = len(labels.labels)
    if nodes.ndim and nodes.shape != wanted.shape:
        raise UsageError(f"{nodes.size} nodes for {wanted.size} packets; expected one for each")
    out = np.empty(wanted.size, np.int32)
    flat, form = wanted.ravel(), (labels.n_rank_bits, *labels.form)
    is_lost = not nodes.ndim and not 0 <= int(nodes) < n_nodes
    if nodes.ndim:
        is_odd, is_lost = hop_at_each(
            labels.ups, labels.downs, labels.ports, nodes.ravel(), flat, *form, out
        )
    elif not is_lost:
        node = int(nodes)
        is_odd = hop_at_one(
            labels.ups[node], labels.downs[node], labels.ports, flat, *form, n_nodes, out
        )
    if is_lost:
        raise UsageError(f"packets at node {nodes}; expected numbers from 0 to {n_nodes - 1}")
    if is_odd:
        raise UsageError(
            f"a packet has no label, or a label of another tree than {labels.tree}; expected a label "
            "that `label` gave to a node of this tree"
        )
    return out.reshape(wanted.shape) if wanted.ndim else int(out[0])


def _integers(values: ArrayLike, kind: type[np.integer[Any]]) -> NDArray[Any]:
    try:
        numbers = np.asarray(values)
        if numbers.size == 0:
            return numbers.astype(kind)
        is_signed = (
            numbers.dtype.kind == "i"
        )  # unsigned labels skip `min`, which takes as long as forwarding them
        if numbers.dtype.kind not in "iu" or (
            kind is np.uint64 and is_signed and numbers.min() < 0
        ):
            raise ValueError(f"{numbers.dtype} of shape {numbers.shape}")
        return np.ascontiguousarray(numbers, kind).reshape(numbers.shape)
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"not nodes or labels: {error}; expected integers") from None
