"""The table of `counting` on a GPU: filters in tiles, and the constraints of a slot by tile."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.counting.counting import Table
from matchyard.gpu.resident import kept, on_card
from matchyard.kernels.csr import count_values, ragged

COUNTER_BYTES = 16384  # shared memory for a tile's counters; there are two copies…
STAMP_BYTES = 5120  # …and for its constraints with several entries: all in all 46 KiB at most


class Layout(NamedTuple):
    """A table as the kernel reads it; all arrays are on the card."""

    part_start: Any  # [n_slots * n_tiles + 1] int32: entries of a slot with filters in a tile
    low: Any
    high: Any
    targets: Any
    union_filter: Any
    first_union: Any  # [n_tiles] int32
    sizes: Any
    n_slots: int
    n_tiles: int
    tile_filters: int
    stamp_words: int
    counter_bits: int

    @property
    def of_entries(self) -> tuple[Any, ...]:
        """The arrays that are indexed by entry, constraint or filter, whatever the tiles."""
        return self.low, self.high, self.targets, self.union_filter, self.sizes

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: two halves, in units of 16 bytes, and a mark per filter."""
        words = self.tile_filters * self.counter_bits // 32 + self.stamp_words
        return 2 * 16 * -(-words // 4) + self.tile_filters // 8


class Tiling(NamedTuple):
    """The size and number of tiles."""

    tile_filters: int
    n_tiles: int
    counter_bits: int
    stamp_words: int
    first_union: NDArray[np.int32]


def tiling(sizes: NDArray[np.int32], union_filter: NDArray[np.int32]) -> Tiling | None:
    """The largest tiles that fit into shared memory, or None."""
    n_filters = len(sizes)
    bits = next(bits for bits in (4, 8, 16, 32) if int(sizes[-1]) < 1 << bits)
    tile_filters = min(COUNTER_BYTES * 8 // bits, 32 * -(-n_filters // 32))
    while tile_filters >= 32:
        n_tiles = -(-n_filters // tile_filters)
        edges = np.arange(n_tiles + 1, dtype=np.int64) * tile_filters
        first_union = np.searchsorted(union_filter, edges)
        stamp_words = -(-int(np.diff(first_union).max()) // 32)
        if 4 * stamp_words <= STAMP_BYTES:
            return Tiling(
                tile_filters, n_tiles, bits, stamp_words, first_union[:-1].astype(np.int32)
            )
        tile_filters = tile_filters // 2 // 32 * 32
    return None


def parts_of(table: Table, tile_filters: int, n_tiles: int) -> NDArray[np.int64]:
    """The part that each entry is in: slot by slot, tile by tile. They ascend."""
    targets = table.entry_target
    filters = targets.astype(np.int64)
    is_union = targets < 0
    filters[is_union] = table.union_filter[~targets[is_union]]
    n_slots = len(table.entry_start) - 1
    slots = np.repeat(np.arange(n_slots), np.diff(table.entry_start))
    parts: NDArray[np.int64] = slots * n_tiles + filters // tile_filters
    return parts


def order_of(table: Table, parts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort the entries of each part by operator and value [CCM §4.2], so that neighbouring threads
    take the same branch more often."""
    low, high = table.entry_low, table.entry_high
    limits = np.iinfo(low.dtype)
    operators = (low > high) * 4 + (high == limits.max) * 2 + (low == limits.min)
    return np.lexsort((high, low, operators, parts))


def _laid_out(table: Table, ordered: bool) -> Layout | None:
    cut = tiling(table.sizes, table.union_filter) if len(table.sizes) else None
    if cut is None:
        return None
    n_slots = len(table.entry_start) - 1
    parts = parts_of(table, cut.tile_filters, cut.n_tiles)
    part_start = ragged(count_values(parts, n_slots * cut.n_tiles)).astype(np.int32)
    low, high, targets = table.entry_low, table.entry_high, table.entry_target
    if ordered:
        order = order_of(table, parts)
        low, high, targets = low[order], high[order], targets[order]
    return Layout(
        on_card(part_start),
        on_card(low),
        on_card(high),
        on_card(targets),
        on_card(table.union_filter),
        on_card(cut.first_union),
        on_card(table.sizes),
        n_slots, cut.n_tiles, cut.tile_filters, cut.stamp_words, cut.counter_bits,
    )  # fmt: skip


def layout_of(table: Table, ordered: bool) -> Layout | None:
    """The layout of a table, made at first use; None if it does not fit. Removals keep it."""
    laid_out: Layout | None = kept.of(
        table.entry_start, ("counting", ordered), lambda: _laid_out(table, ordered)
    )
    return laid_out
