"""Conditions of any form keep their meaning as disjunctions of filters, which have one form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from matchyard.engines.conditions import And, Not, Or
from matchyard.engines.predicates.language import (
    Constraint,
    Filter,
    Predicate,
    Test,
    alternatives,
    format,
    make_test,
    parse,
    successor,
)
from matchyard.engines.predicates.language.normal_form import Condition, normalise
from matchyard.engines.predicates.oracle import is_match
from matchyard.engines.predicates.oracle.arrays import View, find_view, views
from matchyard.engines.predicates.oracle.values import satisfies
from matchyard.errors import ParseError
from tests.engines.predicates import strategies as given_some


def grown(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Conjunctions and disjunctions of what is given."""
    return st.recursive(
        leaf,
        lambda part: (
            st.builds(And, st.lists(part, max_size=3).map(tuple))
            | st.builds(Or, st.lists(part, max_size=3).map(tuple))
        ),
        max_leaves=4,
    )


kept = given_some.constraints().map(lambda one: alternatives(*one)[0])
negated_once = grown(kept | st.builds(Not, grown(kept)))
any_condition = st.recursive(kept, lambda part: grown(part | st.builds(Not, part)), max_leaves=5)


def names_of(condition: Condition) -> set[str]:
    if isinstance(condition, Constraint):
        return {condition.name}
    parts = (condition.part,) if isinstance(condition, Not) else condition.parts
    return {name for part in parts for name in names_of(part)}


def holds(condition: Condition, view: View, is_false: dict[int, bool]) -> bool:
    """The meaning of a condition as it was written; that of each `not` is known."""
    if isinstance(condition, Constraint):
        values = [value for name, value in view if name == condition.name]
        return any(satisfies(value, test) for value in values for test in condition.tests)
    if isinstance(condition, Not):
        return is_false[id(condition)]
    if isinstance(condition, And):
        return all(holds(part, view, is_false) for part in condition.parts)
    return any(holds(part, view, is_false) for part in condition.parts)


def is_held(condition: Condition, event: dict[str, Any]) -> bool:
    """Is there a view for which the condition holds? What is negated is asked of the whole event."""
    is_false: dict[int, bool] = {}

    def ask(part: Condition) -> None:
        if isinstance(part, Not):
            is_false[id(part)] = not is_held(part.part, event)
        elif not isinstance(part, Constraint):
            for inner in part.parts:
                ask(inner)

    ask(condition)
    return any(holds(condition, view, is_false) for view in views(event, names_of(condition)))


def few_filters(condition: Condition) -> Predicate:
    """The predicate of a condition; those that expand to many filters only take long."""
    try:
        return normalise(condition, max_filters=100)
    except ParseError:
        return reject()


@settings(max_examples=150)
@given(negated_once, given_some.events())
def test_filters_mean_what_the_condition_means(condition: Condition, event: dict[str, Any]) -> None:
    assert is_match(few_filters(condition), event) == is_held(condition, event)


@settings(max_examples=100)
@given(any_condition, given_some.flat_events())
def test_negations_of_negations_mean_it_too(condition: Condition, event: dict[str, Any]) -> None:
    assert is_match(few_filters(condition), event) == is_held(condition, event)


@settings(max_examples=100)
@given(given_some.predicates(2, 2), given_some.events())
def test_not_is_true_exactly_when_the_predicate_is_false(
    predicate: Predicate, event: dict[str, Any]
) -> None:
    parts = [
        And((*one.holds, *(Not(And(group)) for group in one.fails))) for one in predicate.filters
    ]
    negated = few_filters(Not(Or(tuple(parts))))
    assert is_match(negated, event) != is_match(predicate, event)


@settings(max_examples=100)
@given(given_some.constraints(), given_some.leaves())
def test_a_constraint_as_it_is_kept_holds_for_the_same_values(
    constraint: Constraint, value: Any
) -> None:
    found = any(satisfies(value, test) for test in constraint.tests)
    kept = [test for one in alternatives(*constraint) for test in one.tests]
    assert any(satisfies(value, test) for test in kept) == found


@settings(max_examples=100)
@given(given_some.predicates())
def test_what_is_kept_stays_as_it_is(predicate: Predicate) -> None:
    assert parse(predicate) == predicate
    assert parse(format(predicate)) == predicate
    for one in predicate.filters:
        assert list(one.fails) == list(dict.fromkeys(one.fails))


@given(st.lists(given_some.constraints(), max_size=4), st.randoms())
def test_order_and_repetition_do_not_matter(constraints: list[Constraint], random: Any) -> None:
    shuffled = [*constraints, *constraints[:2]]
    random.shuffle(shuffled)
    assert parse(Filter(tuple(shuffled))) == parse(Filter(tuple(constraints)))


SAME = [
    ("x = 1", "x in [1, 1]"),
    ("x = 1", "x = 1.0"),
    ("x = 0", "x = -0.0"),
    ("x in {1, 2}", "x in {2, 1, 2.0}"),
    ("x != 1", "x in {< 1, > 1}"),
    ("x != 1", "x in {> 1, != 1}"),
    ("x != true", "x = false"),
    ('x prefix "ab"', 'x in ["ab", "ac")'),
    ('x prefix ""', 'x >= ""'),
    ('x prefix "\U0010ffff"', 'x >= "\U0010ffff"'),
    ('x prefix "a\U0010ffff"', 'x in ["a\U0010ffff", "b")'),
    ('x prefix "\ud7ff"', 'x in ["\ud7ff", "\ue000")'),
    ('x except prefix {"a", "ab"}', 'x except prefix "a"'),
    ('x except suffix {"a", "ba"}', 'x except suffix "a"'),
    ('x except {1, "a", true, false, null}', 'x in {!= 1, != "a"}'),
    ("x in {1, exists}", "exists x"),
    ("x in {1, except 5}", "x = 1 or x except 5"),
    ('x = "Straße" ignoring case', 'x = "STRASSE" ignoring case'),
    ('x in cidr "10.1.2.3/8"', 'x in cidr "10.0.0.0/8"'),
    ('x wildcard "a**"', 'x wildcard "a*"'),
    ("a = 1 and b = 2", "b = 2 and (a = 1) and b = 2"),
    ("not not a = 1", "a = 1"),
    ("not (a = 1 or b = 2)", "not a = 1 and not b = 2"),
    ("not (x = 1 and y = 4)", "not (y = 4 and (x = 1 and not not x = 1))"),
    ("not (x = 1 and not y = 4)", "not x = 1 or y = 4"),
    ("not (x = 1 and (y = 4 or z = 2))", "not (x = 1 and y = 4) and not (x = 1 and z = 2)"),
    ("not (x = 1 and true)", "not x = 1"),
    ("not (x = 1 and false)", "true"),
    ("x not in {1, 2}", "not (x in {1, 2})"),
    ("true and a = 1", "a = 1"),
    ("true", "not false"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_predicates_are_equal_however_they_are_written(one: str, other: str) -> None:
    assert parse(one) == parse(other)
    assert hash(parse(one)) == hash(parse(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1", "x = true"),
        ("x = 0", "x = false"),
        ("x except {0, 1}", "x except {false, 1}"),
        ("x = null", "not exists x"),
        ('x except prefix "a"', 'x in {< "a", >= "b"}'),  # the former also takes numbers
        ('x except prefix "\U0010ffff"', 'x < "\U0010ffff"'),
        ('x except prefix {"a", "b"}', 'x except prefix {"a", "c"}'),
        ("x = 9007199254740993", "x = 9007199254740992"),
        ("not (a.x = 1 and a.y = 4)", "not a.x = 1 or not a.y = 4"),
        ("not (x = 1 and y = 4)", "not x = 1 or not y = 4"),  # the same meaning, other filters
    ],
)
def test_different_predicates_are_different(one: str, other: str) -> None:
    assert parse(one) != parse(other)


def test_a_negated_filter_is_one_group_and_a_filter_per_group_that_it_had() -> None:
    x, y, z = (Constraint(name, (Test("=", 1),)) for name in ("a.x", "a.y", "z"))
    assert parse("not (a.x = 1 and z = 1 and a.y = 1)").filters == (Filter((), ((x, y, z),)),)
    assert parse("not (z = 1 and not (a.x = 1 and a.y = 1) and not z = 1)").filters == (
        Filter((), ((z,),)),
        Filter((x, y), ()),
        Filter((z,), ()),
    )
    assert parse("not (z = 1 and (a.x = 1 or not a.y = 1))").filters == (
        Filter((), ((x, z), (z,))),
        Filter((y,), ((x, z),)),
    )


def test_ten_thousand_filters_are_fine_and_a_limit_is_told() -> None:
    text = " or ".join(f"x{i} = {i}" for i in range(10_000))
    assert len(parse(text).filters) == 10_000
    with pytest.raises(ParseError, match="expands to 10000 filters, more than max_filters=9999"):
        parse(text, max_filters=9_999)
    both = " and ".join(f"(a{i} = 1 or b{i} = 2)" for i in range(20))
    with pytest.raises(ParseError, match="expands to 1048576 filters, more than max_filters=16384"):
        parse(both)
    either = " or ".join(f"a{i} = 1 and b{i} = 2" for i in range(200))
    assert len(parse(f"not ({either})").filters) == 1


def test_a_successor_is_the_first_text_after_all_with_the_prefix() -> None:
    assert successor("ab") == "ac"
    assert successor("a\U0010ffff") == "b"
    assert successor("\ud7ff") == "\ue000"
    assert successor("") is successor("\U0010ffff") is None
    assert make_test("prefix", "ab") == Test("prefix", "ab")


def test_rows_take_one_element_of_each_array_of_objects() -> None:
    event = {"a": [{"x": 1}, 7, [{"x": 2}]], "b": [{"x": 3}, {"x": 4}], "c": [[1], 2]}
    assert list(views(event, {"a.x", "a"})) == [[("a", 7), ("a.x", 1)], [("a", 7), ("a.x", 2)]]
    assert len(list(views(event, {"a.x", "b.x"}))) == 4
    assert list(views(event, {"c"})) == [[("c", 1), ("c", 2)]]
    assert find_view((), {}) == []


def holds_in(constraint: Constraint, view: View) -> bool:
    values = [value for name, value in view if name == constraint.name]
    return any(satisfies(value, test) for value in values for test in constraint.tests)


@settings(max_examples=200)
@given(st.lists(given_some.constraints(), max_size=4), given_some.events())
def test_a_row_is_found_where_one_of_all_rows_will_do(
    constraints: list[Constraint], event: dict[str, Any]
) -> None:
    every = views(event, {constraint.name for constraint in constraints})
    wanted = any(all(holds_in(one, view) for one in constraints) for view in every)
    found = find_view(constraints, event)
    assert (found is not None) == wanted
    assert found is None or all(holds_in(one, found) for one in constraints)


def test_arrays_beside_each_other_are_not_multiplied() -> None:
    names = [f"a.k{i}.x" for i in range(40)]
    elements = [{"x": j} for j in range(20)]
    event = {"a": {f"k{i}": elements for i in range(40)}}  # 20^40 rows
    held = [Constraint(name, (Test("=", 19),)) for name in names]
    assert find_view(held, event) == [(name, 19) for name in names]
    assert find_view([*held, Constraint("a.k0.y", (Test("=", 1),))], event) is None
