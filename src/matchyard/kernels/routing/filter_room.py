"""Room for filters: growing their arrays before a change, and dropping filters without entries.

Kernels do not check that arrays have room. So an upper bound of the need of a change is counted first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.errors import StorageError, UsageError
from matchyard.kernels.csr import LARGEST_OFFSET
from matchyard.kernels.hashing import prefetch
from matchyard.kernels.routing.filters import (
    AHEAD,
    ENTRIES,
    FILED,
    FILTERS,
    FIRST_ROOM,
    IDS,
    LIVING,
    MEMBERS,
    Filters,
    empty,
    find,
    home,
    insert,
    mask_of,
)
from matchyard.kernels.routing.sets import hash_of, hash_rows, signature_of


def with_room(
    filters: Filters,
    n_ids: int,
    start: NDArray[np.int64],
    ids: NDArray[np.int32],
    codes: NDArray[np.uint64],
) -> Filters:
    """The filters with room for these sets and one more entry for each; there are `n_ids` different ids.
    `codes` are the hashes of the sets."""
    if n_ids > len(filters.lists):
        filters = filters._replace(lists=_longer(filters.lists, n_ids, len(filters.lists)))
    return _grown(filters, *_needed(filters, start, ids, codes).tolist())


def _grown(
    filters: Filters, n_more: int, n_ids: int, n_entries: int, n_filed: int, n_members: int
) -> Filters:
    counts = filters.counts
    grown = {
        name: _longer(getattr(filters, name), int(counts[index]) + more, int(counts[index]))
        for name, index, more in (
            ("rows", FILTERS, n_more),
            ("ids", IDS, n_ids),
            ("entries", ENTRIES, n_entries),
            ("filed", FILED, n_filed),
            ("members", MEMBERS, n_members),
        )
    }
    if grown["rows"] is not filters.rows:
        grown["slots"] = np.zeros(3 * len(grown["rows"]) // 2, np.uint64)
        _fill_slots(grown["slots"], filters.rows, filters.ids, int(counts[FILTERS]))
    return filters._replace(**grown)


def _longer(array: NDArray[Any], n_needed: int, n_used: int) -> NDArray[Any]:
    """An array with at least `n_needed` elements; if it has to grow, it at least doubles."""
    if n_needed > LARGEST_OFFSET:
        raise UsageError("more than 2^31 ids or entries of filters at one router")
    if n_needed <= len(array):
        return array
    longer = np.zeros(max(n_needed, min(2 * len(array), LARGEST_OFFSET)), array.dtype)
    longer[:n_used] = array[:n_used]
    return longer


def compacted(filters: Filters) -> Filters:
    """The filters that have entries, in new arrays with little spare room."""
    rows = filters.rows[: filters.counts[FILTERS]]
    is_living = rows["n_entries"] > 0
    start, ids = sets_of(filters, np.flatnonzero(is_living))
    pairs, entries = entry_pairs(filters)
    return loaded(start, ids, (np.cumsum(is_living) - 1)[pairs], entries, len(filters.lists))


def sets_of(
    filters: Filters, some: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The sets of some filters: (start, ids)."""
    return _sets_of(filters.rows, filters.ids, some)


def loaded(
    start: NDArray[np.int64],
    ids: NDArray[np.int32],
    pairs: NDArray[np.int64],
    entries: NDArray[np.int32],
    n_ids: int,
) -> Filters:
    """Filters from distinct sets and their entries, as rising pairs of set and entry."""
    n_sets = len(start) - 1
    filters = empty(max(1, n_sets), max(1, len(ids)), max(1, len(entries)), n_ids)
    _lay_out_members(filters, ids)
    step = 1 << 16
    for low in range(0, n_sets, step):
        some = start[low : low + step + 1]
        codes = hash_rows(some, ids)
        filters = with_room(filters, n_ids, some, ids, codes)
        if not _load(filters, some, ids, codes):
            raise StorageError("a filter is stored twice")
    _load_entries(filters, np.bincount(pairs, minlength=n_sets), entries)
    _fill_masks(filters)
    return filters


def entry_pairs(filters: Filters) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """All rising pairs of filter and entry: (filters, entries)."""
    rows = filters.rows[: filters.counts[FILTERS]]
    return _entry_pairs(rows, filters.entries, int(rows["n_entries"].sum()))


@njit(nogil=True, cache=True)
def _sets_of(rows, ids, some):
    start = np.zeros(len(some) + 1, np.int64)
    for i in range(len(some)):
        start[i + 1] = start[i] + rows[some[i]].n_ids
    taken = np.empty(start[-1], np.int32)
    for i in range(len(some)):
        source = rows[some[i]].ids_at
        for j in range(start[i + 1] - start[i]):
            taken[start[i] + j] = ids[source + j]
    return start, taken


@njit(nogil=True, cache=True)
def _entry_pairs(rows, entries, n_pairs):
    of_filter, values = np.empty(n_pairs, np.int64), np.empty(n_pairs, np.int32)
    end = 0
    for one in range(len(rows)):
        for i in range(rows[one].n_entries):
            of_filter[end], values[end] = one, entries[rows[one].entries_at + i]
            end += 1
    return of_filter, values


@njit(nogil=True, cache=True)
def _needed(filters, start, ids, codes):
    """Upper bounds of the filters, ids, entries, filed rows and members that these sets add."""
    needed, numbers = np.zeros(5, np.int64), np.empty(len(codes), np.int64)
    lists = filters.lists
    for i in range(start[0], start[-1]):
        if i + 4 * AHEAD < start[-1]:
            prefetch(lists, ids[i + 4 * AHEAD])
        lists[ids[i]].n_coming += 1
    for i in range(start[0], start[-1]):
        row = lists[ids[i]]
        if row.n_coming:
            needed[3] += _room_for(row.n_filed + row.n_coming, row.filed_room)
            needed[4] += _room_for(row.n_members + row.n_coming, row.members_room)
            row.n_coming = 0
    for row in range(len(start) - 1):
        if row + AHEAD < len(codes):
            prefetch(filters.slots, home(codes[row + AHEAD], len(filters.slots)))
        one = find(filters, codes[row], ids, start[row], start[row + 1])
        numbers[row] = one
        if one < 0:
            needed[0] += 1
            needed[1] += start[row + 1] - start[row]
            needed[2] += 2 * FIRST_ROOM  # covers each copy of a new set
        else:
            filters.rows[one].mark += 1
    for one in numbers:
        if one >= 0 and filters.rows[one].mark:
            row = filters.rows[one]
            needed[2] += _room_for(row.n_entries + row.mark, row.entries_room)
            row.mark = 0
    return needed


@njit(nogil=True, cache=True)
def _room_for(count, room):
    """The elements that a list takes of its array while it grows to `count`."""
    taken = 0
    while room < count:
        room = max(FIRST_ROOM, 2 * room)
        taken += room
    return taken


@njit(nogil=True, cache=True)
def _fill_slots(slots, rows, ids, n_filters):
    """Fill a hash table with the first `n_filters` filters."""
    for one in range(n_filters):
        code = hash_of(ids, rows[one].ids_at, rows[one].ids_at + rows[one].n_ids)
        slot = home(code, len(slots))
        while slots[slot] != np.uint64(0):
            slot += 1
            if slot == len(slots):
                slot = 0
        slots[slot] = (code >> np.uint64(32) << np.uint64(32)) | np.uint64(one + 1)


@njit(nogil=True, cache=True)
def _lay_out_members(filters, ids):
    """Lay out the lists of members with exactly the room for these ids."""
    for i in range(len(ids)):
        filters.lists[ids[i]].members_room += 1
    end = 0
    for number in range(len(filters.lists)):
        filters.lists[number].members_at = end
        end += filters.lists[number].members_room
    filters.counts[MEMBERS] = end


@njit(nogil=True, cache=True)
def _load(filters, start, ids, codes):
    """Insert sets without entries; True if all are new."""
    for row in range(len(codes)):
        begin, end = start[row], start[row + 1]
        slot = ~find(filters, codes[row], ids, begin, end)
        if slot < 0:
            return False
        signature = signature_of(ids, begin, end)
        insert(filters, slot, codes[row], ids, begin, end, signature, np.uint64(0))
    return True


@njit(nogil=True, cache=True)
def _load_entries(filters, counts, entries):
    filters.entries[: len(entries)] = entries
    end = 0
    for one in range(len(counts)):
        row = filters.rows[one]
        row.entries_at, row.n_entries, row.entries_room = end, counts[one], counts[one]
        end += counts[one]
        filters.counts[LIVING] += counts[one] > 0
    filters.counts[ENTRIES] = end


@njit(nogil=True, cache=True)
def _fill_masks(filters):
    """Compute the masks of all filters and lists from their entries."""
    for number in range(len(filters.lists)):
        at, count = filters.lists[number].filed_at, filters.lists[number].n_filed
        of_list = np.uint64(0)
        for position in range(at, at + count):
            row, mask = filters.rows[filters.filed[position].filter], np.uint64(0)
            for i in range(row.entries_at, row.entries_at + row.n_entries):
                mask |= mask_of(filters.entries[i])
            filters.filed[position].mask = np.uint32(mask)
            of_list |= mask
        filters.lists[number].mask = np.uint32(of_list)
