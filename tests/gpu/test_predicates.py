"""counting and tiles on a card, with other batches before, beside and after one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import matchyard as my
from matchyard.engines.predicates.encoder.layout import HIGHEST, LOWEST, Batch, Filters
from matchyard.gpu.lanes import Lane
from matchyard.kernels.csr import hash_set, ragged
from tests.engines.predicates.algorithms.test_counting import case, expected, lists
from tests.engines.predicates.algorithms.test_tiles import intervals_case, matches_by_numpy
from tests.gpu.predicates import COUNTING, TILES, Pair

pytest.importorskip("cupy")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.parametrize("pair", [COUNTING, TILES], ids=lambda pair: pair.name),
]


def test_a_launch_without_room_for_what_it_finds_is_run_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.cramp(monkeypatch)
    filters, keys, batch = case(0, "several values")
    table = pair.compile(filters, keys)
    space = pair.workspace(table)
    parts = [pair.match(table, batch, space) for _ in range(3)]
    assert lists(parts[0]) == expected(filters, keys, batch)
    assert space.room > pair.on_gpu.ROOM
    for part in parts[1:]:  # the same order on every run, though blocks finish in any order
        assert np.array_equal(part.keys, parts[0].keys)
        assert np.array_equal(part.event_start, parts[0].event_start)
        assert part.candidates == parts[0].candidates


@pytest.mark.parametrize("name", ["objects", "unions"])
def test_a_batch_may_begin_anywhere_and_means_nothing_to_the_next(pair: Pair, name: str) -> None:
    filters, keys, batch = case(2, name)
    table = pair.compile(filters, keys)
    space = pair.workspace(table)
    wanted = expected(filters, keys, batch)
    for first, last in [(0, 1), (0, 60), (1, 2), (7, 31), (5, 5), (59, 60)]:
        some = batch._replace(event_start=batch.event_start[first : last + 1])
        assert lists(pair.match(table, some, space)) == wanted[first:last]


def test_bounds_at_the_edge_of_32_bits(pair: Pair) -> None:
    edge = 1 << 30
    ends = [(LOWEST, -edge), (-edge, edge), (edge, HIGHEST), (LOWEST, HIGHEST), (edge, edge)]
    rows, none = np.arange(6), np.zeros(5, np.int32)
    low, high = np.array(ends).T
    filters = Filters(rows, rows, rows, none.astype(np.int16), none, low.copy(), high.copy())
    codes = np.array([LOWEST, -(1 << 31), -edge, 0, edge, (1 << 31) - 1, 1 << 40, HIGHEST])
    nothing = np.zeros(8, np.int32)
    batch = Batch(np.arange(9), nothing, codes, nothing, nothing[:1], nothing[:1])
    table = pair.compile(filters, np.arange(5))
    space = pair.workspace(table)
    assert getattr(space.layout, "low", table.low).dtype == np.int32
    assert lists(pair.match(table, batch, space)) == expected(filters, np.arange(5), batch)


def test_nothing_to_match_and_nothing_to_match_with(pair: Pair) -> None:
    filters, keys, batch = case(1, "plain")
    nobody = Batch(*(array[:1] if i == 0 else array[:0] for i, array in enumerate(batch)))
    assert lists(pair.on_both(filters, keys, nobody)[1]) == []
    nothing = filters.take(np.empty(0, np.int64))
    assert not any(lists(pair.on_both(nothing, keys[:0], batch)[1]))
    bare = batch._replace(event_start=ragged(np.zeros(60, np.int64)))
    on_cpu, found, _ = pair.on_both(filters, keys, bare)
    assert lists(found) == lists(on_cpu)


def test_removed_keys_are_left_out_and_the_layout_stays(pair: Pair) -> None:
    filters, keys, batch = case(1, "interfaces")
    table = pair.compile(filters, keys)
    before = pair.workspace(table).layout
    table = table._replace(removed_keys=hash_set(np.array([2])))
    space = pair.workspace(table)
    wanted = [[key for key in row if key != 2] for row in expected(filters, keys, batch)]
    assert lists(pair.match(table, batch, space)) == wanted
    assert space.layout is before


@pytest.mark.parametrize("is_cramped", [False, True])
def test_threads_do_not_disturb_each_other(
    pair: Pair, is_cramped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_cramped:
        pair.cramp(monkeypatch)
    filters, keys, batch = case(4, "several filters")
    table = pair.compile(filters, keys)
    wanted = expected(filters, keys, batch)

    def matched(_: int) -> Any:
        space = pair.workspace(table)
        return [lists(pair.match(table, batch, space)) for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        assert all(found == [wanted] * 5 for found in pool.map(matched, range(4)))


def test_events_without_memory_for_what_they_find_do_not_spoil_the_next_ones(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.cramp(monkeypatch)
    filters, batch = intervals_case(500, 60)
    table = pair.compile(filters, np.arange(500))
    space = pair.workspace(table)
    wanted, empty = matches_by_numpy(filters, batch), Lane.empty

    def scarce(lane: Lane, name: str, size: int, kind: Any) -> Any:
        if name == pair.found and size > pair.on_gpu.ROOM:
            raise my.DeviceError("no memory")
        return empty(lane, name, size, kind)

    with monkeypatch.context() as broken:
        broken.setattr(Lane, "empty", scarce)
        with pytest.raises(my.DeviceError, match="no memory"):
            pair.match(table, batch, space)
        bare = batch._replace(event_start=np.zeros(3, np.int64))
        assert lists(pair.match(table, bare, space)) == [[], []]
    assert lists(pair.match(table, batch, space)) == wanted
