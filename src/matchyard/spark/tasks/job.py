"""The start of a match task: its job, the version of the index, and the opened index.

An opened index stays in its worker process, which Spark uses again for the next task.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from matchyard import shards
from matchyard.errors import StorageError, UsageError
from matchyard.spark.devices import gpu_for, opened_on

Batches = Iterator[pa.RecordBatch]
_FOLLOWING_S = 1200.0  # for a micro-batch, and its replay
_OPEN = 4  # indexes or shards that a worker keeps open


class MatchJob(NamedTuple):
    """The parameters of a match. Its input columns are the names of the event, then the event."""

    path: str
    version: str  # when the plan was made
    names: list[str]  # of the output columns
    string_keys: bool
    holder: str = ""  # of the leases that tasks renew
    streaming: bool = False
    follow: bool = False  # each micro-batch uses the version that is current when it begins
    record: str | None = None  # folder that records these versions, instead of the index
    stamped: bool = (
        False  # the column before the event is the moment at which its micro-batch began
    )
    merged: bool = False  # shards are merged later: the first two names are hashes of the event
    every: bool = False  # an event without matches has a row too
    unique: bool = False
    arrays: bool = False
    keep_bad: bool = False
    with_version: bool = False
    device: str = "auto"
    caller: str = "match"  # the function that errors advise to call otherwise
    sha256: str = (
        ""  # of the manifest of the version; another one if the index was built anew at its path
    )


def with_version(job: MatchJob, batches: Batches) -> tuple[str, Batches]:
    """The version for all tasks of a micro-batch, and the batches without the column of its moment."""
    version, batches = _version_for(job, batches)
    return version, _renewing(job, version, batches)


def _version_for(job: MatchJob, batches: Batches) -> tuple[str, Batches]:
    if not job.streaming:
        return job.version, batches
    context = TaskContext.get()
    stream = context.getLocalProperty("sql.streaming.queryId")
    batch = context.getLocalProperty("streaming.sql.batchId")
    if stream is not None and batch is not None:
        return _version_of(job, stream, int(batch)), batches
    if not job.follow:
        return job.version, batches
    # Over Connect, tasks of foreachBatch have neither property.
    first = next(batches, None)
    if first is None or not len(first):
        return job.version, iter(())
    if not job.stamped:
        raise UsageError("follow=True works in a running stream, and this task is not part of one")
    return _version_of(job, "", first.column(-2)[0].as_py()), chain([first], batches)


def _renewing(job: MatchJob, version: str, batches: Batches) -> Batches:
    """The batches without the moment of their micro-batch, while the lease is renewed."""
    for batch in batches:
        renew(job, version)
        yield batch.remove_column(batch.num_columns - 2) if job.stamped else batch


def renew(job: MatchJob, version: str) -> None:
    """Renew the lease of a version, now and then. A stream that follows needs each for a short time."""
    if job.holder:
        lease = shards.Lease(job.path, version, job.holder)
        shards.renew(lease, _FOLLOWING_S if job.follow else shards.LEASE_S)


def _version_of(job: MatchJob, stream: str, batch: int) -> str:
    """The recorded version. A stream that does not follow records the version of its plan, if it can,
    so that this version is kept."""
    if job.follow:
        return shards.version_of_batch(job.path, stream, batch, job.record)
    try:
        return shards.version_of_batch(job.path, stream, batch, job.record, job.version)
    except (OSError, StorageError):
        return job.version


_opened: OrderedDict[tuple[Any, ...], Any] = OrderedDict()


def keep_open(key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """Return the cached object of the key, or make it; drop the oldest if there are too many."""
    if key not in _opened:
        while len(_opened) >= _OPEN:
            _opened.popitem(last=False)
        _opened[key] = make()
    _opened.move_to_end(key)
    return _opened[key]


def open_index(path: str, version: str, device: str, shard: int | None = None) -> Any:
    """The index or one of its shards, opened once per worker and copied to its GPU once."""
    wanted = None if shard is None else [shard]
    gpu = gpu_for(device)
    what = ("index", *identity(path, version), shard, gpu)

    def make(on: str) -> Any:
        return shards.open_shards(path, version, wanted, on)

    index = keep_open(what, lambda: opened_on(gpu, device, make))
    if device == "gpu" and index.device == "cpu":  # another job with device "auto" opened it
        del _opened[what]
        index = keep_open(what, lambda: opened_on(gpu, device, make))
    return index


def open_for(job: MatchJob, version: str, shard: int | None = None) -> Any:
    """The same, refused if its keys have another type than the plan."""
    renew(job, version)
    if job.sha256 and version == job.version and identity(job.path, version)[2] != job.sha256:
        raise StorageError(
            f"version {version} of {job.path} is gone, and another index was built at this path: make the plan again"
        )
    index = open_index(job.path, version, job.device, shard)
    if index.info()["keys"] == ("int" if job.string_keys else "str"):
        raise UsageError(
            f"version {version} of {job.path} has keys of another type than version {job.version}, "
            "with which the plan was made: make it again"
        )
    return index


def identity(path: str, version: str) -> tuple[str, str, str]:
    """The identity of a version; the hash changes if an index is rebuilt at its path."""
    return path, version, shards.manifest_of(path, version)["sha256"]
