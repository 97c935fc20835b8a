"""tiles for many matches: all events of a batch pass over a tile in the order of their codes.

For each list of a tile (`sweep_build`) the events go by in ascending order of their codes in its
slot. A row of 512 bits goes with them: every end that they pass flips a bit, and each event ANDs
the row, as it is when the event's own code is reached, to its result. The result after all
lists is exact; no filter is compared with an event.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.tiles.bits import TILE, TILE_WORDS
from matchyard.engines.predicates.algorithms.tiles.cells import cell_of
from matchyard.engines.predicates.algorithms.tiles.walk import ONE, ZERO, by_posting, within
from matchyard.kernels.bitset import and_row, copy_row, count_ones, flip, lowest_one, or_row
from matchyard.kernels.hashing import prefetch

_TOGETHER = 512  # events: the more, the fewer bits are flipped for each
_FEW = 16  # events for which memory is fetched ahead: with more, most is in the cache already
_BEFORE_ALL = np.iinfo(np.int64).min
_MOST_BYTES = 1 << 28  # of the bits of all filters for the events that are matched together


class Entries(NamedTuple):
    """The values of some events, slot by slot, in ascending order. An event without the slot stands
    before all others, in cell 0."""

    start: NDArray[np.int64]  # [n_bit_slots + 1]
    codes: NDArray[np.int64]
    cells: NDArray[np.int64]
    rows: NDArray[np.int64]  # the row that each goes to: that of its event, or a spare one


class Values(NamedTuple):
    """The values of all events. An event with several in a slot has a spare row there, to which
    all of them go: one that satisfies a filter is enough."""

    single: Entries
    several: Entries
    spare_start: NDArray[np.int64]  # [n_bit_slots + 1]
    spare_rows: NDArray[np.int64]  # the rows of the events whose the spare ones are


class Bits:
    """The bits of all filters for some events; grows to what was needed."""

    def __init__(self) -> None:
        self.bits = np.empty(0, np.uint64)

    def of(self, n_events: int, n_words: int) -> NDArray[np.uint64]:
        """A row per event. By NumPy, since it asks for huge pages."""
        if len(self.bits) < n_events * n_words:
            self.bits = np.empty(n_events * n_words, np.uint64)
        return self.bits[: n_events * n_words].reshape(n_events, n_words)


def sweep(
    table: Any,
    batch: Any,
    visits: tuple[NDArray[np.int32], NDArray[np.int32]],
    ends: NDArray[np.int32],
    room: Bits,
) -> tuple[NDArray[np.int64], NDArray[np.int32], int]:
    """The filters that each event satisfies, slot by slot; how many bits were flipped for that?
    Values within arrays of objects are still to be checked for being of one object."""
    postings, events = visits
    n_words = (len(table.tile_start) - 1) * TILE_WORDS
    step = max(1, min(_TOGETHER, _MOST_BYTES // max(1, 8 * n_words)))
    counts = np.zeros(batch.n_rows + 1, np.int64)
    parts, n_flips = [], 0
    for start in range(0, batch.n_rows, step):
        stop = min(start + step, batch.n_rows)
        some = slice(*np.searchsorted(events, [start, stop]))
        by = by_posting(postings[some], events[some] - start, ends)
        bits = room.of(stop - start, n_words)
        n_flips += _sweep(table, batch, start, by, bits)
        _count_bits(bits, counts[start + 1 : stop + 1])
        parts.append(np.empty(int(counts[start + 1 : stop + 1].sum()), np.int32))
        _read_off(bits, parts[-1])
    hits = parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.int32)])
    return np.cumsum(counts), hits, n_flips


@njit(nogil=True, cache=True)
def _values(table, batch, start, events):
    """The values of some events, which are counted from `start`."""
    slot_bit, slots, event_start = table.slot_bit, batch.slots, batch.event_start
    n_events, n_bit_slots = len(events), len(table.bound_start) - 1
    n_several = np.zeros(n_bit_slots + 1, np.int64)
    n_spares = np.zeros(n_bit_slots + 1, np.int64)
    for row in range(n_events):
        event = start + events[row]
        for i in range(event_start[event], event_start[event + 1]):
            number = slot_bit[slots[i]] if slots[i] < len(slot_bit) else -1
            is_first = i == event_start[event] or slots[i] != slots[i - 1]
            is_last = i + 1 == event_start[event + 1] or slots[i] != slots[i + 1]
            if number >= 0 and not (is_first and is_last):
                n_several[number + 1] += 1
                n_spares[number + 1] += is_first
    spare_start = np.cumsum(n_spares)
    single = _room(np.arange(n_bit_slots + 1) * n_events - spare_start)
    several = _room(np.cumsum(n_several))
    spare_rows = np.empty(spare_start[-1], np.int64)
    end, several_end, spare_end = single.start.copy(), several.start.copy(), spare_start.copy()
    is_there = np.zeros((n_bit_slots, n_events), np.bool_)
    for row in range(n_events):
        event = start + events[row]
        for i in range(event_start[event], event_start[event + 1]):
            number = slot_bit[slots[i]] if slots[i] < len(slot_bit) else -1
            if number < 0:
                continue
            is_there[number, row] = True
            code = batch.codes[i]
            cell = cell_of(
                table.bounds, table.bound_start[number], table.bound_start[number + 1], code
            )
            is_first = i == event_start[event] or slots[i] != slots[i - 1]
            is_last = i + 1 == event_start[event + 1] or slots[i] != slots[i + 1]
            if is_first and is_last:
                _put(single, end, number, code, cell, row)
                continue
            if is_first:
                spare_rows[spare_end[number]] = row
                spare_end[number] += 1
            spare = n_events + spare_end[number] - 1 - spare_start[number]
            _put(several, several_end, number, code, cell, spare)
    for number in range(n_bit_slots):
        for row in range(n_events):
            if not is_there[number, row]:
                _put(single, end, number, _BEFORE_ALL, 0, row)
    _sort(single)
    _sort(several)
    return Values(single, several, spare_start, spare_rows)


@njit(nogil=True, cache=True)
def _room(start):
    n = start[-1]
    return Entries(start, np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64))


@njit(nogil=True, cache=True)
def _put(entries, end, number, code, cell, row):
    at = end[number]
    entries.codes[at], entries.cells[at], entries.rows[at] = code, cell, row
    end[number] += 1


@njit(nogil=True, cache=True)
def _sort(entries):
    for number in range(len(entries.start) - 1):
        first, last = entries.start[number], entries.start[number + 1]
        order = np.argsort(entries.codes[first:last])
        for array in (entries.codes, entries.cells, entries.rows):
            array[first:last] = array[first:last][order]


@njit(nogil=True, cache=True)
def _sweep(table, batch, start, visits, bits):
    """Note in `bits` which filters the events from `start` on satisfy; returns how many bits were
    flipped on the way."""
    touched, visit_start, visitors = visits
    posting_start, n_events, n_filters = table.posting_start, len(bits), table.posting_start[-1]
    visited = np.full(len(posting_start), -1, np.int64)
    visited[touched] = np.arange(len(touched))
    everyone = np.arange(n_events, dtype=np.int32)
    all_values = _values(table, batch, start, everyone)
    values, events, values_of, posting, n_flips = all_values, everyone, -1, 0, 0
    rows = np.empty(0, np.uint64)
    for tile in range(len(table.tile_start) - 1):
        first, last = TILE * tile, min(TILE * (tile + 1), n_filters)
        while posting_start[posting + 1] <= first:
            posting += 1
        # Where all of a tile is of one posting, only events that look there can match, often few.
        wanted = posting if posting_start[posting + 1] >= last else -1
        if wanted >= 0 and visited[wanted] < 0:
            bits[:, tile * TILE_WORDS : (tile + 1) * TILE_WORDS] = ZERO
            continue
        if wanted >= 0:
            visit = visited[wanted]
            few = visitors[visit_start[visit] : visit_start[visit + 1]]
            if 2 * len(few) > n_events:
                wanted = -1
            elif wanted != values_of:
                values, events = _values(table, batch, start, few), few
        if wanted < 0:
            values, events = all_values, everyone
        else:
            bits[:, tile * TILE_WORDS : (tile + 1) * TILE_WORDS] = ZERO
        values_of = wanted
        n_spares = np.diff(values.spare_start).max() if len(values.spare_start) > 1 else 0
        if len(rows) < (len(events) + n_spares) * TILE_WORDS:
            rows = np.empty((len(events) + n_spares) * TILE_WORDS, np.uint64)
        n_flips += _sweep_tile(table, tile, values, len(events), rows)
        for i in range(len(events)):
            for word in range(TILE_WORDS):
                inside = within(first, last, first + 64 * word)
                bits[events[i], tile * TILE_WORDS + word] = rows[i * TILE_WORDS + word] & inside
    return n_flips


@njit(nogil=True, cache=True)
def _sweep_tile(table, tile, values, n_rows, rows):
    """Leave in `rows` which filters of a tile hold; returns how many bits were flipped."""
    list_slot, list_rows, row_at = table.list_slot, table.list_rows, table.list_row_at
    end_start, end_codes, end_filters = table.end_start, table.end_codes, table.end_filters
    cell_at, cell_ends, n_lists = table.cell_at, table.cell_ends, len(list_slot)
    single, several, spare_start, spare_rows = values
    start, codes, cells, targets = single
    row = np.empty(TILE_WORDS, np.uint64)
    rows[: n_rows * TILE_WORDS] = ~ZERO
    n_flips = 0
    for number in range(table.tile_start[tile], table.tile_start[tile + 1]):
        if n_rows <= _FEW:
            ahead = min(number + 16, n_lists - 1)
            _prefetch_rows(
                list_rows, row_at[ahead], cell_ends, cell_at[ahead],
                cells, start[list_slot[ahead]], start[list_slot[ahead] + 1],
            )  # fmt: skip
            ahead = min(number + 8, n_lists - 1)
            _prefetch_ends(
                end_codes, end_filters, end_start[ahead], cell_ends, cell_at[ahead],
                cells, start[list_slot[ahead]], start[list_slot[ahead] + 1],
            )  # fmt: skip
        slot = list_slot[number]
        n_flips += _pass(
            list_rows, row_at[number], end_codes, end_filters, end_start[number],
            cell_ends, cell_at[number], codes, cells, targets, start[slot], start[slot + 1],
            rows, row, False,
        )  # fmt: skip
        if spare_start[slot] == spare_start[slot + 1]:
            continue
        rows[n_rows * TILE_WORDS :] = ZERO
        n_flips += _pass(
            list_rows, row_at[number], end_codes, end_filters, end_start[number],
            cell_ends, cell_at[number], several.codes, several.cells, several.rows,
            several.start[slot], several.start[slot + 1], rows, row, True,
        )  # fmt: skip
        for i in range(spare_start[slot + 1] - spare_start[slot]):
            copy_row(row, rows, (n_rows + i) * TILE_WORDS)
            and_row(rows, spare_rows[spare_start[slot] + i] * TILE_WORDS, row)
    return n_flips


@njit(nogil=True, cache=True, forceinline=True)
def _prefetch_rows(rows, row_at, cell_ends, cell_at, cells, first, last):
    """Prefetch the rows of a list that its entries need, and the start of its ends."""
    for i in range(first, last):
        prefetch(rows, row_at + TILE_WORDS * cells[i])
        prefetch(cell_ends, cell_at + cells[i])


@njit(nogil=True, cache=True, forceinline=True)
def _prefetch_ends(codes, filters, first_end, cell_ends, cell_at, cells, first, last):
    """Prefetch the ends of a list that its entries need."""
    for i in range(first, last):
        prefetch(codes, first_end + cell_ends[cell_at + cells[i]])
        prefetch(filters, first_end + cell_ends[cell_at + cells[i]])


@njit(nogil=True, cache=True, forceinline=True)
def _pass(
    list_rows, row_at, end_codes, end_filters, first_end, cell_ends, cell_at,
    codes, cells, targets, first, last, rows, row, is_or,
):  # fmt: skip
    """Lead entries past the ends of a list; returns how many bits were flipped."""
    cell, end, last_end, n_flips = np.int64(-1), np.int64(0), np.int64(0), 0
    for i in range(first, last):
        if cells[i] != cell:
            cell = cells[i]
            copy_row(row, list_rows, row_at + TILE_WORDS * cell)
            end = first_end + cell_ends[cell_at + cell]
            last_end = first_end + cell_ends[cell_at + cell + 1]
        code = codes[i]
        while end < last_end and end_codes[end] <= code:
            flip(row, np.int64(end_filters[end]))
            end += 1
            n_flips += 1
        if is_or:
            or_row(rows, targets[i] * TILE_WORDS, row)
        else:
            and_row(rows, targets[i] * TILE_WORDS, row)
    return n_flips


@njit(nogil=True, cache=True)
def _count_bits(bits, counts):
    for event in range(len(bits)):
        counts[event] = 0
        for word in range(bits.shape[1]):
            counts[event] += count_ones(bits[event, word])


@njit(nogil=True, cache=True)
def _read_off(bits, hits):
    """The filters whose bits are set, event after event."""
    end = 0
    for event in range(len(bits)):
        for number in range(bits.shape[1]):
            word = bits[event, number]
            while word != ZERO:
                hits[end] = 64 * number + lowest_one(word)
                word &= word - ONE
                end += 1
