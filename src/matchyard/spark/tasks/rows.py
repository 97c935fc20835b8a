"""The output rows of a match: matches, and bad events with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import matchyard as my
from matchyard.spark.tasks.job import Batches, MatchJob


class Layout:
    """Converts matches to the rows of the plan's schema."""

    _LEAST, _MOST = 256, 1 << 16  # events in one step
    _PAIRS = 1 << 20  # target number of pairs of a step, and the most rows of an output batch

    def __init__(self, job: MatchJob, version: str) -> None:
        self.job, self.version = job, int(version)
        self.step = 4096  # events matched at once
        self.key = pa.string() if job.string_keys else pa.int64()

    def learn(self, n_events: int, n_pairs: int) -> None:
        """Set the next step to the number of events that should give about `_PAIRS` pairs."""
        fitting = int(n_events * self._PAIRS / max(1, n_pairs))
        self.step = max(self._LEAST, min(fitting, self._MOST))

    def rows(self, ids: list[pa.Array], matches: my.Matches) -> Batches:
        """The rows of good events."""
        if self.job.arrays:
            for part, start in zip(matches.parts, _starts(matches)):
                n_events = len(part.event_start) - 1
                lists = pa.ListArray.from_arrays(
                    pa.array(part.event_start, pa.int32()), self._keys(part.keys, matches)
                )
                yield self._batch([c.slice(start, n_events) for c in ids], lists, None)
            return
        for part, start in zip(matches.parts, _starts(matches)):
            numbers = np.arange(start, start + len(part.event_start) - 1)
            events = np.repeat(numbers, np.diff(part.event_start))
            for first in range(0, len(events), self._PAIRS):
                some = slice(first, first + self._PAIRS)
                at = pa.array(events[some])
                keys = self._keys(part.keys[some], matches)
                yield self._batch([column.take(at) for column in ids], keys, None)

    def bad(self, ids: list[pa.Array], reasons: pa.Array) -> Batches:
        """The rows of bad events: no key, but a reason."""
        if not len(reasons):
            return
        kind = pa.list_(self.key) if self.job.arrays else self.key
        yield self._batch(ids, pa.nulls(len(reasons), kind), reasons)

    def _keys(self, keys: NDArray[Any], matches: my.Matches) -> pa.Array:
        if not self.job.string_keys:
            return pa.array(keys.astype(np.int64, copy=False))
        if matches.key_names is None:  # an index without subscriptions
            return pa.array([], pa.string())
        return matches.key_names.take(pa.array(keys)).cast(pa.string())

    def _batch(self, ids: list[pa.Array], keys: pa.Array, reasons: pa.Array | None) -> Any:
        columns = [*ids, keys]
        if self.job.with_version:
            columns.append(pa.array(np.full(len(keys), self.version, np.int64)))
        if self.job.keep_bad:
            columns.append(pa.nulls(len(keys), pa.string()) if reasons is None else reasons)
        return pa.RecordBatch.from_arrays(columns, self.job.names)


def _starts(matches: my.Matches) -> list[int]:
    ends = np.cumsum([0, *(len(part.event_start) - 1 for part in matches.parts)])
    return [int(end) for end in ends[:-1]]
