"""MEANING of arrays: the values of an event that a filter sees together, its *views*."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import product
from typing import Any

from matchyard.engines.predicates.language.model import Constraint
from matchyard.engines.predicates.oracle.values import satisfies

View = list[tuple[str, Any]]  # names of attributes and their values


def find_view(constraints: Collection[Constraint], event: dict[str, Any]) -> View | None:
    """The part of a view in which all constraints hold, or None.

    `views` lists a product, which may be too long to try. Elements of arrays below different keys
    are chosen independently: each key is searched alone.
    """
    return _find_view(event, None, list(constraints))


def _find_view(value: Any, at: str | None, constraints: list[Constraint]) -> View | None:
    if isinstance(value, dict):
        seen: View = []
        for keys, asked in _apart(value, at, constraints):
            if not keys:
                return None
            inner = [(value[key], key if at is None else f"{at}.{key}") for key in keys]
            view = _find_view(*inner[0], asked) if len(inner) == 1 else _cover(inner, asked)
            if view is None:
                return None
            seen += view
        return seen
    if not isinstance(value, list):
        view = [(str(at), value)]
        return view if all(_holds(constraint, view) for constraint in constraints) else None
    flat = list(flatten(value))
    own = [(str(at), one) for one in flat if not isinstance(one, dict)]
    left = [constraint for constraint in constraints if not _holds(constraint, own)]
    if not left:
        return own
    elements = (_find_view(one, at, left) for one in flat if isinstance(one, dict))
    view_of_one = next((view for view in elements if view is not None), None)
    return None if view_of_one is None else own + view_of_one


def _holds(constraint: Constraint, view: View) -> bool:
    values = [value for name, value in view if name == constraint.name]
    return any(satisfies(value, test) for value in values for test in constraint.tests)


def _apart(
    value: dict[str, Any], at: str | None, constraints: list[Constraint]
) -> list[tuple[list[str], list[Constraint]]]:
    """Constraints by the keys that they reach into: several if keys have dots in them."""
    parts: dict[int, tuple[set[str], list[Constraint]]] = {}
    part_of: dict[str, int] = {}
    for number, constraint in enumerate(constraints):
        rest = constraint.name if at is None else constraint.name[len(at) + 1 :]
        ends = [end for end, sign in enumerate(rest) if sign == "."]
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


def _cover(children: list[tuple[Any, str]], constraints: list[Constraint]) -> View | None:
    """The part of a view of several values in which all constraints hold, or None."""
    names = {constraint.name for constraint in constraints}
    covered: dict[frozenset[int], View] = {frozenset(): []}
    for value, at in children:
        options = {
            frozenset(i for i, one in enumerate(constraints) if _holds(one, view)): view
            for view in views(value, names, at)
        }
        covered = {
            done | more: view + another
            for done, view in covered.items()
            for more, another in options.items()
        }
    return covered.get(frozenset(range(len(constraints))))


def views(value: Any, names: Collection[str], at: str | None = None) -> Iterator[View]:
    """Every way to take one element of each array of objects that the names reach into.

    An array of arrays counts as one array. Its values that are not objects are in all its views.
    """
    if at is not None and not any(name == at or name.startswith(f"{at}.") for name in names):
        yield []
    elif isinstance(value, dict):
        inner = [views(v, names, k if at is None else f"{at}.{k}") for k, v in value.items()]
        for choice in product(*inner):
            yield [pair for view in choice for pair in view]
    elif isinstance(value, list):
        flat = list(flatten(value))
        own = [(str(at), one) for one in flat if not isinstance(one, dict)]
        for element in [one for one in flat if isinstance(one, dict)] or [{}]:
            for view in views(element, names, at):
                yield own + view
    else:
        yield [(str(at), value)]


def flatten(values: list[Any]) -> Iterator[Any]:
    """The elements of an array and of the arrays in it."""
    for value in values:
        yield from flatten(value) if isinstance(value, list) else [value]
