"""MEANING, of arrays: which values of an event a filter sees together. `oracle` has the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import product
from typing import Any

from matchyard.engines.predicates._constraints import Constraint
from matchyard.engines.predicates._satisfied import satisfies

Row = list[tuple[str, Any]]  # names of attributes and their values


def find_row(constraints: Collection[Constraint], event: dict[str, Any]) -> Row | None:
    """A row in which a value of each attribute satisfies a test of its constraint.

    Elements of arrays below different keys are chosen independently, so that each key is looked at
    alone.
    """
    below: dict[str, list[Constraint]] = {}
    for constraint in constraints:
        below.setdefault(constraint.name.partition(".")[0], []).append(constraint)
    found = [_find_row(some, event) for some in below.values()]
    return None if None in found else [pair for row in found for pair in row or []]


def _find_row(constraints: Collection[Constraint], event: dict[str, Any]) -> Row | None:
    for row in rows(event, {constraint.name for constraint in constraints}):
        if all(
            any(satisfies(value, test) for name, value in row if name == c.name for test in c.tests)
            for c in constraints
        ):
            return row
    return None


def rows(value: Any, names: Collection[str], at: str | None = None) -> Iterator[Row]:
    """Every way to take one element of each array of objects that the names reach into.

    An array of arrays is as one array; values that are no objects are in all rows of their array.
    """
    if at is not None and not any(name == at or name.startswith(f"{at}.") for name in names):
        yield []
    elif isinstance(value, dict):
        inner = [rows(v, names, k if at is None else f"{at}.{k}") for k, v in value.items()]
        for choice in product(*inner):
            yield [pair for row in choice for pair in row]
    elif isinstance(value, list):
        flat = list(flatten(value))
        own = [(str(at), one) for one in flat if not isinstance(one, dict)]
        for element in [one for one in flat if isinstance(one, dict)] or [{}]:
            for row in rows(element, names, at):
                yield own + row
    else:
        yield [(str(at), value)]


def flatten(values: list[Any]) -> Iterator[Any]:
    """The elements of an array and of the arrays in it."""
    for value in values:
        yield from flatten(value) if isinstance(value, list) else [value]
