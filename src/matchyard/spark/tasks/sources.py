"""Readers of subscriptions in tasks: Arrow batches of work ─▶ tables of `subscription` and `key`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from matchyard import shards
from matchyard.errors import StorageError
from matchyard.spark.tasks.parquet_types import (
    is_alike,
    number_of,
    parquet_file,
    schema_of,
    shaped,
)

Batches = Iterator[pa.RecordBatch]
Reader = Callable[[Batches], Iterator[pa.Table]]
_TOGETHER = 1 << 16  # rows that are staged at once…
_BYTES = 1 << 28  # …if they have no more bytes than about that


class Piece(NamedTuple):
    """A Parquet file, or one of its groups of rows."""

    path: str
    group: int | None
    n_bytes: int


def rows_of_frame(batches: Batches) -> Iterator[pa.Table]:
    """The rows themselves, many at a time."""
    waiting: list[pa.RecordBatch] = []
    n_rows = n_bytes = 0
    for batch in batches:
        waiting.append(batch)
        n_rows, n_bytes = n_rows + len(batch), n_bytes + batch.nbytes
        if n_rows >= _TOGETHER or n_bytes >= _BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, n_rows, n_bytes = [], 0, 0
    if n_rows:
        yield pa.Table.from_batches(waiting)


def rows_of_files(
    work: list[list[Piece]],
    wanted: pa.Schema,
    subscription: str,
    key: str,
    string_keys: bool,
    batches: Batches,
) -> Iterator[pa.Table]:
    """The rows of the Parquet files of this task."""
    kind = pa.string() if string_keys else pa.int64()
    for number in _numbers(batches):
        for piece in work[number]:
            for rows in read_piece(piece, wanted, _TOGETHER):
                try:
                    keys = rows.column(key).cast(kind)
                except pa.ArrowInvalid as error:
                    raise StorageError(
                        f"{piece.path} has keys that are no {kind}: {error}"
                    ) from None
                yield pa.table({"subscription": rows.column(subscription), "key": keys})


def read_piece(piece: Piece, wanted: pa.Schema, n_rows: int) -> Batches:
    """Some columns of a Parquet file, so many rows at a time. They are like those of the first file, whose types
    are given, and have the same names."""
    path, group, _ = piece
    with shards.opened(path) as file:
        try:
            source = parquet_file(file)
            schema = schema_of(source)
            names = [_column_of(schema, field, path) for field in wanted]
            groups = None if group is None else [group]
            for rows in source.iter_batches(_fitting(source, n_rows), groups, names):
                columns = [
                    shaped(rows.column(name), field.type)
                    for name, field in zip(names, wanted, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, wanted.names)
        except StorageError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"{path} cannot be read as Parquet: {error}") from None


def _fitting(source: pq.ParquetFile, n_rows: int) -> int:
    """So many rows, or as many as fit into `_BYTES` if they are long."""
    groups = [source.metadata.row_group(n) for n in range(source.metadata.num_row_groups)]
    longest = max((group.total_byte_size / max(1, group.num_rows) for group in groups), default=0)
    return max(1, min(n_rows, int(_BYTES / max(1, longest))))


def _column_of(schema: pa.Schema, first: pa.Field, path: str) -> str:
    """The name of a column in a file, which may have it in other capitals than the first file."""
    number = number_of(schema.names, first.name)
    if number is None:
        raise StorageError(f"{path} has no column {first.name!r}, which the first file has")
    kind = schema.field(number).type
    if not is_alike(kind, first.type):
        raise StorageError(
            f"{path} has column {first.name!r} as {kind}; in the first file it is {first.type}"
        )
    return str(schema.names[number])


def rows_of_shards(path: str, version: str, n_shards: int, batches: Batches) -> Iterator[pa.Table]:
    """The living subscriptions of the shards of this task."""
    for number in _numbers(batches):
        if number < n_shards:
            yield from shards.subscriptions(path, version, number)


def _numbers(batches: Batches) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()
