"""A router: packets and updates in, packets and updates out. It has no sockets and no clock. [Thesis 2.2, 2.3]

    packet  ──▶ by its locator, or by its tags on its tree ──▶ packets for interfaces
    update  ──▶ RIB of its tree ─────────────────────────────▶ updates for interfaces

Interface 0 leads to the applications of this router. The same calls in the same order give the same results, so
that a router can be replayed.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from matchyard.network.cache import Cache
from matchyard.network.fan_out import Mode, shared
from matchyard.network.packet import (
    FILTER_BYTES,
    MOST_HOPS,
    MOST_TRIES,
    Kind,
    Locator,
    Packet,
    PacketError,
)
from matchyard.network.tables import Plane, RouterTables
from matchyard.routing import Descriptors, Vocabulary
from matchyard.routing.applications import Key


class Stop(NamedTuple):
    """The end of a packet that this router does not forward, with the reason."""

    number: int  # of the packet in its batch
    reason: str
    is_error: bool  # True for a refused packet


class Received(NamedTuple):
    """The outgoing packets of a batch as (number of the packet, interface, packet), and its stops."""

    out: list[tuple[int, int, Packet]]
    stops: list[Stop]


class Work(NamedTuple):
    """The state of a batch: its results so far, and the packets still to forward by tags, by version."""

    out: list[tuple[int, int, Packet]]
    stops: list[Stop]
    by_tags: dict[int, list[tuple[int, int, Packet]]]  # number, incoming interface, packet


class Router(RouterTables):
    """The router of one node.

    `descriptors` is "tags", or "bloom" for routers that compare Bloom filters. Routers of one process may share a
    vocabulary.

    >>> from matchyard.network.plan import Plan
    >>> from matchyard.routing import from_links
    >>> plan = Plan(from_links([(0, 1)], names=["oslo", "rome"]), trees=1)
    >>> router = Router("oslo")
    >>> router.install(plan.part(0))
    []
    >>> [(interface, told)] = router.register("ada", [{"jazz"}])
    >>> interface, list(told.update.additions)
    (1, [frozenset({'jazz'})])
    >>> packet = Packet(Kind.NOTIFICATION, frozenset({"jazz", "live"}), version=plan.version)
    >>> [(interface, packet)] = router.receive(packet, 1)
    >>> interface, packet.addressee
    (0, 'ada')
    """

    def __init__(
        self,
        name: str,
        descriptors: str = "tags",
        vocabulary: Vocabulary | None = None,
        cache: int = 256,
        versions: int = 2,
    ) -> None:
        super().__init__(name, descriptors, vocabulary, versions)
        self.cache = Cache(cache)
        self.turn, self.n_shared = 0, 0  # counts of packets that got a tree, and that had a limit

    def __repr__(self) -> str:
        return f"<Router {self.name}: {self.applications!r}, {len(self.planes)} versions>"

    # ---------------------------------------------------------------- data plane

    def receive(self, packet: Packet, interface: int) -> list[tuple[int, Packet]]:
        """Forward a packet from an interface (0: an application); return (interface, packet) pairs."""
        received = self.receive_all([packet], [interface])
        for stop in received.stops:
            if stop.is_error:
                raise PacketError(stop.reason)
        return [(leaving, one) for _, leaving, one in received.out]

    def receive_all(self, packets: Sequence[Packet], interfaces: Sequence[int]) -> Received:
        """Forward a batch of packets, which is faster. A refused packet does not affect others."""
        self.counts.received += len(packets)
        work = Work([], [], {})
        for number, (packet, interface) in enumerate(zip(packets, interfaces, strict=True)):
            try:
                self._take(number, packet, interface, work)
            except PacketError as error:
                self.counts.refused += 1
                work.stops.append(Stop(number, str(error), is_error=True))
        while work.by_tags:
            version, some = work.by_tags.popitem()
            for again in self._by_tags(self.planes[version], some, work):
                work.by_tags.setdefault(again[2].version, []).append(again)
        return Received(work.out, work.stops)

    def _take(self, number: int, packet: Packet, interface: int, work: Work) -> None:
        """Forward a packet by its locator, answer it from the cache, or queue it for forwarding by tags."""
        if interface == 0:
            packet = self._admitted(packet)
        if packet.hops >= MOST_HOPS:
            raise PacketError(f"a packet after {packet.hops} hops; expected fewer")
        if packet.kind is Kind.REQUEST:
            answer = self.cache.answer(packet)
            if answer is not None:
                self.counts.answered += 1
                work.stops.append(Stop(number, f"answered by the cache of {self.name}", False))
                packet = reply_to(packet, answer)
        if packet.stack:
            self._by_locator(number, packet, interface, work)
        else:
            self._check_tags(packet)
            self._commit(number, packet, interface, work)
        self.cache.offer(packet)  # a refused packet does not get here

    def _check_tags(self, packet: Packet) -> None:
        if packet.tags is None:
            raise PacketError("a packet without tags and without a locator; expected one of them")
        if self.is_bloom and len(packet.filter) != FILTER_BYTES:
            raise PacketError(
                "a packet without a Bloom filter; expected one, since routers compare filters"
            )
        mode, limit = packet.fan_out
        if limit != 0 if mode is Mode.ALL else limit < 1:
            raise PacketError(f"a fan-out of mode {mode} with limit {limit}")

    def _commit(self, number: int, packet: Packet, interface: int, work: Work) -> None:
        """Queue a packet for forwarding by tags, if it came on a known tree."""
        plane = self.planes.get(packet.version)
        if plane is None:
            raise PacketError(f"a packet of {self.unknown(packet.version)}")
        links = plane.rib.links
        if packet.tree >= len(links):
            raise PacketError(f"a packet on tree {packet.tree}; expected 0 to {len(links) - 1}")
        if interface != 0 and interface not in links[packet.tree]:
            raise PacketError(
                f"a packet from interface {interface}, which is not on tree {packet.tree} at {self.name}"
            )
        work.by_tags.setdefault(packet.version, []).append((number, interface, packet))

    def _admitted(self, packet: Packet) -> Packet:
        """Complete a packet of a local application: its tree, and its origin for replies."""
        if packet.sender is not None:
            self.attach(packet.sender)
        if packet.kind is not Kind.NOTIFICATION and not packet.origin:
            packet = packet._replace(origin=self.locators())
        if packet.version == 0 and not packet.stack:
            packet = self._on_a_tree(packet)
        if self.is_bloom and packet.tags is not None and not packet.filter:
            signed = self.filters.encode([packet.tags]).signatures()
            packet = packet._replace(filter=signed.astype(">u8").tobytes())
        return packet

    def draw_tree(self) -> int:
        """Choose a tree for a new packet, uniformly, from the router's name and a counter."""
        self.turn += 1
        return drawn(self.name_bytes, self.turn, len(self.plane.part.links))

    def _on_a_tree(self, packet: Packet) -> Packet:
        """Put the packet on a random tree."""
        return packet._replace(version=self.plane.part.version, tree=self.draw_tree())

    def _by_locator(self, number: int, packet: Packet, interface: int, work: Work) -> None:
        while packet.stack:
            leaving, stack = self._hop(packet.stack)
            packet = packet._replace(stack=stack)
            if leaving:
                self._send(number, leaving, packet, work)
                return
        self._arrived(number, packet, interface, work)

    def _hop(self, stack: tuple[Locator, ...]) -> tuple[int, tuple[Locator, ...]]:
        """The interface towards the last locator of a stack; if that is here, 0 and the popped stack."""
        plane = self.planes.get(stack[-1].version)
        if plane is None:
            raise PacketError(f"a locator of {self.unknown(stack[-1].version)}")
        leaving = plane.next_hop(stack[-1])
        return leaving, stack if leaving else stack[:-1]

    def _arrived(self, number: int, packet: Packet, interface: int, work: Work) -> None:
        """Deliver a packet with an empty stack to its addressee, or send it after the addressee."""
        if packet.addressee in self.attached:
            self.counts.delivered += 1
            work.out.append((number, 0, packet))
            return
        if packet.addressee is not None and packet.addressee in self.moved:
            stacks = self.moved[packet.addressee]
            packet = packet._replace(stack=stacks[packet.tree % len(stacks)])
            self._by_locator(number, packet, interface, work)
            return
        raise PacketError(f"a packet for {packet.addressee!r}, who is not at {self.name}")

    def _by_tags(
        self, plane: Plane, some: Sequence[tuple[int, int, Packet]], work: Work
    ) -> list[tuple[int, int, Packet]]:
        """Forward packets along their trees; return the packets to retry on another tree."""
        packets = [packet for _, _, packet in some]
        interfaces = np.array([interface for _, interface, _ in some], np.int64)
        trees = np.array([self._tree_here(packet) for packet in packets], np.int64)
        start, leaving = plane.rib.forward(self._descriptors(packets), trees, interfaces)
        bounds, ways = start.tolist(), leaving.tolist()
        is_here = [low < high and ways[low] == 0 for low, high in pairwise(bounds)]
        here = [row for row, is_local in enumerate(is_here) if is_local]
        takers = dict(zip(here, self._takers([packets[row] for row in here]), strict=True))
        again = list[tuple[int, int, Packet]]()
        for row, (number, interface, packet) in enumerate(some):
            keys = takers.get(row, [])
            beyond = ways[bounds[row] + is_here[row] : bounds[row + 1]]
            beyond = self._ways(packet, len(keys), beyond)
            if keys or beyond:
                self._spread(number, packet, keys, beyond, work)
            elif interface == 0 and not is_here[row] and packet.tries == 0:
                work.stops.append(
                    Stop(number, f"{self.name} knows of no application that wants it", False)
                )
            else:
                self.counts.false_forwards += 1
                again += self._retried(number, packet, plane, work)
        return again

    def _tree_here(self, packet: Packet) -> int:
        """The tree of this network for a packet."""
        return packet.tree

    def _ways(self, packet: Packet, n_here: int, beyond: list[int]) -> list[int]:
        """The interfaces by which a packet may leave; `n_here` applications of this router want it."""
        return beyond

    def _descriptors(self, packets: Sequence[Packet]) -> Descriptors:
        """The descriptors of packets: tags or Bloom filters."""
        if not self.is_bloom:
            return self.vocabulary.find([packet.tags for packet in packets])[0]
        words = b"".join(packet.filter for packet in packets)
        rows = np.frombuffer(words, ">u8").astype(np.uint64).reshape(len(packets), -1)
        return self.filters.encode(rows)

    def _takers(self, packets: Sequence[Packet]) -> list[list[Key]]:
        """The local applications that want each packet, by exact tags."""
        if not packets:
            return []
        return self.applications.who_wants(
            self.vocabulary.find([packet.tags for packet in packets])[0]
        )

    def _spread(
        self, number: int, packet: Packet, keys: list[Key], beyond: list[int], work: Work
    ) -> None:
        """Send copies to applications and neighbours, limited by the fan-out."""
        keys, copies = self._copies(packet, keys, beyond)
        for key in keys:
            self.counts.delivered += 1
            work.out.append((number, 0, packet._replace(addressee=key)))
        for interface, copy in copies:
            self._send(number, interface, copy, work)

    def _copies(
        self, packet: Packet, keys: list[Key], beyond: list[int]
    ) -> tuple[list[Key], list[tuple[int, Packet]]]:
        """The applications that receive a packet, and the copy for each neighbour."""
        if packet.fan_out.mode is Mode.ALL:
            return keys, [(interface, packet) for interface in beyond]
        self.n_shared += 1
        keys, shares = shared(packet.fan_out, sorted(keys, key=str), beyond, self.n_shared)
        is_whole = packet.is_whole and len(keys) + len(shares) <= 1
        copies = [
            (interface, packet._replace(fan_out=fan_out, is_whole=is_whole))
            for interface, fan_out in shares
        ]
        return keys, copies

    def _send(self, number: int, interface: int, packet: Packet, work: Work) -> None:
        self.counts.sent += 1
        work.out.append((number, interface, packet._replace(hops=packet.hops + 1)))

    def _retried(
        self, number: int, packet: Packet, plane: Plane, work: Work
    ) -> list[tuple[int, int, Packet]]:
        """Handle a false forward of a Bloom filter: return the packet on another tree, or stop it.
        Only a packet with a limited fan-out and no other copies takes another tree."""
        if packet.fan_out.mode is Mode.ALL:
            work.stops.append(
                Stop(number, f"a false forward: no application at {self.name} wants it", False)
            )
            return []
        n_trees = len(plane.rib.links)
        if not packet.is_whole or packet.tries + 1 >= min(n_trees, MOST_TRIES):
            self.counts.lost += 1
            work.stops.append(Stop(number, f"lost at {self.name} after false forwards", False))
            return []
        self.counts.retried += 1
        tree = (packet.tree + 1) % n_trees
        return [(number, 0, packet._replace(tree=tree, tries=packet.tries + 1))]


def reply_to(request: Packet, content: Packet) -> Packet:
    """The reply with some content to the origin of a request, on the tree of the request."""
    if not request.origin:
        raise PacketError("a request without a locator of its origin; there is no way back")
    stack = request.origin[request.tree % len(request.origin)]
    return Packet(
        Kind.REPLY,
        content.tags,
        stack,
        identifier=content.identifier,
        cache_control=content.cache_control,
        origin=content.origin,
        addressee=request.sender,
        sender=content.sender,
        payload=content.payload,
        tree=request.tree,
    )


def drawn(name: bytes, turn: int, count: int) -> int:
    """A uniform pseudo-random number below `count`, from name and turn."""
    return zlib.crc32(b"%s %d" % (name, turn)) % count
