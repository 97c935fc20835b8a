"""Python functions of predicates hold for the events that the oracle says."""

import pytest
from benchmarks.shared import python_functions
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engines.predicates import strategies

import matchyard as my
from matchyard.engine import find_engine

ENGINE = find_engine("predicates")
EVENTS = [
    {}, {"x": 1}, {"x": 1.5}, {"x": 7}, {"x": True}, {"x": None}, {"x": ""}, {"x": "1"},
    {"x": "ab"}, {"x": "AB.exe"}, {"x": "cab.EXE"}, {"x": "a*b"}, {"x": "a\nb\\"},
    {"x": "Straße"}, {"x": "10.1.2.3"}, {"x": "::1"}, {"x": "10.1.2.3%1"}, {"y": "ab", "x": 7},
]  # fmt: skip
RULES = [
    "exists x", "not exists x", "x = null", "x = true", "x = 1", "x in {1, 7}", 'x = "ab"',
    'x in {= "AB" ignoring case, = "" ignoring case}', 'x = "STRASSE" ignoring case',
    'x in {prefix "a" ignoring case, prefix "c" ignoring case, 7}', 'x prefix "a"',
    'x in {suffix ".exe" ignoring case, contains "TRAS" ignoring case}', 'x suffix ".exe"',
    'x contains "*"', r'x wildcard "*a\\*b"', r'x wildcard "a*\\\\"', 'x wildcard "C*.e*" ignoring case',
    'x in cidr "10.0.0.0/8"', 'x in cidr "::/0"', "x > 1", "x <= 1.5", "x != 7", 'x > "a"',
    'x = 7 and y = "ab" or x = 1', 'not (x = 7 and y = "ab")', "true", "false",
    "x in {1, null, true}",
]  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_a_function_says_what_the_oracle_says(rule):
    predicate = ENGINE.language.parse(rule)
    function = python_functions.make(predicate)
    for event in EVENTS:
        expected = [0] if ENGINE.oracle.is_match(predicate, event) else []
        assert python_functions.match([function], event) == expected, event


@given(predicate=strategies.predicates(), events=st.lists(strategies.flat_events(), max_size=8))
def test_a_function_of_any_predicate_says_what_the_oracle_says(predicate, events):
    try:
        function = python_functions.make(predicate)
    except my.UsageError:
        assume(False)
    for event in events:
        expected = [0] if ENGINE.oracle.is_match(predicate, event) else []
        assert python_functions.match([function], event) == expected


def test_an_operator_that_sigma_does_not_need_is_refused():
    with pytest.raises(my.UsageError, match="operator 'between'"):
        python_functions.make(ENGINE.language.parse("x in [1, 3]"))
