"""From text to numbers: the vocabulary, and batches of ids.

    values ──column──▶ Column (text) ──Staging / encode──▶ Batch (ids in a vocabulary)

The vocabulary numbers tags by falling frequency: 0 is the most frequent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.tags import language
from matchyard.engines.tags._columns import (
    VALUES,
    Column,
    Options,
    check,
    column,
    fold,
    kind_of,
    no_signatures,
)
from matchyard.errors import UsageError
from matchyard.kernels.bitset import add_name, n_words_for
from matchyard.kernels.csr import count_values, ragged
from matchyard.kernels.inspection import inspect_names as inspect
from matchyard.kernels.names import BLOCK, Interner, Names, find_block, find_names, rank_names

__all__ = [
    "VALUES",
    "Batch",
    "Column",
    "Options",
    "Staging",
    "Vocabulary",
    "accept",
    "check",
    "column",
    "count",
    "decode",
    "encode",
    "encode_known",
    "estimate",
    "fold",
    "inspect",
    "is_known",
    "keep",
    "kind",
    "merge",
    "merge_counts",
    "n_ids",
    "names_of",
    "parse",
    "parse_column",
    "parse_event",
    "rarest",
    "read_event",
    "sign",
    "sizes",
    "subscription_column",
    "texts",
]

Vocabulary = Names
subscription_column = column  # both are sets of tags


def parse(value: Any, options: Options) -> frozenset[str]:
    """One subscription as the options want it."""
    return fold(language.parse(value), options)


parse_event = read_event = parse


def parse_column(values: Any, options: Options) -> list[frozenset[str]]:
    """The subscriptions of a column one by one, as `parse` gives them."""
    return [parse(value, options) for value in values.to_pylist()]


class Batch(NamedTuple):
    """Encoded subscriptions or events."""

    tag_start: NDArray[np.int64]  # [n_rows + 1] offsets into tags
    tags: NDArray[np.int32]  # ids as the tags came; unknown ones are left out
    signatures: NDArray[np.uint64]  # [n_rows, n_words] Bloom signatures of all tags, if asked for

    @property
    def n_rows(self) -> int:
        """How many sets there are."""
        return len(self.tag_start) - 1

    def rows(self, start: int, stop: int) -> Batch:
        """Some consecutive rows, without copying the tags."""
        return Batch(self.tag_start[start : stop + 1], self.tags, self.signatures[start:stop])


def kind(batch: Batch) -> str | None:
    """As of a column; of subscriptions only, since encoded events carry both. None where there are
    only empty ones, which are the same in every kind."""
    if len(batch.tags) or batch.signatures.any():
        return kind_of(batch.signatures)
    return None


class _Piece(NamedTuple):
    """What one call staged, and how much there is up to it."""

    row_start: NDArray[np.int64]
    ids: NDArray[np.int32]
    signatures: NDArray[np.uint64]
    keys: NDArray[np.int64]
    n_rows: int
    n_tags: int


class Staging:
    """Subscriptions that wait to be compiled, as ids in order of appearance."""

    def __init__(self) -> None:
        self._interner = Interner()
        self._pieces: list[_Piece] = []

    @property
    def n_rows(self) -> int:
        """Subscriptions so far."""
        return self._pieces[-1].n_rows if self._pieces else 0

    @property
    def n_parts(self) -> int:
        """Tags in them."""
        return self._pieces[-1].n_tags if self._pieces else 0

    @property
    def n_names(self) -> int:
        """Distinct tags among those."""
        return self._interner.n_names

    def add(self, column: Column, keys: NDArray[np.int64]) -> None:
        """Stage every row of a column, or none of them."""
        ids = self._interner.intern(column.text, column.text_start.astype(np.int64))
        self._append(column.row_start, ids, column.signatures, keys)

    def _append(
        self,
        row_start: NDArray[np.int64],
        ids: NDArray[np.int32],
        signatures: NDArray[np.uint64],
        keys: NDArray[np.int64],
    ) -> None:
        n_rows, n_tags = self.n_rows + len(keys), self.n_parts + len(ids)
        self._pieces.append(_Piece(row_start, ids, signatures, keys, n_rows, n_tags))

    def put_back(self, batch: Batch, vocabulary: Vocabulary, keys: NDArray[np.int64]) -> None:
        """Stage rows before all others: what a failed build had taken."""
        pieces, names = self._pieces, self._interner.names()
        self._interner, self._pieces = Interner(vocabulary), []
        new_ids = self._interner.intern(names.text, names.text_start)
        first, last = batch.tag_start[0], batch.tag_start[-1]
        self._append(batch.tag_start - first, batch.tags[first:last], batch.signatures, keys)
        for piece in pieces:
            self._append(piece.row_start, new_ids[piece.ids], piece.signatures, piece.keys)

    def take(self) -> tuple[Batch, Vocabulary, NDArray[np.int64]]:
        """All that was staged, leaving nothing; pieces are freed as they are joined."""
        n_rows, n_tags = self.n_rows, self.n_parts
        signatures = _join_signatures([piece.signatures for piece in self._pieces], n_rows, n_tags)
        tag_start = np.zeros(n_rows + 1, np.int64)
        tags, keys = np.empty(n_tags, np.int32), np.empty(n_rows, np.int64)
        row = end = 0
        while self._pieces:
            start, ids, _, some_keys, _, _ = self._pieces.pop(0)
            tag_start[row + 1 : row + len(start)] = start[1:] + end
            tags[end : end + len(ids)] = ids
            keys[row : row + len(some_keys)] = some_keys
            row, end = row + len(start) - 1, end + len(ids)
        names = self._interner.names()
        self._interner = Interner()
        return Batch(tag_start, tags, signatures), names, keys


def _join_signatures(
    pieces: list[NDArray[np.uint64]], n_rows: int, n_tags: int
) -> NDArray[np.uint64]:
    widths = {piece.shape[1] for piece in pieces if len(piece)}
    if not widths or widths == {0}:
        return no_signatures(n_rows)
    width = max(widths)
    if n_tags or not widths <= {0, width}:
        raise UsageError(
            "bare signatures and tag sets, or signatures of different widths, cannot be mixed "
            "in one index"
        )
    return np.concatenate(  # the empty set and the bare signature 0 are the same thing
        [piece if piece.shape[1] else np.zeros((len(piece), width), np.uint64) for piece in pieces]
    )


def merge(parts: Sequence[tuple[Batch, Vocabulary]]) -> tuple[Batch, Vocabulary]:
    """Join batches over different vocabularies into one over a new one, ranked by frequency.

    The tags of a lone part are renumbered in place.
    """
    joined, names = parts[0]
    if len(parts) > 1:
        interner, batches = Interner(names), [joined]
        for batch, more in parts[1:]:
            new_ids = interner.intern(more.text, more.text_start.astype(np.int64))
            batches.append(batch._replace(tags=new_ids[batch.tags]))
        joined, names = _concatenate(batches), interner.names()
    vocabulary, rank = rank_names(names, count_values(joined.tags, names.n_names))
    _renumber(joined.tags, rank)
    return joined, vocabulary


def _concatenate(batches: list[Batch]) -> Batch:
    starts, end = [np.zeros(1, np.int64)], 0
    for batch in batches:
        starts.append(batch.tag_start[1:] + end)
        end += int(batch.tag_start[-1])
    n_rows = sum(batch.n_rows for batch in batches)
    signatures = _join_signatures([batch.signatures for batch in batches], n_rows, end)
    tags = np.concatenate([batch.tags[: batch.tag_start[-1]] for batch in batches])
    return Batch(np.concatenate(starts), tags, signatures)


def keep(batch: Batch, rows: NDArray[np.bool_]) -> Batch:
    """Only the rows where `rows` is true."""
    counts = np.diff(batch.tag_start)
    tags = batch.tags[np.repeat(rows, counts)]
    return Batch(ragged(counts[rows]), tags, batch.signatures[rows])


def accept(column: Column, n_bits: int = 0, n_hashes: int = 0, bare_allowed: bool = False) -> None:
    """Refuse bare signatures where the algorithm needs tags, or other widths."""
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
    """Events as a batch over the vocabulary, with signatures of `n_bits` when that is not 0."""
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
    """All events at once: they take little memory."""
    return encode(column, vocabulary, *bits), column.n_rows


def encode_known(column: Column, vocabulary: Vocabulary) -> Batch:
    """Subscriptions as a batch over a vocabulary that must have all of their tags."""
    if column.signatures.shape[1]:
        return Batch(column.row_start, np.zeros(0, np.int32), column.signatures)
    words = pa.LargeStringArray.from_buffers(
        len(column.text_start) - 1,
        pa.py_buffer(column.text_start.astype(np.int64)),
        pa.py_buffer(column.text),
    )
    tags = find_names(vocabulary, words)
    if (tags < 0).any():
        missing = words[int(np.argmin(tags))].as_py()
        raise UsageError(f"tag {missing!r} is not in the vocabulary: it was not counted")
    return Batch(column.row_start, tags.astype(np.int32), column.signatures)


def is_known(column: Column, batch: Batch) -> NDArray[np.bool_]:
    """Per row: does the vocabulary of the batch have all of the column's tags?"""
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
    found = np.full(batch.n_rows, -1, np.int64)
    has_tags = np.diff(batch.tag_start) > 0
    if has_tags.any():
        found[has_tags] = np.maximum.reduceat(batch.tags, batch.tag_start[:-1][has_tags])
    return found


def n_ids(vocabulary: Vocabulary) -> int:
    """How many ids there are that `rarest` can give."""
    return vocabulary.n_names


def names_of(batch: Batch, vocabulary: Vocabulary) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The ids under which `rarest` may have filed what matches each event: (start, ids)."""
    return batch.tag_start, batch.tags[: batch.tag_start[-1]]


def count(column: Column) -> pa.Table:
    """What a part of the subscriptions brings to the vocabulary: columns `name` and `count`."""
    staging = Staging()
    staging.add(column, np.zeros(column.n_rows, np.int64))
    batch, names, _ = staging.take()
    return pa.table({"name": names.to_arrow(), "count": count_values(batch.tags, names.n_names)})


def merge_counts(parts: Iterable[pa.Table]) -> Vocabulary:
    """The vocabulary of all parts, ranked by frequency."""
    interner, totals = Interner(), np.zeros(1024, np.int64)
    for part in parts:
        for batch in part.combine_chunks().to_batches():
            ids = interner.intern_arrow(batch["name"].cast(pa.large_string()))
            if interner.n_names > len(totals):
                more = np.zeros(2 * interner.n_names - len(totals), np.int64)
                totals = np.concatenate([totals, more])
            np.add.at(totals, ids, batch["count"].to_numpy())
    vocabulary, _ = rank_names(interner.names(), totals[: interner.n_names])
    return vocabulary


def sizes(vocabulary: Vocabulary) -> tuple[int, int]:
    """Tags in all subscriptions, and distinct ones."""
    return int(vocabulary.counts().sum()), vocabulary.n_names


def estimate(n_rows: int, n_tags: int, n_names: int) -> tuple[int, int, int]:
    """Bytes of the vocabulary, of what is staged, and of what a build has besides that."""
    names = n_names * (11 + 4 + 12)  # slots, offset, text
    staged = 4 * n_tags + 16 * n_rows + 60 * n_names  # ids, offsets, keys; names while they grow
    sorting = 4 * n_tags + 12 * n_rows  # ids in posting order, offsets, lengths and order
    return names, staged, sorting


@njit(nogil=True, cache=True)
def _renumber(tags, rank):
    for i in range(len(tags)):
        tags[i] = rank[tags[i]]


@njit(nogil=True, cache=True)
def _encode(names, column, batch, n_bits, n_hashes):
    """Fill the batch; it is made by the caller, since handing arrays out of a kernel is slow."""
    row_start, tag_start = column.row_start, batch.tag_start
    n_rows = len(row_start) - 1
    codes = np.empty(BLOCK, np.uint64)
    found = np.empty(BLOCK, np.int64)
    tag_start[0] = 0
    row, end = 0, 0
    for first in range(row_start[0], row_start[n_rows], BLOCK):
        n_block = find_block(names, column.text, column.text_start, first, codes, found)
        for i in range(min(n_block, row_start[n_rows] - first)):
            while first + i >= row_start[row + 1]:
                row += 1
                tag_start[row] = end
            if n_bits:
                add_name(batch.signatures[row], codes[i], n_bits, n_hashes)
            if found[i] >= 0:
                batch.tags[end] = found[i]
                end += 1
    tag_start[row + 1 :] = end
