"""Twigs and documents in numbers: what the encoder makes and the algorithms read.

Everything is a tag. An element name is one; so is every test of a value (`@year`, `@year > 1990`,
`text() = "x"`): where an attribute or a text of an element satisfies it, the document has a *leaf*
of that tag below the element. Algorithms thus see trees of tags, and nothing of values.

    tag 0                 an element that no subscription names
    1 … n_names           elements by name
    n_names + 1 …         tests, in the order of the vocabulary; a `*` stands for none of them
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.kernels.csr import take_rows
from matchyard.kernels.strings import Names

ANY = -1  # the tag of `*`
CLOSE = -1  # an event: an element ends


class Twigs(NamedTuple):
    """Subscriptions: each is a set of trees, one of which must be in a document."""

    row_start: NDArray[np.int64]  # [n_rows + 1] offsets into the trees
    tree_start: NDArray[np.int64]  # [n_trees + 1] offsets into the nodes
    parent: NDArray[np.int32]  # within the tree, before the node itself; DOCUMENT for top nodes
    axis: NDArray[np.uint8]
    is_negated: NDArray[np.bool_]  # is there to be no such node?
    tag: NDArray[np.int32]  # or ANY

    @property
    def n_rows(self) -> int:
        """How many subscriptions there are."""
        return len(self.row_start) - 1

    def rows(self, start: int, stop: int) -> Twigs:
        """Some consecutive subscriptions, without copying what they consist of."""
        return self._replace(row_start=self.row_start[start : stop + 1])

    def take(self, rows: NDArray[np.int64]) -> Twigs:
        """Some subscriptions, in the given order, with only what they consist of."""
        row_start, trees = take_rows(self.row_start, np.arange(len(self.tree_start) - 1), rows)
        tree_start, nodes = take_rows(self.tree_start, np.arange(len(self.tag)), trees)
        return Twigs(row_start, tree_start, *(column[nodes] for column in self[2:]))


class Vocabulary(NamedTuple):
    """The tags of all subscriptions."""

    names: Names  # of elements; tag is id + 1
    attributes: Names  # names of attributes that tests look at
    texts: Names  # texts that tests compare with
    source: NDArray[np.uint8]  # [n_tests] a Source; tests are sorted by (source, attribute, …)
    attribute: NDArray[np.int32]  # [n_tests] id among the attributes, -1 for other sources
    test: NDArray[np.uint8]  # [n_tests] a Comparison
    text: NDArray[np.int32]  # [n_tests] id among the texts, -1 for other tests
    number: NDArray[np.float64]  # [n_tests] what numbers are compared with, else 0

    @property
    def n_names(self) -> int:
        """How many element names there are."""
        return self.names.n_names

    @property
    def n_tags(self) -> int:
        """How many tags there are, with the one for unknown elements."""
        return 1 + self.n_names + len(self.source)


class Batch(NamedTuple):
    """Documents: their elements as they open and close, and leaves where tests are satisfied.

    An event is a tag >= 0 where an element opens, CLOSE where one closes, and -2 - tag for a leaf
    of that tag: it opens and closes. Leaves of attributes come right after their element opens,
    those of TEXT where the text ends, those of VALUE right before the element closes; a leaf of
    the same tag may come more than once within an element.
    """

    event_start: NDArray[np.int64]  # [n_documents + 1]
    events: NDArray[np.int32]
    depth: NDArray[np.int32]  # [n_documents] elements within each other, at most

    @property
    def n_rows(self) -> int:
        """How many documents there are."""
        return len(self.event_start) - 1
