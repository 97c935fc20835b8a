"""Turn documents of any form into a column of bytes, and a column into a batch."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.columns import as_arrow, decoded, first_null, refuse_single
from matchyard.engines.twigs.encoder.events import expat_fallback
from matchyard.engines.twigs.encoder.events.value_tests import Values
from matchyard.engines.twigs.encoder.layout import Batch, Vocabulary
from matchyard.engines.twigs.encoder.scanner.one_document import MOST_BYTES
from matchyard.engines.twigs.encoder.scanner.scanner import ALL_SIGNALS, ASK, Scanned, joined, scan
from matchyard.engines.twigs.language.options import REFUSE, SCAN, Options
from matchyard.engines.twigs.xml.expat import EXAMPLE, Text, as_bytes
from matchyard.errors import ParseError, XmlError
from matchyard.kernels.strings import string_buffers

_XML = f'XML as text or bytes, e.g. "{EXAMPLE}"'
_BYTES = (bytes, bytearray, memoryview)


class Column(NamedTuple):
    """Documents one after the other, and the options to read them by."""

    document_start: NDArray[np.int64]  # [n_rows + 1]
    text: NDArray[np.uint8]
    is_text: NDArray[np.bool_]  # [n_rows] it is UTF-8, whatever encoding it declares
    options: Options

    @property
    def n_rows(self) -> int:
        """How many documents there are."""
        return len(self.document_start) - 1

    def rows(self, start: int, stop: int) -> Column:
        """Consecutive documents that share the text of this column."""
        return self._replace(
            document_start=self.document_start[start : stop + 1], is_text=self.is_text[start:stop]
        )

    def document(self, row: int) -> bytes:
        """One document. Its text may be invalid UTF-8, since Arrow does not check."""
        data = self.text[self.document_start[row] : self.document_start[row + 1]].tobytes()
        return Text(data) if self.is_text[row] else data


def column(values: Any, options: Options) -> Column:
    """A column of documents from text or bytes, in lists or columns."""
    if isinstance(values, (str, *_BYTES)):
        return _from_python([values], options)
    if isinstance(values, Iterator):
        values = list(values)
    if isinstance(values, list | tuple):
        return _from_python(values, options)
    refuse_single(values, "documents", _XML, EXAMPLE)
    values = as_arrow(values)
    if isinstance(values, pa.Array):
        return _from_arrow(values, options)
    if hasattr(values, "tolist"):  # NumPy and pandas
        return _from_python(values.tolist(), options)
    raise _refused("not a column of documents, but {found}", type(values).__name__)


def _refused(message: str, found: str, **said: Any) -> ParseError:
    """The error with this message, and what was expected instead."""
    whole = f"{message}; expected {{expected}}"
    return ParseError.of(whole, found=found, expected=_XML, example=EXAMPLE, **said)


def _from_python(values: Sequence[Any], options: Options) -> Column:
    parts = [_as_bytes(value, row) for row, value in enumerate(values)]
    text, _, end = joined(parts)
    is_text = np.fromiter((isinstance(value, str) for value in values), np.bool_, len(values))
    return Column(np.concatenate([np.zeros(1, np.int64), end]), text, is_text, options)


def _as_bytes(value: Any, row: int) -> bytes:
    if isinstance(value, str):
        return as_bytes(value)
    if isinstance(value, _BYTES):
        return bytes(value)
    raise _refused("document {row} is {found}", type(value).__name__, row=row)


def _from_arrow(values: pa.Array, options: Options) -> Column:
    values = decoded(values)
    kind, row = values.type, first_null(values)
    if row >= 0:
        raise _refused("document {row} is {found}", "null", row=row)
    if pa.types.is_null(kind) and len(values) == 0:
        return _from_python([], options)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if pa.types.is_string_view(kind):
        values, is_text = values.cast(pa.large_string()), True
    elif pa.types.is_fixed_size_binary(kind) or kind == pa.binary_view():
        values = values.cast(pa.large_binary())
    elif not (is_text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise _refused("not a column of documents: its type is {found}", str(kind))
    start, text = string_buffers(values)
    return Column(start, text, np.full(len(values), is_text), options)


class Reader:
    """Reads documents one at a time."""

    def __init__(self, options: Options) -> None:
        self._most = min(MOST_BYTES, options.max_document_bytes) if options.parser == SCAN else -1

    def read(self, document: Any) -> bytes | None:
        """The bytes of a document; None if it has to be matched as a batch."""
        kind = type(document)
        if kind is str:
            document = document.encode(errors="surrogatepass")  # expat refuses half characters
        elif kind is not bytes:
            return None
        return document if len(document) <= self._most else None


def encode(column: Column, vocabulary: Vocabulary, most_signals: int = ALL_SIGNALS) -> Batch:
    """Documents as a batch, at least one and up to the document that reaches `most_signals`. Raises
    the error of the first document that is malformed or exceeds a limit, unless options skip it."""
    batch, faults = read(column, vocabulary, most_signals)
    if faults and column.options.malformed == REFUSE:
        raise faults[min(faults)]
    return batch


def read(
    column: Column, vocabulary: Vocabulary, most_signals: int = ALL_SIGNALS
) -> tuple[Batch, dict[int, XmlError]]:
    """Documents as a batch, and the errors of malformed documents, which have no signals."""
    scanned = _scanned(column, vocabulary, most_signals)
    rows = np.flatnonzero(scanned.depth < 0).tolist()
    faults: dict[int, XmlError] = {}
    if rows:
        lists: list[array[int]] = []
        depths, n_signals, values = [], 0, Values(vocabulary)
        for row in rows:
            if row and n_signals + scanned.signal_start[row] >= most_signals:
                scanned = scanned.first(row)
                break
            try:
                signals, depth = expat_fallback.encode(column.document(row), values, column.options)
            except XmlError as error:
                faults[row] = error.counted_from(row)
                signals, depth = array("i"), 0
            lists.append(signals)
            depths.append(depth)
            n_signals += len(signals)
        done = np.array(rows[: len(lists)], np.int64)
        scanned = scanned.put(done, _of_lists(lists, depths))
    return Batch(scanned.signal_start, scanned.signals, scanned.depth.astype(np.int32)), faults


def _scanned(column: Column, vocabulary: Vocabulary, most_signals: int) -> Scanned:
    start, end = column.document_start[:-1], column.document_start[1:]
    if column.options.parser == SCAN:
        return scan(column.text, start, end, vocabulary, column.options, most_signals)
    n_rows = column.n_rows
    none = np.empty(0, np.int32)
    return Scanned(np.zeros(n_rows + 1, np.int64), none, np.full(n_rows, ASK, np.int64))


def _of_lists(lists: list[array[int]], depths: list[int]) -> Scanned:
    signal_start = np.concatenate([[0], np.cumsum([len(signals) for signals in lists])])
    signals = np.concatenate([np.empty(0, np.int32), *(np.array(one, np.int32) for one in lists)])
    return Scanned(signal_start.astype(np.int64), signals, np.array(depths, np.int64))
