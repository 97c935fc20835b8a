"""Conditions of any form as predicates: disjunctions of filters.

A negated filter becomes several filters: one with all its constraints as a negated group, and one for
each of its negated groups, now positive. `not (x = 1 and y = 4 and not z = 2)` is
`not (x = 1 and y = 4) or z = 2`, also where constraints reach into an array of objects.

`not` asks about the whole event. A constraint that is negated twice is again a constraint like the
others of its filter: `a.y = 4 and not not a.x = 1` is `a.y = 4 and a.x = 1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, TypeAlias

from matchyard.engines.conditions import And, Not, Or
from matchyard.engines.predicates.language.canonical import (
    alternatives,
    check_name,
    constraint_key,
    make_test,
    refused,
)
from matchyard.engines.predicates.language.model import Constraint, Filter, Kept, Predicate, Test
from matchyard.errors import shorten

MAX_FILTERS = 16_384  # of one predicate, unless an option says otherwise
MAX_TESTS = 65_536  # in the filters that `or` inside `and` multiplies; likewise
_STEPS = 16  # times `max_tests` that intermediate filters may have in all
_FLATTER = "fewer conditions within each other"
_FEWER = "fewer alternatives, several subscriptions, or a higher limit"
_COUNTED = 10**15  # messages do not print larger numbers, which may have thousands of digits
Group: TypeAlias = tuple[Constraint, ...]
Ranks: TypeAlias = tuple[int, ...]
Coded: TypeAlias = tuple[Ranks, tuple[Ranks, ...]]  # a filter: what holds, and negated groups


Condition: TypeAlias = "Constraint | And[Condition] | Or[Condition] | Not[Condition]"


def constrain(name: str, tests: Any) -> Condition:
    """The condition that a value of an attribute satisfies one of some tests."""
    constraints = alternatives(name, tests)
    return constraints[0] if len(constraints) == 1 else Or(tuple(constraints))


def condition_of(value: Predicate | Filter | Constraint) -> Condition:
    """The condition of a predicate, filter or constraint, checked and in canonical form."""
    if isinstance(value, Constraint):
        for test in value.tests:
            if not isinstance(test, Test):
                message = "not a test: {found}; expected {expected}"
                raise refused(message, shorten(test), "one such as Test('>', 30)")
        return constrain(check_name(value.name), [make_test(*test) for test in value.tests])
    if isinstance(value, Filter):
        fails = [Not(And(tuple(map(condition_of, group)))) for group in value.fails]
        return And((*map(condition_of, value.holds), *fails))
    filters = tuple(map(condition_of, value.filters))
    return filters[0] if len(filters) == 1 else Or(filters)


def normalise(
    condition: Condition, max_filters: int = MAX_FILTERS, max_tests: int = MAX_TESTS
) -> Predicate:
    """The predicate that holds exactly when the condition does."""
    if isinstance(condition, Constraint):
        return Kept((Filter((condition,)),))
    if isinstance(condition, And) and all(type(part) is Constraint for part in condition.parts):
        return Kept((Filter(in_order(condition.parts)),))  # type: ignore[arg-type]
    try:
        return _Expansion(condition, max_filters, max_tests).predicate()
    except RecursionError:
        message = "not a predicate: {found}; expected {expected}"
        raise refused(message, "nested too deeply", _FLATTER) from None


def in_order(constraints: Sequence[Constraint]) -> Group:
    """Distinct constraints in order; mostly their names differ, and suffice for that."""
    if len(constraints) < 2:
        return tuple(constraints)
    by_name = {constraint.name: constraint for constraint in constraints}
    if len(by_name) == len(constraints):
        return tuple([by_name[name] for name in sorted(by_name)])
    kept = {constraint_key(constraint): constraint for constraint in constraints}
    return tuple(kept[key] for key in sorted(kept))


def group_key(group: Group) -> tuple[Any, ...]:
    """The sort key of a negated group."""
    return tuple(constraint_key(constraint) for constraint in group)


def filter_key(one: Filter) -> tuple[Any, ...]:
    """The sort key of a filter."""
    return (group_key(one.holds), tuple(group_key(group) for group in one.fails))


class _Expansion:
    """Expands a condition to filters, in which ranks stand for constraints.

    Filters and tests are counted before they are made: `max_filters` and `max_tests` bound the cost
    of any predicate. A condition object that is part of several others is expanded once.
    """

    def __init__(self, condition: Condition, max_filters: int, max_tests: int) -> None:
        self.condition, self.max_filters, self.max_tests = condition, max_filters, max_tests
        self.n_made = 0  # tests in all filters that were multiplied
        self._known: dict[tuple[int, bool], list[Coded]] = {}
        self._rank: dict[int, int] = {}  # by id: the condition keeps its parts alive
        named = {id(one): (constraint_key(one), one) for one in _leaves(condition)}
        kept = dict(named.values())
        rank = {key: number for number, key in enumerate(sorted(kept))}
        self._constraints = [kept[key] for key in rank]
        self._n_tests = [sum(map(_n_values, one.tests)) for one in self._constraints]
        for number, (key, _) in named.items():
            self._rank[number] = rank[key]

    def predicate(self) -> Predicate:
        """The predicate, its filters in order."""
        groups: dict[Ranks, Group] = {}

        def group(ranks: Ranks) -> Group:
            constraints = groups.get(ranks)
            if constraints is None:
                constraints = groups[ranks] = tuple([self._constraints[rank] for rank in ranks])
            return constraints

        filters = sorted(set(self.expand(self.condition, False)))
        return Kept(
            tuple([Filter(group(held), tuple(map(group, fails))) for held, fails in filters])
        )

    def expand(self, condition: Condition, is_negated: bool) -> list[Coded]:
        """The filters of a condition, or of its negation."""
        question = (id(condition), is_negated)
        known = self._known.get(question)
        if known is None:
            known = self._known[question] = self._expand(condition, is_negated)
        return known

    def _expand(self, condition: Condition, is_negated: bool) -> list[Coded]:
        if isinstance(condition, Constraint):
            held = (self._rank[id(condition)],)
            return [((), (held,)) if is_negated else (held, ())]
        if isinstance(condition, Not):
            return self.expand(condition.part, not is_negated)
        if isinstance(condition, And) and is_negated:
            return self._negate_all(condition)
        parts = [self.expand(part, is_negated) for part in _distinct(condition.parts)]
        is_sum = isinstance(condition, Or) and not is_negated
        return self._sum(parts) if is_sum else self._product(parts)

    def _negate_all(self, condition: And[Condition]) -> list[Coded]:
        """The filters of the negation of a conjunction."""
        together, negated = [], []
        for part in _distinct(_flat(condition.parts)):
            if isinstance(part, Not):  # asks about the whole event, apart from the other parts
                negated.append(self.expand(part.part, False))
            else:
                together.append(self.expand(part, False))
        if together:
            filters = self._product(together)
            negated.append(self._product([_negate(one) for one in filters]))
        return self._sum(negated)

    def _sum(self, choices: list[list[Coded]]) -> list[Coded]:
        """All filters of all lists."""
        self._check_filters(sum(map(len, choices)))
        return list(dict.fromkeys(one for some in choices for one in some))

    def _product(self, choices: list[list[Coded]]) -> list[Coded]:
        """One filter for every way to take one of each list."""
        choices = [list(some) for some in dict.fromkeys(map(tuple, choices))]
        n_filters = 1
        for some in choices:
            n_filters = min(n_filters * len(some), _COUNTED)
        self._check_filters(n_filters)
        if n_filters == 0:
            return []
        if n_filters > 1:
            self._check_tests(
                sum(n_filters // len(some) * sum(map(self._size, some)) for some in choices)
            )
        # Join lists of one filter first: copying them one by one takes quadratic time.
        same = [some[0] for some in choices if len(some) == 1]
        held = {rank for ranks, _ in same for rank in ranks}
        failed = {group for _, groups in same for group in groups}
        several = [some for some in choices if len(some) > 1]
        return [
            (
                tuple(sorted(held.union(*[ranks for ranks, _ in chosen]))),
                tuple(sorted(failed.union(*[groups for _, groups in chosen]))),
            )
            for chosen in product(*several)
        ]

    def _size(self, one: Coded) -> int:
        n_tests = self._n_tests
        size = sum([n_tests[rank] for rank in one[0]])
        return size + sum([n_tests[rank] for group in one[1] for rank in group])

    def _check_filters(self, n_filters: int) -> None:
        if n_filters > self.max_filters:
            raise refused(
                "the predicate expands to {found}, more than max_filters={limit}; expected {expected}",
                f"{_told(n_filters)} filters",
                _FEWER,
                limit=self.max_filters,
            )

    def _check_tests(self, n_tests: int) -> None:
        self.n_made += n_tests
        if n_tests > self.max_tests:
            raise refused(
                "the predicate expands to {found}, more than max_tests={limit}; expected {expected}",
                f"{_told(n_tests)} tests",
                _FEWER,
                limit=self.max_tests,
            )
        if self.n_made > _STEPS * self.max_tests:
            raise refused(
                "expanding the predicate step by step makes {found}, more than"
                " {times} times max_tests={limit}; expected {expected}",
                f"{self.n_made} tests",
                _FEWER,
                times=_STEPS,
                limit=self.max_tests,
            )


def _told(number: int) -> str:
    return f"more than {_COUNTED - 1}" if number >= _COUNTED else str(number)


def _n_values(test: Test) -> int:
    """The number of values of a test: `except` and `not …` have several."""
    is_listed = isinstance(test.value, tuple) and test.op != "between"
    return len(test.value) if is_listed else 1


def _leaves(condition: Condition) -> Iterator[Constraint]:
    """The constraints of a condition; visits repeated parts once."""
    waiting, seen = [condition], {id(condition)}
    while waiting:
        one = waiting.pop()
        if isinstance(one, Constraint):
            yield one
            continue
        for part in (one.part,) if isinstance(one, Not) else one.parts:
            if id(part) not in seen:
                seen.add(id(part))
                waiting.append(part)


def _distinct(parts: Iterable[Condition]) -> list[Condition]:
    """Each object once; equal objects are joined after the expansion."""
    return list({id(part): part for part in parts}.values())


def _flat(parts: tuple[Condition, ...]) -> Iterator[Condition]:
    """The parts of a conjunction and of those in it, without negations of negations."""
    for part in parts:
        while isinstance(part, Not) and isinstance(part.part, Not):
            part = part.part.part
        if isinstance(part, And):
            yield from _flat(part.parts)
        else:
            yield part


def _negate(one: Coded) -> list[Coded]:
    """The filters of the negation of a filter."""
    held, fails = one
    positive: list[Coded] = [(group, ()) for group in fails]
    return [((), (held,)), *positive] if held else positive
