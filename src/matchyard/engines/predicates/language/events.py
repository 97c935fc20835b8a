"""Read and check events: JSON-like objects."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from matchyard.engines.predicates.language.canonical import nearest, scalar
from matchyard.errors import MatchyardError, ParseError, shorten

_DIGITS = 20  # longer integers have more than 64 bits
_EXAMPLE = 'expected an object such as {"area": "north", "temp": 31}'
_MARKS = {
    b"\xef\xbb\xbf": "UTF-8",
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


def check_event(value: Any) -> dict[str, Any]:
    """An event as a plain dict, from a mapping or from JSON."""
    try:
        if isinstance(value, (str, bytes, bytearray, memoryview)):
            text = value if isinstance(value, str) else _decoded(bytes(value))
            value = read_json(text, "an event", _EXAMPLE, parse_int=_whole)
        if not isinstance(value, dict):
            raise ParseError(f"not an event: {shorten(value)}; {_EXAMPLE}")
        checked: dict[str, Any] = _checked(value, "")
        return checked
    except RecursionError:
        raise ParseError(f"not an event: too many objects within each other; {_EXAMPLE}") from None
    except MatchyardError:
        raise
    except Exception as error:  # a user's class may raise anything
        raise ParseError(
            f"not an event: {shorten(value)} cannot be read: {shorten(error)}; {_EXAMPLE}"
        ) from error


def _decoded(data: bytes) -> str:
    """Decode JSON as UTF-8 without a byte order mark (RFC 8259, 8.1); Python would guess others."""
    try:
        if foreign := foreign_encoding(data):
            raise ParseError(f"not JSON of an event: {foreign}; {_EXAMPLE}")
        return data.decode()
    except UnicodeDecodeError as error:
        raise ParseError(f"not JSON of an event: {error}; {_EXAMPLE}") from None


def _whole(digits: str) -> int | float:
    """An integer of an event; a long one as a double, since `int` refuses thousands of digits."""
    return int(digits) if len(digits) <= _DIGITS else float(digits)


def whole(digits: str) -> int:
    """An integer of a pattern."""
    if len(digits) > _DIGITS:
        raise ValueError(f"the integer {shorten(digits)} has more than 64 bits")
    return int(digits)


def finite(number: str) -> float:
    """A number of JSON; refuses one beyond all doubles."""
    if math.isinf(value := float(number)):
        raise ValueError(f"{shorten(number)} is more than a double can hold; Infinity is infinite")
    return value


def read_json(
    text: str,
    what: str,
    example: str,
    parse_float: Callable[[str], float] | None = None,
    parse_int: Callable[[str], float] | None = None,
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """Parse JSON text; errors name the position."""
    try:
        return json.loads(
            text, parse_float=parse_float, parse_int=parse_int, object_pairs_hook=pairs
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ParseError(f"not JSON of {what}: {where}: {error.msg}; {example}") from None
    except ValueError as error:  # from `finite`, `whole` or `once`
        raise ParseError(f"not JSON of {what}: {error}; {example}") from None


def _checked(value: Any, path: str) -> Any:
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind not in "mM":  # no times
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return float(value)
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ParseError(
                    f"not an event: the key {shorten(key)} in {path or 'it'}; {_EXAMPLE}"
                )
        inner = f"{path}." if path else ""
        return {_scalar(k, inner): _checked(v, inner + k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_checked(one, f"{path}[{position}]") for position, one in enumerate(value)]
    return _scalar(value, path)


def _scalar(value: Any, path: str) -> Any:
    try:
        value = nearest(value)
        kept = scalar(value) if not isinstance(value, float) else value
    except ParseError as error:
        raise ParseError(f"not an event: {path or 'a key'}: {error}; {_EXAMPLE}") from None
    return float(value) if isinstance(value, float) else kept


def foreign_encoding(data: bytes) -> str:
    """The fault of the first bytes of a text that is not plain UTF-8, or an empty text."""
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            return f"it begins with a byte order mark of {name}; JSON is UTF-8 without one"
    if b"\0" in data[:4]:
        return "there is a zero byte at its beginning, as in UTF-16 or UTF-32; JSON is UTF-8"
    return ""
