"""The keys that were removed from a segment of a live index since it was compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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

_LEAST = 64  # slots


class Tombstones:
    """Removed keys with the version of their removal. All versions of a segment share them."""

    def __init__(self) -> None:
        self._slots = new_slots(_LEAST)
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
