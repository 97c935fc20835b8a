"""Read the prologs of documents: where the root element starts, and which entities are declared.

Expat reads the declarations. The scanner expands entities of plain text itself. If entities contain
tags, they replace their references in a copy of the document, which the scanner then reads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.encoder.scanner.characters import (
    ASK,
    REFUSED,
    SUBSET,
    count_brackets,
    is_next,
    is_space,
)
from matchyard.engines.twigs.encoder.scanner.entity_contents import Contents
from matchyard.engines.twigs.encoder.scanner.markup import (
    DOCTYPE,
    MARK,
    XML,
    skip_declaration,
    skip_doctype,
    skip_misc,
)
from matchyard.engines.twigs.encoder.scanner.references import Declared
from matchyard.engines.twigs.language.options import SKIP, Options
from matchyard.engines.twigs.xml.expat import prolog

_MOST_ENTITIES = 1024  # of a document, because each reference searches all of them
_MOST_EXPANDED = 1 << 22  # bytes of a document; expat has a limit of its own at twice as many
_SHARED_BYTES = 1 << 24  # for the entities of a batch, in addition to the bytes of its documents


class Roots(NamedTuple):
    """The positions of the roots of documents, and the entities to scan them with."""

    root: NDArray[np.int64]  # [n_documents] or REFUSED or ASK
    skips: NDArray[np.bool_]  # [n_documents] undefined entities are skipped
    declared: Declared
    entities: list[tuple[Contents, str]]  # by number: the entities of the document, and the name
    n_brackets: int  # an upper bound of the signals of elements


def find_roots(
    text: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64], options: Options
) -> Roots:
    """Read the prologs of documents."""
    n_documents = len(start)
    root, subset_end = np.empty(n_documents, np.int64), np.empty(n_documents, np.int64)
    is_alone = np.empty(n_documents, np.bool_)
    most = options.max_document_bytes
    n_brackets = _find_all(text, start, end, most, root, is_alone, subset_end)
    skips = ~is_alone & (options.undefined_entities == SKIP)
    entities = {}
    room = _shared_room(start, end)
    for document in np.flatnonzero(root == SUBSET).tolist():
        declared = prolog(text[start[document] : subset_end[document]].tobytes() + b"<x>", options)
        root[document] = ASK
        if (
            declared is None
            or not declared.is_plain
            or len(declared.entities.values) > _MOST_ENTITIES
        ):
            continue
        size = sum(map(declared.entities.size, declared.entities.values))
        if size <= min(expansion_limit(options), room):
            room -= size
            root[document] = subset_end[document]
            skips_external = options.undefined_entities == SKIP
            entities[document] = Contents(declared.entities, skips_external)
    listed = [
        (contents, name) for contents in entities.values() for name in contents.entities.values
    ]
    return Roots(root, skips, _declared(entities, skips), listed, n_brackets)


def expansion_limit(options: Options) -> int:
    """Bytes that entities may add to a document in the scanner; expat reads longer ones."""
    return min(options.max_entity_expansion, _MOST_EXPANDED)


def _shared_room(start: NDArray[np.int64], end: NDArray[np.int64]) -> int:
    """Bytes that a batch may use for entities, since a short document can declare long ones. Expat
    reads the remaining documents one by one."""
    return int(np.sum(end - start)) + _SHARED_BYTES


def _declared(entities: dict[int, Contents], skips: NDArray[np.bool_]) -> Declared:
    counts, names, values = np.zeros(len(skips) + 1, np.int64), [], []
    is_plain, sizes = [], []
    for document, contents in entities.items():
        declared = contents.entities
        counts[document + 1] = len(declared.values)
        for name in declared.values:
            value = contents.plain(name)
            if not skips[document] and declared.undefined_in(name) is not None:
                value = None
            names.append(name.encode())
            values.append((value or "").encode())
            is_plain.append(value is not None)
            sizes.append(declared.size(name))
    return Declared(
        np.cumsum(counts),
        _offsets(names, 0),
        _offsets(values, sum(map(len, names))),
        np.array(is_plain, np.bool_),
        np.array(sizes, np.int64),
        np.frombuffer(b"".join(names + values), np.uint8),
    )


def _offsets(parts: list[bytes], first: int) -> NDArray[np.int64]:
    return np.cumsum([first, *map(len, parts)], dtype=np.int64)


class Rewriting:
    """Replaces references by the contents of entities in the documents of a batch."""

    def __init__(
        self,
        text: NDArray[np.uint8],
        start: NDArray[np.int64],
        end: NDArray[np.int64],
        roots: Roots,
    ) -> None:
        self._text, self._start, self._end, self._entities = text, start, end, roots.entities
        self._room = _shared_room(start, end)

    def rewrite(self, document: int, references: NDArray[np.int64], limit: int) -> bytes:
        """The document with entities replaced; empty, which is no document, if that would change its
        meaning, add more than `limit` bytes or exceed the room of the batch."""
        start, end = int(self._start[document]), int(self._end[document])
        limit = min(limit, self._room - (end - start))
        parts, position = [], start
        for begin, after, number in references.tolist():
            contents, name = self._entities[number]
            content = contents.content(name)
            limit -= contents.entities.size(name)
            if content is None or limit < 0:
                return b""
            parts += [self._text[position:begin].tobytes(), content.encode()]
            position = after
        rewritten = b"".join([*parts, self._text[position:end].tobytes()])
        self._room -= len(rewritten)
        return rewritten


@njit(nogil=True, cache=True)
def find_root(text, position, end):
    """The position of the root element or a code; true if the document is standalone; and, for
    SUBSET, the end of its declarations."""
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
        position, subset_end = skip_doctype(text, position + len(DOCTYPE), end)
        if position < 0:
            return position, is_alone, subset_end
        position = skip_misc(text, position, end)
    return position, is_alone, position


@njit(nogil=True, cache=True)
def _find_all(text, start, end, max_bytes, root, is_alone, subset_end):
    """Find all roots by `find_root`; returns an upper bound of the signals of elements."""
    n_brackets = 0
    for i in range(len(start)):
        if end[i] - start[i] > max_bytes:
            root[i], is_alone[i], subset_end[i] = REFUSED, False, 0
        else:
            root[i], is_alone[i], subset_end[i] = find_root(text, start[i], end[i])
            n_brackets += count_brackets(text, start[i], end[i])
    return n_brackets
