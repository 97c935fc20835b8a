"""Staged changes: additions and removals in the order in which they were made."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.engine import Configured
from matchyard.snapshot import Removals, Rows

_FLUSH = 8192  # single additions are kept as Python values until this many wait


class Changes:
    """A removal takes away what was there before it, and not what is added after it."""

    def __init__(self, settings: Configured) -> None:
        self._settings = settings
        self._staging = settings.engine.encoder.Staging()
        self._keys: list[NDArray[np.int64]] = []
        self._values: list[Any] = []
        self._value_keys: list[int] = []
        # What is removed, with the number of additions before its last removal.
        self._removed_keys: dict[int, int] = {}
        self._removed_pairs: dict[tuple[Any, int], int] = {}

    def __bool__(self) -> bool:
        return bool(self.n_added or self._removed_keys or self._removed_pairs)

    @property
    def n_added(self) -> int:
        """Additions so far, whether removed again or not."""
        return int(self._staging.n_rows) + len(self._values)

    @property
    def n_removed(self) -> int:
        """Keys and pairs to be removed."""
        return len(self._removed_keys) + len(self._removed_pairs)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Additions, tags in them, and distinct tags."""
        self._flush()
        return self._staging.n_rows, self._staging.n_tags, self._staging.n_names

    def add(self, value: Any, key: int) -> None:
        """Stage one parsed subscription."""
        self._values.append(value)
        self._value_keys.append(key)
        if len(self._values) >= _FLUSH:
            self._flush()

    def add_column(self, column: Any, keys: NDArray[np.int64]) -> None:
        """Stage many subscriptions."""
        self._flush()
        self._staging.add(column)
        self._keys.append(keys)

    def remove_key(self, key: int) -> None:
        """Every subscription of the key goes."""
        self._removed_keys[key] = self.n_added

    def remove_pair(self, value: Any, key: int) -> None:
        """Every copy of one parsed subscription of the key goes."""
        self._removed_pairs[value, key] = self.n_added

    def _flush(self) -> None:
        if self._values:
            column = self._settings.engine.encoder.column(self._values, self._settings.reading)
            self._staging.add(column)
            self._keys.append(np.array(self._value_keys, np.int64))
            self._values, self._value_keys = [], []

    def removals(self) -> Removals:
        """What has to go from the subscriptions that were there before."""
        return Removals(np.array(list(self._removed_keys), np.int64), list(self._removed_pairs))

    def take(self) -> Rows:
        """The additions that no later removal took away; leaves none of them staged."""
        self._flush()
        keys = np.concatenate([np.empty(0, np.int64), *self._keys])
        self._keys = []
        batch, vocabulary = self._staging.take()
        kept = self._kept(batch, vocabulary, keys)
        if kept.all():
            return Rows(batch, vocabulary, keys)
        return Rows(self._settings.engine.encoder.keep(batch, kept), vocabulary, keys[kept])

    def _kept(self, batch: Any, vocabulary: Any, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        kept = np.ones(len(keys), bool)
        number = np.arange(len(keys))
        if self._removed_keys:
            removed = np.array(sorted(self._removed_keys), np.int64)
            before = np.array([self._removed_keys[key] for key in removed.tolist()])
            at = np.minimum(np.searchsorted(removed, keys), len(removed) - 1)
            kept &= (removed[at] != keys) | (number >= before[at])
        encoder = self._settings.engine.encoder
        for (value, key), before_pair in self._removed_pairs.items():
            for row in np.flatnonzero((keys == key) & (number < before_pair)):
                kept[row] &= encoder.decode(batch, row, vocabulary) != value
        return kept
