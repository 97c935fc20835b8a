"""Turn the tag sets of users into one form: a column of text.

Users give lists, NumPy, Arrow, pandas or polars columns; a row is a set of tags or a text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from matchyard.columns import as_arrow, first_null, refuse_single
from matchyard.engines.tags.language import EXAMPLE, parse, parse_event
from matchyard.errors import ParseError, UsageError
from matchyard.kernels.strings import string_buffers

_TAGS = 'tags, e.g. ["jazz", "live"]'
_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
_NO_SIGNATURES = np.zeros((1 << 40, 0), np.uint64)  # takes no memory
PLAIN = (set, frozenset, list, tuple)  # types of tag sets that need no conversion
VALUES = "tag sets"  # the kind of columns and batches that hold tags
Parse: TypeAlias = Callable[[Any], frozenset[str]]  # of one value, which is a text or a set


class Options(NamedTuple):
    """The input options of tags, the same for every algorithm."""

    casefold: bool = False  # compare without regard to case
    normalize: str = ""  # Unicode normal form: NFC, NFD, NFKC or NFKD; "" leaves tags as they are
    max_tags: int = 4096  # the most tags in one subscription or event


class Column(NamedTuple):
    """Many tag sets as text, or bare signatures without tags."""

    row_start: NDArray[np.int64]  # [n_rows + 1] tags of each row
    text_start: NDArray[np.signedinteger]  # [n_tags + 1] bytes of each tag, in Arrow's width
    text: NDArray[np.uint8]  # UTF-8
    signatures: NDArray[np.uint64]  # [n_rows, n_words] bare signatures; no words otherwise

    @property
    def n_rows(self) -> int:
        """The number of sets."""
        return len(self.row_start) - 1

    @property
    def kind(self) -> str:
        """Tag sets, or bare signatures of some width; one index holds one kind."""
        return kind_of(self.signatures)

    def rows(self, start: int, stop: int) -> Column:
        """Some consecutive rows with the offsets of 64 bits that kernels need; the text is shared.

        Offsets are widened here, not for the whole column: several threads share this work.
        """
        if self.text_start.dtype == np.int64 and stop - start == len(self.row_start) - 1:
            return self
        first, last = self.row_start[start], self.row_start[stop]
        return Column(
            self.row_start[start : stop + 1] - first,
            self.text_start[first : last + 1].astype(np.int64),
            self.text,
            self.signatures[start:stop],
        )


def kind_of(signatures: NDArray[np.uint64]) -> str:
    """The name of a kind of values, for messages."""
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


def column(values: Any, options: Options) -> Column:
    """The column of events in any form that users give."""
    return _column(values, options, parse_event)


def subscription_column(values: Any, options: Options) -> Column:
    """The column of subscriptions in any form that users give; refuses blank text."""
    return _column(values, options, parse)


def _column(values: Any, options: Options, parse: Parse) -> Column:
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.dtype == np.uint64:
        return _bare(values)
    if isinstance(values, Iterator):
        values = list(values)
    if isinstance(values, list | tuple):
        return _from_python(values, options, parse)
    try:
        rows = _as_arrow(values)
    except pa.ArrowException:  # Arrow does not know sets, for example
        return _from_python(list(values), options, parse)
    built = _from_arrow(rows, options, parse)
    lengths = np.diff(built.row_start)
    if len(lengths) and lengths.max() > options.max_tags:
        _refuse_length(int(lengths.argmax()), int(lengths.max()), options)
    return built


def _refuse_length(row: int, n_tags: int, options: Options) -> None:
    raise ParseError.of(
        'row {row} has {found}; the limit is {limit} (option "max_tags")',
        row=row,
        limit=options.max_tags,
        found=f"{n_tags} tags",
        expected=f"at most {options.max_tags} tags",
        example=EXAMPLE,
    )


def _bare(values: NDArray[np.uint64]) -> Column:
    empty = np.zeros(len(values) + 1, np.int64)
    return Column(empty, np.zeros(1, np.int64), np.zeros(0, np.uint8), np.ascontiguousarray(values))


def no_signatures(n_rows: int) -> NDArray[np.uint64]:
    """An array of signatures of 0 words, for rows with tags."""
    return _NO_SIGNATURES[:n_rows]


def _from_python(values: Sequence[Any], options: Options, parse: Parse) -> Column:
    """The column of Python values. Sets and lists are joined without a check; if the join fails,
    each row is parsed to find the wrong one."""
    tags: list[str] = []
    ends = [0]
    for row, value in enumerate(values):
        row_tags = value if type(value) in PLAIN else _parsed(value, row, parse)
        if len(row_tags) > options.max_tags:
            _refuse_length(row, len(row_tags), options)
        tags.extend(row_tags)
        ends.append(len(tags))
    try:
        data = "".join(tags).encode()
    except TypeError:
        for row, value in enumerate(values):
            _parsed(value, row, parse)
        raise
    except UnicodeEncodeError:
        raise _not_unicode(tags) from None
    text_start = _ends(map(len, tags), len(tags))
    if len(data) != text_start[-1]:  # some tag is not plain ASCII
        text_start = _ends((len(tag.encode()) for tag in tags), len(tags))
    built = Column(
        np.array(ends, np.int64),
        text_start,
        np.frombuffer(data, np.uint8),
        no_signatures(len(values)),
    )
    return _normalized(built, options)


def _ends(lengths: Iterable[int], n_texts: int) -> NDArray[np.int64]:
    """The ends of texts of the given lengths, after a 0."""
    ends = np.zeros(n_texts + 1, np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, n_texts), out=ends[1:])
    return ends


def _parsed(value: Any, row: int, parse: Parse) -> frozenset[str]:
    try:
        return parse(value)
    except ParseError as error:
        raise error.saying(f"row {row}: {error}") from None


def _refused(message: str, found: str, **said: Any) -> ParseError:
    """The error with this message, and what was expected instead."""
    return ParseError.of(
        f"{message}; expected {{expected}}", found=found, expected=_TAGS, example=EXAMPLE, **said
    )


def _not_unicode(tags: Iterable[str]) -> ParseError:
    """The error of the first tag with half a character."""
    tag = next(tag for tag in tags if any("\ud800" <= letter <= "\udfff" for letter in tag))
    return _refused("a tag is not valid Unicode: {found}", repr(tag))


def _as_arrow(values: Any) -> pa.Array:
    refuse_single(values, VALUES, 'a list of tag sets, e.g. [{"jazz", "live"}]', EXAMPLE)
    values = as_arrow(values)
    if not isinstance(values, pa.Array):
        try:
            values = as_arrow(pa.array(values, from_pandas=True))
        except pa.ArrowException:
            raise
        except (TypeError, UnicodeEncodeError) as error:
            raise _refused("not a column of tag sets: {found}", str(error)) from None
    return values


def _from_arrow(values: pa.Array, options: Options, parse: Parse) -> Column:
    if pa.types.is_dictionary(values.type):  # categories
        values = values.cast(values.type.value_type)
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        _refuse_nulls(values)
        values = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(values))
        lists = pc.list_value_length(values)
        # Splitting "" gives one empty tag instead of none.
        blank = pc.and_(pc.equal(lists, 1), pc.equal(pc.list_element(values, 0), ""))
        if pc.any(blank).as_py():
            _parsed("", pc.index(blank, True).as_py(), parse)
            values = pc.if_else(blank, pa.scalar([], values.type), values)
    if pa.types.is_null(values.type) and len(values) == 0:
        values = pa.array([], pa.list_(pa.string()))
    if not (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
        raise _refused("not a column of tag sets: its type is {found}", str(values.type))
    _refuse_nulls(values)
    offsets = values.offsets.to_numpy().astype(np.int64)
    words = values.values.slice(offsets[0], offsets[-1] - offsets[0])
    if pa.types.is_null(words.type):
        words = words.cast(pa.string())
    if pa.types.is_dictionary(words.type) or pa.types.is_string_view(words.type):
        words = words.cast(pa.large_string())
    if not (pa.types.is_string(words.type) or pa.types.is_large_string(words.type)):
        raise _refused("not a column of tag sets: its tags are {found}", str(words.type))
    if words.null_count:
        position = pc.index(pc.is_null(words), True).as_py()
        row = int(np.searchsorted(offsets - offsets[0], position, side="right")) - 1
        raise _refused("row {row} has a tag that is {found}", "null", row=row)
    text_start, text = string_buffers(words, widen=False)
    built = Column(offsets - offsets[0], text_start, text, no_signatures(len(values)))
    return _normalized(built, options)


def _refuse_nulls(values: pa.Array) -> None:
    row = first_null(values)
    if row >= 0:
        raise _refused("row {row} is {found}", "null", row=row)


def _normalized(built: Column, options: Options) -> Column:
    """Fold and normalise each distinct tag once."""
    if not (options.casefold or options.normalize):
        return built
    words = pa.LargeStringArray.from_buffers(
        len(built.text_start) - 1,
        pa.py_buffer(built.text_start.astype(np.int64)),
        pa.py_buffer(built.text),
    ).dictionary_encode()
    try:
        names = [_folded(name, options) for name in words.dictionary.to_pylist()]
    except UnicodeDecodeError as error:
        raise _refused("a tag is not valid UTF-8: {found}", repr(error.object)) from None
    text_start, text = string_buffers(pa.array(names, pa.large_string()).take(words.indices))
    return built._replace(text_start=text_start, text=text)


def _folded(tag: str, options: Options) -> str:
    """Fold a tag until it stays the same: normalising can restore capitals (℡ is TEL in NFKC)."""
    while True:
        folded = tag.casefold() if options.casefold else tag
        if options.normalize:
            folded = unicodedata.normalize(options.normalize, folded)  # type: ignore[arg-type]
        if folded == tag:
            return tag
        tag = folded


def fold(tags: frozenset[str], options: Options) -> frozenset[str]:
    """Fold the tags of one parsed set. Refuses every set that `column` would refuse later, together
    with all sets staged beside it."""
    if len(tags) > options.max_tags:
        raise ParseError.of(
            '{found} in one set; the limit is {limit} (option "max_tags")',
            limit=options.max_tags,
            found=f"{len(tags)} tags",
            expected=f"at most {options.max_tags} tags",
            example=EXAMPLE,
        )
    try:
        "".join(tags).encode()
    except UnicodeEncodeError:
        raise _not_unicode(tags) from None
    if not (options.casefold or options.normalize):
        return tags
    return frozenset(_folded(tag, options) for tag in tags)
