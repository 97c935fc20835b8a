"""tiles on a card: the same keys as on the CPU, for all shapes of postings, tiles and launches."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from matchyard.engines.predicates import workload
from matchyard.engines.predicates.algorithms.tiles import gpu as tiles_gpu
from matchyard.engines.predicates.algorithms.tiles import gpu_layout, tiles
from matchyard.engines.predicates.encoder.layout import HIGHEST, Batch, Filters
from matchyard.gpu.resident import kept
from matchyard.kernels.csr import hash_set
from tests.engines.predicates.algorithms.test_counting import (
    SHAPES,
    batch_of,
    case,
    expected,
    filters_of,
    lists,
)
from tests.engines.predicates.algorithms.test_tiles import intervals_case, matches_by_numpy
from tests.gpu.predicates import TILES

pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu
OPTIONS = {
    "roomy": tiles.Options(),
    "one cell": tiles.Options(cells=1),
    "many cells": tiles.Options(cells=253),
    "many matches": tiles.Options(cells=3, dense=0.0),
    "scanned": tiles.Options(small=1 << 20),
}


@pytest.fixture(params=["few", "many"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "many":
        monkeypatch.setattr(tiles_gpu, "FEW_EVENTS", 0)


@pytest.fixture
def cramped(monkeypatch: pytest.MonkeyPatch) -> None:
    TILES.cramp(monkeypatch)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("option", OPTIONS)
def test_keys_are_those_of_the_cpu(name: str, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for few in (tiles_gpu.FEW_EVENTS, 0):
        monkeypatch.setattr(tiles_gpu, "FEW_EVENTS", few)
        layout = TILES.check_shape(name, OPTIONS[option])
        if option == "scanned":
            assert (layout.n_large, layout.n_tiles, layout.shared_bytes) == (1, 1, 0)


@pytest.mark.parametrize("name", ["plain", "objects"])
def test_much_for_few_events_is_found_the_way_of_many(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles_gpu, "FEW_PAIRS", 3)
    TILES.check_shape(name)
    filters, batch = intervals_case(500, 60)
    table = TILES.compile(filters, np.arange(500))
    space, wanted = TILES.workspace(table), matches_by_numpy(filters, batch)
    for first, last in (
        (0, 60),
        (0, 1),
        (1, 2),
        (3, 60),
    ):  # some have more than three, some have not
        some = batch._replace(event_start=batch.event_start[first : last + 1])
        assert lists(TILES.match(table, some, space)) == wanted[first:last]


def test_visits_to_more_postings_than_a_block_has_threads_are_added_up() -> None:
    n_values, n_filters = 2500, 70 * 2500  # each value has a posting with a tile
    numbers, pieces = np.arange(n_filters), np.arange(2 * n_filters + 1)
    values, none = numbers % n_values, np.zeros(2 * n_filters, np.int32)
    low, high = (
        np.stack([values, other], axis=1).ravel() for other in (none[::2], numbers // n_values)
    )
    slots = np.tile(np.array([0, 1], np.int32), n_filters)
    filters = Filters(
        np.arange(n_filters + 1), pieces[::2], pieces, none.astype(np.int16), slots, low, high
    )
    codes = np.arange(0, n_values, 7)
    n_events = len(codes)
    entries = np.stack([codes, np.full(n_events, 3)], axis=1).ravel()
    batch = Batch(
        2 * np.arange(n_events + 1), slots[: 2 * n_events], entries, none[: 2 * n_events],
        none[:1], none[:1],
    )  # fmt: skip
    on_cpu, found, layout = TILES.on_both(filters, numbers, batch)
    assert layout.n_large == n_values
    assert lists(found) == lists(on_cpu)
    assert lists(found)[-1] == list(range(3 * n_values + int(codes[-1]), n_filters, n_values))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("option", OPTIONS)
def test_postings_with_tiles_and_little_room_change_nothing(
    name: str, option: str, cramped: None
) -> None:
    assert TILES.check_shape(name, OPTIONS[option]).n_tiles > 0


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
    for options in (OPTIONS["roomy"], OPTIONS["many matches"]):
        _, found, layout = TILES.on_both(filters, keys, batch, options)
        assert layout.n_tiles > 1
        assert lists(found) == expected(filters, keys, batch)


@pytest.mark.parametrize("dense", [0.0, np.inf])
def test_many_tiles_find_what_numpy_finds(dense: float) -> None:
    filters, batch = intervals_case(20_000, 150)
    _, found, layout = TILES.on_both(filters, np.arange(20_000), batch, tiles.Options(dense=dense))
    assert layout.n_tiles > 10
    assert lists(found) == matches_by_numpy(filters, batch)
    assert found.candidates < 100 * 20_000 / 20


def test_rows_of_a_tile_stay_within_the_memory_that_a_card_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    filters, batch = intervals_case(5000, 100)
    wanted = matches_by_numpy(filters, batch)
    _, found, roomy = TILES.on_both(filters, np.arange(5000), batch)
    assert lists(found) == wanted
    monkeypatch.setattr(gpu_layout, "ROW_BYTES", 10_000)
    _, found, layout = TILES.on_both(filters, np.arange(5000), batch)
    assert layout.shared_bytes <= 10_000 < roomy.shared_bytes
    assert lists(found) == wanted
    monkeypatch.setattr(gpu_layout, "ROW_BYTES", 0)
    _, found, layout = TILES.on_both(filters, np.arange(5000), batch)
    assert layout.shared_bytes == 0
    assert lists(found) == wanted


@pytest.mark.parametrize("limit", ["MOST_PAIRS", "MOST_VISITS"])
def test_events_are_cut_where_there_are_too_many_pairs_or_visits(
    limit: str, cramped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = TILES.on_both(*case(2, "several values"))[1]
    monkeypatch.setattr(tiles_gpu, limit, 50)
    filters, keys, batch = case(2, "several values")
    cut = TILES.on_both(filters, keys, batch)[1]
    assert lists(cut) == expected(filters, keys, batch)
    assert cut.candidates == whole.candidates


def test_a_value_that_an_event_has_often_is_matched_once(either_way: None) -> None:
    rows, none = np.arange(101), np.zeros(100, np.int32)
    codes = np.full(100, 7)
    filters = Filters(rows, rows, rows, none.astype(np.int16), none, codes, codes)
    batch = Batch(np.array([0, 100]), none, codes, none, none[:1], none[:1])
    some = batch._replace(codes=np.where(rows[1:] % 50 == 1, 7, 1000 + rows[1:]))  # far apart
    for n in (1, 100):  # one filter, of one key or of a hundred
        for one in (batch, some):
            found = TILES.on_both(filters.rows(0, n), np.arange(n), one)[1]
            assert lists(found) == [list(range(n))]


def test_an_event_that_visits_a_posting_often_takes_no_place_of_another(either_way: None) -> None:
    n, constraints = 100, np.arange(201)
    rows, slots = constraints[: n + 1], np.tile(np.array([0, 1], np.int32), n)
    low = np.stack([np.full(n, 7), -rows[:n]], axis=1).ravel()  # x = 7 and y >= -i
    high = np.where(slots == 0, 7, HIGHEST)
    groups = np.zeros(2 * n, np.int16)
    filters = Filters(rows, constraints[::2], constraints, groups, slots, low, high)
    often = np.where(np.arange(400) % 50 == 0, 7, 1000 + np.arange(400))  # too far apart to be seen
    late = np.where(np.arange(400) == 399, 7, 2000 + np.arange(400))
    codes = np.concatenate([often, [0], late, [0]])
    names, none = (np.arange(802) % 401 == 400).astype(np.int32), np.zeros(802, np.int32)
    batch = Batch(np.array([0, 401, 802]), names, codes, none, none[:1], none[:1])
    _, found, layout = TILES.on_both(filters, np.arange(n), batch)
    assert layout.n_large == 1
    assert lists(found) == [list(range(n))] * 2


@pytest.mark.parametrize("base", [0, 1 << 40])
def test_keys_are_looked_up_where_filters_have_few(base: int, either_way: None) -> None:
    filters, batch = intervals_case(3000, 100)
    table = TILES.compile(filters, base + np.arange(3000))
    space = TILES.workspace(table)
    assert space.keys.dtype == (np.int64 if base else np.int32)
    some = batch._replace(
        slots=np.where(np.arange(400) < 300, batch.slots, 9)
    )  # nothing at the end
    wanted = [[base + key for key in row] for row in matches_by_numpy(filters, batch)]
    part = TILES.match(table, some, space)
    assert lists(part) == wanted[:75] + [[]] * 25
    assert part.keys.dtype == (np.int64 if tiles_gpu.FEW_EVENTS else space.keys.dtype)
    table = table._replace(removed_keys=hash_set(np.array([base + 2])))
    space = TILES.workspace(table)
    assert space.keys is None
    wanted = [[key for key in row if key != base + 2] for row in wanted]
    assert lists(TILES.match(table, batch, space)) == wanted


def test_a_layout_goes_with_its_table() -> None:
    filters, keys, batch = case(1, "plain")
    gc.collect()
    held = len(kept)
    table = TILES.compile(filters, keys)
    space = TILES.workspace(table)
    assert len(kept) > held
    TILES.match(table, batch, space)
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
    on_cpu, found = (
        TILES.found_by_index(conditions, keys, events, device) for device in ("cpu", "gpu")
    )
    assert [sorted(row) for row in found] == [sorted(row) for row in on_cpu]
    assert found.work.matches == on_cpu.work.matches
