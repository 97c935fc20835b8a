"""Tables of events, read column by column: no value becomes a Python object.

A null is an absent attribute; fields of structs get dotted names.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.json.decimals import split_integers
from matchyard.engines.predicates.encoder.layout import (
    FALSE,
    NUMBER,
    TEXT,
    VALUE,
    WHAT,
    WHERE,
    Column,
)
from matchyard.engines.predicates.language.examples import EVENT
from matchyard.errors import JsonError, ParseError
from matchyard.kernels.strings import Interner, string_buffers

NESTED = None  # the table has lists: Python reads such events
_NO_TEXT = np.empty(0, np.uint8)
_ONCE = "each name once"


class _Values(NamedTuple):
    values: NDArray[np.int64]
    what: NDArray[np.int64]  # as in `Column`
    is_there: NDArray[np.bool_] | None  # None if all are
    text: NDArray[np.uint8]  # `values` of texts count from its start


def from_table(names: Sequence[str], arrays: Sequence[pa.Array], n_rows: int) -> Column | None:
    """The events of a table's rows, or NESTED."""
    fields = list(_fields(names, arrays))
    if any(_is_nested(array.type) for _, array in fields):
        return NESTED
    columns = [_values(array, f"column {name!r}") for name, array in fields]
    n = len(columns)
    text, starts = _joined([one.text for one in columns])
    attributes = np.empty((n_rows, n, 3), np.int64)
    for i, (one, start) in enumerate(zip(columns, starts)):
        _put(attributes, i, one.values, start if len(one.text) else 0, one.what)
    row_start, flat = np.arange(n_rows + 1) * n, attributes.reshape(-1, 3)
    if any(one.is_there is not None for one in columns):
        is_there = np.ones((n_rows, n), np.bool_)
        for i, one in enumerate(columns):
            if one.is_there is not None:
                is_there[:, i] = one.is_there
        np.cumsum(is_there.sum(axis=1), out=row_start[1:])
        flat = flat[is_there.ravel()]
    return _column(row_start, flat, [name for name, _ in fields], text)


@njit(nogil=True, cache=True)
def _put(
    attributes: NDArray[np.int64],
    column: int,
    values: NDArray[np.int64],
    start: int,
    what: NDArray[np.int64],
) -> None:
    """Fill in a column in one call without the GIL, since many threads read events."""
    for row in range(len(values)):
        attributes[row, column, VALUE] = values[row] + start
        attributes[row, column, WHERE] = column << 32
        attributes[row, column, WHAT] = what[row]


def from_map(events: pa.Array) -> Column | None:
    """The events of a column of maps from names to values, or NESTED."""
    named = events.type.key_type
    if not (pa.types.is_string(named) or pa.types.is_large_string(named)):
        message = "not a column of events: its names are {found}; expected {expected}"
        raise ParseError.of(message, found=str(named), expected="text", example=EVENT)
    if _is_nested(events.type.item_type) or pa.types.is_struct(events.type.item_type):
        return NESTED
    offsets = np.asarray(events.offsets).astype(np.int64)
    keys = events.keys.slice(offsets[0], offsets[-1] - offsets[0])
    items = _values(events.items.slice(offsets[0], len(keys)), "the map")
    interner = Interner()
    names = interner.intern_arrow(keys)
    rows = np.repeat(np.arange(len(events)), np.diff(offsets))
    pairs = np.sort(rows << 32 | names)
    if np.any(pairs[1:] == pairs[:-1]):
        row = int(pairs[np.flatnonzero(pairs[1:] == pairs[:-1])[0]] >> 32)
        raise JsonError.of(
            "has {found}", event=row, found="a name twice", expected=_ONCE, example=EVENT
        )
    kept = np.ones(len(keys), np.bool_) if items.is_there is None else items.is_there
    n_before = np.zeros(len(keys) + 1, np.int64)
    np.cumsum(kept, out=n_before[1:])
    known = interner.names()
    attributes = np.stack([items.values, names.astype(np.int64) << 32, items.what], axis=1)
    words = [known.name(i) for i in range(known.n_names)]
    return _column(n_before[offsets - offsets[0]], attributes[kept], words, items.text)


def read_rows(rows: pa.Table | pa.Array) -> list[dict[str, Any]]:
    """The rows of a nested table as dicts."""
    try:
        return [_without_nulls(row) for row in rows.to_pylist(maps_as_pydicts="strict")]
    except (KeyError, ValueError, pa.ArrowException) as error:  # as of a name twice in a struct
        message = "not a column of events: {found}"
        raise ParseError.of(message, found=str(error), expected=_ONCE, example=EVENT) from None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value if one is not None]
    return value


def _is_nested(kind: pa.DataType) -> bool:
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind)
    return bool(is_list or pa.types.is_fixed_size_list(kind) or pa.types.is_list_view(kind))


def _is_packed(kind: pa.DataType) -> bool:
    is_view = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    return bool(is_view or pa.types.is_run_end_encoded(kind))


def _fields(names: Sequence[str], arrays: Sequence[pa.Array]) -> Any:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        message = "two columns have the name {found}; expected {expected}"
        raise ParseError.of(message, found=repr(twice), expected=_ONCE, example=EVENT)
    for name, array in zip(names, arrays):
        if pa.types.is_struct(array.type):
            inner = [f"{name}.{field.name}" for field in array.type]
            yield from _fields(inner, array.flatten())  # a null struct has null fields
        else:
            yield name, array


def _values(array: pa.Array, what_it_is: str) -> _Values:
    kind, n = array.type, len(array)
    if pa.types.is_dictionary(kind):
        # Of a dictionary longer than the rows most is not needed; Arrow cannot decode all types.
        if len(array.dictionary) > n and not _is_packed(kind.value_type):
            return _values(array.dictionary_decode(), what_it_is)
        return _looked_up(array.indices, _values(array.dictionary, what_it_is))
    is_there = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    if pa.types.is_integer(kind):
        wide = np.uint64 if kind == pa.uint64() else np.int64
        values, what = _integers(_filled(array, 0).to_numpy().astype(wide, copy=False))
        return _Values(values, what, is_there, _NO_TEXT)
    if pa.types.is_floating(kind):
        values = _filled(array, 0).to_numpy().astype(np.float64, copy=False).view(np.int64)
        return _Values(values, np.full(n, NUMBER, np.int64), is_there, _NO_TEXT)
    if pa.types.is_boolean(kind):
        what = _filled(array, False).cast(pa.int64()).to_numpy() + FALSE
        return _Values(np.zeros(n, np.int64), what, is_there, _NO_TEXT)
    if pa.types.is_null(kind):
        nothing = np.zeros(n, np.int64)
        return _Values(nothing, nothing, np.zeros(n, np.bool_), _NO_TEXT)
    values, lengths, text = _texts(array, what_it_is)
    return _Values(values, lengths << 8 | TEXT, is_there, text)


def _filled(array: pa.Array, value: Any) -> pa.Array:
    return pc.fill_null(array, value) if array.null_count else array


@njit(nogil=True, cache=True)
def _integers(integers: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(values, what) of integers."""
    values, rests = split_integers(integers)
    for i in range(len(rests)):
        rests[i] = rests[i] << 8 | NUMBER
    return values, rests


def _looked_up(indices: pa.Array, known: _Values) -> _Values:
    """Values of a dictionary by index; an index or its value may be null."""
    is_there = indices.is_valid().to_numpy(zero_copy_only=False)
    if not is_there.any():  # there may be nothing to point to
        nothing = np.zeros(len(indices), np.int64)
        return _Values(nothing, nothing, is_there, known.text)
    at = _filled(indices, 0).to_numpy()
    if known.is_there is not None:
        is_there &= known.is_there[at]
    return _Values(known.values[at], known.what[at], is_there, known.text)


def _texts(
    array: pa.Array, what: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        raise ParseError.of(
            "{what} is of type {found}; expected {expected}",
            what=what,
            found=str(array.type),
            expected="numbers, text, true or false",
            example=EVENT,
        )
    start, text = string_buffers(array)
    return start[:-1] - start[0], np.diff(start), text[start[0] : start[-1]]


def _joined(texts: Sequence[NDArray[np.uint8]]) -> tuple[NDArray[np.uint8], list[int]]:
    """All texts in one array, and the start of each."""
    starts = list(accumulate((len(text) for text in texts), initial=0))
    return np.concatenate([np.empty(0, np.uint8), *texts]), starts[:-1]


def _column(
    row_start: NDArray[np.int64],
    attributes: NDArray[np.int64],
    names: Sequence[str],
    text: NDArray[np.uint8],
) -> Column:
    written = [name.encode() for name in names]
    name_start = np.zeros(len(names) + 1, np.int64)
    np.cumsum([len(one) for one in written], out=name_start[1:])
    name_text = np.frombuffer(b"".join(written), np.uint8).copy()
    text = text.view()
    text.flags.writeable = False
    nowhere = np.zeros(1, np.int32)
    return Column(
        row_start,
        attributes,
        name_start,
        np.full(len(names), -1),
        name_text,
        text,
        nowhere,
        nowhere,
    )
