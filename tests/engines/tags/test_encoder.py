"""Columns in every form that users have; what cannot be read is named by its row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import matchyard as my
from matchyard.engines.tags import encoder
from matchyard.engines.tags.encoder import Options, Staging, column, decode, encode, merge
from tests.cases import CASES, Case, build

ROWS = [["jazz", "live"], [], ["日本", "🦉", "jazz"], ["live"]]
TEXT = ["jazz live", "", "日本 🦉  jazz", " live\n"]
LISTS = pa.array(ROWS, pa.list_(pa.string()))
LARGE = pa.array(ROWS, pa.large_list(pa.large_string()))
CODED = pa.ListArray.from_arrays(LISTS.offsets, LISTS.values.dictionary_encode())
OBJECTS = np.empty(4, object)
OBJECTS[:] = ROWS

FORMS = {
    "lists": ROWS,
    "tuple of sets": tuple(map(set, ROWS)),
    "generators": None,  # they can be read once, so they are made where they are read
    "list of text": TEXT,
    "numpy objects": OBJECTS,
    "numpy objects of sets": np.array([set(row) for row in ROWS], object),
    "numpy text": np.array(TEXT),
    "arrow lists": LISTS,
    "arrow large lists": LARGE,
    "arrow lists of string views": LISTS.cast(pa.list_(pa.string_view())),
    "arrow text": pa.array(TEXT),
    "arrow large text": pa.array(TEXT, pa.large_string()),
    "arrow string views": pa.array(TEXT, pa.string_view()),
    "arrow categories of text": pa.array(TEXT).dictionary_encode(),
    "arrow lists of categories": CODED,
    "arrow chunks": pa.chunked_array([LISTS[:1], LISTS[1:1], LISTS[1:]]),
    "arrow chunks of text": pa.chunked_array([TEXT[:2], TEXT[2:]]),
    "arrow slice": pa.concat_arrays([LISTS[2:], LISTS, LISTS[:1]])[2:6],
    "arrow slice of large lists": pa.concat_arrays([LARGE[1:], LARGE])[3:],
    "arrow slice of text": pa.array(["x", *TEXT, "y z"])[1:5],
    "arrow slice of categories": pa.concat_arrays([CODED, CODED])[4:],
    "pandas lists": pd.Series(ROWS, index=[9, 8, 7, 6]),
    "pandas sets": pd.Series([set(row) for row in ROWS]),
    "pandas text": pd.Series(TEXT),
    "pandas strings": pd.Series(TEXT, dtype="string"),
    "pandas categories": pd.Series(TEXT, dtype="category"),
    "pandas arrow": pd.Series(LISTS, dtype=pd.ArrowDtype(LISTS.type)),
    "polars lists": pl.Series(ROWS),
    "polars text": pl.Series(TEXT),
    "polars slice": pl.Series([["x"], *ROWS, ["y"]])[1:5],
    "polars categories": pl.Series(ROWS, dtype=pl.List(pl.Categorical)),
}
TEXTUAL = [form for form in FORMS if "text" in form] + [
    "arrow string views", "pandas strings", "pandas categories",
]  # fmt: skip


def staged(rows: Any) -> tuple[Any, Any]:
    staging = Staging()
    staging.add(rows, np.arange(rows.n_rows))
    batch, names, keys = staging.take()
    assert keys.tolist() == list(range(rows.n_rows))
    return batch, names


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_column_means_the_same_sets(form: str) -> None:
    values = FORMS[form]
    if form == "generators":
        values = [iter(row) for row in ROWS]
    read = column(values, Options())
    batch, names = staged(read)
    assert [decode(batch, row, names) for row in range(4)] == [set(row) for row in ROWS]


@pytest.mark.parametrize("form", [form for form in FORMS if form != "generators"])
def test_every_form_of_column_can_be_stored_and_asked(form: str) -> None:
    stored: Any = FORMS[form]
    if form in TEXTUAL:  # with a blank text, which is an event but no subscription
        with pytest.raises(
            my.ParseError, match="row 1: not a set of tags: column 1: found the end"
        ):
            build(stored, [10, 20, 30, 40])
        stored = ["live jazz", [], "🦉 jazz\t日本", "live"]
    found = build(stored, [10, 20, 30, 40]).match(FORMS[form])
    assert [sorted(keys) for keys in found] == [[10, 20, 40], [20], [20, 30], [20, 40]]


BAD = [
    (["a", None], "row 1: not a set of tags: None; expected"),
    ([["a"], ["b", 5]], "row 1: not a tag: 5 in .*expected"),
    ([["a"], [["b"]]], "row 1: not a set of tags: .*expected"),
    ([{"a": 1}], "row 0: not a set of tags: .*expected"),
    ([["\ud800"]], "not valid Unicode: .*expected"),
    (pa.array([["a"], None]), "row 1 is null; expected"),
    (pa.array(["a", None, "b"]), "row 1 is null; expected"),
    (pa.array([["a"], [], ["b", None]]), "row 2 has a tag that is null; expected"),
    (pa.array([["x"], ["a"], ["b", None]])[1:], "row 1 has a tag that is null; expected"),
    (pa.array([[1]]), "its tags are int64; expected"),
    (pa.array([1]), "its type is int64; expected"),
    (pa.array([None, None]), "its type is null; expected"),
    (pd.Series(["a", None]), "row 1 is null; expected"),
    (pd.Series([["a"], float("nan")]), "row 1 is null; expected"),
    (pl.Series([["a"], None]), "row 1 is null; expected"),
    (np.array([1.5]), "its type is double; expected"),
    (5, "not a column of tag sets: .*expected"),
    (None, "not a column of tag sets: .*expected"),
    ("jazz live", "but one str: 'jazz live'; expected a list"),
    ({"jazz"}, "but one set: .*expected a list"),
    ({"jazz": 1}, "but one dict: .*expected a list"),
    (b"jazz", "but one bytes: .*expected a list"),
]


@pytest.mark.parametrize(("values", "message"), BAD, ids=[message for _, message in BAD])
def test_a_bad_column_is_refused_with_row_and_expectation(values: Any, message: str) -> None:
    for call in (my.TagIndex().match, lambda rows: my.TagIndex().add_many(rows, [1, 2, 3])):
        with pytest.raises(my.ParseError, match=message):
            call(values)


@pytest.mark.parametrize(
    ("options", "stored", "asked", "matches"),
    [
        ({}, "Jazz", "jazz", False),
        ({"casefold": True}, "JAZZ STRASSE", "jazz straße", True),
        ({"casefold": True}, "caf\u00e9", "CAFE\u0301", False),
        ({"normalize": "NFC"}, "caf\u00e9", "cafe\u0301", True),
        ({"normalize": "NFC"}, "\ufb01", "fi", False),
        ({"normalize": "NFKD"}, "\ufb01", "fi", True),
        ({"normalize": "NFD", "casefold": True}, "CAF\u00c9", "cafe\u0301", True),
        ({"normalize": "NFKC", "casefold": True}, "\u2121", "tel", True),
        ({"normalize": "NFKC", "casefold": True}, "\u2121", "\u2121", True),
    ],
)
def test_tags_are_folded_and_normalised_where_an_option_asks(
    options: dict[str, Any], stored: str, asked: str, matches: bool
) -> None:
    index = my.TagIndex(options=options)
    index.add(stored, 1).add_many([stored], [2]).add_many(pa.array([stored]), [3]).consolidate()
    want = [1, 2, 3] if matches else []
    assert sorted(index.match([asked])[0]) == sorted(index.match(pa.array([asked]))[0]) == want
    assert index.explain(asked, 1).startswith("match" if matches else "missing")
    index.remove(1, asked).remove(2, stored).consolidate()
    assert sorted(index.match([stored])[0]) == ([3] if matches else [1, 3])


def test_an_unknown_normal_form_is_refused() -> None:
    with pytest.raises(my.UsageError, match="'NFX'; expected one of: NFC"):
        my.TagIndex(options={"normalize": "NFX"}).add("a", 1)


def test_more_tags_than_the_limit_are_refused_and_the_row_is_named() -> None:
    index = build([["a", "b"]], [1], options={"max_tags": 2})
    for rows in ([["a"], list("abc")], pa.array([["a"], list("abc")])):
        with pytest.raises(my.ParseError, match=r'row 1 has 3 tags; the limit is 2 .*"max_tags"'):
            index.match(rows)
    assert index.match([["a", "b"]])[0] == [1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_event_may_have_thousands_of_tags(case: Case) -> None:
    tags = [f"t{number}" for number in range(4096)]
    index = build([tags, tags[:2], ["t1", "no"], []], None, *case[:2])
    assert sorted(index.match([tags])[0]) == [0, 1, 3]


def test_the_vocabulary_counts_tags_and_numbers_the_most_frequent_first() -> None:
    some = staged(column([["c"], ["a", "b"], ["b", "c"], ["b"]], Options()))
    others = staged(column([["d"], ["b"], []], Options()))
    batch, names = merge([some, others])
    assert names.to_arrow().to_pylist()[:2] == ["b", "c"]
    assert names.counts().tolist() == [4, 2, 1, 1]
    want = [{"c"}, {"a", "b"}, {"b", "c"}, {"b"}, {"d"}, {"b"}, set()]
    assert [decode(batch, row, names) for row in range(7)] == want


def test_unknown_tags_are_left_out_of_the_ids_and_kept_in_the_signature() -> None:
    names = merge([staged(column([["a", "b"]], Options()))])[1]
    asked = column([["z", "b", "y", "a", "b"], ["z"], []], Options())
    batch = encode(asked.rows(0, 3), names, 192, 7, False)
    assert [sorted(set(batch.tags[batch.tag_start[i] : batch.tag_start[i + 1]])) for i in range(3)] == [
        [0, 1], [], [],
    ]  # fmt: skip
    assert batch.signatures[1].any()
    assert not batch.signatures[2].any()
    part = encode(asked.rows(1, 3), names, 192, 7, False)
    assert (part.signatures == batch.signatures[1:]).all()


@pytest.mark.parametrize("wrap", [lambda rows: np.array(rows, object), pd.Series, iter])
def test_columns_of_python_sets_are_read_one_by_one(wrap):
    rows = [{"jazz", "live"}, {"oslo"}]
    index = my.TagIndex().add_many(wrap(rows), [1, 2]).consolidate()
    assert index.match(wrap(rows)).to_lists() == [[1], [2]]


@pytest.mark.parametrize("n_rows", [0, 1, 7, 60])
def test_sets_are_the_same_over_another_vocabulary(n_rows):
    """Of few rows only their own tags are looked up, of many rows all."""
    parts = []
    for shift in (0, 20):
        staging = Staging()
        rows = [[f"t{shift + row % 40}", f"u{row}"] for row in range(60)]
        staging.add(column(rows, Options()), np.arange(60))
        parts.append((rows, *staging.take()[:2]))
    whole = encoder.merge_counts([encoder.counts(*part[1:]) for part in parts])
    for rows, batch, vocabulary in parts:
        some = batch.take(np.arange(n_rows)[::-1])
        coded = encoder.recode(some, vocabulary, whole)
        assert coded.n_rows == n_rows
        for row in range(n_rows):
            assert decode(coded, row, whole) == frozenset(rows[n_rows - 1 - row])
