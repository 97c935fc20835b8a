"""Subscriptions in any form that users may give, as pieces; and the staged ones."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.columns import as_arrow, refuse_single
from matchyard.engines.predicates.encoder.layout import Filters, Vocabulary
from matchyard.engines.predicates.encoder.subscriptions.arrow import from_lists, is_list
from matchyard.engines.predicates.encoder.subscriptions.arrow_operands import is_text
from matchyard.engines.predicates.encoder.subscriptions.operators import (
    COMPARISONS,
    constant,
    write_constraint,
)
from matchyard.engines.predicates.encoder.subscriptions.pieces import Pieces, join, renumber
from matchyard.engines.predicates.encoder.subscriptions.vocabulary import encode, read
from matchyard.engines.predicates.language import parse
from matchyard.engines.predicates.language.model import Constraint, Kept, Predicate
from matchyard.errors import ParseError, shorten
from matchyard.kernels.growing import copied
from matchyard.kernels.strings import Interner, Names

VALUES = "predicates"  # the only kind of columns and batches
_MOST_GROUPS = int(np.iinfo(np.int16).max)
_EXAMPLE = 'temp > 30 and area = "north"'
_PREDICATES = f"predicates, e.g. ['{_EXAMPLE}']"


class Subscriptions(NamedTuple):
    """Many predicates as pieces, over names and texts of their own."""

    pieces: Pieces
    names: pa.Array  # large_string by id
    texts: pa.Array

    @property
    def n_rows(self) -> int:
        """The number of predicates."""
        return self.pieces.n_rows

    @property
    def kind(self) -> str:
        """The kind of the column."""
        return VALUES


def subscription_column(values: Any, max_filters: int, max_tests: int) -> Subscriptions:
    """Predicates as pieces, from any form that users may give."""
    if isinstance(values, Iterator):
        values = list(values)
    if not isinstance(values, list | tuple):
        values = _as_rows(values)
    if isinstance(values, pa.Array):
        column = Subscriptions(*from_lists(values))
        n_filters = np.diff(column.pieces.row_start)
        if n_filters.max(initial=0) > max_filters:
            row = int(n_filters.argmax())
            raise ParseError.of(
                "row {row} has {found}, more than max_filters={limit}",
                row=row,
                limit=max_filters,
                found=f"{n_filters[row]} filters",
                expected=f"at most {max_filters} filters",
                example=_EXAMPLE,
            )
        return column
    return _from_python(values, max_filters, max_tests)


def _as_rows(values: Any) -> Any:
    """A column as a list, or as Arrow where its rows are lists of constraints."""
    refuse_single(values, "predicates", _PREDICATES, _EXAMPLE)
    values = as_arrow(values)
    if isinstance(values, pa.Array):
        if pa.types.is_struct(values.type) and any(
            field.name == "op" and is_text(field.type) for field in values.type
        ):
            raise ParseError.of(
                "{found}; expected {expected}",
                found="rows of one constraint",
                expected="a list of constraints per row",
                example=_EXAMPLE,
            )
        return values if is_list(values.type) else values.to_pylist()
    if not isinstance(values, Iterable):
        raise _not_a_column(values)
    try:
        return list(values)
    except TypeError:  # an array without dimensions
        raise _not_a_column(values) from None


def _not_a_column(values: Any) -> ParseError:
    message = "not a column of predicates, but {found}; expected {expected}"
    return ParseError.of(message, found=shorten(values), expected=_PREDICATES, example=_EXAMPLE)


def checked(predicate: Predicate) -> Predicate:
    """The predicate, unless one of its filters has more negated groups than can be numbered."""
    most = max((len(one.fails) for one in predicate.filters), default=0)
    if most > _MOST_GROUPS:
        raise ParseError.of(
            "{found} in a filter; the limit is {limit}",
            limit=_MOST_GROUPS,
            found=f"{most} negated groups",
            expected=f"at most {_MOST_GROUPS} negated groups",
            example=_EXAMPLE,
        )
    return predicate


def _from_python(values: Sequence[Any], max_filters: int, max_tests: int) -> Subscriptions:
    writer = Writer()
    for row, value in enumerate(values):
        if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
            raise ParseError.of(
                "row {row} is a list of objects: {found}; expected {expected}; lists of "
                "constraints are taken as an Arrow column, pyarrow.array(rows)",
                row=row,
                found=shorten(value),
                expected="predicates",
                example=_EXAMPLE,
            )
        try:
            is_kept = type(value) is Kept and len(value.filters) <= max_filters
            writer.add(checked(value if is_kept else parse(value, max_filters, max_tests)))
        except ParseError as error:
            raise error.saying(f"row {row}: {error}") from None
    return writer.subscriptions()


_Piece: TypeAlias = tuple[int, int, int, int, int]  # name, kind, forms, low and high


class Writer:
    """Collects predicates one by one, and makes arrays of all at once."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.texts: dict[str, int] = {}
        # Machine words: lists of Python's integers would take five times the memory.
        self._pieces = array("i"), array("B"), array("B"), array("q"), array("q")  # see `_Piece`
        self._groups = array("h")
        self._piece_ends, self._filter_ends, self._row_ends = (array("q", [0]) for _ in range(3))

    def add(self, predicate: Predicate) -> None:
        """Add a row; a constraint object in many of its filters is written once."""
        names, kinds, forms, lows, highs = self._pieces
        groups, piece_ends = self._groups, self._piece_ends
        known: dict[int, Sequence[_Piece]] = {}
        for holds, fails in predicate.filters:
            for group, constraints in enumerate((holds, *fails)):
                for constraint in constraints:
                    written = known.get(id(constraint))
                    if written is None:
                        written = known[id(constraint)] = self._written(constraint)
                    for name, kind, form, low, high in written:
                        names.append(name)
                        kinds.append(kind)
                        forms.append(form)
                        lows.append(low)
                        highs.append(high)
                    groups.append(group)
                    piece_ends.append(len(names))
            self._filter_ends.append(len(groups))
        self._row_ends.append(len(self._filter_ends) - 1)

    def _written(self, constraint: Constraint) -> Sequence[_Piece]:
        name, tests = constraint
        number = self.names.setdefault(name, len(self.names))
        op, value = tests[0]
        if len(tests) == 1 and op in COMPARISONS:  # as `write` does it, without lists
            kind, form, word = constant(value, self._text_id)
            times, plus = COMPARISONS[op]
            return [(number, kind, form * times + plus, word, word)]
        return [(number, *piece) for piece in write_constraint(tests, self._text_id)]

    def _text_id(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def pieces(self) -> Pieces:
        """All rows as arrays, over the ids of `names` and `texts`."""
        ends = self._row_ends, self._filter_ends, self._piece_ends
        return Pieces(*map(copied, (*ends, self._groups, *self._pieces)))

    def subscriptions(self) -> Subscriptions:
        """All rows as a column."""
        names, texts = (
            pa.array(list(some), pa.large_string()) for some in (self.names, self.texts)
        )
        return Subscriptions(self.pieces(), names, texts)


class _Staged(NamedTuple):
    """The rows that one call staged, and totals up to them."""

    pieces: Pieces
    keys: NDArray[np.int64]
    n_rows: int
    n_constraints: int


class Staging:
    """Subscriptions that wait to be compiled, over names and texts in order of appearance."""

    def __init__(self) -> None:
        self._names, self._texts = Interner(), Interner()
        self._staged: list[_Staged] = []

    @property
    def n_rows(self) -> int:
        """The number of subscriptions."""
        return self._staged[-1].n_rows if self._staged else 0

    @property
    def n_parts(self) -> int:
        """The number of their constraints."""
        return self._staged[-1].n_constraints if self._staged else 0

    @property
    def n_names(self) -> int:
        """The number of distinct attribute names."""
        return self._names.n_names

    def add(self, column: Subscriptions, keys: NDArray[np.int64]) -> None:
        """Stage every row of a column, or none of them."""
        names = self._names.intern_arrow(column.names)
        texts = self._texts.intern_arrow(column.texts)
        self._append(renumber(column.pieces, names, texts), keys)

    def _append(self, pieces: Pieces, keys: NDArray[np.int64]) -> None:
        n_rows = self.n_rows + len(keys)
        n_constraints = self.n_parts + len(pieces.groups)
        self._staged.append(_Staged(pieces, keys, n_rows, n_constraints))

    def put_back(self, filters: Filters, vocabulary: Vocabulary, keys: NDArray[np.int64]) -> None:
        """Stage rows before all others, after a failed build."""
        staged, names, texts = self._staged, self._names.names(), self._texts.names()
        self._names, self._texts = Interner(vocabulary.names), Interner(vocabulary.texts)
        self._staged = []
        self._append(read(filters, vocabulary), keys)
        new_names = self._names.intern(names.text, names.text_start)
        new_texts = self._texts.intern(texts.text, texts.text_start)
        for some in staged:
            self._append(renumber(some.pieces, new_names, new_texts), some.keys)

    def take(self) -> tuple[Filters, Vocabulary, NDArray[np.int64]]:
        """Take all staged rows, coded over a new vocabulary."""
        filters, vocabulary = encode(
            join([some.pieces for some in self._staged]), self._names.names(), self._texts.names()
        )
        keys = [some.keys for some in self._staged]
        self.__init__()  # type: ignore[misc]
        return filters, vocabulary, np.concatenate([np.empty(0, np.int64), *keys])


def merge(parts: Sequence[tuple[Filters, Vocabulary]]) -> tuple[Filters, Vocabulary]:
    """Join filters over several vocabularies into filters over a new one."""
    if len(parts) == 1 and _uses_all(*parts[0]):
        return parts[0]
    names, texts = Interner(), Interner()
    joined = [
        renumber(
            read(filters, vocabulary), _ids(names, vocabulary.names), _ids(texts, vocabulary.texts)
        )
        for filters, vocabulary in parts
    ]
    return encode(join(joined), names.names(), texts.names())


def as_column(filters: Filters, vocabulary: Vocabulary) -> Subscriptions:
    """Encoded filters as a column again."""
    names, texts = (
        some.to_arrow().cast(pa.large_string()) for some in (vocabulary.names, vocabulary.texts)
    )
    return Subscriptions(read(filters, vocabulary), names, texts)


def _uses_all(filters: Filters, vocabulary: Vocabulary) -> bool:
    """True if the vocabulary counts as many pieces as there are: no row was removed."""
    return len(filters.slots) == int(vocabulary.names.counts().sum())


def _ids(interner: Interner, names: Names) -> NDArray[np.int32]:
    return interner.intern(names.text, names.text_start.astype(np.int64))
