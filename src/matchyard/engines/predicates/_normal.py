"""Conditions of any form as predicates: disjunctions of filters.

A negated filter becomes one filter whose only negated group are all its constraints, and one per
negated group that it had (the group, now positive): `not (x = 1 and y = 4 and not z = 2)` is
`not (x = 1 and y = 4) or z = 2`. Whether some of them would have to meet in one element of an array
of objects makes no difference to that.

`not` asks about the whole event. What is negated twice is asked positively again, and is then a
constraint like the others of its filter: `a.y = 4 and not not a.x = 1` is `a.y = 4 and a.x = 1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from matchyard.engines.predicates._constraints import (
    Constraint,
    Filter,
    Predicate,
    Test,
    alternatives,
    check_name,
    constraint_key,
    make_test,
)
from matchyard.errors import ParseError

MAX_FILTERS = 16_384  # of one predicate, unless an option says otherwise
Group: TypeAlias = tuple[Constraint, ...]


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold; without parts: always."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One part holds; without parts: never."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Condition


Condition: TypeAlias = "Constraint | And | Or | Not"


def constrain(name: str, tests: Any) -> Condition:
    """The condition that a value of an attribute satisfies one of some tests."""
    found = alternatives(name, tests)
    return found[0] if len(found) == 1 else Or(tuple(found))


def condition_of(value: Predicate | Filter | Constraint) -> Condition:
    """What a predicate, filter or constraint says, checked and in the form in which it is kept."""
    if isinstance(value, Constraint):
        for test in value.tests:
            if not isinstance(test, Test):
                raise ParseError(f"not a test: {test!r}; expected one such as Test('>', 30)")
        return constrain(check_name(value.name), [make_test(*test) for test in value.tests])
    if isinstance(value, Filter):
        fails = [Not(And(tuple(map(condition_of, group)))) for group in value.fails]
        return And((*map(condition_of, value.holds), *fails))
    return Or(tuple(map(condition_of, value.filters)))


def normalise(condition: Condition, max_filters: int = MAX_FILTERS) -> Predicate:
    """The predicate that holds exactly when the condition does."""
    try:
        filters = _expand(condition, False, max_filters)
    except RecursionError:
        raise ParseError(
            "not a predicate: nested too deeply; expected fewer conditions within each other"
        ) from None
    if len(filters) > 1:
        kept = {filter_key(one): one for one in filters}
        filters = [kept[key] for key in sorted(kept)]
    return Predicate(tuple(filters))


def _expand(condition: Condition, is_negated: bool, limit: int) -> list[Filter]:
    if isinstance(condition, Constraint):
        group = (condition,)
        return [Filter((), (group,)) if is_negated else Filter(group, ())]
    if isinstance(condition, Not):
        return _expand(condition.part, not is_negated, limit)
    if isinstance(condition, Or) and not is_negated:
        return _sum([_expand(part, False, limit) for part in condition.parts], limit)
    if isinstance(condition, Or):
        return _product([_expand(part, True, limit) for part in condition.parts], limit)
    if is_negated:
        return _negate_all(_flat(condition.parts), limit)
    if all(type(part) is Constraint for part in condition.parts):  # as most are
        return [Filter(_in_order(condition.parts), ())]  # type: ignore[arg-type]
    distinct = dict.fromkeys(condition.parts)
    return _product([_expand(part, False, limit) for part in distinct], limit)


def _flat(parts: tuple[Condition, ...]) -> Iterator[Condition]:
    """The parts of a conjunction and of those in it, without negations of negations."""
    for part in parts:
        while isinstance(part, Not) and isinstance(part.part, Not):
            part = part.part.part
        if isinstance(part, And):
            yield from _flat(part.parts)
        else:
            yield part


def _negate_all(parts: Iterable[Condition], limit: int) -> list[Filter]:
    """The filters of which one matches exactly when not all of the parts hold together."""
    together, negated = [], []
    for part in dict.fromkeys(parts):
        if isinstance(part, Not):  # asks about the whole event, so that it is a matter of its own
            negated.append(_expand(part.part, False, limit))
        else:
            together.append(part)
    if together:
        filters = _expand(And(tuple(together)), False, limit)
        negated.append(_product([_negate(one) for one in filters], limit))
    return _sum(negated, limit)


def _negate(one: Filter) -> list[Filter]:
    """The filters of which one matches exactly when this one does not."""
    found = [Filter(group, ()) for group in one.fails]
    return [Filter((), (one.holds,)), *found] if one.holds else found


def _sum(choices: list[list[Filter]], limit: int) -> list[Filter]:
    """All filters of all lists."""
    _check_number(sum(map(len, choices)), limit)
    return [one for some in choices for one in some]


def _product(choices: list[list[Filter]], limit: int) -> list[Filter]:
    """One filter for every way to take one of each list."""
    n_filters = 1
    for some in choices:
        n_filters *= len(some)
    _check_number(n_filters, limit)
    holds_fails: list[tuple[Group, tuple[Group, ...]]] = [((), ())]
    for some in choices:
        holds_fails = [(h + one.holds, f + one.fails) for h, f in holds_fails for one in some]
    return [Filter(_in_order(h), _groups_in_order(f)) for h, f in holds_fails]


def _check_number(n_filters: int, limit: int) -> None:
    if n_filters > limit:
        raise ParseError(
            f"the predicate expands to {n_filters} filters, more than max_filters={limit}; expected"
            " fewer alternatives, several subscriptions, or a higher limit"
        )


def _in_order(constraints: Group) -> Group:
    """Constraints in order, each once; few have the same name, so that names mostly suffice."""
    if len(constraints) < 2:
        return constraints
    by_name = {constraint.name: constraint for constraint in constraints}
    if len(by_name) == len(constraints):
        return tuple([by_name[name] for name in sorted(by_name)])
    kept = {constraint_key(constraint): constraint for constraint in constraints}
    return tuple(kept[key] for key in sorted(kept))


def group_key(group: Group) -> tuple[Any, ...]:
    """What negated groups are put in order by."""
    return tuple(constraint_key(constraint) for constraint in group)


def _groups_in_order(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    kept = {group_key(group): group for group in groups}
    return tuple(kept[key] for key in sorted(kept))


def filter_key(one: Filter) -> tuple[Any, ...]:
    """What filters are put in order by."""
    return (group_key(one.holds), tuple(group_key(group) for group in one.fails))
