"""build: a DataFrame of subscriptions becomes an index, compiled shard by shard in Spark's tasks.

count names ─▶ vocabulary ─▶ rarest name of each subscription ─▶ ranges of names
            ─▶ one partition per range ─▶ compile and write ─▶ publish
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import matchyard as my
from matchyard import shards as _shards  # functions here have a parameter of that name
from matchyard.errors import UsageError
from matchyard.spark.checks import (
    check_subscriptions,
    column_of,
    key_type,
    place_of,
    plain_errors,
)
from matchyard.spark.session import find_session
from matchyard.spark.tasks import build as tasks

_PER_TASK = 2_500_000  # subscriptions that one task compiles unless `shards` is given
_SAMPLE = 100_000  # sampled subscriptions per task, to balance the tasks
_PER_SHARD = 64_000_000  # subscriptions joined into one table, if the algorithm can join


class Built(NamedTuple):
    """The published version and its figures."""

    version: str
    subscriptions: int  # added by this build
    shards: int  # compiled from these subscriptions
    index_bytes: int  # of all files of the version
    worker_bytes: int  # peak memory of a worker during compilation
    seconds: float


def build(
    subscriptions: DataFrame,
    path: str | os.PathLike[str],
    engine: str = "tags",
    subscription: str = "tags",
    key: str = "key",
    algorithm: str | None = None,
    options: Mapping[str, Any] | None = None,
    shards: int | None = None,
) -> Built:
    """Compile subscriptions into an index at a path or address, and publish it in one step.

    The DataFrame is read several times and has to give the same rows each time; otherwise persist
    it first. Subscriptions are compiled in parallel and then joined to one table, which matches
    fastest. `shards` sets a number of shards instead, for an index larger than a worker's memory.
    """
    path = place_of(path)
    my.create(engine, algorithm, options)  # refuses wrong arguments before any task runs
    plan = _shards.Plan(engine, algorithm, dict(options or {}))
    rows = _rows(subscriptions, subscription, key, engine)
    _check_count(shards)
    start = time.perf_counter()
    with plain_errors(), _shards.new_version(path) as folder:
        made = _segment(rows, folder, plan, 0, shards, None)
        version = _shards.publish(path, folder, made.files, plan, [made.n_shards])
    return _built(version, made, start)


def append(
    changes: DataFrame,
    path: str | os.PathLike[str],
    subscription: str = "tags",
    key: str = "key",
    change: str = "change",
    shards: int | None = None,
) -> Built:
    """Publish a new version with changes, without compiling the rest again.

    The column `change` is "add" or "remove". Removals are applied first, whatever the order of the
    rows. A removal deletes every earlier copy of its subscription under the key; a null subscription
    deletes all earlier subscriptions of the key. Matching slows down with the number of appended
    segments: `compact` folds them.
    """
    path = place_of(path)
    engine = _shards.manifest_of(path, _shards.current_version(path))["engine"]
    rows = _rows(changes, subscription, key, engine, column_of(changes, change, "changes"))
    _check_count(shards)
    start = time.perf_counter()
    with plain_errors(), _shards.new_version(path) as folder:
        others = rows.where("change is null or change not in ('add', 'remove')").select("change")
        for (change_value,) in others.limit(1).collect():
            raise UsageError(f"a change is {change_value!r}; expected 'add' or 'remove'")
        removed = rows.where("change = 'remove'").select("subscription", "key").toArrow()
        base = _shards.carry(path, folder, removed)
        added = rows.where("change = 'add'").select("subscription", "key")
        made = _segment(added, folder, base.plan, len(base.segments), shards, base)
        files = [*base.files, *made.files]
        segments = [*base.segments, *([made.n_shards] if made.n_shards else [])]
        version = _shards.publish(path, folder, files, base.plan, segments)
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
        rows = subscriptions(path, version, spark)
        n_before = manifest["segments"][0]
        n_shards = shards or (n_before if n_before > 1 else None)
        made = _segment(rows, folder, plan, 0, n_shards, None)
        version = _shards.publish(path, folder, made.files, plan, [made.n_shards])
    return _built(version, made, start)


def subscriptions(
    path: str | os.PathLike[str], version: str | None = None, spark: SparkSession | None = None
) -> DataFrame:
    """The subscriptions of an index as a DataFrame: columns `subscription` and `key`.

    A subscription is an array of tags, or the text of a predicate or twig.
    """
    place = place_of(path)
    version = version or _shards.current_version(place)
    manifest = _shards.manifest_of(place, version)
    n_shards = sum(manifest["segments"])
    has_names = any(file[0] == "keys.arrow" for file in manifest["files"])
    text, is_text = T.StringType(), manifest["engine"] != "tags"
    schema = T.StructType(
        [
            T.StructField("subscription", text if is_text else T.ArrayType(text)),
            T.StructField("key", T.StringType() if has_names else T.LongType()),
        ]
    )
    numbers = find_session(spark).range(0, n_shards, 1, max(1, n_shards))
    return numbers.mapInArrow(partial(tasks.read_shards, place, version), schema)


# -------------------------------------------------------------------- steps


class _Made(NamedTuple):
    files: list[Any]
    n_shards: int
    n_rows: int
    worker_bytes: int


def _check_count(n_shards: int | None) -> None:
    if n_shards is not None and not 1 <= n_shards <= 9999:
        raise UsageError(f"shards must be 1 to 9999, not {n_shards}")


def _rows(
    frame: DataFrame, subscription: str, key: str, engine: str, change: Any = None
) -> DataFrame:
    check_subscriptions(frame, subscription, engine)
    keys = F.col(key).cast(key_type(frame, key))
    columns = [F.col(subscription).alias("subscription"), keys.alias("key")]
    return frame.select(*columns, *([] if change is None else [change.alias("change")]))


def _segment(
    rows: DataFrame,
    folder: Any,
    plan: _shards.Plan,
    segment: int,
    n_shards: int | None,
    base: _shards.Carried | None,
) -> _Made:
    """Compile rows into a segment of a new version; no rows to append make no segment."""
    hashed = F.xxhash64("subscription", "key").bitwiseAND(0xFFFFFFFF)  # sums fit into 64 bits
    rows = rows.withColumn("hash", hashed)
    counts = (
        rows.select("subscription", "hash", "key")
        .mapInArrow(partial(tasks.count_names, plan), "name string, count bigint, hash bigint")
        .groupBy("name")
        .agg(F.sum("count").alias("count"), F.sum("hash").alias("hash"))
        .toArrow()
    )
    is_total = counts["name"].is_null()
    total = counts.filter(is_total)
    n_rows, hash_sum = sum(total["count"].to_pylist()), sum(total["hash"].to_pylist())
    key_names = _key_names(rows, n_rows, base)
    if base is not None and not n_rows:
        files = _shards.write_key_names(folder, key_names)
        return _Made(files, 0, 0, 0)
    vocabulary = _shards.merge([counts.filter(pa.compute.invert(is_total))], plan)
    files = _shards.write_names(folder, vocabulary, key_names, segment)
    job = tasks.BuildJob(plan, os.fspath(folder), segment, files)
    n_tasks = n_shards or max(1, -(-n_rows // _PER_TASK))
    is_joined = n_shards is None and n_tasks > 1 and _shards.can_join(plan)
    share = min(1.0, n_tasks * _SAMPLE / n_rows) if is_joined else 1.0
    routes = _routes(rows, job, _shards.n_ids(vocabulary, plan), n_tasks, share)
    written = {row["number"]: row for row in _compile(rows, job, routes, n_tasks)}
    if sum(row["hash"] for row in written.values()) != hash_sum:
        raise UsageError(
            "the DataFrame gave other rows when it was read again: persist it, or write it to a file"
        )
    parts = [
        [_shards.File(*file) for file in json.loads(written[number]["files"])]
        if number in written
        # Spark runs no task over a partition that it knows to be empty.
        else _shards.write(
            folder, number, [], [], vocabulary, plan, None, segment, _shards.scratch()
        )
        for number in range(n_tasks)
    ]
    if is_joined:
        step = -(-n_tasks // -(-n_rows // _PER_SHARD))
        parts = [
            _shards.join(folder, number, parts[first : first + step], plan, segment)
            for number, first in enumerate(range(0, n_tasks, step))
        ]
        routes = np.where(routes < 0, routes, routes // step)
    else:
        parts = [_shards.adopt(folder, part) for part in parts]
    if len(parts) > 1:
        files = [*files, *_shards.write_routes(folder, routes, segment)]
    peak = max((row["worker_bytes"] for row in written.values()), default=0)
    return _Made([*files, *(file for part in parts for file in part)], len(parts), n_rows, peak)


def _compile(
    rows: DataFrame, job: tasks.BuildJob, routes: NDArray[np.int32], n_tasks: int
) -> list[dict[str, Any]]:
    """Compile each range of names in a task of its own; a row for each written shard."""
    if n_tasks == 1:
        placed = rows.repartition(1)
    else:
        [file] = _shards.write_routes(job.folder, routes, job.segment, _shards.scratch())
        dealt = T.StructType([T.StructField("shard", T.IntegerType()), *rows.schema.fields])
        assigned = rows.mapInArrow(partial(tasks.assign, job, file), dealt)
        placed = assigned.repartitionById(n_tasks, F.col("shard")).drop("shard")
    schema = "number int, files string, hash bigint, worker_bytes bigint"
    written = placed.mapInArrow(partial(tasks.write_shard, job), schema)
    shards: list[dict[str, Any]] = written.toArrow().to_pylist()
    return shards


def _key_names(rows: DataFrame, n_rows: int, base: _shards.Carried | None) -> Any:
    """The names of string keys, known names first; None for integer keys."""
    is_string = isinstance(rows.schema["key"].dataType, T.StringType)
    known = base.key_names if base else None
    if base is not None and base.has_keys and n_rows and is_string != (known is not None):
        there, here = ("strings", "integers") if known is not None else ("integers", "strings")
        raise UsageError(f"the keys of this index are {there}; those of the changes are {here}")
    if not is_string or (base is not None and not n_rows):
        return known
    distinct = rows.select("key").distinct().toArrow()["key"]
    if distinct.null_count:
        raise UsageError("a key is null; keys are integers of up to 64 bits or strings")
    return _shards.merge_keys(distinct.chunks, known)


def _routes(
    rows: DataFrame, job: tasks.BuildJob, n_names: int, n_tasks: int, share: float
) -> NDArray[np.int32]:
    """The task of each rarest name, balanced by the number of subscriptions under it in a share of
    the rows. With a share below 1, names outside the sample get a task too."""
    if n_tasks == 1:
        return np.zeros(n_names + 1, np.int32)
    sample = (
        rows.select("subscription") if share >= 1 else rows.select("subscription").sample(share)
    )
    filed = (
        sample.mapInArrow(partial(tasks.count_rarest, job), "rarest bigint, count bigint")
        .groupBy("rarest")
        .agg(F.sum("count").alias("count"))
        .toArrow()
    )
    n_filed = np.zeros(n_names + 1, np.int64)
    n_filed[1 + filed["rarest"].to_numpy()] = filed["count"].to_numpy()
    return _shards.cut(n_filed if share >= 1 else n_filed * n_names + 1, n_tasks)


def _built(version: str, made: _Made, start: float) -> Built:
    n_bytes = sum(file[1] for file in made.files)
    seconds = time.perf_counter() - start
    return Built(version, made.n_rows, made.n_shards, n_bytes, made.worker_bytes, seconds)
