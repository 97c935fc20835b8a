"""Does a filter match an event? The exact check, on encoded filters and events.

A `first` array tells where the entries of each slot begin within the event that is looked at; see
`enter` and `leave`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

ABSENT = np.int32(-1)


def no_slots(n_slots: int):
    """A `first` array for events that are not there yet."""
    return np.full(n_slots, ABSENT, np.int32)


@njit(nogil=True, cache=True)
def enter(batch, event, first):
    """Note where each slot's entries begin; true where the event reaches into arrays of objects."""
    has_places = False
    for entry in range(batch.event_start[event + 1] - 1, batch.event_start[event] - 1, -1):
        if batch.slots[entry] < len(first):
            first[batch.slots[entry]] = entry - batch.event_start[event]
        has_places |= batch.places[entry] > 0
    return has_places


@njit(nogil=True, cache=True)
def leave(batch, event, first):
    """Forget the event again."""
    for entry in range(batch.event_start[event], batch.event_start[event + 1]):
        if batch.slots[entry] < len(first):
            first[batch.slots[entry]] = ABSENT


@njit(nogil=True, cache=True)
def pieces_of(table, constraint):
    """The first piece of a constraint, and one past its last."""
    if len(table.piece_start):
        return table.piece_start[constraint], table.piece_start[constraint + 1]
    return constraint, constraint + 1


@njit(nogil=True, cache=True)
def constraint_holds(table, constraint, batch, event, first):
    """Does one value of the event satisfy the constraint?"""
    start, end = batch.event_start[event], batch.event_start[event + 1]
    from_piece, to_piece = pieces_of(table, constraint)
    for piece in range(from_piece, to_piece):
        slot = table.slots[piece]
        if first[slot] < 0:
            continue
        entry = start + first[slot]
        while entry < end and batch.slots[entry] == slot:
            if table.low[piece] <= batch.codes[entry] <= table.high[piece]:
                return True
            entry += 1
    return False


@njit(nogil=True, cache=True)
def filter_holds(table, number, batch, event, first, has_places):
    """Does the filter match the event?"""
    start, end = table.filter_start[number], table.filter_start[number + 1]
    if len(table.groups) == 0 and not has_places:
        for constraint in range(start, end):
            if not constraint_holds(table, constraint, batch, event, first):
                return False
        return True
    while start < end:
        group = table.groups[start] if len(table.groups) else 0
        stop = start
        while stop < end and (len(table.groups) == 0 or table.groups[stop] == group):
            stop += 1
        holds = _group_holds(table, start, stop, batch, event, first, has_places)
        if holds != (group == 0):
            return False
        start = stop
    return True


@njit(nogil=True, cache=True)
def _group_holds(table, start, stop, batch, event, first, has_places):
    for constraint in range(start, stop):
        if not constraint_holds(table, constraint, batch, event, first):
            return False
    if not has_places or stop - start < 2:
        return True
    return _in_one_element(table, start, stop, batch, event, first)


@njit(nogil=True, cache=True)
def _in_one_element(table, start, stop, batch, event, first):
    """Can all constraints hold at once, with one element chosen of every array of objects?"""
    from_entry, to_entry = batch.event_start[event], batch.event_start[event + 1]
    places = np.empty((stop - start) * (to_entry - from_entry), np.int32)
    choice_start = np.empty(stop - start + 1, np.int64)
    choice_start[0] = 0
    n_choosers, end = 0, 0
    for constraint in range(start, stop):
        from_piece, to_piece = pieces_of(table, constraint)
        is_free = False
        for piece in range(from_piece, to_piece):
            slot = table.slots[piece]
            if first[slot] < 0:
                continue
            entry = from_entry + first[slot]
            while entry < to_entry and batch.slots[entry] == slot:
                if table.low[piece] <= batch.codes[entry] <= table.high[piece]:
                    is_free |= batch.places[entry] == 0
                    known = False
                    for i in range(choice_start[n_choosers], end):
                        known |= places[i] == batch.places[entry]
                    if not known:
                        places[end] = batch.places[entry]
                        end += 1
                entry += 1
        if is_free:
            end = choice_start[n_choosers]
        else:
            n_choosers += 1
            choice_start[n_choosers] = end
    chosen = choice_start[:n_choosers].copy()
    level = 0
    while 0 <= level < n_choosers:
        if chosen[level] == choice_start[level + 1]:
            chosen[level] = choice_start[level]
            level -= 1
            if level >= 0:
                chosen[level] += 1
            continue
        fits = True
        for other in range(level):
            fits &= _fit(batch, places[chosen[level]], places[chosen[other]])
        if fits:
            level += 1
        else:
            chosen[level] += 1
    return level >= 0


@njit(nogil=True, cache=True)
def _fit(batch, left, right):
    """Can two elements be chosen together? Not two of the same array."""
    above = left
    while above > 0:
        other = right
        while other > 0:
            if batch.place_array[above] == batch.place_array[other] and above != other:
                return False
            other = batch.place_parent[other]
        above = batch.place_parent[above]
    return True
