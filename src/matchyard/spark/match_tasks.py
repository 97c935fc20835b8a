"""What a match runs in Python workers: functions over Arrow batches, for `DataFrame.mapInArrow`.

They travel by name (the package is installed on the workers), with a NamedTuple of plain values.
An opened index stays in its worker process, which Spark uses again for the next task.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import TaskContext

import matchyard as my
from matchyard import shards
from matchyard.errors import ParseError, StorageError, UsageError

Batches = Iterator[pa.RecordBatch]
_HANDED_ON = 1 << 16  # merged rows in one batch
# "event 0 is null", "event 0 has a name twice", "document 0 at line 2, column 1: mismatched tag"
_NUMBERED = re.compile(r"(?:event|document) 0 (?:is |at )?")
_SENT_BYTES = 1 << 28  # of events in one batch that is sent to shards, or what one of them has more
_OPEN = 4  # indexes, or shards of one, that a worker keeps open


class MatchJob(NamedTuple):
    """How events are matched; the columns are the names of the events, then the events."""

    path: str
    version: str  # when the plan was made
    streaming: bool
    follow: bool  # each micro-batch takes the version that is current when it begins
    record: str | None  # folder where these are written down, instead of the index
    stamped: bool  # before the event comes the moment at which its micro-batch began
    names: list[str]  # of the columns that come out
    merged: bool  # shards are merged later: two hashes of the event are the first of its names
    every: bool  # an event without matches has a row too
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


def open_for(job: MatchJob, version: str, shard: int | None = None) -> Any:
    """The same, refused where its keys are not what the plan has promised."""
    index = open_index(job.path, version, shard)
    if index.info()["keys"] == ("int" if job.string_keys else "str"):
        raise UsageError(
            f"version {version} of {job.path} has keys of another type than version {job.version}, "
            "with which the plan was made: make it again"
        )
    return index


def identity(path: str, version: str) -> tuple[str, str, str]:
    """What tells a version from another; an index may be removed and made anew at its path."""
    return path, version, shards.manifest_of(path, version)["sha256"]


def with_version(job: MatchJob, batches: Batches) -> tuple[str, Batches]:
    """The version for this task, one for all tasks of a micro-batch; and the batches, without the
    moment at which that began."""
    if not job.streaming:
        return job.version, batches
    context = TaskContext.get()
    stream = context.getLocalProperty("sql.streaming.queryId")
    batch = context.getLocalProperty("streaming.sql.batchId")
    if stream is not None and batch is not None:
        version = _version_of(job, stream, int(batch))
        return version, (_without_stamp(one) for one in batches) if job.stamped else batches
    if not job.follow:
        return job.version, batches
    # Over Connect, what foreachBatch runs is told neither.
    first = next(batches, None)
    if first is None or not len(first):
        return job.version, iter(())
    if not job.stamped:
        raise UsageError("follow=True works in a running stream, and this task is not part of one")
    version = _version_of(job, "", first.column(-2)[0].as_py())
    return version, (_without_stamp(one) for one in chain([first], batches))


def _version_of(job: MatchJob, stream: str, batch: int) -> str:
    """The recorded version; a stream that does not follow records the one of its plan, so that it is
    kept, where that can be done."""
    if job.follow:
        return shards.version_of_batch(job.path, stream, batch, job.record)
    try:
        return shards.version_of_batch(job.path, stream, batch, job.record, job.version)
    except (OSError, StorageError):
        return job.version


def _without_stamp(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.remove_column(batch.num_columns - 2)


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
            return [(first, _reason(index, events, error))]
    half = len(events) // 2
    return [
        *_bad_rows(index, events.slice(0, half), first),
        *_bad_rows(index, events.slice(half), first + half),
    ]


def _reason(index: Any, event: pa.Array, error: ParseError) -> str:
    text = str(error)
    numbered = _NUMBERED.match(text)
    if numbered:
        return text[numbered.end() :]
    try:
        index.parse_event(event[0].as_py())
    except ParseError as found:
        return str(found)
    except UnicodeDecodeError:
        pass
    return text.removeprefix("row 0 ")


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
    """Send each event to the shards that can match it: shard, reason, names, version, event.

    A bad event is sent somewhere with its reason, and so is one that no shard can match where each
    event needs a row.
    """
    version, batches = with_version(job, batches)
    what = identity(job.path, version)
    routes = _keep_open(("routes", *what), lambda: shards.Routes(job.path, version))
    for batch in batches:
        *ids, events = batch.columns
        # Equal events go to the same shards, so that they can be told apart by counting.
        somewhere = np.asarray(ids[0]) if job.merged else np.arange(len(events))
        somewhere = (somewhere % routes.n_shards).astype(np.int32)
        good, reasons = np.arange(len(events)), pa.nulls(len(events), pa.string())
        try:
            rows, shard = routes.of(events)
        except ParseError:
            index = _keep_open(("reader", *what), lambda: shards.open_shards(job.path, version, ()))
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
    """Slices of the rows whose events are not too large together: long documents for many shards
    would pass what a column can hold."""
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
    """The columns that name an event; its shard is the first where shards are merged later."""
    columns: list[pa.Array] = batch.columns
    return [columns[0], *columns[2:-2]] if job.merged else columns[2:-2]


def merge_shards(job: MatchJob, batches: Batches) -> Batches:
    """Join what the shards found, event by event: shard, two hashes, names, keys, and so on.

    Events are told apart by 128 bits of hash over their names and themselves: a number by position
    would not be the same when Spark has to run a task again. Events that are equal in all of that
    were seen by the same shards, each as often.
    """
    found = list(batches)
    if not found:
        return
    table = pa.Table.from_batches(found).combine_chunks()
    del found
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
