"""Subscriptions to filters and back, and filters against the oracle."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchyard.engines.predicates import encoder, oracle
from matchyard.engines.predicates.algorithms.shared.exact_check import (
    enter,
    filter_holds,
    leave,
    no_slots,
)
from matchyard.engines.predicates.encoder.layout import Filters, Vocabulary
from matchyard.engines.predicates.language import Predicate, format, parse
from matchyard.errors import ParseError, UsageError
from tests.engines.predicates.strategies import events, predicates

OPTIONS = encoder.Options()
some_predicates = st.lists(predicates(), max_size=4)


def stage(subscriptions: object, first_key: int = 0) -> encoder.Staging:
    staging = encoder.Staging()
    column = encoder.subscription_column(subscriptions, OPTIONS)
    staging.add(column, np.arange(first_key, first_key + column.n_rows))
    return staging


def coded(subscriptions: object) -> tuple[Filters, Vocabulary]:
    return stage(subscriptions).take()[:2]


def decoded(filters: Filters, vocabulary: Vocabulary) -> list[Predicate]:
    return [encoder.decode(filters, row, vocabulary) for row in range(filters.n_rows)]


def assert_same(left: Filters, right: Filters) -> None:
    for one, other in zip(left, right, strict=True):
        np.testing.assert_array_equal(one, other)


@settings(deadline=None, max_examples=60)
@given(some_predicates)
def test_a_predicate_is_read_back_as_it_was(subscriptions: list[Predicate]) -> None:
    filters, vocabulary = coded(subscriptions)
    assert decoded(filters, vocabulary) == subscriptions
    assert (filters.low <= filters.high).all()
    assert (np.diff(filters.piece_start) >= 1).all()


@settings(deadline=None, max_examples=40)
@given(st.lists(predicates(), min_size=1, max_size=3), st.lists(events(), min_size=1, max_size=3))
def test_filters_hold_for_the_events_that_the_oracle_names(
    subscriptions: list[Predicate], some_events: list[dict[str, object]]
) -> None:
    filters, vocabulary = coded(subscriptions)
    batch = encoder.encode(encoder.column(some_events, OPTIONS), vocabulary)
    first = no_slots(vocabulary.n_slots)
    for number, event in enumerate(some_events):
        has_elements = enter(batch, number, first)
        for row, predicate in enumerate(subscriptions):
            holds = any(
                filter_holds(filters, one, batch, number, first, has_elements)
                for one in range(filters.row_start[row], filters.row_start[row + 1])
            )
            assert holds == oracle.is_match(predicate, event)
        leave(batch, number, first)


@settings(deadline=None, max_examples=40)
@given(some_predicates, some_predicates)
def test_parts_over_different_vocabularies_join_to_what_they_would_be_together(
    left: list[Predicate], right: list[Predicate]
) -> None:
    filters, vocabulary = encoder.merge([coded(left), coded(right)])
    together, other = coded(left + right)
    assert_same(filters, together)
    assert vocabulary.names.to_arrow() == other.names.to_arrow()
    assert vocabulary.texts.to_arrow() == other.texts.to_arrow()
    assert decoded(filters, vocabulary) == left + right


def test_a_lone_part_stays_as_it_is() -> None:
    part = coded(["x > 1"])
    assert encoder.merge([part]) is part


@settings(deadline=None, max_examples=30)
@given(some_predicates, some_predicates)
def test_what_is_put_back_comes_first(left: list[Predicate], right: list[Predicate]) -> None:
    staging = stage(right, len(left))
    staging.put_back(*stage(left).take())
    assert staging.n_rows == len(left) + len(right)
    filters, vocabulary, keys = staging.take()
    assert decoded(filters, vocabulary) == left + right
    assert keys.tolist() == list(range(len(left) + len(right)))
    assert staging.n_rows == staging.n_parts == staging.n_names == 0


@settings(deadline=None, max_examples=30)
@given(some_predicates, st.data())
def test_a_vocabulary_that_has_everything_codes_some_rows_as_before(
    subscriptions: list[Predicate], data: st.DataObject
) -> None:
    filters, vocabulary = coded(subscriptions)
    kept = np.array(
        data.draw(st.lists(st.booleans(), min_size=filters.n_rows, max_size=filters.n_rows)), bool
    )
    some = [one for one, is_kept in zip(subscriptions, kept, strict=True) if is_kept]
    assert_same(encoder.recode(*coded(some), vocabulary), encoder.keep(filters, kept))


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ("x = 1", "y = 1"), ("x = 1", 'x = "a"'), ('x = "a"', 'x = "b"'), ("x = 1", "x = 1.5"),
        ("x = 1.5", "x > 1.5"), ("x = 1.5", f"x = {2**60 + 1}"), ('x = "a"', 'x > "a"'),
        (f"x = {2**64 - 1}", "x = 1"), ('x contains "a"', 'x wildcard "a"'),
    ],
)  # fmt: skip
def test_a_vocabulary_without_a_constant_refuses_it(known: str, asked: str) -> None:
    _, vocabulary = coded([known])
    both = coded([known, asked])
    with pytest.raises(UsageError, match="row 1 has a constraint that is not in the vocabulary"):
        encoder.recode(*both, vocabulary)


def test_equal_predicates_have_equal_arrays_however_they_were_written() -> None:
    rules = [
        "b = 1 and a > 2 or c = 3",
        "c = 3 or a > 2 and b = 1",
        "c in {3} or b = 1.0 and a > 2",
    ]
    filters, _ = coded(rules)
    for row in range(1, len(rules)):
        some = [encoder.keep(filters, np.arange(len(rules)) == one) for one in (0, row)]
        assert_same(*some)


def test_columns_of_all_kinds_are_read() -> None:
    rules = ['temp > 30 and area = "north"', "wind in [1, 2.5]"]
    wanted = [parse(rule) for rule in rules]
    for values in (rules, tuple(rules), iter(rules), np.array(rules), pa.array(rules),
                   pa.chunked_array([rules]), wanted, pa.array(rules).dictionary_encode()):  # fmt: skip
        assert decoded(*coded(values)) == wanted


@pytest.mark.parametrize("values", ["x > 1", {"x": [1]}, b"x"])
def test_one_predicate_is_no_column(values: object) -> None:
    with pytest.raises(ParseError, match="not a column of predicates, but one"):
        encoder.subscription_column(values, OPTIONS)


def test_a_bad_row_is_named() -> None:
    with pytest.raises(ParseError, match="row 1: "):
        encoder.subscription_column(["x > 1", "x >"], OPTIONS)


def test_the_texts_of_rows_parse_back() -> None:
    rules = ["x > 1 or y = 2", 'not (a.x prefix "b" and a.y = 1)', "z exists"]
    filters, vocabulary = coded(rules)
    texts = encoder.texts(filters, 1, 3, vocabulary).to_pylist()
    assert texts == [format(parse(rule)) for rule in rules[1:]]


def test_a_row_is_dealt_out_by_the_slot_that_fewest_use_and_that_it_must_have() -> None:
    rules = ["x = 1 and y = 2", "x = 3", "x = 1 or y = 2", 'x in {1, "a"}', "not (y = 1)"]
    filters, vocabulary = coded(rules)
    names = np.repeat(np.arange(2), np.diff(vocabulary.slot_start))
    found = encoder.rarest(filters)
    assert [vocabulary.names.name(names[slot]) if slot >= 0 else "" for slot in found] == [
        "y", "x", "", "", "",
    ]  # fmt: skip


def test_options_below_one_are_refused() -> None:
    encoder.check(OPTIONS)
    with pytest.raises(UsageError, match='option "max_filters" must be at least 1'):
        encoder.check(OPTIONS._replace(max_filters=0))
    with pytest.raises(ParseError, match="expands to 2 filters, more than max_filters=1"):
        encoder.parse("x = 1 or y = 1", OPTIONS._replace(max_filters=1))
