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

from matchyard import shards
from matchyard.errors import UsageError
from matchyard.spark.checks import check_choice, event_of, place_of, places_of, plain_errors, quoted
from matchyard.spark.devices import DEVICES
from matchyard.spark.leases import keeping, planning
from matchyard.spark.match import check_runs_on, result_schema
from matchyard.spark.session import find_session
from matchyard.spark.sources import ParquetWork, parquet_work
from matchyard.spark.tasks.job import MatchJob
from matchyard.spark.tasks.match_files import MATCHED, FilesJob, match_pieces

_ABANDONED_S = (
    86_400.0  # after so long without a write, the folder of a job belongs to a killed driver
)


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
    with planning(path) as use:
        files_job, scratch = _planned(
            use,
            parquet_work(places, session),
            target,
            event,
            id,
            unique,
            form,
            version,
            bad,
            device,
        )
        run = session.range(0, len(files_job.work), 1, len(files_job.work))
        done = keeping(run.mapInArrow(partial(match_pieces, files_job), MATCHED), use)
    try:
        with plain_errors():
            rows = done.toArrow().to_pylist()
        written = [row["file"] for row in rows]
        shards.publish_files(written, shards.below(scratch, "whole"), target, overwrite)
    finally:
        shards.remove_folder(scratch)
        shards.remove_abandoned(target, _scratch_prefix(target), _ABANDONED_S)
    n_events, n_matches, n_bad = (
        sum(row[name] for row in rows) for name in ("events", "matches", "bad")
    )
    seconds = time.perf_counter() - start
    return Matched(use.version, n_events, n_matches, n_bad, len(written), seconds)


def _scratch_prefix(target: str) -> str:
    """How the names of folders begin in which files for the target are written."""
    last = target.partition("?")[0].rstrip("/").rpartition("/")[2]
    return f".{last}.writing-"


def _check_target(target: str, others: Sequence[str], overwrite: bool) -> None:
    """Refuse an output that is there already, or that shares a folder with the events or the index."""
    for other in others:
        if shards.is_within(target, other) or shards.is_within(other, target):
            raise UsageError(f"the output {target} and {other} lie within each other")
    if shards.is_file(target):
        raise UsageError(f"{target} is a file; expected a folder, which may not be there yet")
    if shards.exists(target) and not overwrite:
        raise UsageError(f"{target} exists already: choose another folder, or overwrite=True")


def _planned(
    use: shards.Held,
    work: ParquetWork,
    target: str,
    event: str | Sequence[str] | None,
    id: str | Sequence[str],
    unique: bool,
    form: str,
    version: bool,
    bad: str,
    device: str,
) -> tuple[FilesJob, str]:
    """The job of the tasks, and the folder that they write to."""
    manifest = shards.manifest_of(use.path, use.version)
    check_runs_on(device, manifest)
    if event is None and work.is_partitioned:
        raise UsageError(
            "the files lie in folders such as year=2026, whose values are not in the files: name the "
            "columns of the event, or use match"
        )
    whole = [quoted(name) for name in work.schema.names]
    given = whole if event is None else [event] if isinstance(event, str) else list(event)
    asked = [work.column(name, "events") for name in given]
    names = [work.column(n, "names of events") for n in ([id] if isinstance(id, str) else id)]
    like = work.like([*asked, *names])
    columns = [quoted(name) for name in asked]
    event_of(like, columns[0] if isinstance(event, str) else columns, manifest["engine"])
    string_keys = shards.has_string_keys(manifest)
    ids = like.select(*map(quoted, names)).schema
    schema = result_schema(ids, string_keys, form, version, bad == "keep")
    job = MatchJob(
        use.path, use.version, streaming=False, follow=False, record=None, stamped=False,
        names=schema.fieldNames(), merged=False, every=form == "arrays", unique=unique,
        arrays=form == "arrays", keep_bad=bad == "keep", with_version=version,
        string_keys=string_keys, device=device,
    )  # fmt: skip
    written_as = _arrow_schema([work.schema.field(name) for name in names], job)
    scratch = shards.beside(target, f"{_scratch_prefix(target)}{uuid.uuid4().hex[:12]}")
    is_column, folder = isinstance(event, str), shards.below(scratch, "tasks")
    wanted = work.part([*names, *asked])
    return FilesJob(job, work.pieces, wanted, names, asked, is_column, folder, written_as), scratch


def _arrow_schema(ids: list[pa.Field], job: MatchJob) -> pa.Schema:
    """The columns of the files, in the order of `result_schema`."""
    key = pa.string() if job.string_keys else pa.int64()
    kinds = [pa.list_(key) if job.arrays else key]
    kinds += [pa.int64()] * job.with_version + [pa.string()] * job.keep_bad
    rest = zip(job.names[len(ids) :], kinds, strict=True)
    return pa.schema([*ids, *(pa.field(name, kind) for name, kind in rest)])
