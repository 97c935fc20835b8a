"""Copy a few events and their counters to the card, all in one call.

Every call of CUDA releases the interpreter lock. If other threads submit events to an index's
stream, taking the lock again costs more than the call itself. Small batches therefore make few
calls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.engines.tags.encoder.layout import Batch
from matchyard.gpu.lanes import Lane

MOST_EVENTS = 2048
N_COUNTERS = 4
ROOM = 1 << 14  # results in the first buffer, before their number is known
MOST_RESULTS = 1 << 20  # with more results, events take the path of large batches…
MOST_SORTED = 1 << 17  # …and with more than this if the host has to sort them


def are_few(n_events: int, found_each: float, most: int) -> bool:
    """True if a batch is small and expects at most `most` results, at `found_each` per event."""
    return n_events <= MOST_EVENTS and n_events * found_each <= most


class Few(NamedTuple):
    """The addresses of a small batch on the card."""

    counters: int  # N_COUNTERS words, all 0
    tag_start: int
    tags: int
    signatures: int


def send(lane: Lane, batch: Batch) -> Few:
    """Copy counters, offsets, signatures and tags to the card as one array of words."""
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
    """Wait for the started kernels, and return the values of the counters."""
    values: NDArray[np.int64] = lane.fetch_staged(
        "counters", lane.empty("few", N_COUNTERS, np.int64)
    )
    return values
