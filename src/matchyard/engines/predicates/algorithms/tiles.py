"""tiles: look only where an event can match, and at 512 filters at a time.

    event ──terms──▶ postings ──▶ blocks of 64 tiles ──▶ tiles of 512 filters ──▶ signature ──▶ check

Filters are filed under the rarest term that they need (`_tiles_order`). Within a posting, an event
leaves out the blocks, tiles and filters that cannot match its cells, by ANDs of precomputed bits
(`_tiles_bits`); what remains is compared by a 64-bit signature of terms and then exactly. All
events of a batch pass over a posting, tile by tile, while its bits are in the cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates._coded import Batch, Filters, Vocabulary
from matchyard.engines.predicates.algorithms import _stored
from matchyard.engines.predicates.algorithms._holds import ABSENT, holds, no_slots
from matchyard.engines.predicates.algorithms._tiles_bits import (
    MAX_CELLS,
    TILE,
    TILE_WORDS,
    Bits,
    block_bits,
    cell_of,
    cut_cells,
    piece_cells,
    tile_bits,
)
from matchyard.engines.predicates.algorithms._tiles_order import describe, order_filters, term_place
from matchyard.engines.predicates.algorithms._tiles_walk import (
    ONE,
    ZERO,
    by_posting,
    filters_alive,
    match_dense,
    tiles_alive,
    within,
)
from matchyard.errors import UsageError
from matchyard.kernels import csr
from matchyard.kernels.bitset import lowest_one
from matchyard.kernels.hashing import mix64, prefetch
from matchyard.matches import Part

DEVICES = ("cpu",)
SUPPORTS = "predicates"
_FEW = 48  # filters of a posting that are compared one by one, without bits


class Options(NamedTuple):
    """What can be set."""

    cells: int = 32  # per slot
    survivors: float = 0.1  # filters that the bits of a tile should let pass, on average
    dense: float = 0.5  # matches per tile and event above which a table is made for many matches
    small: int = 0  # filters up to which a table is scanned, without any index


class Table(NamedTuple):
    """Postings, bits and signatures over the filters, and the filters themselves."""

    posting_start: NDArray[np.int32]  # see `_tiles_order.Order`
    slot_posting: NDArray[np.int32]
    term_slots: NDArray[np.int32]
    term_codes: NDArray[np.int64]
    term_postings: NDArray[np.int32]
    slot_bit: NDArray[np.int16]  # see `_tiles_bits.Cells`
    bound_start: NDArray[np.int32]
    bounds: NDArray[np.int64]
    tile_list_start: NDArray[np.int32]  # see `_tiles_bits.Bits`
    tile_list_slot: NDArray[np.uint8]
    tile_list_at: NDArray[np.int64]
    tile_bits: NDArray[np.uint64]
    block_list_start: NDArray[np.int32]
    block_list_slot: NDArray[np.uint8]
    block_list_at: NDArray[np.int64]
    block_bits: NDArray[np.uint64]
    sure_bits: NDArray[np.uint64]  # see `_tiles_bits.tile_bits`
    signatures: NDArray[np.uint64]  # [n_filters] a bit for each term that a filter needs
    filter_row: NDArray[np.int32]  # see `_stored.Stored`, and so the rest
    filter_start: NDArray[np.int32]
    piece_start: NDArray[np.int32]
    groups: NDArray[np.int16]
    slots: NDArray[np.int32]
    low: NDArray[np.signedinteger]
    high: NDArray[np.signedinteger]
    key_start: NDArray[np.int32]
    keys: NDArray[np.int64]
    removed_keys: NDArray[np.int64]
    removed_at: NDArray[np.int64]


class Workspace:
    """What matching notes about events, and the candidates; grows to what was needed."""

    def __init__(self, table: Table) -> None:
        self.first = no_slots(_stored.n_slots(table))
        self.seen = np.full(len(table.posting_start) - 1, -1, np.int64)  # events, counted on…
        self.n_seen = 0  # …over all calls
        self.place = np.zeros(len(table.posting_start) - 1, np.int32)
        self.found = np.empty((2, 4096), np.int32)
        self.interfaces: NDArray[np.int32] | None = None  # see `_interfaces`, when first needed
        self.marked = np.empty(0, np.int64)


def check(options: Options) -> None:
    """Refuse options that make no sense."""
    if not 1 <= options.cells <= MAX_CELLS:
        raise UsageError(f'option "cells" must be 1 to {MAX_CELLS}, not {options.cells}')
    if options.survivors <= 0:
        raise UsageError(f'option "survivors" must be above 0, not {options.survivors}')
    if options.small < 0:
        raise UsageError(f'option "small" must be at least 0, not {options.small}')


def signature_bits(options: Options) -> tuple[int, int, bool]:
    """Events carry no signatures here."""
    return 0, 0, False


def compile(
    subscriptions: Filters, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """File the filters, lay like ones side by side, and make the bits."""
    found = _stored.distinct(subscriptions, keys)
    n_slots = _stored.n_slots(found.filters)
    is_plain = len(found.filters.filter_start) - 1 <= options.small
    order = order_filters(found.filters, n_slots, is_plain)
    stored = _stored.store(found, order.filters)
    slots, is_point = _describe_stored(stored)
    if is_plain:
        slots[:] = -1
    cells = cut_cells(stored, slots, n_slots, options.cells)
    low, high = piece_cells(stored, slots, cells)
    dense = np.inf if is_plain else options.dense
    tiles, sure_bits = tile_bits(stored, slots, cells, low, high, options.survivors, dense)
    blocks = Bits(*block_bits(tiles, cells))
    signatures = _sign(stored, slots, is_point)
    return Table(
        order.posting_start, order.slot_posting, *order.terms, *cells, *tiles, *blocks, sure_bits, signatures,
        *stored,
    )  # fmt: skip


def _describe_stored(stored: _stored.Stored) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    n_constraints = int(stored.filter_start[-1])
    piece_start = stored.piece_start if len(stored.piece_start) else np.arange(n_constraints + 1)
    groups = stored.groups if len(stored.groups) else np.zeros(n_constraints, np.int16)
    start = stored.filter_start
    slots, is_point = describe(
        Filters(start, start, piece_start, groups, stored.slots, stored.low, stored.high)
    )
    return slots, is_point


def workspace(table: Table, options: Options) -> Workspace:
    """Scratch memory for one thread."""
    return Workspace(table)


def match(table: Table, batch: Batch, workspace: Workspace, options: Options) -> Part:
    """The keys per event."""
    return _match(table, batch, workspace, np.empty(0, np.int32))


def match_unique(table: Table, batch: Batch, workspace: Workspace, options: Options) -> Part:
    """Each key once per event; filters of keys that an event has already are not checked."""
    if workspace.interfaces is None:
        workspace.interfaces, n_interfaces = _interfaces(table)
        workspace.marked = np.full(n_interfaces, -1, np.int64)
    part = _match(table, batch, workspace, workspace.interfaces)
    return Part(*csr.unique(part.event_start, part.keys), part.candidates)


def _match(table: Table, batch: Batch, workspace: Workspace, interfaces: NDArray[np.int32]) -> Part:
    batch = _stored.narrowed(table, batch)
    n_events = batch.n_rows
    cells = np.zeros((n_events, len(table.bound_start) - 1), np.uint8)
    signatures = np.zeros(n_events, np.uint64)
    posting, event = _visit(table, batch, cells, signatures, workspace.seen, workspace.n_seen)
    if len(table.sure_bits) and not len(interfaces) and _is_single(batch):
        workspace.n_seen += n_events
        return _stored.finish(
            table, *match_dense(table, batch, cells, posting, event, workspace.place)
        )
    workspace.found, n_found, candidates = _select(
        table, cells, signatures, posting, event, workspace.place, workspace.found
    )
    hit_start = np.empty(n_events + 1, np.int64)
    found = workspace.found[:, :n_found]
    marks = interfaces, workspace.marked, workspace.n_seen
    hits = _verify(table, batch, found, workspace.first, marks, hit_start)
    workspace.n_seen += n_events
    return _stored.finish(table, hit_start, hits, candidates)


def _interfaces(table: Table) -> tuple[NDArray[np.int32], int]:
    """The key of each filter, numbered, and how many keys there are; -1 where it has several."""
    distinct, number = np.unique(table.keys, return_inverse=True)
    of_row = np.full(len(table.key_start) - 1, -1, np.int32)
    has_one = np.diff(table.key_start) == 1
    of_row[has_one] = number[table.key_start[:-1][has_one]]
    return of_row[table.filter_row] if len(table.filter_row) else of_row, len(distinct)


def subscriptions(table: Table, rows: NDArray[np.int64]) -> Filters:
    """The predicates of the given rows."""
    return _stored.subscriptions(table, rows)


def estimate(n_subscriptions: int, n_constraints: int, n_names: int, options: Options) -> int:
    """Bytes of the table without keys."""
    n_rows = min(16, 1.5 * n_constraints / max(1, n_subscriptions)) * (options.cells + 3)
    bits = int(n_rows * n_subscriptions / 8)
    return _stored.estimate(n_subscriptions, n_constraints) + 8 * n_subscriptions + bits


@njit(nogil=True, cache=True, forceinline=True)
def _presence_bit(slot):
    return ONE << np.uint64(slot & 63)


@njit(nogil=True, cache=True, forceinline=True)
def _point_bit(slot, code):
    return ONE << (mix64(np.uint64(code) ^ np.uint64(slot) << np.uint64(40)) >> np.uint64(58))


@njit(nogil=True, cache=True)
def _sign(table, slots, is_point):
    signatures = np.zeros(len(table.filter_start) - 1, np.uint64)
    for f in range(len(signatures)):
        for c in range(table.filter_start[f], table.filter_start[f + 1]):
            if slots[c] < 0:
                continue
            if is_point[c]:
                piece = table.piece_start[c] if len(table.piece_start) else c
                signatures[f] |= _point_bit(slots[c], np.int64(table.low[piece]))
            else:
                signatures[f] |= _presence_bit(slots[c])
    return signatures


class _TermTable(NamedTuple):
    slots: NDArray[np.int32]
    codes: NDArray[np.int64]


@njit(nogil=True, cache=True)
def _is_single(batch):
    """Has every event one value per slot, and none within an array of objects?"""
    for event in range(len(batch.event_start) - 1):
        for entry in range(batch.event_start[event], batch.event_start[event + 1]):
            if batch.places[entry] > 0:
                return False
            if entry > batch.event_start[event] and batch.slots[entry] == batch.slots[entry - 1]:
                return False
    return True


@njit(nogil=True, cache=True)
def _visit(table, batch, cells, signatures, seen, n_seen):
    """Which postings each event looks at, and its cells and signature on the way."""
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
            signatures[event] |= _presence_bit(slot) | _point_bit(slot, code)
            if is_first and table.slot_posting[slot] >= 0:
                postings[end], events[end] = table.slot_posting[slot], event
                end += 1
            place = term_place(terms, slot, code)
            if terms.slots[place] >= 0:
                posting = table.term_postings[place]
                if seen[posting] != n_seen + event:
                    seen[posting] = n_seen + event
                    postings[end], events[end] = posting, event
                    end += 1
    return postings[:end], events[:end]


@njit(nogil=True, cache=True)
def _room(found, n_needed):
    if n_needed <= found.shape[1]:
        return found
    larger = np.empty((2, max(n_needed, 2 * found.shape[1])), np.int32)
    larger[:, : found.shape[1]] = found
    return larger


@njit(nogil=True, cache=True)
def _select(table, cells, signatures, postings, events, place, found):
    """Candidates whose bits and signature fit: (found, how many, how many were compared)."""
    posting_start, own = table.posting_start, table.signatures
    tile_start, tile_slot = table.tile_list_start, table.tile_list_slot
    tile_at, tile_bits = table.tile_list_at, table.tile_bits
    block_start, block_slot = table.block_list_start, table.block_list_slot
    block_at, block_bits = table.block_list_at, table.block_bits
    touched, event_start, sorted_events = by_posting(postings, events, place)
    n_found, candidates = 0, 0
    row, inside = np.empty(TILE_WORDS, np.uint64), np.empty(TILE_WORDS, np.uint64)
    alive, here = np.empty(len(cells), np.uint64), np.empty(len(cells) + 1, np.int32)
    for i in range(len(touched)):
        first, last = posting_start[touched[i]], posting_start[touched[i] + 1]
        some = sorted_events[event_start[i] : event_start[i + 1]]
        if last - first <= _FEW:
            found = _room(found, n_found + len(some) * (last - first))
            candidates += len(some) * (last - first)
            for event in some:
                missing = ~signatures[event]
                for f in range(first, last):
                    if own[f] & missing == ZERO:
                        found[0, n_found], found[1, n_found] = event, f
                        n_found += 1
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
                    found = _room(found, n_found + TILE)
                    missing = ~signatures[event]
                    while words != ZERO:
                        word = np.int64(lowest_one(words))
                        words &= words - ONE
                        lanes = row[word]
                        while lanes != ZERO:
                            f = tile * TILE + 64 * word + np.int64(lowest_one(lanes))
                            lanes &= lanes - ONE
                            candidates += 1
                            found[0, n_found], found[1, n_found] = event, f
                            n_found += own[f] & missing == ZERO
    return found, n_found, candidates


@njit(nogil=True, cache=True)
def _verify(table, batch, found, first, marks, hit_start):
    """The exact check of all candidates, event by event."""
    interfaces, marked, n_seen = marks
    n_events, n_found = len(hit_start) - 1, found.shape[1]
    start = np.zeros(n_events + 1, np.int64)
    for i in range(n_found):
        start[found[0, i] + 1] += 1
    for event in range(n_events):
        start[event + 1] += start[event]
    filters = np.empty(n_found + 16, np.int32)
    filters[n_found:] = 0
    end = start[:-1].copy()
    for i in range(n_found):
        filters[end[found[0, i]]] = found[1, i]
        end[found[0, i]] += 1
    filter_start, piece_start, groups = table.filter_start, table.piece_start, table.groups
    slots, low, high = table.slots, table.low, table.high
    event_start, entry_slots, codes = batch.event_start, batch.slots, batch.codes
    places, place_parent, place_array = batch.places, batch.place_parent, batch.place_array
    n_hits = 0
    for event in range(n_events):
        hit_start[event] = n_hits
        if start[event] == start[event + 1]:
            continue
        has_places = False
        from_entry, to_entry = event_start[event], event_start[event + 1]
        for entry in range(to_entry - 1, from_entry - 1, -1):  # as in `_holds.enter`
            if entry_slots[entry] < len(first):
                first[entry_slots[entry]] = entry - from_entry
            has_places |= places[entry] > 0
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
                entry_slots, codes, places, place_parent, place_array,
                from_entry, to_entry, first, has_places,
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
