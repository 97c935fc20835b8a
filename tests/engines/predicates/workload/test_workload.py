"""Workloads: the same rows however they are cut, with the parameters of the papers' tables."""

from __future__ import annotations

import json
import os
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.shared.judge import Judge

import matchyard as my
from matchyard.engines.predicates.language import parse
from matchyard.engines.predicates.workload import MODELS, generate
from matchyard.engines.predicates.workload.generated import words_of

GENERATED = ["hem", "ccm", "ccm-zipf", "json-eq", "json-range"]
needs_data = pytest.mark.skipif("MATCHYARD_DATA" not in os.environ, reason="needs MATCHYARD_DATA")
RECORDED = [pytest.param(n, marks=[pytest.mark.data, needs_data]) for n in ("kdd", "sigma")]


def rows_of(work: Any, start: int, stop: int) -> list[Any]:
    rows: list[Any] = work.subscriptions(start, stop)[0].to_pylist()
    return rows


@pytest.mark.parametrize("name", [*GENERATED, *RECORDED])
def test_rows_are_the_same_in_any_chunking(name: str) -> None:
    work = generate(name, size=1000, seed=5)
    column, keys = work.subscriptions(0, 1000)
    pieces = list(generate(name, size=1000, seed=5).chunks(333))
    assert [row for piece, _ in pieces for row in piece.to_pylist()] == column.to_pylist()
    assert np.concatenate([some for _, some in pieces]).tolist() == keys.tolist()
    assert work.events(40, start=17).to_pylist() == work.events(100).to_pylist()[17:57]
    assert work.events_as_dicts(40, start=17) == work.events_as_dicts(100)[17:57]


@pytest.mark.parametrize("name", GENERATED)
def test_seeds_make_different_rows_and_events(name: str) -> None:
    one, two = (generate(name, size=1000, seed=seed) for seed in (1, 2))
    assert rows_of(one, 0, 50) != rows_of(two, 0, 50)
    assert one.events_as_dicts(50) != two.events_as_dicts(50)


@pytest.mark.parametrize(
    ("d", "event_size", "subscription_size", "width", "alpha"),
    [(20, 20, 10, 0.3, 0), (900, 80, 30, 0.9, 0), (30, 20, 5, 0.1, 5), (20, 20, 20, 0.2, 1)],
)
def test_hem_has_the_parameters_of_table_2(
    d: int, event_size: int, subscription_size: int, width: float, alpha: float
) -> None:
    parameters = {
        "attributes": d, "event_size": event_size, "subscription_size": subscription_size,
        "width": width, "alpha": float(alpha),
    }  # fmt: skip
    work = generate("hem", size=300, parameters=parameters)
    for row in rows_of(work, 0, 300):
        assert len({one["name"] for one in row}) == len(row) == subscription_size
        assert {one["high"] - one["value"] for one in row} == {round(width * 1_000_000)}
        assert all(one["value"] >= 1 and one["high"] <= 1_000_000 for one in row)
        assert {one["op"] for one in row} == {"between"}
    events = work.events_as_dicts(100)
    assert {len(event) for event in events} == {event_size}
    assert all(1 <= value <= 1_000_000 for event in events for value in event.values())


def test_hem_prefers_the_first_attributes_where_alpha_says_so() -> None:
    work = generate("hem", 2000, parameters={"alpha": 1.0, "subscription_size": 1})
    names = [row[0]["name"] for row in rows_of(work, 0, 2000)]
    harmonic = sum(1 / rank for rank in range(1, 21))
    assert names.count("a0") / 2000 == pytest.approx(1 / harmonic, abs=0.03)
    assert names.count("a1") / 2000 == pytest.approx(0.5 / harmonic, abs=0.03)


def test_ccm_has_the_parameters_of_table_1() -> None:
    work = generate("ccm", size=250_000)
    column, keys = work.subscriptions(0, 250_000)
    per_interface = np.bincount(keys)
    assert len(per_interface) == 10
    assert 21_500 < per_interface.min() < per_interface.max() < 28_500
    lengths = np.diff(column.offsets.to_numpy())
    assert (lengths.min(), lengths.max()) == (3, 5)
    assert lengths.mean() == pytest.approx(4, abs=0.01)
    rows = [one for row in column[:5000].to_pylist() for one in row]
    is_number = np.array([one["text"] is None for one in rows])
    assert is_number.mean() == pytest.approx(0.5, abs=0.02)
    assert len({one["name"] for one in rows}) == 100
    for ops, chosen in (("= != > <", is_number), ("= != contains prefix", ~is_number)):
        found = [one["op"] for one, is_chosen in zip(rows, chosen, strict=True) if is_chosen]
        assert set(found) == set(ops.split())
        assert all(
            found.count(op) / len(found) == pytest.approx(0.25, abs=0.02) for op in set(found)
        )
    assert {one["value"] for one in rows if one["text"] is None} == set(range(100))
    events = work.events_as_dicts(2000)
    assert {len(event) for event in events} == {3, 4, 5}
    assert [json.loads(text) for text in work.events(9).to_pylist()] == events[:9]


def test_ccm_parameters_can_be_set() -> None:
    parameters = {
        "interfaces": 3, "fewest_constraints": 1, "most_constraints": 2, "names": 7, "values": 4,
        "numeric": 0.0, "text_operators": (0.0, 0.0, 0.0, 1.0), "fewest_attributes": 6,
        "most_attributes": 7,
    }  # fmt: skip
    work = generate("ccm", 500, 1, parameters)
    rows = rows_of(work, 0, 500)
    assert {len(row) for row in rows} == {1, 2}
    assert {one["op"] for row in rows for one in row} == {"prefix"}
    words = words_of(4).to_pylist()
    assert {one["text"] for row in rows for one in row} == set(words[8:])
    events = work.events_as_dicts(100)
    assert {len(event) for event in events} == {6, 7}
    assert {value for event in events for value in event.values()} == set(words[:4])
    assert set(work.subscriptions(0, 500)[1].tolist()) == {0, 1, 2}


def test_half_of_the_constraints_are_on_one_name_where_names_are_zipf() -> None:
    rows = rows_of(generate("ccm-zipf", 3000), 0, 3000)
    names = [one["name"] for row in rows for one in row]
    assert names.count("n0") / len(names) == pytest.approx(0.5, abs=0.02)


def _holds(one: dict[str, Any], event: dict[str, Any]) -> bool:
    wanted: Any = one["value"] if one["text"] is None else one["text"]
    value: Any = event[one["name"]]
    tests: dict[str, bool] = {
        "=": value == wanted, "!=": value != wanted, "prefix": str(value).startswith(str(wanted)),
        "contains": str(wanted) in str(value), "<": value < wanted, ">": value > wanted,
    }  # fmt: skip
    return tests[one["op"]]


# CCM, Type of Constraints: "about 1% of interfaces are selected when all constraints are on strings,
# and about 7% when all constraints are numerical". That is 25 000 times the chance of a filter of
# three constraints, 1 in 3 filters: the chance of its names, times that of each constraint.
@pytest.mark.parametrize(("numeric", "selected"), [(1.0, 0.07), (0.0, 0.01)])
def test_ccm_selects_as_many_interfaces_as_the_paper_says(numeric: float, selected: float) -> None:
    work = generate("ccm", 1000, parameters={"numeric": numeric, "names": 5})
    rows, events = rows_of(work, 0, 1000), work.events_as_dicts(100)
    constraints = [one for row in rows for one in row]
    asked = [(one, event) for event in events for one in constraints if one["name"] in event]
    chance = np.mean([_holds(one, event) for one, event in asked])
    names = np.mean([(n_attributes / 100) ** 3 for n_attributes in (3, 4, 5)])
    assert 25_000 / 3 * names * chance**3 == pytest.approx(selected, rel=0.25)


@pytest.mark.parametrize("name", ["json-eq", "json-range"])
def test_json_rules_are_the_same_as_columns_and_as_patterns(name: str) -> None:
    work: Any = generate(name, 200)
    for row, pattern in zip(rows_of(work, 0, 200), work.patterns(0, 200), strict=True):
        assert len(pattern) == 3
        for one in row:
            (wanted,) = pattern[one["name"]]
            if name == "json-eq":
                assert (one["op"], one["text"]) == ("=", wanted)
            else:
                assert wanted == {"numeric": [">=", one["value"], "<=", one["high"]]}
                assert 100 <= one["high"] - one["value"] <= 1000
    events = work.events_as_dicts(300)
    assert all(len(event) == 20 for event in events)
    values = {value for event in events for value in event.values()}
    if name == "json-eq":
        assert values == {f"v{number}" for number in range(50)}
    else:
        assert 0 <= min(values) < max(values) < 10_000


@pytest.mark.data
@needs_data
def test_kdd_subscriptions_are_intervals_of_numbers_and_perhaps_a_service() -> None:
    work: Any = generate("kdd", 300)
    assert len(work.events(3).type) == 41
    assert 0.4 < np.mean([len(row) == 6 for row in rows_of(work, 0, 300)]) < 0.6
    names = {one["name"] for row in rows_of(work, 0, 300) for one in row}
    assert len(names) == 35  # 34 numbers and the service
    assert all(row[0]["value"] <= row[0]["high"] for row in rows_of(work, 0, 300))
    spread: Any = generate("kdd", 300, parameters={"stride": 997})
    assert spread.events(3)[2] == work.events(1, 2 * 997)[0]


@pytest.mark.data
@needs_data
def test_most_sigma_rules_map_and_the_others_are_counted() -> None:
    work: Any = generate("sigma")
    assert work.n_events == 255_744
    assert work.size + sum(work.unmapped.values()) == 3780
    assert work.size == 3508
    assert work.unmapped["regular expression"] == 104
    assert len(work.titles) == len(work.subscriptions(0, 10_000)[0]) == work.size


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("every", [8000, pytest.param(40, marks=pytest.mark.slow)])
def test_sigma_rules_match_as_the_oracle_says(every: int) -> None:
    work: Any = generate("sigma")
    texts, keys = work.subscriptions(0, work.size)
    events = work.events(work.n_events)
    events = events.take(pa.array(np.arange(0, work.n_events, every)))
    found = my.PredicateIndex().add_many(texts, keys).consolidate().match(events)
    assert found.work.matches > len(events) / 2
    rules = [parse(text) for text in texts.to_pylist()]
    assert list(islice(Judge(events).differences(rules, found), 10)) == []


@pytest.mark.parametrize(
    ("name", "size", "parameters", "message"),
    [
        ("twitter", 10, {}, "no predicates workload"),
        ("hem", 0, {}, "at least one"),
        ("hem", 10, {"w": 0.1}, "no parameter 'w'"),
        ("hem", 10, {"event_size": 21}, "more attributes"),
        ("hem", 10, {"width": 1.0}, "width"),
        ("ccm", 10, {"names": 3}, "more attributes"),
        pytest.param("kdd", 10, {"stride": 0}, "a stride is 1", marks=needs_data),
    ],
)
def test_what_makes_no_sense_is_refused(
    name: str, size: int, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(my.UsageError, match=message):
        generate(name, size, parameters=parameters)


def test_every_model_has_its_name() -> None:
    assert list(MODELS) == [*GENERATED, "kdd", "sigma"]
