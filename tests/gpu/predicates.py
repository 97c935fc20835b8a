"""Shared by the tests of predicates on a card: an algorithm on both devices."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import pytest

import matchyard as my
from matchyard.engines.predicates.algorithms.counting import counting
from matchyard.engines.predicates.algorithms.counting import gpu as counting_gpu
from matchyard.engines.predicates.algorithms.counting import gpu_layout as counting_layout
from matchyard.engines.predicates.algorithms.tiles import gpu as tiles_gpu
from matchyard.engines.predicates.algorithms.tiles import gpu_layout as tiles_layout
from matchyard.engines.predicates.algorithms.tiles import tiles
from matchyard.engines.predicates.encoder.layout import Batch, Filters
from tests.engines.predicates.algorithms.test_counting import case, expected, lists

_N_CASES = 1 if os.environ.get("MATCHYARD_TEST_UNDER") else 3


class Pair(NamedTuple):
    """An algorithm, and its launcher."""

    name: str
    on_cpu: Any
    on_gpu: Any
    cramping: tuple[tuple[Any, str, int], ...]  # settings that make a small case a large one
    found: str  # the buffer whose room may be too small
    same_work: bool  # are candidates those of the CPU?

    def compile(self, filters: Filters, keys: Any, options: Any = None) -> Any:
        return self.on_cpu.compile(filters, keys, None, options or self.on_cpu.Options())

    def workspace(self, table: Any, options: Any = None) -> Any:
        return self.on_gpu.workspace(table, options or self.on_cpu.Options())

    def match(self, table: Any, batch: Batch, space: Any, options: Any = None) -> Any:
        return self.on_gpu.match(table, batch, space, options or self.on_cpu.Options())

    def on_both(
        self, filters: Filters, keys: Any, batch: Batch, options: Any = None
    ) -> tuple[Any, Any, Any]:
        """(matches of the CPU, matches of the card, layout on the card)."""
        options = options or self.on_cpu.Options()
        table = self.compile(filters, keys, options)
        space = self.workspace(table, options)
        on_cpu = self.on_cpu.match(table, batch, self.on_cpu.workspace(table, options), options)
        return on_cpu, self.match(table, batch, space, options), space.layout

    def check_shape(self, name: str, options: Any = None) -> Any:
        """Check the matches of filters of a shape; returns the layout."""
        for seed in range(_N_CASES):
            filters, keys, batch = case(seed, name)
            on_cpu, found, layout = self.on_both(filters, keys, batch, options)
            assert lists(found) == lists(on_cpu) == expected(filters, keys, batch)
            assert found.candidates == on_cpu.candidates or not self.same_work
        return layout

    def cramp(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Force many tiles and launches, and room for three results."""
        for module, setting, value in self.cramping:
            monkeypatch.setattr(module, setting, value)

    def found_by_index(
        self, conditions: Any, keys: Any, events: Any, device: str, options: Any = None
    ) -> my.Matches:
        """The matches of an index after the removal of the first key."""
        index = my.PredicateIndex(self.name, device=device, options=options or {})
        index.add_many(conditions, keys)
        index.consolidate()
        index.remove(int(keys[0])).consolidate()
        return index.match(events)


COUNTING = Pair(
    "counting", counting, counting_gpu,
    (  # tiles of 32 filters, each of them matched by three blocks at most, as if there were many, and
        # no hits are few
        (counting_layout, "COUNTER_BYTES", 16),
        (counting_gpu, "BLOCKS", 15),
        (counting_gpu, "N_PROCESSORS", 0),
        (counting_gpu, "ROOM", 3),
        (counting_gpu, "FEW_HITS", 0),
    ),
    found="hits", same_work=True,
)  # fmt: skip
TILES = Pair(
    "tiles", tiles, tiles_gpu,
    (  # almost all postings have tiles, a block takes five visits, and no events are few
        (tiles_layout, "SMALL", 3),
        (tiles_gpu, "CHUNK", 5),
        (tiles_gpu, "ROOM", 3),
        (tiles_gpu, "FEW_EVENTS", 0),
    ),
    found="pairs", same_work=False,
)  # fmt: skip
