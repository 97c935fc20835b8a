"""A dynamic collection of filters (distinct sets of ids) with searches for subsets and supersets.

A filter is a set of ids. Its *entries* are numbers of its owners. They rise; an entry that was added
several times is stored as often. Each id has two lists of filters:

    filed     each filter is filed under one of its ids, the one with the shortest list at that time; a
              search for subsets of a set reads only the lists of the ids in that set
    members   each filter is a member under all of its ids; a search for supersets reads the shortest list

A filter without entries stays in the lists, where searches skip it; it gets entries again when the same set is
added. Kernels do not grow arrays: `filter_room` does, and also drops filters without entries.

Each filter has a *mask* next to it in `filed`: 32 bits, of which each entry sets one. A search for subsets with
certain entries skips filters by their masks. The mask of a list has the bits of all filters that are filed there.
Several entries may share a bit, and bits of dropped entries may stay.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.hashing import prefetch
from matchyard.kernels.routing.sets import is_within
from matchyard.kernels.search import first_at_least

# Positions in `counts`: the lengths in use of each array, the filter without ids, the filters with entries.
FILTERS, IDS, ENTRIES, FILED, MEMBERS, EMPTY, LIVING = range(7)
FIRST_ROOM = 2  # the first length of a list, or of the entries of a filter
_LOW = np.uint64(0xFFFFFFFF)
AHEAD = 8  # sets between the prefetch of memory and its use
NO_FILTER = -1
NO_PLACE = -1
INTERFACE_BITS = 20  # the lower bits of an entry; above them, the tree
MASK_BITS = 32

# Values that are used together lie together, because each access to memory takes long.
ROW = np.dtype(
    [
        ("signature", np.uint64),  # two bits for each id
        ("ids_at", np.int32),
        ("n_ids", np.int32),
        ("entries_at", np.int32),
        ("n_entries", np.int32),
        ("entries_room", np.int32),
        ("mark", np.int32),  # of an update in progress; 0 between updates
    ]
)
LISTS = np.dtype(
    [
        ("filed_at", np.int32),
        ("n_filed", np.int32),
        ("filed_room", np.int32),
        ("members_at", np.int32),
        ("n_members", np.int32),
        ("members_room", np.int32),
        ("n_coming", np.int32),  # used while room is made; 0 otherwise
        ("mask", np.uint32),  # the bits of all filed filters
    ]
)
FILED_ROW = np.dtype([("signature", np.uint64), ("filter", np.int32), ("mask", np.uint32)])


class Filters(NamedTuple):
    """The arrays of filters; all but `counts` have spare room."""

    counts: NDArray[np.int64]  # [7] lengths in use, by the names above
    slots: NDArray[np.uint64]  # [n] a hash table: upper half of the hash, filter + 1; 0: free
    rows: NDArray[Any]  # [n_filters] ROW
    ids: NDArray[np.int32]  # rising within a filter
    entries: NDArray[np.int32]  # rising within a filter
    lists: NDArray[Any]  # [n_ids] LISTS
    filed: NDArray[Any]  # FILED_ROW
    members: NDArray[np.int32]  # filters


def empty(n_filters: int, n_ids_used: int, n_entries: int, n_ids: int) -> Filters:
    """No filters, with room for `n_filters` that use `n_ids_used` ids in all; ids are below `n_ids`."""
    counts = np.zeros(7, np.int64)
    counts[EMPTY] = NO_FILTER
    return Filters(
        counts,
        np.zeros(max(8, n_filters + n_filters // 2), np.uint64),
        np.zeros(n_filters, ROW),
        np.empty(n_ids_used, np.int32),
        np.empty(n_entries, np.int32),
        np.zeros(n_ids, LISTS),
        np.zeros(2 * n_filters, FILED_ROW),
        np.empty(2 * n_ids_used, np.int32),
    )


# -------------------------------------------------------------------- hash table


@njit(nogil=True, cache=True, forceinline=True)
def home(code, n_slots):
    """The first slot to probe for a hash."""
    return np.int64(((code & _LOW) * np.uint64(n_slots)) >> np.uint64(32))


@njit(nogil=True, cache=True)
def load_ahead(filters, order, position, start, ids, codes):
    """Prefetch the memory that `find` and `who_covers` need for sets that come soon."""
    if position + AHEAD < len(order):
        row = order[position + AHEAD]
        prefetch(filters.slots, home(codes[row], len(filters.slots)))
        for i in range(start[row], start[row + 1]):
            prefetch(filters.lists, ids[i])
    if position + AHEAD // 2 < len(order):
        row = order[position + AHEAD // 2]
        slot = filters.slots[home(codes[row], len(filters.slots))]
        if slot != np.uint64(0):
            prefetch(filters.rows, np.int64(slot & _LOW) - 1)
        for i in range(start[row], start[row + 1]):
            if filters.lists[ids[i]].n_filed:
                prefetch(filters.filed, filters.lists[ids[i]].filed_at)


@njit(nogil=True, cache=True, forceinline=True)
def find(filters, code, ids, low, high):
    """The filter that equals a set with that hash, or the complement of the free slot for it."""
    slots, upper = filters.slots, code >> np.uint64(32)
    slot = home(code, len(slots))
    while slots[slot] != np.uint64(0):
        if slots[slot] >> np.uint64(32) == upper:
            candidate = np.int64(slots[slot] & _LOW) - 1
            first, count = filters.rows[candidate].ids_at, filters.rows[candidate].n_ids
            if count == high - low and is_within(filters.ids, first, first + count, ids, low, high):
                return candidate
        slot += 1
        if slot == len(slots):
            slot = 0
    return ~slot


# -------------------------------------------------------------------- entries


@njit(nogil=True, cache=True, forceinline=True)
def entry_place(filters, one, entry):
    """The position of the first entry of a filter that is not below this one."""
    low = np.int64(filters.rows[one].entries_at)
    return first_at_least(filters.entries, low, low + filters.rows[one].n_entries, entry)


@njit(nogil=True, cache=True, forceinline=True)
def has_entry(filters, one, entry):
    """True if a filter has this entry."""
    position = entry_place(filters, one, entry)
    end = filters.rows[one].entries_at + filters.rows[one].n_entries
    return position < end and filters.entries[position] == entry


@njit(nogil=True, cache=True, forceinline=True)
def drop_entry(filters, one, entry):
    """Remove one copy of an existing entry."""
    end = filters.rows[one].entries_at + filters.rows[one].n_entries
    for i in range(entry_place(filters, one, entry) + 1, end):
        filters.entries[i - 1] = filters.entries[i]
    filters.rows[one].n_entries -= 1
    if filters.rows[one].n_entries == 0:
        filters.counts[LIVING] -= 1


@njit(nogil=True, cache=True, forceinline=True)
def bit_of(entry):
    """The number of an entry's bit in masks.
    Interface 0 of all trees has the last bit to itself, because most look-ups need it. Other entries are spread
    over the rest, so that few interfaces of few trees have different bits."""
    interface = np.uint64(entry) & np.uint64((1 << INTERFACE_BITS) - 1)
    if interface == np.uint64(0):
        return np.uint64(MASK_BITS - 1)
    tree = np.uint64(entry) >> np.uint64(INTERFACE_BITS)
    return (np.uint64(7) * tree + interface - np.uint64(1)) % np.uint64(MASK_BITS - 1)


@njit(nogil=True, cache=True, forceinline=True)
def mask_of(entry):
    """The mask of one entry."""
    return np.uint64(1) << bit_of(entry)


@njit(nogil=True, cache=True)
def widen_mask(filters, one, place, under, entry):
    """Set the bit of an entry that a filter is about to get. The filter is filed at `place` under the id `under`.
    `who_covers` reports both; with NO_PLACE, they are searched."""
    if place == NO_PLACE:
        place, under = _filed_place(filters, one)
    if place == NO_PLACE:  # the filter without ids is not filed
        return
    row, lists, mask = filters.filed[place], filters.lists[under], mask_of(entry)
    kept = np.uint64(row.mask) if filters.rows[one].n_entries else np.uint64(0)
    row.mask = np.uint32(kept | mask)
    lists.mask = np.uint32(np.uint64(lists.mask) | mask)


@njit(nogil=True, cache=True)
def _filed_place(filters, one):
    """The position of a filter in `filed`, and its id there."""
    first = np.int64(filters.rows[one].ids_at)
    for i in range(first, first + filters.rows[one].n_ids):
        under = np.int64(filters.ids[i])
        at, count = np.int64(filters.lists[under].filed_at), filters.lists[under].n_filed
        for position in range(at, at + count):
            if filters.filed[position].filter == one:
                return position, under
    return NO_PLACE, NO_PLACE


@njit(nogil=True, cache=True)
def add_entry(filters, found, code, ids, low, high, signature, entry):
    """Add an entry to a filter and return the filter. `found` is the result of `find` for its ids.
    The arrays have room: see `filter_room`. For an existing filter, call `widen_mask` first."""
    if found < 0:
        found = insert(filters, ~found, code, ids, low, high, signature, mask_of(entry))
    row = filters.rows[found]
    count = row.n_entries
    if count == row.entries_room:
        first = filters.counts[ENTRIES]
        for i in range(count):
            filters.entries[first + i] = filters.entries[row.entries_at + i]
        row.entries_at, row.entries_room = first, max(FIRST_ROOM, 2 * count)
        filters.counts[ENTRIES] += row.entries_room
    position = entry_place(filters, found, entry)
    for i in range(row.entries_at + count, position, -1):
        filters.entries[i] = filters.entries[i - 1]
    filters.entries[position] = entry
    row.n_entries = count + 1
    if count == 0:
        filters.counts[LIVING] += 1
    return found


@njit(nogil=True, cache=True)
def insert(filters, slot, code, ids, low, high, signature, mask):
    """Insert a new filter without entries into its slot and its lists, with the mask of its future entries."""
    number, end = filters.counts[FILTERS], filters.counts[IDS]
    filters.counts[FILTERS] += 1
    filters.counts[IDS] += high - low
    filters.slots[slot] = (code >> np.uint64(32) << np.uint64(32)) | np.uint64(number + 1)
    row = filters.rows[number]
    row.signature, row.ids_at, row.n_ids = signature, end, high - low
    row.entries_at, row.n_entries, row.entries_room, row.mark = 0, 0, 0, 0
    if low == high:
        filters.counts[EMPTY] = number
        return number
    shortest = ids[low]
    for i in range(low, high):
        if filters.lists[ids[i]].n_filed < filters.lists[shortest].n_filed:
            shortest = ids[i]
        _add_member(filters, filters.lists[ids[i]], number)
        filters.ids[end] = ids[i]
        end += 1
    _file(filters, filters.lists[shortest], number, signature, mask)
    return number


@njit(nogil=True, cache=True)
def _add_member(filters, lists, number):
    """Add a filter to the members of an id; a full list moves to the end of the array and doubles."""
    if lists.n_members == lists.members_room:
        first = filters.counts[MEMBERS]
        for i in range(lists.n_members):
            filters.members[first + i] = filters.members[lists.members_at + i]
        lists.members_at, lists.members_room = first, max(FIRST_ROOM, 2 * lists.members_room)
        filters.counts[MEMBERS] += lists.members_room
    filters.members[lists.members_at + lists.n_members] = number
    lists.n_members += 1


@njit(nogil=True, cache=True)
def _file(filters, lists, number, signature, mask):
    """File a filter under an id; a full list moves to the end of the array and doubles."""
    if lists.n_filed == lists.filed_room:
        first = filters.counts[FILED]
        for i in range(lists.n_filed):
            filters.filed[first + i] = filters.filed[lists.filed_at + i]
        lists.filed_at, lists.filed_room = first, max(FIRST_ROOM, 2 * lists.filed_room)
        filters.counts[FILED] += lists.filed_room
    row = filters.filed[lists.filed_at + lists.n_filed]
    row.signature, row.filter, row.mask = signature, number, np.uint32(mask)
    lists.n_filed += 1
    lists.mask = np.uint32(np.uint64(lists.mask) | mask)


# -------------------------------------------------------------------- searches


@njit(nogil=True, cache=True, forceinline=True)
def who_has(filters, one, first, last, own, seen):
    """Find out which entries from `first` to `last` a filter has: `own`, and none, one or more others.

    Adds to `seen`: [0] 1 for `own`; [1] 0, 1, or 2 for several others; [2] a single other, counted from `first`.
    """
    at = entry_place(filters, one, first)
    end = filters.rows[one].entries_at + filters.rows[one].n_entries
    while at < end and filters.entries[at] <= last:
        entry = filters.entries[at]
        if entry == own:
            seen[0] = 1
        elif seen[1] == 0:
            seen[1], seen[2] = 1, entry - first
        elif entry - first != seen[2]:
            seen[1] = 2
            if has_entry(filters, one, own):
                seen[0] = 1
            return
        at += 1


@njit(nogil=True, cache=True)
def who_covers(filters, itself, ids, low, high, signature, first, last, own, is_enough, seen):
    """Find out which entries from `first` to `last` the subsets of a set have, except the filter `itself`.
    Writes to `seen`: [0] to [2] as `who_has`; [3] and [4] the position of `itself` in `filed` and its id, if the
    search met it. With `is_enough`, the search ends when it has seen `own`. Returns the number of filters compared."""
    seen[0], seen[1], seen[3] = 0, 0, NO_PLACE
    absent, n_compared = ~signature, 0
    none = filters.counts[EMPTY]
    if none >= 0 and none != itself:
        who_has(filters, none, first, last, own, seen)
    for i in range(low, high):
        start, count = filters.lists[ids[i]].filed_at, filters.lists[ids[i]].n_filed
        n_compared += count
        for position in range(start, start + count):
            if filters.filed[position].signature & absent != np.uint64(0):
                continue
            one = filters.filed[position].filter
            if one == itself:
                seen[3], seen[4] = position, ids[i]
                continue
            row = filters.rows[one]
            if row.n_entries == 0:
                continue
            if is_within(filters.ids, row.ids_at, row.ids_at + row.n_ids, ids, low, high):
                who_has(filters, one, first, last, own, seen)
                if seen[0] and is_enough:
                    return n_compared
    return n_compared


@njit(nogil=True, cache=True)
def supersets(filters, ids, low, high, signature, first, last, rows):
    """Find the filters that strictly contain a set and have an entry from `first` to `last`.
    Returns the buffer, grown if needed, and the number of filters in it."""
    n_rows = 0
    shortest, n_shortest = -1, filters.counts[FILTERS]
    for i in range(low, high):
        if shortest < 0 or filters.lists[ids[i]].n_members < n_shortest:
            shortest, n_shortest = ids[i], filters.lists[ids[i]].n_members
    start = filters.lists[shortest].members_at if shortest >= 0 else 0
    for position in range(n_shortest):
        one = np.int64(filters.members[start + position]) if shortest >= 0 else np.int64(position)
        row = filters.rows[one]
        if row.signature & signature != signature or row.n_ids == high - low:
            continue
        if not is_within(ids, low, high, filters.ids, row.ids_at, row.ids_at + row.n_ids):
            continue
        at = entry_place(filters, one, first)
        if at == row.entries_at + row.n_entries or filters.entries[at] > last:
            continue
        if n_rows == len(rows):
            grown = np.empty(2 * n_rows, np.int64)
            grown[:n_rows] = rows
            rows = grown
        rows[n_rows] = one
        n_rows += 1
    return rows, n_rows
