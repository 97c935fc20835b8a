"""The settings of a router."""

from __future__ import annotations

from typing import NamedTuple

from matchyard.errors import UsageError
from matchyard.routing import RULES
from matchyard.routing.descriptors import KINDS

_MOST_TREES = 255  # a packet has room for 255 locators of its origin, one per tree


class Settings(NamedTuple):
    """The common settings of all routers of a network, and the limits of this router."""

    trees: int = 8
    rule: str = "LC"
    seed: int = 1
    descriptors: str = "tags"
    session_bytes: int = 64 << 20
    message_bytes: int = 1 << 20
    cache: int = 256
    versions: int = 4
    clients: int = 4096

    def checked(self) -> Settings:
        """Check the settings and return them."""
        if not 1 <= self.trees <= _MOST_TREES:
            raise UsageError(f"{self.trees} trees; expected 1 to {_MOST_TREES}")
        if self.rule not in RULES:
            raise UsageError(f"no rule {self.rule!r}; expected one of {', '.join(RULES)}")
        if self.descriptors not in KINDS:
            raise UsageError(f"descriptors {self.descriptors!r}; expected {' or '.join(KINDS)}")
        return self

    def longest(self) -> int:
        """The most bytes of a message between routers: a client's message and the additions of routers."""
        return 2 * self.message_bytes

    def common(self) -> str:
        """The settings that all neighbours must share, as text."""
        return f"{self.trees} trees by rule {self.rule}, seed {self.seed}, of {self.descriptors}"
