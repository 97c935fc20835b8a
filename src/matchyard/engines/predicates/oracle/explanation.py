"""Explain in words why a predicate matches an event, or why not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matchyard.engines.predicates.language.canonical import ALONE, kind
from matchyard.engines.predicates.language.formatting import (
    format_constraint,
    format_filter,
    format_name,
    format_value,
)
from matchyard.engines.predicates.language.model import Constraint, Filter, Predicate
from matchyard.engines.predicates.language.normal_form import Group
from matchyard.engines.predicates.oracle.arrays import View, find_view, flatten
from matchyard.engines.predicates.oracle.values import satisfies

_MOST_FILTERS = 20  # explained one by one…
_MOST_VALUES = 5  # …and shown of one attribute
_MOST_TESTS = 8  # of a constraint that matches: of more, only those that hold are shown


def explain_match(one: Filter, event: dict[str, Any]) -> str:
    """The filter that matches, and the values that satisfy it."""
    if not one.holds and not one.fails:
        return "match: the predicate holds for every event"
    view = find_view(one.holds, event) or []
    shown = one._replace(holds=tuple(_shortened(constraint, view) for constraint in one.holds))
    return f"match: {format_filter(shown)}" + (
        f" ({_satisfying(one.holds, view)})" if one.holds else ""
    )


def _shortened(constraint: Constraint, view: View) -> Constraint:
    """A constraint of many tests with those alone that a value satisfies."""
    if len(constraint.tests) <= _MOST_TESTS:
        return constraint
    values = [value for name, value in view if name == constraint.name]
    held = (test for test in constraint.tests if any(satisfies(value, test) for value in values))
    return constraint._replace(tests=tuple(held))


def explain_miss(predicate: Predicate, event: dict[str, Any]) -> str:
    """The reason why each filter does not match."""
    filters = predicate.filters
    if not filters:
        return "no match: the predicate holds for no event"
    if len(filters) == 1:
        return f"no match: {'; '.join(_reasons(filters[0], event))}"
    shown = enumerate(filters[:_MOST_FILTERS], 1)
    lines = [f"filter {number}: {'; '.join(_reasons(one, event))}" for number, one in shown]
    if len(filters) > _MOST_FILTERS:
        lines.append(f"and {len(filters) - _MOST_FILTERS} more filters, none of which matches")
    return "\n".join([f"no match with any of {len(filters)} filters", *lines])


def _reasons(one: Filter, event: dict[str, Any]) -> list[str]:
    """The constraints that fail, and the negated groups that hold."""
    reasons = [
        f"{format_constraint(constraint)}: {_failing(constraint, event)}"
        for constraint in one.holds
        if find_view((constraint,), event) is None
    ]
    if not reasons and find_view(one.holds, event) is None:
        text = format_filter(Filter(one.holds))
        reasons.append(f"{text}: each holds, but not together in one element of an array")
    for group in one.fails:
        view = find_view(group, event)
        if view is not None:
            reasons.append(f"{format_filter(Filter((), (group,)))}: {_satisfying(group, view)}")
    return reasons


def _satisfying(group: Group, view: View) -> str:
    """The values in a view that satisfy the constraints."""
    shown = {}
    for c in group:
        value = next(v for n, v in view if n == c.name and any(satisfies(v, t) for t in c.tests))
        shown[f"{format_name(c.name)} is {format_value(value)}"] = True
    return ", ".join(shown)


def _failing(constraint: Constraint, event: dict[str, Any]) -> str:
    """The values that do not satisfy a constraint."""
    name, values = format_name(constraint.name), list(_values(constraint.name, event))
    if not values:
        return f"{name} is absent"
    if len(values) == 1:
        return f"{name} is {format_value(values[0])}{_of_another_type(values[0], constraint)}"
    shown = ", ".join(map(format_value, values[:_MOST_VALUES]))
    return f"none of {len(values)} values: {shown}{', …' if len(values) > _MOST_VALUES else ''}"


def _values(name: str, value: Any, at: str | None = None) -> Iterator[Any]:
    """All values of an attribute."""
    for one in flatten([value]):
        if not isinstance(one, dict):
            yield from [one] if at == name else []
            continue
        for key, inner in one.items():
            inner_at = key if at is None else f"{at}.{key}"
            if name == inner_at or name.startswith(f"{inner_at}."):
                yield from _values(name, inner, inner_at)


def _of_another_type(value: Any, constraint: Constraint) -> str:
    wanted = set()
    for op, operand in constraint.tests:
        if op in ALONE or op == "exists" or kind(value) == "nan":
            return ""
        wanted.add(kind(operand[0] if isinstance(operand, tuple) else operand))
    return "" if kind(value) in wanted else f", not {' or '.join(sorted(wanted))}"
