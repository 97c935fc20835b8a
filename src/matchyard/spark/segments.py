"""Compile subscriptions into a segment of a new version, in Spark's tasks.

every task     stage       reads its rows once, and writes them as numbers to scratch files
the driver                 one vocabulary, ranges of rarest names
every task     deal        the rows of a scratch file, by range
every task     write       compiles one range
the driver                 joins the ranges to one table, if the algorithm can
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from matchyard import shards
from matchyard.errors import UsageError
from matchyard.spark.sources import Source, n_cores
from matchyard.spark.tasks import build as tasks

_PER_TASK = 2_500_000  # subscriptions that one task compiles unless a number of shards is given
_PER_DEAL = 1_000_000  # subscriptions that one task deals out, if their parts are small
_PER_SHARD = 64_000_000  # subscriptions joined into one table, if the algorithm can join
_IN_DRIVER = 50_000  # subscriptions that are compiled without another job


class Made(NamedTuple):
    """The files of a segment, and figures."""

    files: list[Any]
    n_shards: int
    n_rows: int
    worker_bytes: int


def make_segment(
    source: Source,
    folder: Any,
    plan: shards.Plan,
    segment: int = 0,
    n_shards: int | None = None,
    base: shards.Carried | None = None,
) -> Made:
    """Compile rows into a segment of a new version; no rows to append make no segment."""
    parts, peak = _stage(source, os.fspath(folder), plan)
    n_rows = sum(part.n_rows for part in parts)
    known = base.key_names if base else None
    _check_keys(source.string_keys, n_rows, base)
    if n_rows and not source.string_keys:
        known = None  # there are no keys yet, so they may be of either type
    if base is not None and not n_rows:
        return Made(shards.write_key_names(folder, known), 0, 0, 0)
    vocabulary, key_names = shards.merged(folder, parts, plan, known, source.string_keys)
    files = shards.write_names(folder, vocabulary, key_names, segment)
    job = tasks.BuildJob(plan, os.fspath(folder), segment, files)
    n_tasks = n_shards or max(1, -(-n_rows // _PER_TASK))
    is_joined = n_shards is None and n_tasks > 1 and shards.can_join(plan)
    if n_tasks == 1 and n_rows <= _IN_DRIVER:
        table = shards.compiled(folder, parts, vocabulary, key_names, plan)
        made = [shards.write_table(folder, 0, table, segment)]
        return Made([*files, *made[0]], 1, n_rows, peak)
    by_shard, routes = [parts], np.zeros(1, np.int32)
    if n_tasks > 1:
        n_filed = shards.sampled(folder, parts, vocabulary, plan)
        routes = shards.cut(n_filed * len(n_filed) + 1, n_tasks)
        by_shard, routes, dealt_peak = _deal(source, job, parts, routes, n_tasks)
        peak = max(peak, dealt_peak)
    written, write_peak = _write(source, job, by_shard)
    if is_joined:
        step = -(-n_tasks // -(-n_rows // _PER_SHARD))
        written = [
            shards.join(folder, number, written[first : first + step], plan, segment)
            for number, first in enumerate(range(0, n_tasks, step))
        ]
        routes = np.where(routes < 0, routes, routes // step).astype(np.int32)
    else:
        written = [shards.adopt(folder, part) for part in written]
    if len(written) > 1:
        files = [*files, *shards.write_routes(folder, routes, segment)]
    of_shards = [file for part in written for file in part]
    return Made([*files, *of_shards], len(written), n_rows, max(peak, write_peak))


def _check_keys(is_string: bool, n_rows: int, base: shards.Carried | None) -> None:
    known = base.key_names if base else None
    if base is not None and base.has_keys and n_rows and is_string != (known is not None):
        there, here = ("strings", "integers") if known is not None else ("integers", "strings")
        raise UsageError(f"the keys of this index are {there}; those of the changes are {here}")


def _stage(source: Source, folder: str, plan: shards.Plan) -> tuple[list[shards.Part], int]:
    """Read all rows once; returns the parts and the peak memory of a worker."""
    stage = partial(tasks.stage, plan, folder, source.read)
    rows = _rows(source.work.mapInArrow(stage, tasks.STAGED))
    parts = [shards.Part.of_json(text) for row in rows for text in row["parts"]]
    return parts, max((row["worker_bytes"] for row in rows), default=0)


def _deal(
    source: Source,
    job: tasks.BuildJob,
    parts: Sequence[shards.Part],
    routes: NDArray[np.int32],
    n_tasks: int,
) -> tuple[list[list[shards.Part]], NDArray[np.int32], int]:
    """The parts of each shard, and routes without the names under which nothing is filed."""
    file, *_ = shards.write_routes(job.folder, routes, job.segment, shards.scratch())
    n_rows = sum(part.n_rows for part in parts)
    n_deals = min(len(parts), max(n_cores(source.spark), -(-n_rows // _PER_DEAL)))
    largest_first = sorted(parts, key=lambda part: -part.n_rows)
    asked = [
        [part.to_json() for part in largest_first[number::n_deals]] for number in range(n_deals)
    ]
    rows = _run(source, partial(tasks.deal, job, file, asked), tasks.DEALT, n_deals)
    by_shard: list[list[shards.Part]] = [[] for _ in range(n_tasks)]
    is_filed = np.zeros(len(routes), np.bool_)
    for row in rows:
        bits = np.frombuffer(row["filed"], np.uint8)
        is_filed |= np.unpackbits(bits, count=len(routes)).astype(np.bool_)
        for text in row["parts"]:
            part = shards.Part.of_json(text)
            by_shard[part.shard].append(part)
    peak = max((row["worker_bytes"] for row in rows), default=0)
    return by_shard, np.where(is_filed, routes, -1).astype(np.int32), peak


def _write(
    source: Source, job: tasks.BuildJob, by_shard: Sequence[Sequence[shards.Part]]
) -> tuple[list[list[shards.File]], int]:
    """Compile each shard in a task of its own; returns the files of each."""
    asked = [[part.to_json() for part in parts] for parts in by_shard]
    rows = _run(source, partial(tasks.write_shard, job, asked), tasks.WRITTEN, len(asked))
    files = {row["number"]: json.loads(row["files"]) for row in rows}
    written = [[shards.File(*file) for file in files[number]] for number in range(len(asked))]
    return written, max((row["worker_bytes"] for row in rows), default=0)


def _run(
    source: Source, task: Callable[..., Any], schema: str, n_tasks: int
) -> list[dict[str, Any]]:
    """Run a task for each number from 0 on; returns their rows."""
    return _rows(source.spark.range(0, n_tasks, 1, n_tasks).mapInArrow(task, schema))


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows
