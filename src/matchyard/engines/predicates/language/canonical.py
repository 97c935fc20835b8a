"""The canonical form of tests and constraints: texts that mean the same give equal objects.

The rules:

* `-0.0` is `0`; a float that is a whole number of at most 63 bits is an integer;
* `between` with equal closed ends is `=`; texts from `s` to just before the `successor` of `s` are
  `prefix s`; a prefix that has no successor (the empty one) is `>=`;
* `!= true` is `= false` and the other way round; `!= null` holds for nothing and is refused;
* `< v` and `> v` in one constraint are `!= v`;
* texts that are compared without regard to case are kept folded (`str.casefold`), networks as
  `ipaddress` writes them, and runs of `*` in a wildcard as one `*`;
* of the prefixes (suffixes) in `not prefix` (`not suffix`), those that another one covers are left
  out;
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
from typing import Any

import numpy as np

from matchyard.engines.predicates.language.examples import PREDICATE
from matchyard.engines.predicates.language.model import Constraint, Test
from matchyard.errors import ParseError, shorten

_BELOW = 2**63  # smaller whole floats become integers
_LIMIT = 2**64
ALONE = frozenset({"except", "not prefix", "not suffix", "not wildcard", "not ignore-case"})
EXAMPLES = {"cidr": "10.0.0.0/8", "wildcard": "a*b"}  # of operands; others take "ab"
_WILDCARD = re.compile(r"(?:[^\\]|\\[*\\])*", re.DOTALL)


def make_test(op: str, value: Any) -> Test:
    """A test in canonical form; raises `ParseError` if the operator does not take the value."""
    check_operator(op)
    return _MAKERS[op](op, value)


def check_operator(op: str) -> None:
    """Refuse an unknown operator."""
    if op not in _MAKERS:
        known = f"one of: {', '.join(_MAKERS)}"
        raise refused("no operator {found}; expected {expected}", repr(op), known)


def check_name(name: Any) -> str:
    """The name of an attribute; refuses anything but text."""
    if not isinstance(name, str):
        names = "text such as 'temp' or 'detail.temp'"
        raise refused("not a name: {found}; expected {expected}", shorten(name), names)
    return _text(name)


def refused(message: str, found: str, expected: str, **said: Any) -> ParseError:
    """The error of a part of a predicate; `said` has values of the message."""
    return ParseError.of(message, found=found, expected=expected, example=PREDICATE, **said)


def scalar(value: Any) -> Any:
    """A number, text, bool or None in canonical form."""
    if isinstance(value, np.generic) and value.dtype.kind not in "mM":  # times are no numbers
        value = value.item()
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if -_BELOW <= value < _LIMIT:
            return int(value)
        message = "the integer {found} has more than 64 bits; expected {expected}"
        raise refused(message, shorten(value), "-2^63 … 2^64 - 1")
    if isinstance(value, float):
        if math.isnan(value):
            message = "{found} compares with nothing; expected {expected}"
            raise refused(message, "nan", "a number such as 30 or inf")
        return int(value) if value.is_integer() and -_BELOW <= value < _BELOW else float(value)
    message = "not a value: {found}; expected {expected}"
    raise refused(message, shorten(value), "a number, text, true, false or null")


def nearest(value: Any) -> Any:
    """A value of an event as it is compared: an integer beyond 64 bits is the nearest double.

    >>> nearest(2**64 + 1), nearest(10**400), nearest(3)
    (1.8446744073709552e+19, inf, 3)
    """
    if not isinstance(value, int) or -_BELOW <= value < _LIMIT:
        return value
    try:
        return float(value)
    except OverflowError:  # past the largest double
        return math.inf if value > 0 else -math.inf


def successor(text: str) -> str | None:
    """The first text after all texts that begin with this one, or None.

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
    """The sort key of a test; Python does not compare values of different types."""
    return (test.op, *rank(test.value))


def constraint_key(constraint: Constraint) -> tuple[Any, ...]:
    """The sort key of a constraint."""
    return (constraint.name, tuple(sort_key(test) for test in constraint.tests))


def rank(value: Any) -> tuple[Any, ...]:
    """The sort key of a value."""
    if isinstance(value, str):
        return (3, value)
    if isinstance(value, bool):
        return (1, value)
    if value is None:
        return (0, 0)
    if isinstance(value, tuple):
        return (4, tuple(rank(one) for one in value))
    return (2, value)


def _text(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            message = "half of a surrogate pair in {found}; expected {expected}"
            raise refused(message, shorten(value), "text") from None
    return str(value)


def _string(op: str, value: Any) -> str:
    if not isinstance(value, str):
        message = "{op} takes {expected}, not {found}; for example {such}"
        such = _said(op, EXAMPLES)
        raise refused(message, _literal(value), "text", op=_said(op), such=such)
    return _text(value)


def _literal(value: Any) -> str:
    """A value for a message, as in JSON."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return shorten(value)


def _said(op: str, examples: dict[str, str] | None = None) -> str:
    """An operator as in text, with an example of its operand if `examples` is given."""
    kind = op.removeprefix("not ").removesuffix("ignore-case").rstrip()
    ignores = " ignoring case" if op.endswith("ignore-case") else ""
    words = ["except" if op.startswith("not ") else "", kind]
    if not kind and not words[0]:
        words[1] = "="
    if examples is not None:
        words.append(f'"{examples.get(kind, "ab")}"')
    return " ".join(filter(None, words)) + ignores


def _equal(op: str, value: Any) -> Test:
    return Test("=", value if type(value) is str and value.isascii() else scalar(value))


def _unequal(op: str, value: Any) -> Test:
    value = scalar(value)
    if value is None:
        message = "!= {found} holds for no value; expected {expected}"
        raise refused(message, "null", "not (x = null), or x exists")
    return Test("=", not value) if isinstance(value, bool) else Test("!=", value)


def _ordered(op: str, value: Any) -> Any:
    value = scalar(value)
    if value is None or isinstance(value, bool):
        message = "{op} takes {expected}, not {found}; for example {op} {such}"
        such = "[1, 9]" if op == "in" else "30"
        raise refused(message, _literal(value), "a number or text", op=op, such=such)
    return value


def _compare(op: str, value: Any) -> Test:
    return Test(op, _ordered(op, value))


def _between(op: str, value: Any) -> Test:
    if not isinstance(value, tuple) or len(value) != 4:
        message = "not an interval: {found}; expected {expected}"
        raise refused(message, shorten(value), "(low, is_open, high, is_open)")
    low, high = _ordered("in", value[0]), _ordered("in", value[2])
    low_open, high_open = bool(value[1]), bool(value[3])
    if isinstance(low, str) != isinstance(high, str):
        message = "{found} are of different types; expected {expected}"
        both = f"{shorten(low)} and {shorten(high)}"
        raise refused(message, both, "two numbers or two texts")
    if low > high or (low == high and (low_open or high_open)):
        ends = (
            f"{'(' if low_open else '['}{shorten(low)}, {shorten(high)}{')' if high_open else ']'}"
        )
        message = "no value lies in {found}; expected {expected}"
        raise refused(message, ends, "the lower end first, such as [1, 9]")
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
    legal = _WILDCARD.match(value)
    if legal is None or legal.end() != len(value):
        end = legal.end() if legal else 0
        message = r"a \ at position {position} of the wildcard {found}; expected {expected}"
        raise refused(message, shorten(value), r"\* or \\", position=end + 1)
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
        message = "not a network: {found}; expected {expected}"
        raise refused(message, shorten(text), "one such as 10.0.0.0/8") from None


def _exists(op: str, value: Any) -> Test:
    return Test(op, None)


def _several(op: str, value: Any) -> Sequence[Any]:
    values = value if isinstance(value, (tuple, list, set, frozenset)) else (value,)
    if not values:
        raise refused("{op} takes {expected}", "none", "at least one value", op=op)
    return tuple(values)


def _except(op: str, value: Any) -> Test:
    kept = {rank(one): one for one in map(scalar, _several(op, value))}
    return Test(op, tuple(kept[key] for key in sorted(kept)))


def _none_of(op: str, value: Any) -> Test:
    """`not prefix` and its kind; refuses an empty prefix or suffix, which every text has."""
    kind = op.removeprefix("not ")
    if kind == "wildcard":
        return Test(op, tuple(sorted({_pattern(one) for one in _several(op, value)})))
    texts = sorted({_string(op, one) for one in _several(op, value)})
    if kind == "ignore-case":
        return Test(op, tuple(sorted({text.casefold() for text in texts})))
    if "" in texts:
        message = "every text has the {kind} {found}; expected {expected}"
        raise refused(message, '""', "one of at least one character", kind=kind)
    if kind == "prefix":
        return Test(op, _without_longer(texts))
    turned = _without_longer(sorted(text[::-1] for text in texts))
    return Test(op, tuple(sorted(text[::-1] for text in turned)))


def _without_longer(texts: Iterable[str]) -> tuple[str, ...]:
    """Sorted texts without those that begin with another one, which comes before them."""
    kept: list[str] = []
    for text in texts:
        if not kept or not text.startswith(kept[-1]):
            kept.append(text)
    return tuple(kept)


_MAKERS: dict[str, Callable[[str, Any], Test]] = {
    "=": _equal, "!=": _unequal, "<": _compare, "<=": _compare, ">": _compare, ">=": _compare,
    "between": _between, "prefix": _prefix, "suffix": _plain, "contains": _plain,
    "wildcard": _wildcard, "ignore-case": _folded, "prefix ignore-case": _folded,
    "suffix ignore-case": _folded, "contains ignore-case": _folded,
    "wildcard ignore-case": _wildcard, "cidr": _cidr, "exists": _exists, "except": _except,
    "not prefix": _none_of, "not suffix": _none_of, "not wildcard": _none_of,
    "not ignore-case": _none_of,
}  # fmt: skip


def alternatives(name: str, tests: Iterable[Test]) -> list[Constraint]:
    """The canonical constraints, one of which must hold, of alternative tests of an attribute."""
    tests = list(tests)
    if len(tests) == 1 and tests[0].op != "except":
        return [Constraint(name, (tests[0],))]
    if not tests:
        message = "{found} on {name!r}; expected {expected}"
        raise refused(message, "no test", "at least one, such as > 30", name=name)
    if any(test.op == "exists" for test in tests):
        return [Constraint(name, (Test("exists", None),))]
    alone = {sort_key(t): t for test in tests for t in _expand(test) if t.op in ALONE}
    rest = _unite([t for test in tests for t in _expand(test) if t.op not in ALONE])
    kept = [Constraint(name, (alone[key],)) for key in sorted(alone)]
    if rest:
        kept.append(Constraint(name, rest))
    return kept


def _expand(test: Test) -> list[Test]:
    """Replace an `except` of all types by comparisons: their pieces are the same."""
    if test.op == "except":
        numbers = [v for v in test.value if isinstance(v, (int, float)) and not isinstance(v, bool)]
        texts = [v for v in test.value if isinstance(v, str)]
        if numbers and texts and len(test.value) == len(numbers) + len(texts) + 3:
            return _around(numbers) + _around(texts)
    return [test]


def _around(values: Sequence[Any]) -> list[Test]:
    """The tests for all but some sorted values."""
    inner = [Test("between", (a, True, b, True)) for a, b in pairwise(values)]
    return [Test("<", values[0]), *inner, Test(">", values[-1])]


def _unite(tests: list[Test]) -> tuple[Test, ...]:
    """Tests in canonical form: distinct, in order, `<` and `>` of one value as `!=`."""
    kept = {sort_key(test): test for test in tests}
    for test in tests:
        if test.op == "!=" or (test.op == "<" and (">", *rank(test.value)) in kept):
            for op in "<>":
                kept.pop((op, *rank(test.value)), None)
            kept[("!=", *rank(test.value))] = Test("!=", test.value)
    return tuple(kept[key] for key in sorted(kept))
