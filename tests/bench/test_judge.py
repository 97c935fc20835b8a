"""The judge of all pairs says what the oracle says of each of them, and sees every difference."""

import json

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.shared.judge import Difference, Judge
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.predicates import strategies

import matchyard as my
from matchyard.engine import find_engine
from matchyard.matches import Matches, Part

ENGINE = find_engine("predicates")
EVENTS = ['{"x": 1, "y": 5}', '{"x": 2}', '{"x": 1, "y": 5}', '{"x": 1, "y": 6}', "{}"]
RULES = [ENGINE.language.parse(text) for text in ("x = 1", "y = 5", "not exists x", "z = 1")]


def as_column(events):
    return pa.array([json.dumps(event).encode() for event in events], pa.binary())


@given(
    predicates=st.lists(strategies.predicates(), min_size=1, max_size=5),
    events=st.lists(strategies.events(), min_size=1, max_size=12),
)
def test_it_says_what_the_oracle_says_of_every_pair(predicates, events):
    judge = Judge(as_column(events))
    for predicate in predicates:
        said = [ENGINE.oracle.is_match(predicate, event) for event in events]
        assert judge.matches(predicate).tolist() == np.flatnonzero(said).tolist()


@pytest.mark.parametrize("name", ["x", "x.y", "x.y.z"])
def test_values_that_python_holds_for_equal_are_kept_apart(name):
    values = [1, 1.0, True, "1", [1], "true", None, {"y": 1}, {"y": True}, {"y": {"z": True}}]
    events = [{"x": value, "other": 1} for value in values]
    events += [{name: True}, {"other": 1}]
    for wanted in ("1", "true", '"1"', "null"):
        predicate = ENGINE.language.parse(f"{name} = {wanted}")
        said = [ENGINE.oracle.is_match(predicate, event) for event in events]
        assert Judge(as_column(events)).matches(predicate).tolist() == np.flatnonzero(said).tolist()


def test_the_oracle_is_asked_once_for_each_distinct_projection():
    judge = Judge(pa.array(EVENTS))
    assert judge.n_distinct == 4
    asked = []
    for rule in RULES:
        before = judge.n_asked
        judge.matches(rule)
        asked.append(judge.n_asked - before)
    assert asked == [3, 3, 3, 1]  # x is 1, 2 or absent; y is 5, 6 or absent; z is nowhere


def found(lists):
    start = np.cumsum([0, *map(len, lists)])
    return Matches([Part(start, np.array([key for keys in lists for key in keys], np.int64))])


def test_what_is_right_has_no_differences():
    index = my.PredicateIndex().add_many(RULES, np.arange(len(RULES))).consolidate()
    assert index.match(EVENTS).to_lists() != [[]] * len(EVENTS)
    assert list(Judge(pa.array(EVENTS)).differences(RULES, index.match(EVENTS))) == []


def test_what_is_missing_too_much_or_twice_is_a_difference():
    right = [[0, 1], [], [1, 0], [0], [2]]
    judge = Judge(pa.array(EVENTS))
    assert list(judge.differences(RULES, found(right))) == []
    wrong = [[0], [3], [1, 0], [0, 0], [2]]
    differences = sorted(judge.differences(RULES, found(wrong)))
    assert differences == [
        Difference(0, 1, 0, True),
        Difference(1, 3, 1, False),
        Difference(3, 0, 2, True),
    ]
    assert str(differences[0]) == (
        "event 0, predicate 1: found 0 times, and the oracle says match"
    )  # fmt: skip


@pytest.mark.parametrize("key", [-1, 4])
def test_a_key_that_is_no_predicate_is_refused(key):
    with pytest.raises(my.UsageError, match="from 0 to 3"):
        list(Judge(pa.array(EVENTS)).differences(RULES, found([[key], [], [], [], []])))
