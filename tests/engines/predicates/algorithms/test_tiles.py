"""tiles: the filters that the exact check finds, however they are filed, tiled and blocked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from matchyard.engines.predicates.algorithms.auto import auto
from matchyard.engines.predicates.algorithms.tiles import sweep, tiles
from matchyard.engines.predicates.encoder.layout import Batch, Filters
from matchyard.errors import UsageError
from matchyard.kernels.strings import freeze
from tests.engines.predicates.algorithms.test_counting import (
    SHAPES,
    batch_of,
    case,
    expected,
    filters_of,
    lists,
)

OPTIONS = {
    "roomy": tiles.Options(),
    "one cell": tiles.Options(cells=1),
    "few cells and all slots": tiles.Options(cells=3, survivors=1e-9),
    "many cells": tiles.Options(cells=200),
    "many matches": tiles.Options(cells=3, dense=0.0),
    "scanned": tiles.Options(small=1 << 20),
}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", SHAPES)
def test_the_keys_are_those_of_the_exact_check(option: str, name: str) -> None:
    options = OPTIONS[option]
    for seed in range(4):
        filters, keys, batch = case(seed, name)
        table: Any = freeze(tiles.compile(filters, keys, None, options))  # type: ignore[arg-type]
        space = tiles.workspace(table, options)
        wanted = expected(filters, keys, batch)
        for _ in range(2):  # what the first call noted means nothing in the second
            assert lists(tiles.match(table, batch, space, options)) == wanted
            unique = tiles.match_unique(table, batch, space, options)
            assert lists(unique) == [sorted(set(row)) for row in wanted]


@pytest.mark.parametrize("name", SHAPES)
def test_large_tables_have_tiles_and_blocks(name: str) -> None:
    rng, shape = np.random.default_rng(5), SHAPES[name]
    filters, keys = filters_of(rng, 2000, shape), rng.integers(0, shape.n_keys, 2000)
    batch = batch_of(rng, 20, shape)
    wanted = expected(filters, keys, batch)
    for option in ("roomy", "few cells and all slots", "many matches"):
        options = OPTIONS[option]
        table: Any = freeze(tiles.compile(filters, keys, None, options))  # type: ignore[arg-type]
        assert max(len(table.tile_list_start), len(table.tile_start)) > 2
        if (name, option) == ("intervals", "many matches"):
            assert len(table.tile_start)
        found = tiles.match(table, batch, tiles.workspace(table, options), options)
        assert lists(found) == wanted


def intervals_case(n: int, width: int) -> tuple[Filters, Batch]:
    """Two intervals each over four slots, and events with all of these."""
    rng = np.random.default_rng(1)
    slots = np.sort(np.argsort(rng.random((n, 4)), axis=1)[:, :2]).astype(np.int32).ravel()
    low = rng.integers(0, 1000 - width, 2 * n)
    start = np.arange(n + 1)
    filters = Filters(
        start, 2 * start, np.arange(2 * n + 1), np.zeros(2 * n, np.int16), slots, low, low + width
    )
    elements, none = np.zeros(400, np.int32), np.zeros(1, np.int32)
    entries = np.tile(np.arange(4, dtype=np.int32), 100)
    batch = Batch(np.arange(101) * 4, entries, rng.integers(0, 1000, 400), elements, none, none)
    return filters, batch


def _with_some_slots(batch: Batch, share: float) -> Batch:
    """The same events without some of their entries."""
    kept = np.random.default_rng(2).random(len(batch.slots)) < share
    start = np.concatenate([[0], np.cumsum(kept)])[batch.event_start]
    slots, codes, elements = batch.slots[kept], batch.codes[kept], batch.elements[kept]
    return batch._replace(event_start=start, slots=slots, codes=codes, elements=elements)


def matches_by_numpy(filters: Filters, batch: Batch) -> list[list[int]]:
    """Of filters that all have the same number of intervals."""
    found = []
    for event in range(batch.n_rows):
        entries = slice(batch.event_start[event], batch.event_start[event + 1])
        code_of = np.full(filters.slots.max() + 1, -1)  # below every interval
        code_of[batch.slots[entries]] = batch.codes[entries]
        codes = code_of[filters.slots]
        holds = (filters.low <= codes) & (codes <= filters.high)
        found.append(
            np.flatnonzero(holds.reshape(len(filters.filter_start) - 1, -1).all(axis=1)).tolist()
        )
    return found


@pytest.mark.parametrize("dense", [0.0, np.inf])
def test_tables_of_several_blocks_find_what_numpy_finds(
    dense: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "_MOST_BYTES", 1 << 17)  # so that few events go together
    filters, batch = intervals_case(40_000, 120)
    batch = _with_some_slots(batch, 0.8)
    options = tiles.Options(dense=dense)
    table = freeze(tiles.compile(filters, np.arange(40_000), None, options))  # type: ignore[arg-type]
    if dense:
        assert len(table.block_list_start) > 2
        assert table.block_list_start[-1] > table.block_list_start[1] > 0  # both blocks have bits
    assert bool(len(table.tile_start)) == (dense == 0)
    part = tiles.match(table, batch, tiles.workspace(table, options), options)
    assert lists(part) == matches_by_numpy(filters, batch)


def test_bits_leave_few_filters_to_compare() -> None:
    filters, batch = intervals_case(20_000, 50)
    options = tiles.Options(dense=np.inf)
    table = freeze(tiles.compile(filters, np.arange(20_000), None, options))  # type: ignore[arg-type]
    part = tiles.match(table, batch, tiles.workspace(table, options), options)
    assert part.candidates < 4 * len(part.keys)
    assert part.candidates < 100 * 20_000 / 50


def test_small_sets_are_scanned_by_auto_alone() -> None:
    filters, keys, _ = case(1, "plain")
    few = filters.take(np.arange(5))
    assert len(auto.compile(few, keys[:5], None, auto.Options()).posting_start) == 2  # type: ignore[arg-type]
    assert len(tiles.compile(few, keys[:5], None, tiles.Options()).posting_start) > 2  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"cells": 0}, {"cells": 254}, {"survivors": 0.0}, {"dense": -1.0}, {"small": -1}]
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        tiles.check(tiles.Options()._replace(**options))
