"""Collect the words that kernels append to a buffer in any order, and sort them on the card.

A word has two halves of 32 bits. Sorting makes results the same on every run and puts words with
the same upper half side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.gpu.lanes import Lane

_LOW_HALF = np.uint64(0xFFFFFFFF)


def grown(lane: Lane, room: dict[str, int], name: str, run: Callable[..., None]) -> Any:
    """The sorted words that `run` appends to a buffer; runs it again if the buffer is too small."""
    n_out, size = lane.empty(f"n_{name}", 1, np.uint64), room[name]
    while True:
        n_out.fill(0)
        out = lane.empty(name, size, np.uint64)
        run(out, n_out, np.uint64(size))
        n_found = int(lane.fetch(n_out)[0])
        if n_found <= size:
            room[name] = size  # only after success: a size beyond the card's memory must not stay
            words = out[:n_found]
            words.sort()
            return words
        size = n_found + n_found // 4
        del out  # frees the buffer before the larger one is allocated


def split(lane: Lane, words: Any, n_groups: int) -> tuple[NDArray[np.int64], Any]:
    """Group sorted words by their upper half: (start of each group, lower halves)."""
    bounds = lane.send("bounds", np.arange(n_groups + 1, dtype=np.uint64) << np.uint64(32))
    return lane.fetch(lane.cupy.searchsorted(words, bounds)), words & _LOW_HALF


def distinct(
    lane: Lane, room: dict[str, int], name: str, n_groups: int, run: Callable[..., None]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct words that `run` appends: (start of each upper half, lower halves)."""
    words = grown(lane, room, name, run)
    if len(words) > 1:
        is_first = lane.cupy.ones(len(words), np.bool_)
        is_first[1:] = words[1:] != words[:-1]
        words = words[is_first]
    start, halves = split(lane, words, n_groups)
    return start, lane.fetch(halves).astype(np.int64)
