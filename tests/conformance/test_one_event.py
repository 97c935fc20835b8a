"""Single events, and recent additions: they give what the definition of a match gives, in every form."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import CASES as TAG_CASES
from tests.cases import ONE_EACH as ONE_EACH_OF_TAGS
from tests.cases import Case, empty, expected, int_keys, str_keys
from tests.cases import events as tag_events
from tests.cases import subscriptions as tag_sets
from tests.conformance.test_twigs import subscriptions as twigs
from tests.engines.twigs.strategies import documents
from tests.predicate_cases import ONE_EACH as PREDICATE_CASES
from tests.predicate_cases import events, subscriptions
from tests.twig_cases import CASES as TWIG_CASES

ESCAPED = [
    '{"x": "\\u0061b"}',
    '{"x": "tab\\t", "y": "\\ud83e\\udd89"}',
    '{"x": 1e400}',
    '{"x": 12345678901234567890123}',
    '{"\\u0078": 1}',
    "{",
]
every_way = pytest.mark.parametrize("how", ["compiled", "recent", "both"])


def index_of(case: Case, how: str, rows: list[tuple[Any, Any]]) -> Any:
    """An index of rows that are compiled, recent additions, or half and half."""
    index = empty(case.engine, case.algorithm, case.options, live=how != "compiled")
    n_compiled = {"compiled": len(rows), "recent": 0, "both": len(rows) // 2}[how]
    if n_compiled or how == "compiled":
        first = rows[:n_compiled]
        index.add_many([row for row, _ in first], [key for _, key in first]).consolidate()
    for row, key in rows[n_compiled:]:
        index.add(row, key)
    return index


def check(case: Case, how: str, rows: list[tuple[Any, Any]], asked: list[Any], forms: Any) -> Any:
    """All ways to ask give what the oracle gives; returns the index."""
    index = index_of(case, how, rows)
    wanted = expected([row for row, _ in rows], [key for _, key in rows], asked, case.engine)
    for event, want in zip(asked, wanted, strict=True):
        for form in forms(event):
            assert Counter(index.match_one(form)) == want
            assert Counter(index.match([form])[0]) == want
    assert [Counter(keys) for keys in index.match(asked)] == wanted
    assert [sorted(keys) for keys in index.match_unique(asked)] == [sorted(keys) for keys in wanted]
    return index


def json_forms(event: dict[str, Any]) -> list[Any]:
    """The event, and its JSON as text and bytes if JSON has its numbers."""
    try:
        text = json.dumps(event, allow_nan=False, ensure_ascii=False)
    except ValueError:
        return [event]
    return [event, text, text.encode(), json.dumps(event)]


@pytest.mark.parametrize("case", PREDICATE_CASES, ids=lambda case: case.algorithm)
@every_way
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_one_event_of_predicates_goes_where_it_should(
    case: Case, how: str, data: st.DataObject
) -> None:
    keys = int_keys if how == "compiled" else str_keys
    rows = data.draw(st.lists(st.tuples(subscriptions(case), keys), max_size=8))
    asked = data.draw(st.lists(events(case), max_size=6))
    index = check(case, how, rows, asked, json_forms)
    for text in ESCAPED:
        outcomes = []
        for ask in (index.match_one, lambda text: index.match([text, "{}"])[0]):
            try:
                outcomes.append(sorted(ask(text)))
            except ValueError as error:
                outcomes.append((type(error), str(error)))
        assert outcomes[0] == outcomes[1]


def tag_forms(event: list[str]) -> list[Any]:
    """The event as different kinds of sets, and as text if its tags have no white space."""
    forms: list[Any] = [event, tuple(event), set(event), frozenset(event)]
    is_text = all(tag and not any(letter.isspace() for letter in tag) for tag in event)
    return [*forms, " ".join(event), f"\u2003{'  '.join(event)}\n"] if is_text else forms


@pytest.mark.parametrize("case", TAG_CASES, ids=lambda case: case.name)
@every_way
@settings(max_examples=15, deadline=None)
@given(rows=st.lists(st.tuples(tag_sets, int_keys), max_size=10), asked=st.lists(tag_events))
def test_one_event_of_tags_goes_where_it_should(
    case: Case, how: str, rows: list[tuple[Any, Any]], asked: list[Any]
) -> None:
    check(case, how, rows, asked, tag_forms)


@pytest.mark.parametrize("case", ONE_EACH_OF_TAGS, ids=lambda case: case.name)
@pytest.mark.parametrize("options", [{"casefold": True}, {"normalize": "NFKC", "casefold": True}])
@settings(max_examples=15, deadline=None)
@given(
    rows=st.lists(st.tuples(st.lists(st.sampled_from(["a", "A", "ﬁ", "FI", "é", "É"])), int_keys)),
    asked=st.lists(st.lists(st.sampled_from(["A", "a", "fi", "ﬁ", "é", "e\u0301", "z"]))),
)
def test_folded_tags_match_alike_in_every_way(
    case: Case, options: dict[str, Any], rows: list[tuple[Any, Any]], asked: list[Any]
) -> None:
    folding = case._replace(options={**case.options, **options})
    compiled, recent = (index_of(folding, how, rows) for how in ("compiled", "recent"))
    wanted = [Counter(keys) for keys in compiled.match([*asked, ["z"]])]
    for index in (compiled, recent):
        assert [Counter(index.match_one(event)) for event in [*asked, ["z"]]] == wanted


@pytest.mark.parametrize("case", TWIG_CASES, ids=lambda case: case.name)
@every_way
@settings(max_examples=15, deadline=None)
@given(
    rows=st.lists(st.tuples(twigs, int_keys), max_size=8), asked=st.lists(documents(), max_size=4)
)
def test_one_document_goes_where_it_should(
    case: Case, how: str, rows: list[tuple[Any, Any]], asked: list[Any]
) -> None:
    check(case, how, rows, asked, lambda text: [text, text.encode()])
