"""A router in one of many domains, and the gateways that connect domains. [Thesis 2.3.5]

    at the access router, by tags      ──▶ on its own tree of the domain            LOCAL
                                       ──▶ to a gateway, by the gateway's locator   GLOBAL
    at a gateway, on a tree of domains ──▶ to the next domains that want it         CROSSING
    at the gateway of the next domain  ──▶ by tags in it, on the gateway's tree     LOCAL
                                       ──▶ to the next domains                      CROSSING

A packet carries the version and tree by which it is forwarded now: those of a domain if it is LOCAL, otherwise those
of the network of domains. A packet that crosses a domain has two locators on its stack: the next domain, and above it
the gateway with the link to that domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from matchyard.network.fan_out import Mode
from matchyard.network.packet import Locator, Packet, PacketError, Scope
from matchyard.network.router import Router, Stop, Work, drawn
from matchyard.network.tables import Plane
from matchyard.routing import Descriptors

OUT = -1  # stands for an interface: to a gateway, and from there to other domains


class Exit(NamedTuple):
    """A link to another domain."""

    domain: int  # the node of that domain in the network of domains
    gateway: str  # the router of this domain at the link
    locator: Locator  # of the gateway
    neighbour: str  # the router at the other end of the link


class Border:
    """The knowledge that all gateways of a domain share: interests of other domains, and links to them."""

    def __init__(self, plane: Plane, home: int, exits: Sequence[Exit]) -> None:
        self.plane = plane  # of this domain in the network of domains
        self.home = home  # the interface of the plane that leads into the domain itself
        self.exits = exits  # by interface - 1

    def exit_to(self, locator: Locator) -> Exit:
        """The link to the next domain on the path to a locator."""
        interface = self.plane.next_hop(locator)
        if not 1 <= interface <= len(self.exits):
            raise PacketError(
                f"a locator {locator.label:x} of no domain; expected the label of a domain"
            )
        return self.exits[interface - 1]

    def locator(self, interface: int, tree: int) -> Locator:
        """The locator of the domain behind an interface, on a tree of domains."""
        labels = self.plane.part.labels[tree].labels
        label = int(labels[self.exits[interface - 1].domain])
        return Locator(self.plane.part.version, tree, label, level=1)

    def ways(self, descriptors: Descriptors, tree: int, came_by: int) -> list[int]:
        """The interfaces by which a packet leaves; `home` is this domain."""
        _, leaving = self.plane.rib.forward(descriptors, np.array([tree]), np.array([came_by]))
        return list(map(int, leaving))


class DomainRouter(Router):
    """The router of a node in a domain; a gateway if it has a border."""

    own_tree = 0  # the tree of the domain with the nearest root
    domain: tuple[Locator, ...] = ()  # the locators of the domain, one per tree of domains
    way_out: Locator | None = None  # the nearest gateway
    border: Border | None = None

    def join(
        self,
        own_tree: int,
        domain: tuple[Locator, ...],
        way_out: Locator | None,
        border: Border | None,
    ) -> None:
        """Set the attributes, and connect to routers of other domains."""
        self.own_tree, self.domain, self.way_out, self.border = own_tree, domain, way_out, border
        exits = border.exits if border is not None else ()
        self._entrances = {
            self.connect(one.neighbour): number
            for number, one in enumerate(exits, 1)
            if one.gateway == self.name
        }

    def locators(self) -> tuple[tuple[Locator, ...], ...]:
        """The stacks (this router, its domain), one per tree of domains."""
        here = self.plane.part.locator(self.own_tree)
        return tuple((here, domain) for domain in self.domain)

    # ---------------------------------------------------------------- by tags

    def _on_a_tree(self, packet: Packet) -> Packet:
        if self.way_out is None:
            return self._within(packet)
        self.turn += 1
        chosen = self.domain[drawn(self.name_bytes, self.turn, len(self.domain))]
        return packet._replace(version=chosen.version, tree=chosen.tree, scope=Scope.GLOBAL)

    def _within(self, packet: Packet) -> Packet:
        """Put the packet on this router's tree of the domain."""
        version = self.plane.part.version
        return packet._replace(version=version, tree=self.own_tree, scope=Scope.LOCAL)

    def _commit(self, number: int, packet: Packet, interface: int, work: Work) -> None:
        if packet.scope is Scope.LOCAL or self.way_out is None:
            super()._commit(number, packet, interface, work)
            return
        if interface != 0:
            raise PacketError(
                f"a packet for other domains without a locator at {self.name}; expected the locator of a gateway"
            )
        self._home(packet.version, packet.tree)
        self._put(number, packet, interface, work)

    def _put(self, number: int, packet: Packet, interface: int, work: Work) -> None:
        version = self.plane.part.version
        work.by_tags.setdefault(version, []).append((number, interface, packet))

    def _tree_here(self, packet: Packet) -> int:
        return packet.tree if packet.scope is Scope.LOCAL else self.own_tree

    def _ways(self, packet: Packet, n_here: int, beyond: list[int]) -> list[int]:
        """Add OUT for a packet that starts here, unless the domain has enough takers."""
        if packet.scope is Scope.LOCAL or self.way_out is None:
            return beyond
        is_limited = packet.fan_out.mode is not Mode.ALL
        is_enough = is_limited and n_here + len(beyond) >= packet.fan_out.limit
        return beyond if is_enough else [*beyond, OUT]

    def _send(self, number: int, interface: int, packet: Packet, work: Work) -> None:
        if interface == OUT and self.way_out is not None:
            self._by_locator(number, packet._replace(stack=(self.way_out,)), 0, work)
            return
        is_inward = packet.scope is not Scope.LOCAL and not packet.stack
        super()._send(number, interface, self._within(packet) if is_inward else packet, work)

    # ---------------------------------------------------------------- by locators

    def _hop(self, stack: tuple[Locator, ...]) -> tuple[int, tuple[Locator, ...]]:
        """See `Router._hop`. On the way to another domain, push the locator of the gateway to it."""
        last = stack[-1]
        if last.level == 0:
            return super()._hop(stack)
        if last.label == self._home(last.version, last.tree).label:
            return 0, stack[:-1]
        if self.border is not None:
            leaving = self.border.exit_to(last)
            if leaving.gateway == self.name:
                return self.interfaces[leaving.neighbour], stack
            return 0, (*stack, leaving.locator)
        if self.way_out is None:
            raise PacketError(f"a locator of another domain at {self.name}, which has no gateway")
        return 0, (*stack, self.way_out)

    def _home(self, version: int, tree: int) -> Locator:
        """Check a version and tree of domains; return the locator of this domain on it."""
        known = self.domain[0].version
        if version != known:
            raise PacketError(f"version {version:016x} of domains; {self.name} has {known:016x}")
        if tree >= len(self.domain):
            raise PacketError(f"tree {tree} of domains; expected 0 to {len(self.domain) - 1}")
        return self.domain[tree]

    # ---------------------------------------------------------------- between domains

    def _arrived(self, number: int, packet: Packet, interface: int, work: Work) -> None:
        if packet.scope is Scope.LOCAL:
            super()._arrived(number, packet, interface, work)
            return
        if self.border is None:
            raise PacketError(f"a packet for other domains at {self.name}, which is no gateway")
        self._check_tags(packet)
        self._home(packet.version, packet.tree)
        came_by = self.border.home
        if packet.scope is Scope.CROSSING:
            came_by = self._entrances.get(interface, 0)
        if came_by == 0:
            raise PacketError(
                f"a packet at {self.name} from another domain, but not over a link between domains"
            )
        ways = self.border.ways(self._descriptors([packet]), packet.tree, came_by)
        if not ways:
            self._end(number, packet, work)
        for way, copy in self._copies(packet, [], ways)[1]:
            if way == self.border.home:
                self._put(number, self._within(copy), interface, work)
            else:
                stack = (self.border.locator(way, packet.tree),)
                copy = copy._replace(stack=stack, scope=Scope.CROSSING)
                self._by_locator(number, copy, interface, work)

    def _end(self, number: int, packet: Packet, work: Work) -> None:
        """Stop a packet that no domain wants; a CROSSING one was a false forward of a Bloom filter."""
        if packet.scope is Scope.GLOBAL:
            reason = f"{self.name} knows of no other domain that wants it"
        else:
            self.counts.false_forwards += 1
            self.counts.lost += packet.fan_out.mode is not Mode.ALL
            reason = f"a false forward: no application at {self.name} or beyond wants it"
        work.stops.append(Stop(number, reason, False))
