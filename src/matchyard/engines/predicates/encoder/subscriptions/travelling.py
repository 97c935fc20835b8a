"""The constraints of some subscriptions as text, which tasks send to make a vocabulary.

A vocabulary is made of constraints. One of a single piece is written down as numbers (kind, forms,
low, high, the lengths of its name and of its first text), then name and texts, all rows at once;
any other, of which there are few, in the language:

    ␁3 68 0 0 4 5 areanorthnorth
    temp in {1, 2, "hot"}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from matchyard.engines.predicates import language
from matchyard.engines.predicates.encoder.layout import Filters, Vocabulary
from matchyard.engines.predicates.encoder.subscriptions.decoding import decode_rows
from matchyard.engines.predicates.encoder.subscriptions.intake import (
    Staging,
    Subscriptions,
    as_column,
    subscription_column,
)
from matchyard.engines.predicates.encoder.subscriptions.pieces import HIGH, Form, Pieces

_MARK = "\x01"  # no constraint in the language starts with it
_N_NUMBERS = 6
_FIELDS = ["name", "kind", "forms", "low", "high"]


def counts(filters: Filters, vocabulary: Vocabulary) -> pa.Table:
    """Distinct constraints and their numbers: columns `name` and `count`."""
    column = as_column(filters, vocabulary)
    sizes = np.diff(column.pieces.piece_start)
    tables = [_count_single(column, np.flatnonzero(sizes == 1))]
    if (sizes > 1).any():
        tables.append(_count_others(column, np.flatnonzero(sizes > 1)))
    return pa.concat_tables(tables)


def _count_single(column: Subscriptions, constraints: NDArray[np.int64]) -> pa.Table:
    pieces = column.pieces
    at = pieces.piece_start[:-1][constraints]
    counted = pa.table([getattr(pieces, f)[at] for f in ("names", "kinds", *_FIELDS[2:])], _FIELDS)
    counted = counted.group_by(_FIELDS).aggregate([([], "count_all")]).combine_chunks()
    forms = counted["forms"].to_numpy()
    low, low_text = _split(forms & 7, counted["low"].to_numpy(), column.texts)
    high, high_text = _split(forms >> HIGH & 7, counted["high"].to_numpy(), column.texts)
    name = column.names.take(counted["name"].combine_chunks())
    numbers = [counted["kind"], counted["forms"], low, high, _n_bytes(name), _n_bytes(low_text)]
    head = [pa.array(one.to_numpy()).cast(pa.large_string()) for one in numbers]
    rest = pc.binary_join_element_wise(name, low_text, high_text, pa.scalar("", pa.large_string()))
    names = pc.binary_join_element_wise(
        pc.binary_join_element_wise(_wide(_MARK), head[0], _wide("")), *head[1:], rest, _wide(" ")
    )
    return pa.table({"name": names, "count": counted["count_all"]})


def _wide(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _n_bytes(texts: pa.Array) -> pa.Array:
    return pc.binary_length(texts)


def _split(
    forms: NDArray[np.uint8], words: NDArray[np.int64], texts: pa.Array
) -> tuple[pa.Array, pa.Array]:
    """The words of ends without ids of texts, and the texts, empty for other ends."""
    is_text, is_pattern = forms == Form.TEXT, forms == Form.PATTERN
    ids = np.where(is_pattern, words >> 2, words)
    wanted = pa.array(ids, pa.int64(), mask=~(is_text | is_pattern))
    plain = np.where(is_text, 0, np.where(is_pattern, words & 3, words))
    return pa.array(plain), pc.fill_null(texts.take(wanted), "")


def _count_others(column: Subscriptions, constraints: NDArray[np.int64]) -> pa.Table:
    """Count constraints as subscriptions of one constraint, in the language."""
    pieces = column.pieces
    first, last = pieces.piece_start[constraints], pieces.piece_start[constraints + 1]
    start = np.concatenate([[0], np.cumsum(last - first)])
    at = np.arange(start[-1]) + np.repeat(first - start[:-1], last - first)
    rows = np.arange(len(constraints) + 1)
    alone = Pieces(
        rows, rows, start, np.zeros(len(constraints), np.int16), *(one[at] for one in pieces[4:])
    )
    staging = Staging()
    staging.add(column._replace(pieces=alone), np.zeros(alone.n_rows, np.int64))
    filters, vocabulary, _ = staging.take()
    n_times = Counter(decode_rows(filters, 0, filters.n_rows, vocabulary))
    names = [language.format(predicate) for predicate in n_times]
    return pa.table(
        {
            "name": pa.array(names, pa.large_string()),
            "count": pa.array(n_times.values(), pa.int64()),
        }
    )


def merge_counts(parts: Iterable[pa.Table]) -> Vocabulary:
    """The vocabulary of all parts."""
    tables = [
        part.select(["name"]).cast(pa.schema([("name", pa.large_string())])) for part in parts
    ]
    none = pa.table({"name": pa.array([], pa.large_string())})
    names = pc.unique(pa.concat_tables([none, *tables])["name"])
    is_single = pc.starts_with(names, _MARK)
    staging = Staging()
    for some in (
        _read_single(names.filter(is_single)),
        subscription_column(
            sorted(names.filter(pc.invert(is_single)).to_pylist()), 1, language.MAX_TESTS
        ),
    ):
        staging.add(some, np.zeros(some.n_rows, np.int64))
    return staging.take()[1]


def _read_single(names: pa.Array) -> Subscriptions:
    """The constraints that `_count_single` wrote, each as a subscription."""
    n_rows = len(names)
    parts = pc.split_pattern(
        pc.utf8_slice_codeunits(names, 1), pattern=" ", max_splits=_N_NUMBERS
    ).flatten()
    fields = [parts.take(np.arange(i, len(parts), _N_NUMBERS + 1)) for i in range(_N_NUMBERS + 1)]
    kinds, forms, low, high, n_name, n_low = (
        one.cast(pa.int64()).to_numpy() for one in fields[:_N_NUMBERS]
    )
    rest = fields[_N_NUMBERS].cast(pa.large_binary())
    start = np.frombuffer(rest.buffers()[1], np.int64)[rest.offset : rest.offset + n_rows + 1]
    ends = np.stack([start[:-1], start[:-1] + n_name, start[:-1] + n_name + n_low], axis=1)
    offsets = np.append(ends.ravel(), start[-1:])
    texts = pa.Array.from_buffers(
        pa.large_string(), 3 * n_rows, [None, pa.py_buffer(offsets), rest.buffers()[2]]
    )
    name = texts.take(np.arange(0, 3 * n_rows, 3)).dictionary_encode()
    bounds = texts.take(np.flatnonzero(np.arange(3 * n_rows) % 3)).dictionary_encode()
    ids = bounds.indices.to_numpy().astype(np.int64).reshape(-1, 2)
    rows = np.arange(n_rows + 1)
    pieces = Pieces(
        rows, rows, rows, np.zeros(n_rows, np.int16), name.indices.to_numpy().astype(np.int32),
        kinds.astype(np.uint8), forms.astype(np.uint8), _join(forms & 7, low, ids[:, 0]),
        _join(forms >> HIGH & 7, high, ids[:, 1]),
    )  # fmt: skip
    return Subscriptions(pieces, name.dictionary, bounds.dictionary)


def _join(forms: Any, words: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The inverse of `_split`."""
    patterns = np.where(forms == Form.PATTERN, ids << 2 | words, words)
    return np.where(forms == Form.TEXT, ids, patterns)
