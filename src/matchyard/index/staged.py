"""Staged changes: additions and removals, in their order."""

from __future__ import annotations

import warnings
from threading import get_ident
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.engine import Configured
from matchyard.errors import StagedWarning
from matchyard.index.removals import Removals
from matchyard.index.segment import Rows

_FLUSH = 8192  # up to so many single additions are kept as Python values


class Changes:
    """The staged changes of an index. A removal affects only the additions before it."""

    def __init__(self, settings: Configured) -> None:
        self._settings = settings
        self._columns: Any = None  # the encoder's `Staging`, when first needed
        self._pending: list[tuple[Any, int]] = []  # single additions: value and key
        # Each removed key or pair, with the number of additions before its last removal.
        self._removed_keys: dict[int, int] = {}
        self._removed_pairs: dict[tuple[Any, int], int] = {}
        self.is_touched = (
            False  # True before the first change is staged, for readers without the lock
        )
        self._unseen_by: int | None = None  # the thread of the last addition, until it is warned

    def __bool__(self) -> bool:
        return bool(self.n_added or self._removed_keys or self._removed_pairs)

    @property
    def _staging(self) -> Any:
        """Additions in columns."""
        if self._columns is None:
            self._columns = self._settings.engine.encoder.Staging()
        return self._columns

    @property
    def n_added(self) -> int:
        """The number of additions so far, including removed ones."""
        n_rows = 0 if self._columns is None else int(self._columns.n_rows)
        return n_rows + len(self._pending)

    @property
    def n_removed(self) -> int:
        """The number of removed keys and pairs."""
        return len(self._removed_keys) + len(self._removed_pairs)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The numbers of additions, their parts, and distinct names; see `Index._estimate`."""
        self._flush()
        return self._staging.n_rows, self._staging.n_parts, self._staging.n_names

    def add(self, value: Any, key: int) -> None:
        """Stage one parsed subscription."""
        self.is_touched = True
        self._unseen_by = get_ident()
        self._pending.append((value, key))
        if len(self._pending) >= _FLUSH:
            self._flush()

    def add_column(self, column: Any, keys: NDArray[np.int64]) -> None:
        """Stage many subscriptions."""
        self.is_touched = True
        self._unseen_by = get_ident()
        self._flush()
        self._staging.add(column, keys)

    def warn_once(self, n_calls: int) -> None:
        """Warn a thread that matches after its own additions, which it does not see yet. The warning
        is of the place that is `n_calls` above."""
        if self._unseen_by == get_ident():
            self._unseen_by = None
            warnings.warn(
                f"match does not see {self.n_added:,} staged additions: call consolidate() after adding, "
                "or create the index with live=True",
                StagedWarning,
                stacklevel=n_calls + 1,
            )

    def remove_key(self, key: int) -> None:
        """Remove all subscriptions of the key."""
        self.is_touched = True
        self._removed_keys[key] = self.n_added

    def remove_pair(self, value: Any, key: int) -> None:
        """Remove all copies of one parsed subscription of the key."""
        self.is_touched = True
        self._removed_pairs[value, key] = self.n_added

    def _flush(self) -> None:
        if not self._pending:
            return
        values = [value for value, _ in self._pending]
        settings = self._settings
        column = settings.engine.encoder.subscription_column(values, settings.input_options)
        keys = np.array([key for _, key in self._pending], np.int64)
        pending, self._pending, n_rows = self._pending, [], self._staging.n_rows
        try:
            self._staging.add(column, keys)
        except BaseException:
            if self._staging.n_rows == n_rows:
                self._pending = pending + self._pending
            raise

    def put_back(self, rows: Rows, removals: Removals) -> None:
        """Stage the changes of a failed build again, before all newer changes."""
        self.is_touched = True
        self._flush()
        self._staging.put_back(*rows)
        n_rows = len(rows.keys)
        for removed in (self._removed_keys, self._removed_pairs):
            for what in removed:
                removed[what] += n_rows  # type: ignore[index]
        # The rows that are put back no longer contain the rows that these removals removed.
        for key in removals.keys.tolist():
            self._removed_keys.setdefault(key, 0)
        for pair in removals.pairs:
            self._removed_pairs.setdefault(pair, 0)

    def few(self, most: int) -> list[tuple[Any, int]] | None:
        """The additions that no later removal has removed, with their keys; None if there are more than
        `most` additions, or some came in a column."""
        if self.n_added > len(self._pending) or len(self._pending) > most:
            return None
        before_key, before_pair = self._removed_keys, self._removed_pairs
        return [
            (value, key)
            for number, (value, key) in enumerate(self._pending)
            if number >= before_key.get(key, 0)
            and not (before_pair and number < before_pair.get((value, key), 0))
        ]

    def removals(self) -> Removals:
        """The removals that apply to the older subscriptions."""
        return Removals(np.array(list(self._removed_keys), np.int64), list(self._removed_pairs))

    def everything(self) -> tuple[Removals, Rows]:
        """The removals, and the additions of `take`."""
        return self.removals(), self.take()

    def take(self) -> Rows:
        """Take out all additions that no later removal has removed."""
        self._flush()
        batch, vocabulary, keys = self._staging.take()
        if not (self._removed_keys or self._removed_pairs):
            return Rows(batch, vocabulary, keys)
        kept = self._kept(batch, vocabulary, keys)
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
            for row in np.flatnonzero((keys == key) & (number < before_pair)).tolist():
                kept[row] &= encoder.decode(batch, row, vocabulary) != value
        return kept
