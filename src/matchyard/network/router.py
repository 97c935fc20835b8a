"""A router: packets and updates in, packets and updates out. It has no sockets and no clock. [Thesis 2.2, 2.3]

    packet  ──▶ by its locator, or by its tags on its tree ──▶ packets for interfaces
    update  ──▶ RIB of its tree ─────────────────────────────▶ updates for interfaces

Interface 0 is the applications of this router. The same calls in the same order give the same results, so that
a router can be replayed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.kernels.filters import INTERFACE_BITS
from matchyard.network.cache import Cache
from matchyard.network.packet import (
    FILTER_BYTES,
    MOST_HOPS,
    FanOut,
    Kind,
    Locator,
    Mode,
    Packet,
    PacketError,
)
from matchyard.network.plan import Part
from matchyard.routing import Descriptors, Rib, Table, Update, Vocabulary
from matchyard.routing.applications import Applications, Key, Tags
from matchyard.routing.saved_ribs import MOST_INTERFACES

_HEAD_BYTES = 14  # of an update: what it is, version, tree, numbers of descriptors


class TreeUpdate(NamedTuple):
    """What a router tells a neighbour on one tree. With `is_whole`, additions are all that it wants there."""

    version: int
    tree: int
    update: Update
    is_whole: bool = False


class Stop(NamedTuple):
    """Where a packet ended that went no further, and why."""

    number: int  # of the packet among those received together
    reason: str
    is_error: bool  # a packet that should not have been here


class Received(NamedTuple):
    """What becomes of packets: (number of the packet, interface, packet) each, and what ended here."""

    out: list[tuple[int, int, Packet]]
    stops: list[Stop]


class Counts:
    """What a router has done."""

    def __init__(self) -> None:
        self.received = 0  # packets
        self.sent = 0  # packets, to neighbours
        self.delivered = 0  # packets, to applications
        self.answered = 0  # requests, from the cache
        self.refused = 0  # packets: see `PacketError`
        self.false_forwards = 0  # packets that a neighbour sent and nobody here or beyond wants
        self.retried = 0  # packets that led nowhere and were put on another tree
        self.lost = 0  # packets for one or some applications that led nowhere
        self.updates = 0  # received
        self.updates_sent = 0


class Plane:
    """What a router has for one version of the trees."""

    def __init__(self, part: Part, rib: Rib, ports: list[int]) -> None:
        self.part, self.rib = part, rib
        self.ports = ports  # the router's interface for each of the plan; 0 is 0
        widest = max((tree[-1] for tree in rib.links if tree), default=0)
        self._is_link = np.zeros((len(rib.links), widest + 1), np.bool_)
        for number, tree in enumerate(rib.links):
            self._is_link[number, list(tree)] = True

    def are_on(self, trees: NDArray[np.int64], interfaces: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which interfaces are on which trees? There may be none of either."""
        n_trees, width = self._is_link.shape
        is_on = (trees >= 0) & (trees < n_trees) & (interfaces >= 0) & (interfaces < width)
        is_on[is_on] = self._is_link[trees[is_on], interfaces[is_on]]
        return is_on

    def next_hop(self, locator: Locator) -> int:
        """The router's interface towards a locator."""
        return self.ports[self.part.next_hop(locator)]


class Router:
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
        self.name = name
        self.vocabulary = vocabulary or Vocabulary()  # of tags
        self.filters = self.vocabulary if descriptors == "tags" else Vocabulary(descriptors)
        self.applications = Applications(self.vocabulary)
        self.cache = Cache(cache)
        self.counts = Counts()
        self.interfaces: dict[str, int] = {}  # by neighbour
        self._neighbours: list[str] = []  # by interface - 1
        self.planes: dict[int, Plane] = {}  # by version, the newest last
        self.attached: set[Key] = set()  # applications that are here
        self.moved: dict[Key, tuple[tuple[Locator, ...], ...]] = {}  # where others went
        self.turn = 0  # grows with every choice, so that the next one is another
        self._n_versions = versions

    def __repr__(self) -> str:
        return f"<Router {self.name}: {self.applications!r}, {len(self.planes)} versions>"

    @property
    def plane(self) -> Plane:
        """The newest one."""
        if not self.planes:
            raise UsageError(f"router {self.name} has no trees yet; expected `install` before")
        return self.planes[next(reversed(self.planes))]

    @property
    def is_bloom(self) -> bool:
        """Do routers here compare Bloom filters?"""
        return self.filters is not self.vocabulary

    def locators(self) -> tuple[tuple[Locator, ...], ...]:
        """Where this router is, on each tree."""
        part = self.plane.part
        return tuple((part.locator(tree),) for tree in range(len(part.links)))

    def neighbour(self, interface: int) -> str:
        """Who is at an interface."""
        if not 1 <= interface <= len(self._neighbours):
            raise UsageError(f"no interface {interface} at {self.name}")
        return self._neighbours[interface - 1]

    # ---------------------------------------------------------------- control plane

    def attach(self, key: Key) -> None:
        """An application is here; who registers or sends is attached by that."""
        self.attached.add(key)
        self.moved.pop(key, None)

    def detach(
        self, key: Key, moved_to: tuple[tuple[Locator, ...], ...] = ()
    ) -> list[tuple[int, TreeUpdate]]:
        """An application goes, and withdraws everything. Packets for it alone follow it to where it moved."""
        self.attached.discard(key)
        if moved_to:
            self.moved[key] = moved_to
        return self.withdraw(key, self.applications.of(key))

    def connect(self, neighbour: str) -> int:
        """The interface of a neighbour; a new one gets the next number."""
        if neighbour not in self.interfaces:
            self._neighbours.append(neighbour)
            self.interfaces[neighbour] = len(self._neighbours)
        return self.interfaces[neighbour]

    def install(self, part: Part) -> list[tuple[int, TreeUpdate]]:
        """Take up a new version; returns what neighbours have to be told on its trees."""
        ports = [0, *(self.connect(name) for name in part.neighbours)]
        links = [[ports[one] for one in tree] for tree in part.links]
        self.planes.pop(part.version, None)
        self.planes[part.version] = Plane(part, Rib(links, self.filters.kind, self.filters), ports)
        for old in list(self.planes)[: -self._n_versions]:
            del self.planes[old]
        return self.change([tags for _, tags in self.applications], [])

    def fill(self, table: Table, version: int) -> None:
        """Take the entries of a version from a table of its plan: see `Registrations`."""
        plane = self.planes[version]
        places, trees = table.entries & (MOST_INTERFACES - 1), table.entries >> INTERFACE_BITS
        entries = (trees << INTERFACE_BITS) | np.array(plane.ports, np.int32)[places]
        rows = np.repeat(np.arange(table.n_filters), np.diff(table.start))
        entries = entries[np.lexsort((entries, rows))]
        plane.rib = Rib.of_table(plane.rib.links, table.descriptors, table.start, entries)

    def register(
        self, key: Key, descriptors: Iterable[Iterable[str]]
    ) -> list[tuple[int, TreeUpdate]]:
        """An application wants packets; returns what neighbours have to be told."""
        return self.change(self.note(key, descriptors), [])

    def withdraw(
        self, key: Key, descriptors: Iterable[Iterable[str]]
    ) -> list[tuple[int, TreeUpdate]]:
        """An application no longer wants packets; what it did not register is ignored."""
        return self.change([], self.strike(key, descriptors))

    def note(self, key: Key, descriptors: Iterable[Iterable[str]]) -> list[Tags]:
        """Write down what an application wants, for a `change` that is to follow."""
        wanted = [checked_tags(tags) for tags in descriptors]
        self.attach(key)
        self.applications.add(key, wanted)
        return wanted

    def strike(self, key: Key, descriptors: Iterable[Iterable[str]]) -> list[Tags]:
        """Strike out what an application no longer wants, for a `change` that is to follow; returns what it did
        want."""
        return self.applications.remove(key, [checked_tags(tags) for tags in descriptors])

    def change(self, came: Iterable[Tags], gone: Iterable[Tags]) -> list[tuple[int, TreeUpdate]]:
        """Change what all applications want together, on all trees of the newest version."""
        coming, going = list(came), list(gone)
        if not (self.planes and (coming or going)):
            return []
        update = Update(self.filters.encode(coming), self.filters.encode(going))
        version, plane = self.plane.part.version, self.plane
        return [
            (interface, TreeUpdate(version, tree, told))
            for tree in range(len(plane.rib.links))
            for interface, told in plane.rib.apply(update, tree, 0).items()
        ]

    def apply(self, update: TreeUpdate, interface: int) -> list[tuple[int, TreeUpdate]]:
        """Store what a neighbour tells; returns what others have to be told."""
        self.counts.updates += 1
        plane = self.planes.get(update.version)
        if plane is None:
            raise PacketError(f"an update of {self._unknown(update.version)}")
        change = update.update
        if update.is_whole:
            change = self._difference(plane.rib, update, interface)
        try:
            told = plane.rib.apply(change, update.tree, interface)
        except UsageError as error:
            raise PacketError(f"an update at router {self.name}: {error}") from None
        self.counts.updates_sent += len(told)
        return [
            (leaving, TreeUpdate(update.version, update.tree, one)) for leaving, one in told.items()
        ]

    def _difference(self, rib: Rib, update: TreeUpdate, interface: int) -> Update:
        """From what a neighbour has told so far to what it wants in all."""
        wanted, known = (
            self.filters.encode(update.update.additions),
            rib.wanted(update.tree, interface),
        )
        stays = set(wanted)
        gone = [row for row, one in enumerate(known) if one not in stays]
        return Update(wanted, known.take(np.array(gone, np.int64)))

    def whole(self, interface: int) -> list[TreeUpdate]:
        """All that a neighbour is to know, for one that has forgotten it: see `TreeUpdate`."""
        return [
            TreeUpdate(version, tree, Update(plane.rib.told(tree, interface)), is_whole=True)
            for version, plane in self.planes.items()
            for tree, links in enumerate(plane.rib.links)
            if interface in links
        ]

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
        found = Received([], [])
        by_tags: dict[int, list[tuple[int, int, Packet]]] = {}
        for number, (packet, interface) in enumerate(zip(packets, interfaces, strict=True)):
            try:
                self._take(number, packet, interface, found, by_tags)
            except PacketError as error:
                self.counts.refused += 1
                found.stops.append(Stop(number, str(error), is_error=True))
        while by_tags:
            version, some = by_tags.popitem()
            for again in self._by_tags(self.planes[version], some, found):
                by_tags.setdefault(again[2].version, []).append(again)
        return found

    def _take(
        self,
        number: int,
        packet: Packet,
        interface: int,
        found: Received,
        by_tags: dict[int, list[tuple[int, int, Packet]]],
    ) -> None:
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
        else:
            self.cache.offer(packet)
        if packet.stack:
            self._by_locator(number, packet, found)
            return
        if packet.tags is None:
            raise PacketError("a packet without tags and without a locator; expected one of them")
        if self.is_bloom and len(packet.filter) != FILTER_BYTES:
            raise PacketError("a packet without a Bloom filter among routers that go by it")
        plane = self.planes.get(packet.version)
        if plane is None:
            raise PacketError(f"a packet of {self._unknown(packet.version)}")
        links = plane.rib.links
        if packet.tree >= len(links):
            raise PacketError(f"a packet on tree {packet.tree}; expected 0 to {len(links) - 1}")
        if interface != 0 and interface not in links[packet.tree]:
            raise PacketError(
                f"a packet from interface {interface}, which is not on tree {packet.tree} at {self.name}"
            )
        by_tags.setdefault(packet.version, []).append((number, interface, packet))

    def _admitted(self, packet: Packet) -> Packet:
        """A packet of a local application: by tags, it gets a tree, and who asks, a way back."""
        if packet.sender is not None:
            self.attach(packet.sender)
        if packet.kind is not Kind.NOTIFICATION and not packet.origin:
            packet = packet._replace(origin=self.locators())
        if packet.version == 0 and not packet.stack:
            self.turn += 1
            part = self.plane.part
            tree = _drawn(self.name, self.turn, len(part.links))
            packet = packet._replace(version=part.version, tree=tree)
        if self.is_bloom and packet.tags is not None and not packet.filter:
            signed = self.filters.encode([packet.tags]).signatures()
            packet = packet._replace(filter=signed.astype(">u8").tobytes())
        return packet

    def _by_locator(self, number: int, packet: Packet, found: Received) -> None:
        while packet.stack:
            locator = packet.stack[-1]
            plane = self.planes.get(locator.version)
            if plane is None:
                raise PacketError(f"a locator of {self._unknown(locator.version)}")
            interface = plane.next_hop(locator)
            if interface:
                self._send(number, interface, packet, found)
                return
            packet = packet._replace(stack=packet.stack[:-1])
        self._arrived(number, packet, found)

    def _arrived(self, number: int, packet: Packet, found: Received) -> None:
        """A packet at the end of its locators is for one application here."""
        if packet.addressee in self.attached:
            self.counts.delivered += 1
            found.out.append((number, 0, packet))
            return
        if packet.addressee is not None and packet.addressee in self.moved:
            stacks = self.moved[packet.addressee]
            self._by_locator(
                number, packet._replace(stack=stacks[packet.tree % len(stacks)]), found
            )
            return
        raise PacketError(f"a packet for {packet.addressee!r}, who is not at {self.name}")

    def _by_tags(
        self, plane: Plane, some: Sequence[tuple[int, int, Packet]], found: Received
    ) -> list[tuple[int, int, Packet]]:
        """Send packets on along their trees; returns those that are to be tried on another tree."""
        packets = [packet for _, _, packet in some]
        interfaces = np.array([interface for _, interface, _ in some], np.int64)
        trees = np.array([packet.tree for packet in packets], np.int64)
        start, leaving = plane.rib.forward(self._descriptors(packets), trees, interfaces)
        bounds, ways = start.tolist(), leaving.tolist()
        is_here = [low < high and ways[low] == 0 for low, high in pairwise(bounds)]
        here = [row for row, is_local in enumerate(is_here) if is_local]
        takers = dict(zip(here, self._takers([packets[row] for row in here]), strict=True))
        again = list[tuple[int, int, Packet]]()
        for row, (number, interface, packet) in enumerate(some):
            keys = takers.get(row, [])
            beyond = ways[bounds[row] + is_here[row] : bounds[row + 1]]
            if keys or beyond:
                self._spread(number, packet, keys, beyond, found)
            elif interface == 0 and not is_here[row] and packet.tries == 0:
                found.stops.append(Stop(number, f"nobody wants it, {self.name} knows", False))
            else:
                self.counts.false_forwards += 1
                again += self._retried(number, packet, plane, found)
        return again

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
        self, number: int, packet: Packet, keys: list[Key], beyond: list[int], found: Received
    ) -> None:
        """Send copies to applications and neighbours, as many as the fan-out allows."""
        if packet.fan_out.mode is Mode.ALL:
            shares = [(interface, packet.fan_out) for interface in beyond]
        else:
            self.turn += 1
            keys, shares = shared(packet.fan_out, sorted(keys, key=str), beyond, self.turn)
            if len(keys) + len(shares) > 1:
                packet = packet._replace(is_whole=False)
        for key in keys:
            self.counts.delivered += 1
            found.out.append((number, 0, packet._replace(addressee=key)))
        for interface, fan_out in shares:
            self._send(number, interface, packet._replace(fan_out=fan_out), found)

    def _send(self, number: int, interface: int, packet: Packet, found: Received) -> None:
        self.counts.sent += 1
        found.out.append((number, interface, packet._replace(hops=packet.hops + 1)))

    def _retried(
        self, number: int, packet: Packet, plane: Plane, found: Received
    ) -> list[tuple[int, int, Packet]]:
        """A packet that a Bloom filter has led astray: to all, others get it; the only copy for one or
        some takes another tree from here."""
        if packet.fan_out.mode is Mode.ALL:
            found.stops.append(
                Stop(number, f"a false forward: nobody at {self.name} wants it", False)
            )
            return []
        n_trees = len(plane.rib.links)
        if not packet.is_whole or packet.tries + 1 >= n_trees:
            self.counts.lost += 1
            found.stops.append(Stop(number, f"lost at {self.name} after false forwards", False))
            return []
        self.counts.retried += 1
        tree = (packet.tree + 1) % n_trees
        return [(number, 0, packet._replace(tree=tree, tries=packet.tries + 1))]

    def _unknown(self, version: int) -> str:
        known = ", ".join(f"{one:016x}" for one in self.planes) or "none"
        return f"version {version:016x}; router {self.name} has {known}"


def shared(
    fan_out: FanOut, keys: list[Key], beyond: list[int], turn: int
) -> tuple[list[Key], list[tuple[int, FanOut]]]:
    """Who gets a packet with a limit: applications here first, then neighbours, beginning with another
    one at every turn. At most k: neighbours share what is left of k. At least k: each gets k.

    >>> shared(FanOut.parse("at most 5"), ["ada"], [1, 2, 3], 0)[1]
    [(1, FanOut(mode=<Mode.AT_MOST: 1>, limit=2)), (2, FanOut(mode=<Mode.AT_MOST: 1>, limit=1)), (3, FanOut(mode=<Mode.AT_MOST: 1>, limit=1))]
    """
    mode, limit = fan_out
    keys = keys[:limit]
    left = limit - len(keys)
    n_chosen = min(left, len(beyond))
    first = turn % len(beyond) if beyond else 0
    chosen = (beyond[first:] + beyond[:first])[:n_chosen]
    if mode is Mode.AT_LEAST:
        return keys, [(interface, fan_out) for interface in chosen]
    return keys, [
        (interface, FanOut(mode, left // n_chosen + (place < left % n_chosen)))
        for place, interface in enumerate(chosen)
    ]


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


def bytes_on_wire(told: TreeUpdate) -> int:
    """How many bytes an update takes: 14, and for each descriptor 2, and 2 and its text for each tag; or 24 for
    each Bloom filter.

    >>> vocabulary = Vocabulary()
    >>> added = vocabulary.encode([{"jazz", "live"}])
    >>> bytes_on_wire(TreeUpdate(1, 0, Update(added, vocabulary.encode([]))))
    28
    """
    found = _HEAD_BYTES
    for descriptors in told.update:
        if not len(descriptors):
            continue
        if descriptors.vocabulary.kind == "bloom":
            found += FILTER_BYTES * len(descriptors)
        else:
            ends, ids = descriptors.vocabulary.names().text_start, descriptors.ids
            text = int((ends[ids + 1] - ends[ids]).sum())
            found += 2 * (len(descriptors) + len(ids)) + text
    return found


def checked_tags(tags: Iterable[str]) -> Tags:
    """A set of tags; text is cut at spaces."""
    words = tags.split() if isinstance(tags, str) else tags
    found = frozenset(words)
    odd = [tag for tag in found if not isinstance(tag, str)]
    if odd:
        raise UsageError(f"a tag {odd[0]!r}; expected text")
    return found


def _drawn(name: str, turn: int, count: int) -> int:
    """A number below `count`, of equal chance, that depends on name and turn alone."""
    return zlib.crc32(f"{name} {turn}".encode()) % count
