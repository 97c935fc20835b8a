"""Descriptors as sets of numbers, which routers store, compare and send to each other.

A descriptor is a set of tags. A vocabulary numbers the tags, and routers compare the numbers. Routers of
one process can share a vocabulary; routers with different vocabularies exchange descriptors as text. In
the thesis, a descriptor is a Bloom filter of 192 bits, and its numbers are the positions of its set bits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.engine import find_engine
from matchyard.errors import UsageError
from matchyard.kernels.csr import take_rows
from matchyard.kernels.routing.sets import sort_rows
from matchyard.kernels.strings import Interner, Names, find_names
from matchyard.threads.forks import start_fresh_in_child

KINDS = ("tags", "bloom")
BLOOM_BITS, BLOOM_HASHES = 192, 7  # [thesis 2.2.1]


class Vocabulary:
    """Numbers of tags: `kind` is "tags", or "bloom" for the bits of Bloom filters.

    >>> vocabulary = Vocabulary()
    >>> descriptors = vocabulary.encode([{"jazz", "live"}, "jazz"])
    >>> len(descriptors), sorted(next(iter(descriptors)))
    (2, ['jazz', 'live'])
    """

    def __init__(self, kind: str = "tags", names: Names | None = None) -> None:
        if kind not in KINDS:
            raise UsageError(f"descriptors {kind!r}; expected one of {', '.join(KINDS)}")
        self.kind = kind
        self._interner = Interner(names)
        self._encoder: Any = find_engine("tags").encoder
        self._reading = self._encoder.Options()
        self._start_fresh()
        start_fresh_in_child(self)

    def _start_fresh(self) -> None:
        self._fork_lock = threading.RLock()  # several threads may meet new tags

    def __repr__(self) -> str:
        return f"<Vocabulary of {self.kind}: {self.n_ids} numbers>"

    @property
    def n_ids(self) -> int:
        """The count of numbers assigned so far."""
        return BLOOM_BITS if self.kind == "bloom" else self._interner.n_names

    def names(self) -> Names:
        """The tags by number; empty for Bloom filters."""
        return self._interner.names()

    def encode(self, values: Any) -> Descriptors:
        """Encode sets of tags, in any form that an index accepts; new tags get the next numbers.
        Bloom filters may also be rows of three 64-bit words, the result of `TagIndex.sign`."""
        if isinstance(values, Descriptors):
            return values.checked() if values.vocabulary is self else self._translated(values)
        column = self._column(values)
        if self.kind == "bloom":
            return self._of_bits(self._signed(column))
        with self._fork_lock:
            ids = self._interner.intern(column.text, np.asarray(column.text_start, np.int64))
        return Descriptors(self, *sort_rows(column.row_start, ids))

    def find(self, values: Any) -> tuple[Descriptors, NDArray[np.bool_]]:
        """Encode without assigning new numbers: leave out unknown tags.
        The second array is True for descriptors whose tags are all known."""
        if self.kind == "bloom" or isinstance(values, Descriptors):
            descriptors = self.encode(values)
            return descriptors, np.ones(len(descriptors), np.bool_)
        column = self._column(values)
        words = pa.LargeStringArray.from_buffers(
            len(column.text_start) - 1,
            pa.py_buffer(np.ascontiguousarray(column.text_start, np.int64)),
            pa.py_buffer(column.text),
        )
        with self._fork_lock:
            ids = find_names(self._interner.names(), words)
        is_known = ids >= 0
        start = np.append(0, np.cumsum(is_known))[column.row_start]
        is_whole = np.diff(start) == np.diff(column.row_start)
        return Descriptors(self, *sort_rows(start, ids[is_known].astype(np.int32))), is_whole

    def _column(self, values: Any) -> Any:
        column = self._encoder.column(values, self._reading)
        if self.kind == "tags" and column.signatures.shape[1]:
            raise UsageError('bare signatures need descriptors="bloom"; expected sets of tags')
        return column

    def _signed(self, column: Any) -> NDArray[np.uint64]:
        n_words = column.signatures.shape[1]
        if n_words not in (0, BLOOM_BITS // 64):
            raise UsageError(
                f"bare signatures of {n_words} words; expected {BLOOM_BITS // 64} of 64 bits"
            )
        signed: NDArray[np.uint64] = column.signatures
        return signed if n_words else self._encoder.sign(column, BLOOM_BITS, BLOOM_HASHES)

    def _of_bits(self, signatures: NDArray[np.uint64]) -> Descriptors:
        bits = np.unpackbits(signatures.astype(">u8").view(np.uint8), axis=1)
        rows, ids = np.nonzero(bits)
        start = np.searchsorted(rows, np.arange(len(signatures) + 1))
        return Descriptors(self, start.astype(np.int64), ids.astype(np.int32))

    def _translated(self, values: Descriptors) -> Descriptors:
        if values.vocabulary.kind != self.kind:
            raise UsageError(
                f"descriptors of {values.vocabulary.kind} at a router of {self.kind}; expected one form"
            )
        if self.kind == "bloom":  # bits are the same everywhere
            return Descriptors(self, values.start, values.ids)
        return self.encode(values.to_arrow())


class Descriptors:
    """A sequence of sets of numbers; iterating yields sets of tags, or of the bits of Bloom filters."""

    def __init__(
        self, vocabulary: Vocabulary, start: NDArray[np.int64], ids: NDArray[np.int32]
    ) -> None:
        self.vocabulary = vocabulary
        self.start = start  # [n + 1]
        self.ids = ids  # rising within a descriptor

    def __len__(self) -> int:
        return len(self.start) - 1

    def checked(self) -> Descriptors:
        """Self, after a check that the vocabulary has all numbers in it."""
        if self.ids.max(initial=-1) >= self.vocabulary.n_ids or self.ids.min(initial=0) < 0:
            raise UsageError(
                "descriptors of numbers that their vocabulary does not have, such as those of "
                "`table_by_parts`; expected descriptors that were read from tags"
            )
        return self

    def __iter__(self) -> Iterator[frozenset[Any]]:
        if self.vocabulary.kind == "bloom":
            for row in range(len(self)):
                yield frozenset(self.ids[self.start[row] : self.start[row + 1]].tolist())
            return
        yield from map(frozenset, self.to_arrow().to_pylist())

    def __repr__(self) -> str:
        return f"<{len(self)} descriptors of {self.vocabulary.kind}>"

    def to_arrow(self) -> pa.Array:
        """An Arrow array with a list of tags (for Bloom filters: of bits) per descriptor."""
        offsets = pa.array(self.start, pa.int64())
        if self.vocabulary.kind == "bloom":
            return pa.LargeListArray.from_arrays(offsets, pa.array(self.ids))
        words = self.checked().vocabulary.names().to_arrow().take(pa.array(self.ids))
        return pa.LargeListArray.from_arrays(offsets, words)

    def signatures(self) -> NDArray[np.uint64]:
        """Bloom filters as rows of three 64-bit words, a form that `TagIndex` accepts."""
        if self.vocabulary.kind != "bloom":
            raise UsageError("descriptors are sets of tags; only Bloom filters have bits")
        bits = np.zeros((len(self), BLOOM_BITS), np.uint8)
        bits[np.repeat(np.arange(len(self)), np.diff(self.start)), self.ids] = 1
        return np.packbits(bits, axis=1).view(">u8").astype(np.uint64)

    def with_more(self, others: Descriptors) -> Descriptors:
        """These descriptors, followed by others of the same vocabulary."""
        start = np.concatenate([self.start, others.start[1:] + self.start[-1]])
        return Descriptors(self.vocabulary, start, np.concatenate([self.ids, others.ids]))

    def take(self, rows: NDArray[np.int64]) -> Descriptors:
        """The descriptors of the given rows, in that order."""
        return Descriptors(self.vocabulary, *take_rows(self.start, self.ids, rows))
