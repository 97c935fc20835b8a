"""tiles on a GPU: an event ANDs rows of 1024 bits that lie on the chip.

    events ─▶ enter: cells, signatures, postings ─▶ visits by posting ─▶ sift: tiles of 1024 filters,
    and the exact check of what is left ─▶ pairs (event, filter), sorted ─▶ keys per event

The pairs of few events, as in a stream, are written to the host's memory and sorted there. This
takes fewer CUDA calls, each of which releases the GIL.

The table is that of the CPU; `gpu_layout` makes larger tiles of it, in a table made for many
matches, too. Filters of small postings are checked without rows. Events that reach into arrays of
objects are confirmed on the host. Where pairs outgrow their room, the kernels run again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared import stored_filters
from matchyard.engines.predicates.algorithms.shared.exact_check import (
    enter,
    filter_holds,
    leave,
    no_slots,
)
from matchyard.engines.predicates.algorithms.tiles import gpu_layout
from matchyard.engines.predicates.algorithms.tiles.cells import MAX_CELLS
from matchyard.engines.predicates.algorithms.tiles.gpu_layout import layout_of
from matchyard.engines.predicates.algorithms.tiles.tiles import Options, Table
from matchyard.engines.predicates.encoder.layout import Batch
from matchyard.gpu.compilation import kernel
from matchyard.gpu.devices import guarded
from matchyard.gpu.lanes import Lane
from matchyard.gpu.resident import keys_on_card, on_card
from matchyard.kernels import csr
from matchyard.matches import Part, end_to_end

LAUNCH = 16384
CHUNK = 4096  # visits that a block takes, at most…
LEAST_CHUNK = 256  # …and at least
BLOCKS = 2048  # of `sift`, at least, where there are enough visits
ROOM = 1 << 20  # pairs of a launch, before it is known how many there are
FEW_EVENTS = 2048
FEW_PAIRS = 1 << 16
MOST_VISITS = 1 << 29  # that events could make in a launch, of 12 bytes each
MOST_PAIRS = 1 << 28
MOST_KEYS = 8  # of a filter, up to which keys are found on the card
_THREADS = 128
_COMPARING = 1056  # blocks: eight per processor of an H200
_WARPS = 16
_PROBES = 4
_MOST_ROWS = MAX_CELLS + 3
_OTHER_BYTES = 8 * 64 * _WARPS + _PROBES * _MOST_ROWS  # shared memory beside the rows
VARIANTS = tuple(
    {"WARPS": _WARPS, "FEW": 64, "PROBES": _PROBES, "MOST_ROWS": _MOST_ROWS, "WIDE": is_wide}
    for is_wide in (0, 1)
)
_ARRAYS = (  # of the table, in the order of `Filters` in events.cuh; the arrays of the layout follow
    "posting_start", "slot_posting", "term_slots", "term_codes", "term_postings", "slot_bit",
    "bound_start", "bounds", "signatures", "filter_start", "piece_start", "groups", "slots", "low",
    "high",
)  # fmt: skip
_HEADER = 17  # words of `Events` in events.cuh
_N_COUNTERS = 4


class Space:
    """The workspace of a thread: a lane, and the addresses of the table on the card."""

    def __init__(self, table: Table, options: Options) -> None:
        import cupy

        most = cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
        row_bytes = min(gpu_layout.ROW_BYTES, most - _OTHER_BYTES)
        self.layout = layout_of(table, row_bytes)
        self.lane = Lane()
        self.room = ROOM
        self.found_each = 0.0  # pairs per event, lately
        self.first = no_slots(stored_filters.n_slots(table))
        constants = VARIANTS[table.low.dtype == np.int64]
        self._enter, self._add_up, self._fill, self._sift, self._compare = (
            kernel(__file__, name, constants)
            for name in ("enter", "add_up", "fill", "sift", "compare")
        )
        self._sift.max_dynamic_shared_size_bytes = row_bytes
        self.keys: Any = None  # where each filter has few, they are found on the card
        if stored_filters.has_few_keys(table, MOST_KEYS):
            self.keys, self._key_start = keys_on_card(table.keys), on_card(table.key_start)
            name = f"gather_{8 * self.keys.dtype.itemsize}"
            self._gather = kernel(__file__, name, constants)
        self._copies = [on_card(getattr(table, name)) for name in _ARRAYS]
        addresses = [
            copy.data.ptr if getattr(table, name).size else 0
            for name, copy in zip(_ARRAYS, self._copies, strict=True)
        ]
        addresses += [array.data.ptr for array in self.layout[:-3]]
        self._n_bit_slots = len(table.bound_start) - 1
        sizes = [len(table.slot_posting), self._n_bit_slots, len(table.term_slots) - 1]
        with self.lane.stream:
            self.filters = self.lane.send("filters", np.array(addresses + sizes, np.int64))
            self.lane.stream.synchronize()

    def send(self, batch: Batch, has_elements: bool, room: int, are_few: bool) -> tuple[Any, int]:
        """The events on the card, behind a header that says where all is and counters of 0; and how
        many blocks a tile has. There will be room for so many pairs, on the host if they are few."""
        layout, lane = self.layout, self.lane
        n_events, first, last = batch.n_rows, batch.event_start[0], batch.event_start[-1]
        n_entries = int(last - first)
        counts_at = _HEADER + _N_COUNTERS
        start_at = counts_at + layout.n_large
        codes_at = start_at + n_events + 1
        slots_at = codes_at + n_entries
        n_words = slots_at + (n_entries + 1) // 2
        there = lane.empty("events", n_words, np.int64)
        n_chunks = _n_chunks(n_events, layout.n_tiles)
        offsets = (start_at, codes_at, slots_at, _HEADER, counts_at)
        words = lane.staged("events", n_words)
        buffers = self._buffers(n_events, n_entries)
        if are_few:
            lane.staged("pairs", room)
            pairs_at = lane.address_of("pairs")
        else:
            pairs_at = lane.empty("pairs", room, np.uint64).data.ptr
            self.room = room  # only after the allocation succeeded
        words[:_HEADER] = [
            n_events, has_elements, -(-n_events // n_chunks), n_chunks, room,
            *(there.data.ptr + 8 * at for at in offsets),
            *(array.data.ptr for array in buffers), pairs_at,
            self._key_start.data.ptr if self.finds_keys(has_elements) else 0,
        ]  # fmt: skip
        words[_HEADER:start_at] = 0
        np.subtract(batch.event_start, first, out=words[start_at:codes_at])
        words[codes_at:slots_at] = batch.codes[first:last]
        words[slots_at:].view(np.int32)[:n_entries] = batch.slots[first:last]
        lane.send_staged("events", there)
        return there, n_chunks

    def finds_keys(self, has_elements: bool) -> bool:
        """True if pairs are of event and key, not of event and filter."""
        return self.keys is not None and not has_elements

    def _buffers(self, n_events: int, n_entries: int) -> tuple[Any, ...]:
        """Buffers of the kernels: an event visits at most two postings per entry and one more."""
        lane, n_visits = self.lane, n_events + 2 * n_entries
        return (
            lane.empty("ends", self.layout.n_large, np.int64),
            lane.empty("cells", n_events * self._n_bit_slots, np.uint8),
            lane.empty("signatures", n_events, np.uint64),
            lane.empty("visits", n_visits, np.int32),
            lane.empty("small", n_visits, np.uint64),
        )

    def launch(self, events: Any, n_events: int, n_chunks: int) -> None:
        """Start the kernels."""
        lane, layout, given = self.lane, self.layout, (self.filters, events)
        n_blocks = -(-n_events // _THREADS)
        lane.launch(self._enter, n_blocks, _THREADS, *given)
        if layout.n_large:
            lane.launch(self._add_up, 1, 1024, events, np.int64(layout.n_large))
            lane.launch(self._fill, n_blocks, _THREADS, *given)
            n_blocks = layout.n_tiles * n_chunks
            lane.launch(self._sift, n_blocks, 32 * _WARPS, *given, shared=layout.shared_bytes)
        lane.launch(self._compare, _COMPARING, _THREADS, *given)

    def gather(self, pairs: Any, n_events: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """(start of the keys of each event, keys); the keys have 32 bits if all fit."""
        n_pairs, width = len(pairs), self.keys.dtype.itemsize
        n_words = n_events + 1 + -(-n_pairs * width // 8)
        out = self.lane.empty("keys", n_words, np.int64)
        self.lane.launch(
            self._gather, -(-n_pairs // _THREADS), _THREADS, pairs, np.int64(n_pairs),
            np.int64(n_events), self.keys, out, out[n_events + 1 :],
        )  # fmt: skip
        words = self.lane.fetch(out)
        return words[: n_events + 1], words[n_events + 1 :].view(self.keys.dtype)[:n_pairs]


def _n_chunks(n_events: int, n_tiles: int) -> int:
    """Blocks per tile: so many that all processors have work, and rows are loaded for many events."""
    wanted = -(-BLOCKS // max(1, n_tiles))
    return max(-(-n_events // CHUNK), min(wanted, -(-n_events // LEAST_CHUNK)))


def workspace(table: Table, options: Options) -> Space:
    """The workspace of one thread."""
    return Space(table, options)


def match(table: Table, batch: Batch, workspace: Space, options: Options) -> Part:
    """The keys per event; candidates are the filters of small postings, and those of large ones that
    the rows of their tile let pass."""
    n_events = batch.n_rows
    if n_events == 0:
        return Part(np.zeros(1, np.int64), np.empty(0, np.int64))
    first, last = batch.event_start[0], batch.event_start[-1]
    if n_events > 1 and n_events + 2 * (last - first) > MOST_VISITS:
        return _in_halves(table, batch, workspace, options)
    has_elements = bool(batch.elements[first:last].max(initial=0))
    with workspace.lane.stream, guarded("matching"):
        result = _pairs(batch, workspace, has_elements)
        if result is None:
            return _in_halves(table, batch, workspace, options)
        pairs, candidates, may_repeat = result
        if len(pairs) == 0:
            return Part(np.zeros(n_events + 1, np.int64), np.empty(0, np.int64), candidates)
        if not isinstance(pairs, np.ndarray):
            if workspace.finds_keys(has_elements) and not may_repeat:
                return Part(*workspace.gather(pairs, n_events), candidates)
            pairs = workspace.lane.fetch_staged("pairs", pairs)
    hit_start, hits = csr.by_upper_half(pairs, n_events)
    if workspace.finds_keys(has_elements):
        return Part(hit_start, table.keys[hits], candidates)
    if has_elements:
        hit_start, hits = _confirmed(
            table, stored_filters.narrowed(table, batch), hit_start, hits, workspace.first
        )
    return stored_filters.finish(table, hit_start, hits, candidates)


def _in_halves(table: Table, batch: Batch, workspace: Space, options: Options) -> Part:
    """The same with half as many events at a time."""
    start, middle = batch.event_start, batch.n_rows // 2
    halves = (
        batch._replace(event_start=start[: middle + 1]),
        batch._replace(event_start=start[middle:]),
    )
    return end_to_end([match(table, half, workspace, options) for half in halves])


def _pairs(batch: Batch, space: Space, has_elements: bool) -> tuple[Any, int, bool] | None:
    """Pairs of event and filter or key, ascending, how many were compared, and whether a pair may be
    there twice. They are on the card, unless they are few; None where there are so many that half the
    events are enough."""
    n_events = batch.n_rows
    are_few = n_events <= FEW_EVENTS and n_events * space.found_each <= FEW_PAIRS
    room = FEW_PAIRS if are_few else space.room
    while True:
        events, n_chunks = space.send(batch, has_elements, room, are_few)
        space.launch(events, n_events, n_chunks)
        counters = space.lane.fetch_staged("counters", events[_HEADER : _HEADER + _N_COUNTERS])
        n_pairs, _, candidates, may_repeat = counters.tolist()
        if n_pairs <= room:
            break
        if n_pairs > MOST_PAIRS and n_events > 1:
            return None
        are_few = False
        room = max(space.room, n_pairs + n_pairs // 4)
    space.found_each = n_pairs / n_events
    if are_few:
        here = space.lane.staged("pairs", room)[:n_pairs].view(np.uint64)
        return np.sort(here), candidates, bool(may_repeat)
    pairs = space.lane.empty("pairs", room, np.uint64)[:n_pairs]
    if n_pairs > 1:
        pairs.sort()
    return pairs, candidates, bool(may_repeat)


@njit(nogil=True, cache=True)
def _confirmed(table, batch, hit_start, hits, first):
    """The hits that the exact check with arrays of objects confirms."""
    start = np.zeros(len(hit_start), np.int64)
    kept = np.empty(len(hits), np.int32)
    end = 0
    for event in range(len(hit_start) - 1):
        has_elements = enter(batch, event, first)
        for i in range(hit_start[event], hit_start[event + 1]):
            if filter_holds(table, hits[i], batch, event, first, has_elements):
                kept[end] = hits[i]
                end += 1
        leave(batch, event, first)
        start[event + 1] = end
    return start, kept[:end]
