"""The fan-out of a packet: how many applications receive it, and which ones."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from matchyard.errors import UsageError
from matchyard.routing.applications import Key


class Mode(IntEnum):
    """The meaning of the limit of a fan-out."""

    ALL = 0
    AT_MOST = 1
    AT_LEAST = 2


class FanOut(NamedTuple):
    """The number of applications that receive a packet.

    >>> FanOut.parse("at most 3")
    FanOut(mode=<Mode.AT_MOST: 1>, limit=3)
    """

    mode: Mode
    limit: int = 0

    @classmethod
    def parse(cls, value: FanOut | str) -> FanOut:
        """Parse "all", "one", "at most 3" or "at least 3"."""
        if isinstance(value, FanOut):
            text = str(value)
        elif isinstance(value, str):
            text = value
        else:
            text = repr(value)
        words = text.split()
        if words == ["all"]:
            return ALL
        if words == ["one"]:
            return ONE
        modes = {"at most": Mode.AT_MOST, "at least": Mode.AT_LEAST}
        mode = modes.get(" ".join(words[:2]))
        if mode is None or len(words) != 3 or not words[2].isascii() or not words[2].isdigit():
            raise UsageError(f"fan-out {text}; expected all, one, at most 3, or at least 3")
        limit = int(words[2])
        if not 1 <= limit < 1 << 32:
            raise UsageError(f"fan-out {text}; expected a limit from 1 to {(1 << 32) - 1}")
        return cls(mode, limit)

    def __str__(self) -> str:
        if self.mode is Mode.ALL:
            return "all"
        return f"at {'most' if self.mode is Mode.AT_MOST else 'least'} {self.limit}"


ALL, ONE = FanOut(Mode.ALL), FanOut(Mode.AT_MOST, 1)


def shared(
    fan_out: FanOut, keys: list[Key], beyond: list[int], turn: int
) -> tuple[list[Key], list[tuple[int, FanOut]]]:
    """Choose the takers of a packet with a limit k: local applications first, then neighbours.

    `turn` rotates the neighbours. With "at most", neighbours share the rest of k. With "at least", each gets k.

    >>> shared(FanOut.parse("at most 5"), ["ada"], [1, 2, 3], 0)[1]
    [(1, FanOut(mode=<Mode.AT_MOST: 1>, limit=2)), (2, FanOut(mode=<Mode.AT_MOST: 1>, limit=1)), (3, FanOut(mode=<Mode.AT_MOST: 1>, limit=1))]
    """
    mode, limit = fan_out
    keys = keys[:limit]
    left = limit - len(keys)
    n_chosen = min(left, len(beyond))
    first = turn % len(beyond) if beyond else 0
    chosen = (beyond[first:] + beyond[:first])[:n_chosen]
    if mode is Mode.AT_LEAST:
        return keys, [(interface, fan_out) for interface in chosen]
    return keys, [
        (interface, FanOut(mode, left // n_chosen + (position < left % n_chosen)))
        for position, interface in enumerate(chosen)
    ]
