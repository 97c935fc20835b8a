"""Filters that come and go: distinct sets of ids, found by their subsets and their supersets.

A filter is a set of ids. Its *entries* say who has it: numbers in rising order, the same one as often as
it was added. Two lists for each id find filters:

    filed     each filter under one of its ids, that with the shortest list so far; who looks for
              subsets of a set reads the lists of the ids in that set, and no other filter
    members   each filter under all of its ids; who looks for supersets reads the shortest list

A filter whose last entry goes stays in the lists and is skipped there, and is the same filter when it
comes again. Kernels do not grow arrays: see `filter_room`, which also drops filters without entries.

Who looks for subsets with certain entries skips filters by a *mask* next to them in `filed`: 32 bits, in which
each entry of a filter has its bit set. The mask of a list has the bits of all filters that are filed there.
Entries share bits, and bits of entries that were dropped may stay.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.hashing import mix64, prefetch
from matchyard.kernels.subset import id_bits

# Places in `counts`: how much of each array is in use, and the filter without ids.
FILTERS, IDS, ENTRIES, FILED, MEMBERS, EMPTY, LIVING = range(7)
FIRST_ROOM = 2  # of a list or of the entries of a filter
_LOW = np.uint64(0xFFFFFFFF)
AHEAD = 8  # sets between asking for memory and needing it
NO_FILTER = -1
NO_PLACE = -1
INTERFACE_BITS = 20  # the lower bits of an entry; above them, the tree
MASK_BITS = 32

# What is needed together lies together, since each look at memory waits for it.
ROW = np.dtype(
    [
        ("signature", np.uint64),  # two bits for each id
        ("ids_at", np.int32),
        ("n_ids", np.int32),
        ("entries_at", np.int32),
        ("n_entries", np.int32),
        ("entries_room", np.int32),
        ("mark", np.int32),  # for whoever changes filters; 0 between changes
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
        ("n_coming", np.int32),  # while room is made; 0 else
        ("mask", np.uint32),  # of what is filed
    ]
)
FILED_ROW = np.dtype([("signature", np.uint64), ("filter", np.int32), ("mask", np.uint32)])


class Filters(NamedTuple):
    """The arrays; all but `counts` have room for more."""

    counts: NDArray[np.int64]  # [7] how much of them is in use
    slots: NDArray[
        np.uint64
    ]  # [n] a hash table: upper half of the hash, lower half filter + 1; 0: free
    rows: NDArray[Any]  # [n_filters] ROW
    ids: NDArray[np.int32]  # rising within a filter
    entries: NDArray[np.int32]  # rising within a filter
    lists: NDArray[Any]  # [n_ids] LISTS
    filed: NDArray[Any]  # FILED_ROW
    members: NDArray[np.int32]  # filters


def empty(n_filters: int, n_ids_used: int, n_entries: int, n_ids: int) -> Filters:
    """No filters, with room for so many that have so many ids and entries, of so many different ids."""
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


# -------------------------------------------------------------------- sets


@njit(nogil=True, cache=True)
def sort_some(values, low, high):
    """Sort some values in place; mostly they are few."""
    if high - low > 32:
        values[low:high] = np.sort(values[low:high])
        return
    for i in range(low + 1, high):
        value, j = values[i], i
        while j > low and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@njit(nogil=True, cache=True)
def sort_rows(start, ids):
    """Sort each row in place and drop repeats; returns the new offsets and ids."""
    new_start = np.empty(len(start), np.int64)
    new_start[0] = 0
    kept = np.empty(len(ids), np.int32)
    end = 0
    for row in range(len(start) - 1):
        low, high = start[row], start[row + 1]
        sort_some(ids, low, high)
        for i in range(low, high):
            if i == low or ids[i] != ids[i - 1]:
                kept[end] = ids[i]
                end += 1
        new_start[row + 1] = end
    return new_start, kept[:end]


@njit(nogil=True, cache=True)
def signature_of(ids, low, high):
    """Two bits for each id of a set."""
    signature = np.uint64(0)
    for i in range(low, high):
        signature |= id_bits(ids[i])
    return signature


@njit(nogil=True, cache=True)
def hash_rows(start, ids):
    """The hash of each set: see `find`."""
    codes = np.empty(len(start) - 1, np.uint64)
    for row in range(len(codes)):
        codes[row] = hash_of(ids, start[row], start[row + 1])
    return codes


@njit(nogil=True, cache=True)
def hash_of(ids, low, high):
    """The hash of one set."""
    code = np.uint64(high - low)
    for i in range(low, high):
        code = mix64(code ^ np.uint64(ids[i]))
    return mix64(code)


@njit(nogil=True, cache=True, forceinline=True)
def home(code, n_slots):
    """The first slot to look at."""
    return np.int64(((code & _LOW) * np.uint64(n_slots)) >> np.uint64(32))


@njit(nogil=True, cache=True)
def load_ahead(filters, order, place, start, ids, codes):
    """Ask for the memory that `find` and `who_covers` need for sets that come soon."""
    if place + AHEAD < len(order):
        row = order[place + AHEAD]
        prefetch(filters.slots, home(codes[row], len(filters.slots)))
        for i in range(start[row], start[row + 1]):
            prefetch(filters.lists, ids[i])
    if place + AHEAD // 2 < len(order):
        row = order[place + AHEAD // 2]
        slot = filters.slots[home(codes[row], len(filters.slots))]
        if slot != np.uint64(0):
            prefetch(filters.rows, np.int64(slot & _LOW) - 1)
        for i in range(start[row], start[row + 1]):
            if filters.lists[ids[i]].n_filed:
                prefetch(filters.filed, filters.lists[ids[i]].filed_at)


@njit(nogil=True, cache=True, forceinline=True)
def is_within(small, small_low, small_high, large, low, high):
    """Is every id of the first set in the second one? Both rise."""
    if small_high - small_low > high - low:
        return False
    for i in range(small_low, small_high):
        while low < high and large[low] < small[i]:
            low += 1
        if low == high or large[low] != small[i]:
            return False
        low += 1
    return True


@njit(nogil=True, cache=True, forceinline=True)
def find(filters, code, ids, low, high):
    """The filter that equals a set with that hash, or the complement of the free slot where it would
    go."""
    slots, upper = filters.slots, code >> np.uint64(32)
    place = home(code, len(slots))
    while slots[place] != np.uint64(0):
        if slots[place] >> np.uint64(32) == upper:
            found = np.int64(slots[place] & _LOW) - 1
            first, count = filters.rows[found].ids_at, filters.rows[found].n_ids
            if count == high - low and is_within(filters.ids, first, first + count, ids, low, high):
                return found
        place += 1
        if place == len(slots):
            place = 0
    return ~place


# -------------------------------------------------------------------- entries


@njit(nogil=True, cache=True, forceinline=True)
def entry_place(filters, one, entry):
    """Where the entries of a filter are no longer below this one."""
    low = np.int64(filters.rows[one].entries_at)
    high = low + filters.rows[one].n_entries
    while low < high:
        middle = (low + high) >> 1
        if filters.entries[middle] < entry:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True, forceinline=True)
def has_entry(filters, one, entry):
    """Does a filter have this entry?"""
    place = entry_place(filters, one, entry)
    end = filters.rows[one].entries_at + filters.rows[one].n_entries
    return place < end and filters.entries[place] == entry


@njit(nogil=True, cache=True, forceinline=True)
def drop_entry(filters, one, entry):
    """Remove one copy of an entry, which is there."""
    end = filters.rows[one].entries_at + filters.rows[one].n_entries
    for i in range(entry_place(filters, one, entry) + 1, end):
        filters.entries[i - 1] = filters.entries[i]
    filters.rows[one].n_entries -= 1
    if filters.rows[one].n_entries == 0:
        filters.counts[LIVING] -= 1


@njit(nogil=True, cache=True, forceinline=True)
def bit_of(entry):
    """The number of an entry's bit in masks: the last one for interface 0, which all trees share since most
    packets are looked at for its sake; others such that few interfaces of few trees have different ones."""
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
    """Make masks right for an entry that a filter is about to get. It is filed at `place`, under an id,
    as `who_covers` says; where that does not know, it is looked for."""
    if place == NO_PLACE:
        place, under = _filed_place(filters, one)
    if place == NO_PLACE:  # the filter without ids
        return
    row, lists, mask = filters.filed[place], filters.lists[under], mask_of(entry)
    kept = np.uint64(row.mask) if filters.rows[one].n_entries else np.uint64(0)
    row.mask = np.uint32(kept | mask)
    lists.mask = np.uint32(np.uint64(lists.mask) | mask)


@njit(nogil=True, cache=True)
def _filed_place(filters, one):
    """Where a filter is filed, and under which id."""
    first = np.int64(filters.rows[one].ids_at)
    for i in range(first, first + filters.rows[one].n_ids):
        under = np.int64(filters.ids[i])
        at, count = np.int64(filters.lists[under].filed_at), filters.lists[under].n_filed
        for place in range(at, at + count):
            if filters.filed[place].filter == one:
                return place, under
    return NO_PLACE, NO_PLACE


@njit(nogil=True, cache=True)
def add_entry(filters, found, code, ids, low, high, signature, entry):
    """Give a filter one more entry, and return it. `found` is what `find` says of its ids; arrays have
    room: see `filter_room`. The mask of a filter that is there already is right: see `widen_mask`."""
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
    place = entry_place(filters, found, entry)
    for i in range(row.entries_at + count, place, -1):
        filters.entries[i] = filters.entries[i - 1]
    filters.entries[place] = entry
    row.n_entries = count + 1
    if count == 0:
        filters.counts[LIVING] += 1
    return found


@njit(nogil=True, cache=True)
def insert(filters, slot, code, ids, low, high, signature, mask):
    """A new filter without entries, in its slot and in its lists, with the mask of entries to come."""
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
    """Add a filter to the members of an id; a full list moves to where it has twice the room."""
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
    """File a filter under an id; a full list moves to where it has twice the room."""
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
    """Which entries from `first` to `last` a filter has: `own`, and of others none, one or more.

    Adds to `seen`: has_own (0 or 1), others (0, 1 or 2 for more), and the one, counted from `first`.
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
    """Which entries from `first` to `last` filters have that are subsets of a set, but for the filter
    `itself`: into `seen`, as of `who_has`, and then where the search came by that filter: its place in
    `filed`, and the id. With `is_enough`, `own` alone is looked for to the end. Returns how many filters were
    compared."""
    seen[0], seen[1], seen[3] = 0, 0, NO_PLACE
    absent, n_compared = ~signature, 0
    none = filters.counts[EMPTY]
    if none >= 0 and none != itself:
        who_has(filters, none, first, last, own, seen)
    for i in range(low, high):
        start, count = filters.lists[ids[i]].filed_at, filters.lists[ids[i]].n_filed
        n_compared += count
        for place in range(start, start + count):
            if filters.filed[place].signature & absent != np.uint64(0):
                continue
            one = filters.filed[place].filter
            if one == itself:
                seen[3], seen[4] = place, ids[i]
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
def supersets(filters, ids, low, high, signature, first, last, found):
    """The filters that strictly contain a set and have an entry from `first` to `last`; returns the array,
    grown where needed, and how many there are."""
    n_found = 0
    shortest, n_shortest = -1, filters.counts[FILTERS]
    for i in range(low, high):
        if shortest < 0 or filters.lists[ids[i]].n_members < n_shortest:
            shortest, n_shortest = ids[i], filters.lists[ids[i]].n_members
    start = filters.lists[shortest].members_at if shortest >= 0 else 0
    for place in range(n_shortest):
        one = np.int64(filters.members[start + place]) if shortest >= 0 else np.int64(place)
        row = filters.rows[one]
        if row.signature & signature != signature or row.n_ids == high - low:
            continue
        if not is_within(ids, low, high, filters.ids, row.ids_at, row.ids_at + row.n_ids):
            continue
        at = entry_place(filters, one, first)
        if at == row.entries_at + row.n_entries or filters.entries[at] > last:
            continue
        if n_found == len(found):
            grown = np.empty(2 * n_found, np.int64)
            grown[:n_found] = found
            found = grown
        found[n_found] = one
        n_found += 1
    return found, n_found
