"""sff: Siena's fast forwarding [Carzaniga and Wolf, SIGCOMM 2003], as CCM's authors describe it.

Every slot and shape of constraint has an index in which the satisfied constraints are consecutive
(a run): only these are read, and each increments the count of its filter. Keys are interfaces. After
a match, `match_unique` skips the other filters of the interface; it ends when all are marked.

    shape            sorted by          satisfied by code x
    = v              v                  the run of x
    <= v             v                  those from x on
    >= v             v                  those up to x
    != v             v                  all but the run of x
    between          an interval tree   one run per node on the way down
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.sff import filter_runs
from matchyard.engines.predicates.algorithms.sff.filter_runs import (
    END,
    REPEATS,
    START,
    find_runs,
    new_runs,
)
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
from matchyard.kernels.inspection import Inspection
from matchyard.kernels.key_table import is_removed, key_at
from matchyard.matches import Part

DEVICES = ("cpu",)
SUPPORTS = "predicates"
MOST_INTERFACES = 1 << 16  # with more distinct keys, marking them costs more than it saves
SEVERAL = np.int32(-1)
subscriptions = stored_filters.subscriptions


class Options(NamedTuple):
    """Nothing can be set."""


class Table(NamedTuple):
    """The indexes, interfaces and filters."""

    sizes: NDArray[np.int32]  # [n_filters] ascending: constraints to satisfy
    union_filter: NDArray[np.int32]  # the filters of constraints with several entries
    shape_start: NDArray[
        np.int64
    ]  # [n_slots * 4 + 1] entries of each slot and shape; see `filter_runs`
    bounds: NDArray[np.signedinteger]  # [n_plain] ascending within slot and shape
    targets: NDArray[np.int32]  # [n_plain + 2 n_spans] as in `counted_filters.Entries`
    root: NDArray[np.int32]  # [n_slots] the root of the interval tree of each slot, or -1
    node_center: NDArray[np.signedinteger]
    node_left: NDArray[np.int32]
    node_right: NDArray[np.int32]
    node_start: NDArray[np.int64]  # [n_nodes + 1] the intervals that contain the center
    span_low: NDArray[np.signedinteger]  # [n_spans] ascending within a node
    span_high: NDArray[np.signedinteger]  # [n_spans] descending within a node
    span_place: NDArray[np.int32]  # [n_spans] where those are in `span_low`
    filter_interface: NDArray[np.int32]  # [n_filters] or SEVERAL; empty: too many interfaces
    key_interface: NDArray[np.int32]  # [n_keys] likewise
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
    n_filters, n_keys = stored_filters.inspect(look, table, vocabulary), len(table.keys)
    look.shape("sizes", n_filters)
    look.length("union_filter")
    n_slots, n_plain, n_spans = look.length("root"), look.length("bounds"), look.length("span_low")
    look.offsets("shape_start", filter_runs.N_SORTED * n_slots, n_plain)
    look.shape("targets", n_plain + 2 * n_spans)
    n_nodes = look.length("node_center")
    for name in ("node_left", "node_right"):
        look.shape(name, n_nodes)
    look.offsets("node_start", n_nodes, n_spans)
    for name in ("span_high", "span_place"):
        look.shape(name, n_spans)
    has_interfaces = look.length("key_interface") > 0
    # How interfaces are numbered has changed before: any numbers do.
    look.values("key_interface", 0, n_keys, n_keys if has_interfaces else 0)
    n_interfaces = int(table.key_interface.max(initial=-1)) + 1
    n_told = n_filters or len(table.key_start) - 1  # without filters there is one for each row
    look.values("filter_interface", int(SEVERAL), n_interfaces, n_told if has_interfaces else 0)
    look.same(
        lambda: stored_filters.build_anew(compile, table, vocabulary, options),
        but=("key_interface", "filter_interface"),
    )


def compile(
    subscriptions: Filters, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """Sort the constraints into the indexes."""
    stored = counted_filters.store(subscriptions, keys)
    entries = counted_filters.entries(stored)
    index = filter_runs.index(entries, stored_filters.n_slots(stored))
    interface_of_filter, interface_of_key = _interfaces(stored)
    return Table(entries.sizes, *index, interface_of_filter, interface_of_key, *stored)


def _interfaces(stored: stored_filters.Stored) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    none = np.empty(0, np.int32)
    distinct, first, interface = np.unique(stored.keys, return_index=True, return_inverse=True)
    if not 0 < len(distinct) <= MOST_INTERFACES:
        return none, none
    interface = np.argsort(np.argsort(first))[
        interface
    ]  # as they come: saving may number keys anew
    of_row = np.full(len(stored.key_start) - 1, SEVERAL, np.int32)
    has_one = np.diff(stored.key_start) == 1
    of_row[has_one] = interface[stored.key_start[:-1][has_one]]
    of_filter = of_row[stored.filter_row] if len(stored.filter_row) else of_row
    return of_filter, interface.astype(np.int32)


def workspace(table: Table, options: Options) -> Counters:
    """The counters of one thread."""
    return counted_filters.counters(table, len(table.union_filter) + len(table.span_low))


def match(table: Table, batch: Batch, workspace: Counters, options: Options) -> Part:
    """The keys per event; every constraint that is satisfied is a candidate."""
    return stored_filters.finish(
        table, *_match(table, stored_filters.narrowed(table, batch), workspace)
    )


def match_unique(table: Table, batch: Batch, workspace: Counters, options: Options) -> Part:
    """Each key once per event; filters of marked interfaces are skipped."""
    if len(table.key_interface):
        return Part(*_match_unique(table, stored_filters.narrowed(table, batch), workspace))
    part = match(table, batch, workspace, options)
    return part.unique()


def estimate(n_subscriptions: int, n_constraints: int, n_names: int, options: Options) -> int:
    """Bytes of the table without keys."""
    own = 8 * n_subscriptions + 8 * n_constraints + 40 * n_names
    return own + stored_filters.estimate(n_subscriptions, n_constraints)


@njit(nogil=True, cache=True)
def _match(table, batch, counters):
    n_events = len(batch.event_start) - 1
    hit_start = np.zeros(n_events + 1, np.int64)
    hits, end, candidates = np.empty(1024, np.int32), np.int64(0), 0
    sizes, first, full = table.sizes, counters.first, counters.full
    n_always, n_small, stride = n_below(sizes, 1), n_below(sizes, 2), stride_of(sizes)
    runs = new_runs(batch)
    for event in range(n_events):
        base = next_base(counters, stride)
        has_elements = enter(batch, event, first)
        confirm = has_elements or len(table.groups) > 0
        for number in range(n_always):
            if filter_holds(table, number, batch, event, first, has_elements):
                hits = put(hits, end, number)
                end += 1
        for run in range(find_runs(table, batch, event, runs)):
            candidates += runs[run, END] - runs[run, START]
            for start in range(runs[run, START], runs[run, END], STEP):
                stop = min(runs[run, END], start + STEP)
                n_full = _count(table, counters, start, stop, runs[run, REPEATS], n_small, base)
                for i in range(n_full):
                    number = np.int64(full[i])
                    if not confirm or filter_holds(
                        table, number, batch, event, first, has_elements
                    ):
                        hits = put(hits, end, number)
                        end += 1
        leave(batch, event, first)
        hit_start[event + 1] = end
    return hit_start, hits[:end], candidates


@njit(nogil=True, cache=True)
def _match_unique(table, batch, counters):
    n_events = len(batch.event_start) - 1
    event_start = np.zeros(n_events + 1, np.int64)
    new_keys, end, candidates = np.empty(1024, np.int64), np.int64(0), 0
    sizes, first, full = table.sizes, counters.first, counters.full
    n_always, n_small, stride = n_below(sizes, 1), n_below(sizes, 2), stride_of(sizes)
    n_interfaces = table.key_interface.max() + 1
    marked = np.full(n_interfaces, -1, np.int64)  # the last event that marked each
    runs = new_runs(batch)
    for event in range(n_events):
        base = next_base(counters, stride)
        has_elements = enter(batch, event, first)
        confirm = has_elements or len(table.groups) > 0
        begin = end
        for number in range(n_always):
            if _is_open(table, marked, number, event) and filter_holds(
                table, number, batch, event, first, has_elements
            ):
                new_keys, end = _mark(table, number, marked, event, new_keys, end)
        n_runs, run = find_runs(table, batch, event, runs), 0
        while run < n_runs and end - begin < n_interfaces:
            start, stop = runs[run, START], min(runs[run, END], runs[run, START] + STEP)
            if end == begin:
                n_full = _count(table, counters, start, stop, runs[run, REPEATS], n_small, base)
            else:
                n_full = _count_open(
                    table, counters, start, stop, runs[run, REPEATS], n_small, base, marked, event
                )
            candidates += stop - start
            for i in range(n_full):
                if end - begin == n_interfaces:
                    break
                number = np.int64(full[i])
                if _is_open(table, marked, number, event) and (
                    not confirm or filter_holds(table, number, batch, event, first, has_elements)
                ):
                    new_keys, end = _mark(table, number, marked, event, new_keys, end)
            runs[run, START] = stop
            run += stop == runs[run, END]
        leave(batch, event, first)
        event_start[event + 1] = end
    return event_start, new_keys[:end], candidates


@njit(nogil=True, cache=True)
def _count(table, counters, start, stop, repeats, n_small, base):
    """Count the constraints of a run."""
    targets = table.targets
    if repeats:
        stop = _new(table, counters, start, stop, base)
        start, targets = 0, counters.satisfied
    return count_all(
        targets, start, stop, table.union_filter, counters.counts, counters.stamps, table.sizes,
        n_small, base, counters.full,
    )  # fmt: skip


@njit(nogil=True, cache=True)
def _count_open(table, counters, start, stop, repeats, n_small, base, marked, event):
    """Count the constraints of a run, but those of interfaces that are marked."""
    targets, satisfied = table.targets, counters.satisfied
    if repeats:
        stop = _new(table, counters, start, stop, base)
        start, targets = 0, satisfied
    n_open, interfaces, union_filter = 0, table.filter_interface, table.union_filter
    for i in range(start, stop):
        target = targets[i]
        interface = interfaces[union_filter[~target] if target < 0 else target]
        satisfied[n_open] = target
        n_open += interface < 0 or marked[interface] != event
    return count_all(
        satisfied, 0, n_open, union_filter, counters.counts, counters.stamps, table.sizes,
        n_small, base, counters.full,
    )  # fmt: skip


@njit(nogil=True, cache=True)
def _new(table, counters, start, stop, base):
    """The targets of intervals that contain no earlier value of the attribute; their number."""
    n_new, stamps, satisfied = 0, counters.stamps, counters.satisfied
    first, n_spans, n_unions = len(table.bounds), len(table.span_low), len(table.union_filter)
    for i in range(start, stop):
        span = i - first
        if span >= n_spans:
            span = np.int64(table.span_place[span - n_spans])
        if stamps[n_unions + span] != base:
            stamps[n_unions + span] = base
            satisfied[n_new] = table.targets[i]
            n_new += 1
    return n_new


@njit(nogil=True, cache=True)
def _is_open(table, marked, number, event):
    """True if the interface of the filter is not yet marked."""
    interface = table.filter_interface[number]
    return interface < 0 or marked[interface] != event


@njit(nogil=True, cache=True)
def _mark(table, number, marked, event, new_keys, end):
    """Mark the interfaces of a matching filter, and append the keys of the new ones."""
    row = table.filter_row[number] if len(table.filter_row) else number
    for position in range(table.key_start[row], table.key_start[row + 1]):
        interface = table.key_interface[position]
        if marked[interface] != event and not is_removed(table, position):
            marked[interface] = event
            new_keys = put(new_keys, end, key_at(table, position))
            end += 1
    return new_keys, end
