"""Encode twigs and documents as numbers: the vocabulary, twigs, and batches of signals.

    subscriptions ──subscription_column──▶ Subscriptions ──Staging──▶ Twigs and a Vocabulary
    documents ──column──▶ Column (bytes) ──encode──▶ Batch (signals in a vocabulary)

`layout` defines the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs import language
from matchyard.engines.twigs.encoder.events import intake as document_intake
from matchyard.engines.twigs.encoder.events import record_files
from matchyard.engines.twigs.encoder.events.intake import Column
from matchyard.engines.twigs.encoder.layout import Batch, Twigs, Vocabulary
from matchyard.engines.twigs.encoder.subscriptions import intake as subscription_intake
from matchyard.engines.twigs.encoder.subscriptions import vocabulary as vocabularies
from matchyard.engines.twigs.encoder.subscriptions.decoding import decode_rows
from matchyard.engines.twigs.encoder.subscriptions.intake import (
    VALUES,
    Staging,
    Subscriptions,
)
from matchyard.engines.twigs.encoder.subscriptions.terms import terms_of
from matchyard.engines.twigs.language.options import REFUSE, Options
from matchyard.engines.twigs.oracle.elements import Read, read
from matchyard.errors import XmlError

_MOST_SIGNALS = 1 << 22  # of a batch to match; the document that reaches the limit is complete
_NO_NAMES = Staging().take()[1]  # an empty vocabulary is enough to check a document


def column(documents: Any, options: Options) -> Column:
    """A column of documents from bytes or texts, in lists or columns."""
    return document_intake.column(documents, options)


def subscription_column(subscriptions: Any, options: Options) -> Subscriptions:
    """A column of subscriptions from any form that users may pass."""
    return subscription_intake.subscription_column(subscriptions, options.max_trees)


def records(source: Any, record: str, options: Options) -> Iterator[bytes]:
    """The elements named `record` in a file, each as a document."""
    return record_files.records(source, record, options.max_document_bytes)


def encode(column: Column, vocabulary: Vocabulary, *bits: Any) -> Batch:
    """Documents as a batch over the vocabulary; twigs have no signatures."""
    return document_intake.encode(column, vocabulary)


def encode_some(column: Column, vocabulary: Vocabulary, *bits: Any) -> tuple[Batch, int]:
    """The first documents as a batch, and how many. The limit on signals bounds the memory even if
    entities and value tests multiply them."""
    batch = document_intake.encode(column, vocabulary, _MOST_SIGNALS)
    return batch, batch.n_rows


def accept(column: Subscriptions, *bits: Any) -> None:
    """Accept all subscriptions: algorithms refuse tables that are too large themselves."""


def parse(value: Any, options: Options) -> language.Twig:
    """Parse one subscription under the options."""
    return language.parse(value, options.max_trees)


def parse_event(value: Any, options: Options) -> language.Document:
    """Check one document now, as `encode` would later, with an error that has no row number."""
    document = language.parse_event(value)
    try:
        encode(column([document], options), _NO_NAMES)
    except XmlError as error:
        where = f"the document at line {error.line}, column {error.column}"
        raise error.saying(f"{where}: {error.reason}") from None
    return document


def read_event(value: Any, options: Options) -> Read:
    """Read one document for the oracle, under the options."""
    try:
        return read(language.parse_event(value), options)
    except XmlError as error:
        if options.malformed == REFUSE:
            raise
        return Read([], error)


def parse_column(values: Any, options: Options) -> list[language.Twig]:
    """Parse the subscriptions of a column one by one."""
    return [parse(value, options) for value in subscription_intake.listed(values)]


def kind(twigs: Twigs) -> str:
    """The kind of a column or batch: there is only one."""
    return VALUES


def keep(twigs: Twigs, rows: NDArray[np.bool_]) -> Twigs:
    """Only the rows where `rows` is true."""
    return twigs if rows.all() else twigs.take(np.flatnonzero(rows))


def decode(twigs: Twigs, row: int, vocabulary: Vocabulary) -> language.Twig:
    """The twig of one row."""
    return next(decode_rows(twigs, row, row + 1, vocabulary))


def texts(twigs: Twigs, start: int, stop: int, vocabulary: Vocabulary) -> pa.Array:
    """The twigs of some rows as an Arrow column of text."""
    rows = decode_rows(twigs, start, stop, vocabulary)
    return pa.array([language.format(row) for row in rows], pa.string())


def counts(twigs: Twigs, vocabulary: Vocabulary) -> pa.Table:
    """Count the terms of encoded twigs: columns `name` and `count`."""
    return vocabularies.count(vocabularies.over_terms(twigs), terms_of(vocabulary))


def recode(twigs: Twigs, vocabulary: Vocabulary, whole: Vocabulary) -> Twigs:
    """The same twigs over another vocabulary, which has all their terms."""
    return vocabularies.encode_known(vocabularies.over_terms(twigs), terms_of(vocabulary), whole)


def rarest(twigs: Twigs) -> NDArray[np.int64]:
    """Per row the largest symbol that all matching documents have; -1 for none. Large symbols are
    value tests and rare names. The result of a row does not depend on the other rows.

    A row of several trees has none. A negated node and the nodes below it do not count.
    """
    symbols = np.full(twigs.n_rows, -1, np.int64)
    longest = int(np.diff(twigs.tree_start).max(initial=0))
    _find_rarest(twigs, np.empty(longest, np.bool_), symbols)
    return symbols


def n_ids(vocabulary: Vocabulary) -> int:
    """How many ids `rarest` can return."""
    return vocabulary.n_symbols


def names_of(batch: Batch, vocabulary: Vocabulary) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Per document the ids under which `rarest` may have filed a matching row: (start, ids)."""
    last_seen = np.full(vocabulary.n_symbols, -1, np.int64)
    start, ids = np.zeros(batch.n_rows + 1, np.int64), np.empty(len(batch.signals), np.int32)
    _find_symbols(batch, last_seen, start, ids)
    return start, ids[: start[-1]]


def sizes(vocabulary: Vocabulary) -> tuple[int, int]:
    """How many nodes the subscriptions have, without `*`, and how many distinct names and tests."""
    n_tests = len(vocabulary.source)
    return int(vocabulary.names.counts().sum()) + n_tests, vocabulary.n_names + n_tests


def estimate(n_rows: int, n_nodes: int, n_names: int) -> tuple[int, int, int]:
    """Bytes of the vocabulary, of staged subscriptions, and of the other memory of a build."""
    names = n_names * (11 + 4 + 12)  # slots, offset, text
    staged = 10 * n_nodes + 24 * n_rows  # nodes; offsets of rows and trees, and keys
    return names, staged + 60 * n_names, 10 * n_nodes + 24 * n_rows


@njit(nogil=True, cache=True)
def _find_rarest(twigs, is_needed, symbols):
    for row in range(len(symbols)):
        tree = twigs.row_start[row]
        if twigs.row_start[row + 1] - tree != 1:
            continue
        first = twigs.tree_start[tree]
        for node in range(first, twigs.tree_start[tree + 1]):
            parent = twigs.parent[node]
            is_needed[node - first] = not twigs.is_negated[node]
            if parent >= 0 and not is_needed[parent]:
                is_needed[node - first] = False
            if is_needed[node - first]:
                symbols[row] = max(symbols[row], twigs.symbol[node])


@njit(nogil=True, cache=True)
def _find_symbols(batch, last_seen, start, ids):
    """Write each symbol of a document once, without the symbol of unknown elements."""
    n_ids = 0
    for document in range(len(start) - 1):
        for i in range(batch.signal_start[document], batch.signal_start[document + 1]):
            signal = batch.signals[i]
            symbol = -2 - signal if signal < -1 else signal
            if symbol > 0 and last_seen[symbol] != document:
                last_seen[symbol] = document
                ids[n_ids] = symbol
                n_ids += 1
        start[document + 1] = n_ids
