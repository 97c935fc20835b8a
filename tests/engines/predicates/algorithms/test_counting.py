"""counting and sff: the filters that the exact check finds, whatever shape they have."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from matchyard.engines.predicates.algorithms.counting import counting
from matchyard.engines.predicates.algorithms.sff import sff
from matchyard.engines.predicates.algorithms.shared import counted_filters, exact_check
from matchyard.engines.predicates.encoder.layout import HIGHEST, LOWEST, Batch, Filters
from matchyard.kernels.csr import hash_set, ragged
from matchyard.kernels.strings import freeze

MODULES = [counting, sff]


class Shape(NamedTuple):
    """What random filters and events may have."""

    wide: int = 12  # codes are below this; in some tests far beyond 32 bits
    pieces: int = 1  # the most per constraint
    groups: int = 1
    per_row: int = 1  # the most filters of a predicate
    values: int = 1  # the most entries of a slot
    elements: bool = False
    n_keys: int = 1000
    scale: int = 1
    excludes: bool = True  # are there constraints that leave something out?
    far: bool = False  # are there values that differ from others only beyond 32 bits?


SHAPES = {
    "plain": Shape(),
    "intervals": Shape(excludes=False),
    "intervals of several values": Shape(excludes=False, values=3),
    "intervals in objects": Shape(excludes=False, values=2, elements=True),
    "equal intervals": Shape(excludes=False, wide=2, n_keys=5),
    "far values": Shape(far=True),
    "beyond 32 bits": Shape(scale=1 << 40),
    "unions": Shape(pieces=3),
    "negated": Shape(groups=3, pieces=2),
    "several filters": Shape(per_row=4, pieces=2),
    "several values": Shape(values=4, pieces=2),
    "same values": Shape(wide=3, values=4, pieces=2),
    "objects": Shape(values=4, pieces=2, groups=3, elements=True),
    "interfaces": Shape(values=2, pieces=3, groups=2, per_row=2, n_keys=4),
    "many intervals": Shape(wide=1000, values=2),
}
N_SLOTS = 6


def _piece(rng: np.random.Generator, shape: Shape) -> list[tuple[int, int]]:
    low, high = sorted(rng.integers(0, shape.wide, 2).tolist())
    choices = [[(low, low)], [(LOWEST, high)], [(low, HIGHEST)], [(low, high)]]
    choices += [[(LOWEST, low - 1), (low + 1, HIGHEST)], [(LOWEST, low - 1), (high + 1, HIGHEST)]]
    choices += [[(LOWEST, HIGHEST)]]
    share = [0.3, 0.15, 0.15, 0.2, 0.1, 0.05, 0.05]
    if not shape.excludes:
        share = [0.4, 0.2, 0.1, 0.25, 0.0, 0.0, 0.05]
    ends = choices[rng.choice(7, p=share)]
    return [(a if a == LOWEST else a * shape.scale, b if b == HIGHEST else b * shape.scale)
            for a, b in ends]  # fmt: skip


def filters_of(rng: np.random.Generator, n_rows: int, shape: Shape) -> Filters:
    rows, sizes, n_pieces, groups, pieces = [], [], [], [], []
    for _ in range(n_rows):
        rows.append(int(rng.integers(1, shape.per_row + 1)))
        for _ in range(rows[-1]):
            fewest = 0 if rng.random() < 0.1 else 1
            n_groups = int(rng.integers(1, shape.groups + 1))
            counts = [int(rng.integers(fewest, 4)), *rng.integers(1, 3, n_groups - 1).tolist()]
            sizes.append(sum(counts))
            for group, count in enumerate(counts):
                for _ in range(count):
                    wanted = int(rng.integers(1, shape.pieces + 1))
                    slots = sorted(rng.integers(0, N_SLOTS, wanted).tolist())
                    found = [(s, *ends) for s in slots for ends in _piece(rng, shape)]
                    groups.append(group)
                    n_pieces.append(len(found))
                    pieces += found
    columns = np.array(pieces, np.int64).reshape(-1, 3)
    return Filters(
        ragged(np.array(rows)), ragged(np.array(sizes)), ragged(np.array(n_pieces)),
        np.array(groups, np.int16), columns[:, 0].astype(np.int32),
        np.ascontiguousarray(columns[:, 1]), np.ascontiguousarray(columns[:, 2]),
    )  # fmt: skip


def batch_of(rng: np.random.Generator, n_events: int, shape: Shape) -> Batch:
    slots, codes, elements, counts = [], [], [], []
    for _ in range(n_events):
        chosen = np.flatnonzero(rng.random(N_SLOTS + 2) < 0.6)  # two that no filter asks for
        chosen = np.repeat(chosen, rng.integers(1, shape.values + 1, len(chosen)))
        counts.append(len(chosen))
        slots += chosen.tolist()
        codes += (rng.integers(-1, shape.wide + 1, len(chosen)) * shape.scale).tolist()
        if shape.far:
            codes[-1:] = [code + (1 << 32) for code in codes[-1:]]
        elements += (rng.integers(0, 7, len(chosen)) * shape.elements).tolist()
    # Two arrays of two elements; the second element of the first holds an array of two more.
    parents, arrays = [0, 0, 0, 0, 0, 2, 2], [0, 1, 1, 2, 2, 3, 3]
    return Batch(
        ragged(np.array(counts)), np.array(slots, np.int32), np.array(codes, np.int64),
        np.array(elements, np.int32), np.array(parents, np.int32), np.array(arrays, np.int32),
    )  # fmt: skip


def expected(filters: Filters, keys: Any, batch: Batch) -> list[list[int]]:
    first, found = exact_check.no_slots(N_SLOTS), []
    for event in range(batch.n_rows):
        has_elements = exact_check.enter(batch, event, first)
        holds = [
            exact_check.filter_holds(filters, number, batch, event, first, has_elements)
            for number in range(int(filters.row_start[-1]))
        ]
        exact_check.leave(batch, event, first)
        start = filters.row_start
        rows = [row for row in range(len(start) - 1) if any(holds[start[row] : start[row + 1]])]
        found.append(sorted(int(keys[row]) for row in rows))
    return found


def lists(part: Any) -> list[list[int]]:
    start = part.event_start
    return [sorted(part.keys[a:b].tolist()) for a, b in pairwise(start)]


def case(seed: int, name: str) -> tuple[Filters, Any, Batch]:
    rng, shape = np.random.default_rng(seed), SHAPES[name]
    filters = filters_of(rng, 150, shape)
    return filters, rng.integers(0, shape.n_keys, 150), batch_of(rng, 60, shape)


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("name", SHAPES)
def test_the_keys_are_those_of_the_exact_check(module: Any, name: str) -> None:
    for seed in range(6):
        filters, keys, batch = case(seed, name)
        table = freeze(module.compile(filters, keys, None, module.Options()))
        space = module.workspace(table, module.Options())
        wanted = expected(filters, keys, batch)
        assert any(wanted)
        for _ in range(2):  # counters of the first call mean nothing in the second
            assert lists(module.match(table, batch, space, module.Options())) == wanted


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("most", [1 << 16, 1])
def test_interfaces_are_found_once(name: str, most: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(sff, "MOST_INTERFACES", most)
    for seed in range(6):
        filters, keys, batch = case(seed, name)
        table = freeze(sff.compile(filters, keys, None, sff.Options()))  # type: ignore[arg-type]
        space = sff.workspace(table, sff.Options())
        part = sff.match_unique(table, batch, space, sff.Options())
        assert lists(part) == [sorted(set(row)) for row in expected(filters, keys, batch)]


def test_a_removed_key_marks_nothing() -> None:
    filters, keys, batch = case(1, "interfaces")
    table = freeze(sff.compile(filters, keys, None, sff.Options()))  # type: ignore[arg-type]
    table = table._replace(removed_keys=hash_set(np.array([2])))
    part = sff.match_unique(table, batch, sff.workspace(table, sff.Options()), sff.Options())
    wanted = [sorted(set(row) - {2}) for row in expected(filters, keys, batch)]
    assert lists(part) == wanted


def test_work_ends_when_all_interfaces_are_marked() -> None:
    everyone = np.arange(100_001)
    filters = Filters(
        everyone, everyone, everyone, np.zeros(100_000, np.int16), np.zeros(100_000, np.int32),
        np.arange(100_000), np.full(100_000, HIGHEST),
    )  # fmt: skip
    one = np.zeros(1, np.int32)
    batch = Batch(np.array([0, 1]), one, np.array([1 << 20]), one, one, one)
    table = freeze(sff.compile(filters, np.arange(100_000) % 10, None, sff.Options()))  # type: ignore[arg-type]
    space = sff.workspace(table, sff.Options())
    part = sff.match_unique(table, batch, space, sff.Options())
    assert (len(part.keys), part.candidates < 10_000) == (10, True)
    assert sff.match(table, batch, space, sff.Options()).candidates == 100_000


@pytest.mark.parametrize("module", MODULES)
def test_counters_are_reset_before_they_overflow(module: Any) -> None:
    filters, keys, batch = case(3, "several values")
    table = freeze(module.compile(filters, keys, None, module.Options()))
    space = module.workspace(table, module.Options())
    space.base[0] = np.iinfo(np.int32).max - 20
    space.counts[:] = space.base[0]
    assert lists(module.match(table, batch, space, module.Options())) == expected(
        filters, keys, batch
    )
    assert 0 < space.base[0] < 1000


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("name", SHAPES)
def test_a_table_gives_its_predicates_back(module: ModuleType, name: str) -> None:
    filters, keys, _ = case(2, name)
    table = freeze(module.compile(filters, keys, None, module.Options()))
    found = module.subscriptions(table, np.arange(len(table.key_start) - 1))
    again = module.compile(found, table.keys[table.key_start[:-1]], None, module.Options())
    assert all(np.array_equal(a, b) for a, b in zip(table[:6], again[:6], strict=True))


@pytest.mark.parametrize("module", MODULES)
def test_no_subscriptions_match_nothing(module: Any) -> None:
    filters, keys, batch = case(1, "plain")
    nothing = filters.take(np.empty(0, np.int64))
    table = freeze(module.compile(nothing, keys[:0], None, module.Options()))
    space = module.workspace(table, module.Options())
    assert not any(lists(module.match(table, batch, space, module.Options())))
    if module is sff:
        assert not any(lists(sff.match_unique(table, batch, space, sff.Options())))


@pytest.mark.parametrize("module", MODULES)
def test_no_constraint_is_lost_where_a_slot_has_more_than_a_step(module: Any) -> None:
    n_rows = 2 * counted_filters.STEP + 10
    start, low = np.arange(n_rows + 1), np.arange(n_rows)
    filters = Filters(
        start, start, start, np.zeros(n_rows, np.int16), np.zeros(n_rows, np.int32), low,
        np.full(n_rows, HIGHEST),
    )  # fmt: skip
    none = np.zeros(1, np.int32)
    batch = Batch(np.array([0, 1]), none, np.array([n_rows]), none, none, none)
    table = freeze(module.compile(filters, low, None, module.Options()))
    space = module.workspace(table, module.Options())
    assert lists(module.match(table, batch, space, module.Options())) == [low.tolist()]


def test_counting_evaluates_every_constraint_on_the_slots_of_the_event() -> None:
    filters, keys, batch = case(1, "plain")
    table = freeze(counting.compile(filters, keys, None, counting.Options()))  # type: ignore[arg-type]
    part = counting.match(
        table, batch, counting.workspace(table, counting.Options()), counting.Options()
    )
    per_slot = np.diff(table.entry_start)
    known = batch.slots[batch.slots < N_SLOTS]
    assert part.candidates == per_slot[known].sum()
    assert (
        part.candidates
        < counted_filters.entries(counted_filters.store(filters, keys)).slots.size * 60
    )
