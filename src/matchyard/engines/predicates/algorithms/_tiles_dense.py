"""tiles: events that match many filters. Bits of all filters are kept, some events at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms._tiles_bits import GROUP, TILE, TILE_WORDS
from matchyard.engines.predicates.algorithms._tiles_walk import (
    ONE,
    ZERO,
    by_posting,
    tiles_alive,
    within,
)
from matchyard.kernels.bitset import and_8_rows, count_ones, lowest_one

_DENSE_BYTES = 1 << 25  # of the bits of all filters, for the events that are matched together


def match_dense(
    table: Any,
    batch: Any,
    cells: NDArray[np.uint8],
    postings: NDArray[np.int32],
    events: NDArray[np.int32],
    place: NDArray[np.int32],
) -> tuple[NDArray[np.int64], NDArray[np.int32], int]:
    """The hits of a table for many matches: bits of all filters, some events at a time."""
    n_events, n_tiles = batch.n_rows, len(table.tile_list_start) - 1
    step = max(1, _DENSE_BYTES // max(1, 64 * n_tiles))
    hit_start = np.zeros(n_events + 1, np.int64)
    parts, candidates = [], 0
    results = np.empty((min(step, n_events), n_tiles * TILE_WORDS), np.uint64)
    for start in range(0, n_events, step):
        stop = min(start + step, n_events)
        some = slice(*np.searchsorted(events, [start, stop]))
        result = results[: stop - start]
        result[:] = 0
        visits = by_posting(postings[some], events[some], place)
        candidates += _mark(table, batch, cells, visits, start, result)
        _count_bits(result, hit_start[start + 1 : stop + 1])
        # By NumPy, since it asks for huge pages.
        parts.append(np.empty(int(hit_start[start + 1 : stop + 1].sum()), np.int32))
        _read_off(result, parts[-1])
    hits = parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.int32)])
    return np.cumsum(hit_start), hits, candidates


@njit(nogil=True, cache=True)
def _mark(table, batch, cells, visits, base, result):
    """Set the bits of all filters that match; returns how many were compared one by one."""
    posting_start, filter_start, slots = table.posting_start, table.filter_start, table.slots
    low, high = table.low, table.high
    tile_start, tile_slot = table.tile_list_start, table.tile_list_slot
    tile_at, tile_bits = table.tile_list_at, table.tile_bits
    block_start, block_slot = table.block_list_start, table.block_list_slot
    block_at, block_bits = table.block_list_at, table.block_bits
    slot_bit, sure_bits, codes = table.slot_bit, table.sure_bits, batch.codes
    touched, event_start, sorted_events = visits
    n_bit_slots = cells.shape[1]
    code_of = np.zeros((len(result), n_bit_slots), np.int64)
    for event in range(len(result)):
        for entry in range(batch.event_start[base + event], batch.event_start[base + event + 1]):
            slot = batch.slots[entry]
            if slot < len(slot_bit) and slot_bit[slot] >= 0:
                code_of[event, slot_bit[slot]] = codes[entry]
    row, sure, inside = np.empty((3, TILE_WORDS), np.uint64)
    compared = 0
    for i in range(len(touched)):
        begin, end = posting_start[touched[i]], posting_start[touched[i] + 1]
        first_tile, last_tile = begin // TILE, (end + TILE - 1) // TILE
        for tile in range(first_tile, last_tile):
            this = ONE << np.uint64(tile & 63)
            for word in range(TILE_WORDS):
                inside[word] = within(begin, end, tile * TILE + 64 * word)
            for j in range(event_start[i], event_start[i + 1]):
                event = sorted_events[j]
                if not tiles_alive(
                    block_start, block_slot, block_at, block_bits, tile >> 6, cells, event, this
                ):
                    continue
                for word in range(TILE_WORDS):
                    row[word] = sure[word] = inside[word]
                if not _filters_alive(
                    tile_start, tile_slot, tile_at, tile_bits, sure_bits, tile, cells, event, row,
                    sure,
                ):  # fmt: skip
                    continue
                for word in range(TILE_WORDS):
                    doubtful = row[word] & ~sure[word]
                    while doubtful != ZERO:
                        bit = doubtful & (~doubtful + ONE)
                        doubtful ^= bit
                        compared += 1
                        f = tile * TILE + 64 * word + lowest_one(bit)
                        for c in range(filter_start[f], filter_start[f + 1]):
                            code = code_of[event - base, slot_bit[slots[c]]]
                            if code < low[c] or code > high[c]:
                                row[word] ^= bit
                                break
                    result[event - base, tile * TILE_WORDS + word] |= row[word]
    return compared


@njit(nogil=True, cache=True, forceinline=True)
def _filters_alive(list_start, slots, at, bits, sure_bits, tile, cells, event, row, sure):
    """As `filters_alive`, of both sets of bits at once."""
    alive = ~ZERO
    for i in range(list_start[tile], list_start[tile + 1], GROUP):
        a = at[i] + TILE_WORDS * np.int64(cells[event, slots[i]])
        b = at[i + 1] + TILE_WORDS * np.int64(cells[event, slots[i + 1]])
        c = at[i + 2] + TILE_WORDS * np.int64(cells[event, slots[i + 2]])
        d = at[i + 3] + TILE_WORDS * np.int64(cells[event, slots[i + 3]])
        e = at[i + 4] + TILE_WORDS * np.int64(cells[event, slots[i + 4]])
        f = at[i + 5] + TILE_WORDS * np.int64(cells[event, slots[i + 5]])
        g = at[i + 6] + TILE_WORDS * np.int64(cells[event, slots[i + 6]])
        h = at[i + 7] + TILE_WORDS * np.int64(cells[event, slots[i + 7]])
        alive = and_8_rows(row, bits, a, b, c, d, e, f, g, h)
        and_8_rows(sure, sure_bits, a, b, c, d, e, f, g, h)
        if alive == ZERO:
            break
    return alive


@njit(nogil=True, cache=True)
def _count_bits(result, counts):
    for event in range(len(result)):
        counts[event] = 0
        for word in range(result.shape[1]):
            counts[event] += count_ones(result[event, word])


@njit(nogil=True, cache=True)
def _read_off(result, hits):
    """The filters whose bits are set, event after event."""
    end = 0
    for event in range(len(result)):
        for number in range(result.shape[1]):
            word = result[event, number]
            while word != ZERO:
                hits[end] = 64 * number + lowest_one(word)
                word &= word - ONE
                end += 1
