"""The tasks of a build: functions over Arrow batches, for `DataFrame.mapInArrow`.

Spark pickles them by name (the package is installed on the workers), with a NamedTuple of values.
Rows and tables are files in the scratch folder of the new version; only their descriptions go to the driver.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from matchyard import shards
from matchyard.errors import ParseError, UsageError
from matchyard.spark.tasks.notes import noted
from matchyard.spark.tasks.sources import Batches, Reader

STAGED = "parts array<string>, worker_bytes bigint"
DEALT = "parts array<string>, filed binary, worker_bytes bigint"
WRITTEN = "number int, files string, worker_bytes bigint"


class BuildJob(NamedTuple):
    """One segment of a new version."""

    plan: shards.Plan
    folder: str
    segment: int
    names: list[shards.File]  # the files of the vocabulary and of the keys


def stage(plan: shards.Plan, folder: str, read: Reader, batches: Batches) -> Batches:
    """Read subscriptions and keys, and write them as numbers."""
    _forget_peak()
    current: list[pa.Table] = []

    def rows() -> Iterator[tuple[Any, Any]]:
        for table in read(batches):
            current[:] = [table]
            yield table.column(0), table.column(1)

    try:
        parts = list(shards.stage(folder, rows(), plan, shards.scratch()))
    except ParseError as error:
        raise noted(_named(error, current[0], plan)) from None
    if parts:
        yield _row(parts=[part.to_json() for part in parts], worker_bytes=_peak_bytes())


def _named(error: ParseError, rows: pa.Table, plan: shards.Plan) -> ParseError:
    """Put the key of the first bad subscription into its error, since Spark's rows have no numbers."""
    first, rest = 0, rows.column(0)
    while len(rest) > 1:  # halves, since most rows are good
        half = len(rest) // 2
        if _error_of(rest.slice(0, half), plan) is None:
            first, rest = first + half, rest.slice(half)
        else:
            rest = rest.slice(0, half)
    alone = _error_of(rest, plan)
    return error if alone is None else shards.of_key(alone, rows.column(1)[first].as_py())


def _error_of(subscriptions: Any, plan: shards.Plan) -> ParseError | None:
    try:
        shards.check(subscriptions, plan)
    except ParseError as error:
        return error
    except UsageError:  # of the algorithm; `stage` reads all rows before it is asked
        return None
    return None


def vet_rows(plan: shards.Plan, names: list[str], batches: Batches) -> Batches:
    """Put the reasons why subscriptions cannot be read behind the other columns; they are the first one."""
    for batch in batches:
        reasons: list[str | None] = [None] * len(batch)
        for row, reason in shards.refused(batch.column(0), plan).items():
            reasons[row] = reason
        columns = [*batch.columns[1:], pa.array(reasons, pa.string())]
        yield pa.RecordBatch.from_arrays(columns, names)


def deal(job: BuildJob, routes: shards.File, asked: list[list[str]], batches: Batches) -> Batches:
    """Deal the rows of some parts out to shards."""
    _forget_peak()
    vocabulary, key_names = shards.open_names(job.folder, job.names, job.plan, job.segment)
    place = shards.open_routes(job.folder, routes)
    for batch in batches:
        for text in [text for number in batch.column(0).to_pylist() for text in asked[number]]:
            part = shards.Part.of_json(text)
            dealt, is_filed = shards.deal(
                job.folder, part, vocabulary, key_names, place, job.plan, shards.scratch()
            )
            yield _row(
                parts=[one.to_json() for one in dealt],
                filed=np.packbits(is_filed).tobytes(),
                worker_bytes=_peak_bytes(),
            )


def write_shard(job: BuildJob, asked: list[list[str]], batches: Batches) -> Batches:
    """Compile and write the shard of some parts."""
    _forget_peak()
    vocabulary, key_names = shards.open_names(job.folder, job.names, job.plan, job.segment)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            parts = [shards.Part.of_json(text) for text in asked[number]]
            table = shards.compiled(job.folder, parts, vocabulary, key_names, job.plan)
            files = shards.write_table(job.folder, number, table, job.segment, shards.scratch())
            row = _row(number=number, files=json.dumps(files), worker_bytes=_peak_bytes())
            yield row.set_column(0, "number", row.column(0).cast(pa.int32()))


def _row(**values: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([values])


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


def read_shards(lease: shards.Lease, batches: Batches) -> Batches:
    """The subscriptions of the given shards, without removed ones."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for table in shards.subscriptions(lease.path, lease.version, number):
                shards.renew(lease)
                yield from table.combine_chunks().to_batches()
