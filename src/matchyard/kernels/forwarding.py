"""Who wants a packet: the entries of all filters that are within its ids, each entry once."""

import numpy as np
from numba import njit

from matchyard.kernels.filters import EMPTY, entry_place, is_within, signature_of, sort_some


@njit(nogil=True, cache=True)
def entries_within(filters, start, ids, first, width, skipped):
    """Of each set, the entries that some filter within it has, from `first[set]` on, less than `width`
    farther, but for `skipped[set]`: (start, entries), counted from `first`, in rising order."""
    n_sets = len(start) - 1
    found_start = np.zeros(n_sets + 1, np.int64)
    found, n_found = np.empty(max(16, 2 * n_sets), np.int32), 0
    seen_in = np.full(width, -1, np.int32)
    none = filters.counts[EMPTY]
    for row in range(n_sets):
        low, high, before = start[row], start[row + 1], n_found
        absent = ~signature_of(ids, low, high)
        if none >= 0:
            found, n_found = _take_new(
                filters, none, first[row], skipped[row], row, seen_in, found, n_found
            )
        for i in range(low, high):
            at, count = filters.lists[ids[i]].filed_at, filters.lists[ids[i]].n_filed
            for place in range(at, at + count):
                if filters.filed[place].signature & absent != np.uint64(0):
                    continue
                one = np.int64(filters.filed[place].filter)
                ids_at, n_ids = filters.rows[one].ids_at, filters.rows[one].n_ids
                if is_within(filters.ids, ids_at, ids_at + n_ids, ids, low, high):
                    found, n_found = _take_new(
                        filters, one, first[row], skipped[row], row, seen_in, found, n_found
                    )
        sort_some(found, before, n_found)
        found_start[row + 1] = n_found
    return found_start, found[:n_found]


@njit(nogil=True, cache=True)
def _take_new(filters, one, first, skipped, row, seen_in, found, n_found):
    """Add the entries of a filter that this row has not seen; returns the array, grown where needed,
    and how many there are."""
    end = filters.rows[one].entries_at + filters.rows[one].n_entries
    place = entry_place(filters, one, first)
    while place < end and filters.entries[place] < first + len(seen_in):
        entry = filters.entries[place] - first
        place += 1
        if seen_in[entry] == row or entry == skipped:
            continue
        seen_in[entry] = row
        if n_found == len(found):
            grown = np.empty(2 * n_found, np.int32)
            grown[:n_found] = found
            found = grown
        found[n_found] = entry
        n_found += 1
    return found, n_found
