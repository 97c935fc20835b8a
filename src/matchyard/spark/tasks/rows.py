"""The output rows of a match: matches, and bad events with the reason."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import matchyard as my
from matchyard.spark.tasks.job import Batches, MatchJob


class Layout:
    """Converts matches to the rows of the plan's schema."""

    _LEAST, _MOST = 256, 1 << 16  # events in one step
    _PAIRS = 1 << 20  # target number of pairs of a step, and the most rows of an output batch…
    _BYTES = 1 << 28  # …whose ids have no more bytes than about that

    def __init__(self, job: MatchJob, version: str) -> None:
        self.job, self.version = job, int(version)
        self.step = 4096  # events matched at once
        self.n_pairs = 0  # so far
        self.key = pa.string() if job.string_keys else pa.int64()

    def learn(self, n_events: int, n_pairs: int) -> None:
        """Set the next step to the number of events that should give about `_PAIRS` pairs."""
        self.n_pairs += n_pairs
        fitting = int(n_events * self._PAIRS / max(1, n_pairs))
        self.step = max(self._LEAST, min(fitting, self._MOST))

    def rows(self, ids: list[pa.Array], matches: my.Matches) -> Batches:
        """The rows of good events."""
        start = 0  # the event
        widths = _widths([] if self.job.arrays else ids)
        for part, first, last in matches.steps(self._PAIRS):
            event_start = part.event_start[first : last + 1] - part.event_start[first]
            keys = self._keys(part, first, last, matches)
            if self.job.arrays:
                lists = pa.ListArray.from_arrays(pa.array(event_start, pa.int32()), keys)
                yield self._batch(
                    [column.slice(start, last - first) for column in ids], lists, None
                )
            else:
                events = np.repeat(np.arange(start, start + last - first), np.diff(event_start))
                for low, high in pairwise(self._cuts(events, widths)):
                    at = pa.array(events[low:high])
                    some = keys.slice(low, high - low)
                    yield self._batch([column.take(at) for column in ids], some, None)
            start += last - first

    def _cuts(self, events: NDArray[np.int64], widths: NDArray[np.float64]) -> list[int]:
        """The first row of each batch of pairs, and their end."""
        if len(events) <= self._PAIRS and len(events) * widths.max(initial=0.0) <= self._BYTES:
            return [0, len(events)] if len(events) else []
        sizes = widths[events] if len(widths) else np.zeros(len(events))  # events may have no ids
        ends, cuts = np.cumsum(sizes), [0]
        while cuts[-1] < len(events):
            before = ends[cuts[-1] - 1] if cuts[-1] else 0.0
            fitting = int(np.searchsorted(ends, before + self._BYTES, "right"))
            cuts.append(min(max(fitting, cuts[-1] + 1), cuts[-1] + self._PAIRS, len(events)))
        return cuts

    def bad(self, ids: list[pa.Array], reasons: pa.Array) -> Batches:
        """The rows of bad events: no key, but a reason."""
        if not len(reasons):
            return
        kind = pa.list_(self.key) if self.job.arrays else self.key
        yield self._batch(ids, pa.nulls(len(reasons), kind), reasons)

    def _keys(self, part: Any, first: int, last: int, matches: my.Matches) -> pa.Array:
        """The keys of some events of a part."""
        if not self.job.string_keys:
            return pa.array(part.written(first, last, np.int64))
        if matches.key_names is None:  # an index without subscriptions
            return pa.array([], pa.string())
        return matches.key_names.take(pa.array(part.written(first, last))).cast(pa.string())

    def _batch(self, ids: list[pa.Array], keys: pa.Array, reasons: pa.Array | None) -> Any:
        columns = [*ids, keys]
        if self.job.with_version:
            columns.append(pa.array(np.full(len(keys), self.version, np.int64)))
        if self.job.keep_bad:
            columns.append(pa.nulls(len(keys), pa.string()) if reasons is None else reasons)
        return pa.RecordBatch.from_arrays(columns, self.job.names)


def _widths(ids: list[pa.Array]) -> NDArray[np.float64]:
    """About how many bytes the ids of each event have."""
    n_events = len(ids[0]) if ids else 0
    widths = np.zeros(n_events)
    for column in ids:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            widths += np.asarray(pc.fill_null(pc.binary_length(column), 0))
        else:
            widths += column.nbytes / max(1, n_events)
    return widths
