"""The fields of errors about predicates and their events, which editors and consoles point with."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import matchyard as my
from matchyard.engines.predicates.language import Constraint, Test
from matchyard.engines.predicates.language.examples import EVENT, PATTERN, PREDICATE
from tests.engines.predicates.language.test_messages import MALFORMED

NAME, OPERATOR, VALUE = (
    "the name of an attribute", "an operator such as = or in", 'a value such as 30 or "north"',
)  # fmt: skip
OBJECT = f"an object such as {EVENT}"
SCANNED = '{"area": "north", "temp": 31.5}'  # the example of the scanner of events


def fields(error: my.ParseError) -> tuple[Any, ...]:
    return error.line, error.column, error.found, error.expected, error.example


# text; line, column, found and expected
TEXTS = [
    ("", 1, 1, "the end", NAME),
    ("temp", 1, 5, "the end", OPERATOR),
    ("temp > > 3", 1, 8, ">", VALUE),
    ("a = 1 and\n  b ? 2\nor c = 3", 2, 5, "?", OPERATOR),
    ("a = 1 and\n\n", 1, 10, "the end", NAME),
    ('x = "north', 1, 5, '"', VALUE),
    ("x = " + "9" * 50, 1, 5, "9" * 39 + "…", "-2^63 … 2^64 - 1"),
    ("x in [9, 1] and y = 2", 1, 6, "[9, 1]", "the lower end first, such as [1, 9]"),
    ("x in cidr '10.0.0'", 1, 11, "'10.0.0'", "one such as 10.0.0.0/8"),
    ("x < true", 1, 5, "true", "a number or text"),
    ("x = 5 ignoring case", 1, 5, "5 ignoring case", "text"),
    ("x except prefix {'a', ''}", 1, 10, "prefix {'a', ''}", "one of at least one character"),
    (r"`\ud800` = 1", 1, 1, r"`\ud800`", "text"),
]


@pytest.mark.parametrize("wrong", TEXTS, ids=lambda wrong: wrong[0][:30])
def test_an_error_of_text_has_its_fields(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(my.ParseError) as caught:
        my.PredicateIndex().add(wrong[0], 1)
    assert fields(caught.value) == (*wrong[1:], PREDICATE)


@pytest.mark.parametrize("text", [m[0] for m in MALFORMED], ids=lambda text: text[:30])
def test_the_column_is_where_the_found_text_begins(text: str) -> None:
    with pytest.raises(my.ParseError) as caught:
        my.PredicateIndex().add_many(["x = 1", text], [1, 2])
    _, column, found, expected, example = fields(caught.value)
    rest = text[column - 1 :]
    assert rest.startswith(found.rstrip("…")) if found != "the end" else not rest.strip()
    assert f"column {column}: " in str(caught.value)
    assert expected in str(caught.value)
    assert my.PredicateIndex().parse(example)


# a pattern; found and expected
PATTERNS: list[tuple[dict[Any, Any], str, str]] = [
    ({}, "an object without fields", 'at least one (the text "true" matches all)'),
    ({"a": 1}, "1", "a list of values, such as [1]"),
    ({"a": []}, "an empty list", 'at least one value, such as ["north"]'),
    ({"$or": []}, "[]", "a list of objects"),
    ({"a": [{"prefix": 5}]}, "5", 'text, such as "ab"'),
    ({"a": [{"prefix": "a", "suffix": "b"}]}, "an object with 2 keys", "one operator"),
    ({"a": [{"numeric": ["~", 5]}]}, '"~"', "one of: =, <, <=, >, >="),
    ({"a": [{"compare": [">", 9, "<", 1]}]}, "(9, 1)", "the lower end first, such as [1, 9]"),
    ({"{found}": [{"cidr": "{x}"}]}, "'{x}'", "one such as 10.0.0.0/8"),
]


@pytest.mark.parametrize(("pattern", "found", "expected"), PATTERNS, ids=lambda v: str(v)[:30])
@pytest.mark.parametrize("write", [dict, json.dumps], ids=["object", "JSON"])
def test_an_error_of_a_pattern_has_its_fields(
    pattern: dict[Any, Any], found: str, expected: str, write: Any
) -> None:
    with pytest.raises(my.ParseError) as caught:
        my.PredicateIndex().parse(write(pattern))
    assert fields(caught.value) == (None, None, found, expected, PATTERN)
    assert f"{found}; expected {expected}" in str(caught.value)
    assert my.PredicateIndex().parse(PATTERN)


# JSON text of a pattern; line, column, found and expected
JSON = [
    ("{", 1, 2, "the end", "property name enclosed in double quotes"),
    ('{"a": }', 1, 7, "}", "value"),
    ('{"a": [1]\n "b": [2]}', 2, 2, '"b"', "',' delimiter"),
    ('{"a": [1]} and more', 1, 12, "and", "JSON of a pattern"),
    ('{"a": [1], "a": [2]}', None, None, 'the key "a" twice', "each key once"),
    ('{"a": [1e999]}', None, None, "'1e999'", "a number that a double can hold"),
]


@pytest.mark.parametrize("wrong", JSON, ids=lambda wrong: wrong[0])
def test_an_error_of_json_has_its_fields(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(my.ParseError) as caught:
        my.PredicateIndex().parse(wrong[0])
    assert fields(caught.value)[:-1] == wrong[1:]
    assert my.PredicateIndex().parse(caught.value.example)


# a value of Python; found and expected
OBJECTS: list[tuple[Any, str, str]] = [
    (5, "5", "text, a pattern or an expression"),
    (my.field("x"), "field('x')", "a comparison, such as field('x') > 30"),
    (Constraint("x", ()), "no test", "at least one, such as > 30"),
    (Constraint("x", (Test("~", 1),)), "'~'", "one of: =, !="),
    (Constraint("x", (Test("<", None),)), "null", "a number or text"),
    ("(a = 1 or b = 2)" + " and (a = 1 or c = 3)" * 2, "4 filters", "fewer alternatives"),
]


@pytest.mark.parametrize(("value", "found", "expected"), OBJECTS, ids=lambda v: str(v)[:30])
def test_an_error_of_an_object_has_its_fields(value: Any, found: str, expected: str) -> None:
    with pytest.raises(my.ParseError) as caught:
        my.PredicateIndex(options={"max_filters": 3}).parse(value)
    assert fields(caught.value)[:3] == (None, None, found)
    assert str(caught.value.expected).startswith(expected)
    assert caught.value.example == PREDICATE


def constraints(**fields: Any) -> pa.Array:
    return pa.array([[{"name": "temp", "op": "=", **fields}]])


COLUMNS: list[tuple[Any, str]] = [
    ("x = 1", "one str: 'x = 1'"),
    (pa.array([[1]]), "int64"),
    (constraints(value=1, more=2), "'more'"),
    (constraints(value=1, op="~"), "'~'"),
    (constraints(value=b"x"), "binary"),
    (constraints(value=9, high=1, op="between"), "no value lies between the ends of 'between'"),
    (constraints(value="x", op="cidr"), "'x'"),
]


@pytest.mark.parametrize(("column", "found"), COLUMNS, ids=lambda v: str(v)[:30])
def test_an_error_of_a_column_has_its_fields(column: Any, found: str) -> None:
    with pytest.raises(my.ParseError) as caught:
        my.PredicateIndex().add_many(column, [1])
    assert fields(caught.value)[:3] == (None, None, found)
    assert str(caught.value.expected) in str(caught.value)
    assert my.PredicateIndex().parse(caught.value.example)


# an event; line, column, found and expected of `parse_event`, and of `match`
EVENTS: list[tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = [
    ("", (1, 1, "the end", "value"), (1, 1, "the end", f"an object, e.g. {SCANNED}")),
    ('{"a":}', (1, 6, "}", "value"), (1, 6, "}", "a value")),
    ('{\n"é": 1,\n"é": }', (3, 6, "}", "value"), (3, 6, "}", "a value")),
    ("[1]", (None, None, "[1]", OBJECT), (1, 1, "[", "an object")),
    ({"a": b""}, (None, None, "b''", "a number, text, true, false or null"),
     (None, None, "bytes b''", "numbers, text, true, false, null, objects and arrays")),
    ({1: 2}, (None, None, "1", OBJECT), (None, None, "int 1", "text")),
    (b'{"\xff"}', (1, 3, r"'\xff'", OBJECT), (1, 3, r"'\xff'", f"an object, e.g. {SCANNED}")),
    (5, (None, None, "5", OBJECT), (None, None, "int 5", f"an object, e.g. {SCANNED}")),
]  # fmt: skip


@pytest.mark.parametrize(("event", "parsed", "matched"), EVENTS, ids=lambda v: str(v)[:20])
def test_an_error_of_an_event_has_its_fields(event: Any, parsed: Any, matched: Any) -> None:
    index = my.PredicateIndex()
    for read, wanted in (
        (index.parse_event, parsed),
        (lambda one: index.match([{}, one]), matched),
    ):
        with pytest.raises(my.ParseError) as caught:
            read(event)
        assert fields(caught.value)[:-1] == wanted
        assert index.parse_event(caught.value.example)


def test_an_object_that_is_too_deep_has_no_column_but_its_text_has() -> None:
    deep: Any = {}
    for _ in range(100):
        deep = {"a": deep}
    for event, column in (([deep], None), ([deep, "{}"], None), ([json.dumps(deep)], 385)):
        with pytest.raises(my.ParseError, match="nested deeper") as caught:
            my.PredicateIndex().match(event)
        assert caught.value.column == column
