"""The changes of a RIB since its FIB last read them."""

from __future__ import annotations

from typing import NamedTuple

from matchyard.routing.descriptors import Descriptors


class Change(NamedTuple):
    """Filters that an interface on a tree gained or still has (`kept`), and no longer has (`lost`)."""

    tree: int
    interface: int
    kept: Descriptors
    lost: Descriptors


class Journal:
    """Changes in order. With too many changes it drops all of them and becomes incomplete.

    The RIB writes under its lock; readers hold the same lock.
    """

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.is_incomplete = False
        self._n_filters = 0

    def note(self, change: Change, most: int) -> None:
        """Record a change, unless the journal then has more than `most` filters."""
        self._n_filters += len(change.kept) + len(change.lost)
        if self.is_incomplete or self._n_filters > most:
            self.is_incomplete = True
            self.changes.clear()
        else:
            self.changes.append(change)

    def take(self) -> list[Change]:
        """Return all changes and clear the journal."""
        changes, self.changes = self.changes, []
        self.is_incomplete, self._n_filters = False, 0
        return changes
