"""Index: the same verbs for every engine.

    add, add_many, remove ──▶ staged changes ──consolidate──▶ Snapshot ──▶ match

Readers take the current snapshot when they begin and keep it until they are done. A consolidation
builds the next snapshot beside it and switches in one assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from matchyard import storage
from matchyard.engine import Configured, configure
from matchyard.errors import StorageError, UsageError
from matchyard.index.keys import Keys, key_column
from matchyard.index.saved_tables import restore
from matchyard.index.segment import Segment
from matchyard.index.snapshot import Snapshot
from matchyard.index.state import State
from matchyard.index.stream import Stream
from matchyard.kernels.strings import n_bytes
from matchyard.matches import Matches
from matchyard.storage import versions
from matchyard.threads.interrupts import interruptible

SHARD_SIZE = 1 << 28  # the most subscriptions in one table, whose offsets have 32 bits
Self = TypeVar("Self", bound="Index")


class Estimate(NamedTuple):
    """The memory that a build would need."""

    subscriptions: int
    index_bytes: int  # of the finished index, keys and vocabulary included
    build_bytes: int  # at the peak of the build


@interruptible
class Index:
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

    @property
    def live(self) -> bool:
        """True if matching sees changes without `consolidate`."""
        return self._state.live

    @property
    def _settings(self) -> Configured:
        return self._state.settings

    # ---------------------------------------------------------------- changing

    def add(self: Self, subscription: Any, key: Any) -> Self:
        """Stage one subscription under a key, as a value or as text in the engine's language.

        >>> import matchyard as my
        >>> index = my.TagIndex().add({"jazz", "live"}, key="ada").add("jazz oslo", key="bob")
        """
        settings, value = self._settings, self.parse(subscription)
        if settings.abilities.accept is not None:
            encoder = settings.engine.encoder
            settings.accept(encoder.subscription_column([value], settings.input_options))
        self._state.add(value, key)
        return self

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

    def match(self, events: Any, threads: int | None = None) -> Matches:
        """The keys per event; a key occurs once for each of its matching subscriptions.

        >>> import matchyard as my
        >>> index = my.TagIndex().add("jazz", key=1).add("live", key=1).consolidate()
        >>> index.match([{"jazz", "live"}, {"rock"}]).to_lists()
        [[1, 1], []]
        """
        return self._match(events, threads, Snapshot.match)

    def match_unique(self, events: Any, threads: int | None = None) -> Matches:
        """Match, with each key at most once per event.

        >>> import matchyard as my
        >>> index = my.TagIndex().add("jazz", key=1).add("live", key=1).consolidate()
        >>> index.match_unique([{"jazz", "live"}])[0]
        [1]
        """
        return self._match(events, threads, Snapshot.match_unique)

    def _match(
        self, events: Any, threads: int | None, ask: Callable[[Snapshot, Any, int], Matches]
    ) -> Matches:
        threads = self.threads if threads is None else threads
        if threads < 1:
            raise UsageError(f"threads must be at least 1, not {threads}")
        snapshot = self._state.visible()
        column = self._settings.engine.encoder.column(events, self._settings.input_options)
        return ask(self._readable(snapshot), column, threads)

    def _readable(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with at least one segment, since segments refuse bad events."""
        if snapshot.segments:
            return snapshot
        no_names = self._settings.engine.encoder.Staging().take()[1]
        return snapshot._replace(segments=(Segment(self._settings, no_names, ()),))

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
        snapshot = self._state.visible()
        engine = self._settings.engine
        if snapshot.kind() not in (None, engine.encoder.VALUES):
            raise UsageError(f"{snapshot.kind()} cannot be explained: they have no text")
        matched = self.match([event])[0]
        seen = engine.encoder.read_event(event, self._settings.input_options)
        number = self._state.find(key)
        subscriptions = [
            subscription
            for segment in snapshot.segments
            for subscription in ([] if number is None else segment.find(number))
        ]
        if not subscriptions:
            return f"key {key!r} has no subscription"
        try:
            if len(subscriptions) == 1:
                text = str(engine.oracle.explain(subscriptions[0], seen))
            else:
                text = "\n".join(
                    f"{engine.language.format(one)}: {engine.oracle.explain(one, seen)}"
                    for one in sorted(subscriptions, key=engine.language.format)
                )
            is_match = any(engine.oracle.is_match(one, seen) for one in subscriptions)
        except RecursionError:
            raise StorageError(f"a subscription of key {key!r} is nested too deeply") from None
        if not is_match and key in matched:
            text += f"\nbut {self.algorithm} matches it: a false positive, since it is not exact"
        return text

    def parse(self, value: Any) -> Any:
        """Parse a subscription with the options of this index; raises ParseError."""
        return self._settings.engine.encoder.parse(value, self._settings.input_options)

    def parse_column(self, values: Any) -> list[Any]:
        """Parse the subscriptions of an Arrow column, each as `parse` does."""
        return self._settings.engine.encoder.parse_column(values, self._settings.input_options)

    def texts(self, subscriptions: Any) -> pa.Array:
        """Subscriptions in the text form of the engine, as an Arrow column."""
        encoder, staging = self._settings.engine.encoder, self._settings.engine.encoder.Staging()
        column = encoder.subscription_column(subscriptions, self._settings.input_options)
        staging.add(column, np.arange(column.n_rows))
        batch, vocabulary, keys = staging.take()
        return encoder.texts(batch, 0, len(keys), vocabulary)

    def parse_event(self, value: Any) -> Any:
        """Parse an event with the options of this index; raises ParseError."""
        return self._settings.engine.encoder.parse_event(value, self._settings.input_options)

    def check(self, events: Any) -> None:
        """Refuse the events that `match` would refuse, without matching."""
        snapshot = self._state.visible()
        column = self._settings.engine.encoder.column(events, self._settings.input_options)
        for segment in self._readable(snapshot).segments:  # some limits depend on the vocabulary
            segment.check(column.rows(0, column.n_rows))

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

    # ---------------------------------------------------------------- looking at it

    @property
    def device(self) -> str:
        """The device: "cpu", or the cards as the user named them."""
        return self._settings.device

    @property
    def algorithm(self) -> str:
        """The name of the algorithm."""
        return self._settings.algorithm_name

    @property
    def options(self) -> dict[str, Any]:
        """The input options and the options of the algorithm."""
        return {**self._settings.input_options._asdict(), **self._settings.options._asdict()}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} subscriptions, algorithm {self.algorithm}>"

    def __len__(self) -> int:
        """The number of subscriptions that matching sees."""
        snapshot = self._state.visible()
        return sum(segment.n_living() for segment in snapshot.segments)

    def __bool__(self) -> bool:
        """True, also for an empty index."""
        return True

    def info(self) -> dict[str, Any]:
        """Settings and sizes, as plain values."""
        segments = self._state.visible().segments
        return {
            "engine": self._settings.engine.name,
            "algorithm": self.algorithm,
            "device": self.device,
            "options": self.options,
            "subscriptions": sum(segment.n_living() for segment in segments),
            "distinct": sum(len(t.key_start) - 1 for s in segments for t in s.tables),
            "names": sum(segment.vocabulary.n_names for segment in segments),
            "keys": self._state.keys.kind,
            "segments": len(segments),
            "tables": sum(len(segment.tables) for segment in segments),
            "index_bytes": sum(segment.n_bytes for segment in segments),
            "key_bytes": sum(t.keys.nbytes for s in segments for t in s.tables),
            "staged": self._state.changes.n_added + self._state.changes.n_removed,
        }

    def memory(self) -> dict[str, int]:
        """Bytes of the vocabulary and of each array of the tables; their sum is `index_bytes`."""
        sizes: dict[str, int] = {"vocabulary": 0}
        for segment in self._state.snapshot.segments:
            sizes["vocabulary"] += n_bytes(segment.vocabulary)
            for table in segment.tables:
                for name, array in table._asdict().items():
                    sizes[name] = sizes.get(name, 0) + array.nbytes
        return sizes

    def _estimate(
        self, subscriptions: int | None, parts_each: float, name_share: float
    ) -> Estimate:
        """See `estimate` of the kinds of index; `parts_each` is the parts per subscription."""
        encoder = self._settings.engine.encoder
        if subscriptions is None:
            n_rows, n_parts, n_names = self._state.staged_sizes()
            for segment in self._state.snapshot.segments:
                more_parts, more_names = encoder.sizes(segment.vocabulary)
                n_rows += segment.n_keys
                n_parts, n_names = n_parts + more_parts, n_names + more_names
        else:
            n_rows, n_parts = subscriptions, int(subscriptions * parts_each)
            n_names = int(subscriptions * name_share)
        algorithm, options = self._settings.algorithm, self._settings.options
        table = algorithm.estimate(n_rows, n_parts, n_names, options)
        vocabulary, staged, sorting = encoder.estimate(n_rows, n_parts, n_names)
        finished = table + 8 * n_rows + vocabulary
        return Estimate(n_rows, finished, staged + max(sorting, finished))

    def segments(self) -> tuple[Segment, ...]:
        """The segments that matching sees."""
        return self._state.visible().segments

    def key_names(self) -> pa.Array | None:
        """The string keys by number; None if keys are integers."""
        return self._state.keys.names()

    # ---------------------------------------------------------------- keeping it

    def save(self: Self, path: str | PathLike[str]) -> Self:
        """Consolidate, write a new version to a folder, and publish it in one step.

        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/a.index"
        >>> import matchyard as my
        >>> my.TagIndex().add("jazz", key=1).save(path)
        <TagIndex: 1 subscriptions, algorithm rarest>
        """
        segment = self._state.consolidate()
        with versions.new_version(path) as folder:
            with versions.writable(folder) as local:
                files = storage.write_vocabulary(local, "vocabulary", segment.vocabulary)
                names, tables = self._state.keys.used(segment.tables)
                if names is not None:
                    files += storage.write_names(local, "keys", names)
                for number, table in enumerate(tables):
                    files += storage.write_table(local, number, table)
            engine, name, _, reading, options, *_ = self._settings
            settings = storage.describe(engine.name, name, reading, options, [len(tables)])
            versions.publish(path, folder, settings, files)
        return self

    @classmethod
    def from_saved(
        cls: type[Self], saved: storage.Saved, live: bool, threads: int, device: str
    ) -> Self:
        """The index of a version that was loaded from disk."""
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
            Segment(index._settings, one.vocabulary, one.tables)
            for one in restored
            if one.tables  # none if only shards of other segments were loaded
        )
        index._state.show(Keys.load(saved.key_names, has_keys), segments)
        return index
