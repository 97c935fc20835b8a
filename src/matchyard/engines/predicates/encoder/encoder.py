"""From predicates and events to numbers: the vocabulary, filters, and batches of entries.

    subscriptions ──subscription_column──▶ Subscriptions ──Staging──▶ Filters and a Vocabulary
    events ──column──▶ Unread ──rows──▶ Column (attributes) ──encode──▶ Batch (entries in a vocabulary)

`layout` describes the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates import language
from matchyard.engines.predicates.encoder.events import entries
from matchyard.engines.predicates.encoder.events.intake import Unread, column
from matchyard.engines.predicates.encoder.layout import Batch, Column, Filters, Vocabulary
from matchyard.engines.predicates.encoder.subscriptions import intake
from matchyard.engines.predicates.encoder.subscriptions.decoding import decode_rows
from matchyard.engines.predicates.encoder.subscriptions.intake import (
    VALUES,
    Staging,
    Subscriptions,
    as_column,
)
from matchyard.engines.predicates.encoder.subscriptions.pieces import renumber
from matchyard.engines.predicates.encoder.subscriptions.vocabulary import code
from matchyard.errors import UsageError
from matchyard.kernels.csr import concatenated
from matchyard.kernels.strings import find_names

_MOST_LEVELS = 4096  # the scanner allocates a stack of `max_depth` levels


class Options(NamedTuple):
    """Input options, the same for every algorithm."""

    max_filters: int = language.MAX_FILTERS  # of one predicate after expansion
    max_tests: int = language.MAX_TESTS  # of one predicate, where `or` inside `and` multiplies them
    max_depth: int = 64  # nested objects and arrays of an event


def check(options: Options) -> None:
    """Refuse options outside their limits."""
    for name, value in options._asdict().items():
        if value < 1:
            raise UsageError(f'option "{name}" must be at least 1, not {value}')
    if options.max_depth > _MOST_LEVELS:
        raise UsageError(
            f'option "max_depth" must be at most {_MOST_LEVELS}, not {options.max_depth}'
        )


def subscription_column(subscriptions: Any, options: Options) -> Subscriptions:
    """Subscriptions as pieces, from any form that users may give."""
    return intake.subscription_column(subscriptions, options.max_filters, options.max_tests)


def encode(column: Column | Unread, vocabulary: Vocabulary, *bits: Any) -> Batch:
    """Events as a batch over the vocabulary; predicates have no signatures."""
    read = column if isinstance(column, Column) else column.rows(0, column.n_rows)
    return entries.encode(read, vocabulary)


def encode_some(column: Column | Unread, vocabulary: Vocabulary, *bits: Any) -> tuple[Batch, int]:
    """All events at once: they take little memory."""
    return encode(column, vocabulary), column.n_rows


def recode(filters: Filters, vocabulary: Vocabulary, whole: Vocabulary) -> Filters:
    """The same filters over another vocabulary, which has all their names, texts and constants."""
    column = as_column(filters, vocabulary)
    names = find_names(whole.names, column.names).astype(np.int32)
    texts = find_names(whole.texts, column.texts).astype(np.int32)
    return code(renumber(column.pieces, names, texts), whole, is_checked=True)


def concatenate(parts: Sequence[Filters]) -> Filters:
    """Join filters over the same vocabulary."""
    return concatenated(parts, 3)


def accept(column: Subscriptions, *bits: Any) -> None:
    """Accept everything: algorithms refuse what they cannot hold."""


def parse(value: Any, options: Options) -> language.Predicate:
    """One subscription as the options want it."""
    return intake.checked(language.parse(value, options.max_filters, options.max_tests))


def parse_event(value: Any, options: Options) -> language.Event:
    """One event; refuses all that `column` refuses."""
    event = language.parse_event(value)
    column([value], options).rows(
        0, 1
    )  # `value`, since a dict has lost the first of two equal names
    return event


read_event = parse_event  # for the oracle


def parse_column(values: Any, options: Options) -> list[language.Predicate]:
    """The subscriptions of a column one by one, as `parse` gives them."""
    staging = Staging()
    column = subscription_column(values, options)
    staging.add(column, np.zeros(column.n_rows, np.int64))
    filters, vocabulary, _ = staging.take()
    return [parse(row, options) for row in decode_rows(filters, 0, filters.n_rows, vocabulary)]


def kind(filters: Filters) -> str:
    """The kind of the column: predicates have only one."""
    return VALUES


def keep(filters: Filters, rows: NDArray[np.bool_]) -> Filters:
    """The rows for which `rows` is true."""
    return filters if rows.all() else filters.take(np.flatnonzero(rows))


def decode(filters: Filters, row: int, vocabulary: Vocabulary) -> language.Predicate:
    """The predicate of one row."""
    return next(decode_rows(filters, row, row + 1, vocabulary))


def texts(filters: Filters, start: int, stop: int, vocabulary: Vocabulary) -> pa.Array:
    """The predicates of some rows as an Arrow column of text."""
    rows = decode_rows(filters, start, stop, vocabulary)
    return pa.array([language.format(row) for row in rows], pa.string())


def rarest(filters: Filters) -> NDArray[np.int64]:
    """Per row, the rarest slot (the largest id) that every matching event has, or -1.

    Other rows do not matter. A row of several filters has none, and constraints count only if all
    their pieces are of one slot.
    """
    slots = np.full(filters.n_rows, -1, np.int64)
    _find_rarest(filters, slots)
    return slots


def n_ids(vocabulary: Vocabulary) -> int:
    """The number of ids that `rarest` can return."""
    return vocabulary.n_slots


def names_of(batch: Batch, vocabulary: Vocabulary) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Per event, the ids that `rarest` can return for a matching row: (start, ids)."""
    return batch.event_start, batch.slots


def sizes(vocabulary: Vocabulary) -> tuple[int, int]:
    """Pieces of all subscriptions, and distinct attribute names and texts."""
    n_pieces = int(vocabulary.names.counts().sum())
    return n_pieces, vocabulary.n_names + vocabulary.texts.n_names


def estimate(n_rows: int, n_constraints: int, n_names: int) -> tuple[int, int, int]:
    """Bytes of the vocabulary, of the staged rows, and of a build besides these."""
    names = n_names * (11 + 4 + 12)  # slots, offset, text
    staged = 34 * n_constraints + 24 * n_rows  # pieces, groups and offsets; offsets and keys
    return names, staged + 60 * n_names, 30 * n_constraints + 24 * n_rows


@njit(nogil=True, cache=True)
def _find_rarest(filters, rarest):
    for row in range(len(rarest)):
        first = filters.row_start[row]
        if filters.row_start[row + 1] - first != 1:
            continue
        for c in range(filters.filter_start[first], filters.filter_start[first + 1]):
            start, end = filters.piece_start[c], filters.piece_start[c + 1]
            slot = filters.slots[start]
            if filters.groups[c] != 0 or filters.slots[end - 1] != slot:
                continue
            rarest[row] = max(rarest[row], slot)
