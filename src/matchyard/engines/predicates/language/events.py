"""Read and check events: JSON-like objects."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from matchyard.engines.predicates.language.canonical import nearest, scalar
from matchyard.engines.predicates.language.examples import EVENT, PATTERN
from matchyard.errors import MatchyardError, ParseError, place_after, shorten

_DIGITS = 20  # longer integers have more than 64 bits
_OBJECT = f"an object such as {EVENT}"
_LONGEST = 40  # characters of JSON in an error
_JSON = re.compile(r'"(?:[^"\\]|\\.)*"?|[\w.+-]+|.', re.DOTALL)  # a piece of text
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
            tail = "expected an object such as {example}"
            value = read_json(text, "an event", tail, EVENT, parse_int=_whole)
        if not isinstance(value, dict):
            raise _refused("not an event: {found}", shorten(value))
        checked: dict[str, Any] = _checked(value, "")
        return checked
    except RecursionError:
        raise _refused("not an event: {found}", "too many objects within each other") from None
    except MatchyardError:
        raise
    except Exception as error:  # a user's class may raise anything
        message = "not an event: {found} cannot be read: {reason}"
        raise _refused(message, shorten(value), reason=shorten(error)) from error


def _refused(message: str, found: str, **said: Any) -> ParseError:
    """The error with this message, and what was expected instead."""
    whole = f"{message}; expected {{expected}}"
    return ParseError.of(whole, found=found, expected=_OBJECT, example=EVENT, **said)


def _decoded(data: bytes) -> str:
    """Decode JSON as UTF-8 without a byte order mark (RFC 8259, 8.1); Python would guess others."""
    try:
        if reason := foreign_encoding(data):
            message, found = "not JSON of an event: {reason}", repr(data[:4])[1:]
            raise _refused(message, found, reason=reason, line=1, column=1)
        return data.decode()
    except UnicodeDecodeError as error:
        line, column = place_after(data[: error.start].decode())
        found = repr(data[error.start : error.end])[1:]
        message = "not JSON of an event: {reason}"
        raise _refused(message, found, reason=error, line=line, column=column) from None


def _whole(digits: str) -> int | float:
    """An integer of an event; a long one as a double, since `int` refuses thousands of digits."""
    return int(digits) if len(digits) <= _DIGITS else float(digits)


def whole(digits: str) -> int:
    """An integer of a pattern."""
    if len(digits) > _DIGITS:
        raise _unfit("the integer {found} has more than 64 bits", digits, "at most 64 bits")
    return int(digits)


def finite(number: str) -> float:
    """A number of JSON; refuses one beyond all doubles."""
    if math.isinf(value := float(number)):
        message = "{found} is more than a double can hold; Infinity is infinite"
        raise _unfit(message, number, "a number that a double can hold")
    return value


def _unfit(message: str, number: str, expected: str) -> ParseError:
    """The error of a number in a pattern."""
    return ParseError.of(message, found=shorten(number), expected=expected, example=PATTERN)


def read_json(
    text: str,
    what: str,
    tail: str,
    example: str,
    parse_float: Callable[[str], float] | None = None,
    parse_int: Callable[[str], float] | None = None,
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """Parse JSON text; errors name the position. `tail` ends their messages, with `{example}` in it."""
    try:
        return json.loads(
            text, parse_float=parse_float, parse_int=parse_int, object_pairs_hook=pairs
        )
    except json.JSONDecodeError as error:
        wanted = error.msg.removeprefix("Expecting ")
        raise ParseError.of(
            "not JSON of {what}: line {at}, column {column}: {reason}; " + tail,
            what=what,
            at=error.lineno,
            reason=error.msg,
            line=error.lineno,
            column=error.colno,
            found=_piece(text, error.pos),
            expected=wanted if wanted != error.msg else f"JSON of {what}",
            example=example,
        ) from None
    except ParseError as error:  # from `finite`, `whole` or `once`
        tail = tail.format(example=example)
        raise error.saying(f"not JSON of {what}: {error}; {tail}") from None


def _piece(text: str, position: int) -> str:
    """The piece of JSON at a position of a text."""
    piece = _JSON.match(text, position)
    if piece is None:
        return "the end"
    return piece[0] if len(piece[0]) <= _LONGEST else f"{piece[0][: _LONGEST - 1]}…"


def _checked(value: Any, path: str) -> Any:
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind not in "mM":  # no times
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return float(value)
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                message = "not an event: the key {found} in {where}"
                raise _refused(message, shorten(key), where=path or "it")
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
        raise ParseError.of(
            "not an event: {path}: {reason}; expected {object}",
            path=path or "a key",
            reason=error,
            object=_OBJECT,
            found=error.found,
            expected=error.expected,
            example=EVENT,
        ) from None
    return float(value) if isinstance(value, float) else kept


def foreign_encoding(data: bytes) -> str:
    """The fault of the first bytes of a text that is not plain UTF-8, or an empty text."""
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            return f"it begins with a byte order mark of {name}; JSON is UTF-8 without one"
    if b"\0" in data[:4]:
        return "there is a zero byte at its beginning, as in UTF-16 or UTF-32; JSON is UTF-8"
    return ""
