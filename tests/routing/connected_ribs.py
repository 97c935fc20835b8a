"""The RIBs of all nodes of a network, connected: an update goes on until nobody has to be told anything."""

from __future__ import annotations

from collections import deque
from typing import Any

from matchyard.routing import Rib, Topology, Tree, Update, Vocabulary, links_at


class ConnectedRibs:
    def __init__(
        self,
        topology: Topology,
        trees: list[Tree],
        descriptors: str = "tags",
        shared: bool = True,
    ) -> None:
        self.topology, self.trees = topology, trees
        vocabulary = Vocabulary(descriptors) if shared else None
        self.ribs = [
            Rib(links_at(topology, trees, node), descriptors, vocabulary)
            for node in range(topology.n_nodes)
        ]
        self.n_updates = 0

    def apply(self, node: int, update: Update) -> None:
        """What applications of a node register and withdraw, on all trees."""
        for tree in range(len(self.trees)):
            waiting = deque([(node, 0, update)])
            while waiting:
                at, interface, change = waiting.popleft()
                self.n_updates += 1
                for leaving, told in self.ribs[at].apply(change, tree, interface).items():
                    waiting.append((*self.other_end(at, leaving), told))

    def other_end(self, node: int, interface: int) -> tuple[int, int]:
        start, neighbours = self.topology.start, self.topology.neighbours
        there = int(neighbours[start[node] + interface - 1])
        near = neighbours[start[there] : start[there + 1]].tolist()
        return there, near.index(node) + 1


def content(of: Any) -> list[tuple[Any, int]]:
    """The filters of a RIB or a table with their entries, in one order."""
    if isinstance(of, Rib):
        filters, trees, interfaces = of.pairs()
        entries = ((trees.astype(int) << 20) | interfaces).tolist()
        return sorted(zip(map(sorted, filters), entries, strict=True))
    counts = (of.start[1:] - of.start[:-1]).tolist()
    filters = [sorted(one) for one, n in zip(of.descriptors, counts, strict=True) for _ in range(n)]
    return sorted(zip(filters, of.entries.tolist(), strict=True))
