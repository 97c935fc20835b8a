"""A hierarchy whose packets are looked at on every link, and small random ones."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st

from matchyard.network import Flight, Hierarchy, Packet
from matchyard.network.packet import Scope
from matchyard.routing import Topology, from_links

MOST_LOCATORS = 3  # two of the destination, and one that is pushed for a gateway


class WatchedFlight(Flight):
    def __init__(self, network: Hierarchy, packet: Packet, node: str) -> None:
        super().__init__(network, packet, node)
        self.n_locators = 0  # of the deepest stack
        self.by_tags = {node: 1}  # routers that look at tags in their domain: how often
        self.entered = [domain_of(node)]

    def _cross(self, node: str, neighbour: str, packet: Packet) -> None:
        assert Packet.from_bytes(packet.to_bytes()) == packet
        self.n_locators = max(self.n_locators, len(packet.stack))
        if domain_of(node) != domain_of(neighbour):
            assert packet.scope is not Scope.GLOBAL
            assert packet.stack
            if packet.scope is Scope.CROSSING:
                self.entered.append(domain_of(neighbour))
        elif not packet.stack:
            assert packet.scope is Scope.LOCAL
            self.by_tags[neighbour] = self.by_tags.get(neighbour, 0) + 1
        super()._cross(node, neighbour, packet)

    def check(self) -> None:
        """Stacks are short, and no domain and no router sees a packet twice."""
        assert not self.errors
        assert self.n_locators <= MOST_LOCATORS
        assert set(self.by_tags.values()) == {1}
        assert len(self.entered) == len(set(self.entered))


class WatchedHierarchy(Hierarchy):
    def send(self, packet: Packet, at: object, tree: int | None = None) -> WatchedFlight:
        flight = super().send(packet, at, tree)
        [(packet, _)] = flight._waiting[str(at)]
        return WatchedFlight(self, packet, str(at))

    @property
    def nodes(self) -> list[str]:
        return [node for domain in self.domains.values() for node in domain.nodes]


def domain_of(node: str) -> str:
    return node.partition("/")[0]


@st.composite
def networks(draw: Any, most: int, letter: str) -> Topology:
    """A small connected network."""
    n_nodes = draw(st.integers(1, most))
    numbers = st.integers(0, n_nodes - 1)
    links = [(node, draw(st.integers(0, node - 1))) for node in range(1, n_nodes)]
    links += draw(st.lists(st.tuples(numbers, numbers), max_size=3))
    return from_links(links, names=[f"{letter}{node}" for node in range(n_nodes)])


@st.composite
def hierarchies(draw: Any, descriptors: str = "tags") -> WatchedHierarchy:
    outer = draw(networks(5, "d"))
    return WatchedHierarchy(
        outer,
        {name: draw(networks(5, "r")) for name in outer.names},
        trees=draw(st.integers(1, 3)),
        rule=draw(st.sampled_from(["L", "LC"])),
        seed=draw(st.integers(0, 99)),
        local_trees=draw(st.sampled_from([None, 1, 2])),
        descriptors=descriptors,
    )
