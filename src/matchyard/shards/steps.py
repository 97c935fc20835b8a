"""The functions of a distributed build; the docstring of `matchyard.shards` shows their order."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from matchyard import storage
from matchyard.index.verbs import Index
from matchyard.kernels.strings import Names
from matchyard.opening import from_saved
from matchyard.shards.plan import Plan, resolve
from matchyard.storage import File, versions
from matchyard.storage.versions import SCRATCH, AnyPath

# -------------------------------------------------------------------- names


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
    """Map the names that `write_names` wrote, in any task."""
    files = [File(*file) for file in files]
    local = versions.readable(folder, files)
    names = {file.name for file in files}
    place = f"{storage.segment_folder(segment)}vocabulary"
    mapped = storage.map_vocabulary(local, place, names)
    vocabulary = storage.restored(mapped, resolve(plan).engine.encoder.Vocabulary)
    return vocabulary, storage.map_names(local, "keys") if "keys.arrow" in names else None


# -------------------------------------------------------------------- shards


def scratch() -> str:
    """A folder for one task inside a new version; it is not published."""
    return f"{SCRATCH}{uuid.uuid4().hex}/"


def write_table(
    folder: Any, number: int, table: Any, segment: int = 0, below: str = ""
) -> list[File]:
    """Write the table of shard `number` into a version that is being made.

    A task that may run twice writes below `scratch()`; `adopt` then takes the files of one run.
    """
    with versions.writable(folder) as local:
        return storage.write_table(local, number, table, segment, below)


def can_join(plan: Plan) -> bool:
    """True if shards that were cut by rarest names can be joined into one table."""
    return resolve(plan).abilities.join is not None


def join(
    folder: Any, number: int, written: Sequence[Sequence[File]], plan: Plan, segment: int = 0
) -> list[File]:
    """Join shards that tasks have written into shard `number`, in the order of their ranges."""
    _, _, algorithm, _, options, *_ = resolve(plan)
    tables = []
    for files in written:
        local = versions.readable(folder, files)
        arrays = {
            Path(file.name).stem: storage.map_array(local, file.name.removesuffix(".npy"))
            for file in files
            if file.name.endswith(".npy")  # not the checksums of their blocks
        }
        tables.append(algorithm.Table(**arrays))
    table = algorithm.join(tables, options)  # type: ignore[attr-defined]
    return write_table(folder, number, table, segment)


def publish(
    path: AnyPath,
    folder: Any,
    files: Sequence[File],
    plan: Plan,
    segments: Sequence[int],
    applied: Mapping[str, int] | None = None,
) -> str:
    """Make the written files the current version, with so many shards per segment and with these
    changes applied; return its number."""
    engine, name, _, reading, options, *_ = resolve(plan)
    settings = storage.describe(engine.name, name, reading, options, segments, applied)
    return versions.publish(path, folder, settings, [File(*file) for file in files])


# -------------------------------------------------------------------- reading


def open_shards(
    path: AnyPath,
    version: str | None = None,
    shards: Collection[int] | None = None,
    device: str = "cpu",
) -> Index:
    """Open an index over some shards of a version; the others are neither mapped nor fetched."""
    return from_saved(path, versions.load(path, version=version, shards=shards), device=device)


def subscriptions(
    path: AnyPath, version: str, shard: int, rows: int = 1 << 16
) -> Iterator[pa.Table]:
    """Yield the living subscriptions of a shard as tables of columns `subscription` and `key`."""
    index = open_shards(path, version, [shard])
    for segment in index.segments():
        encoder = segment.settings.engine.encoder
        living = segment.living()
        names = index.key_names()
        for start in range(0, len(living.keys), rows):
            stop = min(start + rows, len(living.keys))
            keys = pa.array(living.keys[start:stop].astype(np.int64))
            yield pa.table(
                {
                    "subscription": encoder.texts(living.batch, start, stop, living.vocabulary),
                    "key": keys if names is None else names.take(keys),
                }
            )
