"""More predicates than fit into one posting or tile, large ones, and long texts; all by the oracle."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from matchyard.engines.predicates.language import (
    Constraint,
    Filter,
    Predicate,
    alternatives,
    make_test,
    parse,
)
from tests.cases import Case, build, counted, expected
from tests.engines.predicates.strategies import DOTTED_NAMES, NETWORKS, PATTERNS, TEXTS, WHOLE
from tests.predicate_cases import EXACT, INTERVALS_ONLY

ANY = [case for case in EXACT if case.algorithm not in INTERVALS_ONLY]
every_case = pytest.mark.parametrize("case", ANY, ids=lambda case: case.name)
NAMES = ["x", "y", "z", "x", "y", *DOTTED_NAMES[:4]]
NUMBERS = [*WHOLE, *range(-5, 30), 0.5, 1.5, 1e19]
STRINGS = TEXTS[:-2]


def draw_test(draw: random.Random) -> Any:
    """One test, most often a comparison of numbers."""
    kind = draw.random()
    if kind < 0.6:
        op = draw.choice(["=", "<", "<=", ">", ">=", "!=", "between", "between"])
        low, high = sorted(draw.sample(NUMBERS, 2))
        is_open = draw.random() < 0.5 and low < high  # numbers occur twice
        return make_test(op, (low, is_open, high, False) if op == "between" else low)
    if kind < 0.9:
        op = draw.choice(["=", "!=", "<", ">=", "prefix", "suffix", "contains", "ignore-case"])
        return make_test(op, draw.choice(STRINGS))
    return draw.choice(
        [
            make_test("exists", None),
            make_test("=", draw.choice([None, True, False])),
            make_test("except", tuple(draw.sample(NUMBERS[:8], 2))),
            make_test("cidr", draw.choice(NETWORKS)),
            make_test("wildcard", draw.choice(PATTERNS)),
            make_test("not wildcard", tuple(draw.sample(PATTERNS, 2))),
        ]
    )


def draw_constraint(draw: random.Random) -> Constraint:
    tests = [draw_test(draw) for _ in range(draw.choice([1, 1, 1, 1, 2]))]
    return alternatives(draw.choice(NAMES), tests)[0]


def draw_predicate(draw: random.Random) -> Predicate:
    """Mostly a conjunction; now and then a disjunction, and with negated groups."""
    filters = []
    for _ in range(draw.choice([1, 1, 1, 1, 1, 1, 2, 3])):
        holds = tuple(draw_constraint(draw) for _ in range(draw.choice([0, 1, 1, 2, 2, 3, 4])))
        group = tuple(draw_constraint(draw) for _ in range(draw.choice([1, 2])))
        filters.append(Filter(holds, (group,) if draw.random() < 0.2 else ()))
    return parse(Predicate(tuple(filters)))


def draw_event(draw: random.Random, is_flat: bool) -> dict[str, Any]:
    """Values for most names; arrays and arrays of objects unless it is to be flat."""

    def value() -> Any:
        one = draw.choice([draw.choice(NUMBERS), draw.choice(STRINGS), draw.randint(0, 20), None])
        return one if is_flat or draw.random() < 0.8 else [one, draw.choice(NUMBERS)]

    def element() -> dict[str, Any]:
        return {name: value() for name in "xy" if draw.random() < 0.8}

    event: dict[str, Any] = {name: value() for name in "xyz" if draw.random() < 0.9}
    for name in "ab":
        event[name] = element() if is_flat else [element() for _ in range(draw.randint(0, 3))]
    return event


@every_case
def test_a_thousand_predicates_match_as_the_oracle_says(case: Case) -> None:
    draw = random.Random(7)
    rows = [draw_predicate(draw) for _ in range(900)]
    rows += rows[:100]
    keys = [draw.choice([number, 7, 2**53 + 1]) for number in range(len(rows))]
    asked = [draw_event(draw, is_flat) for is_flat in [True] * 12 + [False] * 12]
    index = build(rows, keys, *case[:2], "predicates")
    want = expected(rows, keys, asked, "predicates")
    assert counted(index.match(asked[:12])) == want[:12]  # batches without arrays go other ways
    assert counted(index.match(asked)) == want
    assert counted(index.match_unique(asked)) == [Counter(set(keys)) for keys in want]
    gone = set(keys[::3])
    index.remove(7)
    for key in gone:
        index.remove(key)
    index.consolidate()
    left = [(row, key) for row, key in zip(rows, keys, strict=True) if key not in gone | {7}]
    want = expected([row for row, _ in left], [key for _, key in left], asked, "predicates")
    assert counted(index.match(asked)) == want


@every_case
def test_a_predicate_of_ten_thousand_filters_matches_once(case: Case) -> None:
    large = " or ".join(f"x = {i} and y > {i % 100}" for i in range(10_000))
    index = build([large, "x = 5"], [1, 2], *case[:2], "predicates")
    asked = [{"x": 5, "y": 6}, {"x": 5, "y": 5}, {"x": list(range(10_000)), "y": 99}, {"x": -1}]
    assert [sorted(keys) for keys in index.match(asked)] == [[1, 2], [2], [1, 2], []]
    assert index.remove(1).consolidate().match(asked).to_lists() == [[2], [2], [2], []]


@every_case
def test_long_texts_and_large_numbers_are_compared_whole(case: Case) -> None:
    long = "日本ß" * 20_000
    rows = [
        f'x = "{long}"',
        f'x = "{long}!"',
        f'x prefix "{long}"',
        f'x suffix "{long[1:]}"',
        f'x contains "{long[1:-1]}"',
        f'x = "{long.upper()}" ignoring case',
        "y = 9007199254740993",
        "y > 9007199254740992",
        "y < 18446744073709551615",
        "y >= 18446744073709551615",
        "y = -9223372036854775808",
    ]
    index = build(rows, None, *case[:2], "predicates")
    asked = [
        {"x": long},
        {"x": long + "!"},
        {"x": long[:-1]},
        *({"y": y} for y in (2**53, 2**53 + 1, 2.0**53, 2**64 - 1, -(2**63), 2**64 - 2048.0)),
    ]
    assert counted(index.match(asked)) == expected(rows, range(len(rows)), asked, "predicates")
    assert sorted(index.match(asked)[0]) == [0, 2, 3, 4, 5]


@every_case
def test_shared_constants_are_told_from_their_neighbours(case: Case) -> None:
    """All ends of all intervals, just below and just above them, in every way to code numbers."""
    for step, far in ((1, 0), (0.5, 0), (0.5, 2**60)):
        ends = [far + 10] if far else []
        ends += [step * i for i in range(-2, 8)]
        rows = [f"x {op} {end}" for op in ("=", "<", "<=", ">", ">=", "!=") for end in ends]
        rows += [f"x in ({low}, {high}]" for low in ends for high in ends if low < high]
        index = build(rows, None, *case[:2], "predicates")
        asked = [{"x": end + by} for end in ends for by in (0, 0.25, -0.25, 1, -1)]
        asked += [{"x": float(np.nextafter(end, way))} for end in ends for way in (-9e9, 9e9)]
        want = expected(rows, range(len(rows)), asked, "predicates")
        assert counted(index.match(asked)) == want


@every_case
def test_an_element_that_suits_in_two_ways_suits(case: Case) -> None:
    index = build(["a.x = 1 and a.b.y = 1"], [1], *case[:2], "predicates")
    asked = [
        {"a": [{"x": 1, "b": [{"y": 1}, {"y": 1}]}, {"x": 2}]},
        {"a": [{"x": 1, "b": [{"y": 2}]}, {"x": 2, "b": [{"y": 1}, {"y": 1}]}]},
    ]
    assert index.match(asked).to_lists() == [[1], []]
