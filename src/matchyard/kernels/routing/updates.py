"""What an update changes at a router, and what the router must tell its neighbours then.

An update has filters that come and filters that go, all from one interface on one tree. A neighbour
is told of a filter when some interface other than its own has that filter, and no interface other
than its own has a strict subset. So one filter is told to nobody, to all neighbours, to all but one, or
to one alone. In the words of the kernels, of all interfaces but the one that the update came from:

    holders   have the filter           none, one, or more
    covers    have a strict subset      none, one, or more

No update is sent back to where it came from, nor to local applications. A neighbour that gets a
filter drops the supersets of that filter by itself, so these are not sent as removals.

    remove    take filters away; remember those that neighbours know
    uncover   look for supersets that these have hidden
    add       store filters; drop their supersets on the same interface; tell of them
    settle    tell of what is gone for good, and of what is no longer hidden

All of it is one call, so that Ctrl-C finds an update applied or not.
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
    signature_of,
    supersets,
    who_covers,
    who_has,
    widen_mask,
)


class Sets(NamedTuple):
    """Sets in the order in which they are to be taken."""

    order: NDArray[np.int64]
    start: NDArray[np.int64]  # [n + 1]
    ids: NDArray[np.int32]  # rising within a set
    codes: NDArray[np.uint64]  # the hash of each: see `filters.hash_rows`


# A row of news: filter, GONE or CAME, to whom, and which interface that is.
GONE, CAME = -1, 1
ALL, ALL_BUT, ONLY = 0, 1, 2
# Marks of filters while an update is applied.
_REMOVED, _HIDDEN = 1, 2


@njit(nogil=True, cache=True)
def apply(filters, gone, came, first, last, own):
    """Apply an update from the interface with the entry `own`; `first` to `last` are the entries of its
    tree. What is gone is ordered from the largest set on, what came from the smallest on, and `filters`
    has room for the latter. Returns the news, and the filters that the interface has had or has now, which
    may have come and gone several times."""
    told, changed = _remove(filters, gone, first, last, own)
    hidden = _uncover(filters, told, first, last, own)
    news = np.empty((16, 4), np.int32)
    news, n_news, stored = _add(filters, came, first, last, own, news)
    news, n_news = _settle(filters, told, hidden, first, last, own, news, n_news)
    return news[:n_news], np.concatenate((changed, stored))


@njit(nogil=True, cache=True)
def _tell(news, n_news, one, what, whom, interface):
    """One more row of news; returns the array, grown where needed, and how many rows there are."""
    if whom == ONLY and interface == 0:  # local applications ask for nothing to be sent on
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
    """Take filters off an interface, the largest first. Returns rows (filter, covers, which one) of those
    that neighbours know, and all that the interface no longer has."""
    order, start, ids, codes = gone
    told = np.empty((len(order), 3), np.int64)
    changed, n_changed = np.empty(len(order), np.int64), 0
    seen = np.zeros(5, np.int64)
    n_told = 0
    for place in range(len(order)):
        load_ahead(filters, order, place, start, ids, codes)
        row = order[place]
        low, high = start[row], start[row + 1]
        one = find(filters, codes[row], ids, low, high)
        if one < 0 or not has_entry(filters, one, own):
            continue
        drop_entry(filters, one, own)
        if has_entry(filters, one, own):  # another application wants the same
            continue
        changed[n_changed] = one
        n_changed += 1
        signature = filters.rows[one].signature
        who_covers(filters, one, ids, low, high, signature, first, last, own, True, seen)
        if seen[0] or seen[1] == 2:  # no neighbour knows it
            continue
        filters.rows[one].mark = _REMOVED
        told[n_told, 0], told[n_told, 1], told[n_told, 2] = one, seen[1], seen[2]
        n_told += 1
    return told[:n_told], changed[:n_changed]


@njit(nogil=True, cache=True)
def _uncover(filters, told, first, last, own):
    """The supersets on this tree of filters that are gone: neighbours may have to be told of them."""
    hidden, n_hidden = np.empty(16, np.int64), 0
    found = np.empty(64, np.int64)
    seen = np.zeros(5, np.int64)
    for row in range(len(told)):
        one = told[row, 0]
        seen[0], seen[1] = 0, 0
        who_has(filters, one, first, last, own, seen)
        if seen[1] == 2:  # others have it still, so that all neighbours keep it
            continue
        low = filters.rows[one].ids_at
        high = low + filters.rows[one].n_ids
        signature = filters.rows[one].signature
        found, n_found = supersets(filters, filters.ids, low, high, signature, first, last, found)
        for i in range(n_found):
            if filters.rows[found[i]].mark:
                continue
            filters.rows[found[i]].mark = _HIDDEN
            if n_hidden == len(hidden):
                grown = np.empty(2 * n_hidden, np.int64)
                grown[:n_hidden] = hidden
                hidden = grown
            hidden[n_hidden] = found[i]
            n_hidden += 1
    return hidden[:n_hidden]


@njit(nogil=True, cache=True)
def _add(filters, came, first, last, own, news):
    """Store filters at an interface, the smallest first. Returns the news, and the filters that it
    has now and had not, or had and has not. The interface of local applications, which is the first one, keeps
    everything."""
    order, start, ids, codes = came
    is_local, n_news = own == first, 0
    changed, n_changed = np.empty(max(1, len(order)), np.int64), 0
    seen, holders = np.zeros(5, np.int64), np.zeros(3, np.int64)
    found = np.empty(64, np.int64)
    for place in range(len(order)):
        load_ahead(filters, order, place, start, ids, codes)
        row = order[place]
        low, high = start[row], start[row + 1]
        one = find(filters, codes[row], ids, low, high)
        is_there = one >= 0 and has_entry(filters, one, own)
        if is_there and not is_local:
            continue
        signature = signature_of(ids, low, high)
        if not is_there:
            who_covers(filters, one, ids, low, high, signature, first, last, own, True, seen)
            if seen[0] and not is_local:  # covered: nothing changes
                continue
        holders[0], holders[1] = 0, 0
        if one >= 0:
            who_has(filters, one, first, last, own, holders)
        if one >= 0 and not is_there:
            widen_mask(filters, one, seen[3], seen[4], own)
        one = add_entry(filters, one, codes[row], ids, low, high, signature, own)
        if is_there:
            continue
        n_found = 0
        if not is_local:
            found, n_found = supersets(filters, ids, low, high, signature, own, own, found)
        if n_changed + n_found + 1 > len(changed):
            grown = np.empty(2 * (n_changed + n_found + 1), np.int64)
            grown[:n_changed] = changed[:n_changed]
            changed = grown
        for i in range(n_found):
            drop_entry(filters, found[i], own)
            changed[n_changed + i] = found[i]
        changed[n_changed + n_found] = one
        n_changed += n_found + 1
        # Covered by another application, or left to `_settle`.
        if seen[0] or filters.rows[one].mark:
            continue
        news, n_news = _tell_of_new(news, n_news, one, holders, seen)
    return news, n_news, changed[:n_changed]


@njit(nogil=True, cache=True)
def _tell_of_new(news, n_news, one, holders, covers):
    """Neighbours that did not know this filter from others."""
    if holders[1] == 0 and covers[1] == 0:
        return _tell(news, n_news, one, CAME, ALL, 0)
    if holders[1] == 0 and covers[1] == 1:
        return _tell(news, n_news, one, CAME, ONLY, covers[2])
    if holders[1] == 1 and (covers[1] == 0 or (covers[1] == 1 and covers[2] == holders[2])):
        return _tell(news, n_news, one, CAME, ONLY, holders[2])
    return news, n_news


@njit(nogil=True, cache=True)
def _settle(filters, told, hidden, first, last, own, news, n_news):
    """News of filters that are gone, or no longer hidden, when all is stored; removes the marks."""
    covers, holders = np.zeros(5, np.int64), np.zeros(3, np.int64)
    for row in range(len(told)):
        one = told[row, 0]
        filters.rows[one].mark = 0
        if has_entry(filters, one, own) or _look(filters, one, first, last, own, covers, holders):
            continue  # it came back, or neighbours drop it with what came in its place
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
    """Who has a filter and who has subsets of it; returns whether the own interface has one of these."""
    low = filters.rows[one].ids_at
    high = low + filters.rows[one].n_ids
    signature = filters.rows[one].signature
    who_covers(filters, one, filters.ids, low, high, signature, first, last, own, True, covers)
    holders[0], holders[1] = 0, 0
    who_has(filters, one, first, last, own, holders)
    return covers[0] == 1


@njit(nogil=True, cache=True)
def told_to(filters, first, last, neighbour):
    """The filters that a neighbour is told of, all in all."""
    covers, holders = np.zeros(5, np.int64), np.zeros(3, np.int64)
    n_found = 0
    found = np.empty(filters.counts[FILTERS], np.int64)
    for one in range(len(found)):
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
            found[n_found] = one
            n_found += 1
    return found[:n_found]


@njit(nogil=True, cache=True)
def are_covered(filters, asked, own):
    """Which sets some filter of an interface covers, and how many filters were compared."""
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
    """Which filters an interface has."""
    held = np.zeros(len(some), np.bool_)
    for i in range(len(some)):
        held[i] = has_entry(filters, some[i], own)
    return held
