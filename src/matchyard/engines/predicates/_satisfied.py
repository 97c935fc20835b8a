"""MEANING, of one test: does a value satisfy it? `oracle` has the rest."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from typing import Any

from matchyard.engines.predicates._constraints import Test


def satisfies(value: Any, test: Test) -> bool:
    """Does a value (a number, text, bool or None) satisfy a test?"""
    op, wanted = test
    if op == "exists":
        return True
    if is_nan(value):  # it is there, and that is all
        return False
    if op == "except":
        return not any(satisfies(value, Test("=", one)) for one in wanted)
    if op == "between":
        is_above = satisfies(value, Test(">" if wanted[1] else ">=", wanted[0]))
        return is_above and satisfies(value, Test("<" if wanted[3] else "<=", wanted[2]))
    if op in _ORDER:  # values of different types are never equal nor in order
        return kind(value) == kind(wanted) and _ORDER[op](value, wanted)
    if op.startswith("not "):
        is_text = isinstance(value, str)
        return is_text and not any(satisfies(value, Test(op[4:], one)) for one in wanted)
    if op.endswith("ignore-case") and isinstance(value, str):
        op, value = op.removesuffix("ignore-case").rstrip(), value.casefold()
    return isinstance(value, str) and _TEXT[op](value, wanted)


def kind(value: Any) -> str:
    """The type of a value, in words."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true or false"
    return "text" if isinstance(value, str) else "a number"


def is_nan(value: Any) -> bool:
    """Is it the number that compares with nothing?"""
    return isinstance(value, float) and value != value  # noqa: PLR0124


def _covers(text: str, pattern: str) -> bool:
    tokens = re.findall(r"\\?.", pattern, re.DOTALL)
    regex = "".join(".*" if token == "*" else re.escape(token[-1]) for token in tokens)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def _is_within(text: str, network: str) -> bool:
    try:
        return "%" not in text and ip_address(text) in ip_network(network)
    except ValueError:
        return False


_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_TEXT: dict[str, Callable[[Any, Any], bool]] = {
    "prefix": str.startswith, "suffix": str.endswith, "contains": operator.contains,
    "wildcard": _covers, "cidr": _is_within, "": operator.eq,
}  # fmt: skip
