"""The tasks of a build: functions over Arrow batches, for `DataFrame.mapInArrow`.

Spark pickles them by name (the package is installed on the workers), with a NamedTuple of values.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from matchyard import shards
from matchyard.errors import ParseError
from matchyard.spark.tasks.notes import noted

Batches = Iterator[pa.RecordBatch]
_FLUSH_ROWS = 1 << 19  # subscriptions counted together in one batch of counts


class BuildJob(NamedTuple):
    """One segment of a new version."""

    plan: shards.Plan
    folder: str
    segment: int
    names: list[shards.File]  # the files of the vocabulary and of the keys


def count_names(plan: shards.Plan, batches: Batches) -> Batches:
    """The names in subscriptions with their counts. The row of the null name holds the number of
    subscriptions and the sum of their hashes."""
    waiting: list[pa.RecordBatch] = []
    n_rows = total = 0
    for batch in batches:
        waiting.append(batch)
        n_rows, total = n_rows + len(batch), total + added_up(batch.column(1))
        if sum(map(len, waiting)) >= _FLUSH_ROWS:
            yield from _counted(waiting, plan)
            waiting = []
    if waiting:
        yield from _counted(waiting, plan)
    yield _counts([None], [n_rows], [total])


def _counted(batches: list[pa.RecordBatch], plan: shards.Plan) -> Batches:
    rows = pa.Table.from_batches(batches)
    try:
        counts = shards.count(rows.column(0), plan)
    except ParseError as error:
        raise noted(_named(error, rows, plan)) from None
    for batch in counts.to_batches():
        yield _counts(batch["name"].cast(pa.string()), batch["count"], np.zeros(len(batch)))


def _named(error: ParseError, rows: pa.Table, plan: shards.Plan) -> ParseError:
    """Put the key of the subscription into the error, since Spark's rows have no numbers."""
    for row in range(len(rows)):
        try:
            shards.count(rows.column(0).slice(row, 1), plan)
        except ParseError as reparsed:
            reason = str(reparsed).removeprefix("row 0")  # "row 0 is null", "row 0: column 3: …"
            key = rows.column(2)[row].as_py()
            return reparsed.saying(f"a subscription of key {key!r}{reason}")
    return error


def _counts(names: Any, counts: Any, hashes: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(names, pa.string()), pa.array(counts, pa.int64()), pa.array(hashes, pa.int64())],
        ["name", "count", "hash"],
    )


def added_up(hashes: pa.Array) -> int:
    """The sum of 32-bit hashes: a checksum of rows in any order."""
    return int(np.asarray(hashes).sum())


def count_rarest(job: BuildJob, batches: Batches) -> Batches:
    """The number of subscriptions by rarest name; -1 stands for subscriptions without names."""
    vocabulary, _ = shards.open_names(job.folder, job.names, job.plan, job.segment)
    counts = np.zeros(shards.n_ids(vocabulary, job.plan) + 1, np.int64)
    for batch in batches:
        rarest_ids = shards.rarest(batch.column(0), vocabulary, job.plan)
        counts += np.bincount(rarest_ids + 1, minlength=len(counts))
    used = np.flatnonzero(counts)
    yield pa.record_batch({"rarest": pa.array(used - 1), "count": pa.array(counts[used])})


def assign(job: BuildJob, routes: shards.File, batches: Batches) -> Batches:
    """Subscriptions and keys with the number of their shard in front."""
    vocabulary, _ = shards.open_names(job.folder, job.names, job.plan, job.segment)
    place = shards.open_routes(job.folder, routes)
    for batch in batches:
        shard = place[1 + shards.rarest(batch.column(0), vocabulary, job.plan)]
        yield pa.RecordBatch.from_arrays(
            [pa.array(shard, pa.int32()), *batch.columns], ["shard", *batch.schema.names]
        )


def write_shard(job: BuildJob, batches: Batches) -> Batches:
    """Compile and write the shard of this task's rows."""
    _forget_peak()
    rows = list(batches)
    number = TaskContext.get().partitionId()
    vocabulary, key_names = shards.open_names(job.folder, job.names, job.plan, job.segment)
    total = sum(added_up(batch.column("hash")) for batch in rows)
    table = pa.Table.from_batches(rows) if rows else None
    del rows
    files = shards.write(
        job.folder,
        number,
        [] if table is None else table.column("subscription"),
        pa.array([], pa.int64()) if table is None else table.column("key"),
        vocabulary,
        job.plan,
        key_names,
        job.segment,
        shards.scratch(),
    )
    yield pa.record_batch(
        {
            "number": pa.array([number], pa.int32()),
            "files": [json.dumps(files)],
            "hash": pa.array([total]),
            "worker_bytes": pa.array([_peak_bytes()]),
        }
    )


def _forget_peak() -> None:
    """Reset the peak memory of this process, if the system allows it."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return


def _peak_bytes() -> int:
    """The peak resident memory since `_forget_peak`, or since the process started."""
    try:
        with open("/proc/self/status") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["VmHWM"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def read_shards(path: str, version: str, batches: Batches) -> Batches:
    """The subscriptions of the given shards, without removed ones."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for table in shards.subscriptions(path, version, number):
                yield from table.combine_chunks().to_batches()
