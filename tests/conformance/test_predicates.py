"""Every algorithm of predicates gives what the definition of a match gives, with room and without."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import matchyard as my
from matchyard.engine import find_engine
from tests.cases import Case, build, counted, expected, int_keys, str_keys
from tests.conformance.test_changes import every_way, run
from tests.predicate_cases import (
    APPROXIMATE,
    CASES,
    EXACT,
    INTERVALS_ONLY,
    ONE_EACH,
    events,
    subscriptions,
)

LANGUAGE = find_engine("predicates").language
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_exact_case = pytest.mark.parametrize("case", EXACT, ids=lambda case: case.name)
one_each = pytest.mark.parametrize("case", ONE_EACH, ids=lambda case: case.algorithm)


def keyed(
    case: Case, data: st.DataObject, keys: st.SearchStrategy[Any] = int_keys
) -> tuple[list[Any], list[Any]]:
    """Some subscriptions that the algorithm takes, several of them equal, and keys."""
    rows = data.draw(st.lists(st.tuples(subscriptions(case), keys), max_size=12))
    if rows:
        again = st.tuples(st.sampled_from([row for row, _ in rows]), keys)
        rows += data.draw(st.lists(again, max_size=3))
    return [row for row, _ in rows], [key for _, key in rows]


def asked_of(case: Case, data: st.DataObject, most: int = 6) -> list[Any]:
    return data.draw(st.lists(events(case), max_size=most))


def index_of(case: Case, rows: Any, keys: Any = None, **more: Any) -> Any:
    return build(rows, keys, case.algorithm, case.options, "predicates", **more)


def want(rows: list[Any], keys: Any, asked: list[Any]) -> list[Counter[Any]]:
    return expected(rows, keys, asked, "predicates")


def test_no_algorithm_of_predicates_escapes_conformance() -> None:
    assert {case.algorithm for case in CASES} == set(find_engine("predicates").algorithms)
    assert set(APPROXIMATE) <= {case.algorithm for case in CASES}


@pytest.mark.stepped
@every_exact_case
@given(data=st.data(), as_text=st.booleans(), as_json=st.booleans())
def test_predicates_match_as_the_oracle_says(
    case: Case, data: st.DataObject, as_text: bool, as_json: bool
) -> None:
    rows, keys = keyed(case, data)
    asked = asked_of(case, data)
    given_rows = pa.array(map(LANGUAGE.format, rows), pa.string()) if as_text else rows
    given_events = [json.dumps(event).encode() for event in asked] if as_json else asked
    index = index_of(case, given_rows, np.array(keys, np.int64))
    found, wanted = index.match(given_events), want(rows, keys, asked)
    assert counted(found) == wanted
    assert found.work.matches == sum(map(Counter.total, wanted))
    unique = index.match_unique(given_events)
    assert [sorted(keys) for keys in unique] == [sorted(keys) for keys in wanted]
    assert len(index) == len(rows)


@pytest.mark.stepped
@every_case
@given(data=st.data())
def test_no_predicate_that_matches_is_missed(case: Case, data: st.DataObject) -> None:
    rows, keys = keyed(case, data)
    asked = asked_of(case, data)
    found = counted(index_of(case, rows, np.array(keys, np.int64)).match(asked))
    for here, wanted in zip(found, want(rows, keys, asked), strict=True):
        assert wanted <= here


@every_exact_case
@settings(max_examples=8)
@given(data=st.data())
def test_a_saved_index_of_predicates_is_the_same_when_opened(
    case: Case, quick_saves: None, data: st.DataObject
) -> None:
    rows, keys = keyed(case, data, str_keys)
    asked, more = asked_of(case, data), data.draw(subscriptions(case))
    index = index_of(case, rows, pa.array(keys, pa.string()), shard_size=9)
    with TemporaryDirectory() as folder:
        index.save(Path(folder, "an.index"))
        opened = my.open(Path(folder, "an.index"), verify=True, device=index.device)
        assert opened.match(asked).to_lists() == index.match(asked).to_lists()
        assert opened.match(asked).work == index.match(asked).work
        assert opened.info() == index.info()
        # And what can be done with it next is the same too.
        again = opened.add(more, "ada").remove("bob").consolidate()
        left = [(row, key) for row, key in zip(rows, keys, strict=True) if key != "bob"]
        left.append((more, "ada"))
        wanted = want([row for row, _ in left], [key for _, key in left], asked)
        assert counted(again.match(asked)) == wanted


@one_each
@settings(max_examples=10)
@given(data=st.data())
def test_two_threads_find_of_predicates_what_one_finds(
    case: Case, small_chunks: int, data: st.DataObject
) -> None:
    rows, keys = keyed(case, data)
    asked = asked_of(case, data, 12)
    index = index_of(case, rows, np.array(keys, np.int64))
    one, two = index.match(asked, threads=1), index.match(asked, threads=2)
    assert two.to_lists() == one.to_lists()
    assert two.work == one.work
    assert counted(two) == want(rows, keys, asked)


@one_each
@settings(max_examples=15)
@given(data=st.data(), gone=int_keys)
def test_shards_of_predicates_find_what_one_table_finds(
    case: Case, data: st.DataObject, gone: int
) -> None:
    rows, keys = keyed(case, data)
    asked = asked_of(case, data)
    index = index_of(case, rows, np.array(keys, np.int64), shard_size=3)
    assert index.info()["tables"] == max(1, -(-len(rows) // 3))
    assert counted(index.match(asked)) == want(rows, keys, asked)
    assert [sorted(keys) for keys in index.match_unique(asked)] == [
        sorted(keys) for keys in want(rows, keys, asked)
    ]
    index.remove(gone).consolidate()
    left = [(row, key) for row, key in zip(rows, keys, strict=True) if key != gone]
    wanted = want([row for row, _ in left], [key for _, key in left], asked)
    assert counted(index.match(asked)) == wanted


@every_way
@one_each
def test_any_order_of_changes_leaves_the_predicates_that_a_list_would_hold(
    case: Case, live: str, monkeypatch: pytest.MonkeyPatch, quick_saves: None
) -> None:
    chosen = {"subscriptions": subscriptions(case), "events": events(case)}
    run(live, monkeypatch, case=case, keys=str_keys if live == "live" else int_keys, **chosen)


@every_case
def test_an_empty_index_of_predicates_matches_nothing(case: Case) -> None:
    for index in (my.create("predicates", *case[:2]), index_of(case, [], [])):
        assert index.match([{"x": 1}, {}]).to_lists() == [[], []]
        assert index.match_unique([{"x": 1}]).to_lists() == [[]]
        assert index.match([{"x": 1}]).work == my.Work(0, 0)
        assert len(index) == 0


@every_case
def test_an_empty_batch_has_no_matching_predicates(case: Case) -> None:
    index = index_of(case, ["x > 1", "x > 1", "y <= 2"])
    for none in ([], (), np.array([], object), pa.array([], pa.string())):
        found = index.match(none)
        assert (len(found), found.to_lists(), found.work.matches) == (0, [], 0)


@pytest.mark.stepped
@every_exact_case
def test_equal_predicates_count_once_each(case: Case) -> None:
    rows = ["x > 1 and y <= 2", "y <= 2 and x > 1", "x >= 1"] * 3
    index = index_of(case, rows, [7, 8, 7] * 3)
    assert index.info()["distinct"] == 2
    assert sorted(index.match([{"x": 2, "y": 2}])[0]) == [7] * 6 + [8] * 3
    assert sorted(index.match_unique([{"x": 2, "y": 2}])[0]) == [7, 8]
    index.remove(7, "x > 1 and y <= 2").consolidate()
    assert sorted(index.match([{"x": 2, "y": 2}])[0]) == [7] * 3 + [8] * 3


@one_each
def test_many_random_intervals_match_as_numpy_says(case: Case) -> None:
    random = np.random.default_rng(5)
    low = random.integers(0, 100, (700, 3))
    high = low + random.integers(0, 60, (700, 3))
    rows = [
        " and ".join(f"{name} in [{a}, {b}]" for name, a, b in zip("xyz", *ends, strict=True))
        for ends in zip(low.tolist(), high.tolist(), strict=True)
    ]
    seen = random.integers(0, 160, (40, 3))
    index = index_of(case, rows)
    found = index.match([dict(zip("xyz", values, strict=True)) for values in seen.tolist()])
    wanted = (low <= seen[:, None]) & (seen[:, None] <= high)
    assert [sorted(keys) for keys in found] == [
        np.flatnonzero(row).tolist() for row in wanted.all(axis=2)
    ]


@pytest.mark.parametrize("algorithm", INTERVALS_ONLY)
@pytest.mark.parametrize("refused", ["x = 1 or y = 2", "not x = 1", "x != 1", "x in {1, 5}"])
def test_what_is_no_interval_is_refused_when_it_is_added(algorithm: str, refused: str) -> None:
    index = my.create("predicates", algorithm).add("x > 1", 1)
    with pytest.raises(my.UsageError, match=algorithm):
        index.add(refused, 2)
    with pytest.raises(my.UsageError, match=algorithm):
        index.add_many(["y = 1", refused], [3, 4])
    assert index.info()["staged"] == 1
    assert index.consolidate().match([{"x": 2, "y": 1}])[0] == [1]
