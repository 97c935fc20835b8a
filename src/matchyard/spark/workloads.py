"""Workloads on Spark: the same rows as `matchyard.workload`, by seed, however they are partitioned.

A row depends on its number, never on its partition. The module `traces` makes workloads from traces
and topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

import matchyard as my
from matchyard.spark.session import find_session
from matchyard.spark.traces import fit_topics, from_topics, from_traces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "checksum",
    "events",
    "fit_topics",
    "from_topics",
    "from_traces",
    "publishers",
    "subscriptions",
    "tweets",
    "users",
]

_ROWS = 10_000  # per Arrow batch
_DOCUMENTS = 400  # likewise, since a document has some 25 kB


class _Source(NamedTuple):
    """A workload, as it travels to the workers."""

    engine: str
    name: str
    size: int
    seed: int
    parameters: tuple[tuple[str, Any], ...] = ()


def subscriptions(
    name: str,
    size: int,
    seed: int = 1,
    spark: SparkSession | None = None,
    partitions: int | None = None,
    engine: str = "tags",
    parameters: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Subscriptions of a named workload: `tags`, `predicate` or `twig`, and `key`.

    For a workload of distinct subscriptions (`dblp` by default), every worker draws all of them.

    >>> frame = subscriptions("active-web", 1_000_000, partitions=200)  # doctest: +SKIP
    """
    source = _Source(engine, name, size, seed, tuple((parameters or {}).items()))
    source = source._replace(size=_workload(source).size)  # recorded ones may have fewer
    schema = _schema(_subscription_rows(source._replace(size=1), 0, 1))
    return _generate(source.size, partial(_subscriptions, source), schema, spark, partitions)


def events(
    name: str,
    size: int,
    n_events: int,
    seed: int = 1,
    spark: SparkSession | None = None,
    partitions: int | None = None,
    engine: str = "tags",
    parameters: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Events for the workload of that name and size: `id`, and `tags`, `event` or `document`."""
    source = _Source(engine, name, size, seed, tuple((parameters or {}).items()))
    source = source._replace(size=_workload(source).size)
    schema = _schema(_event_rows(source._replace(size=1), 0, 1))
    return _generate(n_events, partial(_events, source), schema, spark, partitions)


def users(
    size: int, seed: int = 1, spark: SparkSession | None = None, partitions: int | None = None
) -> DataFrame:
    """Users of the workload `twitter`: languages, and how many interests each has.

    Each partition passes over the owners of all `size` interests, which takes some nanoseconds each.
    """
    return _people(
        "users", size, seed, spark, partitions,
        "user bigint, first_language string, second_language string, interests bigint",
    )  # fmt: skip


def publishers(
    size: int, seed: int = 1, spark: SparkSession | None = None, partitions: int | None = None
) -> DataFrame:
    """Publishers of the workload `twitter`: the tag that is their id, tweets, follower counts."""
    return _people(
        "publishers", size, seed, spark, partitions,
        "publisher bigint, tag string, frequent boolean, tweets bigint, followers bigint",
    )  # fmt: skip


def tweets(
    size: int, seed: int = 1, spark: SparkSession | None = None, partitions: int | None = None
) -> DataFrame:
    """The English tweets from which the interests of the workload `twitter` are copied."""
    return _people(
        "tweets", size, seed, spark, partitions,
        "tweet bigint, publisher bigint, tags array<string>",
    )  # fmt: skip


def checksum(frame: DataFrame) -> int:
    """A checksum of the rows of a DataFrame, independent of their order and partitions.

    It is the sum of Spark's `xxhash64` of the rows, so repeated rows count repeatedly.
    """
    from pyspark.sql import functions

    code = functions.xxhash64(*frame.columns).cast("decimal(38,0)")
    return int(frame.select(functions.sum(code).alias("code")).head().code or 0)


def _schema(rows: pa.RecordBatch) -> StructType:
    """The Spark schema of a sample of rows."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(rows.schema)


def _generate(
    n_rows: int,
    make: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: str | StructType,
    spark: SparkSession | None,
    partitions: int | None,
) -> DataFrame:
    return find_session(spark).range(0, n_rows, 1, partitions).mapInArrow(make, schema)


def _people(
    kind: str,
    size: int,
    seed: int,
    spark: SparkSession | None,
    partitions: int | None,
    schema: str,
) -> DataFrame:
    n_people = getattr(my.workload("tags", "twitter", size, seed), f"n_{kind}")
    return _generate(n_people, partial(_describe, kind, size, seed), schema, spark, partitions)


# Tasks. A worker process serves many tasks, and keeps the tables of a workload.


@lru_cache(maxsize=4)
def _workload(source: _Source) -> Any:
    engine, name, size, seed, parameters = source
    return my.workload(engine, name, size, seed, dict(parameters))


def _ranges(numbers: Any, n_rows: int = _ROWS) -> Iterator[tuple[int, int]]:
    """Runs of consecutive numbers; Spark's ranges are one run per partition."""
    for run in np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1):
        for start in range(0, len(run), n_rows):
            piece = run[start : start + n_rows]
            yield int(piece[0]), int(piece[-1]) + 1


def _numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    return (batch.column(0).to_numpy() for batch in batches if batch.num_rows)


def _subscriptions(source: _Source, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for numbers in _numbers(batches):
        for start, stop in _ranges(numbers):
            yield _subscription_rows(source, start, stop)


def _subscription_rows(source: _Source, start: int, stop: int) -> pa.RecordBatch:
    values, keys = _workload(source).subscriptions(start, stop)
    column = my.create(source.engine).subscription_column
    return pa.record_batch(
        {column: values.cast(_plain(values.type)), "key": pa.array(keys, pa.int64())}
    )


def _events(source: _Source, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for numbers in _numbers(batches):
        for start, stop in _ranges(numbers, _DOCUMENTS if source.engine == "twigs" else _ROWS):
            yield _event_rows(source, start, stop)


def _event_rows(source: _Source, start: int, stop: int) -> pa.RecordBatch:
    made = _workload(source).events(stop - start, start)
    column = my.create(source.engine).event_column or "event"
    return pa.record_batch({"id": np.arange(start, stop), column: made})


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without dictionaries, which Spark does not have."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type)) for field in kind])
    return kind


def _describe(
    kind: str, size: int, seed: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Describe users or publishers; all numbers are read first, to count once per partition."""
    parts = [*_numbers(batches)]
    if parts:
        numbers = np.concatenate(parts)
        first, last = int(numbers.min()), int(numbers.max())
        described = getattr(_workload(_Source("tags", "twitter", size, seed)), kind)(
            first, last + 1
        )
        yield from described.take(pa.array(numbers - first)).to_batches(_ROWS)
