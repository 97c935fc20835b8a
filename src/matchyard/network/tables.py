"""The state of a router: its neighbours, its applications, and tables for each version of the trees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.kernels.routing.filters import INTERFACE_BITS
from matchyard.network.packet import FILTER_BYTES, Locator, PacketError
from matchyard.network.plan import Part
from matchyard.routing import Rib, Table, Update, Vocabulary
from matchyard.routing.applications import Applications, Key, Tags
from matchyard.routing.saved_ribs import MOST_INTERFACES

_OF_PREDICATES = frozenset(["<", "<=", ">", ">=", "=", "!=", "and", "or", "not", "in"])  # words
_HEAD_BYTES = 20  # of an update: kind, version, tree, numbers of descriptors


class TreeUpdate(NamedTuple):
    """An update for a neighbour on one tree. With `is_whole`, the additions replace all earlier filters."""

    version: int
    tree: int
    update: Update
    is_whole: bool = False


class Counts:
    """Counters of a router."""

    def __init__(self) -> None:
        self.received = 0  # packets
        self.sent = 0  # packets, to neighbours
        self.delivered = 0  # packets, to applications
        self.answered = 0  # requests, from the cache
        self.refused = 0  # packets: see `PacketError`
        self.false_forwards = 0  # packets from a neighbour that no application here or beyond wants
        self.retried = 0  # packets put on another tree after a false forward
        self.lost = 0  # packets with a limited fan-out that reached no application
        self.updates = 0  # received
        self.updates_sent = 0


class Plane:
    """The tables of a router for one version of the trees."""

    def __init__(self, part: Part, rib: Rib, ports: list[int]) -> None:
        self.part, self.rib = part, rib
        self.ports = ports  # the router's interface for each interface of the plan; 0 for 0
        widest = max((tree[-1] for tree in rib.links if tree), default=0)
        self._is_link = np.zeros((len(rib.links), widest + 1), np.bool_)
        for number, tree in enumerate(rib.links):
            self._is_link[number, [0, *tree]] = True

    def are_on(self, trees: NDArray[np.int64], interfaces: NDArray[np.int64]) -> NDArray[np.bool_]:
        """True for each pair of tree and interface that exists here; the numbers may be out of range."""
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
        self.attached: set[Key] = set()  # local applications
        self.moved: dict[Key, tuple[tuple[Locator, ...], ...]] = {}  # new locators of applications
        self._n_versions = versions

    @property
    def plane(self) -> Plane:
        """The newest plane."""
        if not self.planes:
            raise UsageError(f"router {self.name} has no trees yet; expected `install` before")
        return self.planes[next(reversed(self.planes))]

    @property
    def is_bloom(self) -> bool:
        """True if routers compare Bloom filters."""
        return self.filters is not self.vocabulary

    def locators(self) -> tuple[tuple[Locator, ...], ...]:
        """The locators of this router, one stack per tree."""
        part = self.plane.part
        return tuple((part.locator(tree),) for tree in range(len(part.links)))

    def neighbour(self, interface: int) -> str:
        """The name of the neighbour at an interface."""
        if not 1 <= interface <= len(self._neighbours):
            raise UsageError(f"no interface {interface} at {self.name}")
        return self._neighbours[interface - 1]

    def attach(self, key: Key) -> None:
        """Make an application local; registering and sending do this, too."""
        self.attached.add(key)
        self.moved.pop(key, None)

    def detach(
        self, key: Key, moved_to: tuple[tuple[Locator, ...], ...] = ()
    ) -> list[tuple[int, TreeUpdate]]:
        """Remove an application and its registrations; redirect packets for it to `moved_to`."""
        self.attached.discard(key)
        if moved_to:
            self.moved[key] = moved_to
        return self.withdraw(key, self.applications.of(key))

    def connect(self, neighbour: str) -> int:
        """The interface of a neighbour; a new neighbour gets the next number."""
        if neighbour not in self.interfaces:
            self._neighbours.append(neighbour)
            self.interfaces[neighbour] = len(self._neighbours)
        return self.interfaces[neighbour]

    def install(self, part: Part) -> list[tuple[int, TreeUpdate]]:
        """Install a new version; return the updates for neighbours on its trees."""
        ports = [0, *(self.connect(name) for name in part.neighbours)]
        links = [[ports[one] for one in tree] for tree in part.links]
        self.planes.pop(part.version, None)
        self.planes[part.version] = Plane(part, Rib(links, self.filters.kind, self.filters), ports)
        for old in list(self.planes)[: -self._n_versions]:
            del self.planes[old]
        return self.change([tags for _, tags in self.applications], [])

    def fill(self, table: Table, version: int) -> None:
        """Load the entries of a version from a table of its plan: see `Registrations`."""
        plane = self.planes[version]
        numbers, trees = table.entries & (MOST_INTERFACES - 1), table.entries >> INTERFACE_BITS
        entries = (trees << INTERFACE_BITS) | np.array(plane.ports, np.int32)[numbers]
        rows = np.repeat(np.arange(table.n_filters), np.diff(table.start))
        entries = entries[np.lexsort((entries, rows))]
        plane.rib = Rib.of_table(plane.rib.links, table.descriptors, table.start, entries)

    def register(
        self, key: Key, descriptors: Iterable[Iterable[str]]
    ) -> list[tuple[int, TreeUpdate]]:
        """Register descriptors of an application; return the updates for neighbours."""
        return self.change(self.note(key, descriptors), [])

    def withdraw(
        self, key: Key, descriptors: Iterable[Iterable[str]]
    ) -> list[tuple[int, TreeUpdate]]:
        """Withdraw descriptors of an application, ignoring unknown ones; return the updates for neighbours."""
        return self.change([], self.strike(key, descriptors))

    def note(self, key: Key, descriptors: Iterable[Iterable[str]]) -> list[Tags]:
        """Add registrations of an application without updates; `change` must follow."""
        wanted = [checked_interest(tags) for tags in descriptors]
        self.attach(key)
        self.applications.add(key, wanted)
        return wanted

    def strike(self, key: Key, descriptors: Iterable[Iterable[str]]) -> list[Tags]:
        """Remove registrations of an application without updates; `change` must follow. Return the removed ones."""
        return self.applications.remove(key, [checked_interest(tags) for tags in descriptors])

    def change(self, came: Iterable[Tags], gone: Iterable[Tags]) -> list[tuple[int, TreeUpdate]]:
        """Apply changes of local registrations to all trees of the newest version; return the updates."""
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
        """Apply an update of a neighbour; return the updates for other neighbours."""
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
        """The update from the stored filters of a neighbour to those of a whole update."""
        wanted, known = (
            self.filters.encode(update.update.additions),
            rib.wanted(update.tree, interface),
        )
        stays = set(wanted)
        gone = [row for row, one in enumerate(known) if one not in stays]
        return Update(wanted, known.take(np.array(gone, np.int64)))

    def unknown(self, version: int) -> str:
        """Describe a version that this router does not have."""
        known = ", ".join(f"{one:016x}" for one in self.planes) or "none"
        return f"version {version:016x}; router {self.name} has {known}"

    def whole(self, interface: int) -> list[TreeUpdate]:
        """The whole updates for a neighbour that has lost its tables: see `TreeUpdate`."""
        return [
            TreeUpdate(version, tree, Update(plane.rib.told(tree, interface)), is_whole=True)
            for version, plane in self.planes.items()
            for tree, links in enumerate(plane.rib.links)
            if interface in links
        ]


def merged(updates: Sequence[TreeUpdate]) -> list[TreeUpdate]:
    """Merge updates of one neighbour on one tree into fewer updates with the same effect.

    Two updates stay separate if the second removes a filter that the first adds: adding it dropped its supersets, and
    a merged update would keep them.
    """
    fewer = list[TreeUpdate]()
    added = set[Any]()
    for one in updates:
        coming, going = list(one.update.additions), list(one.update.removals)
        is_bloom = bool(coming and not isinstance(coming[0], frozenset)) or bool(
            going and not isinstance(going[0], frozenset)
        )
        if not fewer or is_bloom or one.is_whole or not added.isdisjoint(going):
            fewer.append(one)
            added = set() if is_bloom else set(coming)
            continue
        last = fewer[-1]
        added.update(coming)
        both = Update([*last.update.additions, *coming], [*last.update.removals, *going])
        fewer[-1] = last._replace(update=both)
    return fewer


def bytes_on_wire(told: TreeUpdate) -> int:
    """The number of bytes of an update.

    They are 20, plus 2 for each descriptor, plus 2 and its text for each tag; or 20, plus 24 for each Bloom filter.

    >>> vocabulary = Vocabulary()
    >>> added = vocabulary.encode([{"jazz", "live"}])
    >>> bytes_on_wire(TreeUpdate(1, 0, Update(added, vocabulary.encode([]))))
    34
    """
    n_bytes = _HEAD_BYTES
    for descriptors in told.update:
        if not len(descriptors):
            continue
        if descriptors.vocabulary.kind == "bloom":
            n_bytes += FILTER_BYTES * len(descriptors)
        else:
            ends, ids = descriptors.vocabulary.names().text_start, descriptors.ids
            text = int((ends[ids + 1] - ends[ids]).sum())
            n_bytes += 2 * (len(descriptors) + len(ids)) + text
    return n_bytes


def checked_interest(tags: Iterable[str]) -> Tags:
    """Check the tags of a registration. As text, they must not read like a predicate: its words would become tags."""
    if isinstance(tags, str) and (words := [one for one in tags.split() if one in _OF_PREDICATES]):
        raise UsageError(
            f"{tags!r} reads like a predicate: it has the word {words[0]!r}; routers compare tags only. "
            f"Expected tags, e.g. 'jazz live'; if {words[0]!r} is a tag, give a set, e.g. "
            f"{{'jazz', {words[0]!r}}}"
        )
    return checked_tags(tags)


def checked_tags(tags: Iterable[str]) -> Tags:
    """Check a set of tags; split text at spaces."""
    if isinstance(tags, Mapping):
        raise UsageError(
            f"{tags!r} has names with values; routers compare tags only. Expected a set of tags, e.g. "
            "{'jazz', 'live'}"
        )
    words = tags.split() if isinstance(tags, str) else tags
    checked = frozenset(words)
    odd = [tag for tag in checked if not isinstance(tag, str)]
    if odd:
        raise UsageError(f"a tag {odd[0]!r}; expected text")
    return checked
