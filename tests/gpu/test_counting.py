"""counting on a GPU: the keys and the work of the CPU, whatever the shape of tiles and launches."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import matchyard as my
from matchyard.device import Lane
from matchyard.engines.predicates import workload
from matchyard.engines.predicates._coded import HIGHEST, LOWEST, Batch, Filters
from matchyard.engines.predicates.algorithms import _counting_layout, counting, counting_gpu
from matchyard.kept import kept
from matchyard.kernels.csr import hash_set, ragged
from tests.engines.predicates.test_counting import SHAPES, case, expected, lists

pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu
PLAIN = counting.Options()


def on_both(
    filters: Filters, keys: Any, batch: Batch, options: Any = PLAIN
) -> tuple[Any, Any, Any]:
    """What CPU and GPU find, and the layout that the latter had."""
    table = counting.compile(filters, keys, None, options)  # type: ignore[arg-type]
    space = counting_gpu.workspace(table, options)
    on_cpu = counting.match(table, batch, counting.workspace(table, options), options)
    return on_cpu, counting_gpu.match(table, batch, space, options), space.layout


@pytest.fixture
def cramped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 32 filters, each of them matched by three blocks at most, and room for a few hits."""
    monkeypatch.setattr(_counting_layout, "COUNTER_BYTES", 16)
    monkeypatch.setattr(counting_gpu, "BLOCKS", 15)
    monkeypatch.setattr(counting_gpu, "ROOM", 3)


def check_shape(name: str, options: Any) -> Any:
    for seed in range(3):
        filters, keys, batch = case(seed, name)
        on_cpu, found, layout = on_both(filters, keys, batch, options)
        assert lists(found) == lists(on_cpu) == expected(filters, keys, batch)
        assert found.candidates == on_cpu.candidates
    return layout


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("ordered", [False, True])
def test_keys_and_candidates_are_those_of_the_cpu(name: str, ordered: bool) -> None:
    assert check_shape(name, counting.Options(ordered)).n_tiles == 1


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("ordered", [False, True])
def test_a_cut_into_many_tiles_changes_nothing(name: str, ordered: bool, cramped: None) -> None:
    layout = check_shape(name, counting.Options(ordered))
    assert (layout.tile_filters, layout.n_tiles > 3) == (32, True)


def test_a_launch_without_room_for_its_hits_is_run_again(cramped: None) -> None:
    filters, keys, batch = case(0, "several values")
    table = counting.compile(filters, keys, None, PLAIN)  # type: ignore[arg-type]
    space = counting_gpu.workspace(table, PLAIN)
    parts = [counting_gpu.match(table, batch, space, PLAIN) for _ in range(3)]
    assert lists(parts[0]) == expected(filters, keys, batch)
    assert space.room > counting_gpu.ROOM
    for part in parts[1:]:  # the same order on every run, though blocks finish in any order
        assert np.array_equal(part.keys, parts[0].keys)
        assert np.array_equal(part.event_start, parts[0].event_start)


def test_events_are_cut_where_there_are_many_tiles(
    cramped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting_gpu, "CELLS", 100)
    check_shape("several values", PLAIN)


def test_counts_of_one_launch_mean_nothing_in_the_next() -> None:
    filters, keys, batch = case(2, "unions")
    table = counting.compile(filters, keys, None, PLAIN)  # type: ignore[arg-type]
    space = counting_gpu.workspace(table, PLAIN)
    wanted = expected(filters, keys, batch)
    for first, last in [(0, 1), (0, 60), (1, 2), (7, 31), (5, 5), (59, 60)]:
        some = batch._replace(event_start=batch.event_start[first : last + 1])
        assert lists(counting_gpu.match(table, some, space, PLAIN)) == wanted[first:last]


def filters_of_size(size: int, n_filters: int) -> tuple[Filters, Batch]:
    """Filters of so many constraints, all on one slot, the last of which is harder in each filter;
    and events that satisfy none, those of no filter, of the first one, and of all."""
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
    on_cpu, found, layout = on_both(filters, np.arange(3), batch)
    assert lists(found) == lists(on_cpu) == [[], [], [0], [0, 1, 2]]
    assert layout.counter_bits == bits
    assert found.candidates == on_cpu.candidates


def test_tiles_are_smaller_where_there_are_many_unions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_counting_layout, "STAMP_BYTES", 8)
    filters, keys, batch = case(1, "unions")
    _, found, layout = on_both(filters, keys, batch)
    assert layout.tile_filters < 150
    assert lists(found) == expected(filters, keys, batch)


def test_what_fits_into_no_tile_is_matched_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_counting_layout, "STAMP_BYTES", 0)
    filters, keys, batch = case(1, "unions")
    on_cpu, found, layout = on_both(filters, keys, batch)
    assert layout is None
    assert lists(found) == expected(filters, keys, batch)
    assert found.candidates == on_cpu.candidates


def test_bounds_at_the_edge_of_32_bits() -> None:
    edge = 1 << 30
    ends = [(LOWEST, -edge), (-edge, edge), (edge, HIGHEST), (LOWEST, HIGHEST)]
    rows, none = np.arange(5), np.zeros(4, np.int32)
    low, high = np.array(ends).T
    filters = Filters(rows, rows, rows, none.astype(np.int16), none, low.copy(), high.copy())
    codes = np.array([LOWEST, -(1 << 31), -edge, 0, edge, (1 << 31) - 1, 1 << 40, HIGHEST])
    nothing = np.zeros(8, np.int32)
    batch = Batch(np.arange(9), nothing, codes, nothing, nothing[:1], nothing[:1])
    _, found, layout = on_both(filters, np.arange(4), batch)
    assert layout.low.dtype == np.int32
    assert lists(found) == expected(filters, np.arange(4), batch)


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
    table = counting.compile(filters, keys, None, PLAIN)  # type: ignore[arg-type]
    before = counting_gpu.workspace(table, PLAIN).layout
    table = table._replace(removed_keys=hash_set(np.array([2])))
    space = counting_gpu.workspace(table, PLAIN)
    wanted = [[key for key in row if key != 2] for row in expected(filters, keys, batch)]
    assert lists(counting_gpu.match(table, batch, space, PLAIN)) == wanted
    assert space.layout is before


def test_an_index_that_leaves_the_card_leaves_nothing_there() -> None:
    index = my.PredicateIndex("counting", device="gpu").add("x > 1", 1).consolidate()
    held = len(kept)
    assert index.match([{"x": 2}])[0] == [1]
    assert len(kept) > held
    assert index.move("cpu").match([{"x": 2}])[0] == [1]
    assert len(kept) == held


def test_a_layout_goes_with_its_table() -> None:
    filters, keys, batch = case(1, "plain")
    held = len(kept)
    table = counting.compile(filters, keys, None, PLAIN)  # type: ignore[arg-type]
    space = counting_gpu.workspace(table, PLAIN)
    assert len(kept) > held
    counting_gpu.match(table, batch, space, PLAIN)
    del table, space
    gc.collect()
    assert len(kept) == held


@pytest.mark.parametrize("name", ["ccm", "ccm-zipf"])
def test_an_index_gives_what_it_gives_on_the_cpu(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_counting_layout, "COUNTER_BYTES", 512)
    monkeypatch.setattr(counting_gpu, "LAUNCH", 300)
    model = workload.generate(name, 20_000, 7, {"names": 30})
    events, (conditions, keys) = model.events(1000), model.subscriptions(0, 20_000)
    found = []
    for device, options in [("cpu", {}), ("gpu", {}), ("gpu", {"ordered": True})]:
        index = my.PredicateIndex("counting", device=device, options=options)
        index.add_many(conditions, keys)
        index.consolidate()
        index.remove(int(keys[0])).consolidate()
        found.append(index.match(events))
    assert found[0].work.matches > 0
    for other in found[1:]:
        assert [sorted(row) for row in other] == [sorted(row) for row in found[0]]
        assert other.work == found[0].work


def test_threads_do_not_disturb_each_other() -> None:
    filters, keys, batch = case(4, "several filters")
    table = counting.compile(filters, keys, None, PLAIN)  # type: ignore[arg-type]
    wanted = expected(filters, keys, batch)

    def matched(_: int) -> Any:
        space = counting_gpu.workspace(table, PLAIN)
        return [lists(counting_gpu.match(table, batch, space, PLAIN)) for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        assert all(found == [wanted] * 5 for found in pool.map(matched, range(4)))


def test_events_without_memory_for_their_hits_do_not_spoil_the_next_ones(
    cramped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    filters, batch = filters_of_size(2, 9)
    keys = np.arange(9)
    table = counting.compile(filters, keys, None, PLAIN)  # type: ignore[arg-type]
    space = counting_gpu.workspace(table, PLAIN)
    wanted, empty = expected(filters, keys, batch), Lane.empty

    def scarce(lane: Lane, name: str, size: int, kind: Any) -> Any:
        if name == "hits" and size > counting_gpu.ROOM:
            raise my.DeviceError("no memory")
        return empty(lane, name, size, kind)

    monkeypatch.setattr(Lane, "empty", scarce)
    with pytest.raises(my.DeviceError, match="no memory"):
        counting_gpu.match(table, batch, space, PLAIN)
    bare = batch._replace(event_start=np.zeros(3, np.int64))
    assert lists(counting_gpu.match(table, bare, space, PLAIN)) == [[], []]
    monkeypatch.undo()
    assert lists(counting_gpu.match(table, batch, space, PLAIN)) == wanted
