"""Predicates as Python objects: `(field("area") == "north") & (field("temp") > 30)`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from matchyard.engines.predicates._constraints import Test, check_name, make_test
from matchyard.engines.predicates._formatted import format_predicate
from matchyard.engines.predicates._normal import And, Condition, Not, Or, constrain, normalise
from matchyard.errors import ParseError, UsageError

_OPEN = {
    "both": (False, False),
    "left": (False, True),
    "right": (True, False),
    "neither": (True, True),
}


class Expression:
    """A condition on events; combine with `&`, `|` and `~`."""

    __slots__ = ("condition",)

    def __init__(self, condition: Condition) -> None:
        self.condition = condition

    def __and__(self, other: object) -> Expression:
        return Expression(And((*_parts(And, self, "&"), *_parts(And, other, "&"))))

    def __or__(self, other: object) -> Expression:
        return Expression(Or((*_parts(Or, self, "|"), *_parts(Or, other, "|"))))

    def __invert__(self) -> Expression:
        return Expression(Not(self.condition))

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a condition is neither true nor false before there is an event; use & | ~ instead of"
            " `and`, `or`, `not`, and .between(a, b) instead of a < x < b"
        )

    def __repr__(self) -> str:
        return f"<{format_predicate(normalise(self.condition))}>"


class Field:
    """An attribute of events, to be compared with something."""

    __slots__ = ("name",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        self.name = check_name(name)

    def __eq__(self, value: object) -> Expression:  # type: ignore[override]
        return self._where("=", value)

    def __ne__(self, value: object) -> Expression:  # type: ignore[override]
        return self._where("!=", value)

    def __lt__(self, value: Any) -> Expression:
        return self._where("<", value)

    def __le__(self, value: Any) -> Expression:
        return self._where("<=", value)

    def __gt__(self, value: Any) -> Expression:
        return self._where(">", value)

    def __ge__(self, value: Any) -> Expression:
        return self._where(">=", value)

    def between(self, low: Any, high: Any, closed: str = "both") -> Expression:
        """A value from `low` to `high`; `closed` says which ends are within."""
        if closed not in _OPEN:
            raise UsageError(f"closed={closed!r}; expected one of: {', '.join(_OPEN)}")
        low_open, high_open = _OPEN[closed]
        return self._where("between", (low, low_open, high, high_open))

    def is_in(self, values: Iterable[Any]) -> Expression:
        """One of these values."""
        if isinstance(values, (str, bytes)):
            raise ParseError(f"not a collection of values: {values!r}; expected one such as [1, 2]")
        return Expression(constrain(self.name, [make_test("=", value) for value in values]))

    def is_not_any_of(self, values: Iterable[Any]) -> Expression:
        """A value, of any type, that is none of these."""
        return self._where("except", tuple(values))

    def equals(self, value: Any, ignore_case: bool = False) -> Expression:
        """This value."""
        return self._where("ignore-case" if ignore_case else "=", value)

    def startswith(self, text: str, ignore_case: bool = False) -> Expression:
        """A text that begins with this one."""
        return self._match("prefix", text, ignore_case)

    def endswith(self, text: str, ignore_case: bool = False) -> Expression:
        """A text that ends with this one."""
        return self._match("suffix", text, ignore_case)

    def contains(self, text: str, ignore_case: bool = False) -> Expression:
        """A text that has this one within it."""
        return self._match("contains", text, ignore_case)

    def wildcard(self, pattern: str, ignore_case: bool = False) -> Expression:
        r"""A text that the pattern covers: `*` stands for anything, `\\*` for an asterisk."""
        return self._match("wildcard", pattern, ignore_case)

    def in_network(self, network: str) -> Expression:
        """An IP address within a network such as 10.0.0.0/8."""
        return self._where("cidr", network)

    def exists(self) -> Expression:
        """Any value at all, null among them."""
        return self._where("exists", None)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"field({self.name!r}) is neither true nor false; compare it, as in"
            f" field({self.name!r}) == True, or ask .exists()"
        )

    def __repr__(self) -> str:
        return f"field({self.name!r})"

    def _match(self, op: str, text: str, ignore_case: bool) -> Expression:
        return self._where(f"{op} ignore-case" if ignore_case else op, text)

    def _where(self, op: str, value: Any) -> Expression:
        test: Test = make_test(op, value)
        return Expression(constrain(self.name, [test]))


def field(name: str) -> Field:
    """An attribute by its name, dotted where it is within objects.

    >>> (field("area") == "north") & (field("temp") > 30) | field("wind").between(20, 30)
    <area = "north" and temp > 30 or wind in [20, 30]>
    """
    return Field(name)


def _parts(kind: type[And | Or], value: object, sign: str) -> tuple[Condition, ...]:
    """What an operand adds to a conjunction or disjunction; long chains stay flat."""
    if not isinstance(value, Expression):
        raise TypeError(
            f"{value!r} is no condition; {sign} binds more tightly than comparisons, so put each in"
            " parentheses: (field('a') == 1) & (field('b') > 2)"
        )
    condition = value.condition
    return (
        condition.parts
        if isinstance(condition, (And, Or)) and type(condition) is kind
        else (condition,)
    )
