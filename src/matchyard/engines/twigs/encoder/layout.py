"""Twigs and documents in numbers: the arrays that the encoder makes and the algorithms read.

A *symbol* is a number. Each element name has one; so has every value test (`@year`, `@year > 1990`,
`text() = "x"`). If an attribute or a text of an element satisfies a test, the document has a *leaf*
with the symbol of the test below the element. Algorithms see trees of symbols and no values.

    0                     an element that no subscription names
    1 … n_names           elements by name
    n_names + 1 …         value tests, in the order of the vocabulary; `*` stands for none of them
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.kernels.csr import take_rows
from matchyard.kernels.strings import Names

ANY = -1  # the symbol of `*`
CLOSE = -1  # a signal: an element closes


class Twigs(NamedTuple):
    """Subscriptions: a row matches a document if the document has one of the trees of the row."""

    row_start: NDArray[np.int64]  # [n_rows + 1] offsets into the trees
    tree_start: NDArray[np.int64]  # [n_trees + 1] offsets into the nodes
    parent: NDArray[np.int32]  # within the tree, before the node itself; DOCUMENT for top nodes
    axis: NDArray[np.uint8]
    is_negated: NDArray[np.bool_]  # the node must be absent
    symbol: NDArray[np.int32]  # or ANY

    @property
    def n_rows(self) -> int:
        """How many subscriptions there are."""
        return len(self.row_start) - 1

    def rows(self, start: int, stop: int) -> Twigs:
        """Consecutive subscriptions that share the trees and nodes of this batch."""
        return self._replace(row_start=self.row_start[start : stop + 1])

    def take(self, rows: NDArray[np.int64]) -> Twigs:
        """Copies of the given rows, in the given order."""
        row_start, trees = take_rows(self.row_start, np.arange(len(self.tree_start) - 1), rows)
        tree_start, nodes = take_rows(self.tree_start, np.arange(len(self.symbol)), trees)
        return Twigs(row_start, tree_start, *(column[nodes] for column in self[2:]))


class Vocabulary(NamedTuple):
    """The symbols of all subscriptions."""

    names: Names  # of elements; symbol is id + 1
    attributes: Names  # names of attributes that tests look at
    texts: Names  # texts that tests compare with
    source: NDArray[np.uint8]  # [n_tests] a Source; tests are sorted by (source, attribute, …)
    attribute: NDArray[np.int32]  # [n_tests] id among the attributes, -1 for other sources
    test: NDArray[np.uint8]  # [n_tests] a Comparison
    text: NDArray[np.int32]  # [n_tests] id among the texts, -1 for other tests
    number: NDArray[np.float64]  # [n_tests] the operand of comparisons of numbers, else 0

    @property
    def n_names(self) -> int:
        """How many element names there are."""
        return self.names.n_names

    @property
    def n_symbols(self) -> int:
        """How many symbols there are, including 0 for unknown elements."""
        return 1 + self.n_names + len(self.source)


class Batch(NamedTuple):
    """Documents as signals: elements open and close, and satisfied value tests are leaves.

    A signal is a symbol >= 0 if an element opens, CLOSE if it closes, and -2 - symbol for a leaf,
    which opens and closes at once. Leaves of attributes follow the opening of their element, leaves
    of a TEXT come at its end, and leaves of a VALUE come before the element closes. An element may
    have several leaves with the same symbol.
    """

    signal_start: NDArray[np.int64]  # [n_documents + 1]
    signals: NDArray[np.int32]
    depth: NDArray[np.int32]  # [n_documents] elements within each other, at most

    @property
    def n_rows(self) -> int:
        """How many documents there are."""
        return len(self.signal_start) - 1
