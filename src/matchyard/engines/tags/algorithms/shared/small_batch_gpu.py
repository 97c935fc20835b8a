"""A few events on the card, and counters of what is found for them: one copy brings all of it there.

Every call of CUDA gives the interpreter away. Where threads submit events to a stream, to get it back
takes longer than what was called for, and so the batches of a stream make as few calls as they can.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.engines.tags.encoder.layout import Batch
from matchyard.gpu.lanes import Lane

MOST_EVENTS = 2048
N_COUNTERS = 4
ROOM = 1 << 14  # results, before it is known how many there are
MOST_RESULTS = 1 << 20  # more than that are found the way of many events…
MOST_SORTED = 1 << 17  # …and if they are sorted on the host


def are_few(n_events: int, found_each: float, most: int) -> bool:
    """Are so many events few, if as much is found for each as for the last ones?"""
    return n_events <= MOST_EVENTS and n_events * found_each <= most


class Few(NamedTuple):
    """Addresses on the card."""

    counters: int  # all are 0
    tag_start: int
    tags: int
    signatures: int


def send(lane: Lane, batch: Batch) -> Few:
    """Bring them there."""
    n_events, first, last = batch.n_rows, int(batch.tag_start[0]), int(batch.tag_start[-1])
    signatures_at = N_COUNTERS + n_events + 1
    tags_at = signatures_at + batch.signatures.size
    n_words = tags_at + (last - first + 1) // 2
    there = lane.empty("few", n_words, np.int64)
    words = lane.staged("few", n_words)
    words[:N_COUNTERS] = 0
    np.subtract(batch.tag_start, first, out=words[N_COUNTERS:signatures_at])
    words[signatures_at:tags_at] = batch.signatures.ravel().view(np.int64)
    words[tags_at:].view(np.int32)[: last - first] = batch.tags[first:last]
    lane.send_staged("few", there)
    start = int(there.data.ptr)
    return Few(start, start + 8 * N_COUNTERS, start + 8 * tags_at, start + 8 * signatures_at)


def counters(lane: Lane) -> NDArray[np.int64]:
    """What the counters say when all that was started is done."""
    found: NDArray[np.int64] = lane.fetch_staged(
        "counters", lane.empty("few", N_COUNTERS, np.int64)
    )
    return found
