"""From predicates and events to numbers: the vocabulary, filters, and batches of entries.

    subscriptions ──subscription_column──▶ Subscriptions ──Staging──▶ Filters and a Vocabulary
    events ──column──▶ Column (JSON text) ──encode──▶ Batch (entries in a vocabulary)

See `_coded` for what the numbers mean.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates import _encode, _subscriptions, language
from matchyard.engines.predicates._attributes import Column
from matchyard.engines.predicates._coded import Batch, Filters, Vocabulary
from matchyard.engines.predicates._columns import column
from matchyard.engines.predicates._decoded import decode_rows
from matchyard.engines.predicates._pieces import renumber
from matchyard.engines.predicates._subscriptions import VALUES, Staging, Subscriptions, merge
from matchyard.engines.predicates._vocabulary import code
from matchyard.engines.predicates.algorithms._stored import take
from matchyard.errors import ParseError, UsageError
from matchyard.kernels.csr import count_values
from matchyard.kernels.names import find_names

__all__ = [
    "VALUES",
    "Batch",
    "Column",
    "Filters",
    "Options",
    "Staging",
    "Subscriptions",
    "Vocabulary",
    "accept",
    "check",
    "column",
    "decode",
    "encode",
    "encode_known",
    "fold",
    "keep",
    "merge",
    "rarest",
    "subscription_column",
    "texts",
]


class Options(NamedTuple):
    """How predicates and events are read, the same for every algorithm."""

    max_filters: int = language.MAX_FILTERS  # that one predicate may be expanded to
    max_depth: int = 64  # objects and arrays within each other in an event


def check(options: Options) -> None:
    """Refuse options that make no sense."""
    for name, value in options._asdict().items():
        if value < 1:
            raise UsageError(f'option "{name}" must be at least 1, not {value}')


def subscription_column(subscriptions: Any, options: Options) -> Subscriptions:
    """Subscriptions in any form that users have them in."""
    return _subscriptions.subscription_column(subscriptions, options.max_filters)


def encode(column: Column, vocabulary: Vocabulary, *bits: Any) -> Batch:
    """Events as a batch over the vocabulary; predicates have no signatures."""
    return _encode.encode(column, vocabulary)


def encode_known(column: Subscriptions, vocabulary: Vocabulary) -> Filters:
    """Subscriptions as filters over a vocabulary that must have all that they name."""
    names = find_names(vocabulary.names, column.names).astype(np.int32)
    texts = find_names(vocabulary.texts, column.texts).astype(np.int32)
    return code(renumber(column.pieces, names, texts), vocabulary, is_checked=True)


def accept(column: Subscriptions, *bits: Any) -> None:
    """Nothing is refused here: what an algorithm cannot hold it refuses itself."""


def fold(predicate: language.Predicate, options: Options) -> language.Predicate:
    """One parsed predicate as it is; refuses at once what would be refused later."""
    if len(predicate.filters) > options.max_filters:
        raise ParseError(
            f"{len(predicate.filters)} filters in one predicate; the limit is "
            f'{options.max_filters} (option "max_filters")'
        )
    return predicate


def keep(filters: Filters, rows: NDArray[np.bool_]) -> Filters:
    """Only the rows where `rows` is true."""
    return filters if rows.all() else take(filters, np.flatnonzero(rows))


def decode(filters: Filters, row: int, vocabulary: Vocabulary) -> language.Predicate:
    """The predicate of one row."""
    return next(decode_rows(filters, row, row + 1, vocabulary))


def texts(filters: Filters, start: int, stop: int, vocabulary: Vocabulary) -> pa.Array:
    """The predicates of some rows as an Arrow column of text."""
    rows = decode_rows(filters, start, stop, vocabulary)
    return pa.array([language.format(row) for row in rows], pa.string())


def rarest(filters: Filters) -> NDArray[np.int64]:
    """Per row a slot that every event it matches has, the one that fewest pieces use; -1 for none.

    A row of several filters has none, and a constraint counts when its pieces are of one slot.
    """
    found = np.full(filters.n_rows, -1, np.int64)
    uses = count_values(filters.slots, int(filters.slots.max(initial=-1)) + 1)
    _find_rarest(filters, uses, found)
    return found


@njit(nogil=True, cache=True)
def _find_rarest(filters, uses, found):
    for row in range(len(found)):
        first = filters.row_start[row]
        if filters.row_start[row + 1] - first != 1:
            continue
        for c in range(filters.filter_start[first], filters.filter_start[first + 1]):
            start, end = filters.piece_start[c], filters.piece_start[c + 1]
            slot = filters.slots[start]
            if filters.groups[c] == 0 and filters.slots[end - 1] == slot:
                if found[row] < 0 or uses[slot] < uses[found[row]]:
                    found[row] = slot
