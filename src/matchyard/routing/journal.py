"""What updates have changed at a RIB since somebody looked, for a FIB that follows."""

from __future__ import annotations

from typing import NamedTuple

from matchyard.routing.descriptors import Descriptors


class Change(NamedTuple):
    """Filters that an interface on a tree has now and may have had before, or the other way round."""

    tree: int
    interface: int
    kept: Descriptors
    lost: Descriptors


class Journal:
    """Changes in order. Where they are too many to be of use, it says so and keeps none.

    A RIB writes into it under its lock, and whoever reads it takes that lock, too.
    """

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.is_incomplete = False
        self._n_filters = 0

    def note(self, change: Change, most: int) -> None:
        """Write a change down, unless there are more than so many filters in all."""
        self._n_filters += len(change.kept) + len(change.lost)
        if self.is_incomplete or self._n_filters > most:
            self.is_incomplete = True
            self.changes.clear()
        else:
            self.changes.append(change)

    def take(self) -> list[Change]:
        """All changes; there are none then."""
        changes, self.changes = self.changes, []
        self.is_incomplete, self._n_filters = False, 0
        return changes
