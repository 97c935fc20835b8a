"""tagmatch on a card, as in the paper [TagMatch §3.3].

    events ─▶ pre-process: masks ⊆ event? ─▶ batches per partition ─▶ subset match ─▶ pairs (event,
    slot), sorted by event ─▶ exact check and key look-up ─▶ keys per event

The pre-process is a kernel [§4.5] or, with the option `pre_process="cpu"`, runs on the CPU. If
results outgrow a buffer, the kernel runs again with a larger one. A small batch, as an index's
stream makes it, takes a path with fewer steps: a block finds the events of its partition itself,
the card writes the matching sets to the host's memory, and the host looks up their keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.tags.algorithms.shared import small_batch_gpu
from matchyard.engines.tags.algorithms.shared.signed_sets_gpu import SHARED_BYTES, Sets
from matchyard.engines.tags.algorithms.shared.sorted_pairs_gpu import grown, split
from matchyard.engines.tags.algorithms.tagmatch import tagmatch
from matchyard.engines.tags.encoder.layout import Batch
from matchyard.forwarding import Way
from matchyard.gpu.compilation import kernel
from matchyard.gpu.devices import guarded
from matchyard.gpu.lanes import Lane
from matchyard.gpu.resident import on_card
from matchyard.kernels import csr, key_table
from matchyard.matches import Part, end_to_end

LAUNCH = 1 << 15
_THREADS = 256
_LANES = 32  # of a warp
_FEW_BLOCKS = 1056  # blocks for a small batch: eight per processor of an H200
_PARTITIONS = ("words", "block_start", "slot_start", "prefixes")  # in the order of the .cu file
_MOST_WORDS = 12  # words of signatures in the registers of a lane
_MOST_FORWARDED = (1 << 31) - 1  # pairs of an event and a partition


def _constants(n_words: int) -> dict[str, int]:
    """The constants of kernels: the longer the signatures, the fewer a block and a lane have."""
    most = SHARED_BYTES // (8 * n_words + 4) // 32 * 32
    batch = max(1, min(tagmatch.MAX_BATCH, most))
    return {"N_WORDS": n_words, "BATCH": batch, "SLOTS": max(1, min(2, _MOST_WORDS // n_words))}


VARIANTS = tuple(_constants(n_words) for n_words in (1, 3, 40))


class Workspace:
    """The lane of one thread, and the table's addresses on the card."""

    def __init__(self, table: tagmatch.Table, options: tagmatch.Options) -> None:
        self.lane = Lane()
        self.forward = np.empty(len(table.block_start) - 1, np.int64)
        self.sets = Sets(self.lane, table, options.exact)
        self.masks = on_card(table.masks)
        self._copies = [on_card(getattr(table, name)) for name in _PARTITIONS]
        addresses = [copy.data.ptr for copy in self._copies]
        struct = np.array([*addresses, table.words.shape[1]], np.uint64)
        self.partitions = self.lane.send("partitions", struct)
        self.room = dict.fromkeys(("forwarded", "pairs", "interfaces"), 1 << 20)  # words of results
        self.room_of_few = small_batch_gpu.ROOM  # words of results of a small batch
        self.found_each = 0.0  # pairs per event of the last batch
        self._constants = _constants(len(table.words))
        self.batch = min(options.batch, self._constants["BATCH"])
        self.makes_batches = self._constants["BATCH"] >= _LANES  # `match_few` needs whole warps

    def kernel(self, name: str) -> Any:
        """A kernel for signatures of this width."""
        return kernel(__file__, name, self._constants)


def workspace(table: tagmatch.Table, options: tagmatch.Options) -> Workspace:
    """The workspace of one thread; copies the table to the card unless it is there."""
    return Workspace(table, options)


def match(
    table: tagmatch.Table, batch: Batch, workspace: Workspace, options: tagmatch.Options
) -> Part:
    """The keys per event."""
    return _match(table, batch, None, workspace, options)


def forward(
    table: tagmatch.Table, batch: Batch, way: Way, workspace: Workspace, options: tagmatch.Options
) -> Part:
    """The interfaces to send each event to. The card finds them, so no keys are copied back."""
    return _match(table, batch, way, workspace, options)


def _match(
    table: tagmatch.Table,
    batch: Batch,
    way: Way | None,
    workspace: Workspace,
    options: tagmatch.Options,
) -> Part:
    if batch.n_rows == 0:
        return Part(np.zeros(1, np.int64), np.empty(0, np.int64))
    lane = workspace.lane
    with guarded("matching"), lane.stream:
        if (
            way is None
            and options.pre_process == "gpu"
            and workspace.makes_batches
            and small_batch_gpu.are_few(
                batch.n_rows, workspace.found_each, small_batch_gpu.MOST_SORTED
            )
            and (few := _match_few(table, batch, workspace))
        ):
            return few
        signatures = lane.send("signatures", batch.signatures)
        if options.pre_process == "gpu":
            start, events = _pre_process(table, batch.n_rows, signatures, workspace)
        else:
            start, numbers = _batches(table, batch.signatures, workspace.forward)
            events = lane.send("events", numbers)
        if start[-1] > _MOST_FORWARDED and batch.n_rows > 1:
            return _in_halves(table, batch, way, workspace, options)
        pairs, candidates = _subset_match(workspace, start, events, signatures)
        workspace.found_each = len(pairs) / batch.n_rows
        if way is None:
            return Part(*workspace.sets.keys(table, batch, pairs), candidates)
        interfaces = workspace.sets.next_interfaces(batch, pairs, way, workspace.room)
        return Part(*interfaces, candidates)


def _match_few(table: tagmatch.Table, batch: Batch, workspace: Workspace) -> Part | None:
    """The keys of a small batch; None if it has too many results."""
    lane, n_partitions, room = workspace.lane, len(table.block_start) - 1, workspace.room_of_few
    n_blocks = n_partitions * max(1, _FEW_BLOCKS // max(1, n_partitions))
    given = (
        workspace.partitions, workspace.masks, np.int64(table.masks.shape[1]),
        np.int32(n_partitions), np.int32(batch.n_rows),
    )  # fmt: skip
    while room <= small_batch_gpu.MOST_SORTED:
        events, pairs = small_batch_gpu.send(lane, batch), lane.empty("few_pairs", room, np.uint64)
        words = lane.staged("sets", room).view(np.uint64)
        workspace.room_of_few = room  # after the allocation has succeeded
        lane.launch(
            workspace.kernel("match_few"), n_blocks, _THREADS, *given, events.signatures, pairs,
            events.counters, np.uint64(room), events.counters + 8,
        )  # fmt: skip
        workspace.sets.find(events, pairs, lane.address_of("sets"), room)
        n_pairs, candidates, n_sets = small_batch_gpu.counters(lane)[:3].tolist()
        if max(n_pairs, n_sets) <= room:
            workspace.found_each = n_sets / batch.n_rows
            hits = csr.by_upper_half(np.sort(words[:n_sets]), batch.n_rows)
            return Part(*key_table.gather(table, *hits), candidates)
        room = max(n_pairs, n_sets) * 5 // 4
    return None


def _in_halves(
    table: tagmatch.Table,
    batch: Batch,
    way: Way | None,
    workspace: Workspace,
    options: tagmatch.Options,
) -> Part:
    """Match the two halves of a batch one after the other."""
    middle = batch.n_rows // 2
    return end_to_end(
        [
            _match(
                table, batch.rows(first, last), way and way.rows(first, last), workspace, options
            )
            for first, last in ((0, middle), (middle, batch.n_rows))
        ]
    )


def _pre_process(
    table: tagmatch.Table, n_events: int, signatures: Any, workspace: Workspace
) -> tuple[NDArray[np.int64], Any]:
    """The card's pre-process: (start of each partition's events, events)."""
    lane, n_partitions = workspace.lane, len(table.block_start) - 1
    given = (
        workspace.masks, np.int64(table.masks.shape[1]), np.int32(n_partitions),
        np.int32(n_events), signatures,
    )  # fmt: skip
    n_blocks = -(-32 * n_events // _THREADS)

    def run(*out: Any) -> None:
        lane.launch(workspace.kernel("pre_process"), n_blocks, _THREADS, *given, *out)

    forwarded = grown(lane, workspace.room, "forwarded", run)
    start, events = split(lane, forwarded, n_partitions)
    return start, events.astype(np.int32)


@njit(nogil=True, cache=True)
def _batches(table, signatures, forward):
    """The CPU's pre-process [Algorithm 2]: (start of each partition's events, events)."""
    start = np.zeros(len(table.block_start), np.int64)
    partitions, numbers = np.empty(1024, np.int32), np.empty(1024, np.int32)
    n_found = 0
    for event in range(len(signatures)):
        n_forward = tagmatch._pre_process(table, ~signatures[event], forward)
        if n_found + n_forward > len(partitions):
            size = 2 * (n_found + n_forward)
            more = np.empty(size, np.int32), np.empty(size, np.int32)
            more[0][:n_found], more[1][:n_found] = partitions[:n_found], numbers[:n_found]
            partitions, numbers = more
        for i in range(n_forward):
            partitions[n_found], numbers[n_found] = forward[i], event
            start[forward[i] + 1] += 1
            n_found += 1
    for partition in range(len(start) - 1):
        start[partition + 1] += start[partition]
    next_start, events = start.copy(), np.empty(n_found, np.int32)
    for i in range(n_found):
        events[next_start[partitions[i]]] = numbers[i]
        next_start[partitions[i]] += 1
    return start, events


def _subset_match(
    workspace: Workspace, start: NDArray[np.int64], events: Any, signatures: Any
) -> tuple[Any, int]:
    """The matching pairs of event and slot, ascending, and the number of candidates."""
    lane = workspace.lane
    items = _items(start, workspace.batch)
    given = workspace.partitions, lane.send("items", items), events, signatures
    candidates = lane.empty("candidates", 1, np.uint64)

    def run(*out: Any) -> None:
        candidates.fill(0)
        function = workspace.kernel("subset_match")
        lane.launch(function, len(items), _THREADS, *given, *out, candidates)

    pairs = grown(lane, workspace.room, "pairs", run)
    return pairs, int(lane.fetch(candidates)[0])


def _items(start: NDArray[np.int64], batch: int) -> NDArray[np.int32]:
    """One row per batch: its partition, and the start and end of its events."""
    n_batches = -(-np.diff(start) // batch)
    partition = np.repeat(np.arange(len(n_batches)), n_batches)
    number = np.arange(len(partition)) - np.repeat(np.cumsum(n_batches) - n_batches, n_batches)
    first = start[partition] + batch * number
    end = np.minimum(first + batch, start[partition + 1])
    return np.stack([partition, first, end], axis=1).astype(np.int32)
