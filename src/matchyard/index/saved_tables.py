"""Restore and inspect the vocabularies and tables of a saved version, before kernels use them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard import storage
from matchyard.engine import Configured
from matchyard.errors import StorageError
from matchyard.kernels.inspection import Inspection, extremes, inspect_names


class Restored(NamedTuple):
    """A segment of a saved version as the engine's own types, inspected."""

    vocabulary: Any
    tables: list[Any]
    unchecked: list[storage.Unchecked]  # one for each table, or none if all of them are checked


def restore(saved: storage.Saved, settings: Configured) -> list[Restored]:
    """Restore the segments of a version; refuse arrays that do not fit together (`Inspection`)."""
    if saved.key_names is not None:
        inspect_names(saved.key_names, f"{saved.folder}/keys.", saved.is_thorough)
    return [_segment(saved, number, settings) for number in range(len(saved.segments))]


def _segment(saved: storage.Saved, number: int, settings: Configured) -> Restored:
    vocabulary = vocabulary_of(saved, number, settings)
    routes = saved.segments[number].routes
    if routes is not None:
        n_ids = int(settings.engine.encoder.n_ids(vocabulary))
        inspect_routes(routes, n_ids, saved.manifest["segments"][number])
    tables = [
        _table(arrays, storage.shard_folder(shard, number), vocabulary, saved, settings)
        for shard, arrays in enumerate(saved.segments[number].tables)
    ]
    return Restored(vocabulary, tables, _unchecked(saved, number, tables, settings))


def _unchecked(
    saved: storage.Saved, number: int, tables: list[Any], settings: Configured
) -> list[storage.Unchecked]:
    """What is to be checked before the tables of a segment are used."""
    by_table = saved.segments[number].unchecked
    names = [file for name, file in saved.unchecked.items() if name == "arrow"]
    if not (names or any(by_table)):
        return []
    for files in by_table:  # removals are looked at without a match
        for name in ("removed_keys", "removed_at"):
            if name in files:
                files[name].check()
    able = settings.abilities
    return [
        storage.Unchecked(table, files, names, able.rows_read, able.BY_ROW or {})
        for table, files in zip(tables, by_table, strict=True)
    ]


def vocabulary_of(saved: storage.Saved, number: int, settings: Configured) -> Any:
    """The vocabulary of a segment, inspected."""
    encoder = settings.engine.encoder
    vocabulary = storage.restored(saved.segments[number].vocabulary, encoder.Vocabulary)
    place = f"{saved.folder}/{storage.segment_folder(number)}vocabulary."
    encoder.inspect(vocabulary, place, saved.is_thorough)
    return vocabulary


def _table(
    arrays: dict[str, NDArray[Any]],
    place: str,
    vocabulary: Any,
    saved: storage.Saved,
    settings: Configured,
) -> Any:
    kind = settings.algorithm.Table
    if set(arrays) != set(kind._fields):
        odd = ", ".join(sorted(set(arrays) ^ set(kind._fields)))
        raise StorageError(
            f"{saved.folder}/{place} lacks or adds arrays of {settings.algorithm_name}: {odd}"
        )
    table = kind(**arrays)
    look = Inspection(table, f"{saved.folder}/{place}", saved.is_thorough)
    settings.algorithm.inspect(look, table, vocabulary, settings.options)
    look.finish()
    if saved.key_names is not None:
        look.values("keys", 0, saved.key_names.n_names)
    return table


def inspect_routes(routes: NDArray[Any], n_ids: int, n_shards: int) -> None:
    """Refuse routes to shards that do not exist; see `matchyard.shards.cut`."""
    if routes.dtype != np.int32 or routes.shape != (1 + n_ids,):
        raise StorageError(
            f"routes.npy has {routes.dtype} of shape {routes.shape}, expected int32 ({1 + n_ids},)"
        )
    least, most = extremes(routes)
    if least < -1 or most >= n_shards:
        raise StorageError(f"routes.npy leads to shards {least} to {most}; there are {n_shards}")
