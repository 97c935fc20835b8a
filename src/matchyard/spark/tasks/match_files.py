"""The task of `match_files`: Parquet files in, one Parquet file out, for `DataFrame.mapInArrow`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from matchyard import shards
from matchyard.errors import StorageError
from matchyard.spark.tasks.job import Batches, MatchJob, open_for, renew
from matchyard.spark.tasks.match import matched
from matchyard.spark.tasks.rows import Layout
from matchyard.spark.tasks.sources import Piece, read_piece

MATCHED = "file string, events bigint, matches bigint, bad bigint"
_ROWS = 1 << 16  # events read at once
_GROUP_ROWS = 1 << 20  # of a group of rows in the files that are written, about…
_GROUP_BYTES = 1 << 27  # …unless they have more bytes


class FilesJob(NamedTuple):
    """The files of a match, and where its results go."""

    match: MatchJob
    work: list[list[Piece]]  # of each task
    read: pa.Schema  # the columns that are read
    ids: list[str]
    event: list[str]  # its columns
    is_one_column: bool  # the event is one column, not a struct of several
    folder: str  # for the files of tasks
    written: pa.Schema  # the columns of these files


def match_pieces(job: FilesJob, batches: Batches) -> Batches:
    """Match the files of this task; a row with the name of the file that was written, and its figures."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield _matched(job, number)


def _matched(job: FilesJob, number: int) -> pa.RecordBatch:
    index = open_for(job.match, job.match.version)
    layout = Layout(job.match, job.match.version)
    name = shards.below(job.folder, f"part-{number:05}-{uuid.uuid4().hex}.parquet")
    n_events = n_bad = 0
    texts = [field.name for field in job.written if field.type == pa.string()]
    with (
        shards.created(name, makes_folder=False) as file,
        pq.ParquetWriter(file, job.written, use_dictionary=texts) as writer,
    ):
        waiting: list[pa.RecordBatch] = []
        n_rows = n_bytes = 0
        for ids, events in _events(job, number):
            renew(job.match, job.match.version)
            n_events += len(events)
            for rows in matched(index, layout, ids, events):
                if job.match.keep_bad:
                    n_bad += len(rows) - rows.column("reason").null_count
                waiting.append(rows.cast(job.written))
                n_rows, n_bytes = n_rows + len(rows), n_bytes + rows.nbytes
                if n_rows >= _GROUP_ROWS or n_bytes >= _GROUP_BYTES:
                    writer.write_table(pa.Table.from_batches(waiting))
                    waiting, n_rows, n_bytes = [], 0, 0
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))
    return pa.RecordBatch.from_pylist(
        [{"file": name, "events": n_events, "matches": layout.n_pairs, "bad": n_bad}]
    )


def _events(job: FilesJob, number: int) -> Iterator[tuple[list[pa.Array], pa.Array]]:
    """The ids and events of the files of a task, some at a time."""
    for piece in job.work[number]:
        for rows in read_piece(piece, job.read, _ROWS):
            columns = [rows.column(name) for name in job.event]
            event = (
                columns[0] if job.is_one_column else pa.StructArray.from_arrays(columns, job.event)
            )
            yield [_as_in_first(rows, name, job, piece) for name in job.ids], event


def _as_in_first(rows: pa.RecordBatch, name: str, job: FilesJob, piece: Piece) -> pa.Array:
    """A column of ids in the type that it has in the first file."""
    try:
        return rows.column(name).cast(job.written.field(name).type)
    except pa.ArrowException as error:
        raise StorageError(
            f"{piece.path}: column {name!r} does not fit the type of the first file: {error}"
        ) from None
