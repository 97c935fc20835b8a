"""From what users have to numbers: columns of tag sets, the vocabulary, and batches.

    values ──column──▶ Column (Arrow text) ──Staging / encode──▶ Batch (ids in a vocabulary)

The vocabulary numbers tags by falling frequency: 0 is the most frequent.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.tags.language import parse
from matchyard.errors import ParseError, UsageError
from matchyard.kernels.bitset import add_name, n_words_for
from matchyard.kernels.csr import ragged
from matchyard.kernels.names import (
    BLOCK,
    Interner,
    Names,
    find_block,
    find_names,
    rank_names,
    string_buffers,
)

Vocabulary = Names
_EXAMPLE = 'expected tags, e.g. ["jazz", "live"]'
_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
VALUES = "tag sets"  # the kind of columns and batches that hold tags


class Options(NamedTuple):
    """How tags are read, the same for every algorithm."""

    casefold: bool = False  # compare without regard to case
    normalize: str = ""  # Unicode normal form: NFC, NFD, NFKC or NFKD; "" leaves tags as they are
    max_tags: int = 4096  # the most tags in one subscription or event


class Column(NamedTuple):
    """Many tag sets as text, or as bare signatures where there are no tags."""

    row_start: NDArray[np.int64]  # [n_rows + 1] tags of each row
    text_start: NDArray[np.int64]  # [n_tags + 1] bytes of each tag
    text: NDArray[np.uint8]  # UTF-8
    signatures: NDArray[np.uint64]  # [n_rows, n_words] bare signatures; no words otherwise

    @property
    def n_rows(self) -> int:
        """How many sets there are."""
        return len(self.row_start) - 1

    @property
    def kind(self) -> str:
        """Tag sets, or bare signatures of some width; one index holds one kind."""
        return _kind(self.signatures)

    def rows(self, start: int, stop: int) -> Column:
        """Some consecutive rows, without copying the text."""
        part, signatures = self.row_start[start : stop + 1], self.signatures[start:stop]
        return self._replace(row_start=part, signatures=signatures)


class Batch(NamedTuple):
    """Encoded subscriptions or events."""

    tag_start: NDArray[np.int64]  # [n_rows + 1] offsets into tags
    tags: NDArray[np.int32]  # ids as the tags came; unknown ones are left out
    signatures: NDArray[np.uint64]  # [n_rows, n_words] Bloom signatures of all tags, if asked for

    @property
    def n_rows(self) -> int:
        """How many sets there are."""
        return len(self.tag_start) - 1

    @property
    def kind(self) -> str:
        """As of a column; of subscriptions only, since encoded events carry both."""
        return _kind(self.signatures)

    def rows(self, start: int, stop: int) -> Batch:
        """Some consecutive rows, without copying the tags."""
        return Batch(self.tag_start[start : stop + 1], self.tags, self.signatures[start:stop])


def _kind(signatures: NDArray[np.uint64]) -> str:
    width = signatures.shape[1]
    return f"bare signatures of {width} words" if width else VALUES


def check(options: Options) -> None:
    """Refuse options that make no sense."""
    if options.normalize and options.normalize not in _FORMS:
        raise UsageError(
            f'option "normalize" is {options.normalize!r}; expected one of: {", ".join(_FORMS)}'
        )
    if options.max_tags < 0:
        raise UsageError(f'option "max_tags" must be at least 0, not {options.max_tags}')


def column(values: Any, options: Options, first: int = 0) -> Column:
    """Tag sets in any form that users have them in; row numbers in errors count from `first`."""
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.dtype == np.uint64:
        return _bare(values)
    if isinstance(values, Iterator):
        values = list(values)
    if isinstance(values, list | tuple):
        return _from_python(values, options, first)
    try:
        rows = _as_arrow(values)
    except pa.ArrowException:  # objects that Arrow does not know, such as sets, one by one
        return _from_python(list(values), options, first)
    built = _from_arrow(rows, options, first)
    lengths = np.diff(built.row_start)
    if len(lengths) and lengths.max() > options.max_tags:
        _refuse_length(first + int(lengths.argmax()), int(lengths.max()), options)
    return built


def _refuse_length(row: int, n_tags: int, options: Options) -> None:
    raise ParseError(
        f'row {row} has {n_tags} tags; the limit is {options.max_tags} (option "max_tags")'
    )


def _bare(values: NDArray[np.uint64]) -> Column:
    empty = np.zeros(len(values) + 1, np.int64)
    return Column(empty, np.zeros(1, np.int64), np.zeros(0, np.uint8), np.ascontiguousarray(values))


def _no_signatures(n_rows: int) -> NDArray[np.uint64]:
    return np.zeros((n_rows, 0), np.uint64)


def _from_python(values: Sequence[Any], options: Options, first: int) -> Column:
    tags: list[str] = []
    ends = [0]
    for row, value in enumerate(values):
        try:
            found = parse(value)
        except ParseError as error:
            raise ParseError(f"row {first + row}: {error}") from None
        if len(found) > options.max_tags:
            _refuse_length(first + row, len(found), options)
        tags.extend(found)
        ends.append(len(tags))
    try:
        data = "".join(tags).encode()
        lengths = [len(tag) for tag in tags]
        if len(data) != sum(lengths):  # some tag is not plain ASCII
            lengths = [len(tag.encode()) for tag in tags]
    except UnicodeEncodeError as error:
        raise ParseError(f"a tag is not valid Unicode: {error.object!r}; {_EXAMPLE}") from None
    built = Column(
        np.array(ends, np.int64),
        np.array(list(accumulate(lengths, initial=0)), np.int64),
        np.frombuffer(data, np.uint8),
        _no_signatures(len(values)),
    )
    return _normalized(built, options)


def _as_arrow(values: Any) -> pa.Array:
    if isinstance(values, str | bytes | set | frozenset | dict):  # their parts are not rows
        raise ParseError(
            f"not a column of tag sets, but one {type(values).__name__}: {str(values)[:80]!r}; "
            'expected a list of them, e.g. [{"jazz", "live"}]'
        )
    if hasattr(values, "to_arrow"):  # polars
        values = values.to_arrow()
    elif not isinstance(values, pa.Array | pa.ChunkedArray):
        try:
            values = pa.array(values, from_pandas=True)
        except pa.ArrowException:
            raise
        except (TypeError, UnicodeEncodeError) as error:
            raise ParseError(f"not a column of tag sets: {error}; {_EXAMPLE}") from None
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ChunkedArray):  # more than 2 GiB of text in 32-bit offsets
        raise UsageError("the column is too long for 32-bit offsets; add it in smaller pieces")
    return values


def _from_arrow(values: pa.Array, options: Options, first: int) -> Column:
    if pa.types.is_dictionary(values.type):  # categories
        values = values.cast(values.type.value_type)
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        _refuse_nulls(values, first)
        values = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(values))
        lists = pc.list_value_length(values)
        # Splitting "" leaves one empty tag where there is none.
        blank = pc.and_(pc.equal(lists, 1), pc.equal(pc.list_element(values, 0), ""))
        if pc.any(blank).as_py():
            values = pc.if_else(blank, pa.scalar([], values.type), values)
    if pa.types.is_null(values.type) and len(values) == 0:
        values = pa.array([], pa.list_(pa.string()))
    if not (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
        raise ParseError(f"not a column of tag sets: its type is {values.type}; {_EXAMPLE}")
    _refuse_nulls(values, first)
    offsets = values.offsets.to_numpy().astype(np.int64)
    words = values.values.slice(offsets[0], offsets[-1] - offsets[0])
    if pa.types.is_null(words.type):
        words = words.cast(pa.string())
    if pa.types.is_dictionary(words.type) or pa.types.is_string_view(words.type):
        words = words.cast(pa.large_string())
    if not (pa.types.is_string(words.type) or pa.types.is_large_string(words.type)):
        raise ParseError(f"not a column of tag sets: its tags are {words.type}; {_EXAMPLE}")
    if words.null_count:
        place = pc.index(pc.is_null(words), True).as_py()
        row = int(np.searchsorted(offsets - offsets[0], place, side="right")) - 1
        raise ParseError(f"row {first + row} has a tag that is null; {_EXAMPLE}")
    text_start, text = string_buffers(words)
    built = Column(offsets - offsets[0], text_start, text, _no_signatures(len(values)))
    return _normalized(built, options)


def _refuse_nulls(values: pa.Array, first: int) -> None:
    if values.null_count:
        row = pc.index(pc.is_null(values), True).as_py()
        raise ParseError(f"row {first + row} is null; {_EXAMPLE}")


def _normalized(built: Column, options: Options) -> Column:
    """Fold and normalise each distinct tag once."""
    if not (options.casefold or options.normalize):
        return built
    words = pa.LargeStringArray.from_buffers(
        len(built.text_start) - 1, pa.py_buffer(built.text_start), pa.py_buffer(built.text)
    ).dictionary_encode()
    names = [_folded(name, options) for name in words.dictionary.to_pylist()]
    text_start, text = string_buffers(pa.array(names, pa.large_string()).take(words.indices))
    return built._replace(text_start=text_start, text=text)


def _folded(tag: str, options: Options) -> str:
    """Folded until it stays the same: normalising can bring back capitals (℡ is TEL in NFKC)."""
    while True:
        folded = tag.casefold() if options.casefold else tag
        if options.normalize:
            folded = unicodedata.normalize(options.normalize, folded)  # type: ignore[arg-type]
        if folded == tag:
            return tag
        tag = folded


def fold(tags: frozenset[str], options: Options) -> frozenset[str]:
    """One parsed set as the options want it; refuses at once what `column` would refuse later,
    when it would take everything that is staged beside it down."""
    if len(tags) > options.max_tags:
        raise ParseError(
            f'{len(tags)} tags in one set; the limit is {options.max_tags} (option "max_tags")'
        )
    try:
        "".join(tags).encode()
    except UnicodeEncodeError as error:
        raise ParseError(f"a tag is not valid Unicode: {error.object!r}; {_EXAMPLE}") from None
    if not (options.casefold or options.normalize):
        return tags
    return frozenset(_folded(tag, options) for tag in tags)


class Staging:
    """Subscriptions that wait to be compiled, as ids in order of appearance."""

    def __init__(self) -> None:
        self._interner = Interner()
        self._starts: list[NDArray[np.int64]] = []
        self._ids: list[NDArray[np.int32]] = []
        self._signatures: list[NDArray[np.uint64]] = []
        self.n_rows = 0
        self.n_tags = 0

    @property
    def n_names(self) -> int:
        """Distinct tags so far."""
        return self._interner.n_names

    def add(self, column: Column) -> None:
        """Stage every row of a column."""
        self._ids.append(self._interner.intern(column.text, column.text_start))
        self._starts.append(column.row_start)
        self._signatures.append(column.signatures)
        self.n_rows += column.n_rows
        self.n_tags += len(self._ids[-1])

    def take(self) -> tuple[Batch, Vocabulary]:
        """All that was staged, leaving nothing; pieces are freed as they are joined."""
        tag_start = np.zeros(self.n_rows + 1, np.int64)
        tags = np.empty(self.n_tags, np.int32)
        row = end = 0
        while self._starts:
            start, ids = self._starts.pop(0), self._ids.pop(0)
            tag_start[row + 1 : row + len(start)] = start[1:] + end
            tags[end : end + len(ids)] = ids
            row, end = row + len(start) - 1, end + len(ids)
        signatures = _join_signatures(self._signatures, self.n_rows, self.n_tags)
        names = self._interner.names()
        self.__init__()  # type: ignore[misc]
        return Batch(tag_start, tags, signatures), names


def _join_signatures(
    pieces: list[NDArray[np.uint64]], n_rows: int, n_tags: int
) -> NDArray[np.uint64]:
    widths = {piece.shape[1] for piece in pieces if len(piece)}
    if not widths or widths == {0}:
        return _no_signatures(n_rows)
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
    vocabulary, rank = rank_names(names, np.bincount(joined.tags, minlength=names.n_names))
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


def accept(column: Column, n_bits: int, n_hashes: int, bare_allowed: bool) -> None:
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
    column: Column, vocabulary: Vocabulary, n_bits: int, n_hashes: int, bare_allowed: bool
) -> Batch:
    """Events as a batch over the vocabulary, with signatures of `n_bits` when that is not 0."""
    if column.signatures.shape[1]:
        accept(column, n_bits, n_hashes, bare_allowed)
        return Batch(column.row_start, np.zeros(0, np.int32), column.signatures)
    batch = Batch(
        np.empty(column.n_rows + 1, np.int64),
        np.empty(int(column.row_start[-1] - column.row_start[0]), np.int32),
        np.zeros((column.n_rows, n_words_for(n_bits)), np.uint64),
    )
    _encode(vocabulary, column, batch, n_bits, n_hashes)
    return batch


def encode_known(column: Column, vocabulary: Vocabulary) -> Batch:
    """Subscriptions as a batch over a vocabulary that must have all of their tags."""
    if column.signatures.shape[1]:
        return Batch(column.row_start, np.zeros(0, np.int32), column.signatures)
    words = pa.LargeStringArray.from_buffers(
        len(column.text_start) - 1, pa.py_buffer(column.text_start), pa.py_buffer(column.text)
    )
    tags = find_names(vocabulary, words)
    if (tags < 0).any():
        missing = words[int(np.argmin(tags))].as_py()
        raise UsageError(f"tag {missing!r} is not in the vocabulary: it was not counted")
    return Batch(column.row_start, tags.astype(np.int32), column.signatures)


def decode(batch: Batch, row: int, vocabulary: Vocabulary) -> frozenset[str]:
    """The tags of one row."""
    return frozenset(
        vocabulary.name(tag) for tag in batch.tags[batch.tag_start[row] : batch.tag_start[row + 1]]
    )


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
