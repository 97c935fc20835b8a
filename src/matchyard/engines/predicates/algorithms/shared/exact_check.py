"""The exact check of an encoded filter against an encoded event.

The array `first` has the start of each slot's entries in the current event; see `enter` and `leave`.
`holds` is called per candidate and takes its arrays one by one: reading an array from a tuple counts
a reference, which costs more than the check.
"""

from __future__ import annotations

import numpy as np
from numba import njit

ABSENT = np.int32(-1)


def no_slots(n_slots: int):
    """A `first` array without an event."""
    return np.full(n_slots, ABSENT, np.int32)


@njit(nogil=True, cache=True)
def enter(batch, event, first):
    """Write the start of each slot's entries; true if the event has arrays of objects."""
    has_elements = False
    start = batch.event_start[event]
    for entry in range(batch.event_start[event + 1] - 1, start - 1, -1):
        if batch.slots[entry] < len(first):
            first[batch.slots[entry]] = entry - start
        has_elements |= batch.elements[entry] > 0
    return has_elements


@njit(nogil=True, cache=True)
def leave(batch, event, first):
    """Clear the starts of the event's slots."""
    for entry in range(batch.event_start[event], batch.event_start[event + 1]):
        if batch.slots[entry] < len(first):
            first[batch.slots[entry]] = ABSENT


@njit(nogil=True, cache=True, forceinline=True)
def pieces_of(table, constraint):
    """The first piece of a constraint, and one past its last."""
    if len(table.piece_start):
        return table.piece_start[constraint], table.piece_start[constraint + 1]
    return constraint, constraint + 1


@njit(nogil=True, cache=True, forceinline=True)
def piece_holds(slot, low, high, entry_slots, codes, start, end, first):
    """True if a value of the event, with the entries `start` to `end`, lies in the piece."""
    entry = start + first[slot]
    if entry < start:
        return False
    while True:
        if low <= codes[entry] <= high:
            return True
        entry += 1
        if entry == end or entry_slots[entry] != slot:
            return False


@njit(nogil=True, cache=True, forceinline=True)
def _constraint_holds(
    piece_start, slots, low, high, constraint, entry_slots, codes, start, end, first
):
    if len(piece_start) == 0:
        return piece_holds(
            slots[constraint], low[constraint], high[constraint],
            entry_slots, codes, start, end, first,
        )  # fmt: skip
    for piece in range(piece_start[constraint], piece_start[constraint + 1]):
        if piece_holds(
            slots[piece], low[piece], high[piece], entry_slots, codes, start, end, first
        ):
            return True
    return False


@njit(nogil=True, cache=True)
def filter_holds(table, number, batch, event, first, has_elements):
    """True if the filter matches the event."""
    return holds(
        table.filter_start, table.piece_start, table.groups, table.slots, table.low, table.high,
        number, batch.slots, batch.codes, batch.elements, batch.element_parent, batch.element_array,
        batch.event_start[event], batch.event_start[event + 1], first, has_elements,
    )  # fmt: skip


@njit(nogil=True, cache=True, forceinline=True)
def holds(
    filter_start, piece_start, groups, slots, low, high, number,
    entry_slots, codes, elements, element_parent, element_array, start, end, first, has_elements,
):  # fmt: skip
    """The same as `filter_holds`, array by array; the event has the entries `start` to `end`."""
    from_here, to_here = filter_start[number], filter_start[number + 1]
    if len(groups) == 0 and not has_elements:
        for constraint in range(from_here, to_here):
            if not _constraint_holds(
                piece_start, slots, low, high, constraint, entry_slots, codes, start, end, first
            ):
                return False
        return True
    return _groups_hold(
        piece_start, groups, slots, low, high, from_here, to_here,
        entry_slots, codes, elements, element_parent, element_array, start, end, first, has_elements,
    )  # fmt: skip


@njit(nogil=True, cache=True)
def _groups_hold(
    piece_start, groups, slots, low, high, from_here, to_here,
    entry_slots, codes, elements, element_parent, element_array, start, end, first, has_elements,
):  # fmt: skip
    """True if all constraints of group 0 hold, and not all of any other group."""
    while from_here < to_here:
        group = groups[from_here] if len(groups) else 0
        stop = from_here
        is_held = True
        while stop < to_here and (len(groups) == 0 or groups[stop] == group):
            is_held = is_held and _constraint_holds(
                piece_start, slots, low, high, stop, entry_slots, codes, start, end, first
            )
            stop += 1
        if is_held and has_elements and stop - from_here > 1:
            is_held = _in_one_element(
                piece_start, slots, low, high, from_here, stop,
                entry_slots, codes, elements, element_parent, element_array, start, end, first,
            )  # fmt: skip
        if is_held != (group == 0):
            return False
        from_here = stop
    return True


@njit(nogil=True, cache=True)
def _in_one_element(
    piece_start, slots, low, high, from_here, stop,
    entry_slots, codes, elements, element_parent, element_array, start, end, first,
):  # fmt: skip
    """True if all constraints hold in one view."""
    choices = np.empty((stop - from_here) * (end - start), np.int32)
    choice_start = np.empty(stop - from_here + 1, np.int64)
    choice_start[0] = 0
    n_choosers, n_choices = 0, 0
    for constraint in range(from_here, stop):
        is_free = False
        first_piece, last_piece = constraint, constraint + 1
        if len(piece_start):
            first_piece, last_piece = piece_start[constraint], piece_start[constraint + 1]
        for piece in range(first_piece, last_piece):
            if first[slots[piece]] < 0:
                continue
            entry = start + first[slots[piece]]
            while entry < end and entry_slots[entry] == slots[piece]:
                if low[piece] <= codes[entry] <= high[piece]:
                    is_free |= elements[entry] == 0
                    is_new = n_choices == choice_start[n_choosers]
                    if is_new or choices[n_choices - 1] != elements[entry]:
                        choices[n_choices] = elements[entry]
                        n_choices += 1
                entry += 1
        if is_free:
            n_choices = choice_start[n_choosers]
        else:
            n_choosers += 1
            choice_start[n_choosers] = n_choices
    if n_choosers < 2:
        return True
    _drop_hopeless(choices, choice_start, n_choosers, element_parent, element_array)
    return _choose(choices, choice_start, n_choosers, element_parent, element_array)


@njit(nogil=True, cache=True)
def _drop_hopeless(choices, choice_start, n_choosers, element_parent, element_array):
    """Leave only choices in outermost elements that suit everybody who must choose in their array:
    arrays may be long, and trying each pair of elements takes the square of that."""
    roots = np.empty(choice_start[n_choosers], np.int32)
    array_of = np.empty(n_choosers, np.int32)  # of outermost elements, where it is the same for all
    for chooser in range(n_choosers):
        for i in range(choice_start[chooser], choice_start[chooser + 1]):
            root = choices[i]
            while element_parent[root] > 0:
                root = element_parent[root]
            roots[i] = root
            if i == choice_start[chooser]:
                array_of[chooser] = element_array[root]
            elif array_of[chooser] != element_array[root]:
                array_of[chooser] = -1
    lowest, highest = roots[0], roots[0]
    for root in roots:
        lowest, highest = min(lowest, root), max(highest, root)
    n_suited = np.zeros(highest - lowest + 1, np.int32)
    counted = np.full(len(n_suited), -1, np.int32)
    for chooser in range(n_choosers):
        if array_of[chooser] >= 0:
            for i in range(choice_start[chooser], choice_start[chooser + 1]):
                at = roots[i] - lowest
                n_suited[at] += counted[at] != chooser
                counted[at] = chooser
    end, start = 0, 0
    for chooser in range(n_choosers):
        n_together = 0
        for other in range(n_choosers):
            n_together += array_of[other] == array_of[chooser]
        stop = choice_start[chooser + 1]
        for i in range(start, stop):
            if array_of[chooser] < 0 or n_suited[roots[i] - lowest] == n_together:
                choices[end] = choices[i]
                end += 1
        start = stop
        choice_start[chooser + 1] = end


@njit(nogil=True, cache=True)
def _choose(choices, choice_start, n_choosers, element_parent, element_array):
    """Is there one choice for everybody, such that all fit? Where somebody finds none, the last of
    those that stand in the way chooses again; others, of arrays that have nothing to do with it,
    do not: their number must not matter."""
    chosen = choice_start[:n_choosers].copy()
    in_the_way = np.zeros((n_choosers, n_choosers), np.bool_)
    level = 0
    while level < n_choosers:
        if chosen[level] == choice_start[level + 1]:
            back = level - 1
            while back >= 0 and not in_the_way[level, back]:
                back -= 1
            if back < 0:
                return False
            for other in range(back):
                in_the_way[back, other] |= in_the_way[level, other]
            level = back
            chosen[level] += 1
            continue
        fits = True
        for other in range(level):
            left, right = choices[chosen[level]], choices[chosen[other]]
            if not _fit(element_parent, element_array, left, right):
                in_the_way[level, other] = True
                fits = False
                break
        if not fits:
            chosen[level] += 1
            continue
        level += 1
        if level < n_choosers:
            chosen[level] = choice_start[level]
            in_the_way[level] = False
    return True


@njit(nogil=True, cache=True)
def _fit(element_parent, element_array, left, right):
    """True if one view can have both elements: not two of the same array."""
    above = left
    while above > 0:
        other = right
        while other > 0:
            if element_array[above] == element_array[other] and above != other:
                return False
            other = element_parent[other]
        above = element_parent[above]
    return True
