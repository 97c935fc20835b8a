"""The parts of a predicate, from the smallest: test, constraint, filter, predicate."""

from __future__ import annotations

from typing import Any, NamedTuple


class Test(NamedTuple):
    """One alternative of a constraint: an operator and its operand."""

    op: str
    value: Any

    def __eq__(self, other: object) -> bool:
        """True if operators and values are equal; unlike in Python, `True` is not 1."""
        return tuple.__eq__(self, other) is True and _is_same(self.value, other[1])  # type: ignore[index]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return tuple.__hash__(self)


Test.__test__ = False  # type: ignore[attr-defined]  # for pytest


class Constraint(NamedTuple):
    """Satisfied when a value of the attribute `name` satisfies one of the tests."""

    name: str
    tests: tuple[Test, ...]


class Filter(NamedTuple):
    """Matches when the constraints hold together, and none of the negated groups does."""

    holds: tuple[Constraint, ...]
    fails: tuple[tuple[Constraint, ...], ...] = ()


class Predicate(NamedTuple):
    """Matches when one of its filters does."""

    filters: tuple[Filter, ...]


class Kept(Predicate):
    """A predicate that `parse` made: canonical, so that nobody checks it again."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Predicate(filters={self.filters!r})"


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return all(isinstance(x, bool) == isinstance(y, bool) for x, y in zip(a, b, strict=True))
    return isinstance(a, bool) == isinstance(b, bool)
