"""tiles: look only where an event can match, and at 512 filters at a time.

    event ──terms──▶ postings ──▶ blocks of 64 tiles ──▶ tiles of 512 filters ──▶ signature ──▶ check

Filters are filed under the rarest term that they need (`filing`). Within a posting, an event
leaves out the blocks, tiles and filters that cannot match its cells, by ANDs of precomputed bits
(`bits`); what remains is compared by a 64-bit signature of terms and then exactly. All
events of a batch pass over a posting, tile by tile, while its bits are in the cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared import stored_filters
from matchyard.engines.predicates.algorithms.shared.exact_check import no_slots
from matchyard.engines.predicates.algorithms.tiles import bits as bitmaps
from matchyard.engines.predicates.algorithms.tiles import one_event, sweep_build
from matchyard.engines.predicates.algorithms.tiles.bits import TILE, block_bits, no_bits, tile_bits
from matchyard.engines.predicates.algorithms.tiles.cells import (
    MAX_BIT_SLOTS,
    MAX_CELLS,
    Cells,
    Shares,
    cut_cells,
    likelihood,
    no_cells,
    piece_cells,
    share_matched,
)
from matchyard.engines.predicates.algorithms.tiles.filing import describe, order_filters
from matchyard.engines.predicates.algorithms.tiles.sweep import Bits, sweep
from matchyard.engines.predicates.algorithms.tiles.sweep_build import (
    are_too_deep,
    can_list,
    lists,
    no_lists,
)
from matchyard.engines.predicates.algorithms.tiles.visits import point_bit, presence_bit, visit
from matchyard.engines.predicates.algorithms.tiles.walk import select, verify
from matchyard.engines.predicates.encoder.layout import Batch, Filters, Vocabulary
from matchyard.errors import UsageError
from matchyard.kernels import csr
from matchyard.kernels.inspection import Inspection
from matchyard.kernels.key_table import keys_of
from matchyard.matches import Part

DEVICES = ("cpu", "gpu")
SUPPORTS = "predicates"
Finder = one_event.Finder


class Options(NamedTuple):
    """The options of the algorithm."""

    cells: int = 32  # per slot
    survivors: float = 0.1  # filters that the bits of a tile should let pass, on average
    dense: float = 1.0  # matches per tile and event above which a table is made for many matches
    small: int = 0  # filters up to which a table is scanned, without any index


class Table(NamedTuple):
    """Postings, bits and signatures over the filters, and the filters themselves."""

    posting_start: NDArray[np.int32]  # see `filing.Order`
    slot_posting: NDArray[np.int32]
    term_slots: NDArray[np.int32]
    term_codes: NDArray[np.int64]
    term_postings: NDArray[np.int32]
    slot_bit: NDArray[np.int16]  # see `bits.Cells`
    bound_start: NDArray[np.int32]
    bounds: NDArray[np.int64]
    tile_list_start: NDArray[np.int32]  # see `bits.Bits`
    tile_list_slot: NDArray[np.uint8]
    tile_list_at: NDArray[np.int64]
    tile_bits: NDArray[np.uint64]
    block_list_start: NDArray[np.int32]
    block_list_slot: NDArray[np.uint8]
    block_list_at: NDArray[np.int64]
    block_bits: NDArray[np.uint64]
    tile_start: NDArray[np.int32]  # see `sweep_build.Lists`
    list_slot: NDArray[np.uint8]
    list_row_at: NDArray[np.int64]
    list_rows: NDArray[np.uint64]
    end_start: NDArray[np.int64]
    end_codes: NDArray[np.signedinteger]
    end_filters: NDArray[np.uint16]
    cell_at: NDArray[np.int64]
    cell_ends: NDArray[np.int32]
    signatures: NDArray[np.uint64]  # [n_filters] a bit for each term that a filter needs
    filter_row: NDArray[np.int32]  # see `stored_filters.Stored`, and so the rest
    filter_start: NDArray[np.int32]
    piece_start: NDArray[np.int32]
    groups: NDArray[np.int16]
    slots: NDArray[np.int32]
    low: NDArray[np.signedinteger]
    high: NDArray[np.signedinteger]
    key_start: NDArray[np.int32]
    keys: NDArray[np.signedinteger]
    removed_keys: NDArray[np.int64]
    removed_at: NDArray[np.int64]


class Workspace:
    """Scratch memory of a thread; grows with the batches."""

    def __init__(self, table: Table) -> None:
        self.first = no_slots(stored_filters.n_slots(table))
        self.seen = np.full(len(table.posting_start) - 1, -1, np.int64)  # events, counted on…
        self.n_seen = 0  # …over all calls
        self.ends = np.zeros(len(table.posting_start) - 1, np.int32)
        self.pairs = np.empty((2, 4096), np.int32)
        self.bits = Bits()
        self.interfaces: NDArray[np.int32] | None = None  # see `_interfaces`, when first needed
        self.marked = np.empty(0, np.int64)


def check(options: Options) -> None:
    """Refuse options outside their limits."""
    if not 1 <= options.cells <= MAX_CELLS:
        raise UsageError(f'option "cells" must be 1 to {MAX_CELLS}, not {options.cells}')
    if not options.survivors > 0:
        raise UsageError(f'option "survivors" must be above 0, not {options.survivors}')
    if not options.dense >= 0:
        raise UsageError(f'option "dense" must be at least 0, not {options.dense}')
    if options.small < 0:
        raise UsageError(f'option "small" must be at least 0, not {options.small}')


def inspect(look: Inspection, table: Table, vocabulary: Vocabulary, options: Options) -> None:
    """Refuse a damaged table: see `kernels.inspection`."""
    n_filters = stored_filters.inspect(look, table, vocabulary)
    n_postings = look.length("posting_start") - 1
    look.expect("posting_start", n_postings >= 1, "has no posting")
    look.offsets("posting_start", n_postings, n_filters)
    n_slots = look.length("slot_posting")
    look.values("slot_posting", -1, n_postings)
    n_terms = look.length("term_slots")
    look.expect("term_slots", n_terms and not n_terms & (n_terms - 1), "is no hash table")
    look.shape("term_codes", n_terms)
    look.values("term_postings", 0, n_postings, n_terms)
    n_bit_slots = look.length("bound_start") - 1
    look.expect("bound_start", 0 <= n_bit_slots <= MAX_BIT_SLOTS, "has too many slots")
    look.values("slot_bit", -1, n_bit_slots, n_slots)
    look.offsets("bound_start", n_bit_slots, look.length("bounds"))
    n_tiles = -(-n_filters // TILE)
    has_lists = look.length("tile_start") > 0
    look.shape("signatures", 0 if has_lists else n_filters)
    if look.is_thorough:
        look.expect("term_slots", (table.term_slots < 0).any(), "has no free slot")
        # An event visits a posting once; all visit the first one.
        by_slot = table.slot_posting[table.slot_posting >= 0]
        by_term = table.term_postings[table.term_slots >= 0]
        look.distinct("slot_posting", np.append(by_slot, 0), n_postings)
        is_apart = not np.isin(by_term, np.append(by_slot, 0)).any()
        look.expect("term_postings", is_apart, "leads to a posting that a slot leads to")
        most = np.diff(table.bound_start).max(initial=0)
        look.expect("bound_start", most <= MAX_CELLS, f"has more than {MAX_CELLS} cells")
    n_bits = 0 if has_lists else n_tiles
    bitmaps.inspect(look, table, "tile", n_bits, bitmaps.GROUP)
    bitmaps.inspect(look, table, "block", -(-n_bits // 64), 1)
    sweep_build.inspect(look, table, n_tiles if has_lists else -1)


def compile(
    subscriptions: Filters, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """File the filters, lay like ones side by side, and make the bits."""
    rows = stored_filters.distinct(subscriptions, keys)
    n_slots = stored_filters.n_slots(rows.filters)
    is_plain = len(rows.filters.filter_start) - 1 <= options.small
    order = order_filters(rows.filters, n_slots, is_plain)
    stored = stored_filters.store(rows, order.filters)
    filed = (order.posting_start, order.slot_posting, *order.terms)
    if is_plain:
        n_filters = len(stored.filter_start) - 1
        n_tiles = -(-n_filters // TILE)
        bits = *no_cells(n_slots), *no_bits(n_tiles), *no_bits(-(-n_tiles // 64)), *no_lists()
        return Table._make((*filed, *bits, np.zeros(n_filters, np.uint64), *stored))
    slots, is_point = describe(stored)
    uses = csr.count_values(slots, n_slots)
    cells, shares = cut_cells(stored, slots, uses, options.cells)
    low, high = piece_cells(stored, slots, cells)
    if _is_dense(stored, slots, is_point, uses, cells, shares, low, high, options):
        ends = lists(stored, slots, cells)
        unsigned = np.empty(0, np.uint64)
        return Table._make((*filed, *cells, *no_bits(), *no_bits(), *ends, unsigned, *stored))
    tiles = tile_bits(stored, slots, cells, low, high, likelihood(cells, shares), options.survivors)
    blocks = block_bits(tiles, cells)
    signatures = _sign(stored, slots, is_point)
    return Table._make((*filed, *cells, *tiles, *blocks, *no_lists(), signatures, *stored))


def _is_dense(
    stored: stored_filters.Stored,
    slots: NDArray[np.int32],
    is_point: NDArray[np.bool_],
    uses: NDArray[np.int64],
    cells: Cells,
    shares: Shares,
    low: NDArray[np.uint8],
    high: NDArray[np.uint8],
    options: Options,
) -> bool:
    """True if events match so much of a tile that a sweep is faster."""
    if not can_list(stored, slots, uses, cells):
        return False
    share = share_matched(stored, slots, is_point, uses, cells, shares, low, high)
    return TILE * share > options.dense and not are_too_deep(stored, slots)


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
    return part.unique()


def _match(table: Table, batch: Batch, workspace: Workspace, interfaces: NDArray[np.int32]) -> Part:
    batch = stored_filters.narrowed(table, batch)
    n_events = batch.n_rows
    cells = np.zeros((n_events, len(table.bound_start) - 1), np.uint8)
    signatures = np.zeros(n_events, np.uint64)
    posting, event = visit(table, batch, cells, signatures, workspace.seen, workspace.n_seen)
    if len(table.tile_start):
        workspace.n_seen += n_events
        visits = posting, event
        hit_start, hits, candidates = sweep(table, batch, visits, workspace.ends, workspace.bits)
        if not batch.elements.any():
            return stored_filters.finish(table, hit_start, hits, candidates)
        pairs = np.stack([np.repeat(np.arange(n_events, dtype=np.int32), np.diff(hit_start)), hits])
    else:
        workspace.pairs, n_pairs, candidates = select(
            table, cells, signatures, posting, event, workspace.ends, workspace.pairs
        )
        hit_start = np.empty(n_events + 1, np.int64)
        pairs = workspace.pairs[:, :n_pairs]
    marks = interfaces, workspace.marked, workspace.n_seen
    hits = verify(table, batch, pairs, workspace.first, marks, hit_start)
    workspace.n_seen += n_events
    return stored_filters.finish(table, hit_start, hits, candidates)


def _interfaces(table: Table) -> tuple[NDArray[np.int32], int]:
    """The key of each filter, numbered, and how many keys there are; -1 where it has several."""
    distinct, number = np.unique(keys_of(table), return_inverse=True)
    of_row = np.full(len(table.key_start) - 1, -1, np.int32)
    has_one = np.diff(table.key_start) == 1
    of_row[has_one] = number[table.key_start[:-1][has_one]]
    return of_row[table.filter_row] if len(table.filter_row) else of_row, len(distinct)


def subscriptions(table: Table, rows: NDArray[np.int64]) -> Filters:
    """The predicates of the given rows."""
    return stored_filters.subscriptions(table, rows)


def estimate(n_subscriptions: int, n_constraints: int, n_names: int, options: Options) -> int:
    """Bytes of the table without keys."""
    n_rows = min(16, 1.5 * n_constraints / max(1, n_subscriptions)) * (options.cells + 3)
    bits = int(n_rows * n_subscriptions / 8)
    return stored_filters.estimate(n_subscriptions, n_constraints) + 8 * n_subscriptions + bits


@njit(nogil=True, cache=True)
def _sign(table, slots, is_point):
    signatures = np.zeros(len(table.filter_start) - 1, np.uint64)
    for f in range(len(signatures)):
        for c in range(table.filter_start[f], table.filter_start[f + 1]):
            if slots[c] < 0:
                continue
            if is_point[c]:
                piece = table.piece_start[c] if len(table.piece_start) else c
                signatures[f] |= point_bit(slots[c], np.int64(table.low[piece]))
            else:
                signatures[f] |= presence_bit(slots[c])
    return signatures
