"""What a router knows: its neighbours, the applications here, and tables for each version of the trees."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.kernels.routing.filters import INTERFACE_BITS
from matchyard.network.packet import FILTER_BYTES, Locator, PacketError
from matchyard.network.plan import Part
from matchyard.routing import Rib, Table, Update, Vocabulary
from matchyard.routing.applications import Applications, Key, Tags
from matchyard.routing.saved_ribs import MOST_INTERFACES

_HEAD_BYTES = 20  # of an update: what it is, version, tree, numbers of descriptors


class TreeUpdate(NamedTuple):
    """What a router tells a neighbour on one tree. With `is_whole`, additions are all that it wants there."""

    version: int
    tree: int
    update: Update
    is_whole: bool = False


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
            self._is_link[number, [0, *tree]] = True

    def are_on(self, trees: NDArray[np.int64], interfaces: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which interfaces are on which trees? There may be none of either."""
        n_trees, width = self._is_link.shape
        is_on = (trees >= 0) & (trees < n_trees) & (interfaces >= 0) & (interfaces < width)
        is_on[is_on] = self._is_link[trees[is_on], interfaces[is_on]]
        return is_on

    def next_hop(self, locator: Locator) -> int:
        """The router's interface towards a locator."""
        return self.ports[self.part.next_hop(locator)]


class RouterTables:
    """The control plane of a router: updates in, updates out. See `Router`."""

    def __init__(
        self, name: str, descriptors: str, vocabulary: Vocabulary | None, versions: int
    ) -> None:
        self.name, self.name_bytes = name, name.encode()
        self.vocabulary = vocabulary or Vocabulary()  # of tags
        self.filters = self.vocabulary if descriptors == "tags" else Vocabulary(descriptors)
        self.applications = Applications(self.vocabulary)
        self.counts = Counts()
        self.interfaces: dict[str, int] = {}  # by neighbour
        self._neighbours: list[str] = []  # by interface - 1
        self.planes: dict[int, Plane] = {}  # by version, the newest last
        self.attached: set[Key] = set()  # applications that are here
        self.moved: dict[Key, tuple[tuple[Locator, ...], ...]] = {}  # where others went
        self._n_versions = versions

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
            raise PacketError(f"an update of {self.unknown(update.version)}")
        try:
            change = update.update
            if update.is_whole:
                change = self._difference(plane.rib, update, interface)
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

    def unknown(self, version: int) -> str:
        """A version that this router does not have, in words."""
        known = ", ".join(f"{one:016x}" for one in self.planes) or "none"
        return f"version {version:016x}; router {self.name} has {known}"

    def whole(self, interface: int) -> list[TreeUpdate]:
        """All that a neighbour is to know, for one that has forgotten it: see `TreeUpdate`."""
        return [
            TreeUpdate(version, tree, Update(plane.rib.told(tree, interface)), is_whole=True)
            for version, plane in self.planes.items()
            for tree, links in enumerate(plane.rib.links)
            if interface in links
        ]


def bytes_on_wire(told: TreeUpdate) -> int:
    """How many bytes an update takes: 20, and for each descriptor 2, and 2 and its text for each tag; or 24 for
    each Bloom filter.

    >>> vocabulary = Vocabulary()
    >>> added = vocabulary.encode([{"jazz", "live"}])
    >>> bytes_on_wire(TreeUpdate(1, 0, Update(added, vocabulary.encode([]))))
    34
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
