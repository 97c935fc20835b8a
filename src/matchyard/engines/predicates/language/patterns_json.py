"""Predicates as JSON patterns, in the style of EventBridge rules.

    {"area": ["north"], "detail": {"temp": [{"numeric": [">", 30]}]}}

A list holds alternatives; the fields of an object must all match. `$or` takes a list of patterns;
`$and`, `$not`, `contains` and `compare` go beyond EventBridge. Errors name the path within the
pattern.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

from matchyard.engines.conditions import And, Not, Or
from matchyard.engines.predicates.language.canonical import EXAMPLES, check_name, make_test
from matchyard.engines.predicates.language.examples import PATTERN
from matchyard.engines.predicates.language.model import Constraint, Test
from matchyard.engines.predicates.language.normal_form import Condition, constrain
from matchyard.errors import ParseError, shorten

_BARE = "{found}; expected {expected}"  # a message without the word "found"
_NUMERIC = ("=", "<", "<=", ">", ">=")
_COMPARE = (*_NUMERIC, "!=")
_MAX_DEPTH = 100
_OF_TEXT = ("prefix", "suffix", "contains", "wildcard", "cidr", "")  # "" compares without case
_SCALARS = (str, int, float, bool, type(None))
_NONE_OF = {
    "prefix": "not prefix", "suffix": "not suffix", "wildcard": "not wildcard",
    "equals-ignore-case": "not ignore-case",
}  # fmt: skip


def parse_rule(rule: dict[str, Any]) -> Condition:
    """The condition that a pattern stands for."""
    parts = _object(rule, "", "", 0)
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _fail(
    path: str,
    found: str | None,
    expected: str | None,
    message: str = "found {found}; expected {expected}",
    **said: Any,
) -> NoReturn:
    raise ParseError.of(
        "not a pattern: {path}" + message + "; for example: {example}",
        path=f"{path}: " if path else "",
        found=found,
        expected=expected,
        example=PATTERN,
        **said,
    )


def _fail_of(path: str, error: ParseError) -> NoReturn:
    _fail(path, error.found, error.expected, "{reason}", reason=error)


def _shown(value: Any) -> str:
    """A value as JSON, shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except Exception:  # not JSON: of another type, or recursive
        return shorten(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of a JSON pattern; refuses a key that comes twice."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        n_times = Counter(key for key, _ in pairs)
        twice = next(key for key in n_times if n_times[key] > 1)
        raise ParseError.of(
            "{found} in an object; expected {expected}",
            found=f"the key {_shown(twice)} twice",
            expected="each key once",
            example=PATTERN,
        )
    return fields


def _object(rule: dict[str, Any], name: str, path: str, depth: int) -> list[Condition]:
    """The conditions on the fields of an object; `name` ends in a dot unless it is empty."""
    if not rule:
        at_least = 'at least one (the text "true" matches all)'
        _fail(path, "an object without fields", at_least, _BARE)
    if depth > _MAX_DEPTH:
        what = f"{_MAX_DEPTH} objects within each other"
        _fail(path[:40], f"more than {what}", f"at most {what}", "{found}")
    parts: list[Condition] = []
    for key, value in rule.items():
        if type(value) is list and type(key) is str and key[:1] != "$":
            parts.append(_field(value, name + key, path + key))
        elif not isinstance(key, str):
            _fail(path.rstrip("."), f"the key {_shown(key)}", "text", _BARE)
        elif key in ("$or", "$and"):
            parts.append(_combined(key, value, name, path, depth))
        elif key == "$not":
            parts.append(Not(_inner(value, name, f"{path}{key}", depth)))
        elif isinstance(value, dict):
            parts += _object(value, f"{name}{key}.", f"{path}{key}.", depth + 1)
        elif isinstance(value, (list, tuple)):
            parts.append(_field(list(value), name + key, path + key))
        else:
            _fail(path + key, _shown(value), f"a list of values, such as [{_shown(value)}]")
    return parts


def _inner(value: Any, name: str, path: str, depth: int) -> Condition:
    if not isinstance(value, dict):
        _fail(path, _shown(value), "an object")
    for key in value:
        if isinstance(key, str) and key in _OPERATORS:
            _fail(
                f"{path}.{key}",
                "an operator without a field",
                f'a field with it, such as {{"temp": [{{"{key}": …}}]}}',
                f"{_BARE}; an attribute of that name is asked for as text",
            )
    parts = _object(value, name, f"{path}.", depth + 1)
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _combined(key: str, value: Any, name: str, path: str, depth: int) -> Condition:
    if not isinstance(value, (list, tuple)) or not value:
        _fail(f"{path}{key}", _shown(value), "a list of objects")
    parts = tuple(
        _inner(one, name, f"{path}{key}[{position}]", depth) for position, one in enumerate(value)
    )
    return Or(parts) if key == "$or" else And(parts)


def _field(values: list[Any], name: str, path: str) -> Condition:
    """One of the values of a list."""
    if not values:
        _fail(path, "an empty list", 'at least one value, such as ["north"]', _BARE)
    tests: list[Test] = []
    may_be_absent = False
    for position, value in enumerate(values):
        if type(value) is str and value.isascii():
            tests.append(Test("=", value))
        elif isinstance(value, dict):
            if value.get("exists") is False and len(value) == 1:
                may_be_absent = True
            else:
                tests.append(_operator(value, f"{path}[{position}]"))
        else:
            tests.append(_test("=", value, f"{path}[{position}]"))
    if not name.isascii():
        _checked(check_name, name, path)
    absent = Not(Constraint(name, (Test("exists", None),)))
    if not may_be_absent:
        return constrain(name, tests)
    return Or((constrain(name, tests), absent)) if tests else absent


def _operator(value: dict[str, Any], path: str) -> Test:
    """`{"prefix": "ab"}` and the like."""
    if len(value) != 1:
        _fail(path, f"an object with {len(value)} keys", "one operator", _BARE)
    [(op, operand)] = value.items()
    make = _OPERATORS.get(op) if isinstance(op, str) else None
    if make is None:
        known = f"one of: {', '.join(_OPERATORS)}"
        _fail(path, _shown(op), known, f"no operator {_BARE}")
    return make(operand, f"{path}.{op}")


def _numeric(operand: Any, path: str) -> Test:
    """Comparisons with numbers."""
    for value in operand[1::2] if isinstance(operand, (list, tuple)) else ():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            _fail(path, _shown(value), "a number")
    return _compared(operand, path, _NUMERIC)


def _compare(operand: Any, path: str) -> Test:
    """Comparisons with numbers or texts."""
    return _compared(operand, path, _COMPARE)


def _compared(operand: Any, path: str, known: tuple[str, ...]) -> Test:
    if not isinstance(operand, (list, tuple)) or len(operand) not in (2, 4):
        _fail(path, _shown(operand), 'one or two comparisons, such as [">=", 1, "<", 9]')
    for op in operand[::2]:
        if not isinstance(op, str) or op not in known:
            _fail(path, _shown(op), f"one of: {', '.join(known)}", f"no comparison {_BARE}")
    if len(operand) == 2:
        return _test(operand[0], operand[1], path)
    low_op, low, high_op, high = operand
    if low_op[0] == "<":
        low_op, low, high_op, high = high_op, high, low_op, low
    if low_op[0] != ">" or high_op[0] != "<":
        _fail(path, _shown(operand), 'a lower and an upper end, such as [">=", 1, "<", 9]')
    return _test("between", (low, low_op == ">", high, high_op == "<"), path)


def _cased(op: str) -> Callable[[Any, str], Test]:
    """`prefix` and the like, which may ignore case."""

    def make(operand: Any, path: str) -> Test:
        if isinstance(operand, dict):
            if list(operand) != ["equals-ignore-case"]:
                _fail(path, _shown(operand), 'text or {"equals-ignore-case": text}')
            return _test(f"{op} ignore-case", operand["equals-ignore-case"], path)
        return _test(op, operand, path)

    return make


def _plain(op: str) -> Callable[[Any, str], Test]:
    return lambda operand, path: _test(op, operand, path)


def _exists(operand: Any, path: str) -> Test:
    if operand is not True:  # `_field` handles false
        _fail(path, _shown(operand), "true or false")
    return Test("exists", None)


def _anything_but(operand: Any, path: str) -> Test:
    op = "except"
    if isinstance(operand, dict):
        kind = next(iter(operand), None)
        if len(operand) != 1 or not isinstance(kind, str) or kind not in _NONE_OF:
            _fail(path, _shown(operand), f"values, or one of: {', '.join(_NONE_OF)}")
        op, operand, path = _NONE_OF[kind], operand[kind], f"{path}.{kind}"
    values = operand if isinstance(operand, (list, tuple)) else [operand]
    if not values:
        _fail(path, "an empty list", "at least one value", _BARE)
    return _test(op, tuple(values), path)


_OPERATORS: dict[str, Callable[[Any, str], Test]] = {
    "numeric": _numeric,
    "compare": _compare,
    "prefix": _cased("prefix"),
    "suffix": _cased("suffix"),
    "equals-ignore-case": _plain("ignore-case"),
    "contains": _cased("contains"),
    "wildcard": _cased("wildcard"),
    "anything-but": _anything_but,
    "exists": _exists,
    "cidr": _plain("cidr"),
}


def _test(op: str, value: Any, path: str) -> Test:
    if op == "=" and not isinstance(value, _SCALARS):
        _fail(path, _shown(value), "a value or an operator")
    kind = op.removeprefix("not ").removesuffix("ignore-case").rstrip()
    if kind in _OF_TEXT:
        for one in value if op.startswith("not ") else (value,):
            if not isinstance(one, str):
                _fail(path, _shown(one), f'text, such as "{EXAMPLES.get(kind, "ab")}"')
    try:
        return make_test(op, value)
    except ParseError as error:
        _fail_of(path, error)


def _checked(check: Callable[[Any], Any], value: Any, path: str) -> Any:
    try:
        return check(value)
    except ParseError as error:
        _fail_of(path, error)
