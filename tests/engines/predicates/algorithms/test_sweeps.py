"""tiles where many match: a sweep finds what the exact check does."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.tiles import sweep, tiles
from matchyard.engines.predicates.encoder.layout import HIGHEST, LOWEST, Batch, Filters
from matchyard.kernels.csr import ragged
from matchyard.kernels.strings import freeze
from tests.engines.predicates.algorithms.test_counting import (
    Shape,
    batch_of,
    expected,
    filters_of,
    lists,
)
from tests.engines.predicates.algorithms.test_tiles import intervals_case, matches_by_numpy


def test_a_tile_is_swept_where_many_match() -> None:
    filters, batch = intervals_case(20_000, 700)
    options = tiles.Options()
    table = freeze(tiles.compile(filters, np.arange(20_000), None, options))  # type: ignore[arg-type]
    assert len(table.tile_start)
    part = tiles.match(table, batch, tiles.workspace(table, options), options)
    assert part.candidates < len(part.keys) / 10
    few = options._replace(dense=np.inf)
    other = freeze(tiles.compile(filters, np.arange(20_000), None, few))  # type: ignore[arg-type]
    same = tiles.match(other, batch, tiles.workspace(other, few), few)
    assert lists(part) == lists(same)


@pytest.mark.parametrize("pieces", [1, 2])
def test_filters_that_need_one_code_are_looked_up_and_not_swept(pieces: int) -> None:
    """Sets of codes are filed with all others of their slot: for these a sweep is the quicker way."""
    n = 5000
    low = np.sort(np.random.default_rng(2).permutation(pieces * n).reshape(n, pieces) * 2).ravel()
    start, slots = np.arange(n + 1), np.zeros(pieces * n, np.int32)
    filters = Filters(start, start, pieces * start, np.zeros(n, np.int16), slots, low, low)
    options = tiles.Options()
    table = freeze(tiles.compile(filters, np.arange(n), None, options))  # type: ignore[arg-type]
    assert bool(len(table.tile_start)) == (pieces > 1)
    elements, none = np.zeros(40, np.int32), np.zeros(1, np.int32)
    batch = Batch(np.arange(41), slots[:40], np.arange(40), elements, none, none)
    part = tiles.match(table, batch, tiles.workspace(table, options), options)
    assert lists(part) == expected(filters, np.arange(n), batch)
    assert pieces > 1 or part.candidates == len(part.keys)


SWEPT = {
    "intervals": Shape(wide=50),
    "beyond 32 bits": Shape(wide=50, scale=1 << 40),
    "unions": Shape(wide=50, pieces=3),
    "several filters": Shape(wide=50, per_row=3),
    "several values": Shape(wide=50, values=4, pieces=2),
    "objects": Shape(wide=50, values=3, elements=True),
    "interfaces": Shape(wide=50, values=2, n_keys=4),
}


def _on_one_slot_each(filters: Filters) -> Filters:
    """The filters with all pieces of a constraint on its first slot, joined where they overlap."""
    counts, pieces = [], []
    for first, last in pairwise(filters.piece_start.tolist()):
        apart: list[list[int]] = []
        for low, high in sorted(
            zip(filters.low[first:last], filters.high[first:last], strict=True)
        ):
            if apart and low <= apart[-1][1]:
                apart[-1][1] = max(apart[-1][1], high)
            else:
                apart.append([low, high])
        counts.append(len(apart))
        pieces += [(filters.slots[first], *ends) for ends in apart]
    columns = np.array(pieces, np.int64).reshape(-1, 3)
    slots, low, high = columns[:, 0].astype(np.int32), columns[:, 1].copy(), columns[:, 2].copy()
    return filters._replace(piece_start=ragged(np.array(counts)), slots=slots, low=low, high=high)


@pytest.mark.parametrize("cells", [1, 3, 32])
@pytest.mark.parametrize("name", SWEPT)
def test_a_sweep_finds_what_the_exact_check_does(name: str, cells: int) -> None:
    rng, shape = np.random.default_rng(11), SWEPT[name]
    filters = _on_one_slot_each(filters_of(rng, 1200, shape))
    keys = rng.integers(0, shape.n_keys, 1200)
    options = tiles.Options(cells=cells, dense=1e-300)
    table: Any = freeze(tiles.compile(filters, keys, None, options))  # type: ignore[arg-type]
    assert len(table.tile_start) > 2
    space = tiles.workspace(table, options)
    for n_events in (1, 30, 2):  # few are fetched ahead
        batch = batch_of(rng, n_events, shape)
        wanted = expected(filters, keys, batch)
        assert lists(tiles.match(table, batch, space, options)) == wanted
        unique = tiles.match_unique(table, batch, space, options)
        assert lists(unique) == [sorted(set(row)) for row in wanted]


def test_a_sweep_takes_some_events_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    filters, batch = intervals_case(3000, 700)
    options = tiles.Options()
    table = freeze(tiles.compile(filters, np.arange(3000), None, options))  # type: ignore[arg-type]
    together = tiles.match(table, batch, tiles.workspace(table, options), options)
    monkeypatch.setattr(sweep, "_TOGETHER", 7)
    apart = tiles.match(table, batch, tiles.workspace(table, options), options)
    assert lists(apart) == lists(together)
    monkeypatch.setattr(sweep, "_MOST_BYTES", 1)
    alone = tiles.match(table, batch, tiles.workspace(table, options), options)
    assert lists(alone) == lists(together)


def _on_one_slot(slots: NDArray[np.int32]) -> Batch:
    """Events with three values each of the given slots, one after the other, and one without any."""
    codes = np.repeat([100, 5000, 9900], len(slots))
    size = np.array([1] * len(codes) + [0])
    elements, none = np.zeros(len(codes), np.int32), np.zeros(1, np.int32)
    return Batch(ragged(size), np.tile(slots, 3), codes, elements, none, none)


@pytest.mark.parametrize("together", [7, 512])
@pytest.mark.parametrize("per_slot", [1024, 1300])  # without and with tiles of two postings
def test_few_events_look_at_a_posting_of_their_own(
    per_slot: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filters on one slot of many each, and events that have one slot each, or none."""
    monkeypatch.setattr(sweep, "_TOGETHER", together)
    n = 6 * per_slot
    slots = np.repeat(np.arange(6, dtype=np.int32), per_slot)
    low = np.tile(np.random.default_rng(3).permutation(5000)[:per_slot], 6)
    start, no_groups = np.arange(n + 1), np.zeros(n, np.int16)
    filters = Filters(start, start, start, no_groups, slots, low, low + 5000)
    options = tiles.Options()
    table: Any = freeze(tiles.compile(filters, np.arange(n), None, options))  # type: ignore[arg-type]
    assert len(table.tile_start)
    assert (np.diff(table.posting_start)[1:] == per_slot).all()
    space = tiles.workspace(table, options)
    for some in (np.arange(6), np.array([1, 4]), np.empty(0, int)):  # fewer than the call before
        batch = _on_one_slot(some.astype(np.int32))
        found = tiles.match(table, batch, space, options)
        assert lists(found) == matches_by_numpy(filters, batch)


def test_a_tile_may_have_more_lists_than_all_before_it() -> None:
    """512 filters of one end each but for the last, and one with 55 constraints on each of 20
    slots."""
    n = 513
    slots = np.repeat(np.arange(21, dtype=np.int32), [512, *[55] * 20])
    low = np.concatenate([np.arange(511), [LOWEST], np.tile(np.arange(55), 20)])
    start, row_start = np.append(np.arange(n), len(slots)), np.arange(n + 1)
    no_groups, high = np.zeros(len(slots), np.int16), np.full(len(slots), HIGHEST)
    filters = Filters(row_start, start, np.arange(len(slots) + 1), no_groups, slots, low, high)
    options = tiles.Options(dense=0.0)
    table: Any = freeze(tiles.compile(filters, np.arange(n), None, options))  # type: ignore[arg-type]
    assert table.tile_start.tolist() == [0, 1, 1101]
    assert len(table.end_codes) == 511 + 1100
    elements, none = np.zeros(42, np.int32), np.zeros(1, np.int32)
    entries = np.tile(np.arange(21, dtype=np.int32), 2)
    codes = np.array([100, *[54] * 19, 53, 100, *[54] * 20])
    batch = Batch(np.array([0, 21, 42]), entries, codes, elements, none, none)
    found = lists(tiles.match(table, batch, tiles.workspace(table, options), options))
    assert found == [[*range(101), 511], [*range(101), 511, 512]]


@pytest.mark.parametrize(("second", "code"), [(5, 7), (9, 9)])
def test_pieces_that_overlap_are_not_swept(second: int, code: int) -> None:
    """A bit that two of them flip would be as it was."""
    low, high = np.array([0, second]), np.array([9, 20])
    start, no_groups = np.array([0, 1]), np.zeros(1, np.int16)
    slots = np.zeros(2, np.int32)
    filters = Filters(start, start, np.array([0, 2]), no_groups, slots, low, high)
    elements, none = np.zeros(1, np.int32), np.zeros(1, np.int32)
    batch = Batch(start, slots[:1], np.array([code]), elements, none, none)
    options = tiles.Options(dense=0.0)
    table: Any = freeze(tiles.compile(filters, np.array([3]), None, options))  # type: ignore[arg-type]
    assert lists(tiles.match(table, batch, tiles.workspace(table, options), options)) == [[3]]


@pytest.mark.parametrize("n_on_slot", [64, 65])
def test_a_filter_with_very_many_constraints_on_a_slot_is_not_swept(n_on_slot: int) -> None:
    """Its lists would have rows for all filters of the tile."""
    sizes = np.array([1] * 9 + [n_on_slot])
    n = int(sizes.sum())
    low, slots = np.arange(n), np.zeros(n, np.int32)
    start, no_groups = np.arange(n + 1), np.zeros(n, np.int16)
    filters = Filters(np.arange(11), ragged(sizes), start, no_groups, slots, low, low + 100)
    elements, none = np.zeros(3, np.int32), np.zeros(1, np.int32)
    batch = Batch(np.arange(4), slots[:3], np.array([5, 80, 105]), elements, none, none)
    options = tiles.Options()
    table: Any = freeze(tiles.compile(filters, np.arange(10), None, options))  # type: ignore[arg-type]
    assert bool(len(table.tile_start)) == (n_on_slot == 64)
    found = tiles.match(table, batch, tiles.workspace(table, options), options)
    assert lists(found) == expected(filters, np.arange(10), batch)
