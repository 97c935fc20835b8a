"""scan on a card: compare every signature with every event, without an index ["GPU-only, plain" and
"plain with batching", TagMatch Table 1].

A launch compares `batch` events with all signatures and reads each signature once. With one event
the card's memory limits the speed, with many events its arithmetic. If the pairs outgrow their
buffer, all launches run again with a larger one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matchyard.engines.tags.algorithms.scan import scan
from matchyard.engines.tags.algorithms.shared.signed_sets_gpu import SHARED_BYTES, Sets
from matchyard.engines.tags.algorithms.shared.sorted_pairs_gpu import grown
from matchyard.engines.tags.encoder.layout import Batch
from matchyard.forwarding import Way
from matchyard.gpu.compilation import kernel
from matchyard.gpu.devices import guarded
from matchyard.gpu.lanes import Lane
from matchyard.gpu.resident import on_card
from matchyard.matches import Part

LAUNCH = 1 << 14
_THREADS = 256
_MOST_WORDS = 12  # words of signatures in the registers of a thread


def _constants(n_words: int) -> dict[str, int]:
    """The constants of kernels: the longer the signatures, the fewer of them a thread has."""
    slots = max(1, min(4, _MOST_WORDS // n_words))
    staged = max(1, min(256, SHARED_BYTES // (8 * n_words)))
    return {"N_WORDS": n_words, "SLOTS": slots, "STAGED": staged}


VARIANTS = tuple(_constants(n_words) for n_words in (1, 3, 6, 40))


class Workspace:
    """The lane of one thread, and the table's addresses on the card."""

    def __init__(self, table: scan.Table, options: scan.Options) -> None:
        self.lane = Lane()
        self.words = on_card(table.words)
        self.sets = Sets(self.lane, table, options.exact)
        self.room = {"pairs": 1 << 20, "interfaces": 1 << 20}  # words of results
        self.constants = _constants(len(table.words))


def workspace(table: scan.Table, options: scan.Options) -> Workspace:
    """The workspace of one thread; copies the table to the card unless it is there."""
    return Workspace(table, options)


def match(table: scan.Table, batch: Batch, workspace: Workspace, options: scan.Options) -> Part:
    """The keys per event."""
    if batch.n_rows == 0:
        return Part(np.zeros(1, np.int64), np.empty(0, np.int64))
    with guarded("matching"), workspace.lane.stream:
        pairs, candidates = _find(table, batch, workspace, options.batch)
        return Part(*workspace.sets.keys(table, batch, pairs), candidates)


def forward(
    table: scan.Table, batch: Batch, way: Way, workspace: Workspace, options: scan.Options
) -> Part:
    """The interfaces to send each event to. The card finds them, so no keys are copied back."""
    if batch.n_rows == 0:
        return Part(np.zeros(1, np.int64), np.empty(0, np.int64))
    with guarded("forwarding"), workspace.lane.stream:
        pairs, candidates = _find(table, batch, workspace, options.batch)
        interfaces = workspace.sets.next_interfaces(batch, pairs, way, workspace.room)
        return Part(*interfaces, candidates)


def _find(
    table: scan.Table, batch: Batch, workspace: Workspace, events_each: int
) -> tuple[Any, int]:
    """The matching pairs of event and slot, ascending, and the number of candidates."""
    lane, n_events, n_slots = workspace.lane, batch.n_rows, table.words.shape[1] - scan.LANES
    signatures = lane.send("signatures", batch.signatures)
    n_blocks = -(-n_slots // (_THREADS * workspace.constants["SLOTS"]))
    given = workspace.words, np.int64(table.words.shape[1]), np.int64(n_slots)
    function = kernel(__file__, "scan", workspace.constants)

    def run(*out: Any) -> None:
        for first in range(0, n_events, events_each):
            some = np.int32(first), np.int32(min(events_each, n_events - first))
            lane.launch(function, n_blocks, _THREADS, *given, *some, signatures, *out)

    return grown(lane, workspace.room, "pairs", run), n_events * n_slots
