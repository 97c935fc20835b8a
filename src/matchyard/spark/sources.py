"""Where the subscriptions of a build come from: a DataFrame, Parquet files, or an index itself."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException, PySparkTypeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from matchyard import shards
from matchyard.errors import StorageError, UsageError
from matchyard.spark.checks import check_subscriptions, key_type, quoted
from matchyard.spark.tasks.parquet_types import number_of, parquet_file, schema_of
from matchyard.spark.tasks.sources import (
    Piece,
    Reader,
    rows_of_files,
    rows_of_frame,
    rows_of_shards,
)

_TASK_BYTES = 1 << 27  # of Parquet files that one task reads, unless a setting says otherwise

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30}

_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"  # in files that Spark wrote
_OTHERWISE = ("interval", "variant")  # types that other programs see as numbers or structs


class Source(NamedTuple):
    """Rows that tasks read once: a DataFrame, and the function that makes subscriptions and keys of it."""

    work: DataFrame  # the rows themselves, or numbers that say what to read
    read: Reader
    string_keys: bool

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self.work.sparkSession


def frame_source(frame: DataFrame, subscription: str, key: str, engine: str) -> Source:
    """The rows of a DataFrame."""
    check_subscriptions(frame, subscription, engine)
    kind = key_type(frame, key)
    rows = frame.select(
        F.col(subscription).alias("subscription"), F.col(key).cast(kind).alias("key")
    )
    return Source(rows, rows_of_frame, isinstance(kind, T.StringType))


def parquet_source(
    paths: Sequence[str], subscription: str, key: str, engine: str, spark: SparkSession
) -> Source:
    """The rows of Parquet files, which tasks read themselves."""
    found = parquet_work(paths, spark)
    subscription = found.column(subscription, "subscriptions")
    key = found.column(key, "keys")
    empty, work = found.empty_frame([subscription, key]), found.pieces
    like = frame_source(empty, quoted(subscription), quoted(key), engine)
    wanted = found.part([subscription, key])
    read = partial(rows_of_files, work, wanted, subscription, key, like.string_keys)
    return Source(spark.range(0, len(work), 1, len(work)), read, like.string_keys)


class ParquetWork(NamedTuple):
    """Parquet files of one schema."""

    pieces: list[list[Piece]]  # what each task reads
    schema: pa.Schema  # of the first file, as Spark reads it
    odd: dict[str, str]  # columns of types that Parquet files do not have by themselves
    is_partitioned: bool  # folders have names such as year=2026, which are columns in Spark
    spark: SparkSession

    def column(self, name: str, what: str) -> str:
        """A column by its name, in capitals or not, as in Spark."""
        is_quoted = name[:1] == name[-1:] == "`" and len(name) > 1
        plain = name[1:-1].replace("``", "`") if is_quoted else name
        number = number_of(self.schema.names, plain) if is_quoted or "." not in plain else None
        if number is None:
            raise UsageError(
                f"no column {plain!r} for the {what}; found: {', '.join(self.schema.names)} (fields of "
                "structs cannot be named here, and names with dots have to be quoted)"
            )
        return str(self.schema.names[number])

    def empty_frame(self, names: Sequence[str]) -> DataFrame:
        """An empty DataFrame with some of the columns."""
        schema = self.part(names)
        for field in schema:
            reason = self.odd.get(field.name)
            if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
                reason = "timestamp of nanoseconds"
            if reason is not None:
                raise UsageError(f"column {field.name!r} is a {reason}: files cannot be read here")
        try:
            return self.spark.createDataFrame([], from_arrow_schema(schema))
        except PySparkTypeError as error:
            raise UsageError(f"such columns cannot be read from files here: {error}") from None

    def part(self, names: Sequence[str]) -> pa.Schema:
        """The schema of some of the columns."""
        return pa.schema([self.schema.field(name) for name in dict.fromkeys(names)])


def parquet_work(paths: Sequence[str], spark: SparkSession) -> ParquetWork:
    """The Parquet files at some paths, dealt out to tasks."""
    by_path = {path: shards.parquet_files(path) for path in paths}
    files = [file for path in paths for file in by_path[path]]
    if not files:
        raise UsageError(f"no Parquet files at {', '.join(paths)}")
    is_partitioned = any(
        "=" in folder
        for path, found in by_path.items()
        for file in found
        for folder in file.path.partition("?")[0][len(path.partition("?")[0]) :].split("/")[:-1]
    )
    with shards.opened(files[0].path) as first:
        try:
            source = parquet_file(first)
            schema = schema_of(source)
        except (OSError, ValueError) as error:
            raise StorageError(f"{files[0].path} cannot be read as Parquet: {error}") from None
    known = json.loads((source.metadata.metadata or {}).get(_SPARK_SCHEMA, b'{"fields": []}'))
    odd = {
        field["name"]: word
        for field in known["fields"]
        for word in _OTHERWISE
        if word in json.dumps(field["type"])
    }
    work = _dealt(files, n_cores(spark), _task_bytes(spark))
    return ParquetWork(work, schema, odd, is_partitioned, spark)


def index_source(path: str, version: str, spark: SparkSession) -> Source:
    """The subscriptions of a version."""
    manifest = shards.manifest_of(path, version)
    n_shards = max(1, sum(manifest["segments"]))
    string_keys = shards.has_string_keys(manifest)
    read = partial(rows_of_shards, path, version, sum(manifest["segments"]))
    return Source(spark.range(0, n_shards, 1, n_shards), read, string_keys)


def n_cores(spark: SparkSession) -> int:
    """The number of tasks that run at once, as far as it is known."""
    try:
        return max(1, int(spark.sparkContext.defaultParallelism))
    except (PySparkException, AttributeError):  # over Connect
        return max(1, os.cpu_count() or 1)


def _task_bytes(spark: SparkSession) -> int:
    """The bytes of files that one task reads. Spark's own setting for that is not used: a task costs more here."""
    text = spark.conf.get("spark.matchyard.taskBytes", None) or ""
    found = re.fullmatch(r"(\d+)([kmg]?)b?", text.strip().lower())
    return max(1, int(found[1]) << _UNITS[found[2]]) if found else _TASK_BYTES


def _dealt(files: Sequence[Any], n_tasks: int, task_bytes: int) -> list[list[Piece]]:
    """Files, or groups of their rows if there are few files, dealt out to tasks by size."""
    pieces = [Piece(file.path, None, file.n_bytes) for file in files]
    if len(pieces) < 4 * n_tasks:
        pieces = [piece for file in files for piece in _groups(file.path)]
    n_bins = max(n_tasks, -(-sum(piece.n_bytes for piece in pieces) // task_bytes))
    bins: list[list[Piece]] = [[] for _ in range(max(1, min(n_bins, len(pieces))))]
    sizes = [0] * len(bins)
    for piece in sorted(pieces, key=lambda piece: -piece.n_bytes):
        smallest = sizes.index(min(sizes))
        bins[smallest].append(piece)
        sizes[smallest] += piece.n_bytes
    return bins


def _groups(path: str) -> list[Piece]:
    with shards.opened(path) as file:
        try:
            footer = pq.ParquetFile(file).metadata
        except (OSError, ValueError) as error:
            raise StorageError(f"{path} cannot be read as Parquet: {error}") from None
        return [
            Piece(path, number, footer.row_group(number).total_byte_size)
            for number in range(footer.num_row_groups)
        ]
