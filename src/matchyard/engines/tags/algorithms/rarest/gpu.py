"""rarest on a card: the host encodes events, and the card walks their postings.

A warp takes an event (`rarest.cu`). Keys come back in the order of the events. If an event has more
tags or open nodes than a warp has room for, the CPU matches it. A small batch, as an index's stream
makes it, takes one launch, which writes to the host's memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard import forwarding
from matchyard.engines.tags.algorithms.rarest import rarest
from matchyard.engines.tags.algorithms.shared import small_batch_gpu
from matchyard.engines.tags.algorithms.shared.sorted_pairs_gpu import distinct
from matchyard.engines.tags.encoder.layout import Batch
from matchyard.forwarding import Way
from matchyard.gpu.compilation import kernel
from matchyard.gpu.devices import guarded
from matchyard.gpu.key_writer_gpu import KeyWriter
from matchyard.gpu.lanes import Lane
from matchyard.gpu.resident import keys_on_card, on_card
from matchyard.kernels import csr
from matchyard.matches import WRITTEN_LATER, Part, join, part_of

LAUNCH = 1 << 16
_WARPS = 4  # events per block
_ADDING, _EACH = 1024, 8  # threads that add counts up, and counts of each at a time
_ROOM = ((64, 64), (1024, 256))  # the tags of an event and the open nodes that fit into a warp
_POINTERS = rarest.Table._fields[:13]  # in the order of `Rows` in the .cu file, before the keys


def _constants(room: tuple[int, int], key_bits: int) -> dict[str, int]:
    """The constants of kernels with this room, for keys of `key_bits` bits."""
    return {
        "WARPS": _WARPS, "MOST_IDS": room[0], "STACK": room[1], "KEY_BITS": key_bits, "EACH": _EACH,
    }  # fmt: skip


VARIANTS = tuple(_constants(room, key_bits) for room in _ROOM for key_bits in (32, 64))


class Asked(NamedTuple):
    """What kernels return: keys, or the numbers of rows."""

    rows: Any  # the table's addresses on the card, and whether rows are returned
    for_rows: bool
    kind: np.dtype[Any]


def has_many_keys(table: Any) -> bool:
    """True if a subscription shares its row with more than `WRITTEN_LATER` others, on average."""
    n_keys = np.diff(table.key_start).astype(np.float64)
    return bool((n_keys * n_keys).sum() > WRITTEN_LATER * n_keys.sum())


class Workspace:
    """The lane of one thread, and the table's addresses on the card."""

    def __init__(self, table: rarest.Table, options: rarest.Options) -> None:
        self.lane = Lane()
        self.on_cpu = rarest.workspace(table, options)
        self.has_removals = bool(len(table.removed_keys) or len(table.removed_at))
        self._copies = [on_card(getattr(table, name)) for name in _POINTERS]
        self._copies.append(keys_on_card(table.keys))
        addresses = [copy.data.ptr for copy in self._copies]
        leaf = min(options.leaf, np.iinfo(np.int32).max)

        def asked(name: str, for_rows: bool) -> Asked:
            sizes = np.array([len(table.split_ids), leaf, for_rows, 0], np.int32)
            rows = np.concatenate([np.array(addresses, np.uint64), sizes.view(np.uint64)])
            kind = np.dtype(np.int32) if for_rows else self._copies[-1].dtype
            return Asked(self.lane.send(name, rows), for_rows, kind)

        # Removals are left out on the host. The keys of a row may be so many that the row travels instead.
        self.returns_rows = self.has_removals or has_many_keys(table)
        self.writer = KeyWriter(table.key_start, table.keys) if not self.has_removals else None
        self.asked = asked("rows", self.returns_rows)
        self.asked_to_forward = asked("rows_to_forward", False)
        self.room = {"interfaces": 1 << 20}  # words of results
        self.room_of_few = small_batch_gpu.ROOM  # keys
        self.found_each = 0.0  # keys per event of the last batch


def workspace(table: rarest.Table, options: rarest.Options) -> Workspace:
    """The workspace of one thread; copies the table to the card unless it is there."""
    return Workspace(table, options)


def match(table: rarest.Table, batch: Batch, workspace: Workspace, options: rarest.Options) -> Part:
    """The keys per event."""
    if batch.n_rows == 0:
        return Part(np.zeros(1, np.int64), np.empty(0, np.int64))
    with guarded("matching"), workspace.lane.stream:
        start, found, is_left, candidates, key_start = _match(batch, workspace)
    if workspace.returns_rows:
        counted = None if workspace.has_removals else key_start
        part = part_of(table, start, found, candidates, counted, workspace.writer)
    else:
        part = Part(start, found, candidates)
    return _with_rest(table, batch, workspace, options, part, is_left) if is_left.any() else part


def forward(
    table: rarest.Table, batch: Batch, way: Way, workspace: Workspace, options: rarest.Options
) -> Part:
    """The interfaces to send each event to. The card finds them, so no keys are copied back."""
    if batch.n_rows == 0:
        return Part(np.zeros(1, np.int64), np.empty(0, np.int64))
    with guarded("forwarding"), workspace.lane.stream:
        walked = _walk(batch, workspace, workspace.asked_to_forward)
        part = Part(*_next_interfaces(walked, way, workspace), walked.candidates)
    if not walked.is_left.any():
        return part
    rest = _rest(table, batch, workspace, options, walked.is_left)
    kept = forwarding.next_interfaces(rest.event_start, rest.keys, way.trees, way.incoming)
    joined = csr.interleave(part.event_start, part.keys, *kept)
    return Part(*joined, part.candidates + rest.candidates)


class Found(NamedTuple):
    """The result of a walk; the keys or rows stay on the card."""

    event_start: NDArray[np.int64]
    offsets: Any  # `event_start` on the card
    keys: Any
    is_left: NDArray[np.int32]  # 1: the event is left to the CPU
    candidates: int
    key_start: NDArray[np.int64] | None  # the start of each event's keys, where `keys` are rows


def _next_interfaces(
    walked: Found, way: Way, workspace: Workspace
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    lane, n_events = workspace.lane, len(walked.is_left)
    on_the_card = lane.send("trees", way.trees), lane.send("incoming", way.incoming)
    given = np.int32(n_events), walked.offsets, walked.keys, *on_the_card
    constants = _constants(_ROOM[0], 8 * workspace.asked_to_forward.kind.itemsize)

    def run(*out: Any) -> None:
        function = kernel(__file__, "next_interfaces", constants)
        n_blocks = -(-n_events // _WARPS) if len(walked.keys) else 0
        lane.launch(function, n_blocks, 32 * _WARPS, *given, *out)

    return distinct(lane, workspace.room, "interfaces", n_events, run)


def _match(batch: Batch, workspace: Workspace) -> tuple[Any, ...]:
    """(start of each event's keys or rows, these, events left to the CPU, number of candidates, start of each
    event's keys if the card has counted them behind rows)."""
    result: tuple[Any, ...] | None = None
    if small_batch_gpu.are_few(batch.n_rows, workspace.found_each, small_batch_gpu.MOST_RESULTS):
        few = _match_few(batch, workspace)
        result = None if few is None else (*few, None)
    if result is None:
        walked = _walk(batch, workspace, workspace.asked)
        keys = workspace.lane.fetch(walked.keys)
        result = walked.event_start, keys, walked.is_left, walked.candidates, walked.key_start
    workspace.found_each = len(result[1]) / batch.n_rows
    return result


def _match_few(
    batch: Batch, workspace: Workspace
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int32], int] | None:
    """Match a small batch, again with more room if needed; None if it has too many keys."""
    lane, n_events, room = workspace.lane, batch.n_rows, workspace.room_of_few
    function = kernel(__file__, "match_few", _constants_for(batch, workspace.asked))
    while room <= small_batch_gpu.MOST_RESULTS:
        words = lane.staged("found", 3 * n_events + room)
        workspace.room_of_few = room  # after the allocation has succeeded
        events, address = small_batch_gpu.send(lane, batch), lane.address_of("found")
        lane.launch(
            function, -(-n_events // _WARPS), 32 * _WARPS, workspace.asked.rows, np.int32(n_events),
            events.tag_start, events.tags, events.counters, address, address + 24 * n_events,
            np.int64(room),
        )  # fmt: skip
        lane.stream.synchronize()
        per_event, out = words[: 3 * n_events], words[3 * n_events :].view(workspace.asked.kind)
        event_start, keys, is_left, candidates = _in_order(per_event, out[:room])
        if event_start[-1] <= room:
            return event_start, keys, is_left, candidates
        room = int(event_start[-1] + event_start[-1] // 4)
    return None


@njit(nogil=True, cache=True)
def _in_order(per_event, keys):
    """Put the keys of `match_few` into the order of events; no keys if they did not all fit."""
    n_events = len(per_event) // 3
    start, is_left = np.zeros(n_events + 1, np.int64), np.zeros(n_events, np.int32)
    candidates = 0
    for event in range(n_events):
        n_keys = per_event[3 * event + 1]
        is_left[event] = n_keys < 0
        start[event + 1] = start[event] + max(0, n_keys)
        candidates += per_event[3 * event + 2]
    ordered = np.empty(start[-1] if start[-1] <= len(keys) else 0, keys.dtype)
    if len(ordered):
        for event in range(n_events):
            shift = per_event[3 * event] - start[event]
            for at in range(start[event], start[event + 1]):
                ordered[at] = keys[at + shift]
    return start, ordered, is_left, candidates


def _constants_for(batch: Batch, asked: Asked) -> dict[str, int]:
    """The constants of kernels with room for the longest event."""
    longest = int(np.diff(batch.tag_start).max())
    return _constants(_ROOM[longest > _ROOM[0][0]], 8 * asked.kind.itemsize)


def _walk(batch: Batch, workspace: Workspace, asked: Asked) -> Found:
    """Walk the postings twice: once to count the keys or rows, once to write them. Few calls of CUDA, and one copy
    before the second walk: every call takes the interpreter from other threads."""
    lane, n_events = workspace.lane, batch.n_rows
    constants = _constants_for(batch, asked)
    n_blocks, n_kinds = -(-n_events // _WARPS), 1 + asked.for_rows
    events = small_batch_gpu.send(lane, batch)
    given = asked.rows, np.int32(n_events), events.tag_start, events.tags
    n_sums = 1 + n_kinds * (n_events + 1)
    counts = lane.empty("counts", n_kinds * n_events, np.int64)
    sums = lane.empty("sums", n_sums + -(-n_events // 2), np.int64)
    is_left, offsets = sums[n_sums:].view(np.int32), sums[1 : n_events + 2]
    count, add_up, write = (
        kernel(__file__, name, constants) for name in ("count", "add_up", "write")
    )
    lane.launch(count, n_blocks, 32 * _WARPS, *given, counts, is_left, events.counters)
    lane.launch(
        add_up, 1, _ADDING, counts, np.int32(n_events), np.int32(n_kinds), events.counters, sums
    )
    counted = lane.fetch(sums)
    event_start = counted[1 : n_events + 2]
    keys = lane.empty("keys", int(event_start[-1]), asked.kind)
    if len(keys):
        lane.launch(write, n_blocks, 32 * _WARPS, *given, is_left, offsets, keys)
    left = counted[n_sums:].view(np.int32)[:n_events]
    key_start = counted[n_events + 2 : n_sums] if asked.for_rows else None
    return Found(event_start, offsets, keys, left, int(counted[0]), key_start)


def _with_rest(
    table: rarest.Table,
    batch: Batch,
    workspace: Workspace,
    options: rarest.Options,
    part: Part,
    is_left: NDArray[np.int32],
) -> Part:
    """Add the matches of the events that were left to the CPU."""
    rest = _rest(table, batch, workspace, options, is_left)
    return join([part, rest], batch.n_rows)


def _rest(
    table: rarest.Table,
    batch: Batch,
    workspace: Workspace,
    options: rarest.Options,
    is_left: NDArray[np.int32],
) -> Part:
    """Match the events that were left to the CPU; the other events get no keys here."""
    rows = np.flatnonzero(is_left)
    start, tags = csr.take_rows(batch.tag_start, batch.tags, rows)
    rest = Batch(start, tags, np.zeros((len(rows), 0), np.uint64))
    part = rarest.match(table, rest, workspace.on_cpu, options)
    counts = np.zeros(batch.n_rows, np.int64)
    counts[rows] = np.diff(part.event_start)
    return Part(csr.ragged(counts), part.keys, part.candidates)
