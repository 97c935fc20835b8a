"""Predicates as Python objects: `(field("area") == "north") & (field("temp") > 30)`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from matchyard.engines.conditions import And, Not, Or
from matchyard.engines.predicates.language.canonical import check_name, make_test, refused
from matchyard.engines.predicates.language.formatting import format_predicate
from matchyard.engines.predicates.language.model import Constraint, Test
from matchyard.engines.predicates.language.normal_form import Condition, constrain, normalise
from matchyard.errors import ParseError, UsageError, shorten

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
        try:
            return f"<{format_predicate(normalise(self.condition))}>"
        except ParseError:
            return "<a condition of more filters or tests than are shown>"


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
        """A value from `low` to `high`; `closed` names the included ends."""
        if not isinstance(closed, str) or closed not in _OPEN:
            raise UsageError(f"closed={shorten(closed)}; expected one of: {', '.join(_OPEN)}")
        low_open, high_open = _OPEN[closed]
        return self._where("between", (low, low_open, high, high_open))

    def is_in(self, values: Iterable[Any]) -> Expression:
        """One of these values or comparisons of the same field, such as
        `field("x").is_in(["a", field("x") > 30])`."""
        tests: list[Test] = []
        for value in _collection(values):
            is_test = isinstance(value, Expression)
            tests += self._tests(value) if is_test else [make_test("=", value)]
        return Expression(constrain(self.name, tests))

    def is_not_any_of(self, values: Iterable[Any], ignore_case: bool = False) -> Expression:
        """A value, of any type, that is none of these."""
        return self._where("not ignore-case" if ignore_case else "except", _collection(values))

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
        """A text that contains this one."""
        return self._match("contains", text, ignore_case)

    def wildcard(self, pattern: str, ignore_case: bool = False) -> Expression:
        r"""A text that the pattern covers: `*` stands for anything, `\\*` for an asterisk."""
        return self._match("wildcard", pattern, ignore_case)

    def startswith_none_of(self, texts: Iterable[str]) -> Expression:
        """A value, of any type, that is no text beginning with one of these."""
        return self._where("not prefix", _collection(texts))

    def endswith_none_of(self, texts: Iterable[str]) -> Expression:
        """A value, of any type, that is no text ending with one of these."""
        return self._where("not suffix", _collection(texts))

    def wildcard_none_of(self, patterns: Iterable[str]) -> Expression:
        """A value, of any type, that is no text which one of the patterns covers."""
        return self._where("not wildcard", _collection(patterns))

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

    def _tests(self, expression: Expression) -> tuple[Test, ...]:
        """The tests of an expression; refuses one that has other fields."""
        condition = expression.condition
        if not isinstance(condition, Constraint) or condition.name != self.name:
            message = "not a test of {name!r}: {found}; expected {expected}"
            such = f"one such as {self!r} > 30"
            raise refused(message, repr(expression), such, name=self.name)
        return condition.tests

    def _where(self, op: str, value: Any) -> Expression:
        test: Test = make_test(op, value)
        return Expression(constrain(self.name, [test]))


def field(name: str) -> Field:
    """An attribute by its name, dotted where it is within objects.

    >>> (field("area") == "north") & (field("temp") > 30) | field("wind").between(20, 30)
    <area = "north" and temp > 30 or wind in [20, 30]>
    """
    return Field(name)


def _collection(values: Iterable[Any]) -> tuple[Any, ...]:
    """Several values; refuses a text, which would become its characters."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        message = "not a collection of values: {found}; expected {expected}"
        raise refused(message, shorten(values), "one such as [1, 2]")
    try:
        return tuple(values)
    except Exception as error:
        message = "not a collection of values: {found}"
        raise refused(message, shorten(error), "one such as [1, 2]") from error


def _parts(
    kind: type[And[Condition] | Or[Condition]], value: object, sign: str
) -> tuple[Condition, ...]:
    """The parts of an operand of `&` or `|`; long chains stay flat."""
    if not isinstance(value, Expression):
        raise TypeError(
            f"{shorten(value)} is no condition; {sign} binds more tightly than comparisons, so put each in"
            " parentheses: (field('a') == 1) & (field('b') > 2)"
        )
    condition = value.condition
    return (
        condition.parts
        if isinstance(condition, (And, Or)) and type(condition) is kind
        else (condition,)
    )
