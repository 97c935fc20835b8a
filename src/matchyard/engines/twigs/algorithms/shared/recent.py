"""Recent subscriptions of a live index: a few twigs that every document is compared with, by `stacks`.

`stacks` needs no states, which would have to be built anew after every addition.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.algorithms.shared import stored_twigs
from matchyard.engines.twigs.algorithms.stacks.stacks import Table, match_documents, table_of
from matchyard.engines.twigs.encoder import (
    Column,
    Reading,
    Subscriptions,
    Vocabulary,
    Writer,
    encode_one,
    encode_some,
    new_buffers,
    reading,
)
from matchyard.engines.twigs.encoder.layout import ANY, Batch
from matchyard.engines.twigs.language.model import Test
from matchyard.kernels.prepared import Prepared, bytes_array, opened
from matchyard.kernels.strings import Interner, freeze

_LEFT_TO_BATCH = -1


class Checks(NamedTuple):
    """Twigs, for kernels; the vocabulary is for batches."""

    reading: Reading
    table: Table


class Recent(Prepared):
    """Twigs that do not change."""

    __slots__ = ("vocabulary",)

    def __init__(self, checks: Checks, vocabulary: Vocabulary, like: Prepared | None) -> None:
        super().__init__(freeze(checks), like)
        self.vocabulary = vocabulary


class Log:
    """Recent twigs, in the order of their addition."""

    def __init__(self, options: Any) -> None:
        self._options, self._writer = options, Writer()
        self._names, self._attributes, self._texts = Interner(), Interner(), Interner()
        self._term_names: list[int] = []  # by term: the id of a name, or -1 for a test…
        self._tests: dict[int, tuple[Any, ...]] = {}  # …and by term the fields of a test
        self._last: Prepared | None = None

    def append(self, twig: Any) -> None:
        """Add a twig."""
        self._writer.add(twig)

    def column(self) -> Subscriptions:
        """All twigs so far, as the encoder's column."""
        return self._writer.subscriptions()

    def checks(self) -> Recent:
        """All twigs so far, in arrays that do not change."""
        for name in islice(self._writer.terms, len(self._term_names) + 1, None):  # without `*`
            self._add_term(name)
        vocabulary, symbols = self._vocabulary()
        twigs = self._writer.twigs()
        twigs = twigs._replace(symbol=symbols[twigs.symbol])
        rows = np.arange(twigs.n_rows + 1)
        stored = stored_twigs.store(stored_twigs.Distinct(twigs, rows, rows[:-1]))
        checks = Checks(reading(vocabulary, self._options), table_of(stored))
        self._last = recent = Recent(checks, vocabulary, self._last)
        return recent

    def _add_term(self, name: str | Test) -> None:
        if isinstance(name, str):
            self._term_names.append(int(self._names.add([name.encode()])[0]))
            return
        attribute, text, number = -1, -1, 0.0
        if name.attribute is not None:
            attribute = int(self._attributes.add([name.attribute.encode()])[0])
        if isinstance(name.operand, str):
            text = int(self._texts.add([name.operand.encode()])[0])
        elif name.operand is not None:
            number = name.operand
        fields = int(name.source), attribute, int(name.comparison), text, number
        self._tests[len(self._term_names)] = fields
        self._term_names.append(-1)

    def _vocabulary(self) -> tuple[Vocabulary, NDArray[np.int32]]:
        """The vocabulary, and the symbol of each term, with that of `*` at the end."""
        symbols = np.array([*self._term_names, ANY - 1], np.int32) + np.int32(1)
        terms = sorted(self._tests, key=self._tests.__getitem__)
        symbols[terms] = self._names.n_names + 1 + np.arange(len(terms), dtype=np.int32)
        columns = list(zip(*(self._tests[term] for term in terms))) or [()] * 5
        kinds = (np.uint8, np.int32, np.uint8, np.int32, np.float64)
        tests: Any = (np.array(column, kind) for column, kind in zip(columns, kinds, strict=True))
        names = (self._names.copied(), self._attributes.copied(), self._texts.copied())
        return Vocabulary(*names, *tests), symbols


class Scratch(NamedTuple):
    """Arrays that the search of one document changes."""

    signal_start: NDArray[np.int64]  # [2]
    depth: NDArray[np.int32]  # [1]
    rows: NDArray[np.int32]


class Finder:
    """Finds the recent twigs that one document matches, for one thread."""

    def __init__(self, options: Any) -> None:
        self._buffers = new_buffers(options)
        self._of: Recent | None = None  # the twigs whose symbols are in the caches
        self._prepare(64)

    def _prepare(self, n_rows: int) -> None:
        self.rows = np.empty(n_rows, np.int32)
        scratch = Scratch(np.zeros(2, np.int64), np.zeros(1, np.int32), self.rows)
        self._scratch = Prepared((self._buffers, scratch))

    def find(self, document: bytes, checks: Recent) -> int:
        """Write the rows that match to `rows`; returns how many there are. Less than 0: the document has
        to be matched as a batch."""
        table = checks.arrays[1]
        if len(table.row_start) > len(self.rows):
            self._prepare(2 * len(table.row_start))
        if self._of is not checks:  # the caches have the symbols of another vocabulary
            self._buffers.room.cache[:] = self._buffers.room.attribute_cache[:] = 0
            self._of = checks
        return int(_find(checks, self._scratch, document))


def match(column: Column, checks: Recent, options: Any) -> tuple[Any, Any]:
    """The rows that each document matches: (hit_start, rows)."""
    table, first = checks.arrays[1], 0
    starts, parts = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
    while first < column.n_rows:
        batch, n_documents = encode_some(column.rows(first, column.n_rows), checks.vocabulary)
        stack = np.zeros((int(batch.depth.max(initial=0)) + 1, len(table.personality)), np.uint8)
        hit_start, rows, _ = match_documents(table, batch, stack)
        starts.append(hit_start[1:] + starts[-1][-1])
        parts.append(rows)
        first += n_documents
    return np.concatenate(starts), np.concatenate(parts)


@njit(cache=True)
def _find(prepared, scratch, document):
    reading, table = opened(prepared)
    buffers, own = opened(scratch)
    n_signals, depth = encode_one(bytes_array(document), reading, buffers)
    if depth < 0:
        return _LEFT_TO_BATCH
    own.signal_start[1], own.depth[0] = n_signals, depth
    batch = Batch(own.signal_start, buffers.signals, own.depth)
    stack = np.zeros((depth + 1, len(table.personality)), np.uint8)
    _, rows, _ = match_documents(table, batch, stack)
    for i in range(len(rows)):
        own.rows[i] = rows[i]
    return len(rows)
