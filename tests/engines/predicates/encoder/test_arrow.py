"""Columns with a struct per constraint, against the same predicates one by one."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchyard.engines.predicates import encoder
from matchyard.engines.predicates.language import (
    Constraint,
    Filter,
    Predicate,
    alternatives,
    make_test,
    parse,
)
from matchyard.errors import ParseError
from tests.engines.predicates.encoder.test_subscription_intake import (
    OPTIONS,
    assert_same,
    coded,
    decoded,
)
from tests.engines.predicates.strategies import NETWORKS, PATTERNS, numbers, texts

NUMERIC = ["=", "!=", "<", "<=", ">", ">="]
TEXTUAL = [*NUMERIC, "prefix", "suffix", "contains", "ignore-case", "prefix ignore-case"]
names = st.sampled_from(["x", "y", "a.z"])
doubles = numbers.map(float)


def struct(name: str, op: str, value: Any = None, high: Any = None, text: Any = None) -> Any:
    return {"name": name, "op": op, "value": value, "high": high, "text": text}


constraints = st.one_of(
    st.builds(struct, names, st.sampled_from(NUMERIC), doubles),
    st.tuples(names, doubles, doubles).map(
        lambda t: struct(t[0], "between", min(t[1:]), max(t[1:]))
    ),
    st.builds(lambda n, o, t: struct(n, o, 1.0, None, t), names, st.sampled_from(TEXTUAL), texts),
    st.builds(lambda n, t: struct(n, "wildcard", text=t), names, st.sampled_from(PATTERNS)),
    st.builds(lambda n, t: struct(n, "cidr", text=t), names, st.sampled_from(NETWORKS)),
    st.builds(lambda n: struct(n, "exists"), names),
)
rows = st.lists(st.lists(st.lists(constraints, max_size=3), max_size=3), max_size=4)
FIELDS = {"name": pa.string(), "op": pa.string(), "value": pa.float64(), "high": pa.float64(),
          "text": pa.string()}  # fmt: skip


def predicate(filters: list[list[Any]]) -> Predicate:
    return parse(Predicate(tuple(Filter(tuple(map(constraint, one))) for one in filters)))


def constraint(one: Any) -> Constraint:
    value = one["value"] if one["text"] is None else one["text"]
    if one["op"] == "between":
        value = (value, False, one["high"], False)
    return alternatives(one["name"], [make_test(one["op"], value)])[0]


@settings(deadline=None, max_examples=60)
@given(rows, st.booleans())
def test_a_column_of_structs_is_what_its_constraints_say(
    values: list[list[list[Any]]], is_encoded: bool
) -> None:
    column = pa.array(values, pa.list_(pa.list_(pa.struct(list(FIELDS.items())))))
    if is_encoded:
        kind = pa.dictionary(pa.int16(), pa.string())
        column = column.cast(
            pa.large_list(pa.list_(pa.struct([*({**FIELDS, "name": kind, "op": kind}).items()])))
        )
    filters, vocabulary = coded(column)
    wanted = [predicate(filters) for filters in values]
    assert_same(filters, coded(wanted)[0])
    assert decoded(filters, vocabulary) == wanted


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (pa.int8(), -3, 100), (pa.int64(), -(2**63), 2**53 + 1), (pa.uint64(), 2**63, 2**64 - 1),
        (pa.float32(), 0.5, math.inf), (pa.float64(), -0.0, 1e300), (pa.string(), "a", "é"),
        (pa.dictionary(pa.int8(), pa.string()), "a", "b"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("op", ["between", ">=", "=", "!="])
def test_values_of_all_types_are_exact(kind: pa.DataType, low: Any, high: Any, op: str) -> None:
    values = pa.array([low], pa.string() if pa.types.is_dictionary(kind) else kind).cast(kind)
    ends = pa.array([high], pa.string() if pa.types.is_dictionary(kind) else kind).cast(kind)
    structs = pa.StructArray.from_arrays(
        [pa.array(["x"]), pa.array([op]), values, ends], ["name", "op", "value", "high"]
    )
    column = pa.ListArray.from_arrays([0, 1], structs)
    value = (low, False, high, False) if op == "between" else low
    assert decoded(*coded(column)) == [parse(Constraint("x", (make_test(op, value),)))]


def test_bools_are_no_numbers() -> None:
    column = pa.array([[{"name": "x", "op": "=", "value": True}]])
    assert decoded(*coded(column)) == [parse("x = true")]


def test_slices_and_empty_rows_are_read() -> None:
    one = {"name": "x", "op": ">", "value": 1}
    column = pa.array([[one], [], [one, {**one, "name": "y"}], [one]]).slice(1, 2)
    assert decoded(*coded(column)) == [parse(Filter(())), parse("x > 1 and y > 1")]
    nothing = pa.array([[], []])
    assert decoded(*coded(nothing)) == [parse(Filter(()))] * 2


GOOD = {"name": "x", "op": ">", "value": 1.0}


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ({**GOOD, "op": "=="}, "row 1: no operator '=='; expected one of: =, !=, <"),
        ({**GOOD, "op": "~", "text": "a"}, "row 1: no operator '~'"),
        ({**GOOD, "op": "prefix"}, "row 1: 'prefix' takes text in a column, not a number"),
        ({**GOOD, "value": math.nan}, "row 1: nan compares with nothing"),
        ({**GOOD, "value": None}, "row 1: a constraint without a value"),
        ({**GOOD, "op": "between"}, "row 1: 'between' without a number as 'high'"),
        ({**GOOD, "op": "between", "text": "a"}, "row 1: 'between' without a text as 'high'"),
        ({**GOOD, "op": "between", "high": 0.5}, "row 1: no value lies between"),
        ({**GOOD, "op": "cidr", "text": "a"}, "row 1: not a network: 'a'"),
        ({**GOOD, "name": None}, "row 1: a constraint whose 'name' is null"),
        (None, "row 1: null instead of a constraint"),
    ],
)
def test_a_bad_constraint_is_named_with_its_row(bad: Any, what: str) -> None:
    with pytest.raises(ParseError, match=what):
        encoder.subscription_column(pa.array([[GOOD], [GOOD, bad]]), OPTIONS)


@pytest.mark.parametrize(
    ("field", "what"),
    [("value", "a constraint without a value"), ("name", "a constraint whose 'name' is null"),
     ("op", "a constraint whose 'op' is null"), ("text", "a constraint without a value")],
)  # fmt: skip
def test_a_null_within_a_dictionary_is_a_null(field: str, what: str) -> None:
    fields = {"name": pa.array(["x", "x"]), "op": pa.array(["=", "="])}
    fields["value"] = pa.array(["a", "a"]) if field != "text" else pa.nulls(2)
    words = pa.array(["=" if field == "op" else "a", None])
    fields[field] = pa.DictionaryArray.from_arrays(pa.array([0, 1]), words)
    structs = pa.StructArray.from_arrays(list(fields.values()), list(fields))
    with pytest.raises(ParseError, match=f"row 1: {what}"):
        encoder.subscription_column(pa.ListArray.from_arrays([0, 1, 2], structs), OPTIONS)


def test_dictionaries_of_numbers_and_lists_of_one_size_are_read() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, 0]), pa.array([5, 2**53 + 1]))
    words = pa.array(["x", "y"] * 2), pa.array([">"] * 4)
    structs = pa.StructArray.from_arrays([*words, values], ["name", "op", "value"])
    column = pa.FixedSizeListArray.from_arrays(structs, 2)
    wanted = [parse(f"x > {2**53 + 1} and y > 5")] * 2
    assert decoded(*coded(column)) == wanted
    assert decoded(*coded(column.slice(1))) == wanted[1:]
    pairs = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(structs, 1), 2)
    assert decoded(*coded(pairs.slice(1))) == [parse(f"x > {2**53 + 1} or y > 5")]


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (pa.array([[GOOD], None]), "row 1 is null"),
        (pa.array([[1]]), "its lists are of int64"),
        (pa.array([[{"op": "="}]]), "constraints without 'name'"),
        (pa.array([[{**GOOD, "unit": "m"}]]), "constraints have no 'unit'"),
        (pa.array([[{**GOOD, "high": b"a"}]]), "'high' is of type binary; expected numbers"),
        (pa.array([[{**GOOD, "text": 5}]]), "'text' is of type int64, not text"),
        (pa.array([GOOD]), "rows of one constraint; expected a list of constraints per row"),
        ([[GOOD]], "lists of constraints are taken as an Arrow column, pyarrow.array"),
        (5, "not a column of predicates, but 5; expected predicates"),
        (pa.array([[{**GOOD, "name": 1}]]), "'name' is of type int64, not text"),
        (
            pa.array([[{**GOOD, "value": [1]}]]),
            "'value' is of type list<item: int64>; expected numbers",
        ),
    ],
)
def test_columns_of_something_else_are_refused(column: Any, what: str) -> None:
    with pytest.raises(ParseError, match=what):
        encoder.subscription_column(column, OPTIONS)


def test_numbers_alone_are_not_copied() -> None:
    low = np.random.default_rng(1).random(6)
    structs = pa.StructArray.from_arrays(
        [pa.array(["x"] * 6), pa.array(["between"] * 6), pa.array(low), pa.array(low + 1)],
        ["name", "op", "value", "high"],
    )
    column = encoder.subscription_column(pa.ListArray.from_arrays([0, 3, 6], structs), OPTIONS)
    assert np.shares_memory(column.pieces.low, structs.field("value").to_numpy())
