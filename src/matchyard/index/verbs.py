"""Index: the same verbs for every engine.

    add, add_many, remove ──▶ staged changes ──consolidate──▶ Snapshot ──▶ match

Readers take the current snapshot when they begin and keep it until they are done. A consolidation
builds the next snapshot beside it and switches in one assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from matchyard import storage
from matchyard.engine import configure
from matchyard.errors import ParseError, StorageError, UsageError
from matchyard.index import held_subscriptions
from matchyard.index.bad_events import with_gaps, without
from matchyard.index.contents import Contents
from matchyard.index.keys import Keys, key_column
from matchyard.index.pieces import matched_in_pieces
from matchyard.index.saved_tables import restore
from matchyard.index.segment import CHUNK, Segment
from matchyard.index.snapshot import Snapshot
from matchyard.index.state import State
from matchyard.index.stream import Stream
from matchyard.matches import Matches, Part, Work
from matchyard.storage import versions
from matchyard.storage.origins import Origins
from matchyard.threads.interrupts import interruptible

SHARD_SIZE = 1 << 28  # the most subscriptions in one table, whose offsets have 32 bits
Self = TypeVar("Self", bound="Index")


@interruptible
class Index(Contents):
    """Standing subscriptions, and the events that they match; see `matchyard.TagIndex`,
    `matchyard.PredicateIndex` and `matchyard.TwigIndex`."""

    engine: str  # its name
    # The default columns of subscriptions and events in files; None is the whole row.
    subscription_column: str = "subscription"
    event_column: str | None = None

    def __init_subclass__(cls) -> None:
        interruptible(cls)

    def __init__(
        self,
        algorithm: str | None = None,
        options: Mapping[str, Any] | None = None,
        device: str = "cpu",
        live: bool = False,
        threads: int = 1,
        shard_size: int = SHARD_SIZE,
    ) -> None:
        if threads < 1 or shard_size < 1:
            raise UsageError("threads and shard_size must be at least 1")
        settings = configure(self.engine, algorithm, options or {}, device)
        self._state = State(settings, live, shard_size)
        self.threads = threads
        self._origins = Origins()
        self._applied: dict[str, int] = {}  # the last change of each source of changes that it has

    @property
    def live(self) -> bool:
        """True if matching sees changes without `consolidate`."""
        return self._state.live

    # ---------------------------------------------------------------- changing

    def add(self: Self, subscription: Any, key: Any) -> Self:
        """Stage one subscription under a key, as a value or as text in the engine's language.

        >>> import matchyard as my
        >>> index = my.TagIndex().add({"jazz", "live"}, key="ada").add("jazz oslo", key="bob")
        """
        self._state.add(self._accepted(subscription), key)
        return self

    def _accepted(self, subscription: Any) -> Any:
        """The value of a subscription that the algorithm can hold."""
        settings, value = self._settings, self.parse(subscription)
        if settings.abilities.accept is not None:
            encoder = settings.engine.encoder
            settings.accept(encoder.subscription_column([value], settings.input_options))
        return value

    def add_many(self: Self, subscriptions: Any, keys: Any) -> Self:
        """Stage many subscriptions: lists, NumPy or Arrow arrays, pandas or polars columns.

        >>> import matchyard as my
        >>> index = my.TagIndex().add_many([["jazz", "live"], ["rock"]], keys=[1, 2])
        """
        settings = self._settings
        column = settings.engine.encoder.subscription_column(subscriptions, settings.input_options)
        settings.accept(column)
        names = key_column(keys)
        if len(names) != column.n_rows:
            raise UsageError(f"{column.n_rows} subscriptions, but {len(names)} keys")
        self._state.add_column(column, names)
        return self

    def remove(self: Self, key: Any, subscription: Any = None) -> Self:
        """Stage the removal of a key's subscriptions, or of every copy of one of them.

        Removing an absent subscription is no error. A removal does not affect later additions.

        >>> import matchyard as my
        >>> index = my.TagIndex().add("jazz", key=1).add("rock", key=1).remove(1, "rock").consolidate()
        >>> index.match(["jazz rock"])[0]
        [1]
        """
        value = None if subscription is None else self.parse(subscription)
        self._state.remove(value, key)
        return self

    def replace(self: Self, key: Any, subscription: Any) -> Self:
        """Stage one subscription under a key in place of all that the key has, in one step: matching
        sees the old ones or the new one.

        >>> import matchyard as my
        >>> index = my.TagIndex(live=True).add("jazz", key=1).replace(1, "rock")
        >>> index.match(["jazz", "rock"]).to_lists()
        [[], [1]]
        """
        value = self._accepted(subscription)
        self._state.replace(value, key)
        return self

    def consolidate(self: Self) -> Self:
        """Compile the staged changes; matching sees all of them as soon as this returns.

        Readers on other threads see the old state until the switch, never a mixture. A failed build
        leaves the old state and the staged changes as they were.

        >>> import matchyard as my
        >>> my.TagIndex().add("jazz", key=1).consolidate()
        <TagIndex: 1 subscriptions, algorithm rarest>
        """
        self._state.consolidate()
        return self

    # ---------------------------------------------------------------- matching

    def match(self, events: Any, threads: int | None = None, bad: str = "raise") -> Matches:
        """The keys per event; a key occurs once for each of its matching subscriptions.

        An event that cannot be read raises a ParseError. With `bad="keep"` it matches nothing, and
        `matches.bad` has its number and the error.

        >>> import matchyard as my
        >>> index = my.TagIndex().add("jazz", key=1).add("live", key=1).consolidate()
        >>> index.match([{"jazz", "live"}, {"rock"}]).to_lists()
        [[1, 1], []]
        """
        return self._match(events, threads, Snapshot.match, bad)

    def match_one(self, event: Any) -> list[Any]:
        """The keys of one event, as `match([event])[0]`.

        >>> import matchyard as my
        >>> my.TagIndex().add("jazz", key=1).consolidate().match_one("jazz oslo")
        [1]
        """
        state = self._state
        if not state.live:
            state.changes.warn_once(3)
        snapshot = state.visible()
        found = state.readers.find_one(snapshot, event)
        if found is None:
            keys: list[Any] = self._match([event], 1, Snapshot.match)[0]
            return keys
        return found[0] if snapshot.key_names is None else snapshot.names(found[0])

    def match_unique(self, events: Any, threads: int | None = None, bad: str = "raise") -> Matches:
        """Match, with each key at most once per event.

        >>> import matchyard as my
        >>> index = my.TagIndex().add("jazz", key=1).add("live", key=1).consolidate()
        >>> index.match_unique([{"jazz", "live"}])[0]
        [1]
        """
        return self._match(events, threads, Snapshot.match_unique, bad)

    def match_batches(
        self, events: Any, size: int = CHUNK, threads: int | None = None, unique: bool = False
    ) -> Iterator[Matches]:
        """Match `size` events at a time, for results that are too large for memory. All batches see the index
        as it is at the first. `events` may be an iterator.

        >>> import matchyard as my
        >>> index = my.TagIndex().add("jazz", key=1).consolidate()
        >>> [matches.to_lists() for matches in index.match_batches(["jazz", "rock", "jazz"], 2)]
        [[[1], []], [[1]]]
        """
        return self._in_batches(events, size, threads, unique)

    def _in_batches(
        self, events: Any, size: int, threads: int | None, unique: bool
    ) -> Iterator[Matches]:
        if size < 1:
            raise UsageError(f"size must be at least 1, not {size}")
        ask = Snapshot.match_unique if unique else Snapshot.match
        threads = self._checked(threads)
        if not self.live:
            self._state.changes.warn_once(4)
        snapshot = self._readable(self._state.visible())
        return matched_in_pieces(
            events, size, self._column, lambda column: ask(snapshot, column, threads)
        )

    def each(
        self,
        events: Any,
        callback: Callable[[pa.RecordBatch], Any],
        size: int = CHUNK,
        threads: int | None = None,
        unique: bool = False,
    ) -> Work:
        """Call a function with all pairs, in Arrow batches of at most a million pairs or one event: the columns
        are `event` (its number) and `key`. Returns the work. One batch is in memory at a time.

        >>> import matchyard as my
        >>> index = my.TagIndex().add("jazz", key=1).consolidate()
        >>> index.each(["rock", "jazz"], lambda batch: print(batch.to_pydict()))
        {'event': [1], 'key': [1]}
        Work(candidates=1, matches=1)
        """
        work, first = Work(0, 0), 0
        for matches in self._in_batches(events, size, threads, unique):
            for batch in matches.batches(first_event=first):
                callback(batch)
            work += matches.work
            first += len(matches)
        return work

    def _checked(self, threads: int | None) -> int:
        threads = self.threads if threads is None else threads
        if threads < 1:
            raise UsageError(f"threads must be at least 1, not {threads}")
        return threads

    def _match(
        self,
        events: Any,
        threads: int | None,
        ask: Callable[[Snapshot, Any, int], Matches],
        bad: str = "raise",
    ) -> Matches:
        threads = self._checked(threads)
        if bad not in ("raise", "keep"):
            raise UsageError(f"bad must be 'raise' or 'keep', not {bad!r}")
        if not self.live:
            self._state.changes.warn_once(4)
        snapshot = self._state.visible()
        if ask is Snapshot.match and type(events) is list and len(events) == 1:
            found = self._state.readers.find_one(snapshot, events[0])
            if found is not None:
                return Matches((_part_of_one(*found),), snapshot.key_names)
        snapshot = self._readable(snapshot)
        try:
            return ask(snapshot, self._column(events), threads)
        except ParseError:
            if bad == "raise":
                raise
        unread = self.bad_events(events)
        good = self._column(without(events, unread))
        return with_gaps(ask(snapshot, good, threads), unread)

    def stream(self, max_batch: int = 256, max_delay_ms: float = 2.0, workers: int = 2) -> Stream:
        """Match events that arrive one by one, from many threads. An event waits at most
        `max_delay_ms` until `max_batch` events are matched together.

        >>> import matchyard as my
        >>> index = my.TagIndex().add("jazz", key=1).consolidate()
        >>> with index.stream() as stream:
        ...     stream.submit("jazz oslo").result()
        [1]
        """
        return Stream(self, max_batch, max_delay_ms, workers)

    def explain(self, event: Any, key: Any) -> str:
        """Why the key does or does not get the event, subscription by subscription.

        Raises the same errors as `match`.
        """
        snapshot, settings = self._state.visible(), self._settings
        held_subscriptions.check_values(snapshot, settings, "explained")
        matched = Snapshot.match(self._readable(snapshot), self._column([event]), 1)[0]
        seen = settings.engine.encoder.read_event(event, settings.input_options)
        subscriptions = held_subscriptions.of_key(snapshot, self._state.find(key, snapshot))
        if not subscriptions:
            return f"key {key!r} has no subscription"
        text, is_match = held_subscriptions.explain(settings, subscriptions, seen, key)
        if not is_match and key in matched:
            text += f"\nbut {self.algorithm} matches it: a false positive, since it is not exact"
        return text

    def move(self: Self, device: str) -> Self:
        """Match on another device from now on: "cpu", "gpu", "gpu:0,1" or "auto". The memory on the
        old cards is freed. Only tables that are too large for a card are built again, so that an
        index whose GPU failed can go on.

        >>> import matchyard as my
        >>> my.TagIndex().add("jazz", key=1).consolidate().move("cpu").device
        'cpu'
        """
        self._state.move(configure(self.engine, self.algorithm, self.options, device))
        return self

    # ---------------------------------------------------------------- keeping it

    def save(self: Self, path: str | PathLike[str], overwrite: bool = False) -> Self:
        """Consolidate, write a new version to a folder, and publish it in one step.

        An index that was opened from this path, or saved there before, knows the version. If another writer has
        published one since, `save` raises a ConflictError, unless `overwrite`: the changes of that writer would
        be lost. Any other index replaces what is there.

        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/a.index"
        >>> import matchyard as my
        >>> my.TagIndex().add("jazz", key=1).save(path)
        <TagIndex: 1 subscriptions, algorithm rarest>
        """
        with versions.new_version(path) as folder:
            self._origins.check(path, overwrite)
            # Not before: of two threads that save, the second to publish has the changes of the first.
            segment, keys = self._state.consolidate()
            with versions.writable(folder) as local:
                files = storage.write_vocabulary(local, "vocabulary", segment.vocabulary)
                names, tables = keys.used(segment.tables)
                if names is not None:
                    files += storage.write_names(local, "keys", names)
                for number, table in enumerate(tables):
                    files += storage.write_table(local, number, table)
            engine, name, _, reading, options, *_ = self._settings
            settings = storage.describe(
                engine.name, name, reading, options, [len(tables)], self._applied
            )
            version = versions.publish(path, folder, settings, files)
            self._origins.note(path, versions.manifest_of(path, version))
        return self

    @classmethod
    def from_saved(
        cls: type[Self],
        path: str | PathLike[str],
        saved: storage.Saved,
        live: bool,
        threads: int,
        device: str,
    ) -> Self:
        """The index of a version that was loaded from a path."""
        engine, algorithm, options = (
            saved.manifest[name] for name in ("engine", "algorithm", "options")
        )
        try:
            settings = configure(engine, algorithm, options, device)
            restored = restore(saved, settings)
        except UsageError as error:
            raise StorageError(f"this index does not fit this version: {error}") from error
        index = cls(algorithm, options, settings.device, live, threads)
        has_keys = any(len(table.keys) for one in restored for table in one.tables)
        segments = tuple(
            Segment(index._settings, one.vocabulary, one.tables, one.unchecked)
            for one in restored
            if one.tables  # none if only shards of other segments were loaded
        )
        keys = Keys.load(saved.key_names, has_keys, saved.unchecked.values())
        index._state.start(keys, segments)
        index._origins.note(path, saved.manifest)
        index._applied = storage.applied_in(saved.manifest)
        return index


def _part_of_one(keys: list[int], candidates: int) -> Part:
    """The matches of one event."""
    return Part(np.array([0, len(keys)]), np.array(keys, np.int64), candidates)
