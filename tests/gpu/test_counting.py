"""counting on a card: the same keys and work as on the CPU, for any shape of tiles and launches."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import matchyard as my
from matchyard.engines.predicates import workload
from matchyard.engines.predicates.algorithms.counting import counting, gpu_layout
from matchyard.engines.predicates.algorithms.counting import gpu as counting_gpu
from matchyard.engines.predicates.encoder.layout import HIGHEST, Batch, Filters
from matchyard.gpu.resident import kept
from matchyard.kernels.csr import hash_set
from tests.engines.predicates.algorithms.test_counting import SHAPES, case, expected, lists
from tests.engines.predicates.algorithms.test_tiles import intervals_case, matches_by_numpy
from tests.gpu.predicates import COUNTING

pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu


@pytest.fixture
def cramped(monkeypatch: pytest.MonkeyPatch) -> None:
    COUNTING.cramp(monkeypatch)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("ordered", [False, True])
def test_keys_and_candidates_are_those_of_the_cpu(name: str, ordered: bool) -> None:
    assert COUNTING.check_shape(name, counting.Options(ordered)).n_tiles == 1


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("ordered", [False, True])
def test_a_cut_into_many_tiles_changes_nothing(name: str, ordered: bool, cramped: None) -> None:
    layout = COUNTING.check_shape(name, counting.Options(ordered))
    assert (layout.tile_filters, layout.n_tiles > 3) == (32, True)


def test_events_are_cut_where_there_are_many_tiles(
    cramped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting_gpu, "CELLS", 100)
    COUNTING.check_shape("several values")


def filters_of_size(size: int, n_filters: int) -> tuple[Filters, Batch]:
    """Filters of `size` constraints on one slot, each with a stricter last constraint; and events
    that satisfy no constraint, too few, those of the first filter, and those of all filters."""
    low = np.tile(np.arange(size), n_filters)
    is_last = np.tile(np.arange(size) == size - 1, n_filters)
    start = np.arange(size * n_filters + 1)
    rows = np.arange(n_filters + 1)
    low[is_last] += np.arange(n_filters)
    filters = Filters(
        rows, rows * size, start, np.zeros(len(low), np.int16), np.zeros(len(low), np.int32), low,
        np.full(len(low), HIGHEST),
    )  # fmt: skip
    codes = np.array([-1, size - 2, size - 1, size + n_filters])
    none = np.zeros(4, np.int32)
    return filters, Batch(np.arange(5), none, codes, none, none[:1], none[:1])


@pytest.mark.parametrize(
    ("size", "bits"), [(15, 4), (16, 8), (255, 8), (256, 16), (65535, 16), (65536, 32)]
)
def test_counters_hold_the_largest_filter(size: int, bits: int) -> None:
    filters, batch = filters_of_size(size, 3)
    on_cpu, found, layout = COUNTING.on_both(filters, np.arange(3), batch)
    assert lists(found) == lists(on_cpu) == [[], [], [0], [0, 1, 2]]
    assert layout.counter_bits == bits
    assert found.candidates == on_cpu.candidates


def test_tiles_are_smaller_where_there_are_many_unions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_layout, "STAMP_BYTES", 8)
    filters, keys, batch = case(1, "unions")
    _, found, layout = COUNTING.on_both(filters, keys, batch)
    assert layout.tile_filters < 150
    assert lists(found) == expected(filters, keys, batch)


def test_what_fits_into_no_tile_is_matched_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_layout, "STAMP_BYTES", 0)
    filters, keys, batch = case(1, "unions")
    on_cpu, found, layout = COUNTING.on_both(filters, keys, batch)
    assert layout is None
    assert lists(found) == expected(filters, keys, batch)
    assert found.candidates == on_cpu.candidates


@pytest.mark.parametrize("most", [1, 8, 9])
@pytest.mark.parametrize("base", [0, 1 << 40])
def test_keys_are_looked_up_where_filters_have_few(base: int, most: int, cramped: None) -> None:
    filters, batch = intervals_case(300, 100)
    filters = filters.take(np.repeat(np.arange(300), np.arange(300) % most + 1))
    table = COUNTING.compile(filters, base + np.arange(filters.n_rows))
    some = batch._replace(
        slots=np.where(np.arange(400) < 300, batch.slots, 9)
    )  # nothing at the end
    wanted = [[base + key for key in row] for row in matches_by_numpy(filters, batch)]
    space = COUNTING.workspace(table)
    parts = [COUNTING.match(table, some, space) for _ in range(2)]
    for part in parts:
        assert lists(part) == wanted[:75] + [[]] * 25
        assert part.keys.dtype == (np.int64 if base or most > counting_gpu.MOST_KEYS else np.int32)
    table = table._replace(removed_keys=hash_set(np.array([base + 2])))
    wanted = [[key for key in row if key != base + 2] for row in wanted]
    assert lists(COUNTING.match(table, batch, COUNTING.workspace(table))) == wanted


def test_an_index_that_leaves_the_card_leaves_nothing_there() -> None:
    index = my.PredicateIndex("counting", device="gpu").add("x > 1", 1).consolidate()
    held = len(kept)
    assert index.match([{"x": 2}])[0] == [1]
    assert len(kept) > held
    assert index.move("cpu").match([{"x": 2}])[0] == [1]
    assert len(kept) == held


def test_a_layout_goes_with_its_table() -> None:
    filters, keys, batch = case(1, "plain")
    gc.collect()
    held = len(kept)
    table = COUNTING.compile(filters, keys)
    space = COUNTING.workspace(table)
    assert len(kept) > held
    COUNTING.match(table, batch, space)
    del table, space
    gc.collect()
    assert len(kept) == held


@pytest.mark.parametrize("name", ["ccm", "ccm-zipf"])
def test_an_index_gives_what_it_gives_on_the_cpu(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_layout, "COUNTER_BYTES", 512)
    monkeypatch.setattr(counting_gpu, "LAUNCH", 300)
    monkeypatch.setattr(counting_gpu, "FEW_HITS", 100)
    model = workload.generate(name, 20_000, 7, {"names": 30})
    events, (conditions, keys) = model.events(1000), model.subscriptions(0, 20_000)
    on_cpu = COUNTING.found_by_index(conditions, keys, events, "cpu")
    assert on_cpu.work.matches > 0
    for ordered in (False, True):
        found = COUNTING.found_by_index(conditions, keys, events, "gpu", {"ordered": ordered})
        assert [sorted(row) for row in found] == [sorted(row) for row in on_cpu]
        assert found.work == on_cpu.work
