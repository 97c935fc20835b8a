"""Whatever is given, however odd: a result, or a MatchyardError that says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import matchyard as my
from matchyard.engines.predicates.language import (
    Constraint,
    Filter,
    Predicate,
    Test,
    field,
    parse,
    parse_event,
)
from matchyard.errors import ParseError
from tests.engines.predicates.encoder.test_json import attributes, read_all
from tests.engines.predicates.number_pairs import join

NAN = float("nan")
LARGE = [
    2**64,
    -(2**63) - 1,
    2**64 + 2**11,
    2**64 + 2**11 + 1,
    10**308,
    10**309,
    -(10**400),
    10**5_000,
]


def test_integers_beyond_64_bits_are_the_nearest_doubles_in_all_forms() -> None:
    for value in LARGE:
        try:
            expected = float(value)
        except OverflowError:
            expected = math.inf if value > 0 else -math.inf
        digits = "1" + "0" * 5_000 if value == 10**5_000 else str(value)
        text = f'{{"a": [{digits}, {{"b": {digits}}}]}}'
        forms = ({"a": [value, {"b": value}]}, text, text.encode(), np.array([text], dtype=object))
        for form in (*forms, {"a": np.array([value, {"b": value}], dtype=object)}):
            found = attributes(read_all(form if isinstance(form, np.ndarray) else [form]), 0)
            assert found == [("a", join(expected, 0)), ("a.b", join(expected, 0))]
        for event in (forms[0], text, text.encode()):
            assert parse_event(event) == {"a": [expected, {"b": expected}]}


class EvilText(str):
    def lstrip(self, *given: Any) -> Any:
        return 5

    def encode(self, *given: Any) -> Any:
        return 5


class EvilMapping(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no items")


class Evil:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not equal")

    def __hash__(self) -> int:
        raise RuntimeError("no hash")

    def __repr__(self) -> str:
        raise RuntimeError("not shown")


def deep(make: Any, inner: Any = 1) -> Any:
    for _ in range(100_000):
        inner = make(inner)
    return inner


WITHIN: dict[str, Any] = {}
WITHIN["a"] = WITHIN
LISTED: list[Any] = []
LISTED.append(LISTED)
HOSTILE: dict[str, Any] = {
    "surrogate": "\ud800", "zero": "\0", "bytes": b"a", "bytes key": {b"a": [1]}, "nan key": {NAN: [1]},
    "no text key": {None: [1]}, "digits": 10**5_000, "evil": Evil(), "evil text": EvilText("x = 1"),
    "evil mapping": EvilMapping(a=[1]), "within itself": WITHIN, "list within itself": LISTED,
    "deep": deep(lambda one: {"a": one}), "deep lists": deep(lambda one: [one]),
    "deep not": deep(lambda one: {"$not": one}, {"a": [1]}), "deep or": deep(lambda one: {"$or": [one]}, {"a": [1]}),
    "deep text": "not " * 100_000 + "a = 1", "deep parentheses": "(" * 100_000, "deep JSON": '{"a":' * 100_000,
    "deep JSON lists": '{"a":' + "[" * 100_000, "no dimensions": np.array(5), "masked": np.ma.masked,
    "time": np.datetime64(1, "s"), "complex": np.array([1j]), "long double": np.longdouble(2) ** 70,
    "exponent": "a = 1e" + "9" * 5_000, "JSON exponent": '{"a": [1e' + "9" * 5_000 + "]}", "set": {1},
    "UTF-16": '{"a": 1}'.encode("utf-16"), "test of a list": Constraint("x", (Test([], 5),)),  # type: ignore[arg-type]
    "constraint of a number": Constraint("x", 5), "filter of numbers": Filter((5,)),  # type: ignore[arg-type]
    "predicate of nothing": Predicate(None), "predicate of a set": Predicate((Filter((Constraint("x", (Test("=", {1}),)),)),)),  # type: ignore[arg-type]
    "predicate of digits": Predicate((Filter((Constraint("x", (Test("=", 2**70),)),)),)),
}  # fmt: skip


@pytest.fixture(scope="module")
def index() -> my.PredicateIndex:
    return my.PredicateIndex().add("exists x or a.b = 1", 1).consolidate()


def attempts(value: Any, index: my.PredicateIndex) -> list[Callable[[], object]]:
    """All ways to give a value that is a subscription, an event, or part of one."""
    fresh, x = my.PredicateIndex(), field("x")
    operands = (
        "numeric",
        "compare",
        "prefix",
        "equals-ignore-case",
        "anything-but",
        "exists",
        "cidr",
    )
    rules: list[Any] = [{"x": value}, {"x": [value]}, {"$not": value}, {"$or": [value]}]
    rules += [{"x": [{op: one}]} for op in operands for one in (value, [value], [">", value])]
    rules += [{"x": [{"anything-but": {"prefix": value}}]}, {"x": [{"prefix": {"a": value}}]}]
    return [
        *(lambda one=one: parse(one) for one in (value, *rules)),
        *(lambda one=one: fresh.add(one, 1) for one in (value, *rules[:4])),
        lambda: fresh.add_many([value], [1]).consolidate(),
        lambda: fresh.add_many(value, [1]),
        *(lambda one=one: parse_event(one) for one in (value, {"x": value})),
        *(lambda one=one: index.parse_event(one) for one in (value, {"x": value})),
        *(lambda one=one: index.match([one]) for one in (value, {"x": value}, {"x": [{"y": value}]})),
        lambda: index.match(value),
        lambda: index.check([{"x": value}]),
        lambda: index.explain({"x": value}, 1),
        lambda: index.match(pd.DataFrame({"x": pd.Series([value, 1], dtype=object)})),
        *(lambda act=act: act(value) for act in (x.__eq__, x.__lt__, x.is_in, x.is_not_any_of, field)),
        *(lambda act=act: act([value]) for act in (x.is_in, x.startswith_none_of)),
        lambda: x.between(value, value),
        lambda: x.between(1, 2, value),
    ]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_every_failure_is_an_error_of_this_package(name: str, index: my.PredicateIndex) -> None:
    messages = []
    for attempt in attempts(HOSTILE[name], index):
        try:
            attempt()
        except my.MatchyardError as error:
            messages.append(str(error))
    assert messages
    assert max(map(len, messages)) < 2_000


def test_a_large_integer_in_a_data_frame_is_the_nearest_double() -> None:
    found = my.PredicateIndex().add("x > 18446744073709551615", 1).consolidate()
    assert found.match(pd.DataFrame({"x": [2**64]})).to_lists() == [[1]]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-16-le", "utf-32"])
def test_json_is_utf_8_without_a_mark_in_all_ways(encoding: str, index: my.PredicateIndex) -> None:
    data = '{"x": 1}'.encode(encoding)
    held = memoryview(data)
    ways: list[Callable[[], object]] = [
        lambda: parse_event(data), lambda: index.parse_event(data), lambda: index.parse_event(held),
        lambda: index.match([data]), lambda: index.match([bytearray(data)]),
        lambda: index.match(pa.array([data])), lambda: index.check([data]), lambda: index.explain(data, 1),
    ]  # fmt: skip
    for way in ways:
        with pytest.raises(ParseError, match="JSON is UTF-8"):
            way()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (r'"\ud800"', "half of a surrogate pair"),
        (r'[{"y": "\ud800"}]', "half of a surrogate pair"),
        (r'{"\ud800": 1}', "half of a surrogate pair"),
        ("[" * 70 + "]" * 70, "nested deeper"),
    ],
)
def test_a_value_that_another_one_replaces_is_refused_in_all_ways(
    value: str, reason: str, index: my.PredicateIndex
) -> None:
    """The last value of a name counts; the one before it must be JSON all the same."""
    for text in (f'{{"x": {value}, "x": 1}}', f'{{"a": [{{"x": {value}, "x": 1}}]}}'):
        for way in (
            index.parse_event,
            lambda one: index.match([one]),
            lambda one: index.check([one]),
        ):
            with pytest.raises(ParseError, match=reason):
                way(text)


def test_keys_that_contain_themselves_are_refused() -> None:
    """Arrow ends the process where it looks for the type of such an object."""
    cyclic: list[object] = []
    cyclic.append(cyclic)
    for keys in ([cyclic], (cyclic,), [None, cyclic], np.array([cyclic, None], object)):
        with pytest.raises(my.UsageError, match="not keys"):
            my.PredicateIndex().add_many(["x = 1"] * len(keys), keys)
