"""Tell the encoding of a document by its first bytes."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

UTF_8 = "utf-8"
LONGEST_DECLARATION = 1024  # bytes that tell the encoding
DECLARATION = re.compile(rb"\A<\?xml\s.*?\?>", re.DOTALL)
_ENCODING = re.compile(rb"""encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before that of UTF-16, with which it starts
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UNMARKED = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))


class Encoding(NamedTuple):
    """The name of a Python codec, and the length of the byte order mark."""

    name: str
    n_mark: int


def find_encoding(start: bytes) -> Encoding:
    """The encoding of a document that starts with `start`; a LookupError if it is unknown.

    >>> find_encoding(b"<?xml version='1.0' encoding='latin-1'?><a/>")
    Encoding(name='iso8859-1', n_mark=0)
    """
    for mark, name in _MARKS:
        if start.startswith(mark):
            return Encoding(name, len(mark))
    for unmarked, name in _UNMARKED:
        if start.startswith(unmarked):
            return Encoding(name, 0)
    text = start.removeprefix(codecs.BOM_UTF8)
    declaration = DECLARATION.match(text)
    declared = _ENCODING.search(declaration[0]) if declaration else None
    name = codecs.lookup(declared[1].decode()).name if declared else UTF_8
    "".encode(name)  # fails for codecs that are not for text
    return Encoding(name, len(start) - len(text))
