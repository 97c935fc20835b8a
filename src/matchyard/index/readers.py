"""Readers of single events, lent to one thread at a time."""

from __future__ import annotations

from typing import Any

from matchyard.engine import Configured
from matchyard.index.snapshot import Snapshot


class Readers:
    """Match single events, with a reader that no other thread uses and with the finders of each segment:
    for one event, the steps of a batch cost more than the match."""

    def __init__(self, settings: Configured) -> None:
        has_finders = settings.abilities.Finder is not None
        self._make = settings.engine.encoder.Reader if has_finders else None
        self._options = settings.input_options
        self._free: list[Any] = []

    def find_one(self, snapshot: Snapshot, event: Any) -> tuple[list[int], int] | None:
        """The numbers of the keys of an event, and the number of candidates; None if the event has to be
        matched as a batch, which refuses bad events."""
        if self._make is None or not snapshot.segments:
            return None
        try:  # `pop` is atomic: two threads never get the same reader
            reader = self._free.pop()
        except IndexError:
            reader = self._make(self._options)
        try:
            read = reader.read(event)
            return None if read is None else snapshot.find_one(read)
        finally:
            self._free.append(reader)
