"""Turn tags into numbers: the vocabulary, and batches of ids.

    values ──column──▶ Column (text) ──Staging / encode──▶ Batch (ids in a vocabulary)

The vocabulary numbers tags by falling frequency: 0 is the most frequent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.tags import language
from matchyard.engines.tags.encoder.intake import (
    Column,
    Options,
    fold,
    kind_of,
)
from matchyard.engines.tags.encoder.layout import Batch, Vocabulary
from matchyard.engines.tags.encoder.signatures import add_name
from matchyard.errors import UsageError
from matchyard.kernels.bitset import n_words_for
from matchyard.kernels.csr import ragged
from matchyard.kernels.strings import BLOCK, Interner, find_block


def parse(value: Any, options: Options) -> frozenset[str]:
    """Parse one subscription and fold its tags as the options say."""
    return fold(language.parse(value), options)


def parse_event(value: Any, options: Options) -> frozenset[str]:
    """Parse one event and fold its tags as the options say."""
    return fold(language.parse_event(value), options)


read_event = parse_event  # for the oracle


def parse_column(values: Any, options: Options) -> list[frozenset[str]]:
    """Parse each subscription of a column."""
    return [parse(value, options) for value in values.to_pylist()]


def kind(batch: Batch) -> str | None:
    """The kind of encoded subscriptions, as `Column.kind` names it; encoded events have both kinds.

    None if all are empty: an empty subscription is the same in every kind.
    """
    if len(batch.tags) or batch.signatures.any():
        return kind_of(batch.signatures)
    return None


def keep(batch: Batch, rows: NDArray[np.bool_]) -> Batch:
    """Only the rows where `rows` is true."""
    counts = np.diff(batch.tag_start)
    tags = batch.tags[np.repeat(rows, counts)]
    return Batch(ragged(counts[rows]), tags, batch.signatures[rows])


def accept(column: Column, n_bits: int = 0, n_hashes: int = 0, bare_allowed: bool = False) -> None:
    """Refuse bare signatures if the algorithm needs tags or another width."""
    width = column.signatures.shape[1]
    if width and not bare_allowed:
        raise UsageError(
            "bare signatures have no tags to compare: they need an algorithm over signatures, "
            'e.g. "tagmatch", with the option "exact" set to False'
        )
    if width and width != n_words_for(n_bits):
        raise UsageError(
            f"bare signatures have {width} words of 64 bits; "
            f"this index compares {n_words_for(n_bits)}"
        )


def encode(
    column: Column,
    vocabulary: Vocabulary,
    n_bits: int = 0,
    n_hashes: int = 0,
    bare_allowed: bool = False,
) -> Batch:
    """Encode events over the vocabulary, with signatures of `n_bits` bits unless that is 0."""
    if column.signatures.shape[1]:
        accept(column, n_bits, n_hashes, bare_allowed)
        return Batch(column.row_start, np.zeros(0, np.int32), column.signatures)
    n_rows, n_tags = len(column.row_start) - 1, len(column.text_start) - 1
    batch = Batch(
        np.empty(n_rows + 1, np.int64),
        np.empty(n_tags, np.int32),
        np.zeros((n_rows, n_words_for(n_bits)), np.uint64) if n_bits else column.signatures,
    )
    _encode(vocabulary, column, batch, n_bits, n_hashes)
    return batch


def sign(column: Column, n_bits: int, n_hashes: int) -> NDArray[np.uint64]:
    """The Bloom signatures of tag sets, as packets carry them."""
    return encode(column, Interner().names(), n_bits, n_hashes, False).signatures


def encode_some(column: Column, vocabulary: Vocabulary, *bits: Any) -> tuple[Batch, int]:
    """Encode all events at once, since they take little memory; returns their number too."""
    return encode(column, vocabulary, *bits), column.n_rows


def is_known(column: Column, batch: Batch) -> NDArray[np.bool_]:
    """Per row: True if the vocabulary of the batch has all tags of the row."""
    known: NDArray[np.bool_] = np.diff(batch.tag_start) == np.diff(column.row_start)
    return known


def decode(batch: Batch, row: int, vocabulary: Vocabulary) -> frozenset[str]:
    """The tags of one row."""
    return frozenset(
        vocabulary.name(tag) for tag in batch.tags[batch.tag_start[row] : batch.tag_start[row + 1]]
    )


def texts(batch: Batch, start: int, stop: int, vocabulary: Vocabulary) -> pa.Array:
    """The tags of some rows as an Arrow list of strings."""
    if batch.signatures.shape[1]:
        raise UsageError("bare signatures have no tags that could be read back")
    first, last = int(batch.tag_start[start]), int(batch.tag_start[stop])
    offsets = (batch.tag_start[start : stop + 1] - first).astype(np.int32)
    words = vocabulary.to_arrow().take(pa.array(batch.tags[first:last])).cast(pa.string())
    return pa.ListArray.from_arrays(offsets, words)


def rarest(batch: Batch) -> NDArray[np.int64]:
    """The rarest tag of each row, which is the largest id; -1 for a row without tags."""
    ids = np.full(batch.n_rows, -1, np.int64)
    has_tags = np.diff(batch.tag_start) > 0
    if has_tags.any():
        ids[has_tags] = np.maximum.reduceat(batch.tags, batch.tag_start[:-1][has_tags])
    return ids


def n_ids(vocabulary: Vocabulary) -> int:
    """The number of ids that `rarest` can return."""
    return vocabulary.n_names


def names_of(batch: Batch, vocabulary: Vocabulary) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The ids that may be the rarest tag of a subscription matching each event: (start, ids)."""
    return batch.tag_start, batch.tags[: batch.tag_start[-1]]


def sizes(vocabulary: Vocabulary) -> tuple[int, int]:
    """The number of tags in all subscriptions, and of distinct tags."""
    return int(vocabulary.counts().sum()), vocabulary.n_names


def estimate(n_rows: int, n_tags: int, n_names: int) -> tuple[int, int, int]:
    """Bytes of the vocabulary, of the staged subscriptions, and of the other memory of a build."""
    names = n_names * (11 + 4 + 12)  # slots, offset, text
    staged = 4 * n_tags + 16 * n_rows + 60 * n_names  # ids, offsets, keys; names while they grow
    sorting = 4 * n_tags + 12 * n_rows  # ids in posting order, offsets, lengths and order
    return names, staged, sorting


@njit(nogil=True, cache=True)
def _encode(names, column, batch, n_bits, n_hashes):
    """Fill the batch. The caller allocates it, since returning arrays from a kernel is slow."""
    row_start, tag_start = column.row_start, batch.tag_start
    n_rows = len(row_start) - 1
    codes = np.empty(BLOCK, np.uint64)
    ids = np.empty(BLOCK, np.int64)
    tag_start[0] = 0
    row, end = 0, 0
    for first in range(row_start[0], row_start[n_rows], BLOCK):
        n_block = find_block(names, column.text, column.text_start, first, codes, ids)
        for i in range(min(n_block, row_start[n_rows] - first)):
            while first + i >= row_start[row + 1]:
                row += 1
                tag_start[row] = end
            if n_bits:
                add_name(batch.signatures[row], codes[i], n_bits, n_hashes)
            if ids[i] >= 0:
                batch.tags[end] = ids[i]
                end += 1
    tag_start[row + 1 :] = end
