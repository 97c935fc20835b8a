"""MEANING, of arrays: which values of an event a filter sees together. `oracle` has the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import product
from typing import Any

from matchyard.engines.predicates.language.model import Constraint
from matchyard.engines.predicates.oracle.values import satisfies

Row = list[tuple[str, Any]]  # names of attributes and their values


def find_row(constraints: Collection[Constraint], event: dict[str, Any]) -> Row | None:
    """A part of a row of `rows` in which a value of each attribute satisfies its constraint.

    What `rows` lists one by one is a product, and may be longer than anybody waits for. Elements of
    arrays below different keys are chosen independently, so that each key is looked at alone.
    """
    return _find_row(event, None, list(constraints))


def _find_row(value: Any, at: str | None, constraints: list[Constraint]) -> Row | None:
    if isinstance(value, dict):
        found: Row = []
        for keys, asked in _apart(value, at, constraints):
            if not keys:
                return None
            inner = [(value[key], key if at is None else f"{at}.{key}") for key in keys]
            row = _find_row(*inner[0], asked) if len(inner) == 1 else _cover(inner, asked)
            if row is None:
                return None
            found += row
        return found
    if not isinstance(value, list):
        row = [(str(at), value)]
        return row if all(_holds(constraint, row) for constraint in constraints) else None
    flat = list(flatten(value))
    own = [(str(at), one) for one in flat if not isinstance(one, dict)]
    left = [constraint for constraint in constraints if not _holds(constraint, own)]
    if not left:
        return own
    elements = (_find_row(one, at, left) for one in flat if isinstance(one, dict))
    row_of_one = next((row for row in elements if row is not None), None)
    return None if row_of_one is None else own + row_of_one


def _holds(constraint: Constraint, row: Row) -> bool:
    values = [value for name, value in row if name == constraint.name]
    return any(satisfies(value, test) for value in values for test in constraint.tests)


def _apart(
    value: dict[str, Any], at: str | None, constraints: list[Constraint]
) -> list[tuple[list[str], list[Constraint]]]:
    """Constraints by the keys they reach into: mostly one, several where keys have dots in them."""
    parts: dict[int, tuple[set[str], list[Constraint]]] = {}
    part_of: dict[str, int] = {}
    for number, constraint in enumerate(constraints):
        rest = constraint.name if at is None else constraint.name[len(at) + 1 :]
        ends = [place for place, sign in enumerate(rest) if sign == "."]
        keys = {key for key in (rest, *(rest[:end] for end in ends)) if key in value}
        first, *others = sorted({part_of[key] for key in keys if key in part_of}) or [number]
        into = parts.setdefault(first, (set(), []))
        for other in others:
            more_keys, more = parts.pop(other)
            into[0].update(more_keys)
            into[1].extend(more)
        into[0].update(keys)
        into[1].append(constraint)
        part_of |= dict.fromkeys(into[0] if others else keys, first)
    return [(sorted(keys), asked) for keys, asked in parts.values()]


def _cover(children: list[tuple[Any, str]], constraints: list[Constraint]) -> Row | None:
    """A row of several values that names reach into at once, in which all constraints hold."""
    names = {constraint.name for constraint in constraints}
    covered: dict[frozenset[int], Row] = {frozenset(): []}
    for value, at in children:
        options = {
            frozenset(i for i, one in enumerate(constraints) if _holds(one, row)): row
            for row in rows(value, names, at)
        }
        covered = {
            done | more: row + another
            for done, row in covered.items()
            for more, another in options.items()
        }
    return covered.get(frozenset(range(len(constraints))))


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
