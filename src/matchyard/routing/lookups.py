"""Look up packets at many routers at once: one kernel call instead of one per router."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.kernels.network.forwarding import Queries, add_table, entries_in_tables, first_table
from matchyard.kernels.network.subtrees import by_number
from matchyard.routing.applications import Applications
from matchyard.routing.descriptors import Descriptors
from matchyard.routing.rib import Rib


class Found(NamedTuple):
    """The interfaces by which packets leave, or the numbers of the applications that receive them."""

    order: NDArray[np.int64]  # the packets, grouped by router
    start: NDArray[np.int64]  # [n + 1] in that order
    interfaces: NDArray[np.int32]  # rising within a packet


class Lookups:
    """The present tables of some routers, either RIBs or applications, all of one vocabulary.

    The caller prevents changes of the tables while this object is in use: see `Rib.locked`.

    >>> from matchyard.routing import Update, Vocabulary
    >>> words = Vocabulary()
    >>> ribs = [Rib([[1, 2]], vocabulary=words), Rib([[1]], vocabulary=words)]
    >>> _ = ribs[0].apply(Update(["jazz"]), tree=0, interface=2)
    >>> _ = ribs[1].apply(Update(["live"]), tree=0, interface=0)
    >>> packets, both = words.encode(["jazz live"]), np.array([0, 0])
    >>> Lookups(ribs).find(np.array([0, 1]), packets, both, trees=both, interfaces=both + 1).interfaces
    array([2, 0], dtype=int32)
    """

    def __init__(self, routers: Sequence[Rib] | Sequence[Applications]) -> None:
        tables = [router.table() for router in routers]
        self._n_tables = len(tables)
        self._tables: Any = first_table(*tables[0])
        for table in tables[1:]:
            add_table(self._tables, *table)

    def find(
        self,
        at: NDArray[np.int64],
        packets: Descriptors,
        rows: NDArray[np.int64],
        trees: NDArray[np.int64],
        interfaces: NDArray[np.int64],
    ) -> Found:
        """The result of `Rib.forward` for `packets[rows]` at the routers with the numbers `at`."""
        start, order = by_number(at, self._n_tables)
        queries = Queries(order, packets.start, packets.ids, rows, trees, interfaces)
        entry_start, entries = entries_in_tables(self._tables, start, queries)
        return Found(order, entry_start, entries)
