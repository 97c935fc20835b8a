"""The RIB of a router as a workload: filters with their interfaces, and packets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import matchyard as my
from benchmarks.shared.networks import N_INTERNET, internet, routers
from matchyard.routing import Table, grow, register_workload

_ROWS_PER_FILTER = 3.4  # registrations of icn per remaining filter, with a million registrations
_SMALL = 50_000  # filters; fewer come from a small network


class RibSource:
    """About `size` filters of AS3257 on one tree of rule L [thesis, Figure 2.11], with keys (tree,
    interface). Registrations and packets come from the workload `icn`."""

    name = "rib"

    def __init__(self, size: int, seed: int) -> None:
        self.seed = seed
        self._registered = my.workload("tags", "icn", round(_ROWS_PER_FILTER * size), seed)

    @property
    def size(self) -> int:
        """The number of subscriptions of the index: one for each filter and interface."""
        return len(self._table.entries)

    @cached_property
    def _table(self) -> Table:
        is_small = self._registered.size < _SMALL
        network, _ = internet(500 if is_small else N_INTERNET)
        (node,) = routers(network, ["3257"], stub=False)
        registered = register_workload(self._registered, network)
        return registered.table(network, grow(network, "L", 1), node)

    def chunks(self) -> Iterator[tuple[pa.Array, NDArray[np.int64]]]:
        """All filters with their keys."""
        table = self._table
        rows = np.repeat(np.arange(table.n_filters), np.diff(table.start))
        keys = my.interface_key(table.entries >> 20, table.entries & ((1 << 20) - 1))
        yield table.descriptors.take(rows).to_arrow(), keys

    def subscriptions(self, start: int, stop: int) -> tuple[pa.Array, NDArray[np.int64]]:
        """The filters of a range, with their keys."""
        ((tags, keys),) = self.chunks()
        return tags[start:stop], keys[start:stop]

    def events(self, n_events: int, start: int = 0) -> pa.Array:
        """Packets: each a registered descriptor with more tags."""
        return self._registered.events(n_events, start)


@lru_cache(maxsize=2)
def rib_source(size: int, seed: int = 1) -> Any:
    """The source, cached for all steps of a figure, since making it takes seconds."""
    return RibSource(size, seed)
