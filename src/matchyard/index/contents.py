"""The verbs that look at an index: what it holds, how it reads input, which events it refuses, and how large it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from matchyard.engine import Configured
from matchyard.errors import ParseError
from matchyard.index import held_subscriptions
from matchyard.index.bad_events import bad_events
from matchyard.index.segment import Segment
from matchyard.index.snapshot import Snapshot
from matchyard.index.state import State
from matchyard.kernels.strings import n_bytes
from matchyard.threads.interrupts import interruptible


class Estimate(NamedTuple):
    """The memory that a build would need."""

    subscriptions: int
    index_bytes: int  # of the finished index, keys and vocabulary included
    build_bytes: int  # at the peak of the build


@interruptible
class Contents:
    """The verbs of an index that change nothing and match nothing."""

    _state: State

    @property
    def _settings(self) -> Configured:
        return self._state.settings

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

    def parse(self, value: Any) -> Any:
        """Parse a subscription with the options of this index; raises ParseError."""
        return self._settings.engine.encoder.parse(value, self._settings.input_options)

    def parse_column(self, values: Any) -> list[Any]:
        """Parse the subscriptions of an Arrow column, each as `parse` does."""
        return self._settings.engine.encoder.parse_column(values, self._settings.input_options)

    def parse_event(self, value: Any) -> Any:
        """Parse an event with the options of this index; raises ParseError."""
        return self._settings.engine.encoder.parse_event(value, self._settings.input_options)

    def check(self, events: Any) -> None:
        """Refuse the events that `match` would refuse, without matching."""
        snapshot = self._state.visible()
        column = self._column(events)
        for segment in self._readable(snapshot).segments:  # some limits depend on the vocabulary
            segment.check(column.rows(0, column.n_rows))

    def bad_events(self, events: Any) -> dict[int, ParseError]:
        """The events of a column that cannot be read: the error of each, by its number.

        >>> import matchyard as my
        >>> sorted(my.PredicateIndex().bad_events(['{"a": 1}', '{"a": ']))
        [1]
        """
        return bad_events(self.check, self.parse_event, events)

    def _column(self, events: Any) -> Any:
        return self._settings.engine.encoder.column(events, self._settings.input_options)

    def _readable(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with at least one segment, since segments refuse bad events."""
        if snapshot.segments:
            return snapshot
        no_names = self._settings.engine.encoder.Staging().take()[1]
        return snapshot._replace(segments=(Segment(self._settings, no_names, ()),))

    def __repr__(self) -> str:
        staged = self._state.staged()
        more = f", {staged:,} staged changes" if staged else ""
        return (
            f"<{type(self).__name__}: {len(self)} subscriptions{more}, algorithm {self.algorithm}>"
        )

    def __len__(self) -> int:
        """The number of subscriptions that matching sees."""
        return self._state.visible().n_living()

    def __bool__(self) -> bool:
        """True, also for an empty index."""
        return True

    def __contains__(self, key: Any) -> bool:
        """True if the key has a subscription that matching sees. Looks through all keys."""
        snapshot = self._state.visible()
        return held_subscriptions.has_key(snapshot, self._state.find(key, snapshot))

    def __getitem__(self, key: Any) -> list[Any]:
        """The subscriptions of a key as values; KeyError if it has none."""
        values = self.subscriptions(key)
        if not values:
            raise KeyError(key)
        return values

    __iter__ = None  # keys, or pairs? `items` says which

    def subscriptions(self, key: Any, text: bool = False) -> list[Any]:
        """The subscriptions of a key that matching sees, as values of the engine's language or as text.
        Looks through all keys.

        >>> import matchyard as my
        >>> index = my.PredicateIndex().add("temp > 30", key=1).consolidate()
        >>> index.subscriptions(1, text=True), 1 in index, index.subscriptions(2)
        (['temp > 30'], True, [])
        """
        snapshot = self._state.visible()
        held_subscriptions.check_values(snapshot, self._settings, "read back")
        values = held_subscriptions.of_key(snapshot, self._state.find(key, snapshot))
        return (
            [self._settings.engine.language.format(value) for value in values] if text else values
        )

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Each (key, subscription) that matching sees now; later changes are not in it. Some
        subscriptions are decoded at a time, so that any index can be gone through.

        >>> import matchyard as my
        >>> list(my.TagIndex().add("jazz", key=1).consolidate().items())
        [(1, frozenset({'jazz'}))]
        """
        snapshot = self._state.visible()
        held_subscriptions.check_values(snapshot, self._settings, "read back")
        return held_subscriptions.items(snapshot)

    def info(self) -> dict[str, Any]:
        """Settings and sizes, as plain values."""
        snapshot = self._state.visible()
        segments, recent = snapshot.segments, snapshot.recent
        return {
            "engine": self._settings.engine.name,
            "algorithm": self.algorithm,
            "device": self.device,
            "options": self.options,
            "subscriptions": snapshot.n_living(),
            "recent": 0 if recent is None else recent.n_living,
            "distinct": sum(len(t.key_start) - 1 for s in segments for t in s.outlines),
            "names": sum(segment.vocabulary.n_names for segment in segments),
            "keys": self._state.keys.kind,
            "segments": len(segments),
            "tables": sum(len(segment.outlines) for segment in segments),
            "index_bytes": sum(segment.n_bytes for segment in segments),
            "key_bytes": sum(t.keys.nbytes for s in segments for t in s.outlines),
            "staged": self._state.staged(),
        }

    def memory(self) -> dict[str, int]:
        """Bytes of the vocabulary and of each array of the tables; their sum is `index_bytes`."""
        sizes: dict[str, int] = {"vocabulary": 0}
        for segment in self._state.snapshot.segments:
            sizes["vocabulary"] += n_bytes(segment.vocabulary)
            for table in segment.outlines:
                for name, array in table._asdict().items():
                    sizes[name] = sizes.get(name, 0) + array.nbytes
        return sizes

    def texts(self, subscriptions: Any) -> pa.Array:
        """Subscriptions in the text form of the engine, as an Arrow column."""
        encoder, staging = self._settings.engine.encoder, self._settings.engine.encoder.Staging()
        column = encoder.subscription_column(subscriptions, self._settings.input_options)
        staging.add(column, np.arange(column.n_rows))
        batch, vocabulary, keys = staging.take()
        return encoder.texts(batch, 0, len(keys), vocabulary)

    def _estimate(
        self, subscriptions: int | None, parts_each: float, name_share: float
    ) -> Estimate:
        """See `estimate` of the kinds of index; `parts_each` is the parts per subscription."""
        encoder = self._settings.engine.encoder
        if subscriptions is None:
            snapshot = self._state.snapshot
            n_rows, n_parts, n_names = self._state.staged_sizes(snapshot.recent_rows())
            for segment in snapshot.segments:
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
        keys = self._state.keys
        keys.check()
        return keys.names()
