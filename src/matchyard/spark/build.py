"""build, append and compact: subscriptions become an index, compiled in Spark's tasks. See `segments`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import index
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import matchyard as my
from matchyard import shards as _shards  # functions here have a parameter of that name
from matchyard.errors import UsageError
from matchyard.spark.checks import (
    carried,
    check_batch,
    check_frame,
    check_subscriptions,
    column_of,
    key_type,
    place_of,
    places_of,
    plain_errors,
    refuse_equal_names,
)
from matchyard.spark.leases import keeping, planning
from matchyard.spark.segments import Made, make_segment
from matchyard.spark.session import find_session
from matchyard.spark.sources import frame_source, index_source, parquet_source
from matchyard.spark.tasks import build as tasks


class Built(NamedTuple):
    """The published version and its figures."""

    version: str
    subscriptions: int  # added by this build
    shards: int  # compiled from these subscriptions
    index_bytes: int  # of all files of the version
    worker_bytes: int  # peak memory of a worker during compilation
    seconds: float


def build(
    subscriptions: DataFrame | None = None,
    path: str | os.PathLike[str] = "",
    engine: str = "tags",
    subscription: str = "tags",
    key: str = "key",
    algorithm: str | None = None,
    options: Mapping[str, Any] | None = None,
    shards: int | None = None,
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    spark: SparkSession | None = None,
    transaction: tuple[str, int] | None = None,
) -> Built:
    """Compile subscriptions into an index at a path or address, and publish it in one step.

    The DataFrame is read once. Subscriptions are compiled in parallel and then joined to one table, which
    matches fastest. `shards` sets a number of shards instead, for an index larger than a worker's
    memory.

    With `paths` in place of a DataFrame, tasks read Parquet files and folders themselves, which takes three
    quarters of the time. Nothing but the files counts then: a filter, a partition column or a deletion vector of
    a table format is not seen.

    `transaction` is the source of the subscriptions and the number of its last change that they have:
    `append` then leaves out changes up to that number. Without it, a build forgets all transactions of
    the versions before.
    """
    if subscriptions is not None:
        check_batch(subscriptions, "subscriptions")
    path = place_of(_named(path))
    begun_at = _shards.version_before(path)
    by_this = _applied_by(transaction)
    my.create(engine, algorithm, options)  # refuses wrong arguments before any task runs
    plan = _shards.Plan(engine, algorithm, dict(options or {}))
    if (subscriptions is None) == (paths is None):
        raise UsageError("build takes a DataFrame or paths of Parquet files: one of them")
    if paths is not None:
        source = parquet_source(places_of(paths), subscription, key, engine, find_session(spark))
    else:
        source = frame_source(subscriptions, subscription, key, engine)
    _check_count(shards)
    start = time.perf_counter()
    with plain_errors(), _shards.new_version(path) as folder:
        _shards.refuse_late(path, begun_at)  # it waited for another writer, whose rows it may lack
        made = make_segment(source, folder, plan, 0, shards)
        version = _shards.publish(path, folder, made.files, plan, [made.n_shards], by_this)
    return _built(version, made, start)


def append(
    changes: DataFrame,
    path: str | os.PathLike[str],
    subscription: str = "tags",
    key: str = "key",
    change: str = "change",
    shards: int | None = None,
    transaction: tuple[str, int] | None = None,
) -> Built:
    """Publish a new version with changes, without compiling the rest again.

    The column `change` is "add", "remove" (every earlier copy of the subscription under the key) or "delete"
    (one earlier copy of it). A null subscription removes all earlier subscriptions of the key. Additions come
    last, whatever the order of the rows; `changes` nets a feed of changes in the order in which they were made.
    Matching slows down with the number of appended segments: `compact` folds them.

    `transaction` is the source of the changes and their number, such as the id of a streaming query
    and of its micro-batch. The version has both. Changes whose number is not above the last one
    of their source are there already: nothing is published.
    """
    check_batch(changes, "changes")
    path = place_of(path)
    by_this = _applied_by(transaction)
    engine = _shards.manifest_of(path, _shards.current_version(path))["engine"]
    rows = _rows(changes, subscription, key, engine, column_of(changes, change, "changes"))
    _check_count(shards)
    start = time.perf_counter()
    with plain_errors(), _shards.new_version(path) as folder, _persisted(rows):
        current = _shards.current_version(path)  # `new_version` locks out other publishers
        manifest = _shards.manifest_of(path, current)
        known = _shards.applied_in(manifest)
        if any(number <= known.get(source, -1) for source, number in by_this.items()):
            n_bytes = sum(file[1] for file in manifest["files"])
            return Built(current, 0, 0, n_bytes, 0, time.perf_counter() - start)
        others = rows.where("change is null or change not in ('add', 'remove', 'delete')")
        for (change_value,) in others.select("change").limit(1).collect():
            raise UsageError(f"a change is {change_value!r}; expected 'add', 'remove' or 'delete'")
        removed, deleted = (
            rows.where(F.col("change") == word).select("subscription", "key").toArrow()
            for word in ("remove", "delete")
        )
        base = _shards.carry(path, folder, removed, deleted)
        added = frame_source(rows.where("change = 'add'"), "subscription", "key", engine)
        made = make_segment(added, folder, base.plan, len(base.segments), shards, base)
        files = [*base.files, *made.files]
        segments = [*base.segments, *([made.n_shards] if made.n_shards else [])]
        applied_now = {**base.applied, **by_this}
        version = _shards.publish(path, folder, files, base.plan, segments, applied_now)
    return _built(version, made._replace(files=files), start)


def compact(
    path: str | os.PathLike[str], shards: int | None = None, spark: SparkSession | None = None
) -> Built:
    """Fold all appended segments into one, and publish it.

    By default, the first segment's number of shards; one joined table if that has one shard.
    """
    path = place_of(path)
    _check_count(shards)
    start = time.perf_counter()
    with plain_errors(), _shards.new_version(path) as folder:
        version = _shards.current_version(path)  # `new_version` locks out other publishers
        manifest = _shards.manifest_of(path, version)
        plan = _shards.plan_of(manifest)
        source = index_source(path, version, find_session(spark))
        n_before = manifest["segments"][0]
        n_shards = shards or (n_before if n_before > 1 else None)
        made = make_segment(source, folder, plan, 0, n_shards)
        known = _shards.applied_in(manifest)
        version = _shards.publish(path, folder, made.files, plan, [made.n_shards], known)
    return _built(version, made, start)


def subscriptions(
    path: str | os.PathLike[str],
    version: str | int | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """The subscriptions of an index as a DataFrame: columns `subscription` and `key`.

    A subscription is an array of tags, or the text of a predicate or twig.
    """
    place = place_of(path)
    with planning(place, version) as lease:
        manifest = _shards.manifest_of(place, lease.version)
        n_shards = sum(manifest["segments"])
        has_names = _shards.has_string_keys(manifest)
        text, is_text = T.StringType(), manifest["engine"] != "tags"
        schema = T.StructType(
            [
                T.StructField("subscription", text if is_text else T.ArrayType(text)),
                T.StructField("key", T.StringType() if has_names else T.LongType()),
            ]
        )
        numbers = find_session(spark).range(0, n_shards, 1, max(1, n_shards))
        read = numbers.mapInArrow(partial(tasks.read_shards, lease), schema)
        return keeping(read, lease)


def vet(
    subscriptions: DataFrame,
    engine: str = "tags",
    subscription: str = "tags",
    options: Mapping[str, Any] | None = None,
    into: str = "reason",
) -> DataFrame:
    """Add a column with the reason why a subscription cannot be read; null if it can. Batch or streaming.

    One bad subscription ends a build, and a stream of changes. So set bad ones aside before:

    >>> vetted = vet(rules, "predicates", "rule")  # doctest: +SKIP
    >>> build(vetted.where("reason is null"), "rules.index", "predicates", "rule")  # doctest: +SKIP
    """
    check_frame(subscriptions, "subscriptions")
    my.create(engine, None, options)  # refuses wrong arguments before any task runs
    check_subscriptions(subscriptions, subscription, engine)
    plan = _shards.Plan(engine, None, dict(options or {}))
    fields = [T.StructField(field.name, carried(field)) for field in subscriptions.schema]
    schema = T.StructType([*fields, T.StructField(into, T.StringType())])
    refuse_equal_names(schema)
    rows = subscriptions.select(F.col(subscription), "*")
    plain = rows.toDF(*(f"_{number}" for number in range(len(rows.columns))))
    return plain.mapInArrow(partial(tasks.vet_rows, plan, schema.names), schema)


def applied(path: str | os.PathLike[str]) -> dict[str, int]:
    """The sources of changes that an index has seen, each with the number of its last transaction."""
    place = place_of(path)
    return _shards.applied_in(_shards.manifest_of(place, _shards.current_version(place)))


# -------------------------------------------------------------------- checks


def _named(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    if path == "":
        raise UsageError("build needs the path of the index: build(subscriptions, 'music.index')")
    return path


def _check_count(n_shards: int | None) -> None:
    if n_shards is not None and not 1 <= n_shards <= 9999:
        raise UsageError(f"shards must be 1 to 9999, not {n_shards}")


@contextmanager
def _persisted(rows: DataFrame) -> Iterator[None]:
    """Compute rows once, though they are read several times. Spark does so when they are first read."""
    rows.persist()
    try:
        yield
    finally:
        rows.unpersist()


def _applied_by(transaction: tuple[str, int] | None) -> dict[str, int]:
    """What a transaction adds to the applied changes of a version."""
    if transaction is None:
        return {}
    if not isinstance(transaction, tuple | list) or len(transaction) != 2:
        raise UsageError(f"a transaction is a source and a number, not {transaction!r:.100}")
    source, number = transaction
    if not isinstance(source, str) or len(source) > 1024:
        raise UsageError(f"the source of a transaction is text, not {source!r:.100}")
    if isinstance(number, bool) or not hasattr(number, "__index__") or not 0 <= number < 1 << 63:
        raise UsageError(f"the number of a transaction is an integer from 0 on, not {number!r}")
    return {source: index(number)}


def _rows(frame: DataFrame, subscription: str, key: str, engine: str, change: Any) -> DataFrame:
    """The columns of changes, under their own names."""
    check_subscriptions(frame, subscription, engine)
    keys = F.col(key).cast(key_type(frame, key))
    return frame.select(
        F.col(subscription).alias("subscription"), keys.alias("key"), change.alias("change")
    )


def _built(version: str, made: Made, start: float) -> Built:
    n_bytes = sum(file[1] for file in made.files)
    seconds = time.perf_counter() - start
    return Built(version, made.n_rows, made.n_shards, n_bytes, made.worker_bytes, seconds)
