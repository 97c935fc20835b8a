"""Events in any form that users may give, as flat attributes.

Dicts become JSON text, JSON text is scanned, and tables are read column by column. This happens in
`Unread.rows`, in the thread that calls it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.columns import as_arrow, decoded, first_null
from matchyard.engines.predicates.encoder.events.tables import (
    NESTED,
    from_map,
    from_table,
    read_rows,
)
from matchyard.engines.predicates.encoder.json.scanner import NO_OFFSETS, read_json
from matchyard.engines.predicates.encoder.layout import Column
from matchyard.engines.predicates.language.canonical import nearest
from matchyard.errors import JsonError, ParseError, place_after, shorten
from matchyard.kernels.strings import string_buffers

_EXAMPLE = '{"area": "north", "temp": 31.5}'
_OBJECT = f"an object, e.g. {_EXAMPLE}"
_LIST = "a list of objects"
_VALUES = "numbers, text, true, false, null, objects and arrays"
_BYTES = (bytes, bytearray, memoryview)
_LISTS = (list, tuple)
_TIMES = "mM"  # of NumPy, which makes integers of some and objects of others
_NESTED = (dict, list, tuple, np.ndarray)


class Limits(Protocol):
    """The input options that readers of events use."""

    @property
    def max_depth(self) -> int:
        """The largest number of nested objects and arrays."""


class Unread(NamedTuple):
    """Many events, not yet read."""

    n_rows: int
    read: Callable[[int, int], Column]  # events from `start` to before `stop`

    def rows(self, start: int, stop: int) -> Column:
        """Some consecutive events; errors number them from the first of all."""
        try:
            return self.read(start, stop)
        except JsonError as error:
            raise error.counted_from(start) from None


def column(events: Any, options: Limits) -> Unread:
    """Events as dicts, JSON text, Arrow columns or tables."""
    depth = options.max_depth
    held = (
        events[:] if isinstance(events, _LISTS) else _sliceable(events)
    )  # a copy: callers may change theirs
    if isinstance(held, _LISTS):
        return Unread(len(held), lambda start, stop: _from_python(held[start:stop], depth))
    read = _from_rows if isinstance(held, pa.Table) else _from_arrow
    return Unread(len(held), lambda start, stop: read(held.slice(start, stop - start), depth))


def _sliceable(events: Any) -> Any:
    """A list, or a table, an array or chunks of Arrow."""
    if isinstance(events, (str, dict, *_BYTES)):
        return [events]
    if isinstance(events, Iterator):
        return list(events)
    if hasattr(events, "columns") or isinstance(events, pa.RecordBatch | pa.Table):
        return _as_table(events)
    if hasattr(events, "to_arrow"):  # polars
        events = events.to_arrow()
    if isinstance(events, pa.Array | pa.ChunkedArray):
        return events  # chunks are joined slice by slice
    if hasattr(events, "tolist"):  # NumPy and pandas; Arrow would make floats of mixed numbers
        values = events.tolist()
        if isinstance(values, list):  # an array without dimensions has none
            return values
    message = "not a column of events, but {found}; expected {expected}"
    raise ParseError.of(message, found=_shown(events), expected=_LIST, example=_EXAMPLE)


def _refused(row: int, message: str, found: str, expected: str = _OBJECT, **said: Any) -> JsonError:
    return JsonError.of(
        message, event=row, found=found, expected=expected, example=_EXAMPLE, **said
    )


def _not_a_table(found: str) -> ParseError:
    message = "not a table of events: {found}"
    return ParseError.of(message, found=found, expected=_LIST, example=_EXAMPLE)


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {shorten(value)}"


def _plain(value: Any) -> Any:
    """Scalars and arrays of NumPy as Python values, which `json` can write."""
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind not in _TIMES:
        plain = value.tolist()
        if not isinstance(plain, np.generic) and not isinstance(plain, bytes):
            return plain
    raise TypeError(_shown(value))


_JSON = json.JSONEncoder(ensure_ascii=False, check_circular=False, default=_plain)


def _from_python(events: Sequence[Any], depth: int) -> Column:
    kinds = set(map(type, events))
    if kinds <= {dict}:
        return _from_dicts(events, depth)
    if kinds <= {bytes}:
        return _from_parts(events, depth)
    try:
        return _from_parts([_as_bytes(event, row) for row, event in enumerate(events)], depth)
    except JsonError as error:
        raise _without_place(error) if isinstance(events[error.event], dict) else error from None


def _without_place(error: JsonError) -> JsonError:
    """The error of an event that was no text: users have not seen the JSON of it."""
    error.line = error.column = None
    return error


def one_text(event: Any) -> bytes | None:
    """The JSON text of one event; None if it takes more to read the event, or if it is bad."""
    kind = type(event)
    try:
        if kind is dict:
            text: str = _JSON.encode(event)
            if text.count("{") > 1 or set(map(type, event)) - {str}:
                _check_names(event, 0)
            return text.encode()
        if kind is str:
            return str.encode(event)
    except Exception:  # classes of users may fail in any way; a batch says what is wrong
        return None
    return event if kind is bytes else None


def _from_dicts(events: Sequence[dict[Any, Any]], depth: int) -> Column:
    try:
        return _from_written(events, depth)
    except JsonError as error:
        raise _without_place(error) from None


def _from_written(events: Sequence[dict[Any, Any]], depth: int) -> Column:
    """Write all events as one text; if that fails, one by one, for the number of the wrong event."""
    try:
        data = _JSON.encode(events)
        has_names = set(map(type, chain.from_iterable(events))) <= {str}
        if not has_names or data.count("{") > len(events):
            for row, event in enumerate(events):
                _check_names(event, row)
        text = np.frombuffer(data.encode(), np.uint8)
    except ParseError:
        raise
    except Exception:  # classes of users may fail in any way
        return _from_parts([_as_bytes(event, row) for row, event in enumerate(events)], depth)
    return read_json(text, NO_OFFSETS, len(events), depth)


def _check_names(value: Any, row: int) -> None:
    """Refuse names that are not text: JSON would write 1 and None as "1" and "null"."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if not isinstance(name, str):
                raise _refused(row, "has a name that is no text: {found}", _shown(name), "text")
            if isinstance(inner, _NESTED):
                _check_names(inner, row)
    elif isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            _check_names([value.tolist()], row)  # without dimensions it is what it holds
    else:
        for inner in value:
            if isinstance(inner, _NESTED):
                _check_names(inner, row)


def _as_bytes(event: Any, row: int) -> bytes:
    try:
        if isinstance(event, dict):
            _check_names(event, row)
            return _encoded(event).encode()
        if isinstance(event, str):
            return str.encode(event)
    except UnicodeEncodeError as error:
        near = error.object[max(0, error.start - 20) : error.end + 20]
        line, column = place_after(event[: error.start]) if isinstance(event, str) else (None, None)
        message = "has text that is not Unicode: {found}"
        raise _refused(row, message, repr(near), "Unicode", line=line, column=column) from None
    except RecursionError:
        raise _refused(row, "is {found}", "nested too deep, or within itself") from None
    except TypeError as error:
        message = "has a value that is not JSON: {found}; expected {expected}"
        raise _refused(row, message, str(error), _VALUES) from None
    except ParseError:
        raise
    except Exception as error:
        raise _refused(row, "cannot be written as JSON: {found}", str(error)) from error
    if isinstance(event, _BYTES):
        return bytes(event)
    raise _refused(row, "is no object: {found}; expected {expected}", _shown(event))


def _encoded(event: dict[Any, Any]) -> str:
    try:
        return _JSON.encode(event)
    except ValueError:  # Python writes no more than thousands of digits
        return _JSON.encode(_with_doubles(event))


def _with_doubles(value: Any) -> Any:
    """The same with the nearest doubles for integers beyond 64 bits."""
    if isinstance(value, dict):
        return {name: _with_doubles(inner) for name, inner in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return _with_doubles(value.tolist())
    return [_with_doubles(one) for one in value] if isinstance(value, _LISTS) else nearest(value)


def _from_parts(parts: Sequence[bytes], depth: int) -> Column:
    start = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=start[1:])
    return read_json(np.frombuffer(b"".join(parts), np.uint8), start, len(parts), depth)


def _as_table(events: Any) -> pa.Table:
    if isinstance(events, pa.RecordBatch):
        return pa.Table.from_batches([events])
    if isinstance(events, pa.Table):
        return events
    try:
        if hasattr(events, "to_arrow"):
            return events.to_arrow()
        return _from_pandas(events)
    except RecursionError:
        raise _not_a_table("a value nested too deep, or in itself") from None
    except Exception as error:  # of pandas, of Arrow, or of a class of users
        reasons = "; ".join(map(str, error.args))  # of pandas: what, and in which column
        raise _not_a_table(reasons) from None


def _from_pandas(events: Any) -> pa.Table:
    """Arrow does not survive objects within themselves, and has no integers beyond 64 bits."""
    mixed = [number for number, kind in enumerate(events.dtypes) if str(kind) == "object"]
    for number in mixed:
        for value in events.iloc[:, number]:
            if isinstance(value, _NESTED):
                _with_doubles(value)  # a RecursionError, where it is nested too deep
    try:
        return pa.Table.from_pandas(events, preserve_index=False)
    except OverflowError:
        doubled = events.copy(deep=False)
        for number in mixed:
            doubled.isetitem(number, events.iloc[:, number].map(_with_doubles))
        return pa.Table.from_pandas(doubled, preserve_index=False)


def _from_rows(table: pa.Table, depth: int) -> Column:
    arrays = [one.combine_chunks() for one in table.columns]
    column = from_table(table.column_names, arrays, table.num_rows)
    return column if column is not NESTED else _from_dicts(read_rows(table), depth)


def _from_arrow(events: pa.Array | pa.ChunkedArray, depth: int) -> Column:
    events = decoded(as_arrow(events))
    kind = events.type
    row = first_null(events)
    if row >= 0:
        raise _refused(row, "is {found}; expected {expected}", "null")
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        column = from_table(names, events.flatten(), len(events))
        return column if column is not NESTED else _from_dicts(read_rows(events), depth)
    if pa.types.is_map(kind):
        column = from_map(events)
        return column if column is not NESTED else _from_dicts(read_rows(events), depth)
    if pa.types.is_null(kind) and len(events) == 0:
        return _from_python([], depth)
    text, start = _json_buffers(events)
    return read_json(text, start, len(events), depth)


def _json_buffers(events: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    kind = events.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        events = events.cast(pa.large_binary())
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        events = events.cast(pa.binary())
    elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        events = events.cast(pa.large_binary())
    else:
        message = "not a column of events: its type is {found}; expected {expected}"
        raise ParseError.of(message, found=str(kind), expected=_OBJECT, example=_EXAMPLE)
    start, text = string_buffers(events)
    # Only the slice's own text: where it has escapes, all of it is copied.
    return text[start[0] : start[-1]], start - start[0]
