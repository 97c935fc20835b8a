"""What a match runs in Python workers: functions over Arrow batches, for `DataFrame.mapInArrow`.

They travel by name (the package is installed on the workers), with a NamedTuple of plain values.
An opened index stays in its worker process, which Spark uses again for the next task.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import TaskContext

import matchyard as my
from matchyard import shards
from matchyard.errors import ParseError, UsageError

Batches = Iterator[pa.RecordBatch]
_OPEN = 4  # indexes, or shards of one, that a worker keeps open


class MatchJob(NamedTuple):
    """How events are matched; the columns are the names of the events, then the events."""

    path: str
    version: str  # when the plan was made
    follow: bool  # each micro-batch takes the version that is current when it begins
    record: str | None  # folder where these are written down, instead of the index
    stamped: bool  # before the event comes the moment at which its micro-batch began
    names: list[str]  # of the columns that come out
    merged: bool  # shards are merged later: the row of an event comes out too, before its names
    unique: bool
    arrays: bool
    keep_bad: bool
    with_version: bool
    string_keys: bool


_opened: OrderedDict[tuple[Any, ...], Any] = OrderedDict()


def _keep_open(key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    if key not in _opened:
        while len(_opened) >= _OPEN:
            _opened.popitem(last=False)
        _opened[key] = make()
    _opened.move_to_end(key)
    return _opened[key]


def open_index(path: str, version: str, shard: int | None = None) -> Any:
    """The index, or one shard of it, opened once per worker."""
    wanted = None if shard is None else [shard]
    what = ("index", *identity(path, version), shard)
    return _keep_open(what, lambda: shards.open_shards(path, version, wanted))


def identity(path: str, version: str) -> tuple[str, str, str]:
    """What tells a version from another; an index may be removed and made anew at its path."""
    return path, version, shards.manifest_of(path, version)["sha256"]


def with_version(job: MatchJob, batches: Batches) -> tuple[str, Batches]:
    """The version for this task, one for all tasks of a micro-batch; and the batches, without the
    moment at which that began."""
    if not job.follow:
        return job.version, batches
    context = TaskContext.get()
    stream = context.getLocalProperty("sql.streaming.queryId")
    batch = context.getLocalProperty("streaming.sql.batchId")
    if stream is not None and batch is not None:
        version = shards.version_of_batch(job.path, stream, int(batch), job.record)
        return version, (_without_stamp(one) for one in batches) if job.stamped else batches
    # Over Connect, what foreachBatch runs is told neither.
    first = next(batches, None)
    if first is None or not len(first):
        return job.version, iter(())
    if not job.stamped:
        raise UsageError("follow=True works in a running stream, and this task is not part of one")
    version = shards.version_of_batch(job.path, "", first.column(-2)[0].as_py(), job.record)
    return version, (_without_stamp(one) for one in chain([first], batches))


def _without_stamp(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.remove_column(batch.num_columns - 2)


def match_replicated(job: MatchJob, batches: Batches) -> Batches:
    """Match events with the whole index."""
    version, batches = with_version(job, batches)
    index, layout = open_index(job.path, version), Layout(job, version)
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
            found = find(some)
        except ParseError:
            good, reasons = sift(index, layout.job, names, some)
            yield from layout.bad([column.filter(pc.invert(good)) for column in names], reasons)
            names, found = [column.filter(good) for column in names], find(some.filter(good))
        yield from layout.rows(names, found)
        layout.learn(len(some), found.work.matches)


def sift(
    index: Any, job: MatchJob, ids: list[pa.Array], events: pa.Array
) -> tuple[pa.Array, pa.Array]:
    """Which events can be read, and for the others why not; an error unless they are to be kept."""
    bad = _bad_rows(index, events, 0)
    if not job.keep_bad:
        row, reason = bad[0]
        named = ", ".join(str(column[row].as_py()) for column in ids)
        raise ParseError(
            f"event {named}: {reason}; bad='keep' sets such events aside with the reason"
        )
    good = np.ones(len(events), bool)
    good[[row for row, _ in bad]] = False
    return pa.array(good), pa.array([reason for _, reason in bad], pa.string())


def _bad_rows(index: Any, events: pa.Array, first: int) -> list[tuple[int, str]]:
    """Bad events and the reasons, found by halving, since most events are good."""
    try:
        index.check(events)
        return []
    except ParseError as error:
        if len(events) == 1:
            return [(first, _reason(index, events[0].as_py(), error))]
    half = len(events) // 2
    return [
        *_bad_rows(index, events.slice(0, half), first),
        *_bad_rows(index, events.slice(half), first + half),
    ]


def _reason(index: Any, value: Any, error: ParseError) -> str:
    try:
        index.parse(value)
    except ParseError as found:
        return str(found)
    return str(error).removeprefix("row 0 ")


class Layout:
    """Matches as the rows that the plan promises."""

    _LEAST, _MOST = 256, 1 << 16  # events in one step
    _PAIRS = 1 << 20  # that a step should find, and the most rows of a batch that is handed on

    def __init__(self, job: MatchJob, version: str) -> None:
        self.job, self.version = job, int(version)
        self.step = 4096  # events to be matched at once
        self.key = pa.string() if job.string_keys else pa.int64()

    def learn(self, n_events: int, n_pairs: int) -> None:
        """Take as many events next as should find about as many pairs as a step may."""
        fitting = int(n_events * self._PAIRS / max(1, n_pairs))
        self.step = max(self._LEAST, min(fitting, self._MOST))

    def rows(self, ids: list[pa.Array], found: my.Matches) -> Batches:
        """The rows of good events."""
        if self.job.arrays:
            for part, start in zip(found.parts, _starts(found)):
                n_events = len(part.event_start) - 1
                lists = pa.ListArray.from_arrays(
                    pa.array(part.event_start, pa.int32()), self._keys(part.keys, found)
                )
                yield self._batch([c.slice(start, n_events) for c in ids], lists, None)
            return
        for part, start in zip(found.parts, _starts(found)):
            numbers = np.arange(start, start + len(part.event_start) - 1)
            events = np.repeat(numbers, np.diff(part.event_start))
            for first in range(0, len(events), self._PAIRS):
                some = slice(first, first + self._PAIRS)
                at = pa.array(events[some])
                keys = self._keys(part.keys[some], found)
                yield self._batch([column.take(at) for column in ids], keys, None)

    def bad(self, ids: list[pa.Array], reasons: pa.Array) -> Batches:
        """The rows of bad events: no key, but a reason."""
        if not len(reasons):
            return
        kind = pa.list_(self.key) if self.job.arrays else self.key
        yield self._batch(ids, pa.nulls(len(reasons), kind), reasons)

    def _keys(self, keys: NDArray[np.int64], found: my.Matches) -> pa.Array:
        if not self.job.string_keys:
            return pa.array(keys)
        if found.key_names is None:  # an index without subscriptions
            return pa.array([], pa.string())
        return found.key_names.take(pa.array(keys)).cast(pa.string())

    def _batch(self, ids: list[pa.Array], keys: pa.Array, reasons: pa.Array | None) -> Any:
        columns = [*ids, keys]
        if self.job.with_version:
            columns.append(pa.array(np.full(len(keys), self.version, np.int64)))
        if self.job.keep_bad:
            columns.append(pa.nulls(len(keys), pa.string()) if reasons is None else reasons)
        return pa.RecordBatch.from_arrays(columns, self.job.names)


def _starts(found: my.Matches) -> list[int]:
    ends = np.cumsum([0, *(len(part.event_start) - 1 for part in found.parts)])
    return [int(end) for end in ends[:-1]]


# -------------------------------------------------------------------- shard by shard


def route(job: MatchJob, batches: Batches) -> Batches:
    """Send each event to the shards that can match it: shard, row, reason, names, version, event.

    A row is a number that no other event of this job has. A bad event is sent somewhere with its
    reason, and so is one that no shard can match where each event needs a row.
    """
    version, batches = with_version(job, batches)
    what = identity(job.path, version)
    routes = _keep_open(("routes", *what), lambda: shards.Routes(job.path, version))
    first = TaskContext.get().partitionId() << 40
    for batch in batches:
        *ids, events = batch.columns
        n_events, reasons = len(events), pa.nulls(len(events), pa.string())
        good = np.arange(n_events)
        try:
            rows, shard = routes.of(events)
        except ParseError:
            index = _keep_open(("reader", *what), lambda: shards.open_shards(job.path, version, ()))
            is_good, why = sift(index, job, ids, events)
            good, bad = (np.flatnonzero(np.asarray(mask)) for mask in (is_good, pc.invert(is_good)))
            rows, shard = routes.of(events.filter(is_good))
            rows = np.concatenate([good[rows], bad])
            shard = np.concatenate([shard, (bad % routes.n_shards).astype(np.int32)])
            spread = np.full(n_events, -1)
            spread[bad] = np.arange(len(bad))
            reasons = why.take(pa.array(spread, mask=spread < 0))
        if job.arrays:
            lost = np.setdiff1d(good, rows)
            rows = np.concatenate([rows, lost])
            shard = np.concatenate([shard, (lost % routes.n_shards).astype(np.int32)])
        at = pa.array(rows)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(shard),
                pa.array(first + rows),
                reasons.take(at),
                *(column.take(at) for column in ids),
                pa.repeat(version, len(at)),
                events.take(at),
            ],
            ["_shard", "_row", "_reason", *batch.schema.names[:-1], "_version", "_event"],
        )
        first += n_events


def match_shards(job: MatchJob, batches: Batches) -> Batches:
    """Match routed events with their shards, one shard after the other."""
    layout = Layout(job, job.version)
    for batch in batches:
        if not len(batch):
            continue
        version = batch.column(-2)[0].as_py()  # the same for a whole micro-batch
        layout.version = int(version)
        shard = np.asarray(batch.column(0))
        is_bad = pc.is_valid(batch.column(2))
        if is_bad.true_count:
            bad = batch.filter(is_bad)
            yield from layout.bad(_names_of(job, bad), bad.column(2))
        for number in np.unique(shard):
            wanted = pc.and_not(pa.array(shard == number), is_bad)
            some = batch if wanted.true_count == len(batch) else batch.filter(wanted)
            if len(some):
                index = open_index(job.path, version, int(number))
                yield from matched(index, layout, _names_of(job, some), some.columns[-1])


def _names_of(job: MatchJob, batch: pa.RecordBatch) -> list[pa.Array]:
    """The columns that name an event; its row is among them where shards are merged later."""
    columns: list[pa.Array] = batch.columns
    return [columns[1], *columns[3:-2]] if job.merged else columns[3:-2]


def merge_shards(job: MatchJob, batches: Batches) -> Batches:
    """Join what the shards found, event by event: row, names, keys, and so on."""
    found = list(batches)
    if not found:
        return
    table = pa.Table.from_batches(found).combine_chunks()
    del found
    rows = table.column(0).to_numpy()
    order = np.argsort(rows, kind="stable")
    table = table.take(pa.array(order))
    rows = rows[order]
    is_first = np.concatenate([[True], rows[1:] != rows[:-1]])
    n_ids = len(job.names) - 1 - job.with_version - job.keep_bad
    lists = table.column(1 + n_ids).combine_chunks()
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
    owners = np.repeat(np.cumsum(is_first) - 1, lengths)
    keys = lists.flatten()
    if job.unique:
        owners, keys = _unique(owners, keys)
    starts = np.searchsorted(owners, np.arange(is_first.sum() + 1)).astype(np.int32)
    events = table.filter(pa.array(is_first))
    ids = [events.column(1 + n).combine_chunks() for n in range(n_ids)]
    rest = [column.combine_chunks() for column in events.columns[2 + n_ids :]]
    is_bad = lists.is_null().filter(pa.array(is_first))
    if job.arrays:
        merged = pa.ListArray.from_arrays(pa.array(starts), keys, mask=is_bad)
        yield pa.RecordBatch.from_arrays([*ids, merged, *rest], job.names)
        return
    at = pa.array(owners)
    columns = [*(column.take(at) for column in ids), keys, *(column.take(at) for column in rest)]
    yield pa.RecordBatch.from_arrays(columns, job.names)
    if is_bad.true_count:
        columns = [*ids, pa.nulls(len(is_bad), keys.type), *rest]
        yield pa.RecordBatch.from_arrays(columns, job.names).filter(is_bad)


def _unique(owners: NDArray[np.int64], keys: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Each key once per event."""
    codes = keys if pa.types.is_integer(keys.type) else keys.dictionary_encode().indices
    numbers = np.asarray(codes)
    order = np.lexsort((numbers, owners))
    owners, numbers = owners[order], numbers[order]
    is_new = np.ones(len(owners), bool)
    is_new[1:] = (owners[1:] != owners[:-1]) | (numbers[1:] != numbers[:-1])
    return owners[is_new], keys.take(pa.array(order[is_new]))
