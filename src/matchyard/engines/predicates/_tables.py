"""Tables of events, taken over column by column: no value passes through Python.

A null is an absent attribute; fields of structs get dotted names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from matchyard.engines.predicates._attributes import FALSE, NUMBER, TEXT, Column
from matchyard.engines.predicates._decimals import split_integers
from matchyard.errors import ParseError
from matchyard.kernels.names import Interner, string_buffers

NESTED = None  # lists within it: such events go through Python


class _Values(NamedTuple):
    types: NDArray[np.uint8]
    values: NDArray[np.int64]
    sizes: NDArray[np.int32]
    is_there: NDArray[np.bool_]
    text: NDArray[np.uint8]  # `values` of texts count from its start


def from_table(names: Sequence[str], arrays: Sequence[pa.Array], n_rows: int) -> Column | None:
    """The events of a table's rows, or NESTED."""
    fields = list(_fields(names, arrays))
    if any(_is_nested(array.type) for _, array in fields):
        return NESTED
    found = [_values(array, f"column {name!r}") for name, array in fields]
    n = len(found)
    text, values = _joined(found)
    is_there = _side_by_side([one.is_there for one in found], n_rows, np.bool_)
    order = np.tile(np.arange(n, dtype=np.int32), n_rows)
    row_start = np.zeros(n_rows + 1, np.int64)
    kept = slice(None) if is_there.all() else is_there.ravel()
    np.cumsum(is_there.sum(axis=1), out=row_start[1:])
    return _column(
        row_start,
        order[kept],
        _side_by_side([one.types for one in found], n_rows, np.uint8).ravel()[kept],
        _side_by_side(values, n_rows, np.int64).ravel()[kept],
        _side_by_side([one.sizes for one in found], n_rows, np.int32).ravel()[kept],
        [name for name, _ in fields],
        text,
    )


def from_map(events: pa.Array) -> Column | None:
    """The events of a column of maps from names to values, or NESTED."""
    named = events.type.key_type
    if not (pa.types.is_string(named) or pa.types.is_large_string(named)):
        raise ParseError(f"not a column of events: its names are {named}; expected text")
    if _is_nested(events.type.item_type) or pa.types.is_struct(events.type.item_type):
        return NESTED
    offsets = np.asarray(events.offsets).astype(np.int64)
    keys = events.keys.slice(offsets[0], offsets[-1] - offsets[0])
    found = _values(events.items.slice(offsets[0], len(keys)), "the map")
    interner = Interner()
    names = interner.intern_arrow(keys)
    rows = np.repeat(np.arange(len(events)), np.diff(offsets))
    pairs = np.sort(rows << 32 | names)
    if np.any(pairs[1:] == pairs[:-1]):
        row = int(pairs[np.flatnonzero(pairs[1:] == pairs[:-1])[0]] >> 32)
        raise ParseError(f"event {row} has a name twice")
    n_before = np.zeros(len(keys) + 1, np.int64)
    np.cumsum(found.is_there, out=n_before[1:])
    kept = found.is_there
    known = interner.names()
    return _column(
        n_before[offsets - offsets[0]],
        names[kept],
        found.types[kept],
        found.values[kept],
        found.sizes[kept],
        [known.name(i) for i in range(known.n_names)],
        found.text,
    )


def read_rows(rows: pa.Table | pa.Array) -> list[dict[str, Any]]:
    """The rows as dicts, for what is nested."""
    try:
        return [_without_nulls(row) for row in rows.to_pylist(maps_as_pydicts="strict")]
    except (KeyError, pa.ArrowException) as error:
        raise ParseError(f"not a column of events: {error}") from None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value if one is not None]
    return value


def _is_nested(kind: pa.DataType) -> bool:
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind)
    return bool(is_list or pa.types.is_fixed_size_list(kind) or pa.types.is_list_view(kind))


def _fields(names: Sequence[str], arrays: Sequence[pa.Array]) -> Any:
    for name, array in zip(names, arrays):
        if pa.types.is_struct(array.type):
            inner = [f"{name}.{field.name}" for field in array.type]
            yield from _fields(inner, array.flatten())  # a null struct has null fields
        else:
            yield name, array


def _values(array: pa.Array, what: str) -> _Values:
    kind, n = array.type, len(array)
    is_there = np.ones(n, np.bool_)
    if array.null_count:
        is_there = array.is_valid().to_numpy(zero_copy_only=False)
    sizes, text = np.zeros(n, np.int32), np.empty(0, np.uint8)
    types = np.full(n, NUMBER, np.uint8)
    if pa.types.is_null(kind):
        values = np.zeros(n, np.int64)
    elif pa.types.is_boolean(kind):
        values = np.zeros(n, np.int64)
        types = pc.fill_null(array, False).cast(pa.uint8()).to_numpy() + np.uint8(FALSE)
    elif pa.types.is_floating(kind):
        numbers = pc.fill_null(array, 0).to_numpy().astype(np.float64)
        values = numbers.view(np.int64)
    elif pa.types.is_integer(kind):
        wide = np.uint64 if kind == pa.uint64() else np.int64
        values, sizes = split_integers(pc.fill_null(array, 0).to_numpy().astype(wide))
    else:
        starts, lengths, text = _texts(array, what)
        values, sizes = starts, lengths.astype(np.int32)
        types[:] = TEXT
    return _Values(types, values, sizes, is_there, text)


def _texts(
    array: pa.Array, what: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    if pa.types.is_dictionary(array.type):
        starts, lengths, text = _texts(array.dictionary, what)
        indices = pc.fill_null(array.indices, 0).to_numpy()
        if len(starts) == 0:  # nothing but nulls
            return np.zeros(len(array), np.int64), np.zeros(len(array), np.int64), text
        return starts[indices], lengths[indices], text
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        raise ParseError(f"{what} is of type {array.type}; expected numbers, text, true or false")
    start, text = string_buffers(array)
    return start[:-1] - start[0], np.diff(start), text[start[0] : start[-1]]


def _joined(found: Sequence[_Values]) -> tuple[NDArray[np.uint8], list[NDArray[np.int64]]]:
    """All texts in one, and the values that now count from its start."""
    starts = np.zeros(len(found) + 1, np.int64)
    np.cumsum([len(one.text) for one in found], out=starts[1:])
    text = np.concatenate([one.text for one in found]) if found else np.empty(0, np.uint8)
    values = [
        one.values + start if len(one.text) else one.values
        for one, start in zip(found, starts.tolist())
    ]
    return text, values


def _side_by_side(columns: Sequence[NDArray[Any]], n_rows: int, kind: Any) -> NDArray[Any]:
    joined = np.empty((n_rows, len(columns)), kind)
    for i, one in enumerate(columns):
        joined[:, i] = one
    return joined


def _column(
    row_start: NDArray[np.int64],
    order: NDArray[np.int32],
    types: NDArray[np.uint8],
    values: NDArray[np.int64],
    sizes: NDArray[np.int32],
    names: Sequence[str],
    text: NDArray[np.uint8],
) -> Column:
    written = [name.encode() for name in names]
    name_start = np.zeros(len(names) + 1, np.int64)
    np.cumsum([len(one) for one in written], out=name_start[1:])
    text = text.view()
    text.flags.writeable = False
    return Column(
        row_start,
        order,
        types,
        values,
        sizes,
        np.zeros(len(order), np.int32),
        name_start,
        np.frombuffer(b"".join(written), np.uint8).copy(),
        text,
        np.zeros(1, np.int32),
        np.zeros(1, np.int32),
    )
