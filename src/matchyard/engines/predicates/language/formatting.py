"""Predicates as text of the language."""

from __future__ import annotations

import json
from typing import Any

from matchyard.engines.predicates.language.model import Constraint, Filter, Predicate, Test
from matchyard.engines.predicates.language.text import is_plain_name

_IGNORING = " ignoring case"


def format_predicate(predicate: Predicate) -> str:
    """The text of a predicate."""
    if not predicate.filters:
        return "false"
    return " or ".join(format_filter(one) for one in predicate.filters)


def format_filter(one: Filter) -> str:
    """The text of a filter."""
    parts = [format_constraint(constraint) for constraint in one.holds]
    for group in one.fails:
        inner = " and ".join(format_constraint(constraint) for constraint in group)
        is_short = len(group) == 1 and group[0].tests[0].op == "exists"
        parts.append(f"not {inner}" if is_short else f"not ({inner})")
    return " and ".join(parts) or "true"


def format_constraint(constraint: Constraint) -> str:
    """The text of a constraint."""
    name, tests = format_name(constraint.name), constraint.tests
    if len(tests) > 1:
        return f"{name} in {{{', '.join(_element(test) for test in tests)}}}"
    op = tests[0].op
    if op == "exists":
        return f"exists {name}"
    return f"{name} {'in ' if op in ('between', 'cidr') else ''}{_operation(tests[0])}"


def format_name(name: str) -> str:
    """A name, between backticks if it needs them."""
    if is_plain_name(name):
        return name
    inner = json.dumps(name, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("`", "\\`")
    return f"`{inner}`"


def format_value(value: Any) -> str:
    """A number, text, bool or null."""
    if isinstance(value, float):
        return repr(value)  # also inf, which JSON does not have
    return json.dumps(value, ensure_ascii=False)


def _element(test: Test) -> str:
    return format_value(test.value) if test.op == "=" else _operation(test)


def _operation(test: Test) -> str:
    op, value = test
    if op == "between":
        low, low_open, high, high_open = value
        ends = f"{format_value(low)}, {format_value(high)}"
        return f"{'(' if low_open else '['}{ends}{')' if high_open else ']'}"
    if op == "ignore-case":
        return f"= {format_value(value)}{_IGNORING}"
    if op == "exists":
        return op
    if op.endswith(" ignore-case") and op != "not ignore-case":
        return f"{op.removesuffix(' ignore-case')} {format_value(value)}{_IGNORING}"
    if not isinstance(value, tuple):
        return f"{op} {format_value(value)}"
    values = ", ".join(format_value(one) for one in value)
    listed = values if len(value) == 1 else f"{{{values}}}"
    kind = op.removeprefix("not ")
    if kind == "ignore-case":
        return f"except {listed}{_IGNORING}"
    return f"except {listed}" if op == "except" else f"except {kind} {listed}"
