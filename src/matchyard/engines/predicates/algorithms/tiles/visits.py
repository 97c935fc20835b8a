"""The postings that events visit, and the bits of their signatures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.tiles.cells import cell_of
from matchyard.engines.predicates.algorithms.tiles.filing import term_position
from matchyard.engines.predicates.algorithms.tiles.walk import ONE
from matchyard.kernels.hashing import mix64


@njit(nogil=True, cache=True, forceinline=True)
def presence_bit(slot):
    """The bit of a slot that an event has, and that a filter asks for."""
    return ONE << np.uint64(slot & 63)


@njit(nogil=True, cache=True, forceinline=True)
def point_bit(slot, code):
    """The bit of a value in a slot."""
    return ONE << (mix64(np.uint64(code) ^ np.uint64(slot) << np.uint64(40)) >> np.uint64(58))


class _TermTable(NamedTuple):
    slots: NDArray[np.int32]
    codes: NDArray[np.int64]


@njit(nogil=True, cache=True)
def visit(table, batch, cells, signatures, seen, n_seen):
    """The postings that each event visits, and its cells and signature."""
    terms = _TermTable(table.term_slots, table.term_codes)
    n_events = len(batch.event_start) - 1
    has_unfiled = table.posting_start[1] > 0
    postings = np.empty(n_events + 2 * len(batch.slots), np.int32)
    events = np.empty(n_events + 2 * len(batch.slots), np.int32)
    end = 0
    for event in range(n_events):
        if has_unfiled:
            postings[end], events[end] = 0, event
            end += 1
        last_slot = -1
        for entry in range(batch.event_start[event], batch.event_start[event + 1]):
            slot, code = batch.slots[entry], batch.codes[entry]
            if slot >= len(table.slot_posting):
                break
            is_first = slot != last_slot
            last_slot = slot
            bit = table.slot_bit[slot]
            if bit >= 0:
                start, stop = table.bound_start[bit], table.bound_start[bit + 1]
                cell = cell_of(table.bounds, start, stop, code) if is_first else stop - start + 2
                cells[event, bit] = cell
            signatures[event] |= presence_bit(slot) | point_bit(slot, code)
            if is_first and table.slot_posting[slot] >= 0:
                postings[end], events[end] = table.slot_posting[slot], event
                end += 1
            position = term_position(terms, slot, code)
            if terms.slots[position] >= 0:
                posting = table.term_postings[position]
                if seen[posting] != n_seen + event:
                    seen[posting] = n_seen + event
                    postings[end], events[end] = posting, event
                    end += 1
    return postings[:end], events[:end]
