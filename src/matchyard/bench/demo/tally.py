"""The state of the demo: the stream's threads write it, the view and the report read it."""

from __future__ import annotations

import statistics
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NEW_KEY = 10**12  # first key of the users that join while the stream runs
PER_CHANGE = 10**6  # the keys of one change start at a multiple of this
_WARM = 0.2  # first share of the streaming time, which is not steady yet


class Batch(NamedTuple):
    """One micro-batch."""

    number: int
    end_s: float  # since the stream was started
    seconds: float
    events: int
    matches: int
    bad: int
    version: int  # of the index


class Seen(NamedTuple):
    """A tweet and its receivers, for the view."""

    id: str
    tags: list[str]
    n_keys: int
    some_keys: list[int]
    version: int


class Change(NamedTuple):
    """A change of the interests, published while the stream ran."""

    number: int
    version: int
    added: list[tuple[list[str], int]]  # tags and key
    removed: list[int]  # keys
    asked_s: float
    published_s: float


class Steady(NamedTuple):
    """The stream without its first batches and without the time after the last tweet."""

    what: str  # description of the included batches
    events_per_s: float
    matches_per_s: float


@dataclass
class Tally:
    """Numbers, samples and changes of one run."""

    size: int
    seconds: float  # planned duration of the tweets
    build_s: float = 0.0
    index_bytes: int = 0
    started: float = 0.0  # time.time() at the start of the stream
    state: str = "starting"
    written: int = 0  # tweets so far
    batches: list[Batch] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    seen: deque[Seen] = field(default_factory=lambda: deque(maxlen=40))
    caught: Counter[int] = field(default_factory=Counter)  # tweets by the number of the change
    spread: NDArray[np.int64] = field(default_factory=lambda: np.zeros(4097, np.int64))

    def elapsed(self) -> float:
        """Seconds since the stream was started."""
        return time.time() - self.started if self.started else 0.0

    def total(self, name: str) -> int:
        """The sum of a field over all batches."""
        return sum(getattr(batch, name) for batch in list(self.batches))

    def taken_up(self, change: Change) -> Batch | None:
        """The first batch that was matched with a change."""
        return next((one for one in list(self.batches) if one.version >= change.version), None)

    def versions(self) -> dict[int, Batch]:
        """The versions that the stream used, with the first batch of each."""
        first_batches: dict[int, Batch] = {}
        for batch in list(self.batches):
            first_batches.setdefault(batch.version, batch)
        return first_batches

    def durations(self) -> list[float]:
        """The durations of the batches, without the first, which starts the Python workers."""
        seconds = [batch.seconds for batch in list(self.batches) if batch.events]
        return seconds[1:] or seconds

    def latency(self) -> tuple[float, float]:
        """Median and maximum of the durations."""
        seconds = self.durations()
        return (statistics.median(seconds), max(seconds)) if seconds else (0.0, 0.0)

    def steady(self) -> Steady:
        """Rates by wall time, including waiting and the planning of batches."""
        batches = [batch for batch in list(self.batches) if batch.events]
        inner = [one for one in batches if _WARM * self.seconds <= one.end_s <= self.seconds]
        chosen = inner if len(inner) > 2 else batches
        if not chosen:
            return Steady("no batch", 0.0, 0.0)
        what = f"{len(chosen)} batches after the first fifth of the time"
        if chosen is batches:
            what = "all batches, since they were few"
        first = chosen[0]
        began = first.end_s - first.seconds
        wall = max(1e-3, chosen[-1].end_s - began)
        return Steady(what, _sum(chosen, "events") / wall, _sum(chosen, "matches") / wall)


def _sum(batches: Sequence[Batch], name: str) -> int:
    return sum(getattr(batch, name) for batch in batches)


def hashtags(tags: Sequence[str], most: int | None = None) -> str:
    """Tags as people write them.

    >>> hashtags(["jazz", "@ada", "oslo"], 2)
    '#jazz @ada …'
    """
    words = [tag if tag.startswith("@") else f"#{tag}" for tag in tags[:most]]
    return " ".join([*words, *(["…"] if most is not None and len(tags) > most else [])])


def user(key: int) -> str:
    """The readable name of a key.

    >>> user(7), user(NEW_KEY + PER_CHANGE + 3)
    ('7', 'new-1-3')
    """
    if key < NEW_KEY:
        return str(key)
    return f"new-{(key - NEW_KEY) // PER_CHANGE}-{key % PER_CHANGE}"
