"""Matches: which keys each event goes to, and the work it took to find out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.parts import STEP, WRITTEN_LATER, Hits, Part, end_to_end, join, part_of, room_for
from matchyard.threads.pools import pool

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["WRITTEN_LATER", "Hits", "Matches", "Part", "Work", "end_to_end", "join", "part_of"]
_MUCH = 1 << 16  # keys that several threads write


class Work(NamedTuple):
    """Exact counters, the same on every run: they show a regression without a stopwatch."""

    candidates: int  # stored rows or filters that were compared with an event
    matches: int  # (event, key) pairs found

    def __add__(self, other: Work) -> Work:  # type: ignore[override]
        return Work(self.candidates + other.candidates, self.matches + other.matches)


class Matches(Sequence[list[Any]]):
    """The keys per event, in the order of the events. The order of an event's keys has no meaning.

    Matches know the subscriptions that match each event. Their keys are written when they are asked for, so
    counting costs no memory. Matches keep the tables of the index alive that they were found in.

    >>> matches = Matches([Part(np.array([0, 2, 2]), np.array([7, 9]))])
    >>> matches[0], matches[1], matches.work
    ([7, 9], [], Work(candidates=0, matches=2))
    >>> matches.counts(), matches.total
    (array([2, 0]), 2)
    """

    def __init__(
        self,
        parts: Sequence[Part],
        key_names: pa.Array | None = None,
        bad: dict[int, Any] | None = None,
        threads: int = 1,
    ) -> None:
        self.parts = tuple(parts)
        self.key_names = key_names  # names by id if keys are strings
        self.bad = bad or {}  # the ParseError of each event that could not be read, by number
        self.threads = threads  # that write keys
        # No `cached_property`: in Python 3.11 all objects of a class share its lock, which a fork may inherit locked.
        self._keys: NDArray[Any] | None = None
        self._event_start: NDArray[np.int64] | None = None
        # The first event of each part. Matches of single events are made often.
        self._firsts = [0]
        if len(self.parts) > 1:
            self._firsts = [*accumulate((part.n_events for part in parts[:-1]), initial=0)]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled matches have their keys, and not the tables of the index."""
        parts = [part._replace(found=part.keys) for part in self.parts]
        return Matches, (parts, self.key_names, self.bad, self.threads)

    @property
    def event_start(self) -> NDArray[np.int64]:
        """Offsets of each event's keys: event i has `keys[event_start[i]:event_start[i + 1]]`."""
        if self._event_start is None:
            self._event_start = self._joined_starts()
        return self._event_start

    def _joined_starts(self) -> NDArray[np.int64]:
        if len(self.parts) == 1:
            return self.parts[0].event_start
        offsets, end = [np.zeros(1, np.int64)], 0
        for part in self.parts:
            offsets.append(part.event_start[1:] + end)
            end += part.n_keys
        return np.concatenate(offsets)

    @property
    def keys(self) -> NDArray[Any]:
        """All keys, event after event, as int32 where the tables of the index have no larger ones, else as int64. If
        keys are strings, these are ids in `key_names`. The array is kept: to read a large result once, iterate over
        `batches`."""
        if self._keys is None:
            self._keys = self._all_keys()
        return self._keys

    def _all_keys(self) -> NDArray[Any]:
        if len(self.parts) == 1 and isinstance(self.parts[0].found, np.ndarray):
            return self.parts[0].found
        writers = (part.writer for part in self.parts)
        writer = next((one for one in writers if one is not None), None)
        keys = room_for(self.total, self._key_type, writer)
        ends = np.cumsum([0, *(part.n_keys for part in self.parts)]).tolist()
        places = [keys[start:end] for start, end in pairwise(ends)]
        self._by_threads(
            lambda number: self.parts[number].write(0, self.parts[number].n_events, places[number])
        )
        return keys

    @property
    def _key_type(self) -> Any:
        kinds = [part.key_type for part in self.parts if part.n_keys]
        return np.result_type(*kinds) if kinds else np.dtype(np.int32)

    def _by_threads(self, work: Callable[[int], Any]) -> list[Any]:
        """Do some work for each part, by several threads if there is much to write."""
        numbers = range(len(self.parts))
        if self.threads == 1 or len(numbers) == 1 or self.total < _MUCH:
            return list(map(work, numbers))
        return pool(self.threads).map(work, numbers)

    @property
    def total(self) -> int:
        """The number of pairs of an event and a key; no key is written."""
        return sum(part.n_keys for part in self.parts)

    def counts(self, unique: bool = False) -> NDArray[np.int64]:
        """The number of keys of each event, or of distinct keys. No key is kept.

        >>> Matches([Part(np.array([0, 2]), np.array([7, 7]))]).counts(unique=True)
        array([1])
        """
        if not unique:
            return np.diff(self.event_start)
        counts = self._by_threads(lambda number: self.parts[number].n_distinct())
        return np.concatenate([np.empty(0, np.int64), *counts])

    @property
    def work(self) -> Work:
        """The numbers of candidates and matches."""
        return Work(sum(part.candidates for part in self.parts), self.total)

    @property
    def encode_s(self) -> float:
        """Seconds that went into encoding the events, over all threads."""
        return sum(part.encode_s for part in self.parts)

    def __len__(self) -> int:
        return sum(part.n_events for part in self.parts)

    def __getitem__(self, event: Any) -> Any:
        if isinstance(event, slice):
            return [self[i] for i in range(*event.indices(len(self)))]
        n_events = len(self)
        if event < 0:
            event += n_events
        if not 0 <= event < n_events:
            raise IndexError(f"event {event} of {n_events}")
        if len(self.parts) == 1:  # as for single events, whose every step costs time
            return self._decode(self.parts[0].written(event, event + 1))
        number = bisect_right(self._firsts, event) - 1
        event -= self._firsts[number]
        return self._decode(self.parts[number].written(event, event + 1))

    def __iter__(self) -> Iterator[list[Any]]:
        for part, first, last in self.steps(STEP):
            keys = self._decode(part.written(first, last))
            start = part.event_start[first : last + 1]
            for low, high in pairwise((start - start[0]).tolist()):
                yield keys[low:high]

    def steps(self, n_pairs: int) -> Iterator[tuple[Part, int, int]]:
        """Consecutive events with at most so many keys together, or single events: a part, its first event and
        the event after the last. `part.written(first, last)` has their keys."""
        for part in self.parts:
            for first, last in part.steps(n_pairs):
                yield part, first, last

    def __repr__(self) -> str:
        return f"<Matches: {len(self)} events, {self.total} matches>"

    def to_lists(self) -> list[list[Any]]:
        """A list of keys per event."""
        return list(self)

    def to_arrow(self, narrow: bool = False) -> pa.Table:
        """The pairs as a table with columns `event` (its number, int64) and `key`: names or int64, or with `narrow`
        the type of `keys`."""
        kind = self._key_type if narrow else np.int64

        def columns(number: int) -> tuple[pa.Array, pa.Array]:
            part, first = self.parts[number], self._firsts[number]
            keys = self._column(part, 0, part.n_events, kind)
            return _numbers(part, 0, part.n_events, first), keys

        pairs = self._by_threads(columns)
        key_type = pa.int64() if self.key_names is None else pa.string()
        if pairs:
            key_type = pairs[0][1].type
        return pa.table({
            "event": pa.chunked_array([pair[0] for pair in pairs], pa.int64()),
            "key": pa.chunked_array([pair[1] for pair in pairs], key_type),
        })  # fmt: skip

    def to_arrays(self, narrow: bool = False) -> pa.ChunkedArray:
        """One list of keys per event, as an Arrow column: of names or int64, or with `narrow` of the type of `keys`,
        which takes half the memory if that is int32."""
        kind = self._key_type if narrow else np.int64

        def lists(number: int) -> pa.Array:
            part = self.parts[number]
            keys = self._column(part, 0, part.n_events, kind)
            return pa.LargeListArray.from_arrays(pa.array(part.event_start), keys)

        chunks = self._by_threads(lists)
        return pa.chunked_array(chunks, None if chunks else pa.large_list(pa.int64()))

    def to_pandas(self) -> pd.DataFrame:
        """The pairs as a pandas data frame with columns `event` and `key`."""
        return self.to_arrow().to_pandas()

    def batches(self, n_pairs: int = STEP, first_event: int = 0) -> Iterator[pa.RecordBatch]:
        """The pairs in Arrow batches of at most so many, or of one event: `event` (its number, counted from
        `first_event`) and `key`. Only one batch is in memory at a time.

        >>> matches = Matches([Part(np.array([0, 2, 3]), np.array([7, 9, 7]))])
        >>> [batch.to_pydict() for batch in matches.batches(2)]
        [{'event': [0, 0], 'key': [7, 9]}, {'event': [1], 'key': [7]}]
        """
        for number, part in enumerate(self.parts):
            for first, last in part.steps(n_pairs):
                if part.event_start[first] < part.event_start[last]:
                    events = _numbers(part, first, last, first_event + self._firsts[number])
                    yield pa.record_batch({"event": events, "key": self._column(part, first, last)})

    def array_batches(self, n_pairs: int = STEP) -> Iterator[pa.Array]:
        """One list of keys per event, as Arrow columns of at most so many keys together, or of one event.

        >>> matches = Matches([Part(np.array([0, 2, 3]), np.array([7, 9, 7]))])
        >>> [lists.to_pylist() for lists in matches.array_batches(2)]
        [[[7, 9]], [[7]]]
        """
        for part, first, last in self.steps(n_pairs):
            start = part.event_start[first : last + 1] - part.event_start[first]
            yield pa.LargeListArray.from_arrays(pa.array(start), self._column(part, first, last))

    def _column(self, part: Part, first: int, last: int, kind: Any = np.int64) -> pa.Array:
        """The keys of some events of a part."""
        if self.key_names is None:
            return pa.array(part.written(first, last, kind))
        numbers = part.written(first, last).astype(np.int32, copy=False)
        return pa.DictionaryArray.from_arrays(pa.array(numbers), self.key_names)

    def _decode(self, keys: NDArray[Any]) -> list[Any]:
        if self.key_names is None:
            return list(keys.tolist())
        # From the buffer: `pa.array` imports pandas, which takes longer than a first match.
        kind = pa.from_numpy_dtype(keys.dtype)
        numbers = pa.Array.from_buffers(kind, len(keys), [None, pa.py_buffer(keys)])
        return list(self.key_names.take(numbers).to_pylist())


def _numbers(part: Part, first: int, last: int, first_event: int) -> pa.Array:
    """The number of the event of each pair."""
    events = np.arange(first_event + first, first_event + last, dtype=np.int64)
    return pa.array(np.repeat(events, np.diff(part.event_start[first : last + 1])))
