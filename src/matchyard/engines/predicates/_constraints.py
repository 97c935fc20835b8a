"""What a predicate consists of, and the one form in which each constraint is kept.

Two constraints that were written differently and hold for the same values by these rules are equal:

* `-0.0` is `0`; a float that is a whole number of at most 63 bits is an integer;
* `between` with equal closed ends is `=`; texts from `s` to just before the `successor` of `s` are
  `prefix s`; a prefix that has no successor (the empty one) is `>=`;
* `!= true` is `= false` and the other way round; `!= null` holds for nothing and is refused;
* `< v` and `> v` in one constraint are `!= v`; `< s` and `>= successor(s)` are `not prefix s`;
* texts that are compared without regard to case are kept folded (`str.casefold`), networks as
  `ipaddress` writes them, and runs of `*` in a wildcard as one `*`;
* of the prefixes (suffixes) in `not prefix` (`not suffix`), those that another one covers are left
  out; prefixes without a gap between them become `<` and `>=`;
* `except` with true, false, null, a number and a text becomes comparisons;
* `exists` makes the other tests of its constraint superfluous; `except` and `not …` stand alone in a
  constraint: where there are other alternatives, these become filters of their own.

Tests are distinct and in order within a constraint, constraints within a filter (and within each
negated group), groups within a filter, and filters within a predicate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_network
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from matchyard.errors import ParseError

_BELOW = 2**63  # whole floats under it are kept as integers
_LIMIT = 2**64
ALONE = frozenset({"except", "not prefix", "not suffix", "not wildcard", "not ignore-case"})
_WILDCARD = re.compile(r"(?:[^\\]|\\[*\\])*", re.DOTALL)


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


def make_test(op: str, value: Any) -> Test:
    """One test in its kept form; raises `ParseError` for a value that the operator does not take."""
    check_operator(op)
    return _MAKERS[op](op, value)


def check_operator(op: str) -> None:
    """Refuse what is no operator."""
    if op not in _MAKERS:
        raise ParseError(f"no operator {op!r}; expected one of: {', '.join(_MAKERS)}")


def alternatives(name: str, tests: Iterable[Test]) -> list[Constraint]:
    """The constraints, one of which must hold, that stand for some tests of an attribute."""
    tests = list(tests)
    if len(tests) == 1 and tests[0].op not in ("except", "not prefix"):
        return [Constraint(name, (tests[0],))]
    if not tests:
        raise ParseError(f"no test on {name!r}; expected at least one, such as > 30")
    if any(test.op == "exists" for test in tests):
        return [Constraint(name, (Test("exists", None),))]
    alone = {sort_key(t): t for test in tests for t in _expand(test) if t.op in ALONE}
    rest = _unite([t for test in tests for t in _expand(test) if t.op not in ALONE])
    found = [Constraint(name, (alone[key],)) for key in sorted(alone)]
    if rest:
        found.append(Constraint(name, rest))
    return found


def check_name(name: Any) -> str:
    """The name of an attribute, if it is one."""
    if not isinstance(name, str):
        raise ParseError(f"not a name: {name!r}; expected text such as 'temp' or 'detail.temp'")
    return _text(name)


def scalar(value: Any) -> Any:
    """A number, text, bool or None in the form in which it is kept."""
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":  # times are no numbers
        value = value.item()
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if -_BELOW <= value < _LIMIT:
            return int(value)
        raise ParseError(
            f"the integer {shorten(value)} has more than 64 bits; expected -2^63 … 2^64 - 1"
        )
    if isinstance(value, float):
        if math.isnan(value):
            raise ParseError("nan compares with nothing; expected a number such as 30 or inf")
        return int(value) if value.is_integer() and -_BELOW <= value < _BELOW else float(value)
    raise ParseError(f"not a value: {shorten(value)}; expected a number, text, true, false or null")


def successor(text: str) -> str | None:
    """The first text after all that begin with this one; None where there is none.

    >>> successor("ab")
    'ac'
    """
    kept = text.rstrip("\U0010ffff")
    if not kept:
        return None
    code = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if code == 0xD800 else code)  # no text holds surrogates


def kind(value: Any) -> str:
    """The type of a value, in words."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true or false"
    if isinstance(value, str):
        return "text"
    return "nan" if math.isnan(value) else "a number"


def sort_key(test: Test) -> tuple[Any, ...]:
    """What tests are put in order by: values of different types do not compare."""
    return (test.op, *_rank(test.value))


def constraint_key(constraint: Constraint) -> tuple[Any, ...]:
    """What constraints are put in order by."""
    return (constraint.name, tuple(sort_key(test) for test in constraint.tests))


def shorten(value: Any) -> str:
    """A value for a message, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        text = "of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}…"


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return all(isinstance(x, bool) == isinstance(y, bool) for x, y in zip(a, b, strict=True))
    return isinstance(a, bool) == isinstance(b, bool)


def _rank(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        return (3, value)
    if isinstance(value, bool):
        return (1, value)
    if value is None:
        return (0, 0)
    if isinstance(value, tuple):
        return (4, tuple(_rank(one) for one in value))
    return (2, value)


def _text(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ParseError(
                f"half of a surrogate pair in {shorten(value)}; expected text"
            ) from None
    return str(value)


def _string(op: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ParseError(f'{op} takes text, not {shorten(value)}; for example {op} "ab"')
    return _text(value)


def _equal(op: str, value: Any) -> Test:
    return Test("=", value if type(value) is str and value.isascii() else scalar(value))


def _unequal(op: str, value: Any) -> Test:
    value = scalar(value)
    if value is None:
        raise ParseError("!= null holds for no value; expected not (x = null), or x exists")
    return Test("=", not value) if isinstance(value, bool) else Test("!=", value)


def _ordered(op: str, value: Any) -> Any:
    value = scalar(value)
    if value is None or isinstance(value, bool):
        raise ParseError(f"{op} takes a number or text, not {value!r}; for example {op} 30")
    return value


def _compare(op: str, value: Any) -> Test:
    return Test(op, _ordered(op, value))


def _between(op: str, value: Any) -> Test:
    if not isinstance(value, tuple) or len(value) != 4:
        raise ParseError(
            f"not an interval: {shorten(value)}; expected (low, is_open, high, is_open)"
        )
    low, high = _ordered("in", value[0]), _ordered("in", value[2])
    low_open, high_open = bool(value[1]), bool(value[3])
    if isinstance(low, str) != isinstance(high, str):
        raise ParseError(
            f"{low!r} and {high!r} are of different types; expected two numbers or two texts"
        )
    if low > high or (low == high and (low_open or high_open)):
        ends = f"{'(' if low_open else '['}{low!r}, {high!r}{')' if high_open else ']'}"
        raise ParseError(f"no value lies in {ends}; expected the lower end first, such as [1, 9]")
    if low == high:
        return Test("=", low)
    if isinstance(low, str) and high_open and not low_open and successor(low) == high:
        return Test("prefix", low)
    return Test("between", (low, low_open, high, high_open))


def _prefix(op: str, value: Any) -> Test:
    value = _string(op, value)
    return Test("prefix" if successor(value) else ">=", value)


def _plain(op: str, value: Any) -> Test:
    return Test(op, _string(op, value))


def _folded(op: str, value: Any) -> Test:
    return Test(op, _string(op, value).casefold())


def _pattern(value: Any) -> str:
    value = _string("wildcard", value)
    found = _WILDCARD.match(value)
    if found is None or found.end() != len(value):
        place = found.end() if found else 0
        raise ParseError(
            rf"a \ at position {place + 1} of the wildcard {shorten(value)}; expected \* or \\"
        )
    return re.sub(r"(\\.)|\*+", lambda run: run[1] or "*", value, flags=re.DOTALL)


def _wildcard(op: str, value: Any) -> Test:
    pattern = _pattern(value)
    return Test(op, pattern.casefold() if op.endswith("ignore-case") else pattern)


def _cidr(op: str, value: Any) -> Test:
    text = _string(op, value)
    try:
        if "%" in text:
            raise ValueError
        return Test(op, str(ip_network(text, strict=False)))
    except ValueError:
        raise ParseError(f"not a network: {text!r}; expected one such as 10.0.0.0/8") from None


def _exists(op: str, value: Any) -> Test:
    return Test(op, None)


def _several(op: str, value: Any) -> Sequence[Any]:
    values = value if isinstance(value, (tuple, list, set, frozenset)) else (value,)
    if not values:
        raise ParseError(f"{op} takes at least one value")
    return tuple(values)


def _except(op: str, value: Any) -> Test:
    kept = {_rank(one): one for one in map(scalar, _several(op, value))}
    return Test(op, tuple(kept[key] for key in sorted(kept)))


def _none_of(op: str, value: Any) -> Test:
    """`not prefix` and its kind; an empty prefix or suffix would leave no text."""
    kind = op.removeprefix("not ")
    if kind == "wildcard":
        return Test(op, tuple(sorted({_pattern(one) for one in _several(op, value)})))
    texts = sorted({_string(op, one) for one in _several(op, value)})
    if kind == "ignore-case":
        return Test(op, tuple(sorted({text.casefold() for text in texts})))
    if "" in texts:
        raise ParseError(f'every text has the {kind} ""; expected one of at least one character')
    has: Callable[[str, str], bool] = str.startswith if kind == "prefix" else str.endswith
    return Test(
        op, tuple(text for text in texts if not any(has(text, o) for o in texts if o != text))
    )


_MAKERS: dict[str, Callable[[str, Any], Test]] = {
    "=": _equal, "!=": _unequal, "<": _compare, "<=": _compare, ">": _compare, ">=": _compare,
    "between": _between, "prefix": _prefix, "suffix": _plain, "contains": _plain,
    "wildcard": _wildcard, "ignore-case": _folded, "prefix ignore-case": _folded,
    "suffix ignore-case": _folded, "contains ignore-case": _folded,
    "wildcard ignore-case": _wildcard, "cidr": _cidr, "exists": _exists, "except": _except,
    "not prefix": _none_of, "not suffix": _none_of, "not wildcard": _none_of,
    "not ignore-case": _none_of,
}  # fmt: skip


def _expand(test: Test) -> list[Test]:
    """Comparisons instead of an `except` or `not prefix` that could not be told from them."""
    if test.op == "except":
        numbers = [v for v in test.value if isinstance(v, (int, float)) and not isinstance(v, bool)]
        texts = [v for v in test.value if isinstance(v, str)]
        if numbers and texts and len(test.value) == len(numbers) + len(texts) + 3:
            return _around(numbers) + _around(texts)
    if test.op == "not prefix":
        ends = [successor(text) for text in test.value]
        if any(end is None or end in test.value for end in ends):
            return _chain(test.value, ends)
    return [test]


def _around(values: Sequence[Any]) -> list[Test]:
    """Everything but these values, which are in order."""
    inner = [Test("between", (a, True, b, True)) for a, b in pairwise(values)]
    return [Test("<", values[0]), *inner, Test(">", values[-1])]


def _chain(texts: Sequence[str], ends: Sequence[str | None]) -> list[Test]:
    """Every text but those with these prefixes, which are in order."""
    found = [Test("<", texts[0])]
    for end, text in zip(ends, texts[1:], strict=False):
        if end != text:
            found.append(make_test("between", (end, False, text, True)))
    return found if ends[-1] is None else [*found, Test(">=", ends[-1])]


def _unite(tests: list[Test]) -> tuple[Test, ...]:
    """Several tests as they are kept: distinct, in order, `<` and `>` as `!=`."""
    kept = {sort_key(test): test for test in tests}
    for test in tests:
        if test.op == "!=" or (test.op == "<" and (">", *_rank(test.value)) in kept):
            for op in "<>":
                kept.pop((op, *_rank(test.value)), None)
            kept[("!=", *_rank(test.value))] = Test("!=", test.value)
    found = tuple(kept[key] for key in sorted(kept))
    prefixes = _missing_prefixes(found)
    return (Test("not prefix", prefixes),) if prefixes else found


def _missing_prefixes(tests: tuple[Test, ...]) -> tuple[str, ...]:
    """The prefixes that are left out, if the tests are exactly all other texts."""
    start = [test.value for test in tests if test.op == "<" and isinstance(test.value, str)]
    if len(tests) < 2 or len(start) != 1:
        return ()
    pieces: dict[str | None, str | None] = {}
    for test in tests:
        if test.op == "prefix":
            pieces[test.value] = successor(test.value)
        elif test.op == "between" and test.value[1] is False and test.value[3] is True:
            pieces[test.value[0]] = test.value[2]
        elif test.op == ">=":
            pieces[test.value] = None
    found, end = [start[0]], successor(start[0])
    while (gap_end := pieces.get(end)) is not None:
        found.append(gap_end)
        end = successor(gap_end)
    is_all = len(found) + 1 == len(tests) == len(pieces) + 1 and end in pieces
    return tuple(found) if is_all else ()
