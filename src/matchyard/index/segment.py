"""A segment: a vocabulary with its compiled tables. Its arrays never change.

Removals make a new segment with the same tables and more tombstones: in their key tables, or, for the keys of a
live index, in a set that all versions of the segment share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import count
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.engine import Configured
from matchyard.errors import EventError, StorageError
from matchyard.gpu.devices import is_gpu
from matchyard.index.placement import ask_cards, cut
from matchyard.index.removals import Removals, Tombstones, extended, located
from matchyard.index.workspaces import IN_TURNS, Workspaces
from matchyard.kernels import csr, key_table
from matchyard.kernels.strings import freeze, n_bytes
from matchyard.matches import Part, end_to_end, join
from matchyard.storage import Unchecked

_KEPT_BYTES = 1 << 30  # of rows; a larger build frees its rows early, and loses them if it fails
CHUNK = 4096  # events per step of a thread: enough to share the work, small enough for the cache
_MOST_KEYS = 1 << 26  # keys that a step should find at most: results of gigabytes are slow to join
LEAST = 256  # events per step at least: sharing fewer among threads costs more than it saves
_LEAST_ON_CARD = 1024  # the calls of a step take the interpreter for as long as reading so many events takes a thread
_numbers = count()


class Rows(NamedTuple):
    """Subscriptions before they are compiled."""

    batch: Any
    vocabulary: Any
    keys: NDArray[np.int64]


class Segment:
    """Compiled subscriptions over one vocabulary, in one or more tables."""

    def __init__(
        self,
        settings: Configured,
        vocabulary: Any,
        tables: Sequence[Any],
        unchecked: Sequence[Unchecked] = (),
    ) -> None:
        self.settings, self.vocabulary = settings, freeze(vocabulary)
        if is_gpu(settings.device):  # a card gets whole tables
            _check(unchecked)
            unchecked = ()
        self._unchecked = unchecked
        # Only lengths, types and removals may be read here: `tables` checks the rest.
        self.outlines = tuple(freeze(table) for table in cut(settings, vocabulary, tables))
        self.workspaces = Workspaces(settings, self.outlines, unchecked=unchecked)
        self.tombstones, self.version = Tombstones(), 0  # the tombstones up to this version count
        self.number = next(_numbers)  # the same for all versions
        self._finders: list[list[Any]] = []  # of single events, those that no thread is using
        self._found_each: float | None = None  # keys per event of the last match

    @property
    def tables(self) -> tuple[Any, ...]:
        """The tables, all of them checked."""
        _check(self._unchecked)
        return self.outlines

    def renumbered(self, numbers: NDArray[np.int64]) -> Segment:
        """The same segment with other numbers of string keys."""
        segment = self._with(
            [table._replace(keys=key_table.narrowed(numbers[table.keys]), removed_keys=_mapped(table.removed_keys, numbers))
             for table in self.tables]
        )  # fmt: skip
        segment.tombstones = self.tombstones.renumbered(numbers)
        return segment

    def moved(self, settings: Configured) -> Segment:
        """The same segment on another device."""
        segment = Segment(settings, self.vocabulary, self.tables)
        segment.tombstones, segment.version = self.tombstones, self.version
        return segment

    def _with(self, tables: Sequence[Any]) -> Segment:
        """The same segment with other removals in its tables. This asks no card: a failed card must
        not keep changes from becoming visible."""
        segment = copy(self)
        segment.outlines = tuple(freeze(table) for table in tables)
        segment.workspaces, segment._finders = self.workspaces.of(segment.outlines), []
        return segment

    @classmethod
    def compile(cls, settings: Configured, parts: list[Rows], shard_size: int) -> Segment:
        """Compile subscriptions, at most `shard_size` in a table.

        Empties `parts` to free memory early. A failure puts the joined rows back, unless they were
        too large to keep.
        """
        ask_cards(settings)  # before anything can be lost
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
            while shards:  # hand each over, so that it can be freed early
                some = keys[shard_size * len(tables) : shard_size * (len(tables) + 1)]
                some = key_table.narrowed(some)
                tables.append(
                    settings.algorithm.compile(shards.pop(0), some, vocabulary, settings.options)
                )
            return cls(settings, vocabulary, tables)  # asks cards, which may fail
        except BaseException:
            parts.extend([kept] if kept else [])
            raise

    @property
    def n_keys(self) -> int:
        """The number of subscriptions in the tables, including removed ones."""
        return sum(len(table.keys) for table in self.outlines)

    @property
    def n_tombstones(self) -> int:
        """The number of keys and pairs removed since the tables were compiled."""
        return self.tombstones.n_keys + sum(
            len(csr.hash_set_values(gone))
            for table in self.outlines
            for gone in (table.removed_keys, table.removed_at)
            if len(gone)
        )

    def n_living(self) -> int:
        """The number of subscriptions that are not removed."""
        if not self.n_tombstones:
            return self.n_keys
        return sum(len(self.positions(table)) for table in self.tables)

    def positions(self, table: Any, start: int = 0, stop: int | None = None) -> NDArray[np.int64]:
        """The positions of a key table from `start` to `stop` that are not removed."""
        positions = key_table.living(table, start, stop)
        return self._seen(table, positions)

    def _seen(self, table: Any, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The positions that have no tombstone of this version."""
        if not self.tombstones.n_keys:
            return positions
        return self.tombstones.living_among(table.keys, positions, self.version)

    @property
    def n_bytes(self) -> int:
        """Bytes of the vocabulary and tables, in memory or mapped from disk."""
        return n_bytes(self.vocabulary) + n_bytes(self.outlines)

    def encode(self, column: Any) -> Any:
        """Encode a column of events with this segment's vocabulary."""
        return self.settings.encode(column, self.vocabulary)

    def match(self, column: Any, once: bool = False) -> Part:
        """Match events in this thread. With `once`, the algorithm may leave out repeated keys."""
        match: Callable[..., Part] = self.settings.algorithm.match
        if once and not self._has_marks:
            match = self.settings.abilities.match_unique or match
        part = self.ask(column, match)
        return self.tombstones.without(part, self.version) if self.tombstones.n_keys else part

    def find_one(self, event: Any) -> tuple[list[int], int] | None:
        """The keys of one event, which the encoder's `Reader` has read, and the number of candidates;
        None if it has to be matched as a batch."""
        if self.settings.abilities.Finder is None:  # moved to a card while the event was read
            return None
        try:  # `pop` is atomic: two threads never get the same finders
            finders = self._finders.pop()
        except IndexError:
            finders = self._new_finders()
        keys: list[int] = []
        candidates = 0
        try:
            for finder in finders:
                n_keys = finder.find(event)
                if n_keys < 0:
                    return None
                if self.tombstones.n_keys:
                    n_keys = self.tombstones.first_living(finder.keys, n_keys, self.version)
                keys += finder.keys[:n_keys].tolist()
                candidates += int(finder.counts[0])
        finally:
            self._finders.append(finders)
        return keys, candidates

    def _new_finders(self) -> list[Any]:
        settings: Any = self.settings
        make, options = settings.abilities.Finder, (settings.options, settings.input_options)
        if not self._unchecked or settings.abilities.rows_read is None:
            tables = [key_table.in_words(table) for table in self.tables]
            return [make(table, self.vocabulary, *options) for table in tables]
        finders = []
        for table, one in zip(self.outlines, self._unchecked, strict=True):
            one.check_unordered()
            finders.append(make(key_table.in_words(table), self.vocabulary, *options, one.groups))
        return finders

    @property
    def _has_marks(self) -> bool:
        """True if keys are marked as removed in the tables."""
        return any(len(table.removed_keys) or len(table.removed_at) for table in self.outlines)

    @property
    def has_removals(self) -> bool:
        """True if keys of the tables are removed."""
        return bool(self.tombstones.n_keys) or self._has_marks

    def ask(self, column: Any, find: Callable[[Any, Any, Any, Any], Part]) -> Part:
        """Call `find` with each table and the encoded events, and join the results."""
        parts, encode_s, first = [], 0.0, 0
        while True:  # at least once, also without events
            start = perf_counter()
            batch, n_rows = self._encode_from(column, first)
            encode_s += perf_counter() - start
            parts.append(join(self.workspaces.match(find, batch), n_rows))
            first += n_rows
            if first >= column.n_rows:
                break
        joined = parts[0] if len(parts) == 1 else end_to_end(parts)
        if column.n_rows:
            self._found_each = joined.n_keys / column.n_rows
        return joined._replace(encode_s=encode_s)

    def _encode_from(self, column: Any, first: int) -> tuple[Any, int]:
        """Encode events from `first` on; return the batch and their number. Not a generator: Python
        ignores Ctrl-C in a generator that is being closed."""
        rows = column.rows(first, column.n_rows) if first else column
        try:
            return self.settings.encode_some(rows, self.vocabulary)
        except EventError as error:
            raise error.counted_from(first) from None

    def check(self, column: Any) -> None:
        """Refuse events that cannot be encoded."""
        first = self._encode_from(column, 0)[1]
        while first < column.n_rows:
            first += self._encode_from(column, first)[1]

    @property
    def least(self) -> int:
        """Events per step of a thread at least."""
        return LEAST if self.settings.abilities.LAUNCH is None else _LEAST_ON_CARD

    @property
    def launch(self) -> int:
        """Events per step of a thread; a GPU needs more of them than the CPU."""
        n_events = self.settings.abilities.LAUNCH or CHUNK
        return n_events * IN_TURNS if self.workspaces.in_turns else n_events

    def at_once(self, n_events: int) -> int:
        """How many of `n_events` events to match at once. Steps that are larger than the CPU's are
        limited by the size of their result; as long as that is unknown, they are small."""
        if n_events <= LEAST or self.launch <= CHUNK:
            return n_events
        times = IN_TURNS if self.workspaces.in_turns else 1  # in turns, each step copies all tables
        if self._found_each is None:
            return min(n_events, CHUNK * times)
        fitting = int(_MOST_KEYS * times / max(self._found_each, 1.0))
        return min(n_events, max(LEAST, fitting))

    def bury(self, keys: NDArray[np.int64], version: int) -> Segment:
        """The same segment with the tombstones up to a version, and with more of that version. This takes as
        long as there are keys to remove, however many subscriptions there are."""
        if len(keys):
            self.tombstones.add(keys, version)
        segment = copy(self)
        segment.version = version
        return segment

    def remove(self, removals: Removals) -> Segment:
        """The same segment with more tombstones in its tables."""
        if not removals or not self.n_keys:
            return self
        gone = located(self, removals.pairs)
        tables = [
            table._replace(
                removed_keys=extended(table.removed_keys, removals.keys),
                removed_at=extended(table.removed_at, positions),
            )
            for table, (positions, _) in zip(self.outlines, gone, strict=True)
        ]
        return self._with(tables)

    def remove_copies(
        self, pairs: list[tuple[Any, int]], n_copies: NDArray[np.int64]
    ) -> tuple[Segment, NDArray[np.int64]]:
        """The same segment without some copies of distinct pairs, at most so many of each; and how many of each
        are still to be removed elsewhere."""
        left, tables = n_copies.copy(), []
        for table, (positions, numbers) in zip(self.tables, located(self, pairs), strict=True):
            keyed = key_table.key_table(table)
            living = [not key_table.is_removed(keyed, position) for position in positions]
            positions, numbers = positions[living], numbers[living]
            order = np.argsort(numbers, kind="stable")
            positions, numbers = positions[order], numbers[order]
            rank = np.arange(len(numbers)) - np.searchsorted(numbers, numbers)
            is_gone = rank < left[numbers]
            left -= np.bincount(numbers[is_gone], minlength=len(left))
            tables.append(table._replace(removed_at=extended(table.removed_at, positions[is_gone])))
        return self._with(tables), left

    def living(self) -> Rows:
        """All subscriptions that are not removed, ready to be compiled again."""
        pieces = []
        for table in self.tables:
            positions = self.positions(table)
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
        values = []
        for table in self.tables:
            positions = self._seen(table, _living(table, key))
            values += self.decoded(table, key_table.rows_at(table.key_start, positions))
        return values

    def has(self, key: int) -> bool:
        """True if the key has a subscription."""
        return any(len(self._seen(table, _living(table, key))) for table in self.tables)

    def ends(self) -> Iterator[Any]:
        """The first and the last subscription of each table, as batches."""
        for number, table in enumerate(self.outlines):
            if len(table.keys):
                rows = np.array([0, len(table.key_start) - 2])
                if self._unchecked:
                    self._unchecked[number].check_rows(rows)
                yield self.settings.algorithm.subscriptions(table, rows)

    def decoded(self, table: Any, rows: NDArray[np.int64]) -> list[Any]:
        """The subscriptions of some rows; a forged table may hold some that cannot be decoded."""
        decode = self.settings.engine.encoder.decode
        batch = self.settings.algorithm.subscriptions(table, rows)
        try:
            return [decode(batch, row, self.vocabulary) for row in range(len(rows))]
        except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise StorageError(f"a stored subscription cannot be read: {error!r}") from error


def _check(unchecked: Sequence[Unchecked]) -> None:
    for one in unchecked:
        one.check()


def _living(table: Any, key: int) -> NDArray[np.int64]:
    """The positions of a key in the key table that are not removed."""
    at, keyed = np.flatnonzero(table.keys == key), key_table.key_table(table)
    living: NDArray[np.int64] = at[[not key_table.is_removed(keyed, position) for position in at]]
    return living


def _mapped(table: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """A hash set of keys with other numbers."""
    if len(table) == 0:
        return table
    mapped = numbers[csr.hash_set_values(table)]
    return csr.hash_set(mapped[mapped >= 0])
