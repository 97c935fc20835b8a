"""A segment: a vocabulary with its compiled tables. Nothing in it changes after it is made.

Removals make a new segment with the same tables and more tombstones in their key tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.engine import Configured
from matchyard.errors import EventError, StorageError
from matchyard.index.placement import ask_cards, cut
from matchyard.index.workspaces import IN_TURNS, Workspaces
from matchyard.kernels import csr, key_table
from matchyard.kernels.strings import freeze, n_bytes
from matchyard.matches import Part

_KEPT_BYTES = 1 << 30  # of rows; a larger build frees them half way, and cannot be undone
CHUNK = 4096  # events per step of a thread: enough to share the work, small enough for the cache
_MOST_KEYS = 1 << 26  # that a step should find: results of gigabytes are slow to put together
LEAST = 256  # fewer are not shared among threads: events can be slow, but handing over costs, too


class Rows(NamedTuple):
    """Subscriptions before they are compiled."""

    batch: Any
    vocabulary: Any
    keys: NDArray[np.int64]


class Removals(NamedTuple):
    """What has to go: every subscription of some keys, and some (subscription, key) pairs."""

    keys: NDArray[np.int64]
    pairs: list[tuple[Any, int]]

    def __bool__(self) -> bool:
        return bool(len(self.keys) or self.pairs)


class Segment:
    """Compiled subscriptions over one vocabulary, in one or more tables."""

    def __init__(self, settings: Configured, vocabulary: Any, tables: Sequence[Any]) -> None:
        self.settings, self.vocabulary = settings, freeze(vocabulary)
        self.tables = tuple(freeze(table) for table in cut(settings, vocabulary, tables))
        self.workspaces = Workspaces(settings, self.tables)
        self._found_each: float | None = None  # keys per event, lately

    def _with(self, tables: Sequence[Any]) -> Segment:
        """The same segment with other removals in its tables. No card is asked, since a card that has
        failed must not keep changes from being seen."""
        found = copy(self)
        found.tables = tuple(freeze(table) for table in tables)
        found.workspaces = self.workspaces.of(found.tables)
        return found

    @classmethod
    def compile(cls, settings: Configured, parts: list[Rows], shard_size: int) -> Segment:
        """Compile subscriptions, `shard_size` in a table.

        Empties `parts` to free memory early. When it fails it puts what it had back there, joined,
        unless that is too large to have been kept.
        """
        ask_cards(settings)  # while nothing is lost
        keys = parts[0].keys if len(parts) == 1 else np.concatenate([p.keys for p in parts])
        batch, vocabulary = settings.engine.encoder.merge(
            [(part.batch, part.vocabulary) for part in parts]
        )
        parts.clear()
        kept = Rows(batch, vocabulary, keys) if n_bytes(batch) <= _KEPT_BYTES else None
        shards = [
            batch.rows(start, min(start + shard_size, len(keys)))
            for start in range(0, len(keys), shard_size)
        ]
        shards = shards if len(shards) > 1 else [batch]
        del batch
        tables: list[Any] = []
        try:
            while shards:  # each is handed over, so that it can be freed half way
                some = keys[shard_size * len(tables) : shard_size * (len(tables) + 1)]
                tables.append(
                    settings.algorithm.compile(shards.pop(0), some, vocabulary, settings.options)
                )
            return cls(settings, vocabulary, tables)  # asks cards, which may fail
        except BaseException:
            parts.extend([kept] if kept else [])
            raise

    @property
    def n_keys(self) -> int:
        """Subscriptions in the tables, removed ones included."""
        return sum(len(table.keys) for table in self.tables)

    @property
    def n_tombstones(self) -> int:
        """Keys and pairs removed since the tables were compiled."""
        return sum(
            len(csr.hash_set_values(gone))
            for table in self.tables
            for gone in (table.removed_keys, table.removed_at)
        )

    def n_living(self) -> int:
        """Subscriptions that are not removed."""
        if not self.n_tombstones:
            return self.n_keys
        return sum(key_table.n_living(table) for table in self.tables)

    @property
    def n_bytes(self) -> int:
        """Memory of vocabulary and tables, mapped from disk or not."""
        return n_bytes(self.vocabulary) + n_bytes(self.tables)

    def encode(self, column: Any) -> Any:
        """A column of events as a batch over this segment's vocabulary."""
        return self.settings.encode(column, self.vocabulary)

    def match(self, column: Any, once: bool = False) -> Part:
        """The keys per event, by one thread. With `once`, the algorithm may leave out keys that an
        event has already."""
        match: Callable[..., Part] = self.settings.algorithm.match
        if once and not self.has_removals:
            match = self.settings.abilities.match_unique or match
        return self.ask(column, match)

    @property
    def has_removals(self) -> bool:
        """True where keys of the tables are removed."""
        return any(len(table.removed_keys) or len(table.removed_at) for table in self.tables)

    def ask(self, column: Any, find: Callable[[Any, Any, Any, Any], Part]) -> Part:
        """The results of all tables for the events, joined."""
        found, encode_s, first = [], 0.0, 0
        while True:  # no events are a batch, too
            start = perf_counter()
            batch, n_rows = self._encode_from(column, first)
            encode_s += perf_counter() - start
            found.append(join(self.workspaces.match(find, batch), n_rows))
            first += n_rows
            if first >= column.n_rows:
                break
        joined = found[0] if len(found) == 1 else in_order(found)
        if column.n_rows:
            self._found_each = len(joined.keys) / column.n_rows
        return Part(joined.event_start, joined.keys, joined.candidates, encode_s)

    def _encode_from(self, column: Any, first: int) -> tuple[Any, int]:
        """A batch of the events from `first` on, and how many there are in it. No generator: Ctrl-C
        in one that is being closed would be ignored."""
        rows = column.rows(first, column.n_rows) if first else column
        try:
            return self.settings.encode_some(rows, self.vocabulary)
        except EventError as error:
            raise error.counted_from(first) from None

    def check(self, column: Any) -> None:
        """Refuse what cannot be encoded."""
        first = self._encode_from(column, 0)[1]
        while first < column.n_rows:
            first += self._encode_from(column, first)[1]

    @property
    def launch(self) -> int:
        """Events that are worth a step of a thread: a GPU wants more of them than the CPU."""
        n_events = self.settings.abilities.LAUNCH or CHUNK
        return n_events * IN_TURNS if self.workspaces.in_turns else n_events

    def at_once(self, n_events: int) -> int:
        """How many of so many events to match at once, where there may be more than the CPU takes: not
        so many that a result gets too large, and few as long as nothing is known of what they find."""
        if n_events <= LEAST or self.launch <= CHUNK:
            return n_events
        times = IN_TURNS if self.workspaces.in_turns else 1  # each step then copies all tables
        if self._found_each is None:
            return min(n_events, CHUNK * times)
        fitting = int(_MOST_KEYS * times / max(self._found_each, 1.0))
        return min(n_events, max(LEAST, fitting))

    def remove(self, removals: Removals) -> Segment:
        """The same segment with more tombstones."""
        if not removals or not self.n_keys:
            return self
        gone = self._locate(removals.pairs)
        tables = [
            table._replace(
                removed_keys=_extended(table.removed_keys, removals.keys),
                removed_at=_extended(table.removed_at, positions),
            )
            for table, positions in zip(self.tables, gone, strict=True)
        ]
        return self._with(tables)

    def _locate(self, pairs: list[tuple[Any, int]]) -> list[NDArray[np.int64]]:
        """Where the pairs stand in the key table of each of the tables."""
        if not pairs:
            return [np.empty(0, np.int64) for _ in self.tables]
        if self.settings.abilities.locate is not None:
            return self._locate_by_value(pairs, self.settings.abilities.locate)
        return [self._locate_by_key(table, pairs) for table in self.tables]

    def _locate_by_key(self, table: Any, pairs: list[tuple[Any, int]]) -> NDArray[np.int64]:
        """All subscriptions of the keys are decoded and compared."""
        values: dict[int, set[Any]] = {}
        for value, key in pairs:
            values.setdefault(key, set()).add(value)
        positions = key_table.positions_of(
            table.keys, csr.hash_set(np.array(list(values), np.int64))
        )
        rows, number = np.unique(key_table.rows_at(table.key_start, positions), return_inverse=True)
        batch = self.settings.algorithm.subscriptions(table, rows)
        stored = self._decoded(batch, len(rows))
        keys = table.keys[positions].tolist()
        gone = [stored[row] in values[key] for row, key in zip(number, keys, strict=True)]
        found: NDArray[np.int64] = positions[np.array(gone, np.bool_)]
        return found

    def _locate_by_value(
        self, pairs: list[tuple[Any, int]], locate: Callable[..., tuple[Any, Any]]
    ) -> list[NDArray[np.int64]]:
        encoder: Any = self.settings.engine.encoder
        column = encoder.subscription_column(
            [pair[0] for pair in pairs], self.settings.input_options
        )
        batch = self.encode(column)
        # One with a name that the vocabulary lacks was never stored: encoding would shorten it.
        known = encoder.is_known(column, batch)
        wanted = np.array([pair[1] for pair in pairs], np.int64)
        options = self.settings.options
        make = self.settings.abilities.locate_workspace or self.settings.algorithm.workspace
        found = []
        for table in self.tables:
            start, rows = locate(table, batch, make(table, options), options)
            numbers = np.repeat(np.arange(len(pairs)), np.diff(start))
            rows, numbers = rows[known[numbers]], numbers[known[numbers]]
            first = table.key_start[rows].astype(np.int64)
            n_keys = table.key_start[rows + 1] - first
            before = np.cumsum(n_keys) - n_keys
            positions = np.arange(n_keys.sum()) + np.repeat(first - before, n_keys)
            found.append(positions[table.keys[positions] == np.repeat(wanted[numbers], n_keys)])
        return found

    def living(self) -> Rows:
        """All subscriptions that are not removed, ready to be compiled again."""
        pieces = []
        for table in self.tables:
            positions = key_table.living(table)
            batch = self.settings.algorithm.subscriptions(
                table, key_table.rows_at(table.key_start, positions)
            )
            pieces.append((batch, self.vocabulary, table.keys[positions]))
        keys = np.concatenate([piece[2] for piece in pieces])
        if len(pieces) == 1:
            return Rows(*pieces[0])
        batch, vocabulary = self.settings.engine.encoder.merge([piece[:2] for piece in pieces])
        return Rows(batch, vocabulary, keys)

    def find(self, key: int) -> list[Any]:
        """The subscriptions of a key, as values."""
        found = []
        for table in self.tables:
            at, keyed = np.flatnonzero(table.keys == key), key_table.key_table(table)
            at = at[[not key_table.is_removed(keyed, position) for position in at]]
            rows = key_table.rows_at(table.key_start, at)
            batch = self.settings.algorithm.subscriptions(table, rows)
            found += self._decoded(batch, len(rows))
        return found

    def _decoded(self, batch: Any, n_rows: int) -> list[Any]:
        """Encoded subscriptions as values. What a forged table holds may stand for none."""
        decode = self.settings.engine.encoder.decode
        try:
            return [decode(batch, row, self.vocabulary) for row in range(n_rows)]
        except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise StorageError(f"a stored subscription cannot be read: {error!r}") from error


def _extended(table: NDArray[np.int64], more: NDArray[np.int64]) -> NDArray[np.int64]:
    if len(more) == 0:
        return table
    return csr.hash_set(np.concatenate([csr.hash_set_values(table), more]))


def unique(part: Part) -> Part:
    """Each key once per event."""
    event_start, keys = csr.unique(part.event_start, part.keys)
    return part._replace(event_start=event_start, keys=keys)


def in_order(parts: Sequence[Part]) -> Part:
    """Results for consecutive events, one after the other."""
    counts = [np.diff(part.event_start) for part in parts]
    event_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(counts))])
    keys = np.concatenate([part.keys for part in parts])
    return Part(event_start, keys, sum(part.candidates for part in parts))


def join(parts: Sequence[Part], n_events: int) -> Part:
    """Results of several tables for the same events, event by event."""
    if not parts:
        return Part(np.zeros(n_events + 1, np.int64), np.empty(0, np.int64))
    joined = parts[0]
    for part in parts[1:]:
        start, keys = csr.interleave(joined.event_start, joined.keys, part.event_start, part.keys)
        candidates = joined.candidates + part.candidates
        joined = Part(start, keys, candidates, joined.encode_s + part.encode_s)
    return joined
