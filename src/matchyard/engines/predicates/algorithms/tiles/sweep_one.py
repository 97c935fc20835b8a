"""tiles for many matches, one event: the lists of `sweep_build`, without other events to sort it among."""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.engines.predicates.algorithms.tiles.bits import TILE, TILE_WORDS
from matchyard.engines.predicates.algorithms.tiles.cells import cell_of
from matchyard.engines.predicates.algorithms.tiles.walk import ONE, ZERO, within
from matchyard.kernels.bitset import and_row, copy_row, flip, lowest_one, or_row
from matchyard.kernels.growing import with_room
from matchyard.kernels.hashing import prefetch
from matchyard.kernels.sorting import sort_numbers

_AHEAD = 8  # lists between the prefetch of a row and its use


@njit(cache=True)
def sweep_one(table, batch, postings):
    """(filters that the event satisfies slot by slot, how many bits were flipped for that)."""
    # Arrays are taken out of their tuples once: each time counts a reference.
    posting_start, n_filters = table.posting_start, table.posting_start[-1]
    tile_start, list_slot, row_at = table.tile_start, table.list_slot, table.list_row_at
    rows, cell_at, cell_ends = table.list_rows, table.cell_at, table.cell_ends
    end_start, end_codes, end_filters = table.end_start, table.end_codes, table.end_filters
    codes = batch.codes
    first_of, end_of, cells = _values(table, batch)
    sort_numbers(postings, 0, len(postings))
    held, row = np.empty(TILE_WORDS, np.uint64), np.empty(TILE_WORDS, np.uint64)
    either = np.empty(TILE_WORDS, np.uint64)
    hits, n_hits, n_flips = np.empty(512, np.int32), 0, 0
    posting = visit = 0
    for tile in range(len(tile_start) - 1):
        first, last = TILE * tile, min(TILE * (tile + 1), n_filters)
        while posting_start[posting + 1] <= first:
            posting += 1
        if posting_start[posting + 1] >= last:  # all of the tile is of one posting
            while visit < len(postings) and postings[visit] < posting:
                visit += 1
            if visit == len(postings) or postings[visit] != posting:
                continue
        for word in range(TILE_WORDS):
            held[word] = within(first, last, first + 64 * word)
        for number in range(tile_start[tile], tile_start[tile + 1]):
            ahead = min(number + _AHEAD, len(list_slot) - 1)
            prefetch(rows, row_at[ahead] + TILE_WORDS * cells[first_of[list_slot[ahead]]])
            start, end = first_of[list_slot[number]], end_of[list_slot[number]]
            for entry in range(start, end):
                copy_row(either, rows, row_at[number] + TILE_WORDS * cells[entry])
                if entry < len(codes):  # else the event lacks the slot
                    at = cell_at[number] + cells[entry]
                    flip_end = end_start[number] + cell_ends[at + 1]
                    for i in range(end_start[number] + cell_ends[at], flip_end):
                        if end_codes[i] > codes[entry]:
                            break
                        flip(either, np.int64(end_filters[i]))
                        n_flips += 1
                if entry == start:
                    copy_row(row, either, 0)
                else:  # one value that satisfies a filter is enough
                    or_row(row, 0, either)
            and_row(held, 0, row)
        hits = with_room(hits, n_hits, n_hits + TILE)
        for word in range(TILE_WORDS):
            lanes = held[word]
            while lanes != ZERO:
                hits[n_hits] = first + 64 * word + np.int64(lowest_one(lanes))
                lanes &= lanes - ONE
                n_hits += 1
    return hits[:n_hits], n_flips


@njit(cache=True)
def _values(table, batch):
    """(first entry of each slot with cells, the one after its last, cell of each entry). A slot that the
    event lacks has one entry beyond all others, in cell 0."""
    n_slots, n_entries = len(table.bound_start) - 1, len(batch.slots)
    first_of, end_of = np.empty(n_slots, np.int64), np.empty(n_slots, np.int64)
    cells = np.zeros(n_entries + 1, np.int64)
    for number in range(n_slots):
        first_of[number], end_of[number] = n_entries, n_entries + 1
    for entry in range(n_entries):
        slot = batch.slots[entry]
        number = table.slot_bit[slot] if slot < len(table.slot_bit) else -1
        if number >= 0:
            start, end = table.bound_start[number], table.bound_start[number + 1]
            cells[entry] = cell_of(table.bounds, start, end, batch.codes[entry])
            first_of[number] = min(first_of[number], entry)
            end_of[number] = entry + 1
    return first_of, end_of, cells
