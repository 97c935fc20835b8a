"""The forwarding information base (FIB) of a router: an index that matches packets. [Thesis 3.4.5]

    RIB ──entries──▶ TagIndex with keys (tree, interface) ──forward──▶ interfaces for each packet

The RIB is made for updates and the FIB for packets. The FIB follows its RIB: it applies the changes of
the RIB to its index before it forwards the next packets. It builds the index anew when more than one
filter in eight has changed. With Bloom filters, it builds the index anew after every update.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchyard.errors import UsageError
from matchyard.forwarding import interface_key
from matchyard.kinds import TagIndex
from matchyard.matches import Matches
from matchyard.routing.rib import Rib
from matchyard.routing.whole_numbers import whole_numbers
from matchyard.threads.forks import start_fresh_in_child

_FROM_HERE = 1 << 31  # the incoming interface of local packets; no router has such an interface


class Fib:
    """Forwards packets according to the RIB of a router, on the CPU or a GPU.

    >>> from matchyard.routing import Rib, Update
    >>> rib = Rib([[1, 2, 3]])
    >>> fib = Fib(rib)
    >>> _ = rib.apply(Update(["jazz"]), tree=0, interface=2)
    >>> fib.forward([{"jazz", "live"}, {"rock"}], trees=0, interfaces=1).to_lists()
    [[2], []]
    """

    def __init__(
        self,
        rib: Rib,
        algorithm: str | None = None,
        options: Mapping[str, Any] | None = None,
        device: str = "cpu",
        threads: int = 1,
    ) -> None:
        if not isinstance(rib, Rib):
            raise UsageError(f"a FIB of {type(rib).__name__}; expected a Rib")
        is_bloom = rib.descriptors == "bloom"
        if is_bloom and algorithm not in (None, "tagmatch", "scan", "prefix_tree"):
            raise UsageError(f"{algorithm} needs tags; expected tagmatch for Bloom filters")
        self._rib, self._journal = rib, rib.journal()
        widest = max((tree[-1] for tree in rib.links if tree), default=0)
        self._is_link = np.zeros((len(rib.links), widest + 1), np.bool_)
        for number, tree in enumerate(rib.links):
            self._is_link[number, [0, *tree]] = True
        self._algorithm = algorithm or ("tagmatch" if is_bloom else None)
        self._options = {**({"exact": False} if is_bloom else {}), **(options or {})}
        self._device, self._threads = device, threads
        self._start_fresh()
        start_fresh_in_child(self)
        with rib.locked():
            self._index = self._built()

    def _start_fresh(self) -> None:
        self._fork_lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<Fib of {self._rib!r}, algorithm {self._index.algorithm}>"

    @property
    def index(self) -> TagIndex:
        """The index, brought up to date with the RIB."""
        with self._fork_lock, self._rib.locked():
            self._follow()
            return self._index

    def forward(
        self, packets: Any, trees: ArrayLike, interfaces: ArrayLike, threads: int | None = None
    ) -> Matches:
        """The interfaces by which each packet leaves: all that want it on its tree, except the incoming one.

        Packets of local applications come from interface 0 and may leave by 0 to other applications.
        `trees` and `interfaces` are one number for all packets, or one number per packet.
        """
        if not hasattr(packets, "__len__"):
            packets = list(packets)
        tree, incoming = self._ways(trees, interfaces, len(packets))
        incoming[incoming == 0] = _FROM_HERE
        return self.index.forward(packets, tree, incoming, threads)

    def _ways(
        self, trees: Any, interfaces: Any, n_packets: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The tree and the interface of each packet."""
        columns = []
        for numbers, what in ((trees, "trees"), (interfaces, "interfaces")):
            some = whole_numbers(numbers, what, None)
            if some.shape not in ((), (n_packets,)):
                raise UsageError(
                    f"{what} of shape {some.shape} for {n_packets} packets; expected one each"
                )
            columns.append(np.array(np.broadcast_to(some, (n_packets,))))
        tree, incoming = columns
        links = self._rib.links
        if n_packets and not (tree.min() >= 0 and tree.max() < len(links)):
            raise UsageError(
                f"trees {tree.min()} to {tree.max()}; expected numbers from 0 to {len(links) - 1}"
            )
        is_on = (incoming >= 0) & (incoming < self._is_link.shape[1])
        is_on[is_on] = self._is_link[tree[is_on], incoming[is_on]]
        if not is_on.all():
            odd = int(is_on.argmin())
            raise UsageError(
                f"a packet from interface {incoming[odd]}, which is not on tree {tree[odd]}; expected one "
                "that is, or 0 for local applications"
            )
        return tree, incoming

    def _built(self) -> TagIndex:
        """Build an index of all entries of the RIB."""
        self._journal.take()
        index = TagIndex(self._algorithm, self._options, self._device, True, self._threads)
        filters, trees, interfaces = self._rib.pairs(copies=False)
        index.add_many(self._values(filters), interface_key(trees, interfaces))
        return index.consolidate()

    def _follow(self) -> None:
        """Apply the changes of the RIB to the index, or build the index anew.
        Many changes are slower to apply than to rebuild. Single signatures cannot be removed."""
        if not (self._journal.is_incomplete or self._journal.changes):
            return
        if self._journal.is_incomplete or self._rib.descriptors == "bloom":
            self._index = self._built()
            return
        for change in self._journal.take():
            key = interface_key(change.tree, change.interface)
            for filters in (change.kept, change.lost):
                for one in filters:
                    self._index.remove(key, one)
            keys = np.full(len(change.kept), key, np.int64)
            self._index.add_many(self._values(change.kept), keys)

    def _values(self, filters: Any) -> NDArray[np.uint64] | Any:
        return filters.signatures() if self._rib.descriptors == "bloom" else filters.to_arrow()
