"""Scan documents byte by byte: the same signals as expat's, much faster.

The scanner reads UTF-8. Expat reads the documents that the scanner finds malformed or cannot decide
on (another encoding, names beyond ASCII, attributes with defaults). The answer is always expat's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.encoder.events.value_tests import group_tests
from matchyard.engines.twigs.encoder.layout import Vocabulary
from matchyard.engines.twigs.encoder.scanner.attributes import MAX_ATTRIBUTES
from matchyard.engines.twigs.encoder.scanner.characters import ASK, FULL, REFUSED, REWRITE, SLACK
from matchyard.engines.twigs.encoder.scanner.document import Lookups, Room, Settings, scan_document
from matchyard.engines.twigs.encoder.scanner.element_names import CACHE_BITS, STACKED
from matchyard.engines.twigs.encoder.scanner.prolog import (
    Rewriting,
    Roots,
    expansion_limit,
    find_roots,
)
from matchyard.engines.twigs.encoder.scanner.references import (
    N_EXPANDED,
    N_REFERENCES,
    N_SIGNALS,
    N_STATE,
    REFERENCE,
)
from matchyard.engines.twigs.language.model import Source
from matchyard.engines.twigs.language.options import Options
from matchyard.kernels.strings import Names, freeze

__all__ = ["ASK", "REFUSED", "Scanned", "joined", "scan"]


ALL_SIGNALS = 1 << 62  # no limit
_PER_REFERENCE = 64  # bytes per noted reference, on average; expat reads documents with more


class Scanned(NamedTuple):
    """The signals of documents; documents for expat have none."""

    signal_start: NDArray[np.int64]  # [n_documents + 1]
    signals: NDArray[np.int32]
    depth: NDArray[np.int64]  # [n_documents] or a code: REFUSED or ASK

    def first(self, n_documents: int) -> Scanned:
        """Only the first documents."""
        signal_start = self.signal_start[: n_documents + 1]
        return Scanned(signal_start, self.signals[: signal_start[-1]], self.depth[:n_documents])

    def extended(self, n_documents: int) -> Scanned:
        """The documents, filled up to `n_documents` with documents for expat."""
        n_more = n_documents - len(self.depth)
        signal_start = np.append(self.signal_start, np.repeat(self.signal_start[-1], n_more))
        return Scanned(signal_start, self.signals, np.append(self.depth, np.repeat(ASK, n_more)))

    def put(self, documents: NDArray[np.int64], others: Scanned) -> Scanned:
        """The documents with the signals of `others` for `documents`, which had none."""
        counts = np.diff(self.signal_start)
        counts[documents] = np.diff(others.signal_start)
        depth = self.depth.copy()
        depth[documents] = others.depth
        signal_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        signals = np.empty(signal_start[-1], np.int32)
        is_other = np.zeros(len(counts), np.bool_)
        is_other[documents] = True
        is_new = np.repeat(is_other, counts)
        signals[is_new], signals[~is_new] = others.signals, self.signals
        return Scanned(signal_start, signals, depth)


def scan(
    text: NDArray[np.uint8],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    vocabulary: Vocabulary,
    options: Options,
    most_signals: int = ALL_SIGNALS,
) -> Scanned:
    """Scan documents between the given positions, at least one and up to the document that reaches
    `most_signals`."""
    roots = find_roots(text, start, end, options)
    expansion = expansion_limit(options)
    given = (vocabulary, options, most_signals)
    scanned, references = _scan(text, start, end, roots, expansion, *given)
    documents = np.flatnonzero(scanned.depth == REWRITE)
    if len(documents) == 0:
        return scanned
    bounds = np.searchsorted(references[:, 0], [start[documents], end[documents]]).T
    rewriting = Rewriting(text, start, end, roots)
    half = expansion // 2  # the other half is for entities of plain text
    rewritten = [
        rewriting.rewrite(i, references[first:last], half)
        for i, (first, last) in zip(documents.tolist(), bounds.tolist())
    ]
    text, start, end = joined(rewritten)
    roots = find_roots(text, start, end, options)
    others = _scan(text, start, end, roots, half, *given)[0].extended(len(documents))
    others.depth[others.depth < 0] = ASK  # expat is to read the original
    return scanned.put(documents, others)


def joined(
    parts: list[bytes],
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Documents one after the other: their bytes, starts and ends."""
    end = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
    start = np.concatenate([np.zeros(1, np.int64), end])[:-1]
    return np.frombuffer(b"".join(parts), np.uint8), start, end


def _scan(
    text: NDArray[np.uint8],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    roots: Roots,
    expansion: int,
    vocabulary: Vocabulary,
    options: Options,
    most_signals: int,
) -> tuple[Scanned, NDArray[np.int64]]:
    """Scan documents; returns them and the references to entities with markup. Entities of plain
    text may add `expansion` bytes to a document."""
    n_documents, n_tests = len(start), len(vocabulary.source)
    settings = settings_of(vocabulary, options, expansion)
    n_references = int(np.sum(end - start)) // _PER_REFERENCE + 64 if roots.entities else 0
    longest = int(np.max(end - start, initial=0))
    room = new_room(settings, longest, n_references)
    lookups = lookups_of(vocabulary)
    signals = np.empty(roots.n_brackets + (roots.n_brackets // 2 if n_tests else 0) + 4, np.int32)
    signal_start, depth = np.zeros(n_documents + 1, np.int64), np.empty(n_documents, np.int64)
    first = 0
    while True:
        first = _scan_all(
            text, end, roots.root, roots.skips, first, lookups, roots.declared, settings, room,
            signals, signal_start, depth, most_signals,
        )  # fmt: skip
        if first == n_documents or signal_start[first] >= most_signals:
            references = room.references[: REFERENCE * room.state[N_REFERENCES]]
            scanned = Scanned(signal_start, signals, depth).first(first)
            return scanned, references.reshape(-1, REFERENCE)
        grown = np.empty(2 * len(signals), np.int32)
        grown[: signal_start[first]] = signals[: signal_start[first]]
        signals = grown


def lookups_of(vocabulary: Vocabulary) -> Lookups:
    """The vocabulary in arrays of fixed types, so that kernels are compiled once."""

    def widened(names: Names) -> Names:
        return freeze(names._replace(text_start=names.text_start.astype(np.int64)))

    return Lookups(
        widened(vocabulary.names),
        widened(vocabulary.attributes),
        widened(vocabulary.texts),
        freeze(group_tests(vocabulary)),
    )


def settings_of(vocabulary: Vocabulary, options: Options, expansion: int) -> Settings:
    has = [bool((vocabulary.source == source).any()) for source in Source]
    return Settings(options.max_depth, expansion, options.max_value_hits, *has)


def new_room(settings: Settings, n_bytes: int, n_references: int) -> Room:
    """Memory to scan documents of at most `n_bytes`."""
    needs_texts = any(settings[-len(Source) :])
    longest = n_bytes + settings.max_entity_expansion + SLACK
    return Room(
        np.zeros(4 << CACHE_BITS, np.uint64),
        np.zeros(4 << CACHE_BITS, np.uint64),
        np.empty(STACKED * settings.max_depth, np.uint64),
        np.empty(settings.max_depth, np.int64),
        np.empty(2 * (MAX_ATTRIBUTES + 1), np.int64),
        np.empty(longest if needs_texts else 0, np.uint8),
        np.empty(REFERENCE * n_references, np.int64),
        np.zeros(N_STATE, np.int64),
    )


@njit(nogil=True, cache=True)
def _scan_all(
    text, end, root, skips, first, lookups, declared, settings, room, signals, signal_start, depth,
    most_signals,
):  # fmt: skip
    """Scan documents from `first` on; returns the next document: the signals of it do not fit, or
    `most_signals` are reached, or it is the end."""
    state = room.state
    for i in range(first, len(root)):
        state[N_SIGNALS], state[N_EXPANDED] = signal_start[i], 0
        n_references = state[N_REFERENCES]
        depth[i] = root[i]
        if root[i] >= 0:
            depth[i] = scan_document(
                text, root[i], end[i], i, skips[i], lookups, declared, settings, room, signals
            )
        if depth[i] == FULL:
            state[N_REFERENCES] = n_references
            return i
        if depth[i] < 0:
            state[N_REFERENCES] = n_references
        elif state[N_REFERENCES] > n_references:
            depth[i] = REWRITE
        signal_start[i + 1] = state[N_SIGNALS] if depth[i] >= 0 else signal_start[i]
        if signal_start[i + 1] >= most_signals:
            return i + 1
    return len(root)
