"""Take in subscriptions of any form, and stage them until they are compiled.

Staged twigs have the numbers of terms as symbols. Final symbols depend on the whole vocabulary.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.columns import as_arrow, refuse_single
from matchyard.engines.twigs.encoder.layout import ANY as ANY_SYMBOL
from matchyard.engines.twigs.encoder.layout import Twigs, Vocabulary
from matchyard.engines.twigs.encoder.subscriptions.terms import term_of
from matchyard.engines.twigs.encoder.subscriptions.vocabulary import (
    encode,
    intern_terms,
    renumber,
    uses_all,
)
from matchyard.engines.twigs.language import parse
from matchyard.engines.twigs.language.model import ANY, DOCUMENT, Kept, Node, Test, Twig
from matchyard.errors import ParseError
from matchyard.kernels.csr import concatenated
from matchyard.kernels.strings import Interner

VALUES = "twigs"  # the kind of columns and batches: there is only one
_EXAMPLE = "//article[@year > 1990]/title"
_TWIGS = f"twigs, e.g. ['{_EXAMPLE}']"


class Subscriptions(NamedTuple):
    """Many twigs, over terms of their own."""

    twigs: Twigs  # their symbols are numbers of terms
    terms: pa.Array  # large_string

    @property
    def n_rows(self) -> int:
        """How many twigs there are."""
        return self.twigs.n_rows

    @property
    def kind(self) -> str:
        """The kind of a column: there is only one."""
        return VALUES


def subscription_column(values: Any, max_trees: int) -> Subscriptions:
    """A column of subscriptions from any form that users may pass."""
    writer = Writer()
    for row, value in enumerate(_as_rows(values)):
        try:
            is_kept = type(value) is Kept and len(value.trees) <= max_trees
            writer.add(value if is_kept else parse(value, max_trees))
        except ParseError as error:
            raise error.saying(f"row {row}: {error}") from None
    return writer.subscriptions()


def _as_rows(values: Any) -> Sequence[Any]:
    if isinstance(values, list | tuple):
        return values
    if isinstance(values, Iterator):
        return list(values)
    refuse_single(values, "twigs", _TWIGS, _EXAMPLE, Twig)
    values = as_arrow(values)
    if isinstance(values, pa.Array):
        return listed(values)
    if not isinstance(values, Iterable):
        message = "not a column of twigs, but {found}; expected {expected}"
        raise ParseError.of(message, found=f"{values!r:.80}", expected=_TWIGS, example=_EXAMPLE)
    return list(values)


def listed(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of an Arrow column, whose texts may be invalid UTF-8."""
    try:
        rows: list[Any] = values.to_pylist()
    except UnicodeDecodeError:
        rows = []
        for row, value in enumerate(values):
            try:
                rows.append(value.as_py())
            except UnicodeDecodeError as error:
                raise ParseError.of(
                    "row {row} is no UTF-8: {found}; expected {expected}",
                    row=row,
                    found=str(error),
                    expected=_TWIGS,
                    example=_EXAMPLE,
                ) from None
    return rows


class Writer:
    """Collects twigs one by one in lists, and then makes arrays of all."""

    def __init__(self) -> None:
        self.terms: dict[str | Test, int] = {ANY: ANY_SYMBOL}
        self._words = array("i")  # parent, axis, is it negated, and term of each node
        self._tree_ends, self._row_ends = array("q", [0]), array("q", [0])

    def add(self, twig: Twig) -> None:
        """One more row."""
        for tree in twig.trees:
            first = len(self._words)
            for node in tree:
                self._add_node(node, DOCUMENT, first)
            self._tree_ends.append(len(self._words) // 4)
        self._row_ends.append(len(self._tree_ends) - 1)

    def _add_node(self, node: Node, parent: int, first: int) -> None:
        number = (len(self._words) - first) // 4
        term = self.terms.setdefault(node.name, len(self.terms) - 1)
        self._words.extend((parent, node.axis, node.is_negated, term))
        for child in node.children:
            self._add_node(child, number, first)

    def twigs(self) -> Twigs:
        """All of them as arrays; their symbols are numbers of terms."""
        words = np.array(self._words, np.int32).reshape(-1, 4)
        return Twigs(
            np.array(self._row_ends, np.int64),
            np.array(self._tree_ends, np.int64),
            words[:, 0].copy(),
            words[:, 1].astype(np.uint8),
            words[:, 2].astype(np.bool_),
            words[:, 3].copy(),
        )

    def subscriptions(self) -> Subscriptions:
        """All of them as a column."""
        terms = [term_of(name) for name in self.terms if name != ANY]
        return Subscriptions(self.twigs(), pa.array(terms, pa.large_string()))


class _Staged(NamedTuple):
    """The twigs of one call, and the totals up to it."""

    twigs: Twigs
    keys: NDArray[np.int64]
    n_rows: int
    n_nodes: int


class Staging:
    """Staged subscriptions, over terms in order of appearance."""

    def __init__(self) -> None:
        self._terms = Interner()
        self._staged: list[_Staged] = []

    @property
    def n_rows(self) -> int:
        """Subscriptions so far."""
        return self._staged[-1].n_rows if self._staged else 0

    @property
    def n_parts(self) -> int:
        """Nodes of these subscriptions."""
        return self._staged[-1].n_nodes if self._staged else 0

    @property
    def n_names(self) -> int:
        """Distinct names and tests of these nodes."""
        return self._terms.n_names

    def add(self, column: Subscriptions, keys: NDArray[np.int64]) -> None:
        """Stage all rows of a column, or none if it fails."""
        self._append(renumber(column.twigs, self._terms.intern_arrow(column.terms)), keys)

    def _append(self, twigs: Twigs, keys: NDArray[np.int64]) -> None:
        n_rows, n_nodes = self.n_rows + len(keys), self.n_parts + len(twigs.symbol)
        self._staged.append(_Staged(twigs, keys, n_rows, n_nodes))

    def put_back(self, twigs: Twigs, vocabulary: Vocabulary, keys: NDArray[np.int64]) -> None:
        """Stage rows of a failed build again, before all others."""
        staged, names = self._staged, self._terms.names()
        self._terms, self._staged = Interner(), []
        self._append(renumber(twigs, intern_terms(self._terms, vocabulary)), keys)
        numbers = self._terms.intern(names.text, names.text_start)
        for some in staged:
            self._append(renumber(some.twigs, numbers), some.keys)

    def take(self) -> tuple[Twigs, Vocabulary, NDArray[np.int64]]:
        """Remove all staged subscriptions and return them over a vocabulary of their own."""
        joined = concatenate([some.twigs for some in self._staged])
        twigs, vocabulary = encode(joined, _words(self._terms))
        keys = [some.keys for some in self._staged]
        self.__init__()  # type: ignore[misc]
        return twigs, vocabulary, np.concatenate([np.empty(0, np.int64), *keys])


def merge(parts: Sequence[tuple[Twigs, Vocabulary]]) -> tuple[Twigs, Vocabulary]:
    """Join twigs over different vocabularies, over a new one with only the terms in use."""
    if len(parts) == 1 and uses_all(*parts[0]):
        return parts[0]
    terms = Interner()
    joined = [renumber(twigs, intern_terms(terms, vocabulary)) for twigs, vocabulary in parts]
    return encode(concatenate(joined), _words(terms))


def _words(terms: Interner) -> pa.Array:
    return terms.names().to_arrow().cast(pa.large_string())


def concatenate(parts: Sequence[Twigs]) -> Twigs:
    """Join parts over the same terms or symbols."""
    if not parts:
        return Writer().twigs()
    return concatenated(parts, 2)
