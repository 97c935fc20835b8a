"""The changes that an update makes at a router, and the resulting news for its neighbours.

An update adds and removes filters of one interface on one tree. A neighbour knows a filter if some interface
other than the neighbour's has the filter, and no interface other than the neighbour's has a strict subset of
it. So a filter is known to no neighbour, to all neighbours, to all but one, or to only one. The kernels count
two kinds of interfaces, other than the one of the update:

    holders   have the filter           none, one, or more
    covers    have a strict subset      none, one, or more

News are not sent back to the interface of the update, nor to local applications. A neighbour that gets a filter
drops the supersets of that filter by itself, so these are not sent as removals.

    remove    remove filters; remember the ones that neighbours know
    uncover   find the supersets that the removed filters have hidden
    add       store filters; drop their supersets on the same interface; report them
    settle    report filters that are gone, and filters that are no longer hidden

All steps are one call, so that Ctrl-C cannot interrupt an update half-way.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.routing.filters import (
    FILTERS,
    NO_FILTER,
    add_entry,
    drop_entry,
    find,
    has_entry,
    load_ahead,
    supersets,
    who_covers,
    who_has,
    widen_mask,
)
from matchyard.kernels.routing.sets import signature_of


class Sets(NamedTuple):
    """Sets and the order in which they are processed."""

    order: NDArray[np.int64]
    start: NDArray[np.int64]  # [n + 1]
    ids: NDArray[np.int32]  # rising within a set
    codes: NDArray[np.uint64]  # the hash of each: see `sets.hash_rows`


# A row of news: filter, GONE or CAME, the receivers (ALL, ALL_BUT or ONLY), and their interface.
GONE, CAME = -1, 1
ALL, ALL_BUT, ONLY = 0, 1, 2
# Marks of filters during an update.
_REMOVED, _HIDDEN = 1, 2


@njit(nogil=True, cache=True)
def apply(filters, gone, came, first, last, own):
    """Apply an update from the interface with the entry `own`; `first` to `last` are the entries of its tree.
    `gone` is ordered by falling size and `came` by rising size; `filters` has room for `came`. Returns the news,
    and the filters that the interface has gained or lost; a filter may occur several times."""
    told, changed = _remove(filters, gone, first, last, own)
    hidden = _uncover(filters, told, first, last, own)
    news = np.empty((16, 4), np.int32)
    news, n_news, stored = _add(filters, came, first, last, own, news)
    news, n_news = _settle(filters, told, hidden, first, last, own, news, n_news)
    return news[:n_news], np.concatenate((changed, stored))


@njit(nogil=True, cache=True)
def _tell(news, n_news, one, what, whom, interface):
    """Append a row of news; return the array, grown if needed, and the number of rows."""
    if whom == ONLY and interface == 0:  # local applications get no news
        return news, n_news
    if n_news == len(news):
        grown = np.empty((2 * n_news, 4), np.int32)
        grown[:n_news] = news
        news = grown
    row = news[n_news]
    row[0], row[1], row[2], row[3] = one, what, whom, interface
    return news, n_news + 1


@njit(nogil=True, cache=True)
def _remove(filters, gone, first, last, own):
    """Remove filters of an interface, the largest first.
    Returns rows (filter, covers, single cover) of the filters that neighbours know, and all removed filters."""
    order, start, ids, codes = gone
    told = np.empty((len(order), 3), np.int64)
    changed, n_changed = np.empty(len(order), np.int64), 0
    seen = np.zeros(5, np.int64)
    n_told = 0
    for position in range(len(order)):
        load_ahead(filters, order, position, start, ids, codes)
        row = order[position]
        low, high = start[row], start[row + 1]
        one = find(filters, codes[row], ids, low, high)
        if one < 0 or not has_entry(filters, one, own):
            continue
        drop_entry(filters, one, own)
        if has_entry(filters, one, own):  # another local application wants it, too
            continue
        changed[n_changed] = one
        n_changed += 1
        signature = filters.rows[one].signature
        who_covers(filters, one, ids, low, high, signature, first, last, own, True, seen)
        if seen[0] or seen[1] == 2:  # covered for all: no neighbour knows it
            continue
        filters.rows[one].mark = _REMOVED
        told[n_told, 0], told[n_told, 1], told[n_told, 2] = one, seen[1], seen[2]
        n_told += 1
    return told[:n_told], changed[:n_changed]


@njit(nogil=True, cache=True)
def _uncover(filters, told, first, last, own):
    """Find the supersets of removed filters on this tree: neighbours may not know them yet."""
    hidden, n_hidden = np.empty(16, np.int64), 0
    larger = np.empty(64, np.int64)
    seen = np.zeros(5, np.int64)
    for row in range(len(told)):
        one = told[row, 0]
        seen[0], seen[1] = 0, 0
        who_has(filters, one, first, last, own, seen)
        if seen[1] == 2:  # several others have it, so that all neighbours keep it
            continue
        low = filters.rows[one].ids_at
        high = low + filters.rows[one].n_ids
        signature = filters.rows[one].signature
        larger, n_larger = supersets(
            filters, filters.ids, low, high, signature, first, last, larger
        )
        for i in range(n_larger):
            if filters.rows[larger[i]].mark:
                continue
            filters.rows[larger[i]].mark = _HIDDEN
            if n_hidden == len(hidden):
                grown = np.empty(2 * n_hidden, np.int64)
                grown[:n_hidden] = hidden
                hidden = grown
            hidden[n_hidden] = larger[i]
            n_hidden += 1
    return hidden[:n_hidden]


@njit(nogil=True, cache=True)
def _add(filters, came, first, last, own, news):
    """Store filters at an interface, the smallest first.
    Returns the news, and the filters that the interface has gained or lost. The interface of local applications,
    which has the entry `first`, keeps every filter."""
    order, start, ids, codes = came
    is_local, n_news = own == first, 0
    changed, n_changed = np.empty(max(1, len(order)), np.int64), 0
    seen, holders = np.zeros(5, np.int64), np.zeros(3, np.int64)
    larger = np.empty(64, np.int64)
    for position in range(len(order)):
        load_ahead(filters, order, position, start, ids, codes)
        row = order[position]
        low, high = start[row], start[row + 1]
        one = find(filters, codes[row], ids, low, high)
        is_there = one >= 0 and has_entry(filters, one, own)
        if is_there and not is_local:
            continue
        signature = signature_of(ids, low, high)
        if not is_there:
            who_covers(filters, one, ids, low, high, signature, first, last, own, True, seen)
            if seen[0] and not is_local:  # the interface has a subset: nothing changes
                continue
        holders[0], holders[1] = 0, 0
        if one >= 0:
            who_has(filters, one, first, last, own, holders)
        if one >= 0 and not is_there:
            widen_mask(filters, one, seen[3], seen[4], own)
        one = add_entry(filters, one, codes[row], ids, low, high, signature, own)
        if is_there:
            continue
        n_larger = 0
        if not is_local:
            larger, n_larger = supersets(filters, ids, low, high, signature, own, own, larger)
        if n_changed + n_larger + 1 > len(changed):
            grown = np.empty(2 * (n_changed + n_larger + 1), np.int64)
            grown[:n_changed] = changed[:n_changed]
            changed = grown
        for i in range(n_larger):
            drop_entry(filters, larger[i], own)
            changed[n_changed + i] = larger[i]
        changed[n_changed + n_larger] = one
        n_changed += n_larger + 1
        # Skip a filter that a local application covers, or that `_settle` reports.
        if seen[0] or filters.rows[one].mark:
            continue
        news, n_news = _tell_of_new(news, n_news, one, holders, seen)
    return news, n_news, changed[:n_changed]


@njit(nogil=True, cache=True)
def _tell_of_new(news, n_news, one, holders, covers):
    """Report a new filter to the neighbours that did not know it."""
    if holders[1] == 0 and covers[1] == 0:
        return _tell(news, n_news, one, CAME, ALL, 0)
    if holders[1] == 0 and covers[1] == 1:
        return _tell(news, n_news, one, CAME, ONLY, covers[2])
    if holders[1] == 1 and (covers[1] == 0 or (covers[1] == 1 and covers[2] == holders[2])):
        return _tell(news, n_news, one, CAME, ONLY, holders[2])
    return news, n_news


@njit(nogil=True, cache=True)
def _settle(filters, told, hidden, first, last, own, news, n_news):
    """Report filters that are gone or no longer hidden after all changes, and clear the marks."""
    covers, holders = np.zeros(5, np.int64), np.zeros(3, np.int64)
    for row in range(len(told)):
        one = told[row, 0]
        filters.rows[one].mark = 0
        if has_entry(filters, one, own) or _look(filters, one, first, last, own, covers, holders):
            continue  # it came back, or a new subset makes neighbours drop it
        if holders[1] == 0 and told[row, 1] == 0:
            news, n_news = _tell(news, n_news, one, GONE, ALL, 0)
        elif holders[1] == 0:
            news, n_news = _tell(news, n_news, one, GONE, ONLY, told[row, 2])
        elif holders[1] == 1 and (told[row, 1] == 0 or told[row, 2] == holders[2]):
            news, n_news = _tell(news, n_news, one, GONE, ONLY, holders[2])
    for one in hidden:
        filters.rows[one].mark = 0
        if _look(filters, one, first, last, own, covers, holders) or covers[1] == 2:
            continue
        is_own = holders[0] == 1
        if covers[1] == 1:
            if is_own or holders[1] == 2 or (holders[1] == 1 and holders[2] != covers[2]):
                news, n_news = _tell(news, n_news, one, CAME, ONLY, covers[2])
        elif is_own or holders[1] == 2:
            news, n_news = _tell(news, n_news, one, CAME, ALL, 0)
        elif holders[1] == 1:
            news, n_news = _tell(news, n_news, one, CAME, ALL_BUT, holders[2])
    return news, n_news


@njit(nogil=True, cache=True)
def _look(filters, one, first, last, own, covers, holders):
    """Compute the covers and holders of a filter; True if the own interface has a strict subset."""
    low = filters.rows[one].ids_at
    high = low + filters.rows[one].n_ids
    signature = filters.rows[one].signature
    who_covers(filters, one, filters.ids, low, high, signature, first, last, own, True, covers)
    holders[0], holders[1] = 0, 0
    who_has(filters, one, first, last, own, holders)
    return covers[0] == 1


@njit(nogil=True, cache=True)
def told_to(filters, first, last, neighbour):
    """All filters that a neighbour knows."""
    covers, holders = np.zeros(5, np.int64), np.zeros(3, np.int64)
    n_known = 0
    known = np.empty(filters.counts[FILTERS], np.int64)
    for one in range(len(known)):
        if filters.rows[one].n_entries == 0:
            continue
        holders[0], holders[1] = 0, 0
        who_has(filters, one, first, last, neighbour, holders)
        if holders[1] == 0:
            continue
        low = filters.rows[one].ids_at
        high = low + filters.rows[one].n_ids
        signature = filters.rows[one].signature
        who_covers(
            filters, one, filters.ids, low, high, signature, first, last, neighbour, False, covers
        )
        if covers[1] == 0:
            known[n_known] = one
            n_known += 1
    return known[:n_known]


@njit(nogil=True, cache=True)
def are_covered(filters, asked, own):
    """True for each set that a filter of an interface covers; and the number of filters compared."""
    order, start, ids, codes = asked
    covered = np.zeros(len(start) - 1, np.bool_)
    seen = np.zeros(5, np.int64)
    n_compared = 0
    for row in range(len(covered)):
        load_ahead(filters, order, row, start, ids, codes)
        signature = signature_of(ids, start[row], start[row + 1])
        n_compared += who_covers(
            filters,
            NO_FILTER,
            ids,
            start[row],
            start[row + 1],
            signature,
            own,
            own,
            own,
            True,
            seen,
        )
        covered[row] = seen[0]
    return covered, n_compared


@njit(nogil=True, cache=True)
def are_held(filters, some, own):
    """True for each filter that an interface has."""
    held = np.zeros(len(some), np.bool_)
    for i in range(len(some)):
        held[i] = has_entry(filters, some[i], own)
    return held
