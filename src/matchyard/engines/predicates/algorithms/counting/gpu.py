"""counting on a GPU: CCM's kernel [Margara and Cugola, DEBS 2011], many events at once.

The counters of a tile of filters are in shared memory, two copies of them as in the paper; see
counting.cu. A single event goes another way (`gpu_single_event`). Kernels evaluate and count all
constraints. Filters with negated groups, those without constraints to satisfy, and events that reach
into arrays of objects are confirmed on the host, as by `counting`. Where no such thing is in the way
and hits are many, the card looks up their keys, too. A table with so many constraints
of several entries on one filter that not even 32 filters fit into shared memory is matched on the
CPU.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.counting import counting
from matchyard.engines.predicates.algorithms.counting.counting import Options, Table
from matchyard.engines.predicates.algorithms.counting.gpu_layout import Layout, layout_of
from matchyard.engines.predicates.algorithms.counting.gpu_single_event import MOST_CODES, One
from matchyard.engines.predicates.algorithms.shared import stored_filters
from matchyard.engines.predicates.algorithms.shared.counted_filters import n_below, put
from matchyard.engines.predicates.algorithms.shared.exact_check import (
    enter,
    filter_holds,
    leave,
    no_slots,
)
from matchyard.engines.predicates.encoder.layout import Batch
from matchyard.gpu.compilation import kernel
from matchyard.gpu.devices import guarded
from matchyard.gpu.lanes import Lane
from matchyard.gpu.resident import keys_on_card, on_card
from matchyard.matches import Part, end_to_end

LAUNCH = 16384
BLOCKS = 4096  # in a launch of many events: several times as many as run at once
N_PROCESSORS = 132  # of an H200: up to as many blocks are alone on theirs, and may be large
CELLS = 1 << 24  # of a launch, one for each event and tile: 128 MB
ROOM = 1 << 20  # hits of a launch, before it is known how many there are
FEW_HITS = 1 << 14  # of a launch, up to which the host looks up their keys: it is done sooner
MOST_KEYS = 8  # of a filter, up to which the card does so
_WARPS = 8  # of a block that looks up keys
_COUNT_SHIFT = 20
_COUNT_MASK = (1 << _COUNT_SHIFT) - 1
VARIANTS = tuple(
    {
        "COUNTER_BITS": counter_bits,
        "WIDE": is_wide,
        "COUNT_SHIFT": _COUNT_SHIFT,
        "MOST_CODES": MOST_CODES,
    }
    for counter_bits in (4, 8, 16, 32)
    for is_wide in (0, 1)
)


class Space:
    """The workspace of a thread: a lane, and counters of hits."""

    def __init__(self, table: Table, options: Options) -> None:
        self.layout = layout_of(table, options.ordered)
        if self.layout is None:
            self.on_cpu = counting.workspace(table, options)
            return
        import cupy

        self.first = no_slots(stored_filters.n_slots(table))
        self.room = ROOM
        self.lane = Lane()
        self._constants = {
            "COUNTER_BITS": self.layout.counter_bits,
            "WIDE": int(table.entry_low.dtype == np.int64),
            "COUNT_SHIFT": _COUNT_SHIFT,
            "MOST_CODES": MOST_CODES,
        }
        self._count_constraints = kernel(__file__, "count_constraints", self._constants)
        self._sizes = table.sizes
        self._keys: Any = None  # where the card may look them up
        if stored_filters.has_few_keys(table, MOST_KEYS) and not must_confirm(table):
            self._keys, self._key_start = keys_on_card(table.keys), on_card(table.key_start)
            width = 8 * self._keys.dtype.itemsize
            self._count_keys = kernel(__file__, "count_keys", self._constants)
            self._write_keys = kernel(__file__, f"write_keys_{width}", self._constants)
        with self.lane.stream, guarded("the counters of a thread"):
            self._reserved, self._stale = cupy.zeros(1, np.int64), cupy.zeros(1, np.int64)
            self.lane.stream.synchronize()

    @cached_property
    def one(self) -> One:
        """The workspace for single events, made at the first one."""
        assert self.layout is not None
        count_one = kernel(__file__, "count_one", self._constants)
        with self.lane.stream:
            return One(self.layout, self._sizes, self.lane, count_one)

    def send(self, batch: Batch) -> Any:
        """The events on the card: offsets, codes, and slots in half a word each."""
        n_events, first, last = batch.n_rows, batch.event_start[0], batch.event_start[-1]
        n_entries = int(last - first)
        n_words = n_events + 1 + n_entries + (n_entries + 1) // 2
        words = self.lane.staged("events", n_words)
        np.subtract(batch.event_start, first, out=words[: n_events + 1])
        codes_end = n_events + 1 + n_entries
        words[n_events + 1 : codes_end] = batch.codes[first:last]
        words[codes_end:].view(np.int32)[:n_entries] = batch.slots[first:last]
        there = self.lane.empty("events", n_words, np.int64)
        self.lane.send_staged("events", there)
        return there

    def launch(self, events: Any, n_events: int, n_entries: int, room: int = 0) -> tuple[Any, Any]:
        """Start the kernel with at least so much room; returns where its cells and its hits will be.
        The counter of hits that this launch uses is cleared by the next one, as CCM's counters are."""
        layout, lane = self.layout, self.lane
        assert layout is not None
        n_together = min(n_events, max(1, BLOCKS // layout.n_tiles))
        n_blocks = layout.n_tiles * n_together
        cells = lane.empty("cells", n_events * layout.n_tiles, np.int64)
        room = max(room, self.room)
        hits = lane.empty("hits", room, np.int32)
        self.room = room  # once there is memory for it: other events may need less
        lane.launch(
            self._count_constraints, n_blocks, 1024 if n_blocks <= N_PROCESSORS else 256,
            layout.part_start, layout.low, layout.high, layout.targets, layout.union_filter,
            layout.first_union, layout.sizes, np.int32(layout.n_slots),
            np.int32(layout.n_tiles), np.int32(layout.tile_filters), np.int32(layout.stamp_words),
            events, np.int32(n_events), np.int32(n_entries), self._reserved, self._stale,
            np.int64(self.room), cells, hits, shared=layout.shared_bytes,
        )  # fmt: skip
        self._reserved, self._stale = self._stale, self._reserved
        return cells, hits

    def finds_keys(self, n_hits: int, has_elements: bool) -> bool:
        """True if the card looks up the keys of so many hits."""
        return self._keys is not None and not has_elements and n_hits > FEW_HITS

    def keys_of(self, cells: Any, hits: Any, n_events: int) -> tuple[Any, Any]:
        """(start of the keys of each event, keys); the keys have 32 bits if all fit."""
        assert self.layout is not None
        lane = self.lane
        given = cells, np.int32(n_events), np.int32(self.layout.n_tiles), hits, self._key_start
        n_blocks = -(-n_events // _WARPS)
        counts = lane.empty("counts", n_events, np.int64)
        ends = lane.empty("ends", n_events, np.int64)
        lane.launch(self._count_keys, n_blocks, 32 * _WARPS, *given, counts)
        counts.cumsum(out=ends)
        event_start = np.zeros(n_events + 1, np.int64)
        event_start[1:] = lane.fetch_staged("ends", ends)
        key_list = lane.empty("keys", int(event_start[-1]), self._keys.dtype)
        lane.launch(self._write_keys, n_blocks, 32 * _WARPS, *given, self._keys, ends, key_list)
        return event_start, lane.fetch(key_list)


def must_confirm(table: Table) -> bool:
    """True if a full count is not enough for a match."""
    return bool(len(table.groups)) or table.sizes[0] == 0


def workspace(table: Table, options: Options) -> Space:
    """The workspace of one thread."""
    return Space(table, options)


def match(table: Table, batch: Batch, workspace: Space, options: Options) -> Part:
    """The keys per event; candidates are the constraints evaluated, the same as on the CPU."""
    layout = workspace.layout
    if layout is None:
        return counting.match(table, batch, workspace.on_cpu, options)
    if batch.n_rows == 0:
        return Part(np.zeros(1, np.int64), np.empty(0, np.int64))
    step = max(1, CELLS // layout.n_tiles)
    if batch.n_rows > step:
        starts = range(0, batch.n_rows, step)
        some = (batch._replace(event_start=batch.event_start[at : at + step + 1]) for at in starts)
        return end_to_end([match(table, one, workspace, options) for one in some])
    with guarded("counting constraints"):
        one = workspace.one.match(table, batch) if batch.n_rows == 1 else None
        if one is None:
            with workspace.lane.stream:
                counted = _counted(table, layout, batch, workspace)
                if isinstance(counted, Part):
                    return counted
                hit_start, hits, candidates, has_elements = counted
        else:
            hits, candidates, has_elements = one
            hit_start = np.array([0, len(hits)])
    if has_elements or must_confirm(table):
        batch = stored_filters.narrowed(table, batch)
        hit_start, hits = _confirmed(table, batch, hit_start, hits, workspace.first)
    if len(hits) == 0:
        return Part(hit_start, np.empty(0, np.int64), candidates)
    return stored_filters.finish(table, hit_start, hits, candidates)


def _counted(
    table: Table, layout: Layout, batch: Batch, space: Space
) -> tuple[NDArray[np.int64], NDArray[np.int32], int, bool] | Part:
    """The filters with full counts per event, the constraints evaluated, and whether an event
    reaches into arrays of objects; or the keys, where the card looks them up."""
    n_events, n_entries = batch.n_rows, int(batch.event_start[-1] - batch.event_start[0])
    events = space.send(batch)
    there = space.launch(events, n_events, n_entries)
    # The card works meanwhile.
    candidates, has_elements = _evaluated(
        batch.event_start, batch.slots, batch.elements, table.entry_start
    )
    cells = space.lane.fetch_staged("cells", there[0])
    hit_start = _starts(cells, n_events, layout.n_tiles)
    n_hits = int(hit_start[-1])
    if n_hits == 0:
        return hit_start, np.empty(0, np.int32), candidates, has_elements
    if n_hits > space.room:
        there = space.launch(events, n_events, n_entries, n_hits + n_hits // 4)
        cells = space.lane.fetch_staged("cells", there[0])
    if space.finds_keys(n_hits, has_elements):
        return Part(*space.keys_of(*there, n_events), candidates)
    unordered = space.lane.fetch_staged("hits", there[1][:n_hits])
    return hit_start, _in_order(cells, unordered), candidates, has_elements


@njit(nogil=True, cache=True)
def _evaluated(event_start, slots, elements, entry_start):
    """(number of constraints that the events evaluate, whether an event has elements)."""
    n_evaluated, has_elements = 0, False
    for event in range(len(event_start) - 1):
        before = -1
        for entry in range(event_start[event], event_start[event + 1]):
            slot = slots[entry]
            has_elements |= elements[entry] > 0
            if slot != before and slot < len(entry_start) - 1:
                n_evaluated += entry_start[slot + 1] - entry_start[slot]
            before = slot
    return n_evaluated, has_elements


@njit(nogil=True, cache=True)
def _starts(cells, n_events, n_tiles):
    """Offsets of the hits of each event."""
    start = np.zeros(n_events + 1, np.int64)
    for event in range(n_events):
        total = start[event]
        for cell in range(event * n_tiles, (event + 1) * n_tiles):
            total += cells[cell] & _COUNT_MASK
        start[event + 1] = total
    return start


@njit(nogil=True, cache=True)
def _in_order(cells, unordered):
    """The hits cell by cell; the card wrote them in the order of its blocks."""
    hits = np.empty(len(unordered), np.int32)
    end = 0
    for cell in cells:
        start = cell >> _COUNT_SHIFT
        for i in range(cell & _COUNT_MASK):
            hits[end + i] = unordered[start + i]
        end += cell & _COUNT_MASK
    return hits


@njit(nogil=True, cache=True)
def _confirmed(table, batch, hit_start, hits, first):
    """The hits that the exact check confirms, after the filters that have nothing to count."""
    n_events = len(hit_start) - 1
    start = np.zeros(n_events + 1, np.int64)
    kept, end = np.empty(1024, np.int32), 0
    n_always = n_below(table.sizes, 1)
    for event in range(n_events):
        has_elements = enter(batch, event, first)
        confirm = has_elements or len(table.groups) > 0
        for number in range(n_always):
            if filter_holds(table, number, batch, event, first, has_elements):
                kept = put(kept, end, number)
                end += 1
        for i in range(hit_start[event], hit_start[event + 1]):
            if not confirm or filter_holds(table, hits[i], batch, event, first, has_elements):
                kept = put(kept, end, hits[i])
                end += 1
        leave(batch, event, first)
        start[event + 1] = end
    return start, kept[:end]
