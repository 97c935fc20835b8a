"""The nodes of a whole network that want a packet, from one index search instead of forwarding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.kernels.csr import count_values, take_rows
from matchyard.kernels.network.subtrees import distinct_nodes
from matchyard.kernels.subset import LEAF, select
from matchyard.kernels.subset_build import build
from matchyard.routing.descriptors import Descriptors
from matchyard.routing.registrations import Registrations


class Interest:
    """An index of all registrations of a network, each under its rarest tag.

    >>> interest = Interest(Registrations(["jazz", "jazz live", "rock"], [4, 7, 7]))
    >>> start, nodes = interest.nodes(interest.vocabulary.encode(["jazz live oslo", "rock", "oslo"]))
    >>> start.tolist(), nodes.tolist()
    ([0, 2, 3, 3], [4, 7, 7])
    """

    def __init__(self, registrations: Registrations) -> None:
        self.vocabulary = registrations.vocabulary
        descriptors, node_start, nodes = registrations.by_descriptor()
        uses = count_values(descriptors.ids, int(descriptors.ids.max(initial=-1)) + 1)
        used = np.flatnonzero(uses)
        frequent = used[np.argsort(-uses[used], kind="stable")]
        self._ranks = np.full(
            len(uses) + 1, -1, np.int32
        )  # the last element is for unknown numbers
        self._ranks[frequent] = np.arange(len(frequent), dtype=np.int32)
        built = build([descriptors.start.copy(), self._ranks[descriptors.ids]], len(frequent))
        self._index = built.subset_index
        self._node_start, self._nodes = take_rows(node_start, nodes, built.order)
        self._n_nodes = int(nodes.max(initial=-1)) + 1

    def __repr__(self) -> str:
        return f"<Interest in {len(self._node_start) - 1} descriptors>"

    def nodes(self, packets: Descriptors) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The nodes with a registration whose tags are all in the packet: (start, nodes), each node once."""
        if packets.vocabulary is not self.vocabulary:
            raise UsageError(
                "packets of another vocabulary; expected the vocabulary of the registrations"
            )
        ranks = self._ranks[np.minimum(packets.ids, len(self._ranks) - 1)]
        is_known = ranks >= 0
        start = np.append(0, np.cumsum(is_known))[packets.start]
        hit_start = np.empty(len(start), np.int64)
        hits, _ = select(
            self._index, start, ranks[is_known], LEAF, np.empty(4096, np.int32), hit_start
        )
        pairs: tuple[NDArray[np.int64], NDArray[np.int32]] = distinct_nodes(
            hit_start, hits, self._node_start, self._nodes, self._n_nodes
        )
        return pairs
