"""Words of two halves that kernels append to a buffer in any order, and that are sorted there.

What is sorted is the same on every run, and what belongs together by its upper half lies together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.gpu.lanes import Lane

_LOW_HALF = np.uint64(0xFFFFFFFF)


def grown(lane: Lane, room: dict[str, int], name: str, run: Callable[..., None]) -> Any:
    """What a kernel appends to a buffer, sorted: it runs again while the buffer is too small."""
    n_out, size = lane.empty(f"n_{name}", 1, np.uint64), room[name]
    while True:
        n_out.fill(0)
        out = lane.empty(name, size, np.uint64)
        run(out, n_out, np.uint64(size))
        n_found = int(lane.fetch(n_out)[0])
        if n_found <= size:
            room[name] = size  # not before: a size that no card has would be asked for ever after
            found = out[:n_found]
            found.sort()
            return found
        size = n_found + n_found // 4
        del out  # so that it is free before there is a larger one


def split(lane: Lane, words: Any, n_groups: int) -> tuple[NDArray[np.int64], Any]:
    """Sorted words by their upper half, 0 … n_groups - 1: where each begins, and the lower halves."""
    bounds = lane.send("bounds", np.arange(n_groups + 1, dtype=np.uint64) << np.uint64(32))
    return lane.fetch(lane.cupy.searchsorted(words, bounds)), words & _LOW_HALF


def distinct(
    lane: Lane, room: dict[str, int], name: str, n_groups: int, run: Callable[..., None]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What a kernel appends, each word once: where each upper half begins, and the lower halves."""
    found = grown(lane, room, name, run)
    if len(found) > 1:
        is_first = lane.cupy.ones(len(found), np.bool_)
        is_first[1:] = found[1:] != found[:-1]
        found = found[is_first]
    start, halves = split(lane, found, n_groups)
    return start, lane.fetch(halves).astype(np.int64)
