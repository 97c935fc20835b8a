"""The definition itself: one row per decision of what a match means."""

from __future__ import annotations

import pytest

from matchyard.engines.tags.oracle import explain, is_match
from tests.cases import CASES, Case, build

MEANING = [
    ("a subset matches", {"jazz"}, {"jazz", "live"}, True),
    ("an equal set matches", {"jazz", "live"}, {"jazz", "live"}, True),
    ("a superset does not", {"jazz", "live"}, {"jazz"}, False),
    ("a set that only overlaps does not", {"jazz", "oslo"}, {"jazz", "live"}, False),
    ("a disjoint set does not", {"rock"}, {"jazz"}, False),
    ("the empty subscription matches every event", set(), {"jazz"}, True),
    ("the empty subscription matches the empty event", set(), set(), True),
    ("nothing else matches the empty event", {"jazz"}, set(), False),
    ("case counts", {"Jazz"}, {"jazz"}, False),
    ("normal forms differ", {"caf\u00e9"}, {"cafe\u0301"}, False),
    ("look-alikes differ", {"a"}, {"\u0430"}, False),
    ("a prefix is another tag", {"jaz"}, {"jazz"}, False),
    ("white space is part of a tag", {"jazz live"}, {"jazz", "live"}, False),
    ("the empty tag is a tag", {""}, {"jazz"}, False),
    ("characters beyond the BMP are compared whole", {"🦉"}, {"🦊"}, False),
]
meaning = pytest.mark.parametrize(
    ("subscription", "event", "matches"),
    [row[1:] for row in MEANING],
    ids=[row[0] for row in MEANING],
)


@meaning
def test_the_oracle_decides(subscription: set[str], event: set[str], matches: bool) -> None:
    assert is_match(frozenset(subscription), frozenset(event)) is matches
    said = explain(frozenset(subscription), frozenset(event))
    assert said.startswith("match" if matches else "missing tag")


@meaning
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_algorithm_decides_the_same(
    case: Case, subscription: set[str], event: set[str], matches: bool
) -> None:
    assert build([subscription], [1], *case[:2]).match([event])[0] == [1] * matches
