"""Building blocks of a distributed build; what Spark, or any other cluster, runs in its tasks.

    every task     count(part)                        names and counts of its subscriptions
    the driver     merge(counts), write_names(…)      the vocabulary, the same for all shards
    every task     rarest(part)                       the rarest name of each subscription
    the driver     cut(counts of those)               ranges of names, one for each shard
    every task     write(folder, n, part, …)          compile one shard and write its arrays
    the driver     publish(path, folder, …)           one manifest, one atomic switch

A shard is a table over any part of the subscriptions; an index over several shards returns what one
table over all of them would. Where subscriptions are dealt out by their rarest name, an event has
to be shown only to the shards that hold one of its names: see `Routes`.

>>> import tempfile, matchyard as my
>>> parts = [([{"jazz"}, {"live"}], [1, 2]), ([{"jazz", "oslo"}], [3])]
>>> path = tempfile.mkdtemp() + "/music.index"
>>> plan = Plan()
>>> vocabulary = merge([count(tags, plan) for tags, _ in parts], plan)
>>> with new_version(path) as folder:
...     files = write_names(folder, vocabulary)
...     for number, (tags, keys) in enumerate(parts):
...         files += write(folder, number, tags, keys, vocabulary, plan)
...     publish(path, folder, files, plan, [len(parts)])
'0001'
>>> sorted(my.open(path).match([{"jazz", "oslo"}])[0])
[1, 3]
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard import storage
from matchyard.errors import UsageError
from matchyard.index.keys import number_keys
from matchyard.index.kinds import from_saved
from matchyard.index.saved_tables import inspect_routes, vocabulary_of
from matchyard.index.verbs import Index
from matchyard.kernels.strings import Interner, Names
from matchyard.shards.append import Carried, carry
from matchyard.shards.plan import Plan, plan_of, resolve
from matchyard.storage import File, versions
from matchyard.storage.versions import (
    SCRATCH,
    AnyPath,
    adopt,
    current_version,
    manifest_of,
    new_version,
    version_of_batch,
)

__all__ = [
    "Carried",
    "File",
    "Plan",
    "Routes",
    "adopt",
    "can_join",
    "carry",
    "count",
    "current_version",
    "cut",
    "join",
    "manifest_of",
    "merge",
    "merge_keys",
    "n_ids",
    "new_version",
    "open_names",
    "open_routes",
    "open_shards",
    "plan_of",
    "publish",
    "rarest",
    "scratch",
    "subscriptions",
    "version_of_batch",
    "write",
    "write_key_names",
    "write_names",
    "write_routes",
]


# -------------------------------------------------------------------- names


def count(subscriptions: Any, plan: Plan) -> pa.Table:
    """What some subscriptions bring to the vocabulary, and how often: columns `name` and `count`."""
    engine, _, _, reading, *_ = resolve(plan)
    found: pa.Table = engine.encoder.count(
        engine.encoder.subscription_column(subscriptions, reading)
    )
    return found


def merge(counts: Iterable[pa.Table], plan: Plan) -> Any:
    """The vocabulary of all parts; names are ranked by frequency."""
    return resolve(plan).engine.encoder.merge_counts(counts)


def merge_keys(columns: Iterable[Any], known: Names | None = None) -> Names:
    """The numbers of string keys, from the key columns of all parts; those known keep theirs."""
    interner = Interner(known)
    for column in columns:
        interner.intern_arrow(column.cast(pa.large_string()))
    return interner.names()


def write_names(
    folder: Any, vocabulary: Any, key_names: Names | None = None, segment: int = 0
) -> list[File]:
    """Write the vocabulary of a segment, and the names of string keys, into a new version."""
    with versions.writable(folder) as local:
        name = f"{storage.segment_folder(segment)}vocabulary"
        files = storage.write_vocabulary(local, name, vocabulary)
    return files + write_key_names(folder, key_names)


def write_key_names(folder: Any, key_names: Names | None) -> list[File]:
    """Write the names of string keys, if there are any, into a new version."""
    if key_names is None:
        return []
    with versions.writable(folder) as local:
        return storage.write_names(local, "keys", key_names)


def open_names(
    folder: Any, files: Sequence[File], plan: Plan, segment: int = 0
) -> tuple[Any, Names | None]:
    """Map what `write_names` wrote, in whatever task needs it."""
    files = [File(*file) for file in files]
    local = versions.readable(folder, files)
    names = {file.name for file in files}
    place = f"{storage.segment_folder(segment)}vocabulary"
    mapped = storage.map_vocabulary(local, place, names)
    vocabulary = storage.restored(mapped, resolve(plan).engine.encoder.Vocabulary)
    return vocabulary, storage.map_names(local, "keys") if "keys.arrow" in names else None


# -------------------------------------------------------------------- shards


def rarest(subscriptions: Any, vocabulary: Any, plan: Plan) -> NDArray[np.int64]:
    """The id of the rarest name of each subscription, -1 for one that has no names."""
    engine, _, _, reading, *_ = resolve(plan)
    column = engine.encoder.subscription_column(subscriptions, reading)
    batch = engine.encoder.encode_known(column, vocabulary)
    return np.asarray(engine.encoder.rarest(batch), np.int64)


def n_ids(vocabulary: Any, plan: Plan) -> int:
    """How many ids there are that `rarest` can give."""
    return int(resolve(plan).engine.encoder.n_ids(vocabulary))


def cut(n_filed: NDArray[np.int64], n_shards: int) -> NDArray[np.int32]:
    """Routes: the shard of each rarest name, in ranges of about as many subscriptions each.

    Entry 0 is for subscriptions without names, entry 1 + id for the names; -1 where nothing is
    filed under a name. `n_filed` has as many entries, and says how many are.

    >>> cut(np.array([0, 3, 0, 2, 1]), 2).tolist()
    [-1, 0, -1, 1, 1]
    """
    before = np.cumsum(n_filed) - n_filed
    middle = (before + n_filed / 2) / max(1, int(n_filed.sum()))
    routes = np.minimum((middle * n_shards).astype(np.int32), n_shards - 1)
    return np.where(n_filed > 0, routes, -1).astype(np.int32)


def write_routes(
    folder: Any, routes: NDArray[np.int32], segment: int = 0, below: str = ""
) -> list[File]:
    """Write the routes of a segment into a new version."""
    name = f"{below}{storage.segment_folder(segment)}routes"
    with versions.writable(folder) as local:
        return [storage.write_array(local, name, routes)]


def scratch() -> str:
    """A folder of a new version that no other task has, and that is not published."""
    return f"{SCRATCH}{uuid.uuid4().hex}/"


def open_routes(folder: Any, file: File) -> NDArray[np.int32]:
    """Map what `write_routes` wrote, in whatever task needs it."""
    file = File(*file)
    local = versions.readable(folder, [file])
    routes: NDArray[np.int32] = storage.map_array(local, file.name.removesuffix(".npy"))
    return routes


def write(
    folder: Any,
    number: int,
    subscriptions: Any,
    keys: Any,
    vocabulary: Any,
    plan: Plan,
    key_names: Names | None = None,
    segment: int = 0,
    below: str = "",
) -> list[File]:
    """Compile shard `number` and write it into a version that is being made.

    A task that may run twice writes below `scratch()`, from where `adopt` takes the files of the
    run that counts.
    """
    engine, _, algorithm, reading, options, *_ = resolve(plan)
    column = engine.encoder.subscription_column(subscriptions, reading)
    numbers = number_keys(keys, key_names)
    if len(numbers) != column.n_rows:
        raise UsageError(f"{column.n_rows} subscriptions, but {len(numbers)} keys")
    batch = engine.encoder.encode_known(column, vocabulary)
    del column, subscriptions
    table = algorithm.compile(batch, numbers, vocabulary, options)
    with versions.writable(folder) as local:
        return storage.write_table(local, number, table, segment, below)


def can_join(plan: Plan) -> bool:
    """Can shards that were cut by rarest names be joined to one table?"""
    return resolve(plan).abilities.join is not None


def join(
    folder: Any, number: int, written: Sequence[Sequence[File]], plan: Plan, segment: int = 0
) -> list[File]:
    """Join shards that tasks have written, in the order of their ranges, to shard `number`."""
    _, _, algorithm, _, options, *_ = resolve(plan)
    tables = []
    for files in written:
        local = versions.readable(folder, files)
        arrays = {
            Path(file.name).stem: storage.map_array(local, file.name.removesuffix(".npy"))
            for file in files
        }
        tables.append(algorithm.Table(**arrays))
    table = algorithm.join(tables, options)  # type: ignore[attr-defined]
    with versions.writable(folder) as to:
        return storage.write_table(to, number, table, segment)


def publish(
    path: AnyPath, folder: Any, files: Sequence[File], plan: Plan, segments: Sequence[int]
) -> str:
    """Make the written files the current version; `segments` has the number of shards of each.
    Returns the number of the version."""
    engine, name, _, reading, options, *_ = resolve(plan)
    settings = storage.describe(engine.name, name, reading, options, segments)
    return versions.publish(path, folder, settings, [File(*file) for file in files])


# -------------------------------------------------------------------- reading


def open_shards(
    path: AnyPath,
    version: str | None = None,
    shards: Collection[int] | None = None,
    device: str = "cpu",
) -> Index:
    """An index over some of the shards of a version; nothing else of it is mapped, or fetched."""
    return from_saved(path, versions.load(path, version=version, shards=shards), device=device)


def subscriptions(
    path: AnyPath, version: str, shard: int, rows: int = 1 << 16
) -> Iterator[pa.Table]:
    """The living subscriptions of a shard, some at a time: columns `subscription` and `key`."""
    index = open_shards(path, version, [shard])
    for segment in index.segments():
        encoder = segment.settings.engine.encoder
        living = segment.living()
        names = index.key_names()
        for start in range(0, len(living.keys), rows):
            stop = min(start + rows, len(living.keys))
            keys = pa.array(living.keys[start:stop])
            yield pa.table(
                {
                    "subscription": encoder.texts(living.batch, start, stop, living.vocabulary),
                    "key": keys if names is None else names.take(keys),
                }
            )


class Routes:
    """Which shards of a version can match an event.

    Shards of all segments are numbered one after the other. A segment that was not dealt out by
    rarest names, or whose matches need not be exact, is asked every time.
    """

    def __init__(self, path: AnyPath, version: str) -> None:
        saved = versions.load(path, version=version, shards=())
        self._settings = resolve(plan_of(saved.manifest))
        self.n_shards = sum(saved.manifest["segments"])
        exact = saved.manifest["options"].get("exact", True)
        encoder = self._settings.engine.encoder
        self._segments: list[Any] = []
        first = 0
        for segment, n_shards in zip(saved.segments, saved.manifest["segments"], strict=True):
            routes = segment.routes if exact and n_shards > 1 else None
            number = len(self._segments)
            vocabulary = vocabulary_of(saved, number, self._settings)
            if routes is not None:
                inspect_routes(routes, int(encoder.n_ids(vocabulary)), n_shards)
            self._segments.append((first, n_shards, vocabulary, routes))
            first += n_shards

    def of(self, events: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Pairs of an event's number and a shard, each once, in the order of the events."""
        encoder = self._settings.engine.encoder
        column = encoder.column(events, self._settings.reading)
        n_events = column.n_rows
        rows = column.rows(0, n_events)
        if self.n_shards > 1 and all(routes is None for *_, routes in self._segments):
            encoder.encode(rows, self._segments[0][2])  # or each shard would refuse bad events
        numbers = np.arange(n_events, dtype=np.int64)
        found = []
        for first, n_shards, vocabulary, routes in self._segments:
            if routes is None:
                found.append(numbers[:, None] * self.n_shards + range(first, first + n_shards))
                continue
            batch = encoder.encode(rows, vocabulary)
            start, names = encoder.names_of(batch, vocabulary)
            shards = routes[1 + names]
            places = np.repeat(numbers, np.diff(start)) * self.n_shards + first + shards
            found.append(places[shards >= 0])
            if routes[0] >= 0:
                found.append(numbers * self.n_shards + first + routes[0])
        places = np.unique(np.concatenate([part.ravel() for part in found]))
        return places // self.n_shards, (places % self.n_shards).astype(np.int32)
