"""Routes: the shards that hold the subscriptions of each name. An event visits only these."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard import storage
from matchyard.index.saved_tables import inspect_routes, vocabulary_of
from matchyard.shards.plan import plan_of, resolve
from matchyard.storage import File, versions
from matchyard.storage.versions import AnyPath


def cut(n_filed: NDArray[np.int64], n_shards: int) -> NDArray[np.int32]:
    """The shard of each rarest name, in ranges with about equally many subscriptions.

    Element 0 is for subscriptions without names, element 1 + id for a name; -1 means that no
    subscription is filed there. `n_filed` has the number of subscriptions of each element.

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
        return storage.write_array(local, name, routes)


def open_routes(folder: Any, file: File) -> NDArray[np.int32]:
    """Map the routes that `write_routes` wrote, in any task."""
    file = File(*file)
    local = versions.readable(folder, [file])
    routes: NDArray[np.int32] = storage.map_array(local, file.name.removesuffix(".npy"))
    return routes


class Routes:
    """The shards of a version that can match an event.

    Shards are numbered across all segments. A segment that was not dealt out by rarest names, or
    whose matches need not be exact, gets every event.
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
        column = encoder.column(events, self._settings.input_options)
        n_events = column.n_rows
        rows = column.rows(0, n_events)
        if self.n_shards > 1 and all(routes is None for *_, routes in self._segments):
            encoder.encode(rows, self._segments[0][2])  # refuse bad events here, not in each shard
        numbers = np.arange(n_events, dtype=np.int64)
        parts = []  # of pairs, each as event * n_shards + shard
        for first, n_shards, vocabulary, routes in self._segments:
            if routes is None:
                parts.append(numbers[:, None] * self.n_shards + range(first, first + n_shards))
                continue
            batch = encoder.encode(rows, vocabulary)
            start, names = encoder.names_of(batch, vocabulary)
            shards = routes[1 + names]
            pairs = np.repeat(numbers, np.diff(start)) * self.n_shards + first + shards
            parts.append(pairs[shards >= 0])
            if routes[0] >= 0:
                parts.append(numbers * self.n_shards + first + routes[0])
        pairs = np.unique(np.concatenate([part.ravel() for part in parts]))
        return pairs // self.n_shards, (pairs % self.n_shards).astype(np.int32)
