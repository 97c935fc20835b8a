"""counting: CCM on the CPU [Margara and Cugola, DEBS 2011].

Constraints are grouped by slot. An event evaluates every constraint on its slots, one by one. Each
satisfied constraint increments the count of its filter; a filter with a full count matches. Filters
with negated groups, and events with arrays of objects, also need the exact check.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared import counted_filters, stored_filters
from matchyard.engines.predicates.algorithms.shared.counted_filters import (
    STEP,
    Counters,
    count_all,
    n_below,
    next_base,
    put,
    stride_of,
)
from matchyard.engines.predicates.algorithms.shared.exact_check import enter, filter_holds, leave
from matchyard.engines.predicates.encoder.layout import Batch, Filters, Vocabulary
from matchyard.kernels.csr import count_values, ragged
from matchyard.kernels.inspection import Inspection
from matchyard.matches import Part

DEVICES = ("cpu", "gpu")
SUPPORTS = "predicates"
subscriptions = stored_filters.subscriptions


class Options(NamedTuple):
    """The options of the algorithm."""

    ordered: bool = False  # on a GPU: sort the constraints of a slot by value


class Table(NamedTuple):
    """CCM's table of constraints, row by row, and the filters."""

    sizes: NDArray[np.int32]  # [n_filters] ascending: constraints to satisfy
    union_filter: NDArray[np.int32]  # the filters of constraints with several entries
    entry_start: NDArray[
        np.int64
    ]  # [n_slots + 1] entries of each slot; see `counted_filters.Entries`
    entry_low: NDArray[np.signedinteger]
    entry_high: NDArray[np.signedinteger]
    entry_target: NDArray[np.int32]
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
    """Accept all options."""


def inspect(look: Inspection, table: Table, vocabulary: Vocabulary, options: Options) -> None:
    """Refuse a damaged table: see `kernels.inspection`."""
    n_filters = stored_filters.inspect(look, table, vocabulary)
    look.shape("sizes", n_filters)
    look.length("union_filter")
    n_entries = look.length("entry_target")
    look.offsets("entry_start", look.length("entry_start") - 1, n_entries)
    for name in ("entry_low", "entry_high"):
        look.shape(name, n_entries)
    look.same(lambda: stored_filters.build_anew(compile, table, vocabulary, options))


def compile(
    subscriptions: Filters, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """Put the constraints of each slot in a row."""
    stored = counted_filters.store(subscriptions, keys)
    entries = counted_filters.entries(stored)
    start = ragged(count_values(entries.slots, stored_filters.n_slots(stored)))
    return Table(
        entries.sizes, entries.union_filter, start, entries.low, entries.high, entries.targets,
        *stored,
    )  # fmt: skip


def workspace(table: Table, options: Options) -> Counters:
    """The counters of one thread."""
    return counted_filters.counters(table, len(table.union_filter))


def match(table: Table, batch: Batch, workspace: Counters, options: Options) -> Part:
    """The keys per event; every constraint that is evaluated is a candidate."""
    return stored_filters.finish(
        table, *_match(table, stored_filters.narrowed(table, batch), workspace)
    )


def estimate(n_subscriptions: int, n_constraints: int, n_names: int, options: Options) -> int:
    """Bytes of the table without keys."""
    own = 4 * n_subscriptions + 12 * n_constraints
    return own + stored_filters.estimate(n_subscriptions, n_constraints)


@njit(nogil=True, cache=True)
def _match(table, batch, counters):
    n_events = len(batch.event_start) - 1
    hit_start = np.zeros(n_events + 1, np.int64)
    hits, end, candidates = np.empty(1024, np.int32), np.int64(0), 0
    sizes, first, satisfied, full = table.sizes, counters.first, counters.satisfied, counters.full
    n_always, n_small, stride = n_below(sizes, 1), n_below(sizes, 2), stride_of(sizes)
    for event in range(n_events):
        base = next_base(counters, stride)
        has_elements = enter(batch, event, first)
        confirm = has_elements or len(table.groups) > 0
        for number in range(n_always):
            if filter_holds(table, number, batch, event, first, has_elements):
                hits = put(hits, end, number)
                end += 1
        entry, last = batch.event_start[event], batch.event_start[event + 1]
        while entry < last and batch.slots[entry] < len(first):
            slot, after = batch.slots[entry], entry + 1
            while after < last and batch.slots[after] == slot:
                after += 1
            codes, row_end = batch.codes[entry:after], table.entry_start[slot + 1]
            for start in range(table.entry_start[slot], row_end, STEP):
                stop = min(row_end, start + STEP)
                n_satisfied = _evaluate(
                    table.entry_low, table.entry_high, table.entry_target, start, stop, codes,
                    satisfied,
                )  # fmt: skip
                n_full = count_all(
                    satisfied, 0, n_satisfied, table.union_filter, counters.counts,
                    counters.stamps, sizes, n_small, base, full,
                )  # fmt: skip
                candidates += stop - start
                for i in range(n_full):
                    number = np.int64(full[i])
                    if not confirm or filter_holds(
                        table, number, batch, event, first, has_elements
                    ):
                        hits = put(hits, end, number)
                        end += 1
            entry = after
        leave(batch, event, first)
        hit_start[event + 1] = end
    return hit_start, hits[:end], candidates


@njit(nogil=True, cache=True)
def _evaluate(lows, highs, targets, start, stop, codes, satisfied):
    """The targets of entries with a code between low and high or, if low is above high, with one
    that is not strictly between. Without branches, which the CPU could not predict."""
    n_satisfied = 0
    for i in range(start, stop):
        low, high = lows[i], highs[i]
        wanted = 2 - (low > high)
        holds = False
        for code in codes:
            holds |= np.int64(code >= low) + np.int64(code <= high) >= wanted
        satisfied[n_satisfied] = targets[i]
        n_satisfied += holds
    return n_satisfied
