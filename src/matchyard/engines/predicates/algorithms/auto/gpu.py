"""auto with a GPU: small batches go to the CPU, large ones to the card [CCM §5, closing remark].

A launch takes at least a tenth of a millisecond. In this time the CPU matches an event with a
hundred thousand filters. docs/predicates.md has the measured batch sizes from which a launch pays.
"""

from __future__ import annotations

from functools import cached_property

from matchyard.engines.predicates.algorithms.auto.auto import Options
from matchyard.engines.predicates.algorithms.tiles import gpu as tiles_gpu
from matchyard.engines.predicates.algorithms.tiles import tiles
from matchyard.engines.predicates.algorithms.tiles.tiles import Table
from matchyard.engines.predicates.encoder.layout import Batch
from matchyard.gpu.devices import guarded
from matchyard.matches import Part

LAUNCH = tiles_gpu.LAUNCH
VARIANTS = ()  # its kernels are those of tiles
MANY_FILTERS = 50_000
EVENTS = 256  # from which a launch pays…
EVENTS_MANY_FILTERS = 64  # …and with many filters


class Space:
    """The workspaces of a thread on CPU and card; the table is copied to the card at first use."""

    def __init__(self, table: Table, options: Options) -> None:
        self._table, self._options = table, tiles.Options(*options)
        self.on_cpu = tiles.workspace(table, self._options)

    @cached_property
    def on_card(self) -> tiles_gpu.Space:
        """The workspace on the card."""
        with guarded("making room for a thread"):
            return tiles_gpu.workspace(self._table, self._options)


def workspace(table: Table, options: Options) -> Space:
    """The workspace of one thread."""
    return Space(table, options)


def is_worth_a_launch(n_filters: int, n_events: int) -> bool:
    """True if so many events are faster on the card.

    >>> [is_worth_a_launch(100_000, n_events) for n_events in (1, 63, 64)]
    [False, False, True]
    """
    return n_events >= (EVENTS if n_filters < MANY_FILTERS else EVENTS_MANY_FILTERS)


def match(table: Table, batch: Batch, workspace: Space, options: Options) -> Part:
    """The keys per event."""
    given, n_filters = tiles.Options(*options), len(table.filter_start) - 1
    if n_filters > options.small and is_worth_a_launch(n_filters, batch.n_rows):
        return tiles_gpu.match(table, batch, workspace.on_card, given)
    return tiles.match(table, batch, workspace.on_cpu, given)
