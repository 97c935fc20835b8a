"""Parse twigs from text: the part of XPath that asks whether elements exist.

    twig        conjunction or conjunction …
    conjunction comparison and comparison …
    comparison  operand | operand = != < <= > >= value | value = … operand
    operand     path | path … | not(twig) | (twig)
    path        / step / step // step …
    step        name[twig][twig] … | *[twig] … | . | @name | text()
    value       "text" | 'text' | number

A path holds if something exists along its steps, a comparison if one such thing satisfies it. At the
top, a path without a slash starts anywhere: `a/b` is `//a/b`. In brackets it starts at the element
of the step, even with a leading slash: `a[//b]` is `a[.//b]`, as in the grammar for twigs
[Twigs on GPUs, Figure 1]; in XPath it would start at the document.

The axes `child::`, `descendant::` and `attribute::`, and `self::node()` and
`descendant-or-self::node()`, may be written out. A quote within a text is doubled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from matchyard.engines.conditions import And, Not, Or
from matchyard.engines.twigs.language.model import Comparison, number
from matchyard.engines.twigs.language.normal_form import MAX_NESTING, Condition
from matchyard.engines.twigs.language.xpath_paths import Operand, Paths

_OF_TEXT = {"=": Comparison.EQUAL, "!=": Comparison.UNEQUAL}
_OF_NUMBER = {
    "=": Comparison.NUMBER_EQUAL,
    "!=": Comparison.NUMBER_UNEQUAL,
    "<": Comparison.LESS,
    "<=": Comparison.AT_MOST,
    ">": Comparison.MORE,
    ">=": Comparison.AT_LEAST,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ARITHMETIC = frozenset({"+", "-", "*", "div", "mod"})
_DIGITS = frozenset("0123456789")
_FINITE = "a number that a double can hold"
_GOING_ON = "/, //, [, a comparison, and, or"


class _Union(NamedTuple):
    """The operands of a union: one of them must exist, or satisfy a comparison."""

    operands: tuple[Operand, ...]

    def tested(self, how: Comparison, operand: str | float | None) -> Condition:
        paths = tuple(one.tested(how, operand) for one in self.operands)
        return paths[0] if len(paths) == 1 else Or(paths)


_Value: TypeAlias = "_Union | Condition | str | float"


def parse_text(text: str) -> Condition:
    """Parse a text to a condition on a document."""
    parser = _Parser(text)
    condition = parser.condition(parser.disjunction(), 0)
    if parser.token:
        parser.fail(f"{_GOING_ON} or the end")
    return condition


class _Parser(Paths):
    """A recursive descent over the tokens."""

    depth = 0  # of brackets and parentheses

    def disjunction(self) -> _Value:
        return self.several("or", self.conjunction, Or)

    def conjunction(self) -> _Value:
        return self.several("and", self.comparison, And)

    def several(
        self,
        word: str,
        part: Callable[[], _Value],
        kind: type[And[Condition]] | type[Or[Condition]],
    ) -> _Value:
        at, first = self.at, part()
        if self.token != word:
            return first
        parts = [self.condition(first, at)]
        while self.token == word:
            self.at += 1
            at = self.at
            parts.append(self.condition(part(), at))
        return kind(tuple(parts))

    def condition(self, value: _Value, at: int) -> Condition:
        """Convert a value to a condition; a path becomes the condition that it exists."""
        if isinstance(value, _Union):
            return value.tested(Comparison.EXISTS, None)
        if isinstance(value, (str, float)):
            self.unsupported("constant", at)
        return value

    def comparison(self) -> _Value:
        at, left = self.at, self.union()
        op, op_at = self.token, self.at
        if op not in _OF_NUMBER:
            return left
        self.at += 1
        right_at, right = self.at, self.union()
        if isinstance(left, (str, float)):
            left, right, right_at = right, left, at
            op = _MIRRORED.get(op, op)
        if not isinstance(left, _Union) or not isinstance(right, (str, float)):
            self.unsupported("comparison", op_at)
        if isinstance(right, str) and op not in _OF_TEXT:
            right = number(right)
            if math.isnan(right):
                self.fail(f"a number, since {op} compares numbers", right_at, "comparison")
            if math.isinf(right):
                self.fail(_FINITE, right_at)
        tests = _OF_TEXT if isinstance(right, str) else _OF_NUMBER
        return left.tested(tests[op], right)

    def union(self) -> _Value:
        value = self.primary()
        while self.token == "|":
            self.at += 1
            at, other = self.at, self.primary()
            if not isinstance(value, _Union) or not isinstance(other, _Union):
                self.fail("paths on both sides of |", at - 1)
            value = _Union(value.operands + other.operands)
        if self.token in _ARITHMETIC:
            self.unsupported("arithmetic")
        return value

    def primary(self) -> _Value:
        token, following = self.token, self.following()
        if token == "(":
            value = self.nested()
            if self.token in ("[", "/", "//"):
                self.unsupported("group")
            return value
        if token == "not" and following == "(":
            self.at += 1
            at = self.at + 1
            return Not(self.condition(self.nested(), at))
        if token[:1] in ('"', "'") and len(token) > 1:
            self.at += 1
            return token[1:-1].replace(token[0] * 2, token[0])
        if token == "$":
            self.unsupported("variable")
        if token == "-" or _is_number(token):
            return self.number()
        return _Union((self.path(),))

    def number(self) -> float:
        sign_at, sign = self.at, 1.0
        if self.token == "-":
            self.at += 1
            sign = -1.0
        if not _is_number(self.token):
            self.unsupported("arithmetic", sign_at)
        value = sign * float(self.token) + 0.0  # no zero has a sign
        if math.isinf(value):
            self.fail(_FINITE)
        self.at += 1
        return value

    def nested(self) -> _Value:
        """Parse the part between parentheses."""
        self.enter()
        value = self.disjunction()
        self.expect(")", f"{_GOING_ON} or )")
        self.depth -= 1
        return value

    def predicate(self) -> Condition:
        """Parse the part between brackets."""
        self.enter()
        self.n_predicates += 1
        at, value = self.at, self.disjunction()
        if isinstance(value, float):
            self.unsupported("position", at)
        self.expect("]", f"{_GOING_ON} or ]")
        self.depth -= 1
        self.n_predicates -= 1
        return self.condition(value, at)

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail(f"at most {MAX_NESTING} brackets within each other", part="limit")
        self.at += 1


def _is_number(token: str) -> bool:
    """True for a number in ASCII digits. Python's `float` also accepts digits that start names."""
    return token[:1] in _DIGITS or (token[:1] == "." and token[1:2] in _DIGITS)
