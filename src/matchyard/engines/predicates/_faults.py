"""What can be wrong with JSON text, and how that is told."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import JsonError

NO_FAULT = 0
# No faults of the text: the scanner needs more room for one of these.
FULL_ATTRIBUTES, FULL_NODES, FULL_PLACES, FULL_UNESCAPED = -1, -2, -3, -4
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
_MARKS = {
    b"\xef\xbb\xbf": "UTF-8",
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_EXAMPLE = 'e.g. {"area": "north", "temp": 31.5}'


def foreign_encoding(data: bytes) -> str:
    """What is wrong with the first bytes of a text, if they are not those of plain UTF-8."""
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            return f"it begins with a byte order mark of {name}; JSON is UTF-8 without one"
    if b"\0" in data[:4]:
        return "there is a zero byte at its beginning, as in UTF-16 or UTF-32; JSON is UTF-8"
    return ""


def refuse(
    fault: int, event: int, position: int, text: NDArray[np.uint8], start: int, end: int, limit: int
) -> JsonError:
    """The error to raise, with the place and what stands there."""
    message = foreign_encoding(bytes(text[start : min(end, start + 4)]))
    message = message or _MESSAGES[fault].format(limit=limit)
    near = bytes(text[max(start, position - 20) : min(end, position + 20)])
    found = "the end" if position >= end else repr(bytes(text[position : position + 1]))[1:]
    return JsonError(
        f"is not JSON at byte {position - start}: {message}; found {found} "
        f"in {near.decode(errors='replace')!r}; expected an object, {_EXAMPLE}",
        event,
    )
