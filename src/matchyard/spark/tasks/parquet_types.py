"""The types of columns of Parquet files, as Spark reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# Spark reads unsigned integers as the next larger ones, and has no views.
_NEAREST = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.string_view(): pa.string(),
    pa.large_string(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.large_binary(): pa.binary(),
}
_KINDS: list[Callable[[pa.DataType], bool]] = [  # whose values Arrow casts only if they fit
    pa.types.is_integer, pa.types.is_decimal, pa.types.is_date,
]  # fmt: skip


def parquet_file(file: Any) -> pq.ParquetFile:
    """Open a Parquet file. Old timestamps of 96 bits are read in microseconds, since nanoseconds of 64 bits do not
    reach the year 9999."""
    return pq.ParquetFile(file, coerce_int96_timestamp_unit="us")


def schema_of(source: pq.ParquetFile) -> pa.Schema:
    """The columns of a file with the types in which Spark reads them. All may be null, as in Spark."""
    leaves = [source.schema.column(number) for number in range(len(source.schema.names))]
    old = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
    fields = []
    for field in source.schema_arrow:
        is_old = any(path == field.name or path.startswith(f"{field.name}.") for path in old)
        fields.append(pa.field(field.name, _as_in_spark(field.type, is_old)))
    return pa.schema(fields)


def _as_in_spark(kind: pa.DataType, is_old: bool) -> pa.DataType:
    """The type in which Spark reads a column; timestamps of 96 bits are moments, whatever Arrow says."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _as_in_spark(f.type, is_old)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(_as_in_spark(kind.key_type, is_old), _as_in_spark(kind.item_type, is_old))
    if hasattr(kind, "value_field"):  # a list: plain, large, of fixed size, or of views
        return pa.list_(_as_in_spark(kind.value_type, is_old))
    if pa.types.is_dictionary(kind):
        return _as_in_spark(kind.value_type, is_old)
    if is_old and kind == pa.timestamp("us"):
        return pa.timestamp("us", "UTC")
    return _NEAREST.get(kind, kind)


def is_alike(kind: pa.DataType, first: pa.DataType) -> bool:
    """True if values of a type may stand in a column whose type in the first file is another one."""
    if pa.types.is_null(kind) or kind == first:
        return True
    if pa.types.is_struct(first):
        return pa.types.is_struct(kind) and all(
            is_alike(kind.field(number).type, field.type)
            for field in first
            if (number := number_of(kind.names, field.name)) is not None
        )
    if pa.types.is_map(first):
        return (
            pa.types.is_map(kind)
            and is_alike(kind.key_type, first.key_type)
            and is_alike(kind.item_type, first.item_type)
        )
    if pa.types.is_list(first):
        return pa.types.is_list(kind) and is_alike(kind.value_type, first.value_type)
    if pa.types.is_timestamp(first):
        return pa.types.is_timestamp(kind) and (kind.tz is None) == (first.tz is None)
    if pa.types.is_floating(first):  # Arrow would round numbers of more bits
        return bool(pa.types.is_floating(kind) and kind.bit_width <= first.bit_width)
    return any(is_of(kind) and is_of(first) for is_of in _KINDS)


def number_of(names: list[str], name: str) -> int | None:
    """The number of a name, in capitals or not if it is not there as it is; None if there is not one."""
    found = [number for number, one in enumerate(names) if one == name] or [
        number for number, one in enumerate(names) if one.lower() == name.lower()
    ]
    return found[0] if len(found) == 1 else None


def shaped(column: pa.Array, first: pa.DataType) -> pa.Array:
    """A column whose structs have the fields of the first file, in their order; missing ones are null."""
    if not _has_struct(first) or pa.types.is_null(column.type):
        return column
    missing = column.is_null() if column.null_count else None
    if pa.types.is_struct(first):
        fields = [_field(column, field) for field in first]
        return pa.StructArray.from_arrays(fields, first.names, mask=missing)
    if pa.types.is_map(first):
        items = shaped(column.items, first.item_type)
        return pa.MapArray.from_arrays(_offsets(column), column.keys, items)
    lengths = pc.fill_null(pc.list_value_length(column), 0)  # of any kind of lists
    offsets = pa.array(np.r_[0, np.cumsum(lengths)], pa.int32())
    return pa.ListArray.from_arrays(
        offsets, shaped(column.flatten(), first.value_type), mask=missing
    )


def _has_struct(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return _has_struct(kind.item_type)
    return pa.types.is_struct(kind) or (pa.types.is_list(kind) and _has_struct(kind.value_type))


def _field(column: pa.StructArray, field: pa.Field) -> pa.Array:
    number = number_of(column.type.names, field.name)
    if number is None:
        return pa.nulls(len(column), field.type)
    return shaped(pc.struct_field(column, number), field.type)


def _offsets(column: pa.MapArray) -> pa.Array:
    """The offsets of maps; a null one marks a map that is null."""
    if not column.null_count:
        return column.offsets
    is_null = np.append(np.asarray(column.is_null()), False)
    return pa.array(np.asarray(column.offsets), mask=is_null)
