"""Buffers that grow: what one batch needed in vain is not asked for again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from matchyard.engines.tags.algorithms.shared.sorted_pairs_gpu import grown
from matchyard.errors import DeviceError


class SmallLane:
    """As a lane of a card with room for some words."""

    def __init__(self, most: int) -> None:
        self._most = most

    def empty(self, name: str, size: int, kind: Any) -> Any:
        if size > self._most:
            raise DeviceError("too little memory")
        return np.empty(size, kind)

    def fetch(self, there: Any) -> Any:
        return there


def appending(words: list[int]) -> Any:
    """As a kernel that appends some words; beyond the room they are counted only."""

    def run(out: Any, n_out: Any, room: Any) -> None:
        some = words[: int(room)]
        out[: len(some)] = some
        n_out[0] = len(words)

    return run


def test_a_batch_that_does_not_fit_leaves_room_for_those_that_do() -> None:
    lane: Any = SmallLane(100)
    room = {"pairs": 10}
    with pytest.raises(DeviceError):
        grown(lane, room, "pairs", appending(list(range(500))))
    assert grown(lane, room, "pairs", appending([7, 3])).tolist() == [3, 7]
    assert grown(lane, room, "pairs", appending(list(range(50, 0, -1)))).tolist() == [*range(1, 51)]
    assert room == {"pairs": 62}
