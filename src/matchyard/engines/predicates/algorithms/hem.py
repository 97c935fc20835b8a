"""hem: ORs of precomputed bitsets rule out most rows [HEM].

The ends of the intervals are in cells as in `rein`. Every attribute and end also has n_groups
bitsets: bitset i marks the rows of the first i / n_groups of all HIGH cells, or of the last of all
LOW cells [HEM §4.2]. An event takes the largest bitset that leaves out its own cell, and marks the
rows of the cells between the two one by one [HEM Algorithm 2].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared import (
    cell_lists,
    interval_ends,
    intervals,
    stored_filters,
)
from matchyard.engines.predicates.algorithms.shared.interval_ends import HIGH, LOW
from matchyard.engines.predicates.algorithms.shared.intervals import Domains, cell_of
from matchyard.engines.predicates.encoder.layout import Batch, Filters, Vocabulary
from matchyard.errors import UsageError
from matchyard.kernels.bitset import ALL, ONE, WORD
from matchyard.kernels.inspection import Inspection
from matchyard.matches import Part

DEVICES = ("cpu",)
SUPPORTS = intervals.SUPPORTS
workspace = intervals.workspace
subscriptions = stored_filters.subscriptions
CHUNK = 16384  # words merged at a time: they stay in the L2 cache


class Options(NamedTuple):
    """The options of the algorithm."""

    n_cells: int = 1000  # c of the paper
    n_groups: int = 32  # g of the paper; 0 for no bitsets


class Table(NamedTuple):
    """Cells, bitsets, and the filters with the key table."""

    attribute_of: NDArray[np.int32]  # these three as in `intervals.Domains`
    lowest: NDArray[np.float64]
    scale: NDArray[np.float64]
    cell_start: NDArray[
        np.int64
    ]  # [n_attributes * 2 * n_cells] this and the next five: `cell_lists`
    cell_size: NDArray[np.int32]
    cell_room: NDArray[np.int32]
    used: NDArray[np.int64]
    ids: NDArray[np.int32]
    values: NDArray[np.signedinteger]
    bitsets: NDArray[np.uint64]  # [n_attributes, 2, n_groups, n_words]
    gone: NDArray[np.uint64]  # [n_words] a bit for every row that is removed or does not exist
    built: NDArray[np.int64]  # [2] rows when it was built; was anything inserted since?
    filter_row: NDArray[np.int32]  # the rest is as in `stored_filters.Stored`
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


def check(options: Options) -> None:
    """Refuse options outside their limits."""
    if options.n_cells < 1:
        raise UsageError(f'option "n_cells" must be at least 1, not {options.n_cells}')
    if not 0 <= options.n_groups <= options.n_cells:
        raise UsageError(
            f'option "n_groups" must be from 0 to "n_cells" ({options.n_cells}), '
            f"not {options.n_groups}"
        )


def accept(column: Any, options: Options) -> None:
    """Refuse subscriptions that are not intervals."""
    intervals.accept_column(column, "hem")


def inspect(look: Inspection, table: Table, vocabulary: Vocabulary, options: Options) -> None:
    """Refuse a damaged table: see `kernels.inspection`."""
    n_attributes = intervals.inspect(look, table, vocabulary)
    cell_lists.inspect(look, n_attributes * 2 * options.n_cells, has_values=True)
    n_words = _n_words(len(table.filter_start) - 1)
    look.shape("bitsets", n_attributes, 2, options.n_groups, n_words)
    look.shape("gone", n_words)
    look.shape("built", 2)
    look.same(lambda: stored_filters.build_anew(compile, table, vocabulary, options))


def compile(
    subscriptions: Filters, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """Put the ends of all intervals in cells and mark them in the bitsets of the groups."""
    stored = intervals.store(subscriptions, keys, "hem")
    return build(stored, intervals.domains(stored), options)


def build(stored: stored_filters.Stored, domains: Domains, options: Options) -> Table:
    """A table whose cells divide the given domains."""
    n_rows = len(stored.filter_start) - 1
    n_words = _n_words(n_rows)
    bitsets = np.zeros((len(domains.lowest), 2, options.n_groups, n_words), np.uint64)
    if options.n_groups:
        _premark(stored, domains, options.n_cells, _covers(options), bitsets)
    gone = intervals.all_but_first(n_words, n_rows)
    cells = interval_ends.fill(stored, domains, options.n_cells)
    return Table._make((*domains, *cells, bitsets, gone, np.array([n_rows, 0]), *stored))


def _n_words(n_rows: int) -> int:
    """Words of a bitset, in cache lines."""
    return -(-n_rows // 512) * 8


def _covers(options: Options) -> NDArray[np.int64]:
    """The number of cells of each group; a single group covers half of them [HEM §5.2]."""
    if options.n_groups == 1:
        return np.array([options.n_cells // 2])
    return np.arange(1, options.n_groups + 1) * options.n_cells // max(options.n_groups, 1)


def match(table: Table, batch: Batch, workspace: None, options: Options) -> Part:
    """The keys per event; candidates are the rows marked one by one or compared."""
    batch = intervals.accept(table, batch, "hem")
    hit_start, hits, n_marks, n_compared = _match(table, batch, options.n_cells, _covers(options))
    return stored_filters.finish(table, hit_start, hits, n_marks + n_compared)


def marks(table: Table, batch: Batch, options: Options) -> int:
    """Only make the marks that events make one by one, without the groups' bitsets; returns their
    number [HEM Figure 3]."""
    batch = intervals.accept(table, batch, "hem")
    n_marks: int = _mark(table, batch, options.n_cells, _covers(options))
    return n_marks


def insert(
    table: Table, subscriptions: Filters, keys: NDArray[np.int64], options: Options
) -> Table:
    """The table with more subscriptions [HEM Algorithm 1]; the given table becomes invalid."""
    intervals.checked(subscriptions, "hem")
    if intervals.must_rebuild(table, subscriptions):
        stored = intervals.store(*intervals.joined(table, subscriptions, keys), "hem")
        return build(stored, intervals.domains(stored), options)
    first = len(table.filter_start) - 1
    table = intervals.appended(table, subscriptions, keys)
    table = interval_ends.insert(_with_bits(table), first, options.n_cells)
    rows = np.arange(first, len(table.filter_start) - 1)
    _set_bits(table, rows, options.n_cells, _covers(options), True)
    return table


def _with_bits(table: Table) -> Table:
    """The table with bits for all of its rows."""
    table = intervals.writable(table, ("bitsets", "gone"))
    n_words, n_rows = len(table.gone), len(table.filter_start) - 1
    if n_rows <= n_words * WORD:
        return table
    more = _n_words(n_rows + n_rows // 4)
    bitsets = np.zeros((*table.bitsets.shape[:3], more), np.uint64)
    bitsets[:, :, :, :n_words] = table.bitsets
    gone = np.full(more, ALL)
    gone[:n_words] = table.gone
    return table._replace(bitsets=bitsets, gone=gone)


def remove(table: Table, rows: NDArray[np.int64], options: Options) -> Table:
    """The table without these rows, which it must have; the given table becomes invalid."""
    table = intervals.writable(table, (*cell_lists.GROWING, "bitsets", "gone"))
    interval_ends.remove(table, rows, options.n_cells)
    _set_bits(table, rows, options.n_cells, _covers(options), False)
    return intervals.without_rows(table, rows)


def estimate(n_subscriptions: int, n_constraints: int, n_slots: int, options: Options) -> int:
    """Bytes of the table without keys."""
    bitsets = n_slots * 2 * options.n_groups * n_subscriptions // 8
    cells = 16 * n_constraints + 32 * n_slots * options.n_cells
    return bitsets + cells + stored_filters.estimate(n_subscriptions, n_constraints)


@njit(nogil=True, cache=True)
def _group_of(cell, n_cells, end, covers):
    """The smallest group that covers the cell; len(covers) for none."""
    behind = cell if end == HIGH else n_cells - 1 - cell
    return np.searchsorted(covers, behind, side="right")


@njit(nogil=True, cache=True)
def _premark(stored, domains, n_cells, covers, bitsets):
    """Mark each row in the smallest group that covers it, then all in the groups around."""
    n_attributes, _, n_groups, n_words = bitsets.shape
    for row in range(len(stored.filter_start) - 1):
        word = row >> 6
        bit = ONE << np.uint64(row & 63)
        for piece in range(stored.filter_start[row], stored.filter_start[row + 1]):
            cells = interval_ends.ends_of(stored, domains, piece, n_cells)
            attribute = domains.attribute_of[stored.slots[piece]]
            for end in range(2):
                group = _group_of(cells[end] % n_cells, n_cells, end, covers)
                if group < n_groups:
                    bitsets[attribute, end, group, word] |= bit
    for attribute in range(n_attributes):
        for end in range(2):
            for group in range(1, n_groups):
                inner, outer = bitsets[attribute, end, group - 1], bitsets[attribute, end, group]
                for word in range(n_words):
                    outer[word] |= inner[word]


@njit(nogil=True, cache=True)
def _set_bits(table, rows, n_cells, covers, is_there):
    """Set or clear the bits of rows in every group that covers them."""
    bitsets, gone = table.bitsets, table.gone
    n_groups = bitsets.shape[2]
    for row in rows:
        word = row >> 6
        bit = ONE << np.uint64(row & 63)
        for piece in range(table.filter_start[row], table.filter_start[row + 1]):
            cells = interval_ends.ends_of(table, table, piece, n_cells)
            attribute = table.attribute_of[table.slots[piece]]
            for end in range(2):
                first = _group_of(cells[end] % n_cells, n_cells, end, covers)
                for group in range(first, n_groups):
                    if is_there:
                        bitsets[attribute, end, group, word] |= bit
                    else:
                        bitsets[attribute, end, group, word] &= ~bit
        if is_there:
            gone[word] &= ~bit
        else:
            gone[word] |= bit


@njit(nogil=True, cache=True)
def _choose(attribute, end, n_covered, shape, covers, chosen, n_chosen):
    """Choose the largest group within the outer n_covered cells; returns how many it covers."""
    group = np.searchsorted(covers, n_covered, side="right") - 1
    if group < 0:
        return 0, n_chosen
    chosen[n_chosen] = ((attribute * 2 + end) * shape[2] + group) * shape[3]
    return covers[group], n_chosen + 1


@njit(nogil=True, cache=True)
def _rule_out(table, codes, is_present, n_cells, covers, chosen, left):
    """Choose the bitsets of an event, and note the cells that are left to be marked."""
    shape = table.bitsets.shape
    n_chosen = 0
    for attribute in range(shape[0]):
        low, high = left[attribute, LOW], left[attribute, HIGH]
        first_low = interval_ends.number_of(attribute, LOW, 0, n_cells)
        first_high = first_low + n_cells
        if is_present[attribute]:
            cell = cell_of(table, attribute, codes[attribute], n_cells)
            covered, n_chosen = _choose(
                attribute, LOW, n_cells - 1 - cell, shape, covers, chosen, n_chosen
            )
            low[0], low[1] = first_low + cell + 1, first_high - covered
            covered, n_chosen = _choose(attribute, HIGH, cell, shape, covers, chosen, n_chosen)
            high[0], high[1] = first_high + covered, first_high + cell
        else:
            covered, n_chosen = _choose(attribute, LOW, n_cells, shape, covers, chosen, n_chosen)
            low[0], low[1] = first_low, first_high - covered
            high[0], high[1] = 0, 0
    return n_chosen


@njit(nogil=True, cache=True)
def _merge(bitsets, chosen, n_chosen, at, bits):
    """OR a chunk of the chosen bitsets, several at a time while the result stays in the cache."""
    n_words = len(bits)
    i = 0
    while i + 4 <= n_chosen:
        a = bitsets[at + chosen[i] : at + chosen[i] + n_words]
        b = bitsets[at + chosen[i + 1] : at + chosen[i + 1] + n_words]
        c = bitsets[at + chosen[i + 2] : at + chosen[i + 2] + n_words]
        d = bitsets[at + chosen[i + 3] : at + chosen[i + 3] + n_words]
        for word in range(n_words):
            bits[word] |= a[word] | b[word] | c[word] | d[word]
        i += 4
    while i < n_chosen:
        a = bitsets[at + chosen[i] : at + chosen[i] + n_words]
        for word in range(n_words):
            bits[word] |= a[word]
        i += 1


@njit(nogil=True, cache=True)
def _match(table, batch, n_cells, covers):
    """The rows per event: (start, rows, marks one by one, comparisons)."""
    n_attributes = len(table.lowest)
    bitsets = table.bitsets.reshape(-1)
    bits = np.empty_like(table.gone)
    codes = np.empty(n_attributes, np.int64)
    is_present = np.empty(n_attributes, np.bool_)
    chosen = np.empty(2 * n_attributes, np.int64)
    left = np.empty((n_attributes, 2, 2), np.int64)
    n_events = len(batch.event_start) - 1
    hit_start = np.empty(n_events + 1, np.int64)
    hits = np.empty(256, np.int32)
    n_hits, n_marks, n_compared = 0, 0, 0
    for event in range(n_events):
        hit_start[event] = n_hits
        intervals.read(batch, event, table.attribute_of, codes, is_present)
        n_chosen = _rule_out(table, codes, is_present, n_cells, covers, chosen, left)
        bits[:] = table.gone
        for at in range(0, len(bits), CHUNK):
            _merge(bitsets, chosen, n_chosen, at, bits[at : at + CHUNK])
        for attribute in range(n_attributes):
            for end in range(2):
                first, stop = left[attribute, end]
                n_marks += interval_ends.mark_cells(table, first, stop, bits)
            if is_present[attribute]:
                code = codes[attribute]
                low = interval_ends.number_of(
                    attribute, LOW, cell_of(table, attribute, code, n_cells), n_cells
                )
                n_compared += interval_ends.compare(table, low, low + n_cells, code, bits)
        hits, n_hits = intervals.unmarked(bits, hits, n_hits)
    hit_start[n_events] = n_hits
    return hit_start, hits[:n_hits], n_marks, n_compared


@njit(nogil=True, cache=True)
def _mark(table, batch, n_cells, covers):
    """As `_match`, without bitsets, comparisons and results."""
    n_attributes = len(table.lowest)
    bits = np.zeros_like(table.gone)
    codes = np.empty(n_attributes, np.int64)
    is_present = np.empty(n_attributes, np.bool_)
    chosen = np.empty(2 * n_attributes, np.int64)
    left = np.empty((n_attributes, 2, 2), np.int64)
    n_marks = 0
    for event in range(len(batch.event_start) - 1):
        intervals.read(batch, event, table.attribute_of, codes, is_present)
        _rule_out(table, codes, is_present, n_cells, covers, chosen, left)
        for attribute in range(n_attributes):
            for end in range(2):
                first, stop = left[attribute, end]
                n_marks += interval_ends.mark_cells(table, first, stop, bits)
    return n_marks
