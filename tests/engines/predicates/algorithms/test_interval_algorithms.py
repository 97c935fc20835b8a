"""hem, rein, ada_rein, tama and opindex find what a check of every filter finds."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import matchyard as my
from matchyard.engines.predicates.algorithms import ada_rein, hem, opindex, rein, tama
from matchyard.engines.predicates.algorithms.shared import intervals
from matchyard.engines.predicates.encoder.layout import HIGHEST, LOWEST, Filters
from matchyard.errors import UsageError
from tests.engines.predicates import interval_cases as cases

ALL = (hem, rein, ada_rein, tama, opindex)
CHANGING = (hem, rein, tama)
EXACT = [
    (hem, hem.Options()),
    (hem, hem.Options(n_cells=4, n_groups=2)),
    (hem, hem.Options(n_cells=5, n_groups=3)),
    (hem, hem.Options(n_cells=4, n_groups=1)),
    (hem, hem.Options(n_cells=1, n_groups=1)),
    (hem, hem.Options(n_cells=4, n_groups=0)),
    (rein, rein.Options()),
    (rein, rein.Options(n_cells=4)),
    (ada_rein, ada_rein.Options(false_positive_rate=0.0)),
    (tama, tama.Options()),
    (tama, tama.Options(n_levels=3)),
    (tama, tama.Options(n_levels=1)),
    (opindex, opindex.Options()),
    (opindex, opindex.Options(part=3)),
]


def name_of(value: Any) -> str | None:
    return value.__name__.rsplit(".", 1)[-1] if isinstance(value, ModuleType) else None


@pytest.mark.parametrize("size", [4, 50, 1 << 40, 1 << 61])
@pytest.mark.parametrize(("algorithm", "options"), EXACT, ids=name_of)
def test_all_find_what_a_check_of_every_filter_finds(
    algorithm: Any, options: Any, size: int
) -> None:
    rng = np.random.default_rng(size)
    for n_rows in (1, 7, 70, 300):
        subscriptions = cases.filters(cases.random_subscriptions(rng, n_rows, 4, size))
        keys = rng.integers(-1000, 1000, n_rows)
        events = cases.batch(cases.random_events(rng, 40, 4, size))
        table = algorithm.compile(subscriptions, keys, None, options)
        expected = [sorted(row) for row in cases.brute_force(subscriptions, keys, events)]
        assert cases.matches_of(algorithm, table, events, options) == expected


@pytest.mark.parametrize("algorithm", ALL, ids=name_of)
def test_no_subscriptions_and_no_events_are_fine(algorithm: Any) -> None:
    options = algorithm.Options()
    nobody = algorithm.compile(cases.filters([]), np.empty(0, np.int64), None, options)
    assert cases.matches_of(algorithm, nobody, cases.batch([[(0, 1)], []]), options) == [[], []]
    somebody = algorithm.compile(cases.filters([[(3, 1, 2)]]), np.array([5]), None, options)
    assert cases.matches_of(algorithm, somebody, cases.batch([]), options) == []


@pytest.mark.parametrize("algorithm", ALL, ids=name_of)
def test_a_filter_without_constraints_matches_every_event(algorithm: Any) -> None:
    options = algorithm.Options()
    table = algorithm.compile(
        cases.filters([[], [(0, 1, 2)], []]), np.array([7, 8, 9]), None, options
    )
    found = cases.matches_of(algorithm, table, cases.batch([[], [(0, 2)], [(0, 3)]]), options)
    assert found == [[7, 9], [7, 8, 9], [7, 9]]


@pytest.mark.parametrize("algorithm", ALL, ids=name_of)
def test_subscriptions_come_back_as_they_went_in(algorithm: Any) -> None:
    rng = np.random.default_rng(3)
    rows = cases.random_subscriptions(rng, 50, 5, 1000)
    table = algorithm.compile(cases.filters(rows), np.arange(50), None, algorithm.Options())
    n_rows = len(table.key_start) - 1
    back = algorithm.subscriptions(table, np.arange(n_rows))
    assert _same_rows(back, table, rows)


def _same_rows(back: Filters, table: Any, rows: list[list[cases.Interval]]) -> bool:
    for row in range(back.n_rows):
        pieces = slice(back.filter_start[row], back.filter_start[row + 1])
        found = list(zip(back.slots[pieces], back.low[pieces], back.high[pieces], strict=True))
        for key in table.keys[table.key_start[row] : table.key_start[row + 1]]:
            if found != sorted(rows[key]):
                return False
    return True


@pytest.mark.parametrize("size", [50, 1 << 50])
@pytest.mark.parametrize("options_number", [0, 1])
@pytest.mark.parametrize("algorithm", CHANGING, ids=name_of)
def test_insertions_and_removals_leave_what_a_new_table_has(
    algorithm: Any, options_number: int, size: int
) -> None:
    options = [each for module, each in EXACT if module is algorithm][options_number]
    rng = np.random.default_rng(size + 1)
    rows: dict[int, list[cases.Interval]] = {}
    table = algorithm.compile(cases.filters([]), np.empty(0, np.int64), None, options)
    next_key = 0
    for step in range(60):
        n_new = int(rng.choice([0, 1, 1, 2, 40]))
        n_slots = 2 if step < 20 else 4  # attributes and wide codes turn up late
        new = cases.random_subscriptions(rng, n_new, n_slots, 20 if step < 40 else size)
        keys = np.arange(next_key, next_key + n_new)
        next_key += n_new
        rows.update(zip(keys.tolist(), new, strict=True))
        table = algorithm.insert(table, cases.filters(new), keys, options)
        if step % 3 == 0 and rows:
            gone = _some_rows(rng, table, set(rows))
            for row in gone:
                for key in table.keys[table.key_start[row] : table.key_start[row + 1]]:
                    del rows[int(key)]
            table = algorithm.remove(table, gone, options)
        events = cases.batch(cases.random_events(rng, 10, 4, size))
        left = cases.filters(list(rows.values()))
        expected = cases.brute_force(left, np.array(list(rows), np.int64), events)
        assert cases.matches_of(algorithm, table, events, options) == [
            sorted(keys) for keys in expected
        ]


@pytest.mark.parametrize("algorithm", CHANGING, ids=name_of)
def test_insertions_past_the_bits_of_a_table_leave_all_rows(algorithm: Any) -> None:
    options, rng = algorithm.Options(), np.random.default_rng(8)
    rows = cases.random_subscriptions(rng, 600, 3, 50)
    keys = np.arange(600)
    table = algorithm.compile(cases.filters(rows[:300]), keys[:300], None, options)
    n_built = int(table.built[0])
    table = algorithm.insert(table, cases.filters(rows[300:]), keys[300:], options)
    assert len(table.filter_start) - 1 > 512  # more than a built table of that size has bits for
    assert table.built[0] == n_built  # and yet it was not built anew
    events = cases.batch(cases.random_events(rng, 20, 3, 50))
    expected = [sorted(row) for row in cases.brute_force(cases.filters(rows), keys, events)]
    assert cases.matches_of(algorithm, table, events, options) == expected


def _some_rows(rng: np.random.Generator, table: Any, alive: set[int]) -> np.ndarray[Any, Any]:
    living = [
        row
        for row in range(len(table.key_start) - 1)
        if int(table.keys[table.key_start[row]]) in alive
    ]
    return rng.choice(living, rng.integers(0, min(len(living), 12) + 1), replace=False)


@pytest.mark.parametrize("algorithm", CHANGING, ids=name_of)
def test_an_insertion_leaves_arrays_of_others_alone(algorithm: Any) -> None:
    keys = np.arange(10)
    options = algorithm.Options()
    table = algorithm.compile(cases.filters([[(0, 1, 9)], [(0, 2, 3)]]), keys[:2], None, options)
    for array in table:
        array.flags.writeable = False  # as an index that is mapped from a file
    table = algorithm.insert(table, cases.filters([[(0, 3, 4)]]), np.array([77]), options)
    table = algorithm.insert(table, cases.filters([[(0, 4, 5)]]), np.array([78]), options)
    assert keys.tolist() == list(range(10))
    found = cases.matches_of(algorithm, table, cases.batch([[(0, 3)], [(0, 4)]]), options)
    assert found == [[0, 1, 77], [0, 77, 78]]


def test_ada_rein_skips_what_rules_out_little_and_states_its_rate() -> None:
    rng = np.random.default_rng(5)
    rows = [[(0, low, low + 200), (1, 0, 990 + low % 10)] for low in rng.integers(0, 800, 2000)]
    subscriptions, keys = cases.filters([*rows, [(0, 0, 1000), (1, 0, 1000)]]), np.arange(2001)
    options = ada_rein.Options()
    table = ada_rein.compile(subscriptions, keys, None, options)
    assert table.is_skipped.tolist() == [False, True]
    assert 0 < ada_rein.stated_rate(table) <= 0.05
    events = cases.batch([[(0, int(a)), (1, int(b))] for a, b in rng.integers(0, 1001, (500, 2))])
    found = cases.matches_of(ada_rein, table, events, options)
    exact = cases.brute_force(subscriptions, keys, events)
    assert all(set(matches) <= set(more) for matches, more in zip(exact, found, strict=True))
    n_found, n_exact = sum(map(len, found)), sum(map(len, exact))
    assert 1 - n_exact / n_found == pytest.approx(ada_rein.stated_rate(table), abs=0.02)


def test_ada_rein_skips_nothing_that_would_cost_too_much() -> None:
    subscriptions, keys, _ = cases.hem_workload(1000, 1)
    table = ada_rein.compile(subscriptions, keys, None, ada_rein.Options())
    assert not table.is_skipped.any()
    assert ada_rein.stated_rate(table) == 0


ONE = cases.filters([[(0, 1, 2), (1, 3, HIGHEST)]])
REFUSED = {
    "a subscription of 2 filters": ONE._replace(
        row_start=np.array([0, 2]), filter_start=np.array([0, 1, 2])
    ),
    "a subscription of 0 filters": ONE._replace(row_start=np.array([0, 0])),
    "a negated constraint": ONE._replace(groups=np.array([0, 1], np.int16)),
    "a constraint of 2 intervals": ONE._replace(
        filter_start=np.array([0, 1]), piece_start=np.array([0, 2]), groups=np.zeros(1, np.int16)
    ),
    "two constraints on one attribute": cases.filters([[(0, LOWEST, 2), (0, 1, 2)]]),
}


@pytest.mark.parametrize("found", REFUSED)
@pytest.mark.parametrize("algorithm", ALL, ids=name_of)
def test_what_is_no_interval_is_refused_with_an_algorithm_that_takes_it(
    algorithm: Any, found: str
) -> None:
    assert intervals.supported(REFUSED[found]) == found
    assert algorithm.SUPPORTS == "intervals"
    with pytest.raises(UsageError, match=f"found {found}; `tiles` takes any predicate"):
        algorithm.compile(REFUSED[found], np.array([1]), None, algorithm.Options())


@pytest.mark.parametrize("algorithm", ALL, ids=name_of)
def test_events_with_arrays_are_refused_where_a_subscription_asks_for_them(algorithm: Any) -> None:
    options = algorithm.Options()
    table = algorithm.compile(ONE, np.array([1]), None, options)
    with pytest.raises(UsageError, match="one value per attribute and found an array in event 1"):
        cases.matches_of(algorithm, table, cases.batch([[], [(0, 1), (0, 2)]]), options)
    placed = cases.batch([[(0, 1)]])._replace(elements=np.ones(1, np.int32))
    with pytest.raises(UsageError, match="found an array in event 0"):
        cases.matches_of(algorithm, table, placed, options)
    unasked = cases.batch([[(0, 1), (1, 5), (4, 1), (4, 2)]])
    assert cases.matches_of(algorithm, table, unasked, options) == [[1]]


def test_an_event_with_an_array_is_counted_from_the_first_of_all() -> None:
    index = my.PredicateIndex("hem").add("x = 1", key=1).consolidate()
    events: list[Any] = [{"x": 1}] * 5000
    events[4500] = {"x": [1, 2]}
    for threads in (1, 2):
        with pytest.raises(UsageError, match="found an array in event 4500; `tiles` takes any"):
            index.match(events, threads)


@pytest.mark.parametrize("event", [{"x": [1, 2]}, {"x": [3, 4]}], ids=["match", "miss"])
@pytest.mark.parametrize("algorithm", ALL, ids=name_of)
def test_explain_refuses_arrays_as_match_does(algorithm: Any, event: Any) -> None:
    index = my.PredicateIndex(name_of(algorithm)).add("x = 1", key=1).consolidate()
    for ask in (lambda: index.match([event]), lambda: index.explain(event, 1)):
        with pytest.raises(UsageError, match="takes events with one value per attribute"):
            ask()


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        (rein, rein.Options(n_cells=0)),
        (ada_rein, ada_rein.Options(false_positive_rate=1.0)),
        (tama, tama.Options(n_levels=0)),
        (opindex, opindex.Options(part=0)),
    ],
    ids=name_of,
)
def test_options_that_make_no_sense_are_refused(algorithm: Any, options: Any) -> None:
    with pytest.raises(UsageError, match="must be"):
        algorithm.check(options)
