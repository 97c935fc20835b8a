"""tiles: how the events of a batch pass over postings, blocks and tiles to what they match."""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.engines.predicates.algorithms.shared.exact_check import ABSENT, holds
from matchyard.engines.predicates.algorithms.tiles.bits import GROUP, TILE, TILE_WORDS
from matchyard.kernels.bitset import and_8_rows, lowest_one
from matchyard.kernels.hashing import prefetch

ZERO = np.uint64(0)
ONE = np.uint64(1)
_FEW = 12  # filters of a posting that are compared one by one, without bits


@njit(nogil=True, cache=True)
def by_posting(postings, events, ends):
    """Sort the visits by posting: (postings, where the events of each begin, events)."""
    touched = np.empty(len(postings), np.int32)
    n_touched = 0
    for i in range(len(postings)):
        if ends[postings[i]] == 0:
            touched[n_touched] = postings[i]
            n_touched += 1
        ends[postings[i]] += 1
    start = np.empty(n_touched + 1, np.int64)
    start[0] = 0
    for i in range(n_touched):
        start[i + 1] = start[i] + ends[touched[i]]
        ends[touched[i]] = start[i]
    sorted_events = np.empty(len(events), np.int32)
    for i in range(len(postings)):
        sorted_events[ends[postings[i]]] = events[i]
        ends[postings[i]] += 1
    for i in range(n_touched):
        ends[touched[i]] = 0
    return touched[:n_touched], start, sorted_events


@njit(nogil=True, cache=True, forceinline=True)
def within(first, last, base):
    """Ones for the numbers from `first` to before `last`, of the 64 that begin with `base`."""
    if last <= base or first >= base + 64:
        return ZERO
    ones = ~ZERO
    if first > base:
        ones &= ~ZERO << np.uint64(first - base)
    if last < base + 64:
        ones &= ~(~ZERO << np.uint64(last - base))
    return ones


@njit(nogil=True, cache=True, forceinline=True)
def tiles_alive(list_start, list_slot, list_at, bits, block, cells, event, lanes):
    """A word with the tiles of a block that an event may match."""
    for i in range(list_start[block], list_start[block + 1]):
        lanes &= bits[list_at[i] + cells[event, list_slot[i]]]
        if lanes == ZERO:
            break
    return lanes


@njit(nogil=True, cache=True, forceinline=True)
def filters_alive(list_start, slots, at, bits, tile, cells, event, row):
    """Write the filters of a tile that an event may match to `row`; returns its words that are not 0."""
    alive = ~ZERO >> np.uint64(64 - TILE_WORDS)
    for i in range(list_start[tile], list_start[tile + 1], GROUP):
        alive = and_8_rows(
            row, bits,
            at[i] + TILE_WORDS * np.int64(cells[event, slots[i]]),
            at[i + 1] + TILE_WORDS * np.int64(cells[event, slots[i + 1]]),
            at[i + 2] + TILE_WORDS * np.int64(cells[event, slots[i + 2]]),
            at[i + 3] + TILE_WORDS * np.int64(cells[event, slots[i + 3]]),
            at[i + 4] + TILE_WORDS * np.int64(cells[event, slots[i + 4]]),
            at[i + 5] + TILE_WORDS * np.int64(cells[event, slots[i + 5]]),
            at[i + 6] + TILE_WORDS * np.int64(cells[event, slots[i + 6]]),
            at[i + 7] + TILE_WORDS * np.int64(cells[event, slots[i + 7]]),
        )  # fmt: skip
        if alive == ZERO:
            break
    return alive


@njit(nogil=True, cache=True)
def _room(pairs, n_needed):
    if n_needed <= pairs.shape[1]:
        return pairs
    larger = np.empty((2, max(n_needed, 2 * pairs.shape[1])), np.int32)
    for i in range(pairs.shape[1]):
        larger[0, i], larger[1, i] = pairs[0, i], pairs[1, i]
    return larger


@njit(nogil=True, cache=True)
def select(table, cells, signatures, postings, events, ends, pairs):
    """Candidates whose bits and signature fit: (pairs, how many, how many were compared)."""
    posting_start, own = table.posting_start, table.signatures
    tile_start, tile_slot = table.tile_list_start, table.tile_list_slot
    tile_at, tile_bits = table.tile_list_at, table.tile_bits
    block_start, block_slot = table.block_list_start, table.block_list_slot
    block_at, block_bits = table.block_list_at, table.block_bits
    touched, event_start, sorted_events = by_posting(postings, events, ends)
    n_pairs, candidates = 0, 0
    row, inside = np.empty(TILE_WORDS, np.uint64), np.empty(TILE_WORDS, np.uint64)
    alive, here = np.empty(len(cells), np.uint64), np.empty(len(cells) + 1, np.int32)
    for i in range(len(touched)):
        first, last = posting_start[touched[i]], posting_start[touched[i] + 1]
        some = sorted_events[event_start[i] : event_start[i + 1]]
        if last - first <= _FEW:
            pairs = _room(pairs, n_pairs + len(some) * (last - first))
            candidates += len(some) * (last - first)
            for event in some:
                missing = ~signatures[event]
                for f in range(first, last):
                    if own[f] & missing == ZERO:
                        pairs[0, n_pairs], pairs[1, n_pairs] = event, f
                        n_pairs += 1
            continue
        first_tile, last_tile = first // TILE, (last + TILE - 1) // TILE
        for block in range(first_tile >> 6, (last_tile + 63) >> 6):
            these = within(first_tile, last_tile, block << 6)
            any_alive = ZERO
            for j in range(len(some)):
                alive[j] = tiles_alive(
                    block_start, block_slot, block_at, block_bits, block, cells, some[j], these
                )
                any_alive |= alive[j]
            while any_alive != ZERO:
                bit = any_alive & (~any_alive + ONE)
                tile = (block << 6) + np.int64(lowest_one(any_alive))
                any_alive ^= bit
                n_here = 0
                for j in range(len(some)):
                    here[n_here] = some[j]
                    n_here += alive[j] & bit != ZERO
                for word in range(TILE_WORDS):
                    inside[word] = within(first, last, tile * TILE + 64 * word)
                for j in range(n_here):
                    event = here[j]
                    for word in range(TILE_WORDS):
                        row[word] = inside[word]
                    words = filters_alive(
                        tile_start, tile_slot, tile_at, tile_bits, tile, cells, event, row
                    )
                    if words == ZERO:
                        continue
                    pairs = _room(pairs, n_pairs + TILE)
                    missing = ~signatures[event]
                    while words != ZERO:
                        word = np.int64(lowest_one(words))
                        words &= words - ONE
                        lanes = row[word]
                        while lanes != ZERO:
                            f = tile * TILE + 64 * word + np.int64(lowest_one(lanes))
                            lanes &= lanes - ONE
                            candidates += 1
                            pairs[0, n_pairs], pairs[1, n_pairs] = event, f
                            n_pairs += own[f] & missing == ZERO
    return pairs, n_pairs, candidates


@njit(nogil=True, cache=True)
def verify(table, batch, pairs, first, marks, hit_start):
    """The exact check of all candidates, event by event."""
    interfaces, marked, n_seen = marks
    n_events, n_pairs = len(hit_start) - 1, pairs.shape[1]
    start = np.zeros(n_events + 1, np.int64)
    for i in range(n_pairs):
        start[pairs[0, i] + 1] += 1
    for event in range(n_events):
        start[event + 1] += start[event]
    filters = np.empty(n_pairs + 16, np.int32)
    filters[n_pairs:] = 0
    end = start[:-1].copy()
    for i in range(n_pairs):
        filters[end[pairs[0, i]]] = pairs[1, i]
        end[pairs[0, i]] += 1
    filter_start, piece_start, groups = table.filter_start, table.piece_start, table.groups
    slots, low, high = table.slots, table.low, table.high
    event_start, entry_slots, codes = batch.event_start, batch.slots, batch.codes
    elements, element_parent, element_array = (
        batch.elements,
        batch.element_parent,
        batch.element_array,
    )
    n_hits = 0
    for event in range(n_events):
        hit_start[event] = n_hits
        if start[event] == start[event + 1]:
            continue
        has_elements = False
        from_entry, to_entry = event_start[event], event_start[event + 1]
        for entry in range(to_entry - 1, from_entry - 1, -1):  # as in `exact_check.enter`
            if entry_slots[entry] < len(first):
                first[entry_slots[entry]] = entry - from_entry
            has_elements |= elements[entry] > 0
        for i in range(start[event], start[event + 1]):
            prefetch(filter_start, filters[i + 12])
            ahead = filter_start[filters[i + 8]]
            if len(piece_start):
                prefetch(piece_start, ahead)
                ahead = piece_start[filter_start[filters[i + 4]]]
            if ahead < len(slots):
                prefetch(slots, ahead)
                prefetch(low, ahead)
                prefetch(high, ahead)
            interface = interfaces[filters[i]] if len(interfaces) else -1
            if interface >= 0 and marked[interface] == n_seen + event:
                continue
            if holds(
                filter_start, piece_start, groups, slots, low, high, filters[i],
                entry_slots, codes, elements, element_parent, element_array,
                from_entry, to_entry, first, has_elements,
            ):  # fmt: skip
                filters[n_hits] = filters[i]
                n_hits += 1
                if interface >= 0:
                    marked[interface] = n_seen + event
        for entry in range(from_entry, to_entry):
            if entry_slots[entry] < len(first):
                first[entry_slots[entry]] = ABSENT
    hit_start[n_events] = n_hits
    return filters[:n_hits]
