"""A router: packets and updates in, packets and updates out. It has no sockets and no clock. [Thesis 2.2, 2.3]

    packet  ──▶ by its locator, or by its tags on its tree ──▶ packets for interfaces
    update  ──▶ RIB of its tree ─────────────────────────────▶ updates for interfaces

Interface 0 is the applications of this router. The same calls in the same order give the same results, so that
a router can be replayed.
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
    """Where a packet ended that went no further, and why."""

    number: int  # of the packet among those received together
    reason: str
    is_error: bool  # a packet that should not have been here


class Received(NamedTuple):
    """What becomes of packets: (number of the packet, interface, packet) each, and what ended here."""

    out: list[tuple[int, int, Packet]]
    stops: list[Stop]


class Work(NamedTuple):
    """Packets that a router is busy with: what came of them so far, and which go by tags, by version."""

    out: list[tuple[int, int, Packet]]
    stops: list[Stop]
    by_tags: dict[int, list[tuple[int, int, Packet]]]  # number, interface it came by, packet


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
        self.turn, self.n_shared = 0, 0  # packets that got a tree, and those that had a limit

    def __repr__(self) -> str:
        return f"<Router {self.name}: {self.applications!r}, {len(self.planes)} versions>"

    # ---------------------------------------------------------------- data plane

    def receive(self, packet: Packet, interface: int) -> list[tuple[int, Packet]]:
        """Where a packet goes from here. It comes from a neighbour, or with 0 from an application."""
        found = self.receive_all([packet], [interface])
        for stop in found.stops:
            if stop.is_error:
                raise PacketError(stop.reason)
        return [(leaving, one) for _, leaving, one in found.out]

    def receive_all(self, packets: Sequence[Packet], interfaces: Sequence[int]) -> Received:
        """The same of many packets at once, which is faster. A packet that is refused harms no other."""
        self.counts.received += len(packets)
        found = Work([], [], {})
        for number, (packet, interface) in enumerate(zip(packets, interfaces, strict=True)):
            try:
                self._take(number, packet, interface, found)
            except PacketError as error:
                self.counts.refused += 1
                found.stops.append(Stop(number, str(error), is_error=True))
        while found.by_tags:
            version, some = found.by_tags.popitem()
            for again in self._by_tags(self.planes[version], some, found):
                found.by_tags.setdefault(again[2].version, []).append(again)
        return Received(found.out, found.stops)

    def _take(self, number: int, packet: Packet, interface: int, found: Work) -> None:
        """Send a packet on by its locator, answer it, or put it with those that go by tags."""
        if interface == 0:
            packet = self._admitted(packet)
        if packet.hops >= MOST_HOPS:
            raise PacketError(f"a packet after {packet.hops} hops; expected fewer")
        if packet.kind is Kind.REQUEST:
            answer = self.cache.answer(packet)
            if answer is not None:
                self.counts.answered += 1
                found.stops.append(Stop(number, f"answered by the cache of {self.name}", False))
                packet = reply_to(packet, answer)
        if packet.stack:
            self._by_locator(number, packet, interface, found)
        else:
            self._check_tags(packet)
            self._commit(number, packet, interface, found)
        self.cache.offer(packet)  # what is refused is not kept

    def _check_tags(self, packet: Packet) -> None:
        if packet.tags is None:
            raise PacketError("a packet without tags and without a locator; expected one of them")
        if self.is_bloom and len(packet.filter) != FILTER_BYTES:
            raise PacketError("a packet without a Bloom filter among routers that go by it")
        mode, limit = packet.fan_out
        if limit != 0 if mode is Mode.ALL else limit < 1:
            raise PacketError(f"a fan-out of mode {mode} with limit {limit}")

    def _commit(self, number: int, packet: Packet, interface: int, found: Work) -> None:
        """Put a packet with those that go by tags, if it is on a tree that is known and leads here."""
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
        found.by_tags.setdefault(packet.version, []).append((number, interface, packet))

    def _admitted(self, packet: Packet) -> Packet:
        """A packet of a local application: by tags, it gets a tree, and who asks, a way back."""
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
        """A tree for a packet that enters here: each with equal chance, by name and turn alone."""
        self.turn += 1
        return drawn(self.name_bytes, self.turn, len(self.plane.part.links))

    def _on_a_tree(self, packet: Packet) -> Packet:
        """The packet on one of the trees, each as likely as the others."""
        return packet._replace(version=self.plane.part.version, tree=self.draw_tree())

    def _by_locator(self, number: int, packet: Packet, interface: int, found: Work) -> None:
        while packet.stack:
            leaving, stack = self._hop(packet.stack)
            packet = packet._replace(stack=stack)
            if leaving:
                self._send(number, leaving, packet, found)
                return
        self._arrived(number, packet, interface, found)

    def _hop(self, stack: tuple[Locator, ...]) -> tuple[int, tuple[Locator, ...]]:
        """The interface towards the last locator of a stack; if that is here, 0 and the stack without it."""
        plane = self.planes.get(stack[-1].version)
        if plane is None:
            raise PacketError(f"a locator of {self.unknown(stack[-1].version)}")
        leaving = plane.next_hop(stack[-1])
        return leaving, stack if leaving else stack[:-1]

    def _arrived(self, number: int, packet: Packet, interface: int, found: Work) -> None:
        """A packet at the end of its locators is for one application here."""
        if packet.addressee in self.attached:
            self.counts.delivered += 1
            found.out.append((number, 0, packet))
            return
        if packet.addressee is not None and packet.addressee in self.moved:
            stacks = self.moved[packet.addressee]
            packet = packet._replace(stack=stacks[packet.tree % len(stacks)])
            self._by_locator(number, packet, interface, found)
            return
        raise PacketError(f"a packet for {packet.addressee!r}, who is not at {self.name}")

    def _by_tags(
        self, plane: Plane, some: Sequence[tuple[int, int, Packet]], found: Work
    ) -> list[tuple[int, int, Packet]]:
        """Send packets on along their trees; returns those that are to be tried on another tree."""
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
                self._spread(number, packet, keys, beyond, found)
            elif interface == 0 and not is_here[row] and packet.tries == 0:
                found.stops.append(Stop(number, f"nobody wants it, {self.name} knows", False))
            else:
                self.counts.false_forwards += 1
                again += self._retried(number, packet, plane, found)
        return again

    def _tree_here(self, packet: Packet) -> int:
        """The tree of this network that a packet goes by."""
        return packet.tree

    def _ways(self, packet: Packet, n_here: int, beyond: list[int]) -> list[int]:
        """The interfaces that a packet may leave by, where so many applications here want it."""
        return beyond

    def _descriptors(self, packets: Sequence[Packet]) -> Descriptors:
        """What packets are compared by."""
        if not self.is_bloom:
            return self.vocabulary.find([packet.tags for packet in packets])[0]
        words = b"".join(packet.filter for packet in packets)
        rows = np.frombuffer(words, ">u8").astype(np.uint64).reshape(len(packets), -1)
        return self.filters.encode(rows)

    def _takers(self, packets: Sequence[Packet]) -> list[list[Key]]:
        """The applications here that want each packet; by tags, so that no Bloom filter deceives."""
        if not packets:
            return []
        return self.applications.who_wants(
            self.vocabulary.find([packet.tags for packet in packets])[0]
        )

    def _spread(
        self, number: int, packet: Packet, keys: list[Key], beyond: list[int], found: Work
    ) -> None:
        """Send copies to applications and neighbours, as many as the fan-out allows."""
        keys, copies = self._copies(packet, keys, beyond)
        for key in keys:
            self.counts.delivered += 1
            found.out.append((number, 0, packet._replace(addressee=key)))
        for interface, copy in copies:
            self._send(number, interface, copy, found)

    def _copies(
        self, packet: Packet, keys: list[Key], beyond: list[int]
    ) -> tuple[list[Key], list[tuple[int, Packet]]]:
        """Who gets a packet, and the copy for each neighbour."""
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

    def _send(self, number: int, interface: int, packet: Packet, found: Work) -> None:
        self.counts.sent += 1
        found.out.append((number, interface, packet._replace(hops=packet.hops + 1)))

    def _retried(
        self, number: int, packet: Packet, plane: Plane, found: Work
    ) -> list[tuple[int, int, Packet]]:
        """A packet that a Bloom filter has led astray: to all, others get it; the only copy for one or
        some takes another tree from here."""
        if packet.fan_out.mode is Mode.ALL:
            found.stops.append(
                Stop(number, f"a false forward: nobody at {self.name} wants it", False)
            )
            return []
        n_trees = len(plane.rib.links)
        if not packet.is_whole or packet.tries + 1 >= min(n_trees, MOST_TRIES):
            self.counts.lost += 1
            found.stops.append(Stop(number, f"lost at {self.name} after false forwards", False))
            return []
        self.counts.retried += 1
        tree = (packet.tree + 1) % n_trees
        return [(number, 0, packet._replace(tree=tree, tries=packet.tries + 1))]


def reply_to(request: Packet, content: Packet) -> Packet:
    """The reply that carries some content to where a request came from, on the tree that it took."""
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
    """A number below `count`, of equal chance, that depends on name and turn alone."""
    return zlib.crc32(b"%s %d" % (name, turn)) % count
