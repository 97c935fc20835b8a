"""rein: mark every row with an interval that does not contain the event's value [REIN].

This is `hem` without bitsets. Rows without a mark match.
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
from matchyard.engines.predicates.encoder.layout import Batch, Filters, Vocabulary
from matchyard.errors import UsageError
from matchyard.kernels.bitset import ALL, WORD
from matchyard.kernels.inspection import Inspection
from matchyard.matches import Part

DEVICES = ("cpu",)
SUPPORTS = intervals.SUPPORTS
workspace = intervals.workspace
subscriptions = stored_filters.subscriptions


class Options(NamedTuple):
    """The options of the algorithm."""

    n_cells: int = 1000  # per attribute and end


class Table(NamedTuple):
    """Cells, and the filters with the key table."""

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
    gone: NDArray[np.uint64]  # a bit for every row that is removed or does not exist
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


def accept(column: Any, options: Options) -> None:
    """Refuse subscriptions that are not intervals."""
    intervals.accept_column(column, "rein")


def inspect(look: Inspection, table: Table, vocabulary: Vocabulary, options: Options) -> None:
    """Refuse a damaged table: see `kernels.inspection`."""
    n_attributes = intervals.inspect(look, table, vocabulary)
    cell_lists.inspect(look, n_attributes * 2 * options.n_cells, has_values=True)
    look.shape("gone", -(-(len(table.filter_start) - 1) // WORD))
    look.shape("built", 2)
    look.same(lambda: stored_filters.build_anew(compile, table, vocabulary, options))


def compile(
    subscriptions: Filters, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """Put the ends of all intervals in cells."""
    return _build(intervals.store(subscriptions, keys, "rein"), options)


def _build(stored: stored_filters.Stored, options: Options) -> Table:
    domains = intervals.domains(stored)
    n_rows = len(stored.filter_start) - 1
    gone = intervals.all_but_first(-(-n_rows // WORD), n_rows)
    cells = interval_ends.fill(stored, domains, options.n_cells)
    return Table._make((*domains, *cells, gone, np.array([n_rows, 0]), *stored))


def match(table: Table, batch: Batch, workspace: None, options: Options) -> Part:
    """The keys per event; candidates are the rows marked or compared."""
    batch = intervals.accept(table, batch, "rein")
    is_skipped = np.zeros(len(table.lowest), bool)
    return stored_filters.finish(table, *mark_all(table, batch, options.n_cells, is_skipped))


def insert(
    table: Table, subscriptions: Filters, keys: NDArray[np.int64], options: Options
) -> Table:
    """The table with more subscriptions; it takes the arrays of the given table, which becomes invalid."""
    intervals.checked(subscriptions, "rein")
    if intervals.must_rebuild(table, subscriptions):
        stored = intervals.store(*intervals.joined(table, subscriptions, keys), "rein")
        return _build(stored, options)
    first = len(table.filter_start) - 1
    table = intervals.appended(table, subscriptions, keys)
    table = intervals.writable(table, ("gone",))
    last = len(table.filter_start) - 1
    n_words = len(table.gone)
    gone = intervals.extended(table.gone, max(0, -(-last // WORD) - n_words))
    gone[n_words:] = ALL
    intervals.unmark_rows(gone, first, last)
    return interval_ends.insert(table._replace(gone=gone), first, options.n_cells)


def remove(table: Table, rows: NDArray[np.int64], options: Options) -> Table:
    """The table without these rows, which it must have; the given table becomes invalid."""
    table = intervals.writable(table, (*cell_lists.GROWING, "gone"))
    interval_ends.remove(table, rows, options.n_cells)
    intervals.mark_rows(table.gone, rows)
    return intervals.without_rows(table, rows)


def estimate(n_subscriptions: int, n_constraints: int, n_slots: int, options: Options) -> int:
    """Bytes of the table without keys."""
    cells = 16 * n_constraints + 32 * n_slots * options.n_cells
    return cells + n_subscriptions // 8 + stored_filters.estimate(n_subscriptions, n_constraints)


@njit(nogil=True, cache=True)
def mark_all(table, batch, n_cells, is_skipped):
    """The rows per event that no attribute rules out, of those not skipped: (start, rows, work)."""
    n_attributes = len(table.lowest)
    codes = np.empty(n_attributes, np.int64)
    is_present = np.empty(n_attributes, np.bool_)
    bits = np.empty(len(table.gone), np.uint64)
    n_events = len(batch.event_start) - 1
    hit_start = np.empty(n_events + 1, np.int64)
    hits = np.empty(256, np.int32)
    n_hits, work = 0, 0
    for event in range(n_events):
        hit_start[event] = n_hits
        intervals.read(batch, event, table.attribute_of, codes, is_present)
        bits[:] = table.gone
        for attribute in range(n_attributes):
            if not is_skipped[attribute]:
                n_marks, n_compared = interval_ends.mark_attribute(
                    table, attribute, codes[attribute], is_present[attribute], n_cells, bits
                )
                work += n_marks + n_compared
        hits, n_hits = intervals.unmarked(bits, hits, n_hits)
    hit_start[n_events] = n_hits
    return hit_start, hits[:n_hits], work
