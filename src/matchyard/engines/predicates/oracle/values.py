"""MEANING of one test: the values that satisfy it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from typing import Any

from matchyard.engines.predicates.language.canonical import kind, nearest
from matchyard.engines.predicates.language.model import Test


def satisfies(value: Any, test: Test) -> bool:
    """True if a value (a number, text, bool or None) satisfies a test."""
    op, wanted = test
    value = nearest(value)
    if op == "exists":
        return True
    if kind(value) == "nan":  # NaN only satisfies `exists`
        return False
    if op == "except":
        return not any(satisfies(value, Test("=", one)) for one in wanted)
    if op == "between":
        low, high = (">" if wanted[1] else ">=", wanted[0]), ("<" if wanted[3] else "<=", wanted[2])
        return satisfies(value, Test(*low)) and satisfies(value, Test(*high))
    if op in _ORDER:  # values of different types are never equal nor in order
        return kind(value) == kind(wanted) and _ORDER[op](value, wanted)
    if op.startswith("not "):  # as `except`, for values of all types
        return not any(satisfies(value, Test(op[4:], one)) for one in wanted)
    if not isinstance(value, str):
        return False
    if op.endswith("ignore-case"):
        op, value = op.removesuffix("ignore-case").rstrip(), value.casefold()
    return _TEXT[op](value, wanted)


def _covers(text: str, pattern: str) -> bool:
    pieces = [""]
    for token in re.findall(r"\\?.", pattern, re.DOTALL):
        if token == "*":
            pieces.append("")
        else:
            pieces[-1] += token[-1]
    if len(pieces) == 1:
        return text == pieces[0]
    first, *middle, last = pieces
    at, end = len(first), len(text) - len(last)
    if at > end or not (text.startswith(first) and text.endswith(last)):
        return False
    for piece in middle:  # the first occurrence leaves most for the others
        at = text.find(piece, at, end) + len(piece)
        if at < len(piece):
            return False
    return True


def _is_within(text: str, network: str) -> bool:
    try:
        return ip_address(text) in ip_network(network)
    except ValueError:
        return False


_Compare = dict[str, Callable[[Any, Any], bool]]
_ORDER: _Compare = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
                    ">": operator.gt, ">=": operator.ge}  # fmt: skip
_TEXT: _Compare = {"prefix": str.startswith, "suffix": str.endswith, "contains": operator.contains,
                   "wildcard": _covers, "cidr": _is_within, "": operator.eq}  # fmt: skip
