"""ada_rein: `rein` without the attributes that rule out the fewest rows [Ada-REIN].

It never misses a match, and returns some rows that do not match. Their expected share is at most
`false_positive_rate` if the values of events are spread evenly over the domains and no attribute is
absent. `stated_rate` returns the expected share of a table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms import rein
from matchyard.engines.predicates.algorithms.shared import (
    cell_lists,
    interval_ends,
    intervals,
    stored_filters,
)
from matchyard.engines.predicates.algorithms.shared.intervals import Domains
from matchyard.engines.predicates.encoder.layout import Batch, Filters, Vocabulary
from matchyard.errors import UsageError
from matchyard.kernels.bitset import WORD
from matchyard.kernels.inspection import Inspection
from matchyard.matches import Part

DEVICES = ("cpu",)
SUPPORTS = intervals.SUPPORTS
workspace = intervals.workspace
subscriptions = stored_filters.subscriptions


class Options(NamedTuple):
    """The options of the algorithm."""

    n_cells: int = 1000  # per attribute and end
    false_positive_rate: float = 0.05  # largest expected share of returned rows that do not match


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
    is_skipped: NDArray[np.bool_]  # [n_attributes]
    rate: NDArray[np.float64]  # [1] expected share of false positives
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
    rein.check(rein.Options(options.n_cells))
    if not 0 <= options.false_positive_rate < 1:
        raise UsageError(
            'option "false_positive_rate" must be at least 0 and less than 1, '
            f"not {options.false_positive_rate}"
        )


def accept(column: Any, options: Options) -> None:
    """Refuse subscriptions that are not intervals."""
    intervals.accept_column(column, "ada_rein")


def inspect(look: Inspection, table: Table, vocabulary: Vocabulary, options: Options) -> None:
    """Refuse a damaged table: see `kernels.inspection`."""
    n_attributes = intervals.inspect(look, table, vocabulary)
    cell_lists.inspect(look, n_attributes * 2 * options.n_cells, has_values=True)
    look.shape("gone", -(-(len(table.filter_start) - 1) // WORD))
    look.flags("is_skipped", n_attributes)
    look.shape("rate", 1)
    look.same(lambda: stored_filters.build_anew(compile, table, vocabulary, options))


def compile(
    subscriptions: Filters, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """Choose the attributes to skip, and put the ends of all other intervals in cells."""
    stored = intervals.store(subscriptions, keys, "ada_rein")
    domains = intervals.domains(stored)
    is_skipped, rate = _skip(stored, domains, options.false_positive_rate)
    n_rows = len(stored.filter_start) - 1
    gone = intervals.all_but_first(-(-n_rows // WORD), n_rows)
    cells = interval_ends.fill(stored, domains, options.n_cells, is_skipped)
    return Table._make((*domains, *cells, gone, is_skipped, np.array([rate]), *stored))


def _skip(
    stored: stored_filters.Stored, domains: Domains, limit: float
) -> tuple[NDArray[np.bool_], float]:
    """Skip attributes while the expected rate allows it, first those that rule out the fewest rows."""
    widths = _widths(stored, domains)
    attributes = domains.attribute_of[stored.slots]
    n_attributes = len(domains.lowest)
    ruled_out = np.bincount(attributes, 1 - widths, n_attributes)
    is_skipped, rate = np.zeros(n_attributes, bool), 0.0
    n_matches = _expected(stored.filter_start, attributes, widths, is_skipped)
    for attribute in np.argsort(ruled_out, kind="stable"):
        is_skipped[attribute] = True
        n_returned = _expected(stored.filter_start, attributes, widths, is_skipped)
        new_rate = 1 - n_matches / n_returned if n_returned else 0.0
        if new_rate > limit or limit == 0:
            is_skipped[attribute] = False
            break
        rate = new_rate
    return is_skipped, rate


def stated_rate(table: Table) -> float:
    """The expected share of returned rows that do not match."""
    return float(table.rate[0])


def match(table: Table, batch: Batch, workspace: None, options: Options) -> Part:
    """The keys per event, with false positives; candidates are the rows marked or compared."""
    batch = intervals.accept(table, batch, "ada_rein")
    return stored_filters.finish(
        table, *rein.mark_all(table, batch, options.n_cells, table.is_skipped)
    )


def estimate(n_subscriptions: int, n_constraints: int, n_slots: int, options: Options) -> int:
    """Bytes of the table without keys, where nothing is skipped."""
    return rein.estimate(n_subscriptions, n_constraints, n_slots, rein.Options(options.n_cells))


@njit(nogil=True, cache=True)
def _widths(stored, domains):
    """The share of its domain, and of one code on either side for all others, that an interval
    contains."""
    widths = np.empty(len(stored.slots))
    for piece in range(len(widths)):
        attribute = domains.attribute_of[stored.slots[piece]]
        lowest, scale = domains.lowest[attribute], domains.scale[attribute]
        highest = lowest + (1 / scale if scale > 0 else 0)
        low = max(np.float64(stored.low[piece]), lowest - 1)
        high = min(np.float64(stored.high[piece]), highest + 1)
        widths[piece] = max(high - low + 1, 0.0) / (highest - lowest + 3)
    return widths


@njit(nogil=True, cache=True)
def _expected(filter_start, attributes, widths, is_skipped):
    """The number of rows that an event is expected to return."""
    total = 0.0
    for row in range(len(filter_start) - 1):
        chance = 1.0
        for piece in range(filter_start[row], filter_start[row + 1]):
            if not is_skipped[attributes[piece]]:
                chance *= widths[piece]
        total += chance
    return total
