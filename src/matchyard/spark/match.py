"""match: a DataFrame of events in, a DataFrame of (event, key) out; batch or streaming.

Two strategies, with the same rows:

    replicated   every worker maps the whole index; events stay in their partitions
    sharded      each shard gets the events that it can match; the results are merged

The strategy "sharded" is for an index that is larger than a worker's memory.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import matchyard as my
from matchyard import shards
from matchyard.errors import DeviceError, UsageError
from matchyard.spark.checks import (
    carried,
    check_choice,
    check_frame,
    column_of,
    event_of,
    names_of,
    place_of,
    refuse_equal_names,
)
from matchyard.spark.devices import DEVICES
from matchyard.spark.leases import keeping, planning
from matchyard.spark.session import by_number
from matchyard.spark.tasks.job import MatchJob
from matchyard.spark.tasks.match import match_replicated
from matchyard.spark.tasks.shards import match_shards, merge_shards, route

_log = logging.getLogger("matchyard")
_SHARE = 0.5  # of a machine's memory that a replicated index may take
_observations = count(1)
METRICS = "matchyard"  # first part of the name under which a stream observes its matches


class Choice(NamedTuple):
    """A strategy, and the reason for it."""

    strategy: str
    reason: str


def match(
    events: DataFrame,
    index: str | os.PathLike[str],
    event: str | Sequence[str] | None = "tags",
    id: str | Sequence[str] = "id",
    unique: bool = False,
    strategy: str = "auto",
    output: str = "pairs",
    follow: bool | str = False,
    version: bool = False,
    bad: str = "raise",
    worker_memory: int | None = None,
    explain: bool = False,
    device: str = "auto",
    observe: str | Observation | None = None,
    at: str | int | None = None,
) -> DataFrame:
    """Match the column `event` of a DataFrame with an index at a path or address.

    Events of predicates are a column of structs, maps or JSON, or several columns by a list of
    their names, or with None the whole row. Events of twigs are XML, as text or as bytes.

    A batch plan keeps the version of the index that is current now, whatever is published before it
    runs, as long as the returned DataFrame exists and for an hour after that. (A filter, a join or a view of it
    holds nothing until it runs: keep this DataFrame if such a plan waits.)

    Returns the columns `id` with `key`, one row per match (`output="pairs"`), or with `keys`, one
    row per event (`"arrays"`: far cheaper for many matches). Lazy, like any transformation. The
    columns `id` are copied and not interpreted: two events with equal ids are two events.

    * `unique`: each key once per event, however many of its subscriptions match.
    * `strategy`: "replicated", "sharded", or "auto", which decides by the size of the index and
      `worker_memory`, in bytes; `explain` prints the choice and its reason.
    * `follow`: in a stream, each micro-batch uses the version that is current when its first task
      begins, and uses it again when it is replayed. For an index in an object store, pass a folder
      that all workers share: the versions are recorded there. Without `follow`, the stream keeps
      the version that is current now.
    * `version`: add a column `version` with the version that a row was matched with.
    * `bad`: the treatment of an event that cannot be read (null, a null tag, too many tags, invalid
      JSON or XML). "raise" ends the job with the event's id and the reason. "keep" gives the event
      a row without a key, and adds a column `reason`, which is null for good events.
    * `device`: "auto" matches on the GPU that Spark gives a task, and else on the CPU; "cpu" always
      on the CPU; with "gpu", a task without a usable GPU ends the job with the reason.
    * `observe`: Spark's metrics of a batch job, by a name or an `Observation`: the numbers of `matches` and of
      `bad` events. Streams have them anyway: see `Progress`.
    * `at`: a version to match with instead of the current one, such as 3 or "0003".
    """
    check_frame(events, "events")
    _check_choices(strategy, output, bad, device)
    path = place_of(index)
    with planning(path, at) as lease:
        manifest = shards.manifest_of(path, lease.version)
        check_runs_on(device, manifest)
        if follow and not events.isStreaming:
            raise UsageError("follow is for streams: a batch job has one version, the current one")
        if observe is not None and events.isStreaming:
            raise UsageError("observe is for batch jobs: Progress has the metrics of streams")
        if follow and at is not None:
            raise UsageError("a stream follows versions or stays at one: follow or at")
        asked = event_of(events, event, manifest["engine"])
        names = names_of(id, "ids of events")
        ids = [column_of(events, name, "ids of events") for name in names]
        string_keys = shards.has_string_keys(manifest)
        # The metrics of a stream include its version, so the column is there even if not asked for.
        with_version = version or events.isStreaming
        schema = result_schema(
            events.select(*ids).schema, string_keys, output, with_version, bad == "keep"
        )
        is_stream = events.isStreaming
        is_connect = type(events).__module__.startswith("pyspark.sql.connect")
        job = MatchJob(
            path,
            lease.version,
            schema.fieldNames(),
            string_keys,
            # Records in the index keep the versions of a stream; elsewhere its tasks need leases.
            holder=""
            if is_stream and not (isinstance(follow, str) or shards.is_remote(path))
            else lease.holder,
            streaming=is_stream,
            follow=bool(follow),
            record=place_of(follow) if isinstance(follow, str) else None,
            # Over Connect, tasks of foreachBatch do not know their batch, but the moment at which it began.
            stamped=bool(follow) and is_connect,
            unique=unique,
            arrays=output == "arrays",
            keep_bad=bad == "keep",
            with_version=with_version,
            device=device,
            sha256="" if is_stream else manifest["sha256"],
        )
        choice = choose(manifest, strategy, worker_memory, events.sparkSession)
        _announce(choice, explain)
        selected = _select_events(events, ids, asked, job)
        if choice.strategy == "replicated":
            matched = selected.mapInArrow(partial(match_replicated, job), schema)
        else:
            matched = _sharded(selected, job, sum(manifest["segments"]), schema, len(ids))
        if not events.isStreaming:
            if observe is not None:
                matched = matched.observe(observe, *_metrics(job))
            return keeping(matched, lease)
        # Micro-batches of a stream that follows record versions. Other streams keep theirs in this process.
        if follow:
            shards.release(lease)
        observed = _observed(matched, job)
        return observed if version else observed.drop("version")


def _check_choices(strategy: str, output: str, bad: str, device: str) -> None:
    check_choice("strategy", strategy, ("auto", "replicated", "sharded"))
    check_choice("output", output, ("pairs", "arrays"))
    check_choice("bad", bad, ("raise", "keep"))
    check_choice("device", device, DEVICES)


def result_schema(
    ids: T.StructType, string_keys: bool, output: str, with_version: bool, keep_bad: bool
) -> T.StructType:
    """The columns of the result: names of the event, key or keys, version, reason."""
    key = T.StringType() if string_keys else T.LongType()
    fields = [T.StructField(field.name, carried(field)) for field in ids]
    if output == "arrays":
        fields.append(T.StructField("keys", T.ArrayType(key)))
    else:
        fields.append(T.StructField("key", key))
    if with_version:
        fields.append(T.StructField("version", T.LongType()))
    if keep_bad:
        fields.append(T.StructField("reason", T.StringType()))
    schema = T.StructType(fields)
    refuse_equal_names(schema)
    return schema


def _announce(choice: Choice, explain: bool) -> None:
    """Log the strategy, and print it if the caller asked for an explanation."""
    _log.info("%s: %s", choice.strategy, choice.reason)
    if explain:
        print(f"matchyard: {choice.strategy}, because {choice.reason}")


def _select_events(
    events: DataFrame, ids: Sequence[Column], event: Column, job: MatchJob
) -> DataFrame:
    """The columns that tasks read: names of the event, the moment of its micro-batch, the event."""
    named = [column.alias(f"_id{number}") for number, column in enumerate(ids)]
    moment = [F.unix_millis(F.current_timestamp()).alias("_moment")] if job.stamped else []
    return events.select(*named, *moment, event.alias("_event"))


def check_runs_on(device: str, manifest: dict[str, Any]) -> None:
    """Refuse a GPU for an index whose algorithm has no kernels, before anything runs."""
    engine, algorithm = manifest["engine"], manifest["algorithm"]
    known = my.algorithms(engine, "gpu")
    if device == "gpu" and algorithm not in known:
        raise DeviceError(
            f"the algorithm of this index, {algorithm}, does not run on a GPU; of {engine}, "
            f"{', '.join(known)} do"
        )


def _sharded(
    events: DataFrame, job: MatchJob, n_shards: int, schema: T.StructType, n_ids: int
) -> DataFrame:
    """Route events to shards, match there, and merge the parts of an event if it has one row."""
    if not (job.arrays or job.unique):
        placed = _routed(events, job, n_shards)
        return placed.mapInArrow(partial(match_shards, job), schema)
    content = [
        part for field in events.schema if field.name != "_moment" for part in _hashable(field)
    ]
    hashes = [F.xxhash64(*content), F.xxhash64(F.lit(1), *content)]
    named = [column.alias(f"_hash{number}") for number, column in enumerate(hashes)]
    events = events.select(*named, "*")
    keys = T.ArrayType(T.StringType() if job.string_keys else T.LongType())
    parts = [
        T.StructField("_shard", T.IntegerType()),
        *events.schema.fields[: 2 + n_ids],
        T.StructField("_keys", keys),
        *schema.fields[n_ids + 1 :],
    ]
    names = [field.name for field in parts]
    piecewise = job._replace(arrays=True, merged=True, every=job.arrays, names=names)
    placed = _routed(events, piecewise, n_shards)
    parts_of_events = placed.mapInArrow(partial(match_shards, piecewise), T.StructType(parts))
    merged = parts_of_events.repartition("_hash0")  # a task holds one partition in memory
    return merged.mapInArrow(partial(merge_shards, job), schema)


def _routed(events: DataFrame, job: MatchJob, n_shards: int) -> DataFrame:
    """Copy each event to every shard that can match it; a partition for each shard."""
    fields = [
        T.StructField("_shard", T.IntegerType()),
        T.StructField("_reason", T.StringType()),
        *(field for field in events.schema.fields if field.name not in ("_moment", "_event")),
        T.StructField("_version", T.StringType()),
        events.schema["_event"],
    ]
    sent = events.mapInArrow(partial(route, job), T.StructType(fields))
    # A later version may have more shards: a task then matches several, one after the other.
    return by_number(sent, n_shards, F.col("_shard") % n_shards)


def _hashable(field: T.StructField) -> list[Column]:
    """Columns that distinguish values: Spark's hash ignores nulls and the boundaries of lists."""
    column, kind = F.col(field.name), field.dataType
    if isinstance(kind, T.FloatType | T.DoubleType):
        return [column.isNull(), column.cast("string")]  # the hashes of 0.0 and -0.0 are equal
    if not isinstance(kind, T.ArrayType | T.MapType | T.StructType | T.VariantType):
        return [column.isNull(), column]
    # In UTC: in the hour when clocks go back, two moments have the same local time.
    exact = {
        "ignoreNullFields": "false",
        "timeZone": "UTC",
        "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    }
    return [
        column.isNull(),
        F.to_json(column, {**exact, "timestampNTZFormat": exact["timestampFormat"]}),
    ]


def _metrics(job: MatchJob) -> list[Column]:
    """The numbers of matches and of bad events."""
    n_keys = F.greatest(F.size("keys"), F.lit(0)) if job.arrays else F.lit(1)
    if job.keep_bad:
        n_keys = F.when(F.col("reason").isNull(), n_keys)
    n_bad = F.count("reason") if job.keep_bad else F.count(F.lit(None))
    return [F.coalesce(F.sum(n_keys), F.lit(0)).alias("matches"), n_bad.alias("bad")]


def _observed(matched: DataFrame, job: MatchJob) -> DataFrame:
    """Count the matches of a stream, for `Progress`."""
    columns = [*_metrics(job), F.max("version").alias("version")]
    # A query may call `match` twice, and Spark requires different names of observations.
    return matched.observe(f"{METRICS}:{next(_observations)}:{job.path}", *columns)


# -------------------------------------------------------------------- the choice


def choose(
    manifest: dict[str, Any], strategy: str, worker_memory: int | None, spark: SparkSession
) -> Choice:
    """Choose "replicated" if the index fits into the memory that a worker may map."""
    n_bytes = sum(file[1] for file in manifest["files"])
    n_shards = sum(manifest["segments"])
    size = f"the index has {_mb(n_bytes)} in {n_shards} shard{'s' * (n_shards != 1)}"
    if strategy != "auto":
        return Choice(strategy, f"it was asked for; {size}")
    limit, source = (worker_memory, "worker_memory") if worker_memory else _memory(spark)
    if n_bytes <= limit:
        return Choice("replicated", f"{size}, and a worker may map {_mb(limit)} ({source})")
    if n_shards == 1:
        return Choice(
            "replicated",
            f"{size}, more than the {_mb(limit)} of a worker ({source}), but it was built as one "
            "shard: build it with more, e.g. build(…, shards=32)",
        )
    return Choice("sharded", f"{size}, and a worker may map {_mb(limit)} ({source})")


def _mb(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.0f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:,.0f} kB"


def _memory(spark: SparkSession) -> tuple[int, str]:
    """The bytes that a worker may map, and the name of the setting."""
    for name in ("spark.matchyard.workerMemory", "spark.executor.pyspark.memory"):
        try:
            text = spark.conf.get(name, None)
        except PySparkException:
            text = None
        if text:
            return _bytes(text, name), name
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(_SHARE * physical), "half of this machine's memory; spark.matchyard.workerMemory"


def _bytes(text: str, name: str) -> int:
    """Parse a size in Spark's notation: 512m, 4g, 100b; without a unit, megabytes."""
    parsed = re.fullmatch(r"(\d+)(?:([kmgt])b?|(b))?", text.strip().lower())
    if parsed is None:
        raise UsageError(f"{name} is {text!r}; expected a size such as 512m or 4g")
    units = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
    return int(parsed[1]) * units[parsed[2] or parsed[3] or "m"]
