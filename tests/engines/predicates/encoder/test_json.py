"""Events from JSON text, dicts and tables: the same attributes as `json.loads` finds."""

from __future__ import annotations

import json
import math
import pickle
from decimal import Decimal
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from matchyard.engines.predicates.encoder.events.intake import column
from matchyard.engines.predicates.encoder.layout import NUMBER, TEXT, WHERE, Column
from matchyard.engines.predicates.language.canonical import nearest
from matchyard.errors import ParseError
from tests.engines.predicates.number_pairs import join


class Options(NamedTuple):
    max_depth: int = 64


OPTIONS = Options()
INTEGERS = st.one_of(st.integers(-(2**63), 2**64 - 1), st.integers(-9, 9))
SCALARS = st.one_of(
    st.none(), st.booleans(), INTEGERS, st.floats(allow_nan=False), st.text(max_size=12)
)
NAMES = st.one_of(st.sampled_from(["a", "b", "a.b", "long name of it", ""]), st.text(max_size=4))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
EVENTS = st.dictionaries(NAMES, VALUES, max_size=6)


def read_all(events: Any, options: Options = OPTIONS) -> Column:
    """All events of a column."""
    unread = column(events, options)
    return unread.rows(0, unread.n_rows)


def name_of(found: Column, number: int) -> str:
    """A name with those before its dots."""
    start, end = found.name_start[number], found.name_start[number + 1]
    name = bytes(found.name_text[start:end]).decode()
    parent = int(found.name_parent[number])
    return name if parent < 0 else f"{name_of(found, parent)}.{name}"


def attributes(found: Column, row: int) -> list[tuple[str, Any]]:
    """Names and values of one event, in order."""
    pairs = []
    for i in range(found.row_start[row], found.row_start[row + 1]):
        content, where, what = found.attributes[i].tolist()
        name = name_of(found, where >> 32)
        kind, size = what & 255, what >> 8
        value: Any = (None, None, False, True, None)[kind]
        if kind == NUMBER:
            value = join(float(np.int64(content).view(np.float64)), size)
        elif kind == TEXT:
            value = bytes(found.text[content : content + size]).decode()
        pairs.append((name, value))
    return pairs


def leaves(value: Any, at: str | None = None) -> list[tuple[str, Any]]:
    """The same of what `json.loads` gives."""
    if isinstance(value, dict):
        inner = [(k if at is None else f"{at}.{k}", v) for k, v in value.items()]
        return [pair for name, one in inner for pair in leaves(one, name)]
    if isinstance(value, list | tuple):
        return [pair for one in value for pair in leaves(one, at)]
    return [(str(at), value)]


def is_same(left: list[tuple[str, Any]], right: list[tuple[str, Any]]) -> bool:
    return repr(sorted(left, key=repr)) == repr(sorted(normal(right), key=repr))


def normal(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    def one(value: Any) -> Any:
        value = nearest(value)
        if isinstance(value, float) and value.is_integer() and -(2**63) <= value < 2**64:
            return int(value)
        return value

    return [(name, one(value)) for name, value in pairs]


@given(st.lists(EVENTS, max_size=5))
@example([{"a": {"b": 1}, "a.b": 2}, {"a.b": 3}])
def test_dicts_have_the_attributes_of_their_json(events: list[dict[str, Any]]) -> None:
    found = read_all(events)
    assert found.n_rows == len(events)
    for row, event in enumerate(events):
        assert is_same(attributes(found, row), leaves(event))


@given(st.lists(EVENTS, max_size=4), st.booleans(), st.sampled_from([None, 1]))
def test_text_has_the_attributes_that_python_finds(
    events: list[dict[str, Any]], is_ascii: bool, indent: int | None
) -> None:
    texts = [json.dumps(event, ensure_ascii=is_ascii, indent=indent) for event in events]
    for form in (texts, [text.encode() for text in texts]):
        found = read_all(form)
        for row, event in enumerate(events):
            assert is_same(attributes(found, row), leaves(event))


WRITTEN = st.text(
    alphabet='{}[]:,"\\ \n\t0123456789.eE+-truefalsnuINyit\x00\x1fé\u20ac😀', max_size=30
)


@given(st.one_of(WRITTEN, WRITTEN.map(lambda text: '{"a":' + text + "}")))
def test_whatever_python_refuses_is_refused(text: str) -> None:
    check_as_python(text)


def check_as_python(text: str) -> None:
    try:
        value = json.loads(text)
        leaves_found = leaves(value)
        "".join(v for _, v in leaves_found if isinstance(v, str)).encode()
        is_good = isinstance(value, dict)
    except (ValueError, RecursionError):
        is_good = False
    if not is_good:
        with pytest.raises(ParseError):
            read_all([text])
        return
    assert is_same(attributes(read_all([text]), 0), leaves_found)


NUMERALS = st.from_regex(
    r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?", fullmatch=True
)


@given(NUMERALS)
@example("9007199254740993.0")
@example("18446744073709551615")
@example("18446744073709551616")
@example("-9223372036854775808")
@example("-9223372036854775809")
@example("1e400")
@example("4.9e-324")
@example("0." + "0" * 30 + "1")
@example("100000000000000000000.0")
@example("-0")
@example("-0.0")
def test_numbers_are_read_to_the_last_bit(text: str) -> None:
    check_as_python('{"x": ' + text + "}")


@given(EVENTS)
def test_no_beginning_of_an_event_is_an_event(event: dict[str, Any]) -> None:
    data = json.dumps(event, ensure_ascii=False).encode()
    for end in range(len(data)):
        with pytest.raises(ParseError, match=r"event 1 "):
            read_all([b"{}", data[:end]])


@given(st.binary(min_size=1, max_size=6))
def test_strings_must_be_utf_8(data: bytes) -> None:
    text = b'{"a": "' + data + b'"}'
    try:
        expected = json.loads(text.decode())  # strictly, other than json.loads of bytes
    except ValueError:
        with pytest.raises(ParseError):
            read_all([text])
    else:
        assert attributes(read_all([text]), 0) == leaves(expected)


@pytest.mark.parametrize("text", [
    '{"a":1,"a":2}', '{"a":{"b":1},"a":{"c":2}}', '{"a":[1,2],"b":3,"a":4}', '{"a":1,"a":{}}',
    '{"a.b":1,"a":{"b":2},"a.b":3}', '{"a":[{"b":1,"b":2},{"b":3}]}', r'{"a":1,"\u0061":2}',
    '{"a":{"b":1,"b":{"c":1,"c":2}},"x":0}', '{}', ' { } ', '{"a":{},"b":[[],[{}]]}',
    r'{"\"":1,"\\":2,"\u00e9":"\ud83d\ude00\/\b\f\n\r\t"}', '{"a":NaN,"b":[Infinity,-Infinity]}',
    r'{"a":"\ud800"}', r'{"a":"\ud800\u0041"}', r'{"a":"\udc00\ud800"}', r'{"a":"\udc00\udc00"}',
    r'{"a":"\x41"}',
    '{"a":01}', '{"a":1.}', '{"a":.5}', '{"a":+1}', '{"a":1e}', '{"a":-}', '{"a":-Inf}', "[]", "1",
    '{"a":1}x', '{"a":1,}', '{"a":[1,]}', '{,}', '{"a" 1}', "{'a':1}", '{"a":tru}', '{"a":1]', "",
])  # fmt: skip
def test_the_corners_of_json_are_as_in_python(text: str) -> None:
    check_as_python(text)


def test_every_event_of_many_is_the_same_as_alone() -> None:
    shapes = [{"a": 1, "b": "x"}, {"b": 2, "a": {"c": [1, {"d": 2}]}}, {"e\n": None}, {"a": 1}]
    events = [dict(shapes[i % 4], number=i, **{f"k{i}": i}) for i in range(300)]
    found = read_all(events)
    for row, event in enumerate(events):
        assert is_same(attributes(found, row), leaves(event))
        assert is_same(attributes(found.rows(row, row + 1), 0), leaves(event))


def test_elements_of_arrays_of_objects_are_numbered() -> None:
    text = '{"a":[{"b":1,"c":[{"d":2},{"d":3}]},4,[{"b":5}]],"e":[6],"f":[{"g":7}]}'
    found = read_all([text, text])
    elements = (found.attributes[:, WHERE] & 0xFFFFFFFF).tolist()
    assert elements[:7] == [1, 2, 3, 0, 4, 0, 5]
    assert found.element_parent[:6].tolist() == [0, 0, 1, 1, 0, 0]
    arrays = found.element_array[:6].tolist()
    assert arrays[1] == arrays[4]
    assert arrays[2] == arrays[3]
    assert len({arrays[1], arrays[2], arrays[5]}) == 3
    assert set(elements[7:]).isdisjoint({1, 2, 3, 4, 5})
    assert len(set(found.element_array[6:].tolist()) & set(arrays[1:])) == 0


PAIRS = st.recursive(
    st.integers(0, 9).map(str),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{','.join(parts)}]"),
        st.lists(st.tuples(st.sampled_from("abc"), inner), max_size=5).map(
            lambda pairs: "{" + ",".join(f'"{name}":{one}' for name, one in pairs) + "}"
        ),
    ),
    max_leaves=16,
)


@given(PAIRS, PAIRS)
def test_of_a_name_that_comes_again_the_last_value_counts(first: str, second: str) -> None:
    text = f'{{"a":{first},"b":{second},"a":{second},"c":{first},"b":{first}}}'
    found = read_all([text, text])
    for row in range(2):  # Python has it where the first one stood
        assert sorted(attributes(found, row)) == sorted(leaves(json.loads(text)))


def test_a_name_that_comes_again_and_again_costs_what_others_do() -> None:
    def seconds(names: list[str]) -> float:
        text = "{" + ",".join(f'"{name}":1' for name in names) + "}"
        start = perf_counter()
        assert read_all([text]).row_start[-1] == len(set(names))
        return perf_counter() - start

    seconds(["x", "x"])  # compiles
    n = 200_000
    for names in (["x"] * n, ["x", "y"] * (n // 2)):  # a minute, if each looked at those before it
        assert seconds(names) < 5


def test_depth_has_a_limit() -> None:
    text = '{"a":' + "[" * 63 + "]" * 63 + "}"
    assert read_all([text]).n_rows == 1
    with pytest.raises(ParseError, match="max_depth"):
        read_all([text], Options(63))


def test_errors_tell_the_event_the_byte_and_what_is_there() -> None:
    with pytest.raises(ParseError, match=r"event 1 .* at byte 6: expected a value") as refused:
        read_all(["{}", '{"a": x}'])
    assert "found 'x' in '{\"a\": x}'; expected an object, e.g. {" in str(refused.value)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


@pytest.mark.parametrize("value", [
    b"x", {1}, Decimal(1), np.datetime64("2026-01-01"), object(), 1j, {1: 2}, {None: 1},
    [{"b": {True: 1}}], "\ud800", math, np.datetime64(1, "ns"), np.timedelta64(1, "ns"),
    np.array([1], "M8[ns]"), np.array([{1: 2}], dtype=object), np.array({1: 2}, dtype=object),
    np.array([[[{"b": np.array([{None: 1}, 2])}]]], dtype=object),
])  # fmt: skip
def test_values_that_no_event_has_are_refused(value: Any) -> None:
    with pytest.raises(ParseError, match="event 1 "):
        read_all([{"a": 1}, {"a": value}])
    with pytest.raises(ParseError, match="event 1 "):
        read_all(['{"a": 1}', {"a": value}])


def test_an_event_within_itself_is_refused() -> None:
    event: dict[str, Any] = {}
    event["a"] = event
    with pytest.raises(ParseError, match="event 0 is nested too deep"):
        read_all([event])


@pytest.mark.parametrize("events", [[1], [None], [[]], 3, {1: 2}, "x", [{"a": 1}, 2]])
def test_what_is_no_event_is_refused(events: Any) -> None:
    with pytest.raises(ParseError):
        read_all(events)


def test_scalars_and_arrays_of_numpy_are_numbers() -> None:
    held = np.array([{"x": 1}, "é"], dtype=object)
    assert attributes(read_all([{"a": held}]), 0) == [("a.x", 1), ("a", "é")]
    event = {"a": np.int64(3), "b": np.float32(0.5), "c": np.array([1, 2]), "d": np.bool_(True)}
    assert attributes(read_all([event]), 0) == [
        ("a", 3), ("b", 0.5), ("c", 1), ("c", 2), ("d", True),
    ]  # fmt: skip
