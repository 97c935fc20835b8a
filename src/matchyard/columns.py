"""Columns of users, in any form, on their way to Arrow: the steps that subscriptions, events and keys share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from matchyard.errors import ParseError, UsageError, shorten

_SINGLE = (str, bytes, set, frozenset, dict)  # their parts are no rows


def refuse_single(values: Any, what: str, expected: str, *kinds: type[Any]) -> None:
    """Refuse one value where a column is expected, and a table of several columns.

    >>> refuse_single("jazz live", "tag sets", 'expected a list, e.g. [{"jazz", "live"}]')
    Traceback (most recent call last):
        ...
    matchyard.errors.ParseError: not a column of tag sets, but one str: 'jazz live'; expected a list, \
e.g. [{"jazz", "live"}]
    """
    if isinstance(values, (*_SINGLE, *kinds)):
        raise ParseError(
            f"not a column of {what}, but one {type(values).__name__}: {shorten(values)}; {expected}"
        )
    if hasattr(values, "columns") or isinstance(values, pa.RecordBatch | pa.Table):
        raise ParseError(f"not a column, but a table with several; pass one of them; {expected}")


def as_arrow(values: Any) -> Any:
    """A polars column as Arrow, and chunks as one array; other values as they are."""
    if hasattr(values, "to_arrow"):  # polars
        values = values.to_arrow()
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):  # more than 2 GiB of text
            raise UsageError("the column is too long for 32-bit offsets; pass it in smaller pieces")
    return values


def decoded(values: pa.Array) -> pa.Array:
    """A dictionary column with its values written out; other columns as they are."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def first_null(values: pa.Array) -> int:
    """The first row that is null, or -1."""
    if not values.null_count:
        return -1
    return int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
