"""Readers of single events, lent to one thread at a time."""

from __future__ import annotations

from typing import Any

from matchyard.engine import Configured
from matchyard.index.snapshot import Snapshot


class Readers:
    """Match single events, with a reader that no other thread uses and with the finders of each segment:
    for one event, the steps of a batch cost more than the match."""

    def __init__(self, settings: Configured) -> None:
        self._settings, self._is_able = settings, settings.abilities.Finder is not None
        self._free: list[tuple[Any, Any]] = []

    def find_one(self, snapshot: Snapshot, event: Any) -> tuple[list[int], int] | None:
        """The numbers of the keys of an event, and the number of candidates; None if the event has to be
        matched as a batch, which refuses bad events."""
        if not (self._is_able and (snapshot.segments or snapshot.recent)):
            return None
        try:  # `pop` is atomic: two threads never get the same reader
            lent = self._free.pop()
        except IndexError:
            engine, options = self._settings.engine, self._settings.input_options
            lent = engine.encoder.Reader(options), engine.recent.Finder(options)
        reader, recent_finder = lent
        try:
            read = reader.read(event)
            return None if read is None else snapshot.find_one(read, recent_finder)
        finally:
            self._free.append(lent)
