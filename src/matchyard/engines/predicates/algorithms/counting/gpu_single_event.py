"""A single event on a GPU, by `count_one` of counting.cu.

Of fifty microseconds that an event takes as a batch of one, the kernel needs the least: copies there
and back, a launch with many arguments, and waiting for the stream take the rest. Here the event is an
argument of the launch, hits are written to the host's memory by the card, and the host looks there
until they are said to be complete.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.counting.counting import Table
from matchyard.engines.predicates.algorithms.counting.gpu_layout import Layout
from matchyard.engines.predicates.encoder.layout import Batch
from matchyard.gpu.lanes import Lane

MOST_CODES = 32
ROOM = 4096  # hits of an event; one with more is matched as a batch
_THREADS = 256  # of a block
_LOOKS = (
    1 << 14
)  # for the hits, about a millisecond; then the stream is waited for, and what failed
_WORDS = (
    MOST_CODES + (MOST_CODES + 1 + MOST_CODES + MOST_CODES + 1 + 2) // 2
)  # of 64 bits, of `Event`


class One:
    """The workspace for single events: counters on the card, and host memory for its results."""

    def __init__(self, layout: Layout, sizes: NDArray[np.int32], lane: Lane, kernel: Any) -> None:
        import cupyx
        from cupy.cuda import driver, runtime

        self._lane, self._kernel = lane, kernel.kernel.ptr
        self._launch, self._set_device = driver.launchKernel, runtime.setDevice
        self._device = runtime.getDevice()
        counter_words = -(-len(sizes) * layout.counter_bits // 32)
        half_words = counter_words + -(-len(layout.union_filter) // 32)
        self._halves = lane.cupy.zeros(2 * half_words, np.uint32)
        self._totals = lane.cupy.zeros(2, np.uint32)
        self._hits = cupyx.zeros_pinned(ROOM, np.int32)
        said = cupyx.zeros_pinned(1, np.uint64)
        self._said = memoryview(said)  # faster to read than an array
        self._number = 0
        pointers = [
            *(array.data.ptr for array in layout.of_entries), self._halves.data.ptr,
            self._totals.data.ptr, self._hits.ctypes.data, said.ctypes.data,
        ]  # fmt: skip
        numbers = np.array([counter_words, half_words, ROOM, sizes[0]], np.uint32)
        self._table = np.concatenate([np.array(pointers, np.uint64), numbers.view(np.uint64)])
        self._event = np.zeros(_WORDS, np.int64)
        addresses = [self._table.ctypes.data, self._event.ctypes.data]
        self._pointers = np.array(addresses, np.uint64)
        self._arguments = self._pointers.ctypes.data
        self._halves_of_words = self._event[MOST_CODES:].view(np.uint32)
        lane.stream.synchronize()

    def match(self, table: Table, batch: Batch) -> tuple[NDArray[np.int32], int, bool] | None:
        """The filters whose constraints the event satisfies, how many were evaluated, and whether it
        reaches into arrays of objects; None where this is too much for a launch of one event."""
        number = (self._number + 1) & 0x7FFFFFFF
        n_threads, has_elements = _packed(
            batch.event_start, batch.slots, batch.codes, batch.elements, table.entry_start, number,
            self._event, self._halves_of_words,
        )  # fmt: skip
        if n_threads < 0:
            return None
        if n_threads == 0:
            return np.empty(0, np.int32), 0, has_elements
        self._set_device(self._device)  # a new thread has no current device
        before, self._number = self._number, number  # of launches
        try:
            self._launch(
                self._kernel, -(-n_threads // _THREADS), 1, 1, _THREADS, 1, 1, 0,
                self._lane.stream.ptr, self._arguments, 0,
            )  # fmt: skip
        except Exception:  # a launch clears the counts of the one before: this one did not
            self._number = before
            raise
        n_hits = self._wait(number)
        return (np.sort(self._hits[:n_hits]), n_threads, has_elements) if n_hits <= ROOM else None

    def _wait(self, number: int) -> int:
        said = self._said
        for _ in range(_LOOKS):
            if said[0] >> 32 == number:
                return said[0] & 0xFFFFFFFF
        self._lane.stream.synchronize()  # raises the error of the launch
        return said[0] & 0xFFFFFFFF


@njit(nogil=True, cache=True)
def _packed(event_start, slots, codes, elements, entry_start, number, event, halves):
    """Fill in `Event`: how many threads it needs, or -1 where it does not fit, and whether the event
    has elements."""
    first_thread, first_entry = halves[: MOST_CODES + 1], halves[MOST_CODES + 1 :]
    first_code = first_entry[MOST_CODES:]
    first, last = event_start[0], event_start[1]
    if last - first > MOST_CODES:
        return -1, False
    n_threads, n_slots, has_elements, before = np.int64(0), 0, False, -1
    for entry in range(first, last):
        slot = slots[entry]
        has_elements |= elements[entry] > 0
        if slot >= len(entry_start) - 1:
            continue
        event[entry - first] = codes[entry]
        if slot != before:
            first_thread[n_slots] = n_threads
            first_entry[n_slots] = entry_start[slot]
            first_code[n_slots] = entry - first
            n_threads += entry_start[slot + 1] - entry_start[slot]
            n_slots += 1
            before = slot
        first_code[n_slots] = entry - first + 1
    first_thread[n_slots] = n_threads
    halves[3 * MOST_CODES + 2] = n_slots
    halves[3 * MOST_CODES + 3] = number
    return n_threads, has_elements
