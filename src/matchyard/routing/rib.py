"""The routing information base (RIB) of a router: the filters of each interface on each tree. [Thesis
2.3.6]

    update from a neighbour ──apply──▶ stored filters ──▶ updates for other neighbours

A filter subsumes its supersets: of the filters from one neighbour on one tree, the RIB keeps only the
minimal ones. It stores each filter once for all trees, with the pairs of tree and interface that want
it. For local applications (interface 0), it keeps every registration, and repeated ones as often as
they were made, because the removal of a filter may uncover its supersets.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.kernels.network.forwarding import Links, entries_within, links_of
from matchyard.kernels.routing import updates
from matchyard.kernels.routing.filter_room import compacted, entry_pairs, loaded, sets_of, with_room
from matchyard.kernels.routing.filters import FILTERS, INTERFACE_BITS, LIVING, Filters, empty
from matchyard.kernels.routing.sets import hash_rows
from matchyard.kernels.strings import Names, n_bytes
from matchyard.routing import saved_ribs
from matchyard.routing.descriptors import Descriptors, Vocabulary
from matchyard.routing.interfaces import checked_links
from matchyard.routing.journal import Change, Journal
from matchyard.routing.saved_ribs import MOST_INTERFACES
from matchyard.routing.whole_numbers import whole_number
from matchyard.storage.origins import Origins
from matchyard.threads.forks import start_fresh_in_child

_LEAST_ROOM = 64  # filters
_MOST_CHANGES = 8  # a journal holds changes of at most one filter in 8


class Update(NamedTuple):
    """A message from a router to a neighbour on a tree. Removals apply before additions."""

    additions: Any = ()  # descriptors in any form of sets of tags that an index accepts
    removals: Any = ()


class Memory(NamedTuple):
    """The content of a router, and its size in bytes."""

    filters: int  # distinct descriptors
    entries: int  # pairs of tree and interface, summed over all filters
    stored_bytes: int  # here, with spare room and the lists that find subsets and supersets
    thesis_bytes: int  # with 60 bytes per filter, the average in the thesis
    compact_bytes: int  # with 32 bytes per filter and 2 per entry


class Rib:
    """The descriptors that a router knows, by tree and interface.

    `links` has the interfaces of the router on each tree, from 1 on: see `links_at`. A RIB is
    thread-safe: a lock serialises all calls.

    >>> rib = Rib([[1, 2, 3]])
    >>> told = rib.apply(Update(additions=[{"jazz"}, {"jazz", "live"}]), tree=0, interface=1)
    >>> {interface: list(update.additions) for interface, update in told.items()}
    {2: [frozenset({'jazz'})], 3: [frozenset({'jazz'})]}
    >>> rib.apply(Update(additions=["jazz oslo"]), tree=0, interface=2)[1].additions
    <1 descriptors of tags>
    """

    def __init__(
        self,
        links: Sequence[Iterable[int]],
        descriptors: str = "tags",
        vocabulary: Vocabulary | None = None,
    ) -> None:
        if vocabulary is not None and vocabulary.kind != descriptors:
            raise UsageError(
                f"a vocabulary of {vocabulary.kind} for descriptors={descriptors!r}; expected the same"
            )
        self.links = checked_links(links)
        self._links = links_of(self.links)
        self.vocabulary = vocabulary or Vocabulary(descriptors)
        self._journals: list[weakref.ref[Journal]] = []
        self._origins = Origins()
        self._filters = empty(_LEAST_ROOM, 4 * _LEAST_ROOM, _LEAST_ROOM, self.vocabulary.n_ids)
        self._start_fresh()
        start_fresh_in_child(self)

    def _start_fresh(self) -> None:
        self._fork_lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<Rib: {len(self)} filters, {len(self.links)} trees>"

    def __len__(self) -> int:
        """The number of different filters."""
        return int(self._filters.counts[LIVING])

    def __bool__(self) -> bool:
        return True

    @property
    def descriptors(self) -> str:
        """The form of filters: "tags" (exact) or "bloom"."""
        return self.vocabulary.kind

    # ---------------------------------------------------------------- changing

    def apply(self, update: Update, tree: int, interface: int) -> dict[int, Update]:
        """Apply an update from an interface on a tree; return the updates for the other interfaces.

        An addition is ignored if the interface has a subset of it; otherwise it replaces its supersets.
        A removal of an unknown filter is ignored. The returned updates are as small as possible.
        """
        if not isinstance(update, Update):
            raise UsageError(
                f"an update of {type(update).__name__}; expected e.g. Update(additions=['jazz live'])"
            )
        tree, interface = self._place(tree, interface)
        first = tree << INTERFACE_BITS
        gone, is_whole = self.vocabulary.find(update.removals)
        gone, came = gone.take(np.flatnonzero(is_whole)), self.vocabulary.encode(update.additions)
        leaving, coming = sets_in_order(gone, -1), sets_in_order(came)
        with self.locked():
            self._make_room(coming)
            journals = [one for one in (known() for known in self._journals) if one is not None]
            was_incomplete = [journal.is_incomplete for journal in journals]
            for journal in journals:  # until written: an interrupt may come before `_write`
                journal.is_incomplete = True
            news, changed = updates.apply(
                self._filters,
                leaving,
                coming,
                first,
                first + MOST_INTERFACES - 1,
                first + interface,
            )
            self._write(journals, was_incomplete, changed, tree, interface)
            return self._updates(news, tree, interface)

    def locked(self) -> AbstractContextManager[Any]:
        """The lock of this RIB: hold it to read several values of the same state."""
        return self._fork_lock

    def journal(self) -> Journal:
        """A new journal of all later changes; the RIB holds only a weak reference to it."""
        journal = Journal()
        with self.locked():
            self._journals = [one for one in self._journals if one() is not None]
            self._journals.append(weakref.ref(journal))
        return journal

    def _write(
        self,
        journals: Sequence[Journal],
        was_incomplete: Sequence[bool],
        changed: NDArray[np.int64],
        tree: int,
        interface: int,
    ) -> None:
        """Note the filters that an interface has gained or lost in the journals."""
        if not journals:
            return
        changed = np.unique(changed)
        own = (tree << INTERFACE_BITS) + interface
        is_held = updates.are_held(self._filters, changed, own)
        kept, lost = self._rows(changed[is_held]), self._rows(changed[~is_held])
        for journal, was in zip(journals, was_incomplete, strict=True):
            journal.is_incomplete = was
            if len(changed):
                journal.note(Change(tree, interface, kept, lost), len(self) // _MOST_CHANGES)

    def _place(self, tree: Any, interface: Any) -> tuple[int, int]:
        """Check a tree and an interface, which is on the tree or 0."""
        tree, interface = whole_number(tree, "tree"), whole_number(interface, "interface")
        if not 0 <= tree < len(self.links):
            raise UsageError(f"tree {tree}; expected a number from 0 to {len(self.links) - 1}")
        if interface != 0 and interface not in self.links[tree]:
            raise UsageError(
                f"interface {interface} is not on tree {tree}; expected 0 for local applications, or "
                f"one of {_some(self.links[tree])}"
            )
        return tree, interface

    def _make_room(self, came: updates.Sets) -> None:
        """Make room for additions; drop dead filters if they are the majority."""
        filters = self._filters
        n_dead = int(filters.counts[FILTERS] - filters.counts[LIVING])
        if n_dead > max(_LEAST_ROOM, int(filters.counts[LIVING])):
            filters = compacted(filters)
        self._filters = with_room(filters, self.vocabulary.n_ids, *came[1:])

    def _updates(self, news: NDArray[np.int32], tree: int, interface: int) -> dict[int, Update]:
        """The updates by neighbour; neighbours with the same news share one update."""
        if not len(news):
            return {}
        told = self._rows(news[:, 0].astype(np.int64))
        came, whom, which = news[:, 1] == updates.CAME, news[:, 2], news[:, 3]
        for_all = whom == updates.ALL
        special = set(which[~for_all].tolist())
        some = whom == updates.ALL_BUT
        common = _update(told, came, for_all | some)
        updates_by_neighbour = {}
        for neighbour in self.links[tree]:
            if neighbour == interface:
                continue
            if neighbour in special:
                is_one = which == neighbour
                mine = for_all | (some & ~is_one) | ((whom == updates.ONLY) & is_one)
                update = _update(told, came, mine)
            else:
                update = common
            if len(update.additions) or len(update.removals):
                updates_by_neighbour[neighbour] = update
        return updates_by_neighbour

    # ---------------------------------------------------------------- looking at it

    def covers(self, descriptors: Any, tree: int, interface: int) -> NDArray[np.bool_]:
        """True for each descriptor that some filter of an interface subsumes.

        >>> rib = Rib([[1]])
        >>> _ = rib.apply(Update(additions=["jazz"]), 0, 1)
        >>> rib.covers(["jazz live", "rock"], 0, 1).tolist()
        [True, False]
        """
        tree, interface = self._place(tree, interface)
        asked, _ = self.vocabulary.find(descriptors)
        with self.locked():
            nothing = asked.take(np.empty(0, np.int64))
            self._make_room(sets_in_order(nothing))  # kernels need a list for every number
            covered, _ = updates.are_covered(
                self._filters, sets_in_order(asked, 0), (tree << INTERFACE_BITS) + interface
            )
        is_covered: NDArray[np.bool_] = covered
        return is_covered

    def forward(
        self, packets: Descriptors, trees: NDArray[np.int64], interfaces: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The interfaces by which each packet leaves, read from the RIB itself: (start, interfaces).

        `Fib.forward` gives the same result, checks its arguments, and is faster for many packets and
        large tables. This method needs no index and sees an update at once. Packets of local
        applications come from interface 0 and may leave by 0.
        """
        with self.locked():
            start, outgoing = entries_within(
                *self.table(), packets.start, packets.ids, trees, interfaces
            )
        return start, outgoing

    def table(self) -> tuple[Filters, Links]:
        """The arrays in which kernels look up packets of this vocabulary; the caller holds the lock."""
        if len(self._filters.lists) < self.vocabulary.n_ids:
            self._make_room(sets_in_order(self.vocabulary.encode([])))
        return self._filters, self._links

    def told(self, tree: int, interface: int) -> Descriptors:
        """All filters sent to a neighbour so far; a neighbour that joins must receive them."""
        tree, interface = self._place(tree, interface)
        if interface == 0:
            raise UsageError("local applications are told nothing; expected an interface from 1 on")
        first = tree << INTERFACE_BITS
        last = first + MOST_INTERFACES - 1
        with self.locked():
            return self._rows(updates.told_to(self._filters, first, last, first + interface))

    def wanted(self, tree: int, interface: int) -> Descriptors:
        """The filters of an interface on a tree; at interface 0, every registration."""
        tree, interface = self._place(tree, interface)
        with self.locked():
            rows, entries = entry_pairs(self._filters)
            return self._rows(rows[entries == (tree << INTERFACE_BITS) + interface])

    def pairs(
        self, copies: bool = True
    ) -> tuple[Descriptors, NDArray[np.int32], NDArray[np.int32]]:
        """All entries as three columns: filter, tree, interface.
        Without `copies`, repeated registrations of local applications appear once."""
        with self.locked():
            rows, entries = entry_pairs(self._filters)
            if not copies:
                is_new = (np.diff(rows) != 0) | (np.diff(entries) != 0)
                is_first = np.append(True, is_new)[: len(rows)]
                rows, entries = rows[is_first], entries[is_first]
            return self._rows(rows), entries >> INTERFACE_BITS, entries & (MOST_INTERFACES - 1)

    def entries(self) -> pa.Table:
        """All entries as a table with the columns descriptor, tree, interface."""
        filters, trees, interfaces = self.pairs()
        return pa.table({"descriptor": filters.to_arrow(), "tree": trees, "interface": interfaces})

    def memory(self) -> Memory:
        """The memory of the filters, here and in the layout of the thesis."""
        rows = self._filters.rows[: self._filters.counts[FILTERS]]
        n_entries = int(rows["n_entries"].sum())
        stored = n_bytes(self._filters) + n_bytes(self.vocabulary.names())
        return memory(len(self), n_entries, stored)

    def _rows(self, rows: NDArray[Any]) -> Descriptors:
        return Descriptors(self.vocabulary, *sets_of(self._filters, rows))

    # ---------------------------------------------------------------- keeping it

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> Rib:
        """Write a new version to a folder and publish it in one step, like `Index.save`."""
        saved_ribs.save(path, self.descriptors, self._saved, self._origins, overwrite)
        return self

    def _saved(self) -> tuple[Names, saved_ribs.Table]:
        with self.locked():
            pairs, entries = entry_pairs(self._filters)
            living, pairs = np.unique(pairs, return_inverse=True)
            table = saved_ribs.table_of(self.links, *sets_of(self._filters, living), pairs, entries)
            return self.vocabulary.names(), table

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], verify: bool | str = "auto", version: str | None = None
    ) -> Rib:
        """Open a saved RIB; `verify` and `version` are as in `matchyard.open`."""
        manifest, names, table = saved_ribs.load(path, verify, version)
        start = table.id_start.astype(np.int64)
        filters = Descriptors(Vocabulary(manifest["algorithm"], names), start, table.ids)
        links = saved_ribs.links_of(table)
        rib = cls.of_table(links, filters, table.entry_start, table.entries)
        rib._origins.note(path, manifest)
        return rib

    @classmethod
    def of_table(
        cls,
        links: Sequence[Iterable[int]],
        filters: Descriptors,
        entry_start: NDArray[Any],
        entries: NDArray[np.int32],
    ) -> Rib:
        """A RIB of given filters with their rising entries (tree << 20 | interface), without aggregation."""
        rib = cls(links, filters.checked().vocabulary.kind, filters.vocabulary)
        if not np.isin(np.unique(entries), saved_ribs.entries_of(rib.links)).all():
            raise UsageError(
                "entries of interfaces that are not among the links; expected only interfaces on the trees"
            )
        pairs = np.repeat(np.arange(len(filters)), np.diff(entry_start))
        n_ids = rib.vocabulary.n_ids
        rib._filters = loaded(filters.start, filters.ids, pairs, entries, n_ids)
        return rib


def memory(n_filters: int, n_entries: int, stored_bytes: int) -> Memory:
    """The `Memory` of given numbers of filters and entries."""
    return Memory(
        n_filters, n_entries, stored_bytes, 60 * n_filters, 32 * n_filters + 2 * n_entries
    )


def _some(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "") or "none"


def sets_in_order(descriptors: Descriptors, direction: int = 1) -> updates.Sets:
    """Descriptors for kernels, sorted by size: rising for 1, falling for -1, in given order for 0."""
    start, ids = descriptors.start, descriptors.ids
    order = np.argsort(direction * np.diff(start), kind="stable")
    return updates.Sets(order, start, ids, hash_rows(start, ids))


def _update(told: Descriptors, came: NDArray[np.bool_], mine: NDArray[np.bool_]) -> Update:
    return Update(told.take(np.flatnonzero(mine & came)), told.take(np.flatnonzero(mine & ~came)))
