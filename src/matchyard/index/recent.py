"""Recent additions of a live index: few subscriptions that matching compares with each event directly.

    add ──▶ staged ──next match──▶ RecentLog ──many──▶ a side segment, compiled in the background

An addition costs as much as the subscription is long, whatever the index holds. The engines have the
comparison itself, in `algorithms/shared/recent.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from matchyard.engine import Configured
from matchyard.index.removals import Removals
from matchyard.index.segment import CHUNK, LEAST, Rows
from matchyard.matches import Part

MOST = 512  # additions that are compared directly; more are compiled at once


class Recent(NamedTuple):
    """The recent additions that a snapshot sees. Nothing here changes but the ends of the two lists."""

    settings: Configured
    checks: Any  # the subscriptions in arrays, for kernels
    n_rows: int
    values: list[Any]  # by row; later snapshots append to this and the next
    keys: list[int]
    dead: frozenset[int]  # rows that are removed

    @property
    def has_removals(self) -> bool:
        """True: forwarding then looks at the keys."""
        return True

    @property
    def launch(self) -> int:
        """Events per step of a thread…"""
        return CHUNK

    @property
    def least(self) -> int:
        """…and at least."""
        return LEAST

    def rows(self, first: int = 0) -> Iterator[tuple[Any, int]]:
        """The subscriptions from a row on that are not removed, with their keys."""
        for row in range(first, self.n_rows):
            if row not in self.dead:
                yield self.values[row], self.keys[row]

    @property
    def n_living(self) -> int:
        """The number of subscriptions that are not removed."""
        return self.n_rows - len(self.dead)

    def at_once(self, n_events: int) -> int:
        """How many of `n_events` events to match at once: all."""
        return n_events

    def keys_of(self, rows: Iterable[int]) -> list[int]:
        """The keys of the rows that are not removed."""
        keys, dead = self.keys, self.dead
        return [keys[row] for row in rows if row not in dead]

    def staged(self, column: Any) -> Rows:
        """The subscriptions that are not removed, to be compiled; `column` is that of the log."""
        encoder = self.settings.engine.encoder
        staging = encoder.Staging()
        staging.add(column, np.array(self.keys[: self.n_rows], np.int64))
        batch, vocabulary, keys = staging.take()
        kept = np.ones(self.n_rows, np.bool_)
        kept[list(self.dead)] = False
        return Rows(encoder.keep(batch, kept), vocabulary, keys[kept])

    def match(self, column: Any, once: bool = False) -> Part:
        """Match events in this thread."""
        settings = self.settings
        match = settings.engine.recent.match
        hit_start, rows = match(column, self.checks, settings.input_options)
        dead = np.zeros(self.n_rows, np.bool_)
        dead[list(self.dead)] = True
        is_kept = ~dead[rows]
        event_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_kept)])[hit_start]
        keys = np.array(self.keys[: self.n_rows], np.int64)[rows[is_kept]]
        return Part(event_start, keys, self.n_rows * column.n_rows)


class RecentLog:
    """Where recent additions are collected. Only one thread at a time may change it."""

    def __init__(self, settings: Configured, rows: Iterable[tuple[Any, int]] = ()) -> None:
        self._settings = settings
        self._log = settings.engine.recent.Log(settings.input_options)
        self._values: list[Any] = []
        self._keys: list[int] = []
        self._of_key: dict[int, list[int]] = {}  # rows
        self._dead: frozenset[int] = frozenset()
        self._checks: Any = None
        self._add(rows)

    @property
    def n_rows(self) -> int:
        """The number of additions, including removed ones."""
        return len(self._keys)

    def _add(self, rows: Iterable[tuple[Any, int]]) -> None:
        for value, key in rows:
            self._log.append(value)
            self._of_key.setdefault(key, []).append(len(self._keys))
            self._values.append(value)
            self._keys.append(key)

    def change(self, removals: Removals, rows: list[tuple[Any, int]]) -> None:
        """Remove keys and pairs, then add subscriptions with their keys."""
        gone = [row for key in removals.keys.tolist() for row in self._of_key.get(key, ())]
        for value, key in removals.pairs:
            gone += [row for row in self._of_key.get(key, ()) if self._values[row] == value]
        if gone:
            self._dead = self._dead.union(gone)
        self._add(rows)

    def column(self) -> Any:
        """All additions so far, as the encoder's column of subscriptions."""
        return self._log.column()

    def seen(self) -> Recent | None:
        """The additions so far, for a snapshot; None if there are none."""
        if not self._keys:
            return None
        if self._checks is None or self._checks[0] != len(self._keys):
            self._checks = len(self._keys), self._log.checks()
        n_rows, checks = self._checks
        return Recent(self._settings, checks, n_rows, self._values, self._keys, self._dead)
