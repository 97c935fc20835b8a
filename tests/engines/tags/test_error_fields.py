"""The fields of errors about tags; blank text is no subscription, but an event without tags."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import matchyard as my
from matchyard import shards
from matchyard.engines.tags.language import EXAMPLE

SET = 'a set of strings such as {"jazz", "live"} or text such as "jazz live"'
TAGS = 'tags, e.g. ["jazz", "live"]'
MANY = [f"t{i}" for i in range(5000)]
BLANK = (1, "the end", "a tag", "jazz oslo")

# a subscription; column, found, expected and example
WRONG = [
    ("", *BLANK),
    ("   ", *BLANK),
    (" \t\n\u3000", *BLANK),
    (5, None, "5", SET, EXAMPLE),
    (b"jazz", None, "b'jazz'", SET, EXAMPLE),
    ([["jazz"]], None, "[['jazz']]", SET, EXAMPLE),
    (["jazz", None], None, "None", SET, EXAMPLE),
    (["\ud800"], None, "'\\ud800'", TAGS, EXAMPLE),
    (MANY, None, "5000 tags", "at most 4096 tags", EXAMPLE),
]


def fields(error: my.ParseError) -> tuple[Any, ...]:
    return error.column, error.found, error.expected, error.example


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: repr(wrong[0])[:20])
@pytest.mark.parametrize("is_many", [False, True], ids=["add", "add_many"])
def test_an_error_has_its_fields(wrong: tuple[Any, ...], is_many: bool) -> None:
    index = my.TagIndex()
    with pytest.raises(my.ParseError) as caught:
        index.add_many([["jazz"], wrong[0]], [1, 2]) if is_many else index.add(wrong[0], 1)
    assert fields(caught.value) == wrong[1:]
    assert index.parse(caught.value.example)


# a column of subscriptions; what is found in it, and expected
COLUMNS: list[tuple[Any, str, str]] = [
    ("jazz live", "one str: 'jazz live'", 'a list of tag sets, e.g. [{"jazz", "live"}]'),
    (pa.table({"a": [1]}), "a table of columns", 'a list of tag sets, e.g. [{"jazz", "live"}]'),
    (pa.array([1]), "int64", TAGS),
    (pa.array([[1]]), "int64", TAGS),
    (pa.array(["jazz", None]), "null", TAGS),
    (pa.array([["jazz", None]]), "null", TAGS),
    (pa.array([MANY]), "5000 tags", "at most 4096 tags"),
]


@pytest.mark.parametrize(("column", "found", "expected"), COLUMNS)
def test_an_error_of_a_column_has_its_fields(column: Any, found: str, expected: str) -> None:
    with pytest.raises(my.ParseError) as caught:
        my.TagIndex().add_many(column, [1])
    assert fields(caught.value) == (None, found, expected, EXAMPLE)


TEXTS = ["jazz", " ", ""]


@pytest.mark.parametrize(
    "texts",
    [
        TEXTS, tuple(TEXTS), iter(TEXTS), np.array(TEXTS), pa.array(TEXTS), pa.chunked_array([TEXTS]),
        pa.array(TEXTS, pa.large_string()), pa.array(TEXTS, pa.string_view()),
        pa.array(TEXTS).dictionary_encode(),
    ],
    ids=lambda texts: type(texts).__name__,
)  # fmt: skip
def test_a_blank_text_among_many_is_named_and_nothing_is_added(texts: Any) -> None:
    index = my.TagIndex()
    with pytest.raises(my.ParseError, match=r"^row 1: not a set of tags: column 1") as caught:
        index.add_many(texts, [1, 2, 3])
    assert fields(caught.value) == BLANK
    assert index.info()["staged"] == 0


def test_every_verb_that_takes_a_subscription_refuses_blank_text() -> None:
    index = my.TagIndex().add(set(), 1)
    for verb in (
        lambda: index.parse(""),
        lambda: index.remove(1, ""),
        lambda: index.texts([""]),
        lambda: index.parse_column(pa.array([""])),
        lambda: shards.check(pa.array(["jazz", ""]), shards.Plan("tags")),
    ):
        with pytest.raises(my.ParseError, match="matches every event"):
            verb()
    assert index.consolidate().match([""]).to_lists() == [[1]]


@pytest.mark.parametrize(
    "nothing", [set(), [], (), frozenset()], ids=lambda nothing: type(nothing).__name__
)
def test_the_empty_set_still_matches_every_event(nothing: Any) -> None:
    index = my.TagIndex().add(nothing, 1).add_many([nothing], [2])
    index.add_many(pa.array([[]], pa.list_(pa.string())), [3]).consolidate()
    assert [sorted(keys) for keys in index.match([{"jazz"}, set()])] == [[1, 2, 3]] * 2
    assert index.remove(1, nothing).consolidate().match_unique(["jazz"])[0] == [2, 3]


@pytest.mark.parametrize("events", [["", " "], pa.array(["", " "])], ids=["list", "Arrow"])
def test_a_blank_text_is_an_event_without_tags(events: Any) -> None:
    index = my.TagIndex().add("jazz", 1).add([], 2).consolidate()
    assert index.match(events).to_lists() == [[2], [2]]
    assert index.parse_event("") == frozenset()
    assert index.explain("", 1) != index.explain("jazz", 1)
