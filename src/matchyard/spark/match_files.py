"""match_files: Parquet files of events in, Parquet files of matches out, in workers alone.

    every task     reads some files, matches, writes one file into the folder of the job
    the driver     moves the files of the tasks that counted to one folder, and gives it its name

A task that is killed or runs twice leaves a file that nobody takes. The output appears whole, with `_SUCCESS`, or
not at all.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from matchyard import shards
from matchyard.errors import UsageError
from matchyard.spark.checks import (
    check_choice,
    event_of,
    names_of,
    place_of,
    places_of,
    plain_errors,
    quoted,
)
from matchyard.spark.devices import DEVICES
from matchyard.spark.leases import keeping, planning
from matchyard.spark.match import check_runs_on, result_schema
from matchyard.spark.session import find_session
from matchyard.spark.sources import ParquetWork, parquet_work
from matchyard.spark.tasks.job import MatchJob
from matchyard.spark.tasks.match_files import MATCHED, FilesJob, match_pieces

_ABANDONED_S = 86_400.0  # a folder of a job without writes for so long counts as abandoned


class Matched(NamedTuple):
    """What was written, and its figures."""

    version: str  # of the index
    events: int
    matches: int
    bad: int  # events that could not be read
    files: int
    seconds: float


def match_files(
    events: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    index: str | os.PathLike[str],
    output: str | os.PathLike[str],
    event: str | Sequence[str] | None = "tags",
    id: str | Sequence[str] = "id",
    unique: bool = False,
    form: str = "pairs",
    version: bool = False,
    bad: str = "raise",
    overwrite: bool = False,
    device: str = "auto",
    spark: SparkSession | None = None,
    at: str | int | None = None,
) -> Matched:
    """Match Parquet files with an index, and write the matches as Parquet files to a folder.

    Workers read and write the files themselves: this takes less than half the time of `match` between Spark's
    own reading and writing. `events` are paths or addresses of files and folders. Columns are those of the
    files, not fields of structs; the options mean what they mean for `match`, and `form` is its `output`. Every
    worker maps the whole index.

    The folder must not exist. With `overwrite` it is replaced, so a job that runs again writes nothing twice.
    """
    check_choice("form", form, ("pairs", "arrays"))
    check_choice("bad", bad, ("raise", "keep"))
    check_choice("device", device, DEVICES)
    session = find_session(spark)
    path, target = place_of(index), shards.without_links(place_of(output))
    places = places_of(events)
    _check_target(target, [path, *places], overwrite)
    start = time.perf_counter()
    with planning(path, at) as lease:
        manifest = shards.manifest_of(path, lease.version)
        check_runs_on(device, manifest)
        work = parquet_work(places, session)
        columns = _columns(work, event, id, manifest["engine"])
        string_keys = shards.has_string_keys(manifest)
        schema = result_schema(columns.types_of_ids, string_keys, form, version, bad == "keep")
        job = MatchJob(
            path, lease.version, schema.fieldNames(), string_keys, lease.holder, every=form == "arrays",
            arrays=form == "arrays", unique=unique, keep_bad=bad == "keep", with_version=version,
            device=device, caller="match_files", sha256=manifest["sha256"],
        )  # fmt: skip
        scratch = shards.beside(target, f"{_hidden(target, 'writing')}{uuid.uuid4().hex[:12]}")
        files_job = FilesJob(
            job,
            work=work.pieces,
            read=work.part([*columns.ids, *columns.event]),
            ids=columns.ids,
            event=columns.event,
            is_one_column=isinstance(event, str),
            folder=shards.below(scratch, "tasks"),
            written=_arrow_schema(work.part(columns.ids), job),
        )
        run = session.range(0, len(work.pieces), 1, len(work.pieces))
        done = keeping(run.mapInArrow(partial(match_pieces, files_job), MATCHED), lease)
    try:
        shards.make_folder(files_job.folder)  # tasks do not: they may end after this job
        with plain_errors():
            rows = done.toArrow().to_pylist()
        written = [row["file"] for row in rows]
        shards.publish_files(written, shards.below(scratch, "whole"), target, overwrite)
    finally:
        shards.remove_folder(scratch)
        shards.remove_abandoned(target, _hidden(target, "writing"), _ABANDONED_S)
    if overwrite:  # the new output is there, so nobody needs an old one that a killed driver left
        shards.remove_abandoned(target, _hidden(target, "replaced"), _ABANDONED_S)
    n_events, n_matches, n_bad = (
        sum(row[name] for row in rows) for name in ("events", "matches", "bad")
    )
    seconds = time.perf_counter() - start
    return Matched(lease.version, n_events, n_matches, n_bad, len(written), seconds)


def _hidden(target: str, what: str) -> str:
    """How the names of hidden folders beside the target begin, such as those in which its files are written."""
    last = target.partition("?")[0].rstrip("/").rpartition("/")[2]
    return f".{last}.{what}-"


def _check_target(target: str, others: Sequence[str], overwrite: bool) -> None:
    """Refuse an output that is there already, or that shares a folder with the events or the index."""
    for other in others:
        if shards.is_within(target, other) or shards.is_within(other, target):
            raise UsageError(f"the output {target} and {other} lie within each other")
    if shards.is_file(target):
        raise UsageError(f"{target} is a file; expected a folder, which may not be there yet")
    if shards.exists(target) and not overwrite:
        raise UsageError(f"{target} exists already: choose another folder, or overwrite=True")


class _Columns(NamedTuple):
    ids: list[str]
    event: list[str]
    types_of_ids: T.StructType


def _columns(
    work: ParquetWork, event: str | Sequence[str] | None, id: str | Sequence[str], engine: str
) -> _Columns:
    """The names of columns as they are in the files; refused if they cannot hold events of the engine."""
    if event is None and work.is_partitioned:
        raise UsageError(
            "the files lie in folders such as year=2026, whose values are not in the files: name the "
            "columns of the event, or use match"
        )
    whole = [quoted(name) for name in work.schema.names]
    asked = whole if event is None else names_of(event, "columns of the event")
    ids = [work.column(name, "ids of events") for name in names_of(id, "ids of events")]
    columns = [work.column(name, "events") for name in asked]
    empty = work.empty_frame([*columns, *ids])
    names = [quoted(name) for name in columns]
    event_of(empty, names[0] if isinstance(event, str) else names, engine)
    return _Columns(ids, columns, empty.select(*map(quoted, ids)).schema)


def _arrow_schema(ids: pa.Schema, job: MatchJob) -> pa.Schema:
    """The columns of the files, in the order of `result_schema`."""
    key = pa.string() if job.string_keys else pa.int64()
    kinds = [pa.list_(key) if job.arrays else key]
    kinds += [pa.int64()] * job.with_version + [pa.string()] * job.keep_bad
    rest = zip(job.names[len(ids) :], kinds, strict=True)
    return pa.schema([*ids, *(pa.field(name, kind) for name, kind in rest)])
