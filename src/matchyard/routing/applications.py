"""The local applications of a router: their registrations, and the delivery of packets to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from matchyard.kernels.network.forwarding import Links, entries_within, links_of
from matchyard.kernels.routing import updates
from matchyard.kernels.routing.filter_room import with_room
from matchyard.kernels.routing.filters import Filters, empty
from matchyard.routing.descriptors import Descriptors, Vocabulary
from matchyard.routing.rib import sets_in_order

Key = str | int
Tags = frozenset[str]
_LEAST_ROOM = 64


class Applications:
    """Registrations by key; an application may register a descriptor several times.

    >>> here = Applications()
    >>> here.add("ada", [frozenset({"jazz"}), frozenset({"jazz", "live"})])
    >>> here.who_wants(here.vocabulary.encode(["jazz live oslo", "rock"]))
    [['ada'], []]
    >>> here.remove("ada", [frozenset({"jazz"}), frozenset({"rock"})])
    [frozenset({'jazz'})]
    """

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        self.vocabulary = vocabulary or Vocabulary()
        self._numbers: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._links = links_of([[]])
        self._registered: dict[Key, Counter[Tags]] = {}
        self._filters = empty(_LEAST_ROOM, 4 * _LEAST_ROOM, _LEAST_ROOM, self.vocabulary.n_ids)

    def __repr__(self) -> str:
        return f"<{len(self._registered)} applications, {len(self)} registrations>"

    def __len__(self) -> int:
        """The number of registrations."""
        return sum(wanted.total() for wanted in self._registered.values())

    def __contains__(self, key: object) -> bool:
        return key in self._registered

    def __iter__(self) -> Iterator[tuple[Key, Tags]]:
        """All registrations; a descriptor that was registered twice is yielded twice."""
        for key, wanted in self._registered.items():
            for tags in wanted.elements():
                yield key, tags

    def of(self, key: Key) -> list[Tags]:
        """The descriptors that an application has registered."""
        return list(self._registered.get(key, Counter()).elements())

    def add(self, key: Key, descriptors: Iterable[Tags]) -> None:
        """Register descriptors for an application."""
        wanted = list(descriptors)
        if not wanted:
            return
        number = self._numbers.setdefault(key, len(self._keys))
        if number == len(self._keys):
            self._keys.append(key)
        self._registered.setdefault(key, Counter()).update(wanted)
        self._change(number, self.vocabulary.encode(wanted), self.vocabulary.encode([]))

    def remove(self, key: Key, descriptors: Iterable[Tags]) -> list[Tags]:
        """Withdraw descriptors; return the ones that were registered."""
        wanted, gone = self._registered.get(key, Counter()), list[Tags]()
        for tags in descriptors:
            if wanted[tags] > 0:
                wanted[tags] -= 1
                gone.append(tags)
        if gone:
            self._change(
                self._numbers[key], self.vocabulary.encode([]), self.vocabulary.encode(gone)
            )
            self._registered[key] = +wanted
            if not self._registered[key]:
                del self._registered[key]
        return gone

    def who_wants(self, packets: Descriptors) -> list[list[Key]]:
        """The applications that want each packet, in the order in which they first registered."""
        start, numbers = self._within(packets)
        keys = [self._keys[number] for number in numbers.tolist()]
        bounds = start.tolist()
        return [keys[low:high] for low, high in pairwise(bounds)]

    def _within(self, packets: Descriptors) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The numbers of the applications that want each packet."""
        none = np.zeros(len(packets), np.int64)
        pairs: tuple[NDArray[np.int64], NDArray[np.int32]] = entries_within(
            *self.table(), packets.start, packets.ids, none, none
        )
        return pairs

    def table(self) -> tuple[Filters, Links]:
        """The arrays in which kernels look up packets; each application is an interface of one tree."""
        if len(self._filters.lists) < self.vocabulary.n_ids:
            self._make_room(self.vocabulary.encode([]))
        if self._links.width != max(1, len(self._keys)):
            self._links = links_of([range(1, len(self._keys))])
        return self._filters, self._links

    def _change(self, number: int, came: Descriptors, gone: Descriptors) -> None:
        self._make_room(came)
        updates.apply(
            self._filters,
            sets_in_order(gone, -1),
            sets_in_order(came),
            number,
            number,
            number,  # first == last == own makes the kernel keep every registration
        )

    def _make_room(self, came: Descriptors) -> None:
        sets = sets_in_order(came)
        self._filters = with_room(self._filters, self.vocabulary.n_ids, *sets[1:])
