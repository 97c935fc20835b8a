"""The parts of a predicate, from the smallest: test, constraint, filter, predicate."""

from __future__ import annotations

from typing import Any, NamedTuple


class Test(NamedTuple):
    """One alternative of a constraint: an operator and what it compares with."""

    op: str
    value: Any

    def __eq__(self, other: object) -> bool:
        """Python holds `True == 1`; here they are different values."""
        return tuple.__eq__(self, other) is True and _is_same(self.value, other[1])  # type: ignore[index]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return tuple.__hash__(self)


Test.__test__ = False  # type: ignore[attr-defined]  # pytest would take it for tests


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
    """A predicate that `parse` made: it is in order and need not be checked again."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Predicate(filters={self.filters!r})"


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return all(isinstance(x, bool) == isinstance(y, bool) for x, y in zip(a, b, strict=True))
    return isinstance(a, bool) == isinstance(b, bool)
