"""Text and objects become predicates; what is neither is refused, and the message shows where."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchyard.engines.predicates.language import (
    Constraint,
    Filter,
    Predicate,
    Test,
    field,
    format,
    parse,
    parse_event,
)
from matchyard.errors import ParseError, UsageError
from tests.engines.predicates.strategies import events, names, predicates, texts


def alternatives_of(text: str) -> tuple[Any, ...]:
    """The tests of a text that is one constraint."""
    [one] = parse(text).filters
    [constraint] = one.holds
    return tuple(tuple(test) for test in constraint.tests)


WRITTEN = [
    ("x = 1", [("=", 1)]),
    ("x == 1.5", [("=", 1.5)]),
    ("x != 1", [("!=", 1)]),
    ("x <> 'a'", [("!=", "a")]),
    ("x<-5", [("<", -5)]),
    ("x <= +5", [("<=", 5)]),
    ("x > 1e3", [(">", 1000)]),
    ("x >= .5", [(">=", 0.5)]),
    ("x < inf", [("<", float("inf"))]),
    ("x > -inf", [(">", float("-inf"))]),
    ("x = 18446744073709551615", [("=", 2**64 - 1)]),
    ("x = true", [("=", True)]),
    ("x = NULL", [("=", None)]),
    ("x in [1, 5]", [("between", (1, False, 5, False))]),
    ("x in (1, 5]", [("between", (1, True, 5, False))]),
    ("x in [1, 5)", [("between", (1, False, 5, True))]),
    ("x IN ('a', 'c')", [("between", ("a", True, "c", True))]),
    ("x in {2, 'a', 1, null}", [("=", None), ("=", 1), ("=", 2), ("=", "a")]),
    ("x in {> 5, [1, 2], prefix 'a'}", [(">", 5), ("between", (1, False, 2, False)), ("prefix", "a")]),
    ("x in {= 'A' ignoring case, cidr '10.0.0.0/8'}", [("cidr", "10.0.0.0/8"), ("ignore-case", "a")]),
    ("x prefix 'a'", [("prefix", "a")]),
    ("x suffix 'a'", [("suffix", "a")]),
    ("x contains 'a'", [("contains", "a")]),
    ("x wildcard 'a*'", [("wildcard", "a*")]),
    ("x PREFIX 'A' Ignoring Case", [("prefix ignore-case", "a")]),
    ("x suffix 'A' ignoring case", [("suffix ignore-case", "a")]),
    ("x contains 'A' ignoring case", [("contains ignore-case", "a")]),
    ("x wildcard 'A*' ignoring case", [("wildcard ignore-case", "a*")]),
    ("x = 'A' ignoring case", [("ignore-case", "a")]),
    ("x except 'A' ignoring case", [("not ignore-case", ("a",))]),
    ("x in cidr '10.0.0.0/8'", [("cidr", "10.0.0.0/8")]),
    ("exists x", [("exists", None)]),
    ("x exists", [("exists", None)]),
    ("x except {1, 'a'}", [("except", (1, "a"))]),
    ("x except null", [("except", (None,))]),
    ("x except prefix 'a'", [("not prefix", ("a",))]),
    ("x except suffix {'a', 'b'}", [("not suffix", ("a", "b"))]),
    ("x except wildcard 'a*'", [("not wildcard", ("a*",))]),
    ("x except {'A', 'b'} ignoring case", [("not ignore-case", ("a", "b"))]),
    (r'x = "\u00e9\n\"\\\ud83d\ude00"', [("=", 'é\n"\\\U0001f600')]),
    (r"x = 'it\'s \"'", [("=", "it's \"")]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "tests"), WRITTEN, ids=[w[0] for w in WRITTEN])
def test_every_operator_can_be_written(text: str, tests: list[Any]) -> None:
    assert alternatives_of(text) == tuple(tests)
    assert parse(format(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("temp = 1", "temp"),
        ("a.b-c.0 = 1", "a.b-c.0"),
        ("größe = 1", "größe"),
        ("in in {1}", "in"),
        ("prefix prefix 'a'", "prefix"),
        ("`not` = 1", "not"),
        ("`two words` = 1", "two words"),
        (r"`a\`b\\\n` = 1", "a`b\\\n"),
        ("`` = 1", ""),
    ],
)
def test_names_are_identifiers_or_stand_between_backticks(text: str, name: str) -> None:
    predicate = parse(text)
    assert predicate.filters[0].holds[0].name == name
    assert parse(format(predicate)) == predicate


def test_and_binds_more_tightly_than_or_and_not_most_tightly() -> None:
    assert parse("a = 1 and b = 2 or c = 3") == parse("(a = 1 AND b = 2) Or (c = 3)")
    assert parse("not a = 1 and b = 2") == parse("(NOT a = 1) and b = 2")
    assert parse("not exists a") == parse("a not exists") == parse("not (exists a)")
    assert parse("a not prefix 'b'") == parse("not (a prefix 'b')") != parse("a except prefix 'b'")


def test_true_matches_every_event_and_false_none() -> None:
    assert parse("true").filters == (Filter((), ()),)
    assert parse("not true") == parse("false") == Predicate(())
    assert [format(parse(text)) for text in ("true", "false")] == ["true", "false"]


@given(predicates())
def test_formatted_text_parses_back(predicate: Predicate) -> None:
    assert parse(format(predicate)) == predicate


@given(st.text(max_size=8).filter(lambda text: not any("\ud800" <= c < "\ue000" for c in text)))
def test_any_name_and_any_text_can_be_formatted(text: str) -> None:
    predicate = parse(Constraint(text, (Test("=", text),)))
    assert parse(format(predicate)) == predicate


@given(st.text(st.sampled_from("ab =<>!'\"`(){}[],.-15\\ \n") | st.characters(), max_size=30))
def test_any_other_text_is_refused_or_has_a_meaning(text: str) -> None:
    with suppress(ParseError):
        assert parse(format(parse(text))) == parse(text)


@given(names, texts, st.booleans())
def test_objects_and_text_give_the_same_predicate(name: str, text: str, ignore_case: bool) -> None:
    x = field(name)
    suffix = " ignore-case" if ignore_case else ""
    for found, op in [
        (x.startswith(text, ignore_case), "prefix"),
        (x.endswith(text, ignore_case=ignore_case), "suffix"),
        (x.contains(text, ignore_case), "contains"),
    ]:
        assert parse(found) == parse(Constraint(name, (Test(op + suffix, text),)))


def test_every_comparison_has_an_object() -> None:
    x, y = field("x"), field("y.z")
    for expression, text in [
        (x == 1, "x = 1"), (x != 1, "x != 1"), (x < 1, "x < 1"), (x <= 1, "x <= 1"),
        (x > 1, "x > 1"), (x >= 1, "x >= 1"), (30 < x, "x > 30"), (x == None, "x = null"),  # noqa: E711, SIM300
        (x.between(1, 2), "x in [1, 2]"), (x.between(1, 2, closed="left"), "x in [1, 2)"),
        (x.between(1, 2, "right"), "x in (1, 2]"), (x.between(1, 2, "neither"), "x in (1, 2)"),
        (x.is_in([1, "a"]), "x in {1, 'a'}"), (x.is_not_any_of([1]), "x except 1"),
        (x.is_in(["a", x > 30, x.is_in([5])]), "x in {5, 'a', > 30}"),
        (x.is_not_any_of(["A", "b"], ignore_case=True), "x except {'a', 'b'} ignoring case"),
        (x.startswith_none_of(["a", "b"]), "x except prefix {'a', 'b'}"),
        (x.endswith_none_of(iter("ab")), "x except suffix {'a', 'b'}"),
        (x.wildcard_none_of(["a*"]), "x except wildcard 'a*'"),
        (x.wildcard("a*"), "x wildcard 'a*'"), (x.wildcard("A*", True), "x wildcard 'a*' ignoring case"),
        (x.equals("A", ignore_case=True), "x = 'a' ignoring case"), (x.equals(1), "x = 1"),
        (x.in_network("10.0.0.0/8"), "x in cidr '10.0.0.0/8'"), (x.exists(), "exists x"),
        ((x == 1) & (y > 2) | ~(x < 3), "x = 1 and y.z > 2 or not (x < 3)"),
        (x == np.int64(1), "x = 1"), (x > np.float32(0.5), "x > 0.5"), (x == np.True_, "x = true"),
    ]:  # fmt: skip
        assert parse(expression) == parse(text)
        assert repr(expression) == f"<{format(parse(text))}>"


def test_objects_that_are_no_conditions_are_refused() -> None:
    x = field("x")
    with pytest.raises(TypeError, match=r"use & \| ~ instead of `and`, `or`, `not`, and .between"):
        assert 1 < x < 3
    with pytest.raises(TypeError, match=r"field\('x'\) == True"):
        assert not x
    with pytest.raises(TypeError, match="put each in parentheses"):
        (x == 1) & 5
    with pytest.raises(UsageError, match="closed='all'; expected one of: both, left"):
        x.between(1, 2, closed="all")
    for ask in (x.is_in, x.is_not_any_of, x.startswith_none_of, x.endswith_none_of):
        with pytest.raises(ParseError, match="not a collection of values: 'ab'"):
            ask("ab")
    for other in (field("y") > 30, (x > 30) & (x < 40), ~(x == 1)):
        with pytest.raises(ParseError, match=r"not a test of 'x': <.*>; expected one such as"):
            x.is_in([1, other])
    with pytest.raises(ParseError, match="not a name: 5"):
        field(5)  # type: ignore[arg-type]
    with pytest.raises(ParseError, match=r"expected a comparison, such as field\('x'\) > 30"):
        parse(x)


@given(events())
def test_events_are_kept_as_they_are(event: dict[str, Any]) -> None:
    assert repr(parse_event(event)) == repr(event)
