"""Removals from a segment: what is to be removed, where that is in its tables, and the removed keys of a live index."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.kernels import csr, key_table
from matchyard.kernels.tombstones import (
    NEVER,
    copy_entries,
    first_living,
    insert,
    keep_living,
    living_among,
    new_slots,
)
from matchyard.matches import Part

if TYPE_CHECKING:
    from matchyard.index.segment import Segment

_LEAST_SLOTS = 64
Located = tuple[NDArray[np.int64], NDArray[np.int64]]  # positions in a key table; numbers of pairs


class Removals(NamedTuple):
    """Keys to remove with all their subscriptions, and (subscription, key) pairs to remove."""

    keys: NDArray[np.int64]
    pairs: list[tuple[Any, int]]

    def __bool__(self) -> bool:
        return bool(len(self.keys) or self.pairs)


class Tombstones:
    """Removed keys with the version of their removal. All versions of a segment share them."""

    def __init__(self) -> None:
        self._slots = new_slots(_LEAST_SLOTS)
        self.n_keys = 0

    def add(self, keys: NDArray[np.int64], version: int) -> None:
        """Remove keys for readers from `version` on. Only one thread at a time may add."""
        n_slots = len(self._slots) - 1
        if 2 * (self.n_keys + len(keys)) > n_slots:
            while 2 * (self.n_keys + len(keys)) > n_slots:
                n_slots *= 2
            larger = new_slots(n_slots)
            copy_entries(self._slots, larger)
            self._slots = larger  # in one step: readers have the old array or this one
        before = self.n_keys
        self.n_keys += len(keys)  # at most, in case that Ctrl-C comes after `insert`
        self.n_keys = before + insert(self._slots, keys, version)

    def renumbered(self, numbers: NDArray[np.int64]) -> Tombstones:
        """The same keys under other numbers; those whose number is -1 are left out."""
        other = Tombstones()
        is_used = self._slots[:, 1] != NEVER
        for key, version in self._slots[is_used].tolist():
            if 0 <= key < len(numbers) and numbers[key] >= 0:
                other.add(numbers[key : key + 1], version)
        return other

    def without(self, part: Part, version: int) -> Part:
        """The matches that readers of a version see."""
        event_start, keys = keep_living(self._slots, version, part.event_start, part.keys)
        return part._replace(event_start=event_start, found=keys)

    def first_living(self, keys: NDArray[np.int64], n_keys: int, version: int) -> int:
        """Move the keys that readers of a version see to the front; returns how many they are."""
        return int(first_living(self._slots, version, keys, n_keys))

    def living_among(
        self, keys: NDArray[np.int64], positions: NDArray[np.int64], version: int
    ) -> NDArray[np.int64]:
        """The positions in `keys` that readers of a version see."""
        living: NDArray[np.int64] = living_among(self._slots, version, keys, positions)
        return living


def located(segment: Segment, pairs: list[tuple[Any, int]]) -> list[Located]:
    """The positions of the pairs in the key table of each table, each with the number of its pair."""
    if not pairs:
        return [(np.empty(0, np.int64), np.empty(0, np.int64)) for _ in segment.outlines]
    locate = segment.settings.abilities.locate
    if locate is not None:
        return _located_by_value(segment, pairs, locate)
    return [_located_by_key(segment, table, pairs) for table in segment.tables]


def _located_by_key(segment: Segment, table: Any, pairs: list[tuple[Any, int]]) -> Located:
    """Find the pairs by decoding and comparing all subscriptions of their keys."""
    number_of = {pair: number for number, pair in enumerate(pairs)}
    wanted = np.unique(np.array([key for _, key in pairs], np.int64))
    positions = key_table.positions_of(table.keys, csr.hash_set(wanted))
    rows, number = np.unique(key_table.rows_at(table.key_start, positions), return_inverse=True)
    stored = segment.decoded(table, rows)
    keys = table.keys[positions].tolist()
    found = [number_of.get((stored[row], key), -1) for row, key in zip(number, keys, strict=True)]
    numbers = np.array(found, np.int64)
    return positions[numbers >= 0], numbers[numbers >= 0]


def _located_by_value(
    segment: Segment, pairs: list[tuple[Any, int]], locate: Callable[..., tuple[Any, Any]]
) -> list[Located]:
    """Find the pairs by asking the algorithm for rows of equal subscriptions."""
    settings = segment.settings
    encoder: Any = settings.engine.encoder
    column = encoder.subscription_column([pair[0] for pair in pairs], settings.input_options)
    batch = segment.encode(column)
    # A subscription with an unknown name was never stored; encoding would drop the name.
    known = encoder.is_known(column, batch)
    wanted = np.array([pair[1] for pair in pairs], np.int64)
    make = settings.abilities.locate_workspace or settings.algorithm.workspace
    by_table = []
    for table in segment.tables:
        searched = key_table.in_words(table)
        start, rows = locate(searched, batch, make(searched, settings.options), settings.options)
        numbers = np.repeat(np.arange(len(pairs)), np.diff(start))
        rows, numbers = rows[known[numbers]], numbers[known[numbers]]
        first = table.key_start[rows].astype(np.int64)
        n_keys = table.key_start[rows + 1] - first
        before = np.cumsum(n_keys) - n_keys
        positions = np.arange(n_keys.sum()) + np.repeat(first - before, n_keys)
        numbers = np.repeat(numbers, n_keys)
        is_pair = table.keys[positions] == wanted[numbers]
        by_table.append((positions[is_pair], numbers[is_pair]))
    return by_table


def extended(table: NDArray[np.int64], more: NDArray[np.int64]) -> NDArray[np.int64]:
    """A hash set with more numbers."""
    if len(more) == 0:
        return table
    return csr.hash_set(np.concatenate([csr.hash_set_values(table), more]))
