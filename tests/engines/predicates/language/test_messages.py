"""What malformed text, predicates and events get: each message shows where, and an example."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from matchyard.engines.predicates import encoder
from matchyard.engines.predicates.language import (
    Constraint,
    Filter,
    Predicate,
    Test,
    field,
    parse,
    parse_event,
)
from matchyard.engines.predicates.language.text import EXAMPLE
from matchyard.errors import ParseError, UsageError

# text, the column that the caret is at, and the message; the docs show it
MALFORMED = [
    ("", 1, "it ends here; expected the name of an attribute"),
    ("temp", 5, "it ends here; expected an operator such as = or in"),
    ("temp >", 7, 'it ends here; expected a value such as 30 or "north"'),
    ("temp > > 3", 8, 'found >; expected a value such as 30 or "north"'),
    ("temp => 3", 7, 'found >; expected a value such as 30 or "north"'),
    ("temp ~ 3", 6, "found ~; expected an operator such as = or in"),
    ("temp = north", 8, 'found north; expected a value such as 30 or "north"'),
    ("30 < temp", 1, "found 30; expected the name of an attribute"),
    ("1 < x", 1, "found 1; expected the name of an attribute"),
    ("a = 1 and", 10, "it ends here; expected the name of an attribute"),
    ("a = 1 b = 2", 7, "found b; expected and, or, or the end"),
    ("a = 1 && b = 2", 7, "found &; expected and, or, or the end"),
    ("a < 1 < 3", 7, "found <; expected and, or, or the end"),
    ("(a = 1", 7, "it ends here; expected and, or, or )"),
    ("a = 1)", 6, "found ); expected and, or, or the end"),
    ("and = 1", 1, "found and; expected the name of an attribute"),
    ('x = "north', 5, 'found ", which is not closed'),
    ("`x = 1", 1, "found `, which is not closed"),
    (r'x = "a\q"', 5, r"expected one of the escapes"),
    (r'x = "\ud800"', 5, "half of a surrogate pair"),
    (r"`\ud800` = 1", 1, "half of a surrogate pair"),
    (r"`\q` = 1", 1, "expected one of the escapes"),
    ("x in 5", 6, "found 5; expected an interval such as [1, 9), a set such as {1, 2}, or cidr"),
    ("x in [1]", 8, "found ]; expected a comma; an interval has two ends"),
    ("x in (1, 2, 3)", 11, "found ,; expected ] or ); an interval has two ends, and a set is written {1, 2, 3}"),
    ("x in [9, 1]", 6, "no value lies in [9, 1]; expected the lower end first"),
    ("x in (1, 1]", 6, "no value lies in (1, 1]"),
    ("x in [1, 'a']", 6, "1 and 'a' are of different types"),
    ("x in [1, true]", 6, "in takes a number or text, not true; for example in [1, 9]"),
    ("x in {}", 7, 'found }; expected a value such as 30 or "north"'),
    ("x in {1 2}", 9, "found 2; expected a comma or }"),
    ("x in cidr '10.0.0'", 11, "not a network: '10.0.0'; expected one such as 10.0.0.0/8"),
    ("x in cidr 5", 11, 'cidr takes text, not 5; for example cidr "10.0.0.0/8"'),
    ("x except suffix null", 10, 'except suffix takes text, not null; for example except suffix "ab"'),
    ("x prefix 5", 10, "prefix takes text, not 5"),
    (r"x wildcard 'a\\b'", 12, r"a \ at position 2 of the wildcard"),
    ("x < true", 5, "< takes a number or text, not true; for example < 30"),
    ("x < 'a' ignoring case", 3, "found <; expected = or except where case is ignored"),
    ("x != 'a' ignoring case", 3, 'found !=; expected = or except where case is ignored, as in: x except "ab"'),
    ("x = 'a' ignoring", 17, "it ends here; expected case, as in: ignoring case"),
    ("x = 5 ignoring case", 5, "= ignoring case takes text, not 5; for example = \"ab\" ignoring case"),
    ("x except contains 'a'", 10, "found contains; expected prefix, suffix or wildcard"),
    ("x except prefix ''", 10, 'every text has the prefix ""'),
    ("x != null", 6, "!= null holds for no value; expected not (x = null), or x exists"),
    ("x = nan", 5, "nan compares with nothing"),
    ("x = 18446744073709551616", 5, "has more than 64 bits; expected -2^63 … 2^64 - 1"),
    ("x = -9223372036854775809", 5, "has more than 64 bits"),
    ("x = " + "9" * 5_000, 5, "expected an integer of at most 64 bits"),
    ("x = \u0663", 5, "found \u0663; expected a value such as 30"),  # an Arabic 3
    ("x = 1e400", 5, "expected a number that a double can hold, or inf"),
    ("(" * 101 + "a = 1", 101, "expected at most 100 parentheses and nots within each other"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "column", "message"), MALFORMED, ids=[m[0][:30] for m in MALFORMED]
)
def test_malformed_text_is_shown_with_a_caret(text: str, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    first, line, caret, example = str(caught.value).split("\n")
    assert first.startswith(f"not a predicate: column {column}: ")
    assert message in first
    assert example == EXAMPLE
    at = caret.index("^")
    assert line[at:] == text[column - 1 :][: len(line) - at].ljust(len(line) - at)


def test_a_text_of_several_lines_shows_the_one_at_fault() -> None:
    with pytest.raises(ParseError, match=r"line 2, column 5: found \?.*\n  \tb|  b \? 2\n      \^"):
        parse("a = 1 and\n  b ? 2\nor c = 3")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "not a predicate: 5; expected text, a pattern or an expression"),
        (None, "not a predicate: None"),
        (b"x = 1", "not a predicate: b'x = 1'"),
        (["x = 1"], "not a predicate"),
        (Constraint("x", ()), "no test on 'x'"),
        (Constraint("x", (("=", 1),)), "not a test: ('=', 1)"),  # type: ignore[arg-type]
        (Constraint(5, (Test("=", 1),)), "not a name: 5"),  # type: ignore[arg-type]
        (Constraint("x", (Test("~", 1),)), "no operator '~'; expected one of: =, !="),
        (Constraint("x", (Test("between", 5),)), "not an interval: 5"),
        (Constraint("x", (Test("except", ()),)), "except takes at least one value"),
        (Filter((Constraint("x", (Test("=", b"a"),)),)), "not a value: b'a'"),
        (Predicate((Filter((), ((Constraint("x", (Test("=", []),)),),)),)), "not a value: []"),
    ],
    ids=repr,
)
def test_what_is_no_predicate_is_named(value: Any, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "not an event: 5; expected an object such as"),
        ([{"x": 1}], "not an event: [{'x': 1}]"),
        ("x = 1", "not JSON of an event: line 1, column 1: Expecting value"),
        ('{"x": 1', "not JSON of an event: line 1, column 8: Expecting ',' delimiter"),
        ("[1]", "not an event: [1]"),
        (b'{"x": "\xff"}', "not JSON of an event: 'utf-8' codec"),
        (
            b'\xef\xbb\xbf{"x": 1}',
            "it begins with a byte order mark of UTF-8; JSON is UTF-8 without one",
        ),
        ('{"x": 1}'.encode("utf-16"), "a byte order mark of UTF-16"),
        ('{"x": 1}'.encode("utf-16-le"), "there is a zero byte at its beginning, as in UTF-16"),
        ({"x": {"y": [1, b"a"]}}, "not an event: x.y[1]: not a value: b'a'"),
        ({"x": {5: 1}}, "not an event: the key 5 in x"),
        ({"x": "\ud800"}, "not an event: x: half of a surrogate pair"),
        ({"\ud800": 1}, "not an event: a key: half of a surrogate pair"),
        ('{"a":' * 100_000, "too many objects within each other"),
    ],
    ids=lambda value: repr(value)[:30].encode("ascii", "replace").decode(),
)
def test_what_is_no_event_is_refused_with_an_example(value: Any, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_event(value)
    assert message in str(caught.value)
    assert 'expected an object such as {"area": "north", "temp": 31}' in str(caught.value)


@pytest.mark.parametrize("value", [np.datetime64(1, "ns"), np.timedelta64(1, "ns")])
def test_times_of_numpy_are_no_numbers(value: Any) -> None:
    with pytest.raises(ParseError, match=r"x: not a value: (np\.|numpy\.)"):
        parse_event({"x": value})
    with pytest.raises(ParseError, match="not a value"):
        field("x") == value  # noqa: B015


def test_expressions_nested_too_deeply_are_refused() -> None:
    deep = mixed = field("x") == 1
    for i in range(5_000):
        deep = ~deep
        mixed = (mixed & (field("y") == i)) | (field("z") == i)
    for one in (deep, mixed):
        with pytest.raises(ParseError, match="nested too deeply"):
            parse(one)


def test_the_depth_of_events_is_limited_by_options_within_reason() -> None:
    encoder.check(encoder.Options(max_depth=4096))
    for depth, what in ((0, "at least 1"), (4097, "at most 4096"), (10**15, "at most 4096")):
        with pytest.raises(UsageError, match=f'"max_depth" must be {what}'):
            encoder.check(encoder.Options(max_depth=depth))


def test_events_of_json_and_of_numpy_become_plain_objects() -> None:
    assert parse_event('{"a": {"b": [1, null]}}') == parse_event(b'{"a": {"b": [1, null]}}')
    found = parse_event({"x": np.int64(3), "y": (np.float64(1.0), np.bool_(True))})
    assert repr(found) == "{'x': 3, 'y': [1.0, True]}"
    assert parse_event({"x": np.array([[1], [2]])}) == {"x": [[1], [2]]}
    assert parse_event(memoryview(b'{"x": 1}')) == parse_event(bytearray(b'{"x": 1}')) == {"x": 1}
