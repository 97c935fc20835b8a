"""Stage subscriptions until they are compiled, and join the vocabularies of several batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.tags.encoder.intake import Column, no_signatures
from matchyard.engines.tags.encoder.layout import Batch, Vocabulary
from matchyard.errors import UsageError
from matchyard.kernels.csr import concatenated, count_values
from matchyard.kernels.strings import Interner, find_names, rank_names


class Piece(NamedTuple):
    """The rows that one call staged, and the totals up to and including them."""

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
        self._pieces: list[Piece] = []

    @property
    def n_rows(self) -> int:
        """The number of staged subscriptions."""
        return self._pieces[-1].n_rows if self._pieces else 0

    @property
    def n_parts(self) -> int:
        """The number of tags in them."""
        return self._pieces[-1].n_tags if self._pieces else 0

    @property
    def n_names(self) -> int:
        """The number of distinct tags in them."""
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
        self._pieces.append(Piece(row_start, ids, signatures, keys, n_rows, n_tags))

    def put_back(self, batch: Batch, vocabulary: Vocabulary, keys: NDArray[np.int64]) -> None:
        """Stage the rows of a failed build again, before all others."""
        pieces, names = self._pieces, self._interner.names()
        self._interner, self._pieces = Interner(vocabulary), []
        new_ids = self._interner.intern(names.text, names.text_start)
        first, last = batch.tag_start[0], batch.tag_start[-1]
        self._append(batch.tag_start - first, batch.tags[first:last], batch.signatures, keys)
        for piece in pieces:
            self._append(piece.row_start, new_ids[piece.ids], piece.signatures, piece.keys)

    def take(self) -> tuple[Batch, Vocabulary, NDArray[np.int64]]:
        """Take all staged rows out; each piece is freed when it is joined."""
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
    """Join batches over different vocabularies into one over a new vocabulary, ranked by frequency.

    The tags of a lone part are renumbered in place.
    """
    joined, names = parts[0]
    if len(parts) > 1:
        interner, batches = Interner(names), [joined]
        for batch, more in parts[1:]:
            new_ids = interner.intern(more.text, more.text_start.astype(np.int64))
            batches.append(batch._replace(tags=new_ids[batch.tags]))
        joined, names = concatenate(batches), interner.names()
    vocabulary, rank = rank_names(names, count_values(joined.tags, names.n_names))
    _renumber(joined.tags, rank)
    return joined, vocabulary


def concatenate(batches: Sequence[Batch]) -> Batch:
    """Join batches over the same vocabulary."""
    unsigned = [
        Batch(batch.tag_start, batch.tags[: batch.tag_start[-1]], no_signatures(batch.n_rows))
        for batch in batches
    ]
    joined = concatenated(unsigned, 1)
    signatures = [batch.signatures for batch in batches]
    return joined._replace(signatures=_join_signatures(signatures, joined.n_rows, len(joined.tags)))


def counts(batch: Batch, vocabulary: Vocabulary) -> pa.Table:
    """The tags of a batch: a table with the columns `name` and `count`."""
    numbers = count_values(batch.tags, vocabulary.n_names)
    return pa.table({"name": vocabulary.to_arrow().cast(pa.large_string()), "count": numbers})


def recode(batch: Batch, vocabulary: Vocabulary, whole: Vocabulary) -> Batch:
    """The same sets over another vocabulary, which has all their tags. Of few sets, only their own tags are
    looked up."""
    if len(batch.tags) >= vocabulary.n_names:
        ids = find_names(whole, vocabulary.to_arrow()).astype(np.int32)
        return batch._replace(tags=ids[batch.tags])
    used, places = np.unique(batch.tags, return_inverse=True)
    ids = find_names(whole, vocabulary.to_arrow().take(pa.array(used))).astype(np.int32)
    return batch._replace(tags=ids[places])


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


@njit(nogil=True, cache=True)
def _renumber(tags, rank):
    for i in range(len(tags)):
        tags[i] = rank[tags[i]]
