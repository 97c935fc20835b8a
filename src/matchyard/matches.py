"""Matches: which keys each event goes to, and the work it took to find out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd


class Work(NamedTuple):
    """Exact counters, the same on every run: they show a regression without a stopwatch."""

    candidates: int  # stored rows or filters that were compared with an event
    matches: int  # (event, key) pairs found

    def __add__(self, other: Work) -> Work:  # type: ignore[override]
        return Work(self.candidates + other.candidates, self.matches + other.matches)


class Part(NamedTuple):
    """The matches of some consecutive events, in CSR form."""

    event_start: NDArray[np.int64]  # [n_events + 1] offsets into keys
    keys: NDArray[Any]  # int64, or int32 as a GPU returned them; `Matches` always gives int64
    candidates: int = 0
    encode_s: float = 0.0  # seconds that a thread spent on encoding the events


def end_to_end(parts: Sequence[Part]) -> Part:
    """Join the matches of consecutive events into one part.

    >>> one = Part(np.array([0, 2]), np.array([7, 9]), 5)
    >>> end_to_end([one, one]).event_start.tolist(), end_to_end([one, one]).candidates
    ([0, 2, 4], 10)
    """
    counts = np.concatenate([np.diff(part.event_start) for part in parts])
    return Part(
        np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
        np.concatenate([part.keys for part in parts]),
        sum(part.candidates for part in parts),
        sum(part.encode_s for part in parts),
    )


class Matches(Sequence[list[Any]]):
    """The keys per event, in the order of the events. The order of an event's keys has no meaning.

    Matches keep the parts in which threads found them, so that a large result is not copied.
    `event_start` and `keys` join the parts on first use.

    >>> matches = Matches([Part(np.array([0, 2, 2]), np.array([7, 9]))])
    >>> matches[0], matches[1], matches.work
    ([7, 9], [], Work(candidates=0, matches=2))
    """

    def __init__(
        self,
        parts: Sequence[Part],
        key_names: pa.Array | None = None,
        bad: dict[int, Any] | None = None,
    ) -> None:
        self.parts = tuple(parts)
        self.key_names = key_names  # names by id if keys are strings
        self.bad = bad or {}  # the ParseError of each event that could not be read, by number

    @cached_property
    def event_start(self) -> NDArray[np.int64]:
        """Offsets of each event's keys: event i has `keys[event_start[i]:event_start[i + 1]]`."""
        if len(self.parts) == 1:
            return self.parts[0].event_start
        offsets, end = [np.zeros(1, np.int64)], 0
        for part in self.parts:
            offsets.append(part.event_start[1:] + end)
            end += int(part.event_start[-1])
        return np.concatenate(offsets)

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """All keys, event after event; ids into `key_names` if keys are strings."""
        if len(self.parts) == 1:
            return self.parts[0].keys.astype(np.int64, copy=False)
        none = np.empty(0, np.int64)
        return np.concatenate([none, *(part.keys for part in self.parts)], dtype=np.int64)

    @property
    def work(self) -> Work:
        """The numbers of candidates and matches."""
        candidates = sum(part.candidates for part in self.parts)
        return Work(candidates, sum(len(part.keys) for part in self.parts))

    @property
    def encode_s(self) -> float:
        """Seconds that went into encoding the events, over all threads."""
        return sum(part.encode_s for part in self.parts)

    def __len__(self) -> int:
        return sum(len(part.event_start) - 1 for part in self.parts)

    def __getitem__(self, event: Any) -> Any:
        if isinstance(event, slice):
            return [self[i] for i in range(*event.indices(len(self)))]
        # Matching one event at a time gives one part; there, the cached properties cost time.
        part = self.parts[0] if len(self.parts) == 1 else None
        start = self.event_start if part is None else part.event_start
        keys = self.keys if part is None else part.keys
        if event < 0:
            event += len(start) - 1
        if not 0 <= event < len(start) - 1:
            raise IndexError(f"event {event} of {len(start) - 1}")
        return self._decode(keys[start[event] : start[event + 1]])

    def __iter__(self) -> Iterator[list[Any]]:
        for part in self.parts:
            keys, offsets = self._decode(part.keys), part.event_start.tolist()
            for start, end in pairwise(offsets):
                yield keys[start:end]

    def __repr__(self) -> str:
        return f"<Matches: {len(self)} events, {self.work.matches} matches>"

    def to_lists(self) -> list[list[Any]]:
        """A list of keys per event."""
        return list(self)

    def to_arrow(self) -> pa.Table:
        """The pairs as a table with columns `event` (its number) and `key`; int64 is not copied."""
        events, keys, first = [], [], 0
        for part in self.parts:
            n_events = len(part.event_start) - 1
            numbers = np.arange(first, first + n_events, dtype=np.int64)
            events.append(pa.array(np.repeat(numbers, np.diff(part.event_start))))
            keys.append(self._column(part.keys))
            first += n_events
        key_type = pa.int64() if self.key_names is None else keys[0].type if keys else pa.string()
        return pa.table(
            {"event": pa.chunked_array(events, pa.int64()), "key": pa.chunked_array(keys, key_type)}
        )

    def to_arrays(self) -> pa.ChunkedArray:
        """One list of keys per event, as an Arrow column; int64 is not copied."""
        lists = [
            pa.LargeListArray.from_arrays(pa.array(part.event_start), self._column(part.keys))
            for part in self.parts
        ]
        return pa.chunked_array(lists, None if lists else pa.large_list(pa.int64()))

    def to_pandas(self) -> pd.DataFrame:
        """The pairs as a pandas data frame with columns `event` and `key`."""
        return self.to_arrow().to_pandas()

    def _column(self, keys: NDArray[Any]) -> pa.Array:
        if self.key_names is None:
            return pa.array(keys.astype(np.int64, copy=False))
        numbers = keys.astype(np.int32, copy=False)
        return pa.DictionaryArray.from_arrays(pa.array(numbers), self.key_names)

    def _decode(self, keys: NDArray[Any]) -> list[Any]:
        decoded: list[Any] = (
            keys.tolist()
            if self.key_names is None
            else self.key_names.take(pa.array(keys)).to_pylist()
        )
        return decoded
