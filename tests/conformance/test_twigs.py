"""Every algorithm of twigs gives what the definition of a match gives, with room and without, by
both parsers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import matchyard as my
from matchyard.engine import find_engine
from tests.cases import Case, build, counted, expected, int_keys, str_keys
from tests.conformance.test_changes import every_way, run
from tests.engines.twigs.strategies import documents, texts, twigs
from tests.twig_cases import CASES, ONE_EACH

LANGUAGE = find_engine("twigs").language
FIGURE_4 = "<a><c><b><d/></b></c><c><e/></c></a>"  # of the paper
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
one_each = pytest.mark.parametrize("case", ONE_EACH, ids=lambda case: case.algorithm)


def is_small(text: str) -> bool:
    """Does the text stand for no more trees than are allowed?"""
    try:
        LANGUAGE.parse(text)
    except my.ParseError as error:
        if getattr(error, "part", "") != "limit":
            raise
        return False
    return True


subscriptions = twigs() | texts().map(lambda pair: pair[0]).filter(is_small)


def keyed(
    data: st.DataObject, keys: st.SearchStrategy[Any] = int_keys
) -> tuple[list[Any], list[Any]]:
    """Some subscriptions, several of them equal, and keys."""
    rows = data.draw(st.lists(st.tuples(subscriptions, keys), max_size=12))
    if rows:
        again = st.tuples(st.sampled_from([row for row, _ in rows]), keys)
        rows += data.draw(st.lists(again, max_size=3))
    return [row for row, _ in rows], [key for _, key in rows]


def asked_of(data: st.DataObject, most: int = 5) -> list[str]:
    return data.draw(st.lists(documents(), max_size=most))


def index_of(case: Case, rows: Any, keys: Any = None, **more: Any) -> Any:
    return build(rows, keys, case.algorithm, case.options, "twigs", **more)


def want(rows: list[Any], keys: Any, asked: list[Any]) -> list[Counter[Any]]:
    return expected(rows, keys, asked, "twigs")


def test_no_algorithm_of_twigs_escapes_conformance() -> None:
    assert {case.algorithm for case in CASES} == set(find_engine("twigs").algorithms)
    assert {case.options.get("parser", "scan") for case in CASES} == {"scan", "expat"}


@pytest.mark.stepped
@every_case
@given(data=st.data(), as_text=st.booleans(), as_bytes=st.booleans())
def test_twigs_match_as_the_oracle_says(
    case: Case, data: st.DataObject, as_text: bool, as_bytes: bool
) -> None:
    rows, keys = keyed(data)
    asked = asked_of(data)
    parsed = map(LANGUAGE.parse, rows)
    given_rows = pa.array(map(LANGUAGE.format, parsed), pa.string()) if as_text else rows
    given_events = pa.array([one.encode() for one in asked], pa.binary()) if as_bytes else asked
    index = index_of(case, given_rows, np.array(keys, np.int64))
    found, wanted = index.match(given_events), want(rows, keys, asked)
    assert counted(found) == wanted
    assert found.work.matches == sum(map(Counter.total, wanted))
    unique = index.match_unique(given_events)
    assert [sorted(keys) for keys in unique] == [sorted(keys) for keys in wanted]
    assert len(index) == len(rows)


@one_each
@settings(max_examples=8)
@given(data=st.data())
def test_a_saved_index_of_twigs_is_the_same_when_opened(
    case: Case, quick_saves: None, data: st.DataObject
) -> None:
    rows, keys = keyed(data, str_keys)
    asked, more = asked_of(data), data.draw(subscriptions)
    index = index_of(case, rows, keys)
    with TemporaryDirectory() as folder:
        index.save(Path(folder, "an.index"))
        opened = my.open(Path(folder, "an.index"), verify=True, device=index.device)
        assert opened.match(asked).to_lists() == index.match(asked).to_lists()
        assert opened.info() == index.info()
        # And what can be done with it next is the same too.
        again = opened.add(more, "ada").remove("bob").consolidate()
        left = [(row, key) for row, key in zip(rows, keys, strict=True) if key != "bob"]
        left.append((more, "ada"))
        wanted = want([row for row, _ in left], [key for _, key in left], asked)
        assert counted(again.match(asked)) == wanted


@one_each
@settings(max_examples=10)
@given(data=st.data())
def test_two_threads_find_of_twigs_what_one_finds(
    case: Case, small_chunks: int, data: st.DataObject
) -> None:
    rows, keys = keyed(data)
    asked = asked_of(data, 12)
    index = index_of(case, rows, np.array(keys, np.int64))
    one, two = index.match(asked, threads=1), index.match(asked, threads=2)
    assert two.to_lists() == one.to_lists()
    assert counted(two) == want(rows, keys, asked)


@one_each
@settings(max_examples=15)
@given(data=st.data(), gone=int_keys)
def test_shards_of_twigs_find_what_one_table_finds(
    case: Case, data: st.DataObject, gone: int
) -> None:
    rows, keys = keyed(data)
    asked = asked_of(data)
    index = index_of(case, rows, np.array(keys, np.int64), shard_size=3)
    assert index.info()["tables"] == max(1, -(-len(rows) // 3))
    assert counted(index.match(asked)) == want(rows, keys, asked)
    index.remove(gone).consolidate()
    left = [(row, key) for row, key in zip(rows, keys, strict=True) if key != gone]
    wanted = want([row for row, _ in left], [key for _, key in left], asked)
    assert counted(index.match(asked)) == wanted


@every_way
@one_each
def test_any_order_of_changes_leaves_the_twigs_that_a_list_would_hold(
    case: Case, live: str, monkeypatch: pytest.MonkeyPatch, quick_saves: None
) -> None:
    chosen = {"subscriptions": subscriptions, "events": documents()}
    run(live, monkeypatch, case=case, keys=str_keys if live == "live" else int_keys, **chosen)


@every_case
def test_an_empty_index_of_twigs_matches_nothing(case: Case) -> None:
    for index in (my.create("twigs", *case[:2]), index_of(case, [], [])):
        assert index.match(["<a/>", b"<b/>"]).to_lists() == [[], []]
        assert index.match_unique(["<a/>"]).to_lists() == [[]]
        assert index.match(["<a/>"]).work.matches == 0
        assert len(index) == 0


@every_case
def test_an_empty_batch_has_no_matching_twigs(case: Case) -> None:
    index = index_of(case, ["//a", "//a", "/b[@x = 1]"])
    for none in ([], (), np.array([], object), pa.array([], pa.string())):
        found = index.match(none)
        assert (len(found), found.to_lists(), found.work.matches) == (0, [], 0)


@pytest.mark.stepped
@every_case
def test_equal_twigs_count_once_each(case: Case) -> None:
    rows = ["//a[b][@x]", "a[@x and b]", "//a/b"] * 3
    index = index_of(case, rows, [7, 8, 7] * 3)
    assert index.info()["distinct"] == 2
    assert sorted(index.match(["<a x=''><b/></a>"])[0]) == [7] * 6 + [8] * 3
    assert sorted(index.match_unique(["<a x=''><b/></a>"])[0]) == [7, 8]
    index.remove(7, "//a[@x]/b").consolidate()
    assert sorted(index.match(["<a x=''><b/></a>"])[0]) == [7] * 3 + [8] * 3


@pytest.mark.stepped
@every_case
def test_paths_in_two_places_are_no_twig_in_one(case: Case) -> None:
    index = index_of(case, ["/a//c[//d]/e", "/a//c//d", "/a//c/e"])
    assert index.match([FIGURE_4])[0] in ([1, 2], [2, 1])


@every_case
def test_one_malformed_document_is_named_and_the_rest_can_be_matched(
    case: Case, small_chunks: int
) -> None:
    index = index_of(case, ["//a"])
    asked = ["<a/>"] * 4 + ["<a>"] + ["<a/>"]
    with pytest.raises(my.ParseError, match=r"^document 4 at line 1, column 4: "):
        index.match(asked)
    with pytest.raises(my.ParseError, match=r"^document 4 at line 1"):
        index.check(asked)
    assert index.match(asked[:4] + asked[5:]).to_lists() == [[0]] * 5
