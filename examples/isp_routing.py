"""Interests and packets in the network of an Internet provider, hop by hop.

    python examples/isp_routing.py MAP [--trees 4]

MAP is a map of Rocketfuel (`1755.r0.cch.gz`), or any other file that `matchyard.topology` reads. Some routers register
interests; each router sends its neighbours as few updates as possible. Then a packet enters at the edge and
follows a tree to all interested routers. A reply returns by the label of the source, without any table.
"""

from __future__ import annotations

import argparse
from collections import deque

import numpy as np

import matchyard as my
from matchyard.routing import (
    Fib,
    Rib,
    Topology,
    Tree,
    Update,
    Vocabulary,
    grow,
    label,
    links_at,
    next_hop,
)

INTERESTS = ["jazz", "jazz live", "jazz live oslo", "news sports", "news"]
PACKET = {"jazz", "live", "oslo", "tonight"}


class Routers:
    """A RIB and a FIB for each node, and the links between them."""

    def __init__(self, network: Topology, trees: list[Tree]) -> None:
        self.network, self.trees = network, trees
        words = Vocabulary()  # shared by all routers, since they are in one process
        self.ribs = [
            Rib(links_at(network, trees, node), vocabulary=words) for node in range(network.n_nodes)
        ]
        self.fibs: dict[int, Fib] = {}
        self.n_updates = 0

    def across(self, node: int, interface: int) -> tuple[int, int]:
        """The node at the other end of an interface, and its interface back."""
        start, neighbours = self.network.start, self.network.neighbours
        there = int(neighbours[start[node] + interface - 1])
        near = neighbours[start[there] : start[there + 1]]
        return there, int(np.searchsorted(near, node)) + 1

    def register(self, node: int, interest: str) -> None:
        """Register an interest on all trees, and forward updates until there are no more."""
        for tree in range(len(self.trees)):
            waiting = deque([(node, 0, Update([interest]))])
            while waiting:
                at, interface, update = waiting.popleft()
                self.n_updates += 1
                for leaving, told in self.ribs[at].apply(update, tree, interface).items():
                    waiting.append((*self.across(at, leaving), told))

    def send(self, node: int, packet: set[str], tree: int) -> tuple[dict[int, int], int]:
        """The receivers of a packet with their hops, and the number of links."""
        reached: dict[int, int] = {}
        waiting, n_links = deque([(node, 0, 0)]), 0
        while waiting:
            at, interface, hops = waiting.popleft()
            fib = self.fibs.setdefault(at, Fib(self.ribs[at]))
            for leaving in fib.forward([packet], tree, interface)[0]:
                if leaving == 0:
                    reached[at] = hops
                    continue
                n_links += 1
                there, back = self.across(at, leaving)
                waiting.append((there, back, hops + 1))
        return reached, n_links


def main(path: str, n_trees: int) -> None:
    network = my.topology(path)
    trees = grow(network, "LC", n_trees)
    print(f"{path}: {network.n_nodes} routers, {network.n_links} links, {n_trees} trees")
    routers, random = Routers(network, trees), np.random.default_rng(1)
    places = random.choice(network.n_nodes, len(INTERESTS), replace=False).tolist()
    for node, interest in zip(places, INTERESTS, strict=True):
        before = routers.n_updates
        routers.register(node, interest)
        print(f"  {network.names[node]} wants {interest!r}: {routers.n_updates - before} updates")
    source, wanted = int(network.degrees.argmin()), 0
    for tree in range(n_trees):
        reached, n_links = routers.send(source, PACKET, tree)
        names = ", ".join(
            f"{network.names[one]} after {hops}" for one, hops in sorted(reached.items())
        )
        print(
            f"tree {tree}: {' '.join(sorted(PACKET))} from {network.names[source]}: {names} hops; {n_links} links"
        )
        wanted = max(reached)
    labels, at, path_back = label(network, trees[0]), wanted, [network.names[wanted]]
    while (interface := next_hop(labels, at, labels.labels[source])) != 0:
        at, _ = routers.across(at, interface)
        path_back.append(network.names[at])
    print(f"reply by a label of {int(labels.bits()[source])} bits: {' → '.join(path_back)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("map")
    parser.add_argument("--trees", type=int, default=4)
    given = parser.parse_args()
    main(given.map, given.trees)
