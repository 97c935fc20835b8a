"""The tasks of a match: functions over Arrow batches, for `DataFrame.mapInArrow`.

Spark pickles them by name (the package is installed on the workers), with a NamedTuple of values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from matchyard import shards
from matchyard.errors import ParseError, shorten
from matchyard.spark.tasks.job import Batches, MatchJob, open_for, open_index, with_version
from matchyard.spark.tasks.notes import noted
from matchyard.spark.tasks.rows import Layout

_ID_LENGTH = 100  # a longer id is cut off in messages


def match_replicated(job: MatchJob, batches: Batches) -> Batches:
    """Match events with the whole index."""
    version, batches = with_version(job, batches)
    index, layout = open_for(job, version), Layout(job, version)
    for batch in batches:
        yield from matched(index, layout, batch.columns[:-1], batch.columns[-1])


def matched(index: Any, layout: Layout, ids: list[pa.Array], events: pa.Array) -> Batches:
    """Match a column in steps whose results stay small, and set bad events aside."""
    find = index.match_unique if layout.job.unique else index.match
    start = 0
    while start < len(events):
        some = events.slice(start, layout.step)
        names = [column.slice(start, layout.step) for column in ids]
        start += layout.step
        try:
            matches = find(some)
        except ParseError:
            good, reasons = sift(index, layout.job, names, some)
            yield from layout.bad([column.filter(pc.invert(good)) for column in names], reasons)
            names, matches = [column.filter(good) for column in names], find(some.filter(good))
        yield from layout.rows(names, matches)
        layout.learn(len(some), matches.work.matches)


def explain_rows(lease: shards.Lease, event: int, key: int, into: str, batches: Batches) -> Batches:
    """Add a column with the reasons of pairs, given the numbers of their columns."""
    index = open_index(lease.path, lease.version, "cpu")
    for batch in batches:
        shards.renew(lease)
        column = batch.column(event)
        events = column.to_pylist(maps_as_pydicts="strict")
        if pa.types.is_struct(column.type) or pa.types.is_map(column.type):
            events = [_without_nulls(one) for one in events]
        pairs = zip(events, batch.column(key).to_pylist(), strict=True)
        try:
            why = [
                None if one is None or name is None else index.explain(one, name)
                for one, name in pairs
            ]
        except ParseError as error:
            raise noted(error.saying(f"an event cannot be explained: {error}")) from None
        names = [*batch.schema.names, into]
        yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(why, pa.string())], names)


def _without_nulls(value: Any) -> Any:
    """An event as `match` sees it: null fields of structs and entries of maps are absent."""
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return value


def _shown(id: Any) -> str:
    """The id of an event for a message: short, and on one line."""
    text = str(id)
    return text if len(text) <= _ID_LENGTH and text.isprintable() else shorten(id)


def sift(
    index: Any, job: MatchJob, ids: list[pa.Array], events: pa.Array
) -> tuple[pa.Array, pa.Array]:
    """A mask of the readable events, and the reasons of the others; an error unless `keep_bad`."""
    bad = index.bad_events(events)
    if not job.keep_bad:
        row, error = next(iter(bad.items()))
        named = ", ".join(_shown(column[row].as_py()) for column in ids)
        advice = f"{job.caller}(…, bad='keep') sets such events aside with the reason"
        raise noted(error.saying(f"{f'event {named}' if ids else 'an event'}: {error}; {advice}"))
    good = np.ones(len(events), bool)
    good[list(bad)] = False
    return pa.array(good), pa.array([str(error) for error in bad.values()], pa.string())
