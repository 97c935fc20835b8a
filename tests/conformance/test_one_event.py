"""`match_one` gives what the definition of a match gives, in every form of an event, also when live."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import Case, build, expected, int_keys, str_keys
from tests.predicate_cases import ONE_EACH as PREDICATE_CASES
from tests.predicate_cases import events, subscriptions

ESCAPED = [
    '{"x": "\\u0061b"}',
    '{"x": 1e400}',
    '{"x": 12345678901234567890123}',
    '{"\\u0078": 1}',
    "{",
]


def texts_of(event: dict[str, Any]) -> list[Any]:
    """The event as JSON text and as bytes, if JSON has its numbers."""
    try:
        text = json.dumps(event, allow_nan=False, ensure_ascii=False)
    except ValueError:
        return []
    return [text, text.encode(), json.dumps(event)]


@pytest.mark.parametrize("case", PREDICATE_CASES, ids=lambda case: case.algorithm)
@pytest.mark.parametrize("live", [False, True])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_one_event_of_predicates_goes_where_it_should(
    case: Case, live: bool, data: st.DataObject
) -> None:
    rows = data.draw(
        st.lists(st.tuples(subscriptions(case), str_keys if live else int_keys), max_size=8)
    )
    values, keys = [row for row, _ in rows], [key for _, key in rows]
    index = build(values, keys, case.algorithm, case.options, "predicates", live=live)
    asked = data.draw(st.lists(events(case), max_size=6))
    wanted = expected(values, keys, asked, "predicates")
    for event, want in zip(asked, wanted, strict=True):
        for form in [event, *texts_of(event)]:
            assert Counter(index.match_one(form)) == want
    for text in ESCAPED:
        outcomes = []
        for ask in (index.match_one, lambda text: index.match([text])[0]):
            try:
                outcomes.append(sorted(ask(text)))
            except ValueError as error:
                outcomes.append((type(error), str(error)))
        assert outcomes[0] == outcomes[1]
