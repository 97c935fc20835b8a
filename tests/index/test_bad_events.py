"""Events that cannot be read: refused, or kept aside with their numbers and reasons."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import matchyard as my

MIXED: list[tuple[str, str, Any, Any]] = [
    ("tags", "jazz", ["jazz", 7, "rock", None, "jazz oslo"], {1: "not", 3: "not"}),
    (
        "predicates",
        "temp > 30",
        ['{"temp": 31}', '{"temp": ', '{"temp": 1}', "[1]", '{"temp": 99}'],
        {1: "", 3: ""},
    ),
    ("twigs", "//a", [b"<a/>", b"<a>", b"<b/>", b"", b"<c><a/></c>"], {1: "", 3: ""}),
]


@pytest.mark.parametrize(("engine", "text", "events", "bad"), MIXED, ids=my.ENGINES)
def test_bad_events_match_nothing_and_are_named(
    engine: str, text: str, events: list[Any], bad: dict[int, str]
) -> None:
    index = my.create(engine).add(text, key=1).consolidate()
    with pytest.raises(my.ParseError):
        index.match(events)
    for find in (index.match, index.match_unique):
        matches = find(events, bad="keep")
        assert matches.to_lists() == [[1], [], [], [], [1]]
        assert matches.bad.keys() == bad.keys()
        assert all(str(error).startswith(bad[number]) for number, error in matches.bad.items())
        assert all(isinstance(error, my.ParseError) for error in matches.bad.values())
        assert str(matches.bad) == str(index.bad_events(events))
    assert index.match(events[:1], bad="keep").bad == {}


def test_columns_of_arrow_keep_their_bad_events_too() -> None:
    index = my.TagIndex().add("jazz", key="ada").consolidate()
    events = pa.array([["jazz"], None, ["jazz", None], ["rock"]])
    for column in (events, pa.chunked_array([events[:2], events[2:]])):
        matches = index.match(column, bad="keep")
        assert matches.to_lists() == [["ada"], [], [], []]
        assert set(matches.bad) == {1, 2}
        assert matches.to_arrow().to_pylist() == [{"event": 0, "key": "ada"}]


def test_all_or_none_may_be_bad() -> None:
    index = my.TagIndex().add("jazz", key=1).consolidate()
    assert index.match([], bad="keep").to_lists() == []
    assert index.match([7, 8], bad="keep").to_lists() == [[], []]
    assert set(index.match([7, 8], bad="keep").bad) == {0, 1}


def test_a_senseless_choice_is_refused() -> None:
    with pytest.raises(my.UsageError, match="bad must be 'raise' or 'keep'"):
        my.TagIndex().match([], bad="drop")
    with pytest.raises(my.UsageError):  # not an event, but the call is wrong
        my.TagIndex().match([], threads=0, bad="keep")
