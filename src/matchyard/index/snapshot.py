"""A snapshot: the segments that one call of `match` sees from beginning to end.

An index that was consolidated has one segment. A live index has more: side segments with the
subscriptions that were added since, and removals as tombstones in the older ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.errors import DeviceError, EventError, forget_locals
from matchyard.index.keys import Keys
from matchyard.index.recent import Recent
from matchyard.index.segment import CHUNK, LEAST, Segment
from matchyard.matches import Matches, Part, join
from matchyard.threads.pools import pool

_FEW = 16  # keys whose names are looked up one by one
_STEPS = 2  # per thread at least, so that a slow thread does not hold up the others


class Snapshot(NamedTuple):
    """The state that one call of `match` sees from beginning to end."""

    segments: tuple[Segment, ...]
    key_names: pa.Array | None
    version: int = 0  # counts the removals of a live index
    recent: Recent | None = None
    keys: Keys | None = None  # for the numbers of keys in this snapshot

    @property
    def sources(self) -> tuple[Segment | Recent, ...]:
        """Everything that an event is matched with."""
        return self.segments if self.recent is None else (*self.segments, self.recent)

    def recent_rows(self) -> Iterator[tuple[Any, int]]:
        """The recent subscriptions, with the numbers of their keys."""
        return iter(()) if self.recent is None else self.recent.rows()

    def n_living(self) -> int:
        """The number of subscriptions."""
        n_recent = 0 if self.recent is None else self.recent.n_living
        return n_recent + sum(segment.n_living() for segment in self.segments)

    def named(self, numbers: NDArray[np.int64]) -> list[Any]:
        """The keys with these numbers."""
        return list(numbers.tolist()) if self.key_names is None else self.names(numbers)

    def names(self, numbers: Any) -> list[Any]:
        """The string keys with these numbers."""
        names: Any = self.key_names
        if len(numbers) <= _FEW:
            return [names[number].as_py() for number in numbers]
        return list(names.take(pa.array(numbers, pa.int64())).to_pylist())

    def kind(self) -> str | None:
        """The kind of the subscriptions; None without any, or if they could be of any kind."""
        for segment in self.segments:
            for batch in segment.ends():
                kind: str | None = segment.settings.engine.encoder.kind(batch)
                if kind is not None:
                    return kind
        return None

    def _chunk(self) -> int:
        return max((source.launch for source in self.sources), default=CHUNK)

    def find_one(self, event: Any, recent_finder: Any) -> tuple[list[int], int] | None:
        """The numbers of the keys of one event, which the encoder's `Reader` has read, and the number of
        candidates; None if it has to be matched as a batch."""
        if len(self.segments) == 1 and self.recent is None:
            return self.segments[0].find_one(event)
        numbers: list[int] = []
        candidates = 0
        for segment in self.segments:
            some = segment.find_one(event)
            if some is None:
                return None
            numbers += some[0]
            candidates += some[1]
        if self.recent is not None:
            n_rows = recent_finder.find(event, self.recent.checks)
            if n_rows < 0:
                return None
            numbers += self.recent.keys_of(recent_finder.rows[:n_rows].tolist())
            candidates += self.recent.n_rows
        return numbers, candidates

    def match(self, column: Any, threads: int) -> Matches:
        """The keys per event of a column of events."""
        return self.in_steps(column, threads, lambda source, rows, first: source.match(rows))

    def match_unique(self, column: Any, threads: int) -> Matches:
        """Each key once per event."""
        return self.in_steps(
            column, threads, lambda source, rows, first: source.match(rows, once=True), Part.unique
        )

    def in_steps(
        self,
        column: Any,
        threads: int,
        find: Callable[[Any, Any, int], Part],
        finish: Callable[[Part], Part] | None = None,
    ) -> Matches:
        """Match some events at a time, with several threads. `find` gets a segment or the recent
        additions, events and the number of the first event. `finish` changes the joined results."""
        n_events, sources = column.n_rows, self.sources
        n_steps = _STEPS * threads if threads > 1 else 1
        least = max((source.least for source in sources), default=LEAST)
        chunk = min(self._chunk(), max(least, -(-n_events // n_steps)))

        def step(first: int) -> Iterator[Part]:
            last = min(first + chunk, n_events)
            while True:  # at least once: without events, the result is an empty part
                at_once = [source.at_once(last - first) for source in sources]
                n_rows = min(at_once, default=last - first)
                yield part_of(first, n_rows)
                first += n_rows
                if first == last:
                    return

        def part_of(first: int, n_rows: int) -> Part:
            start = perf_counter()
            rows = column.rows(first, first + n_rows)  # this may parse them
            read_s = perf_counter() - start
            try:
                parts = [find(source, rows, first) for source in sources]
            except EventError as error:
                raise error.counted_from(first) from None
            except DeviceError as error:
                last = first + rows.n_rows - 1
                forget_locals(error)  # they hold memory of the card
                raise DeviceError(f"events {first:,} to {last:,}: {error}") from error
            part = join(parts, rows.n_rows)
            part = part._replace(encode_s=part.encode_s + read_s)
            return finish(part) if finish else part

        if n_events <= min(chunk, least):
            return Matches((part_of(0, n_events),), self.key_names, threads=threads)
        starts = range(0, n_events, chunk)
        if threads == 1 or n_events <= chunk:
            steps: Iterable[Iterable[Part]] = map(step, starts)
        else:
            steps = pool(threads).map(lambda first: list(step(first)), starts)
        return Matches(list(chain.from_iterable(steps)), self.key_names, threads=threads)
