"""The events of a demo of routers, kept for the view and for the check at the end."""

from __future__ import annotations

import time
from collections import Counter, deque
from typing import Any

from matchyard.network.processes import RouterProcesses


class Story:
    """The events of the demo so far, for the view and for the check at the end."""

    def __init__(
        self, routers: RouterProcesses, tweets: list[frozenset[str]], seconds: float
    ) -> None:
        self.routers, self.tweets, self.seconds = routers, tweets, seconds
        self.began = self.streaming_since = time.monotonic()
        self.state = "starting routers"
        self.sent: list[int] = []  # numbers of tweets, in the order in which they were accepted
        self.got: dict[str, list[int]] = {}  # numbers of tweets, by user
        self.homes: dict[str, str] = {}
        self.wanted: dict[str, Counter[frozenset[str]]] = {}
        self.status: dict[str, dict[str, Any]] = {}
        self.down: set[str] = set()
        self.n_changes = 0
        self.rates: deque[tuple[float, int, int]] = deque(maxlen=240)  # time, sent, delivered
        self.said: deque[tuple[float, str]] = deque(maxlen=40)
        self.trace: list[str] = []

    def elapsed(self) -> float:
        """Seconds since the first tweet."""
        return time.monotonic() - self.streaming_since

    def n_got(self) -> int:
        """The number of deliveries to all users."""
        return sum(map(len, self.got.values()))

    def say(self, text: str) -> None:
        """Record a message for the view."""
        self.said.append((time.monotonic() - self.began, text))
