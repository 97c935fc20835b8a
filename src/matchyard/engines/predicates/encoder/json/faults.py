"""Faults of JSON text and their messages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from matchyard.engines.predicates.language.events import foreign_encoding
from matchyard.errors import JsonError, place_after

NO_FAULT = 0
# Not faults of the text: the scanner needs a larger buffer.
FULL_ATTRIBUTES, FULL_NODES, FULL_ELEMENTS, FULL_UNESCAPED = -1, -2, -3, -4
ENDS, OBJECT, NAME, COLON, COMMA, NO_VALUE, TRAILING = 2, 3, 4, 5, 6, 7, 8
CONTROL, ESCAPE, SURROGATE, NOT_UTF8, DEEP = 9, 10, 11, 12, 13
_MESSAGES = {
    ENDS: "the text ends too early",
    OBJECT: "expected an object",
    NAME: "expected a name in double quotes",
    COLON: 'expected ":"',
    COMMA: 'expected "," or the closing bracket',
    NO_VALUE: "expected a value",
    TRAILING: "expected nothing more after the object",
    CONTROL: "a control character must be escaped within a string",
    ESCAPE: "not an escape that JSON knows",
    SURROGATE: "half of a surrogate pair stands for no character",
    NOT_UTF8: "these bytes are not UTF-8",
    DEEP: 'nested deeper than {limit} levels (option "max_depth")',
}
_EXPECTED = (OBJECT, NAME, COLON, COMMA, NO_VALUE, TRAILING)  # their messages say what
_EXAMPLE = '{"area": "north", "temp": 31.5}'
_OBJECT = f"an object, e.g. {_EXAMPLE}"


def refuse(
    fault: int, event: int, position: int, text: NDArray[np.uint8], start: int, end: int, limit: int
) -> JsonError:
    """The error to raise, with the position and the byte at it."""
    message = foreign_encoding(bytes(text[start : min(end, start + 4)]))
    message = message or _MESSAGES[fault].format(limit=limit)
    near = bytes(text[max(start, position - 20) : min(end, position + 20)])
    seen = "the end" if position >= end else repr(bytes(text[position : position + 1]))[1:]
    at = bytes(text[position : min(end, position + 4)]).decode(errors="replace")[:1]
    line, column = place_after(bytes(text[start:position]).decode(errors="replace"))
    return JsonError.of(
        "is not JSON at byte {byte}: {message}; found {seen} in {near!r}; expected {object}",
        byte=position - start,
        message=message,
        seen=seen,
        near=near.decode(errors="replace"),
        object=_OBJECT,
        event=event,
        line=line,
        column=column,
        found=at if at.isprintable() and at not in ("", "\ufffd") else seen,
        expected=message.removeprefix("expected ") if fault in _EXPECTED else _OBJECT,
        example=_EXAMPLE,
    )
