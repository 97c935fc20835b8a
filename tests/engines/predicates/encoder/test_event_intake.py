"""Events as Arrow columns and tables: the same attributes as those of their rows as dicts."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import matchyard as my
from matchyard.engines.predicates.encoder.events import intake
from matchyard.engines.predicates.encoder.events.intake import column
from matchyard.errors import ParseError
from matchyard.index import segment, snapshot
from tests.engines.predicates.encoder.test_json import (
    OPTIONS,
    attributes,
    is_same,
    leaves,
    read_all,
)

ROWS = [
    {"a": 1, "b": "x", "c": True, "d": 0.5},
    {"a": -(2**63), "b": None, "c": None, "d": math.inf},
    {"a": None, "b": "é😀", "c": False, "d": None},
    {"a": 2**63 - 1, "b": "", "c": True, "d": -0.0},
]


def check(events: Any, rows: list[dict[str, Any]]) -> None:
    """Nulls are absent attributes."""
    found = read_all(events)
    assert found.n_rows == len(rows)
    for row, event in enumerate(rows):
        present = [pair for pair in leaves(event) if pair[1] is not None]
        assert is_same(attributes(found, row), present)


def test_tables_of_plain_fields_are_taken_by_column() -> None:
    table = pa.Table.from_pylist(ROWS)
    check(table, ROWS)
    check(table.slice(1, 2), ROWS[1:3])
    check(pa.concat_tables([table, table]), ROWS * 2)
    check(table.to_batches()[0], ROWS)
    check(table.to_struct_array(), ROWS)
    check(table.to_struct_array().combine_chunks().slice(2), ROWS[2:])
    check(pl.from_arrow(table), ROWS)
    check(pl.DataFrame(ROWS)["b"].to_frame(), [{"b": row["b"]} for row in ROWS])
    check(table.select([]), [{}] * 4)


def test_every_width_of_number_and_text_is_taken() -> None:
    for kind in (pa.int8(), pa.uint16(), pa.uint64(), pa.float16(), pa.float32(), pa.int64()):
        values = np.array([1, 0, 3], kind.to_pandas_dtype())
        check(pa.table({"a": pa.array(values, kind)}), [{"a": 1}, {"a": 0}, {"a": 3}])
    check(pa.table({"a": pa.array([2**64 - 1], pa.uint64())}), [{"a": 2**64 - 1}])
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        texts = pa.array(["x", None, "é", "x"]).cast(kind)
        check(pa.table({"t": texts}), [{"t": "x"}, {}, {"t": "é"}, {"t": "x"}])
        check(pa.table({"t": texts}).slice(2), [{"t": "é"}, {"t": "x"}])
    check(
        pa.table({"t": pa.array([None, None]).cast(pa.dictionary(pa.int8(), pa.string()))}),
        [{}, {}],
    )
    check(pa.table({"n": pa.nulls(2), "a": [1, 2]}), [{"a": 1}, {"a": 2}])


def test_nulls_within_a_dictionary_are_absent_too() -> None:
    for values in (["", None, "é"], [2**53 + 1, None, -1], [0.5, None, 2.0], [True, None, False]):
        indices = pa.array([0, 1, None, 2, 1], pa.int8())
        encoded = pa.DictionaryArray.from_arrays(indices, pa.array(values))
        plain = [{"t": values[0]}, {}, {}, {"t": values[2]}, {}]
        check(pa.table({"t": encoded, "u": ["x"] * 5}), [{**row, "u": "x"} for row in plain])
        check(pa.table({"t": encoded}).slice(1, 3), plain[1:4])
    nothing = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([None], pa.string()))
    check(pa.table({"t": nothing}), [{}, {}])
    frame = pd.DataFrame({"x": pd.Categorical([1, 2, None]), "y": pd.Categorical(["a", None, "b"])})
    check(frame, [{"x": 1, "y": "a"}, {"x": 2}, {"y": "b"}])


NUMBERS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
TEXTS = st.one_of(st.none(), st.text(max_size=5))


@given(st.lists(st.tuples(NUMBERS, TEXTS, st.one_of(st.none(), st.booleans())), max_size=6))
def test_rows_with_nulls_are_those_of_python(values: list[tuple[Any, ...]]) -> None:
    rows = [dict(zip("abc", value)) for value in values]
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.bool_())])
    check(pa.Table.from_pylist(rows, schema), rows)


def test_a_dictionary_may_be_longer_than_the_rows_and_of_any_type() -> None:
    texts = pa.array(["x", None, "é", *map(str, range(9))])
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        encoded = pa.DictionaryArray.from_arrays(pa.array([2, None, 1, 0]), texts.cast(kind))
        check(pa.table({"t": encoded}), [{"t": "é"}, {}, {}, {"t": "x"}])
        check(pa.table({"t": encoded}).slice(0, 0), [])
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), pa.array(["x", "y"]))
    for values in (texts.cast(pa.binary_view()), texts.cast(pa.binary()), runs):
        with pytest.raises(ParseError, match="column 't' is of type"):
            read_all(pa.table({"t": pa.DictionaryArray.from_arrays(pa.array([0]), values)}))


def test_structs_get_dotted_names_and_lists_go_through_python() -> None:
    rows = [{"a": {"b": 1, "c": {"d": "x"}}}, {"a": {"b": None, "c": None}}, {"a": None}]
    check(pa.array(rows), rows)
    rows = [{"a": [1, 2], "b": [{"c": 1}, {"c": 2}]}, {"a": [], "b": None}, {"a": None, "b": []}]
    check(pa.array(rows), rows)
    check(pa.Table.from_pylist(rows), rows)
    found = read_all(pa.array(rows))
    assert len(found.element_parent) == 3


def test_maps_from_names_to_values_are_events() -> None:
    rows = [{"a": 1, "b": 2}, {}, {"b": None, "c": 3}]
    kind = pa.map_(pa.string(), pa.int64())
    maps = pa.array([list(row.items()) for row in rows], kind)
    check(maps, rows)
    check(maps.slice(1), rows[1:])
    lists = pa.array([[("a", [1, 2])]], pa.map_(pa.string(), pa.list_(pa.int64())))
    check(lists, [{"a": [1, 2]}])
    with pytest.raises(ParseError, match="event 1 has a name twice"):
        read_all(pa.array([[], [("a", 1), ("a", 2)]], kind))
    with pytest.raises(ParseError, match="names are int64"):
        read_all(pa.array([[(1, 1)]], pa.map_(pa.int64(), pa.int64())))


@pytest.mark.parametrize("kind", [
    pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(),
    pa.binary_view(), pa.dictionary(pa.int32(), pa.string()),
])  # fmt: skip
def test_columns_of_json_are_scanned(kind: pa.DataType) -> None:
    rows = [{"a": 1}, {"b": ["x", {"c": 2.5}]}, {}]
    texts = pa.array([json.dumps(row) for row in rows]).cast(kind)
    check(texts, rows)
    check(texts.slice(1), rows[1:])
    check(pa.chunked_array([texts, texts]), rows * 2)
    with pytest.raises(ParseError, match="event 1 is null"):
        read_all(pa.array(["{}", None]).cast(kind))


def test_pandas_and_numpy_hold_events_too() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [0.5, math.nan]})
    check(frame, [{"a": 1, "b": "x", "c": 0.5}, {"a": 2}])
    rows = [{"a": 2**63, "b": "x"}, {"a": 0.5}]
    check(pd.Series(rows), rows)
    check(np.array(rows), rows)
    check(pd.Series([json.dumps(row) for row in rows]), rows)
    check(pl.Series([json.dumps(row) for row in rows]), rows)
    check(iter(rows), rows)
    check(rows[0], rows[:1])
    check(json.dumps(rows[0]), rows[:1])
    check([], [])
    check(pa.nulls(0), [])


def test_two_columns_of_one_name_are_refused() -> None:
    one, lists = pa.array([1]), pa.array([[1]])
    with pytest.raises(ParseError, match="two columns have the name 'x'"):
        read_all(pa.table([one, one], ["x", "x"]))
    with pytest.raises(ParseError, match="two columns have the name 'x'"):
        read_all(pa.table([one, one, lists], ["x", "x", "y"]))
    struct = pa.StructArray.from_arrays([one, one], ["x", "x"])
    with pytest.raises(ParseError, match=r"two columns have the name 'a\.x'"):
        read_all(pa.table([struct], ["a"]))
    with pytest.raises(ParseError, match="duplicate field names"):
        read_all(pa.table([pa.ListArray.from_arrays([0, 1], struct)], ["a"]))
    with pytest.raises(ParseError, match="Duplicate column names"):
        read_all(pd.DataFrame([[1, 2]], columns=["x", "x"]))


@pytest.mark.parametrize("values", [
    pa.array([1]), pa.array([[{"a": 1}]]), pa.table({"a": pa.array([1], pa.timestamp("s"))}),
    pa.table({"a": pa.array([b"x"])}), pa.array([{"a": 1}, None]), pa.nulls(1),
    np.array(5), pa.array([{"a": [1]}, None]), pa.table({"a": pa.array([[1]], pa.list_(pa.date32()))}),
])  # fmt: skip
def test_columns_that_hold_no_events_are_refused(values: Any) -> None:
    with pytest.raises(ParseError):
        read_all(values)


FORMS = {
    "dicts": list,
    "JSON": lambda events: [json.dumps(event) for event in events],
    "a column of JSON": lambda events: pa.array(map(json.dumps, events)),
    "chunks of JSON": lambda events: pa.chunked_array(
        [list(map(json.dumps, events[:300])), list(map(json.dumps, events[300:]))]
    ),
    "structs": pa.array,
    "a table": pa.Table.from_pylist,
    "a table of chunks": lambda events: pa.concat_tables(
        [pa.Table.from_pylist(events[:700]), pa.Table.from_pylist(events[700:])]
    ),
    "a table of texts with numbers": lambda events: pa.Table.from_pylist(events).set_column(
        1, "b", pa.array([event["b"] for event in events]).dictionary_encode()
    ),
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
}


@pytest.mark.parametrize("form", FORMS)
def test_some_events_of_a_column_are_read_as_they_are_among_all(form: str) -> None:
    rows = [{"a": i, "b": f"text {i}"} for i in range(1000)]
    unread = column(FORMS[form](rows), OPTIONS)
    assert unread.n_rows == len(rows)
    for start, stop in ((0, 1000), (0, 1), (290, 310), (699, 702), (999, 1000), (500, 500)):
        found = unread.rows(start, stop)
        assert found.n_rows == stop - start
        for row, event in enumerate(rows[start:stop]):
            assert is_same(attributes(found, row), leaves(event))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_some_events_of_a_column_of_json_come_with_no_text_of_the_others(kind: pa.DataType) -> None:
    texts = [json.dumps({"a": f'"{i}"'}) for i in range(1000)]  # escapes, so that text is copied
    found = column(pa.array(texts, kind), OPTIONS).rows(500, 510)
    assert len(found.text) <= 2 * sum(map(len, texts[500:510]))
    assert is_same(attributes(found, 9), [("a", '"509"')])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("form", [list, pa.array])
def test_a_bad_event_is_named_by_its_number_among_all(form: Any, threads: int) -> None:
    index = my.PredicateIndex().add("a > 1", 1).consolidate()
    events = ['{"a": 1}'] * 20_000
    events[17_500] = events[19_000] = '{"a": x}'
    with pytest.raises(ParseError, match=r"event 17500 .* at byte 6: expected a value"):
        index.match(form(events), threads=threads)


def test_a_bad_event_is_named_where_those_before_it_cannot_be_read_at_once() -> None:
    indices = pa.array(range(100), pa.int8())
    chunks = [
        pa.StructArray.from_arrays(
            [pa.DictionaryArray.from_arrays(indices, pa.array([f"{i} {j}" for j in range(100)]))],
            ["a"],
            mask=pa.array([i == 1 and j == 50 for j in range(100)]),
        )
        for i in range(2)
    ]  # 200 texts, which an index of 8 bits has no numbers for
    with pytest.raises(ParseError, match=r"^event 150 is null"):
        column(pa.chunked_array(chunks), OPTIONS).rows(100, 200)


def test_a_list_may_change_once_it_was_given() -> None:
    events = [{"a": i} for i in range(10)]
    unread = column(events, OPTIONS)
    events.clear()
    assert is_same(attributes(unread.rows(7, 10), 1), [("a", 8)])


def test_reading_counts_as_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    now, read_json = [0.0], intake.read_json

    def read_slowly(*given: Any) -> Any:
        now[0] += 7
        return read_json(*given)

    monkeypatch.setattr(intake, "read_json", read_slowly)
    for module in (segment, snapshot):
        monkeypatch.setattr(module, "perf_counter", lambda: now[0])
    index = my.PredicateIndex().add("a > 1", 1).consolidate()
    assert index.match([{"a": 2}, {"a": 3}]).encode_s == 7
