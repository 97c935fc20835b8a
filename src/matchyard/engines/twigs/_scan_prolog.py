"""What comes before the root element, for the scanner: where that starts, and which entities there
are. Declarations are read by expat.

Entities that are plain text are expanded by the scanner. Those that contain tags are written into
a copy of the document in place of the references to them, and the scanner reads that.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs._entities import Entities
from matchyard.engines.twigs._expat import SKIP, Limits, Options, events, prolog
from matchyard.engines.twigs._scan_bytes import (
    ASK,
    REFUSED,
    SUBSET,
    count_brackets,
    is_next,
    is_space,
)
from matchyard.engines.twigs._scan_markup import (
    DOCTYPE,
    MARK,
    XML,
    skip_declaration,
    skip_doctype,
    skip_misc,
)
from matchyard.engines.twigs._scan_references import Declared
from matchyard.errors import XmlError


class Roots(NamedTuple):
    """Where documents are to be scanned from, and with what."""

    root: NDArray[np.int64]  # [n_documents] or REFUSED or ASK
    skips: NDArray[np.bool_]  # [n_documents] are undefined entities skipped?
    declared: Declared
    entities: list[tuple[Entities, str]]  # by number: those of the document, and the name
    n_brackets: int  # the most events that elements can make


def find_roots(
    text: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64], limits: Limits
) -> Roots:
    """Read what comes before the root elements of documents."""
    n_documents = len(start)
    root, place = np.empty(n_documents, np.int64), np.empty(n_documents, np.int64)
    is_alone = np.empty(n_documents, np.bool_)
    most = limits.max_document_bytes
    n_brackets = _find_all(text, start, end, most, root, is_alone, place)
    skips = ~is_alone & (limits.undefined_entities == SKIP)
    entities = {}
    for document in np.flatnonzero(root == SUBSET).tolist():
        found = prolog(text[start[document] : place[document]].tobytes() + b"<x>", limits)
        root[document] = ASK
        if found is not None and found.is_plain:
            root[document] = place[document]
            entities[document] = found.entities
    listed = [(found, name) for found in entities.values() for name in found.values]
    return Roots(root, skips, _declared(entities, skips), listed, n_brackets)


def _declared(entities: dict[int, Entities], skips: NDArray[np.bool_]) -> Declared:
    counts, names, values, is_plain = np.zeros(len(skips) + 1, np.int64), [], [], []
    for document, found in entities.items():
        counts[document + 1] = len(found.values)
        for name in found.values:
            value = found.plain(name)
            if not skips[document] and found.undefined(f"&{name};"):
                value = None
            names.append(name.encode())
            values.append((value or "").encode())
            is_plain.append(value is not None)
    return Declared(
        np.cumsum(counts),
        _offsets(names, 0),
        _offsets(values, sum(map(len, names))),
        np.array(is_plain, np.bool_),
        np.frombuffer(b"".join(names + values), np.uint8),
    )


def _offsets(parts: list[bytes], first: int) -> NDArray[np.int64]:
    return np.cumsum([first, *map(len, parts)], dtype=np.int64)


def rewrite(
    text: NDArray[np.uint8],
    start: int,
    end: int,
    references: NDArray[np.int64],
    entities: list[tuple[Entities, str]],
    limits: Limits,
) -> bytes:
    """The document with the content of entities in place of its references to them; nothing, which
    is no document, where that would not be the same."""
    options = Options(*(getattr(limits, name) for name in Options._fields))
    parts, place, room = [], start, limits.max_entity_expansion
    for begin, after, entity in references.tolist():
        declared, name = entities[entity]
        content = _content(declared, name, options)
        room -= 0 if content is None else len(content)
        if content is None or room < 0:
            return b""
        parts += [text[place:begin].tobytes(), content]
        place = after
    return b"".join([*parts, text[place:end].tobytes()])


def _content(entities: Entities, name: str, options: Options) -> bytes | None:
    content = entities.content(name)
    return content.encode() if content is not None and _is_whole(content, options) else None


@lru_cache(4096)
def _is_whole(content: str, options: Options) -> bool:
    """Are all elements that start in an entity closed in it, and the other way round?"""
    try:
        events(f"<x>{content}</x>", options)
    except XmlError:
        return False
    return True


@njit(nogil=True, cache=True)
def _find_root(text, position, end):
    """Where the root element starts, whether the document says that it stands alone, and, for
    SUBSET, where its declarations end."""
    if is_next(text, position, end, MARK):
        position += len(MARK)
    elif position + 1 < end and (
        text[position] >= 0xFE or text[position] * text[position + 1] == 0
    ):
        return np.int64(ASK), False, position  # UTF-16
    is_alone = False
    if is_next(text, position, end, XML) and position + 5 < end and is_space(text[position + 5]):
        position, is_alone = skip_declaration(text, position + 5, end)
    if position >= 0:
        position = skip_misc(text, position, end)
    if position >= 0 and is_next(text, position, end, DOCTYPE):
        position, place = skip_doctype(text, position + len(DOCTYPE), end)
        if position < 0:
            return position, is_alone, place
        position = skip_misc(text, position, end)
    return position, is_alone, position


@njit(nogil=True, cache=True)
def _find_all(text, start, end, max_bytes, root, is_alone, place):
    """See `_find_root`; returns the most events that elements can make."""
    n_brackets = 0
    for i in range(len(start)):
        if end[i] - start[i] > max_bytes:
            root[i], is_alone[i], place[i] = REFUSED, False, 0
        else:
            root[i], is_alone[i], place[i] = _find_root(text, start[i], end[i])
            n_brackets += count_brackets(text, start[i], end[i])
    return n_brackets
