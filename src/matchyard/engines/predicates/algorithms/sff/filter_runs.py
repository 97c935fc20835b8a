"""The indexes of `sff`: constraints sorted so that the satisfied ones are runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared.counted_filters import Entries
from matchyard.kernels.csr import count_values, ragged
from matchyard.kernels.search import first_above, first_at_least

EQUAL, UP_TO, FROM, ALL_BUT, BETWEEN = range(5)
N_SORTED = 4  # the shapes that are sorted by one bound

# A run is a row of three numbers: the first position in `targets`, one past the last, and whether a
# constraint may be in several runs of the event, since its attribute has several values.
START, END, REPEATS = range(3)
_MOST_RUNS = 40  # per entry: a tree is at most 32 deep


class Index(NamedTuple):
    """The arrays of a table from `union_filter` to `span_place`, which says what they are."""

    union_filter: NDArray[np.int32]
    shape_start: NDArray[np.int64]
    bounds: NDArray[np.signedinteger]
    targets: NDArray[np.int32]
    root: NDArray[np.int32]
    node_center: NDArray[np.signedinteger]
    node_left: NDArray[np.int32]
    node_right: NDArray[np.int32]
    node_start: NDArray[np.int64]
    span_low: NDArray[np.signedinteger]
    span_high: NDArray[np.signedinteger]
    span_place: NDArray[np.int32]


class Tree(NamedTuple):
    """The interval trees of all slots [Edelsbrunner 1980]: an interval is at the first node on the
    way down whose center it contains."""

    root: NDArray[np.int32]
    center: NDArray[np.signedinteger]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    start: NDArray[np.int64]
    order: NDArray[np.int64]  # intervals node by node, by their low ends…
    order_high: NDArray[np.int64]  # …and by their high ends, the highest first


def index(entries: Entries, n_slots: int) -> Index:
    """Sort the entries by slot, shape and bound; those with two bounds go into trees."""
    entries = _split_wide(entries)
    low, high = entries.low, entries.high
    limits = np.iinfo(low.dtype)
    shape = np.full(len(low), BETWEEN)
    shape[low == limits.min] = UP_TO
    shape[high == limits.max] = FROM
    shape[low == high] = EQUAL
    shape[low > high] = ALL_BUT
    bound = np.where(shape == UP_TO, high, low)
    bound[shape == ALL_BUT] -= 1  # low is one above what is excluded
    is_plain = shape != BETWEEN
    plain = np.flatnonzero(is_plain)
    group = N_SORTED * entries.slots[plain].astype(np.int64) + shape[plain]
    plain = plain[np.lexsort((bound[plain], group))]
    spans = np.flatnonzero(~is_plain)
    spans = spans[np.lexsort((low[spans], entries.slots[spans]))]
    span_start = ragged(count_values(entries.slots[spans], n_slots))
    tree = Tree(*_grow(span_start, low[spans], high[spans]))
    position = np.empty(len(spans), np.int32)
    position[tree.order] = np.arange(len(spans), dtype=np.int32)
    by_low, by_high = spans[tree.order], spans[tree.order_high]
    targets = entries.targets[np.concatenate([plain, by_low, by_high])]
    return Index(
        entries.union_filter, ragged(count_values(group, n_slots * N_SORTED)), bound[plain],
        targets, tree.root, tree.center, tree.left, tree.right, tree.start,
        low[by_low], high[by_high], position[tree.order_high],
    )  # fmt: skip


def _split_wide(entries: Entries) -> Entries:
    """Entries that exclude more than one value become two: below, and above."""
    low, high = entries.low, entries.high
    is_wide = (low > high) & (low.astype(np.int64) - 1 != high.astype(np.int64) + 1)
    wide = np.flatnonzero(is_wide)
    if not len(wide):
        return entries
    limits, n_unions = np.iinfo(low.dtype), len(entries.union_filter)
    from_lowest, targets = low.copy(), entries.targets.copy()
    from_lowest[wide] = limits.min
    targets[wide] = ~np.arange(n_unions, n_unions + len(wide), dtype=np.int32)
    return Entries(
        np.concatenate([entries.slots, entries.slots[wide]]),
        np.concatenate([from_lowest, low[wide]]),
        np.concatenate([high, np.full(len(wide), limits.max, high.dtype)]),
        np.concatenate([targets, targets[wide]]),
        np.concatenate([entries.union_filter, entries.targets[wide]]),
        entries.sizes,
    )


@njit(nogil=True, cache=True)
def _grow(span_start, low, high):
    """The trees of all slots, from intervals in order of slot and low end. The center is the low
    end in the middle, so that at most half of the intervals are left to each side."""
    n_slots, n_spans = len(span_start) - 1, len(low)
    root = np.full(n_slots, -1, np.int32)
    center = np.empty(n_spans, low.dtype)
    left, right = np.full(n_spans, -1, np.int32), np.full(n_spans, -1, np.int32)
    start = np.zeros(n_spans + 1, np.int64)
    order, order_high = np.empty(n_spans, np.int64), np.empty(n_spans, np.int64)
    pool, aside = np.arange(n_spans), np.empty(n_spans, np.int64)
    stack = np.empty((n_spans + 1, 3), np.int64)  # first, end, ~slot or the position of a parent
    n_nodes = n_placed = 0
    for slot in range(n_slots):
        if span_start[slot] == span_start[slot + 1]:
            continue
        stack[0] = span_start[slot], span_start[slot + 1], -1
        depth = 1
        while depth:
            depth -= 1
            first, end, parent = stack[depth]
            middle = low[pool[(first + end) // 2]]
            node, n_nodes = n_nodes, n_nodes + 1
            if parent < 0:
                root[slot] = node
            elif parent & 1:
                right[parent >> 1] = node
            else:
                left[parent >> 1] = node
            center[node] = middle
            n_left, begin = first, n_placed
            n_right = 0
            for i in range(first, end):
                span = pool[i]
                if high[span] < middle:
                    pool[n_left] = span
                    n_left += 1
                elif low[span] > middle:
                    aside[n_right] = span
                    n_right += 1
                else:
                    order[n_placed] = span
                    n_placed += 1
            pool[n_left : n_left + n_right] = aside[:n_right]
            here = order[begin:n_placed]
            order_high[begin:n_placed] = here[np.argsort(high[here])[::-1]]
            start[node + 1] = n_placed
            if n_left > first:
                stack[depth] = first, n_left, 2 * node
                depth += 1
            if n_right:
                stack[depth] = n_left, n_left + n_right, 2 * node + 1
                depth += 1
    return (
        root, center[:n_nodes].copy(), left[:n_nodes].copy(), right[:n_nodes].copy(),
        start[: n_nodes + 1].copy(), order, order_high,
    )  # fmt: skip


@njit(nogil=True, cache=True)
def new_runs(batch):
    """Room for the runs of any event of the batch."""
    most = 0
    for event in range(len(batch.event_start) - 1):
        most = max(most, batch.event_start[event + 1] - batch.event_start[event])
    return np.empty((most * _MOST_RUNS, 3), np.int64)


@njit(nogil=True, cache=True)
def _put(runs, n_runs, start, end, repeats):
    runs[n_runs, START], runs[n_runs, END], runs[n_runs, REPEATS] = start, end, repeats
    return n_runs + (end > start)


@njit(nogil=True, cache=True)
def find_runs(table, batch, event, runs):
    """The runs of all constraints that the event satisfies; returns their number."""
    entry, last = batch.event_start[event], batch.event_start[event + 1]
    bounds, n_runs = table.bounds, 0
    while entry < last and batch.slots[entry] < len(table.root):
        slot, after = batch.slots[entry], entry + 1
        while after < last and batch.slots[after] == slot:
            after += 1
        codes = batch.codes[entry:after]
        if after - entry > 1:
            codes = np.sort(codes)
        start = table.shape_start[N_SORTED * slot : N_SORTED * slot + N_SORTED + 1]
        lowest, highest = codes[0], codes[-1]
        end = start[EQUAL]
        for i in range(len(codes)):
            if i == 0 or codes[i] != codes[i - 1]:
                begin = first_at_least(bounds, end, start[EQUAL + 1], codes[i])
                end = first_above(bounds, begin, start[EQUAL + 1], codes[i])
                n_runs = _put(runs, n_runs, begin, end, False)
        begin = first_at_least(bounds, start[UP_TO], start[UP_TO + 1], lowest)
        n_runs = _put(runs, n_runs, begin, start[UP_TO + 1], False)
        end = first_above(bounds, start[FROM], start[FROM + 1], highest)
        n_runs = _put(runs, n_runs, start[FROM], end, False)
        begin = end = start[ALL_BUT]
        if lowest == highest:  # with two values, one of them is not the one excluded
            begin = first_at_least(bounds, begin, start[ALL_BUT + 1], lowest)
            end = first_above(bounds, begin, start[ALL_BUT + 1], lowest)
        n_runs = _put(runs, n_runs, start[ALL_BUT], begin, False)
        n_runs = _put(runs, n_runs, end, start[ALL_BUT + 1], False)
        if table.root[slot] >= 0:
            for i in range(len(codes)):
                if i == 0 or codes[i] != codes[i - 1]:
                    n_runs = _descend(table, slot, codes[i], runs, n_runs, lowest != highest)
        entry = after
    return n_runs


@njit(nogil=True, cache=True)
def _descend(table, slot, code, runs, n_runs, repeats):
    """The runs of intervals that contain the code."""
    n_sorted, n_spans = len(table.bounds), len(table.span_low)
    node = table.root[slot]
    while node >= 0:
        start, end = table.node_start[node], table.node_start[node + 1]
        if code <= table.node_center[node]:
            stop = first_above(table.span_low, start, end, code)
            n_runs = _put(runs, n_runs, n_sorted + start, n_sorted + stop, repeats)
            node = table.node_left[node] if code < table.node_center[node] else np.int32(-1)
        else:
            stop = _first_below(table.span_high, start, end, code)
            at = n_sorted + n_spans
            n_runs = _put(runs, n_runs, at + start, at + stop, repeats)
            node = table.node_right[node]
    return n_runs


@njit(nogil=True, cache=True)
def _first_below(values, start, end, value):
    """The first position in [start, end) of descending values with less than `value`, or end."""
    while start < end:
        middle = (start + end) // 2
        if values[middle] >= value:
            start = middle + 1
        else:
            end = middle
    return start
