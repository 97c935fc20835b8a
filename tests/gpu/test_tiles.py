"""tiles on a GPU: the keys of the CPU, whatever the shape of postings, tiles and launches."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import matchyard as my
from matchyard.engines.predicates import workload
from matchyard.engines.predicates._coded import HIGHEST, LOWEST, Batch, Filters
from matchyard.engines.predicates.algorithms import _tiles_layout, tiles, tiles_gpu
from matchyard.kept import kept
from matchyard.kernels.csr import hash_set, ragged
from tests.engines.predicates.test_counting import (
    SHAPES,
    batch_of,
    case,
    expected,
    filters_of,
    lists,
)
from tests.engines.predicates.test_tiles import intervals_case, matches_by_numpy

pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu
PLAIN = tiles.Options()
OPTIONS = {
    "roomy": PLAIN,
    "one cell": tiles.Options(cells=1),
    "many cells": tiles.Options(cells=253),
    "many matches": tiles.Options(cells=3, dense=0.0),
    "scanned": tiles.Options(small=1 << 20),
}


def on_both(
    filters: Filters, keys: Any, batch: Batch, options: Any = PLAIN
) -> tuple[Any, Any, Any]:
    """What CPU and GPU find, and the layout that the latter had."""
    table = tiles.compile(filters, keys, None, options)  # type: ignore[arg-type]
    space = tiles_gpu.workspace(table, options)
    on_cpu = tiles.match(table, batch, tiles.workspace(table, options), options)
    return on_cpu, tiles_gpu.match(table, batch, space, options), space.layout


@pytest.fixture
def cramped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Almost all postings have tiles, a block takes five visits, and there is room for few pairs."""
    monkeypatch.setattr(_tiles_layout, "SMALL", 3)
    monkeypatch.setattr(tiles_gpu, "CHUNK", 5)
    monkeypatch.setattr(tiles_gpu, "ROOM", 3)


def check_shape(name: str, options: Any) -> Any:
    for seed in range(3):
        filters, keys, batch = case(seed, name)
        on_cpu, found, layout = on_both(filters, keys, batch, options)
        assert lists(found) == lists(on_cpu) == expected(filters, keys, batch)
    return layout


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("option", OPTIONS)
def test_keys_are_those_of_the_cpu(name: str, option: str) -> None:
    layout = check_shape(name, OPTIONS[option])
    if option == "scanned":
        assert (layout.n_large, layout.n_tiles, layout.shared_bytes) == (1, 1, 0)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("option", OPTIONS)
def test_postings_with_tiles_and_little_room_change_nothing(
    name: str, option: str, cramped: None
) -> None:
    assert check_shape(name, OPTIONS[option]).n_tiles > 0


@pytest.mark.parametrize("name", ["plain", "unions", "negated", "several values", "objects"])
@pytest.mark.parametrize("few", [0, 1 << 30])
def test_rows_are_read_where_they_are_or_loaded_first(
    name: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = tuple({**constants, "FEW": few} for constants in tiles_gpu.VARIANTS)
    monkeypatch.setattr(tiles_gpu, "VARIANTS", variants)
    rng, shape = np.random.default_rng(5), SHAPES[name]
    filters, keys = filters_of(rng, 2500, shape), np.arange(2500)
    batch = batch_of(rng, 40, shape)
    for options in (PLAIN, OPTIONS["many matches"]):
        _, found, layout = on_both(filters, keys, batch, options)
        assert layout.n_tiles > 1
        assert lists(found) == expected(filters, keys, batch)


@pytest.mark.parametrize("dense", [0.0, np.inf])
def test_many_tiles_find_what_numpy_finds(dense: float) -> None:
    filters, batch = intervals_case(20_000, 150)
    _, found, layout = on_both(filters, np.arange(20_000), batch, tiles.Options(dense=dense))
    assert layout.n_tiles > 10
    assert lists(found) == matches_by_numpy(filters, batch)
    assert found.candidates < 100 * 20_000 / 20


def test_rows_of_a_tile_stay_within_the_memory_that_a_card_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    filters, batch = intervals_case(5000, 100)
    wanted = matches_by_numpy(filters, batch)
    _, found, roomy = on_both(filters, np.arange(5000), batch)
    assert lists(found) == wanted
    monkeypatch.setattr(_tiles_layout, "ROW_BYTES", 10_000)
    _, found, layout = on_both(filters, np.arange(5000), batch)
    assert layout.shared_bytes <= 10_000 < roomy.shared_bytes
    assert lists(found) == wanted
    monkeypatch.setattr(_tiles_layout, "ROW_BYTES", 0)
    _, found, layout = on_both(filters, np.arange(5000), batch)
    assert layout.shared_bytes == 0
    assert lists(found) == wanted


def test_a_launch_without_room_for_its_pairs_is_run_again(cramped: None) -> None:
    filters, keys, batch = case(0, "several values")
    table = tiles.compile(filters, keys, None, PLAIN)  # type: ignore[arg-type]
    space = tiles_gpu.workspace(table, PLAIN)
    parts = [tiles_gpu.match(table, batch, space, PLAIN) for _ in range(3)]
    assert lists(parts[0]) == expected(filters, keys, batch)
    assert space.room > tiles_gpu.ROOM
    for part in parts[1:]:  # the same order on every run, though warps finish in any order
        assert np.array_equal(part.keys, parts[0].keys)
        assert np.array_equal(part.event_start, parts[0].event_start)
        assert part.candidates == parts[0].candidates


@pytest.mark.parametrize("limit", ["MOST_PAIRS", "MOST_VISITS"])
def test_events_are_cut_where_there_are_too_many_pairs_or_visits(
    limit: str, cramped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = on_both(*case(2, "several values"))[1]
    monkeypatch.setattr(tiles_gpu, limit, 50)
    filters, keys, batch = case(2, "several values")
    cut = on_both(filters, keys, batch)[1]
    assert lists(cut) == expected(filters, keys, batch)
    assert cut.candidates == whole.candidates


def test_a_batch_may_begin_anywhere() -> None:
    filters, keys, batch = case(2, "objects")
    table = tiles.compile(filters, keys, None, PLAIN)  # type: ignore[arg-type]
    space = tiles_gpu.workspace(table, PLAIN)
    wanted = expected(filters, keys, batch)
    for first, last in [(0, 1), (0, 60), (1, 2), (7, 31), (5, 5), (59, 60)]:
        some = batch._replace(event_start=batch.event_start[first : last + 1])
        assert lists(tiles_gpu.match(table, some, space, PLAIN)) == wanted[first:last]


def test_a_value_that_an_event_has_often_is_matched_once() -> None:
    rows, none = np.arange(101), np.zeros(100, np.int32)
    codes = np.full(100, 7)
    filters = Filters(rows, rows, rows, none.astype(np.int16), none, codes, codes)
    batch = Batch(np.array([0, 100]), none, codes, none, none[:1], none[:1])
    some = batch._replace(codes=np.where(rows[1:] % 50 == 1, 7, 1000 + rows[1:]))  # far apart
    for n in (1, 100):  # one filter, of one key or of a hundred
        for one in (batch, some):
            found = on_both(filters.rows(0, n), np.arange(n), one)[1]
            assert lists(found) == [list(range(n))]


@pytest.mark.parametrize("base", [0, 1 << 40])
def test_keys_are_looked_up_where_filters_have_few(base: int) -> None:
    filters, batch = intervals_case(3000, 100)
    table = tiles.compile(filters, base + np.arange(3000), None, PLAIN)  # type: ignore[arg-type]
    space = tiles_gpu.workspace(table, PLAIN)
    assert space.keys.dtype == (np.int64 if base else np.int32)
    some = batch._replace(
        slots=np.where(np.arange(400) < 300, batch.slots, 9)
    )  # nothing at the end
    wanted = [[base + key for key in row] for row in matches_by_numpy(filters, batch)]
    part = tiles_gpu.match(table, some, space, PLAIN)
    assert lists(part) == wanted[:75] + [[]] * 25
    assert part.keys.dtype == np.int64
    table = table._replace(removed_keys=hash_set(np.array([base + 2])))
    space = tiles_gpu.workspace(table, PLAIN)
    assert space.keys is None
    wanted = [[key for key in row if key != base + 2] for row in wanted]
    assert lists(tiles_gpu.match(table, batch, space, PLAIN)) == wanted


def test_bounds_at_the_edge_of_32_bits() -> None:
    edge = 1 << 30
    ends = [(LOWEST, -edge), (-edge, edge), (edge, HIGHEST), (LOWEST, HIGHEST), (edge, edge)]
    rows, none = np.arange(6), np.zeros(5, np.int32)
    low, high = np.array(ends).T
    filters = Filters(rows, rows, rows, none.astype(np.int16), none, low.copy(), high.copy())
    codes = np.array([LOWEST, -(1 << 31), -edge, 0, edge, (1 << 31) - 1, 1 << 40, HIGHEST])
    nothing = np.zeros(8, np.int32)
    batch = Batch(np.arange(9), nothing, codes, nothing, nothing[:1], nothing[:1])
    assert lists(on_both(filters, np.arange(5), batch)[1]) == expected(filters, np.arange(5), batch)


def test_nothing_to_match_and_nothing_to_match_with() -> None:
    filters, keys, batch = case(1, "plain")
    nobody = Batch(*(array[:1] if i == 0 else array[:0] for i, array in enumerate(batch)))
    assert lists(on_both(filters, keys, nobody)[1]) == []
    nothing = filters.take(np.empty(0, np.int64))
    assert not any(lists(on_both(nothing, keys[:0], batch)[1]))
    bare = batch._replace(event_start=ragged(np.zeros(60, np.int64)))
    on_cpu, found, _ = on_both(filters, keys, bare)
    assert lists(found) == lists(on_cpu)


def test_removed_keys_are_left_out_and_the_layout_stays() -> None:
    filters, keys, batch = case(1, "interfaces")
    table = tiles.compile(filters, keys, None, PLAIN)  # type: ignore[arg-type]
    before = tiles_gpu.workspace(table, PLAIN).layout
    table = table._replace(removed_keys=hash_set(np.array([2])))
    space = tiles_gpu.workspace(table, PLAIN)
    wanted = [[key for key in row if key != 2] for row in expected(filters, keys, batch)]
    assert lists(tiles_gpu.match(table, batch, space, PLAIN)) == wanted
    assert space.layout is before


def test_a_layout_goes_with_its_table() -> None:
    filters, keys, batch = case(1, "plain")
    gc.collect()
    held = len(kept)
    table = tiles.compile(filters, keys, None, PLAIN)  # type: ignore[arg-type]
    space = tiles_gpu.workspace(table, PLAIN)
    assert len(kept) > held
    tiles_gpu.match(table, batch, space, PLAIN)
    del table
    gc.collect()
    assert len(kept) == held


@pytest.mark.parametrize("name", ["hem", "ccm", "json-eq", "json-range"])
def test_an_index_gives_what_it_gives_on_the_cpu(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles_gpu, "LAUNCH", 70)
    model = workload.generate(name, 10_000, 7, {})
    events, (conditions, keys) = model.events(200), model.subscriptions(0, 10_000)
    found = []
    for device in ("cpu", "gpu"):
        index = my.PredicateIndex("tiles", device=device)
        index.add_many(conditions, keys)
        index.consolidate()
        index.remove(int(keys[0])).consolidate()
        found.append(index.match(events))
    assert [sorted(row) for row in found[1]] == [sorted(row) for row in found[0]]
    assert found[1].work.matches == found[0].work.matches


def test_threads_do_not_disturb_each_other(cramped: None) -> None:
    filters, keys, batch = case(4, "several filters")
    table = tiles.compile(filters, keys, None, PLAIN)  # type: ignore[arg-type]
    wanted = expected(filters, keys, batch)

    def matched(_: int) -> Any:
        space = tiles_gpu.workspace(table, PLAIN)
        return [lists(tiles_gpu.match(table, batch, space, PLAIN)) for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        assert all(found == [wanted] * 5 for found in pool.map(matched, range(4)))
