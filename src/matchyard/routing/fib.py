"""The forwarding information base of a router: the index that packets are matched against. [Thesis
3.4.5]

    RIB ──entries──▶ TagIndex with keys (tree, interface) ──forward──▶ interfaces for each packet

The RIB is made for updates and the FIB for packets. The FIB follows its RIB: what an update changed is
added to and removed from the index before the next packets are forwarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchyard.indexes import TagIndex, interface_key
from matchyard.matches import Matches
from matchyard.routing.rib import Rib

_FROM_HERE = 1 << 31  # an interface that no router has: packets of local applications come from it


class Fib:
    """Forwards packets as the RIB of a router says, on the CPU or a GPU.

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
        is_bloom = rib.descriptors == "bloom"
        self._rib, self._journal = rib, rib.journal()
        self._algorithm = algorithm or ("tagmatch" if is_bloom else None)
        self._options = {**({"exact": False} if is_bloom else {}), **(options or {})}
        self._device, self._threads = device, threads
        self._index = self._built()

    def __repr__(self) -> str:
        return f"<Fib of {self._rib!r}, algorithm {self._index.algorithm}>"

    @property
    def index(self) -> TagIndex:
        """The index, as of the last change of the RIB."""
        self._follow()
        return self._index

    def forward(
        self, packets: Any, trees: ArrayLike, interfaces: ArrayLike, threads: int | None = None
    ) -> Matches:
        """The interfaces that each packet leaves by: all on its tree that want it, but for the one it came
        from. Packets of local applications come from 0, and may leave by 0 to other applications.

        `trees` and `interfaces` are one number for all packets, or one for each.
        """
        if not hasattr(packets, "__len__"):
            packets = list(packets)
        tree, incoming = (
            np.array(np.broadcast_to(np.asarray(numbers, np.int64), (len(packets),)))
            for numbers in (trees, interfaces)
        )
        incoming[incoming == 0] = _FROM_HERE
        return self.index.forward(packets, tree, incoming, threads)

    def _built(self) -> TagIndex:
        """An index of everything that the RIB has."""
        self._journal.take()
        index = TagIndex(self._algorithm, self._options, self._device, True, self._threads)
        filters, trees, interfaces = self._rib.pairs(copies=False)
        index.add_many(self._values(filters), interface_key(trees, interfaces))
        return index.consolidate()

    def _follow(self) -> None:
        """Change the index as the RIB has changed; anew, where that is much, or signatures, of which single
        ones cannot be removed."""
        if not (self._journal.is_full or self._journal.changes):
            return
        if self._journal.is_full or self._rib.descriptors == "bloom":
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
