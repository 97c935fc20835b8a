"""The tasks of a sharded match: route events to the shards that can match them, match there, and
merge the parts if each event has one row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from matchyard import shards
from matchyard.errors import ParseError, UsageError
from matchyard.spark.tasks.job import Batches, MatchJob, identity, keep_open, open_for, with_version
from matchyard.spark.tasks.match import matched, sift
from matchyard.spark.tasks.rows import Layout

_HANDED_ON = 1 << 16  # merged rows in one batch
_SENT_BYTES = 1 << 28  # of events in one routed batch; a single event may exceed it


def route(job: MatchJob, batches: Batches) -> Batches:
    """Send each event to the shards that can match it: shard, reason, names, version, event.

    A bad event goes to any shard with its reason. If each event needs a row, an event that no shard
    can match also goes to any shard.
    """
    version, batches = with_version(job, batches)
    what = identity(job.path, version)
    routes = keep_open(("routes", *what), lambda: shards.Routes(job.path, version))
    for batch in batches:
        *ids, events = batch.columns
        # Equal events go to the same shards, so that `merge_shards` can count them.
        somewhere = np.asarray(ids[0]) if job.merged else np.arange(len(events))
        somewhere = (somewhere % routes.n_shards).astype(np.int32)
        good, reasons = np.arange(len(events)), pa.nulls(len(events), pa.string())
        try:
            rows, shard = routes.of(events)
        except ParseError:
            index = keep_open(("reader", *what), lambda: shards.open_shards(job.path, version, ()))
            is_good, why = sift(index, job, ids, events)
            good, bad = (np.flatnonzero(np.asarray(mask)) for mask in (is_good, pc.invert(is_good)))
            rows, shard = routes.of(events.filter(is_good))
            rows = np.concatenate([good[rows], bad])
            shard = np.concatenate([shard, somewhere[bad]])
            place = np.full(len(events), -1)
            place[bad] = np.arange(len(bad))
            reasons = why.take(pa.array(place, mask=place < 0))
        if job.every:
            lost = np.setdiff1d(good, rows)
            rows = np.concatenate([rows, lost])
            shard = np.concatenate([shard, somewhere[lost]])
        for some in _portions(rows, events):
            at = pa.array(rows[some])
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(shard[some]),
                    reasons.take(at),
                    *(column.take(at) for column in ids),
                    pa.repeat(version, len(at)),
                    events.take(at),
                ],
                ["_shard", "_reason", *batch.schema.names[:-1], "_version", "_event"],
            )


def _portions(rows: NDArray[np.int64], events: pa.Array) -> Iterator[slice]:
    """Slices of the rows with a limited size of events: copies of long documents for many shards can
    exceed the limit of a column."""
    sizes = np.full(len(events), events.nbytes // max(1, len(events)))
    if pa.types.is_binary(events.type) or pa.types.is_string(events.type):
        sizes = np.asarray(pc.fill_null(pc.binary_length(events), 0))
    portion = np.cumsum(sizes[rows], dtype=np.int64) // _SENT_BYTES
    cuts = [0, *np.flatnonzero(np.diff(portion)) + 1, len(rows)]
    yield from (slice(start, stop) for start, stop in pairwise(cuts))


def match_shards(job: MatchJob, batches: Batches) -> Batches:
    """Match routed events with their shards, one shard after the other."""
    layout = Layout(job, job.version)
    for batch in batches:
        if not len(batch):
            continue
        version = batch.column(-2)[0].as_py()  # the same for a whole micro-batch
        layout.version = int(version)
        shard = np.asarray(batch.column(0))
        is_bad = pc.is_valid(batch.column(1))
        if is_bad.true_count:
            bad = batch.filter(is_bad)
            yield from layout.bad(_names_of(job, bad), bad.column(1))
        for number in np.unique(shard):
            wanted = pc.and_not(pa.array(shard == number), is_bad)
            some = batch if wanted.true_count == len(batch) else batch.filter(wanted)
            if len(some):
                index = open_for(job, version, int(number))
                yield from matched(index, layout, _names_of(job, some), some.columns[-1])


def _names_of(job: MatchJob, batch: pa.RecordBatch) -> list[pa.Array]:
    """The columns that name an event; the shard comes first if shards are merged later."""
    columns: list[pa.Array] = batch.columns
    return [columns[0], *columns[2:-2]] if job.merged else columns[2:-2]


def merge_shards(job: MatchJob, batches: Batches) -> Batches:
    """Merge the shards' matches of each event: shard, two hashes, names, keys, and so on.

    A 128-bit hash of names and content identifies an event: a number by position could change when
    Spark runs a task again. Equal events went to the same shards, each equally often.
    """
    parts_of_shards = list(batches)
    if not parts_of_shards:
        return
    table = pa.Table.from_batches(parts_of_shards).combine_chunks()
    del parts_of_shards
    shard, first, second = (table.column(n).to_numpy() for n in range(3))
    order = np.lexsort((shard, second, first))
    shard, first, second = shard[order], first[order], second[order]
    is_event = np.ones(len(order), bool)
    is_event[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    is_part = is_event.copy()
    is_part[1:] |= shard[1:] != shard[:-1]
    parts = np.flatnonzero(is_part)
    is_event = is_event[parts]
    copies = np.diff(np.append(parts, len(order)))[is_event]
    table = table.take(pa.array(order[parts]))  # one row per event and shard
    n_ids = len(job.names) - 1 - job.with_version - job.keep_bad
    lists = table.column(3 + n_ids).combine_chunks()
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    owners, keys = np.repeat(np.cumsum(is_event) - 1, lengths), lists.flatten()
    if job.unique:
        owners, keys = _unique(owners, keys)
    if len(owners) >= 1 << 31:
        raise UsageError(
            "more than 2^31 matches in one partition: raise spark.sql.shuffle.partitions"
        )
    starts = np.searchsorted(owners, np.arange(len(copies) + 1)).astype(np.int32)
    is_bad = lists.is_null().filter(pa.array(is_event))
    merged = pa.ListArray.from_arrays(pa.array(starts), keys, mask=is_bad)
    events = table.filter(pa.array(is_event))
    names = [column.combine_chunks() for column in events.columns[3 : 3 + n_ids]]
    rest = [column.combine_chunks() for column in events.columns[4 + n_ids :]]
    at = pa.array(np.repeat(np.arange(len(copies)), copies))
    rows = pa.RecordBatch.from_arrays([c.take(at) for c in (*names, merged, *rest)], job.names)
    if job.arrays:
        yield from (rows.slice(at, _HANDED_ON) for at in range(0, len(rows), _HANDED_ON))
        return
    lists = rows.column(n_ids)
    pairs = rows.take(pc.list_parent_indices(lists))
    pairs = pairs.set_column(n_ids, job.names[n_ids], lists.flatten())
    yield from (pairs.slice(at, _HANDED_ON) for at in range(0, len(pairs), _HANDED_ON))
    if lists.null_count:
        bad = rows.filter(lists.is_null())
        yield bad.set_column(n_ids, job.names[n_ids], pa.nulls(len(bad), keys.type))


def _unique(owners: NDArray[np.int64], keys: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Each key once per event."""
    codes = keys if pa.types.is_integer(keys.type) else keys.dictionary_encode().indices
    numbers = np.asarray(codes)
    order = np.lexsort((numbers, owners))
    owners, numbers = owners[order], numbers[order]
    is_new = np.ones(len(owners), bool)
    is_new[1:] = (owners[1:] != owners[:-1]) | (numbers[1:] != numbers[:-1])
    return owners[is_new], keys.take(pa.array(order[is_new]))
