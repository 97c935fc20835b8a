"""Split a large file: every element of one name becomes a document of its own.

    <dblp> <article>…</article> <book>…</book> <article>…</article> </dblp>
           └───── document ───┘                └───── document ───┘

The file is read through a buffer that holds little more than one record, so that memory does not
depend on its length. Text between records is only searched for the next record.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.encoder.scanner.characters import (
    APOSTROPHE,
    GREATER,
    LESS,
    QUOTE,
    SLASH,
    is_next,
)
from matchyard.engines.twigs.encoder.scanner.characters import is_space as _is_space
from matchyard.engines.twigs.encoder.scanner.markup import (
    CDATA,
    COMMENT,
    DOCTYPE,
    INSTRUCTION,
    subset_end,
)
from matchyard.engines.twigs.language.model import HALF
from matchyard.engines.twigs.xml.encodings import (
    DECLARATION,
    LONGEST_DECLARATION,
    UTF_8,
    Encoding,
    find_encoding,
)
from matchyard.engines.twigs.xml.expat import EXAMPLE
from matchyard.errors import UsageError, XmlError

BUFFER_BYTES = 1 << 20
_OPEN = -1  # the markup does not end within the buffer
_SHOWN = 40  # bytes of markup in an error
_LONGEST_START = 9  # bytes that tell which markup a `<` starts: `<![CDATA[`
_ENDS = tuple(np.frombuffer(word, np.uint8) for word in (b"-->", b"]]>", b"?>"))
_COMMENT_END, _CDATA_END, _INSTRUCTION_END = _ENDS


class _Found(NamedTuple):
    """The complete records of a buffer, the position of the root, and the end of the used part."""

    spans: NDArray[np.int64]  # [n_records, 2]
    root: int  # or -1
    n_done: int


def records(
    source: str | os.PathLike[str] | BinaryIO,
    record: str,
    max_document_bytes: int = 1 << 30,
    buffer_bytes: int = BUFFER_BYTES,
) -> Iterator[bytes]:
    """The elements named `record` in a file, one by one, in UTF-8.

    Records are at any depth below the root, but not within another record. Every record gets the
    declarations of entities in the file.
    """
    if not isinstance(record, str) or not record or HALF.search(record):
        raise UsageError(
            f'a record needs the name of an element, e.g. record="article", not {record!r:.80}'
        )
    if isinstance(source, str | os.PathLike):
        with Path(source).open("rb") as file:
            yield from records(file, record, max_document_bytes, buffer_bytes)
        return
    name = np.frombuffer(record.encode(), np.uint8)
    chunks = _utf8(source, buffer_bytes)
    data, head, has_root, where = b"", b"", False, (1, 1)
    while chunk := _next_chunk(chunks, len(data)):
        data += chunk
        part = _find(data, name, has_root)
        if part.root >= 0:
            has_root, head = True, _declarations(data[: part.root])
        for start, end in part.spans.tolist():
            yield head + data[start:end]
        where = _after_bytes(where, data[: part.n_done])
        data = data[part.n_done :]
        if len(data) > max_document_bytes:
            message = '{found}; the limit is {limit} (option "max_document_bytes")'
            found, limit = f"a record of more than {len(data)} bytes", max_document_bytes
            raise _refused(where, message, found, f"at most {limit} bytes", limit=limit)
    if not has_root:
        raise _refused(where, "the file has no element", "the end", "an element")
    if data:
        message = "the file ends within the markup that starts here"
        found = data[:_SHOWN].decode(errors="replace").split("\n")[0]
        raise _refused(where, message, found, "markup that ends")


def _refused(
    where: tuple[int, int], message: str, found: str, expected: str, **said: Any
) -> XmlError:
    """The error at a place of the file."""
    line, column = where
    return XmlError.of(
        message,
        line=line,
        column=column,
        found=found,
        expected=expected,
        example=EXAMPLE,
        **said,
    )


def _next_chunk(chunks: Iterator[bytes], n_bytes: int) -> bytes:
    """Read as many bytes as the buffer has, so that no byte is searched often."""
    parts, n_read = [], 0
    for chunk in chunks:
        parts.append(chunk)
        n_read += len(chunk)
        if n_read >= n_bytes:
            break
    return b"".join(parts)


def _after_bytes(where: tuple[int, int], data: bytes) -> tuple[int, int]:
    """Line and column after some more bytes."""
    n_lines = data.count(b"\n")
    column = len(data) - data.rfind(b"\n") if n_lines else where[1] + len(data)
    return where[0] + n_lines, column


def _utf8(file: BinaryIO, buffer_bytes: int) -> Iterator[bytes]:
    """The file in chunks of UTF-8, without a byte order mark."""
    if not hasattr(file, "read"):
        raise UsageError(
            f'not a file: {file!r:.80}; expected a path, or a file opened with open(path, "rb")'
        )
    chunk = file.read(max(buffer_bytes, LONGEST_DECLARATION))
    if not isinstance(chunk, bytes | bytearray | memoryview):
        raise UsageError(
            f'records are read from bytes, not {type(chunk).__name__}; open the file with "rb"'
        )
    chunk = bytes(chunk)
    encoding, n_mark = _encoding(chunk)
    chunk = chunk[n_mark:]
    if encoding == UTF_8:
        yield chunk
        while chunk := file.read(buffer_bytes):
            yield chunk
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        while chunk:
            decoded = decoder.decode(chunk).encode()
            chunk = file.read(buffer_bytes)
            if decoded:
                yield decoded
        decoder.decode(b"", final=True)
    except UnicodeError as error:
        message = "the file is not {expected}: {found}"
        raise _refused((1, 1), message, str(error), encoding) from None


def _encoding(start: bytes) -> Encoding:
    try:
        return find_encoding(start)
    except (LookupError, UnicodeError) as error:
        message = "cannot be decoded: {found}"
        raise _refused((1, 1), message, str(error), "an encoding that is known") from None


def _declarations(head: bytes) -> bytes:
    """The part of the prolog that every record needs: a DOCTYPE with declarations."""
    head = DECLARATION.sub(b"", head)
    return head if b"<!DOCTYPE" in head and b"[" in head else b""


def _find(data: bytes, name: NDArray[np.uint8], has_root: bool) -> _Found:
    text = np.frombuffer(data, np.uint8)
    spans = np.empty((max(1, len(data) // (len(name) + 3)), 2), np.int64)
    n_records, root, n_done = _find_records(text, name, has_root, spans)
    return _Found(spans[:n_records], root, n_done)


@njit(nogil=True, cache=True)
def _after(text, position, word):
    while position + len(word) <= len(text):
        if text[position] == word[0] and is_next(text, position, len(text), word):
            return position + len(word)
        position += 1
    return _OPEN


@njit(nogil=True, cache=True)
def _tag_end(text, position):
    """The position after the first `>` outside quotes."""
    while position < len(text):
        byte = text[position]
        position += 1
        if byte == GREATER:
            return position
        if byte in (QUOTE, APOSTROPHE):
            while position < len(text) and text[position] != byte:
                position += 1
            position += 1
    return _OPEN


@njit(nogil=True, cache=True)
def _markup_end(text, position):
    """The end of the comment, section, instruction or declaration that starts here; 0 for tags."""
    end = len(text)
    if is_next(text, position, end, COMMENT):
        return _after(text, position + len(COMMENT), _COMMENT_END)
    if is_next(text, position, end, CDATA):
        return _after(text, position + len(CDATA), _CDATA_END)
    if is_next(text, position, end, INSTRUCTION):
        return _after(text, position + len(INSTRUCTION), _INSTRUCTION_END)
    if is_next(text, position, end, DOCTYPE):
        return _doctype_end(text, position + len(DOCTYPE))
    return 0


@njit(nogil=True, cache=True)
def _doctype_end(text, position):
    while position < len(text):
        byte = text[position]
        position += 1
        if byte == GREATER:
            return position
        if byte in (QUOTE, APOSTROPHE):
            while position < len(text) and text[position] != byte:
                position += 1
            position += 1
        elif byte == 91:  # [
            after = subset_end(text, position, len(text))
            return after if after < len(text) else _OPEN
    return _OPEN


@njit(nogil=True, cache=True)
def _is_named(text, position, name):
    """True if the tag whose name begins at `position` has the given name."""
    after = position + len(name)
    if after >= len(text) or not is_next(text, position, len(text), name):
        return False
    return text[after] == GREATER or text[after] == SLASH or _is_space(text[after])


@njit(nogil=True, cache=True)
def _find_records(text, name, has_root, spans):
    """Write the spans of complete records; returns how many, the position of the root (-1 for none)
    and the end of the part that is done."""
    n_records, root, depth, start, position = 0, -1, 0, 0, 0
    while True:
        while position < len(text) and text[position] != LESS:
            position += 1
        keep = start if depth else (position if has_root else 0)
        if position + _LONGEST_START > len(text) and _tag_end(text, position) < 0:
            return n_records, root, min(keep, len(text))
        after = _markup_end(text, position)
        is_tag = after == 0
        if is_tag:
            after = _tag_end(text, position + 1)
        if after < 0:
            return n_records, root, keep
        if is_tag:
            is_end = text[position + 1] == SLASH
            is_whole = text[after - 2] == SLASH
            if not has_root:
                has_root, root = True, position
            elif _is_named(text, position + 1 + is_end, name):
                if depth == 0:
                    start = position
                if not is_end:
                    depth += 1
                if (is_whole or is_end) and depth > 0:
                    depth -= 1
                    if depth == 0:
                        spans[n_records, 0], spans[n_records, 1] = start, after
                        n_records += 1
        position = after
