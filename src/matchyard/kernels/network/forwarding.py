"""Forwarding look-ups: the entries of all filters that are subsets of a packet's ids, each entry once.

A packet on a tree can leave by the links of a router on that tree, or go to local applications, but not back by its
incoming interface. Most filters that match a packet belong to the incoming interface. Therefore a look-up keeps a mask
of the entries that are still *needed*, and skips filters whose mask has none of them before any other test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numba.typed import List
from numpy.typing import NDArray

from matchyard.kernels.csr import ragged
from matchyard.kernels.network.subtrees import longer
from matchyard.kernels.routing.filters import (
    EMPTY,
    INTERFACE_BITS,
    MASK_BITS,
    bit_of,
    entry_place,
)
from matchyard.kernels.routing.sets import is_within, signature_of, sort_some
from matchyard.kernels.search import first_at_least


class Links(NamedTuple):
    """The interfaces by which packets can leave a router, without 0, which is on all trees."""

    start: NDArray[np.int64]  # [n_trees + 1]
    interfaces: NDArray[np.int32]  # from 1 on, rising within a tree
    n_by_bit: NDArray[np.int32]  # [n_trees, 32] the number of entries of a tree with each mask bit
    masks: NDArray[np.uint64]  # [n_trees] the mask of all entries of a tree
    width: int  # the largest interface + 1


class Queries(NamedTuple):
    """Look-ups of sets on trees, and their order."""

    order: NDArray[np.int64]  # numbers of queries
    start: NDArray[np.int64]  # [n_sets + 1]
    ids: NDArray[np.int32]  # rising within a set
    sets: NDArray[np.int64]  # of each query
    trees: NDArray[np.int64]  # of each query
    skipped: NDArray[np.int64]  # the incoming interface of each query, which is left out; 0: none


def links_of(interfaces: Sequence[Sequence[int]]) -> Links:
    """Make `Links` from the rising interfaces on each tree."""
    start = ragged(np.array([len(tree) for tree in interfaces], np.int64))
    flat = np.array([one for tree in interfaces for one in tree], np.int32)
    n_by_bit = _count_bits(start, flat)
    masks = (n_by_bit > 0) @ (np.uint64(1) << np.arange(MASK_BITS, dtype=np.uint64))
    return Links(start, flat, n_by_bit, masks, int(flat.max(initial=0)) + 1)


@njit(nogil=True, cache=True)
def _count_bits(start, interfaces):
    counts = np.zeros((len(start) - 1, MASK_BITS), np.int32)
    for tree in range(len(counts)):
        first = tree << INTERFACE_BITS
        counts[tree, bit_of(first)] += 1
        for i in range(start[tree], start[tree + 1]):
            counts[tree, bit_of(first | interfaces[i])] += 1
    return counts


@njit(nogil=True, cache=True)
def entries_within(filters, links, start, ids, trees, skipped):
    """For each set, the rising interfaces on its tree that filters within it have: (start, interfaces).
    The interface `skipped[set]` is left out, unless it is 0."""
    every = np.arange(len(start) - 1)
    queries = Queries(every, start, ids, every, trees, skipped)
    entries = np.empty(links.width + 2 * len(every), np.int32)
    entry_start, seen_in = np.zeros(len(start), np.int64), np.full(links.width, -1, np.int32)
    entries, end = _look_up(filters, links, queries, 0, len(every), seen_in, entry_start, entries)
    return entry_start, entries[:end]


@njit(nogil=True, cache=True)
def first_table(filters, links):
    """A list with one table, for `entries_in_tables`."""
    tables = List()
    tables.append((filters, links))
    return tables


@njit(nogil=True, cache=True)
def add_table(tables, filters, links):
    """Append a table to the list."""
    tables.append((filters, links))


@njit(nogil=True, cache=True)
def entries_in_tables(tables, table_start, queries):
    """Apply `entries_within` to queries to many tables; the queries are grouped by table."""
    width, end = 1, 0
    for table in range(len(tables)):
        width = max(width, tables[table][1].width)
    n_queries = len(queries.order)
    entries = np.empty(width + 2 * n_queries, np.int32)
    entry_start, seen_in = np.zeros(n_queries + 1, np.int64), np.full(width, -1, np.int32)
    for table in range(len(tables)):
        low, high = table_start[table], table_start[table + 1]
        if low < high:
            filters, links = tables[table]
            entries, end = _look_up(
                filters, links, queries, low, high, seen_in, entry_start, entries
            )
    return entry_start, entries[:end]


@njit(nogil=True, cache=True)
def _look_up(filters, links, queries, low, high, seen_in, entry_start, entries):
    """Answer the queries from `low` to `high`, which are for one table.
    Appends to `entries`; returns that array, grown if needed, and its end."""
    order, start, ids, sets, trees, skipped = queries
    left, end, width = np.empty(MASK_BITS, np.int32), entry_start[low], len(seen_in)
    for position in range(low, high):
        if end + width > len(entries):
            entries = longer(entries, end, 2 * len(entries))
        query = order[position]
        row = sets[query]
        end = _find_entries(
            filters, links, ids, start[row], start[row + 1], trees[query], skipped[query], position,
            seen_in, left, entries, end,
        )  # fmt: skip
        entry_start[position + 1] = end
    return entries, end


@njit(nogil=True, cache=True, forceinline=True)
def _find_entries(filters, links, ids, low, high, tree, skipped, row, seen_in, left, entries, end):
    """Answer one query: append to `entries` from `end` on, where all interfaces have room; return the new end.
    `seen_in` has the last row that has seen each interface; `left` is scratch space."""
    before = end
    needed = _all_needed(links, tree, skipped, row, seen_in, left)
    first, absent = tree << INTERFACE_BITS, ~signature_of(ids, low, high)
    if filters.counts[EMPTY] >= 0:
        one = filters.counts[EMPTY]
        needed, end = _take_new(filters, one, first, row, seen_in, left, needed, entries, end)
    for i in range(low, high):
        if needed == np.uint64(0):
            break
        if np.uint64(filters.lists[ids[i]].mask) & needed == np.uint64(0):
            continue
        position = np.uint64(filters.lists[ids[i]].filed_at)
        last = position + np.uint64(filters.lists[ids[i]].n_filed)
        while True:
            position = _next_likely(filters.filed, position, last, needed, absent)
            if position == last:
                break
            one = np.int64(filters.filed[position].filter)
            ids_at, n_ids = filters.rows[one].ids_at, filters.rows[one].n_ids
            if is_within(filters.ids, ids_at, ids_at + n_ids, ids, low, high):
                needed, end = _take_new(
                    filters, one, first, row, seen_in, left, needed, entries, end
                )
            position += np.uint64(1)
    sort_some(entries, before, end)
    return end


@njit(nogil=True, cache=True, forceinline=True)
def _next_likely(filed, position, last, needed, absent):
    """The next position of a filter that may have a needed entry and may have no absent id."""
    while position < last:
        if np.uint64(filed[position].mask) & needed and not filed[position].signature & absent:
            break
        position += np.uint64(1)
    return position


@njit(nogil=True, cache=True, forceinline=True)
def _all_needed(links, tree, skipped, row, seen_in, left):
    """The mask of all entries that a row needs; writes the number of entries with each bit to `left`."""
    if tree < 0 or tree >= len(links.masks):
        return np.uint64(0)
    for bit in range(MASK_BITS):
        left[bit] = links.n_by_bit[tree, bit]
    needed = links.masks[tree]
    end = links.start[tree + 1]
    position = first_at_least(links.interfaces, links.start[tree], end, skipped)
    if position < end and links.interfaces[position] == skipped:
        needed = _without(tree << INTERFACE_BITS, skipped, row, seen_in, left, needed)
    return needed


@njit(nogil=True, cache=True, forceinline=True)
def _without(first, interface, row, seen_in, left, needed):
    """Note that a row has seen an interface; return the mask of the entries still needed."""
    seen_in[interface] = row
    bit = bit_of(first | interface)
    left[bit] -= 1
    return needed if left[bit] else needed & ~(np.uint64(1) << bit)


@njit(nogil=True, cache=True, forceinline=True)
def _take_new(filters, one, first, row, seen_in, left, needed, entries, end):
    """Append the entries of a filter that this row has not seen.
    Returns the mask of the entries still needed, and the new end of `entries`."""
    last = filters.rows[one].entries_at + filters.rows[one].n_entries
    position = entry_place(filters, one, first)
    while position < last and filters.entries[position] < first + len(seen_in):
        interface = filters.entries[position] - first
        position += 1
        if seen_in[interface] != row:
            needed = _without(first, interface, row, seen_in, left, needed)
            entries[end] = interface
            end += 1
    return needed, end
