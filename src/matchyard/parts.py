"""Parts: the matches of some consecutive events, as a thread or a card found them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.kernels import key_table
from matchyard.kernels.csr import interleave, unique
from matchyard.kernels.key_table import KeyTable
from matchyard.kernels.unique_keys import unique_keys

WRITTEN_LATER = 16  # keys per row: with more, keys are written when they are asked for
STEP = 1 << 20  # keys that are written together where memory is bounded
_LARGE = 1 << 20  # bytes that come from Arrow


class Writer(Protocol):
    """Another way to write the keys of a table, which is faster at times: that of a card."""

    def room(self, n_keys: int, kind: Any) -> NDArray[Any] | None:
        """Memory that suits it; None if it has none."""

    def write(self, hits: Hits, first: int, last: int, keys: NDArray[Any]) -> bool:
        """Write the keys of the events from `first` to `last` into such memory; False if the host should do that."""

    def host_wrote(self, n_bytes: int, seconds: float) -> None:
        """Note how long the host took instead."""


class Hits(NamedTuple):
    """The rows of one table that match some consecutive events. Their keys lie side by side in its key table."""

    start: NDArray[np.int64]  # [n_events + 1] offsets into rows
    rows: NDArray[np.int32]
    table: KeyTable
    key_start: NDArray[np.int64]  # [n_events + 1] offsets into the keys
    writer: Writer | None = None

    def write(self, first: int, last: int, keys: NDArray[Any]) -> None:
        """Write the keys of the events from `first` to `last`."""
        if self.writer is not None and self.writer.write(self, first, last, keys):
            return
        began = perf_counter()
        begin, end = int(self.start[first]), int(self.start[last])
        key_table.fill(self.table, self.rows, begin, end, keys)
        if self.writer is not None:
            self.writer.host_wrote(keys.nbytes, perf_counter() - began)


class Part(NamedTuple):
    """The matches of some consecutive events. Keys are written when they are asked for, unless they are already.

    `found` is one of three: the keys themselves; the hits of one table; or parts, for the same events, of
    several tables.
    """

    event_start: NDArray[np.int64]  # [n_events + 1] offsets into keys
    found: NDArray[Any] | Hits | tuple[Part, ...]
    candidates: int = 0
    encode_s: float = 0.0  # seconds that a thread spent on encoding the events

    @property
    def n_events(self) -> int:
        """The number of events."""
        return len(self.event_start) - 1

    @property
    def n_keys(self) -> int:
        """The number of keys of all events."""
        return int(self.event_start[-1])

    @property
    def keys(self) -> NDArray[Any]:
        """All keys, event after event: 32 bits each if all keys of the tables fit."""
        return self.written(0, self.n_events)

    @property
    def key_type(self) -> type[np.signedinteger]:
        """The type of the keys."""
        found = self.found
        if isinstance(found, Hits):
            return key_table.type_of(found.table)
        kinds = [part.key_type for part in found] if isinstance(found, tuple) else [found.dtype]
        return np.result_type(*kinds).type

    def written(self, first: int, last: int, kind: Any = None) -> NDArray[Any]:
        """The keys of the events from `first` to `last`, in a type that may be wider than theirs."""
        kind = np.dtype(kind or self.key_type)
        start, stop = int(self.event_start[first]), int(self.event_start[last])
        if isinstance(self.found, np.ndarray):
            return self.found[start:stop].astype(kind, copy=False)
        keys = room_for(stop - start, kind, self.writer)
        self.write(first, last, keys)
        return keys

    @property
    def writer(self) -> Writer | None:
        """The other way to write the keys, if there is one."""
        return self.found.writer if isinstance(self.found, Hits) else None

    def write(self, first: int, last: int, keys: NDArray[Any]) -> None:
        """Write the keys of the events from `first` to `last` into an array of their number."""
        found = self.found
        if isinstance(found, Hits):
            found.write(first, last, keys)
        elif isinstance(found, tuple):
            joined = np.zeros(last - first + 1, np.int64), np.empty(0, keys.dtype)
            for part in found:
                start = part.event_start[first : last + 1]
                more = start - start[0], part.written(first, last, keys.dtype)
                joined = interleave(*joined, *more) if len(joined[1]) else more
            keys[:] = joined[1]
        else:
            keys[:] = found[self.event_start[first] : self.event_start[last]]

    def unique(self) -> Part:
        """The same matches with each key once per event."""
        hits = self._worth_marks
        found = None if hits is None else unique_keys(hits.table, hits.start, hits.rows)
        event_start, keys = unique(self.event_start, self.keys) if found is None else found
        return self._replace(event_start=event_start, found=keys)

    def n_distinct(self) -> NDArray[np.int64]:
        """The number of distinct keys of each event."""
        hits = self._worth_marks
        found = None if hits is None else unique_keys(hits.table, hits.start, hits.rows, False)
        if found is not None:
            return np.diff(found[0])
        counts = np.empty(self.n_events, np.int64)
        for first, last in self.steps(STEP):
            start = self.event_start[first : last + 1]
            distinct, _ = unique(start - start[0], self.written(first, last))
            counts[first:last] = np.diff(distinct)
        return counts

    @property
    def _worth_marks(self) -> Hits | None:
        """The hits, if they have more keys than the table: marks cost a look at all its keys."""
        found = self.found
        if isinstance(found, Hits) and self.n_keys > found.table.key_start[-1]:
            return found
        return None

    def steps(self, n_keys: int) -> Iterator[tuple[int, int]]:
        """Consecutive events with at most so many keys together, or single events: (first, last)."""
        first = 0
        while first < self.n_events:
            most = self.event_start[first] + n_keys
            last = int(np.searchsorted(self.event_start, most, side="right")) - 1
            last = max(last, first + 1)
            yield first, last
            first = last


def room_for(n_keys: int, kind: Any, writer: Writer | None = None) -> NDArray[Any]:
    """Memory for keys, which a writer may fill. Arrow's mimalloc keeps memory for a while after it is freed, which NumPy gives back to the
    system: two threads fill fresh memory twice as fast. Its other allocators take small pages, which is slow."""
    room = None if writer is None else writer.room(n_keys, kind)
    if room is not None:
        return room
    n_bytes = n_keys * np.dtype(kind).itemsize
    if n_bytes < _LARGE or pa.default_memory_pool().backend_name != "mimalloc":
        return np.empty(n_keys, kind)
    return np.frombuffer(pa.allocate_buffer(n_bytes), kind)


def part_of(
    table: Any,
    hit_start: NDArray[np.int64],
    hits: NDArray[np.int32],
    candidates: int,
    event_start: NDArray[np.int64] | None = None,
    writer: Writer | None = None,
) -> Part:
    """The matches of events, from the rows of a table that match each: `hits` is a buffer with at least
    `hit_start[-1]` rows. Rows with few keys are replaced by their keys at once: see docs/decisions/0035. A card has
    counted the keys of each event, `event_start`, and has a writer."""
    n_hits, keyed = int(hit_start[-1]), key_table.key_table(table)
    if n_hits > len(table.key_start) and key_table.has_one_each(keyed):
        return Part(hit_start, key_table.keys_of(table)[hits[:n_hits]], candidates)
    if event_start is None:
        event_start = np.empty(len(hit_start), np.int64)
        key_table.count(keyed, hit_start, hits, event_start)
    n_keys = int(event_start[-1])
    if n_keys > WRITTEN_LATER * n_hits:
        rows = hits[:n_hits].copy() if writer is None else hits  # a card's are not used again
        return Part(event_start, Hits(hit_start, rows, keyed, event_start, writer), candidates)
    keys = room_for(n_keys, key_table.type_of(keyed))
    return Part(event_start, key_table.fill(keyed, hits, 0, n_hits, keys), candidates)


def join(parts: Sequence[Part], n_events: int) -> Part:
    """Join the results of several tables for the same events."""
    if len(parts) == 1:
        return parts[0]
    candidates = sum(part.candidates for part in parts)
    encode_s = sum(part.encode_s for part in parts)
    full = tuple(part for part in parts if part.n_keys)
    if not full:
        return Part(np.zeros(n_events + 1, np.int64), np.empty(0, np.int32), candidates, encode_s)
    if len(full) == 1:
        return Part(full[0].event_start, full[0].found, candidates, encode_s)
    event_start = np.sum([part.event_start for part in full], axis=0)
    return Part(event_start, full, candidates, encode_s)


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
