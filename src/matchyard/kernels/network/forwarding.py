"""Who wants a packet: the entries of all filters that are within its ids, each entry once.

A packet on a tree can leave by the links of a router there, or go to local applications, but not back to where it
came from. Most filters within a packet are wanted where it came from, so that entries which are still
*needed* make a mask, and filters that have none of them are skipped before anything else is looked at.
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
    is_within,
    signature_of,
    sort_some,
)


class Links(NamedTuple):
    """The interfaces by which packets can leave a router, but for 0, which is on all trees."""

    start: NDArray[np.int64]  # [n_trees + 1]
    interfaces: NDArray[np.int32]  # from 1 on, rising within a tree
    n_by_bit: NDArray[np.int32]  # [n_trees, 32] how many entries of a tree have each bit in masks
    masks: NDArray[np.uint64]  # [n_trees] of all of them
    width: int  # above all interfaces


class Queries(NamedTuple):
    """Sets to look up, on trees, in the order in which they are to be taken."""

    order: NDArray[np.int64]  # queries
    start: NDArray[np.int64]  # [n_sets + 1]
    ids: NDArray[np.int32]  # rising within a set
    sets: NDArray[np.int64]  # of each query
    trees: NDArray[np.int64]  # of each query
    skipped: NDArray[np.int64]  # the interface of each query that is not looked for, or 0


def links_of(interfaces: Sequence[Sequence[int]]) -> Links:
    """Links from the interfaces on each tree, which rise."""
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
    """Of each set, the interfaces on its tree that some filter within it has as entries, but for
    `skipped[set]`, which is 0 where nothing is: (start, interfaces), in rising order."""
    every = np.arange(len(start) - 1)
    queries = Queries(every, start, ids, every, trees, skipped)
    found = np.empty(links.width + 2 * len(every), np.int32)
    found_start, seen_in = np.zeros(len(start), np.int64), np.full(links.width, -1, np.int32)
    found, end = _look_up(filters, links, queries, 0, len(every), seen_in, found_start, found)
    return found_start, found[:end]


@njit(nogil=True, cache=True)
def first_table(filters, links):
    """A list of tables, so far with one, that `entries_in_tables` takes."""
    tables = List()
    tables.append((filters, links))
    return tables


@njit(nogil=True, cache=True)
def add_table(tables, filters, links):
    """Add one more."""
    tables.append((filters, links))


@njit(nogil=True, cache=True)
def entries_in_tables(tables, table_start, queries):
    """`entries_within` for queries to many tables, those to a table together."""
    width, end = 1, 0
    for table in range(len(tables)):
        width = max(width, tables[table][1].width)
    n_queries = len(queries.order)
    found = np.empty(width + 2 * n_queries, np.int32)
    found_start, seen_in = np.zeros(n_queries + 1, np.int64), np.full(width, -1, np.int32)
    for table in range(len(tables)):
        low, high = table_start[table], table_start[table + 1]
        if low < high:
            filters, links = tables[table]
            found, end = _look_up(filters, links, queries, low, high, seen_in, found_start, found)
    return found_start, found[:end]


@njit(nogil=True, cache=True)
def _look_up(filters, links, queries, low, high, seen_in, found_start, found):
    """Some queries to one table, after those before them. Returns the array of what was found, grown where
    needed, and its end."""
    order, start, ids, sets, trees, skipped = queries
    left, end, width = np.empty(MASK_BITS, np.int32), found_start[low], len(seen_in)
    for place in range(low, high):
        if end + width > len(found):
            found = longer(found, end, 2 * len(found))
        query = order[place]
        row = sets[query]
        end = _find_entries(
            filters, links, ids, start[row], start[row + 1], trees[query], skipped[query], place,
            seen_in, left, found, end,
        )  # fmt: skip
        found_start[place + 1] = end
    return found, end


@njit(nogil=True, cache=True, forceinline=True)
def _find_entries(filters, links, ids, low, high, tree, skipped, row, seen_in, left, found, end):
    """The same of one set, added to what was found before `end`, which has room for all interfaces. Returns the
    new end. `seen_in` has the last row that has seen each interface, `left` is overwritten."""
    before = end
    needed = _all_needed(links, tree, skipped, row, seen_in, left)
    first, absent = tree << INTERFACE_BITS, ~signature_of(ids, low, high)
    if filters.counts[EMPTY] >= 0:
        one = filters.counts[EMPTY]
        needed, end = _take_new(filters, one, first, row, seen_in, left, needed, found, end)
    for i in range(low, high):
        if needed == np.uint64(0):
            break
        if np.uint64(filters.lists[ids[i]].mask) & needed == np.uint64(0):
            continue
        place = np.uint64(filters.lists[ids[i]].filed_at)
        last = place + np.uint64(filters.lists[ids[i]].n_filed)
        while True:
            place = _next_likely(filters.filed, place, last, needed, absent)
            if place == last:
                break
            one = np.int64(filters.filed[place].filter)
            ids_at, n_ids = filters.rows[one].ids_at, filters.rows[one].n_ids
            if is_within(filters.ids, ids_at, ids_at + n_ids, ids, low, high):
                needed, end = _take_new(filters, one, first, row, seen_in, left, needed, found, end)
            place += np.uint64(1)
    sort_some(found, before, end)
    return end


@njit(nogil=True, cache=True, forceinline=True)
def _next_likely(filed, place, last, needed, absent):
    """The next place of a filter that may have a needed entry, and may be without absent ids."""
    while place < last:
        if np.uint64(filed[place].mask) & needed and not filed[place].signature & absent:
            break
        place += np.uint64(1)
    return place


@njit(nogil=True, cache=True, forceinline=True)
def _all_needed(links, tree, skipped, row, seen_in, left):
    """The mask of all entries that a row needs; `left` gets how many of them have each bit."""
    if tree < 0 or tree >= len(links.masks):
        return np.uint64(0)
    for bit in range(MASK_BITS):
        left[bit] = links.n_by_bit[tree, bit]
    needed = links.masks[tree]
    low, end = links.start[tree], links.start[tree + 1]
    high = end
    while low < high:
        middle = (low + high) >> 1
        if links.interfaces[middle] < skipped:
            low = middle + 1
        else:
            high = middle
    if low < end and links.interfaces[low] == skipped:
        needed = _without(tree << INTERFACE_BITS, skipped, row, seen_in, left, needed)
    return needed


@njit(nogil=True, cache=True, forceinline=True)
def _without(first, interface, row, seen_in, left, needed):
    """The mask of what is needed when an interface of the row's tree has been seen."""
    seen_in[interface] = row
    bit = bit_of(first | interface)
    left[bit] -= 1
    return needed if left[bit] else needed & ~(np.uint64(1) << bit)


@njit(nogil=True, cache=True, forceinline=True)
def _take_new(filters, one, first, row, seen_in, left, needed, found, end):
    """Add the entries of a filter that this row has not seen; returns the mask of what is still
    needed, and the new end of what was found."""
    last = filters.rows[one].entries_at + filters.rows[one].n_entries
    place = entry_place(filters, one, first)
    while place < last and filters.entries[place] < first + len(seen_in):
        interface = filters.entries[place] - first
        place += 1
        if seen_in[interface] != row:
            needed = _without(first, interface, row, seen_in, left, needed)
            found[end] = interface
            end += 1
    return needed, end
