"""Convert users' columns to Arrow: the steps that subscriptions, events and keys share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from matchyard.errors import ParseError, UsageError, shorten

_OTHER_LISTS = (pa.FixedSizeListArray, pa.ListViewArray, pa.LargeListViewArray)
_SINGLE = (str, bytes, set, frozenset, dict)  # iterable, but not columns


def refuse_single(values: Any, what: str, expected: str, example: str, *kinds: type[Any]) -> None:
    """Refuse a single value, or a table of several columns, in place of a column.

    >>> refuse_single("jazz live", "tag sets", 'a list, e.g. [{"jazz", "live"}]', "jazz live")
    Traceback (most recent call last):
        ...
    matchyard.errors.ParseError: not a column of tag sets, but one str: 'jazz live'; expected a list, \
e.g. [{"jazz", "live"}]
    """
    if isinstance(values, (*_SINGLE, *kinds)):
        raise ParseError.of(
            "not a column of {what}, but {found}; expected {expected}",
            what=what,
            found=f"one {type(values).__name__}: {shorten(values)}",
            expected=expected,
            example=example,
        )
    if hasattr(values, "columns") or isinstance(values, pa.RecordBatch | pa.Table):
        raise ParseError.of(
            "not a column, but {found}; pass one of them; expected {expected}",
            found="a table of columns",
            expected=expected,
            example=example,
        )


def as_arrow(values: Any) -> Any:
    """Convert a polars column to Arrow, join chunks, and make plain lists of other kinds of lists; return
    other values unchanged."""
    if hasattr(values, "to_arrow"):  # polars
        values = values.to_arrow()
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):  # more than 2 GiB of text
            raise UsageError("the column is too long for 32-bit offsets; pass it in smaller pieces")
    if isinstance(values, _OTHER_LISTS):
        return _plain_lists(values)
    return values


def _plain_lists(values: Any) -> pa.Array:
    """The same lists, with offsets. (A cast of views by pyarrow 26 has one offset too few.)"""
    from pyarrow import compute  # takes 20 ms, and few columns need it

    lengths = compute.list_value_length(values).fill_null(0)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    mask = values.is_null() if values.null_count else None
    return pa.LargeListArray.from_arrays(offsets, values.flatten(), mask=mask)


def decoded(values: pa.Array) -> pa.Array:
    """Decode a dictionary column; return other columns unchanged."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def first_null(values: pa.Array) -> int:
    """The number of the first null row, or -1."""
    if not values.null_count:
        return -1
    return int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
