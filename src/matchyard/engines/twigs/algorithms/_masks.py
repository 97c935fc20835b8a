"""lazy_dfa: elements of one kind, whose requirements have many conditions in common.

For each condition that many of the requirements have, a state gets a *mask* of those that have it:
they fail at once where the condition does not hold. Requirements whose lead is no such condition
fail unless the lead is met. What is left holds, but for the few that have more than one rare
condition.

Bits are those of the requirements of `*`, then those of the tag, from the first word in which there
are any. In `masks` a state has: how many masks and words there are, the rows *asked*, *led* by
something rare and *unsure*, the masks, and their conditions.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.engines.twigs._coded import ANY
from matchyard.engines.twigs.algorithms._cache import N_MASKS
from matchyard.engines.twigs.algorithms._requirements import N_OTHERS
from matchyard.engines.twigs.algorithms._states import (
    first_from,
    holds,
    is_met,
    of_tag,
    others_hold,
    set_bit,
)
from matchyard.kernels.bitset import ONE, ZERO, lowest_one

_MOST_MASKS = 64
_LEAST_USES = 8
_MOST_WORDS = 1 << 17
_N_ROWS = 3
_HEAD = 2
NO_ROOM = -1


@njit(nogil=True, cache=True, forceinline=True)
def shape(tag_start, tag):
    """(words of `*`, first word of the tag, words in all)."""
    n_any = (tag_start[1] + 63) >> 6
    first = tag_start[tag + 1] >> 6
    return n_any, first, n_any + ((tag_start[tag + 2] + 63) >> 6) - first


@njit(nogil=True, cache=True, forceinline=True)
def _place(number, n_of_any, n_any, first):
    """In which word of a row a requirement is."""
    return number >> 6 if number < n_of_any else (number >> 6) - first + n_any


@njit(nogil=True, cache=True)
def make_masks(table, cache, state):
    """Give the state masks, if there is room."""
    tag_start, tag, lead = table.tag_start, cache.state_tag[state], table.lead
    n_words = shape(tag_start, tag)[2]
    cache.state_masks[state] = NO_ROOM
    n_most = (_MOST_MASKS + _N_ROWS) * n_words + _MOST_MASKS + _HEAD
    begin = cache.used[N_MASKS]
    if n_most > _MOST_WORDS or begin + n_most > len(cache.masks):
        return
    masks = cache.masks[begin + _HEAD : begin + n_most]
    masks[:] = ZERO
    _ask(table, cache, state, masks[:n_words])
    uses = np.zeros(2 * len(lead), np.int32)
    _count_uses(table, masks[:n_words], tag, uses)
    chosen = _most_used(uses)
    row_of = np.full(2 * len(lead), -1, np.int32)
    for row in range(len(chosen)):
        row_of[chosen[row]] = row
    _fill(table, masks, tag, row_of)
    masks[(_N_ROWS + len(chosen)) * n_words :][: len(chosen)] = chosen.astype(np.uint64)
    cache.masks[begin], cache.masks[begin + 1] = np.uint64(len(chosen)), np.uint64(n_words)
    cache.used[N_MASKS] += _HEAD + (_N_ROWS + len(chosen)) * n_words + len(chosen)
    cache.state_masks[state] = begin + 1


@njit(nogil=True, cache=True)
def _ask(table, cache, state, asked):
    """Set the bits of the requirements that are asked for and have a lead."""
    tag_start, tag, asking = table.tag_start, cache.state_tag[state], cache.state_asking[state]
    n_any, first, _ = shape(tag_start, tag)
    for i in range(cache.set_start[asking], cache.set_start[asking + 1]):
        at = cache.word_at[i]
        word = cache.words[i] & ~table.is_free[at]
        if at < n_any:
            asked[at] |= word & of_tag(tag_start, ANY, at)
        of_own = of_tag(tag_start, tag, at)
        if of_own != ZERO:
            asked[at - first + n_any] |= word & of_own


@njit(nogil=True, cache=True, forceinline=True)
def _condition(table, number, c):
    """One after the other: the lead, the others, and what more there is; -1 after the last."""
    if c == 0:
        return 2 * np.int64(table.lead[number])
    if c <= N_OTHERS:
        return np.int64(table.others[number, c - 1])
    at = table.more_start[number] + c - 1 - N_OTHERS
    return np.int64(table.more[at]) if at < table.more_start[number + 1] else np.int64(-1)


@njit(nogil=True, cache=True)
def _numbers(table, asked, tag):
    """The requirements whose bits are set."""
    n_any, first, n_words = shape(table.tag_start, tag)
    numbers, n_numbers = np.empty(64 * n_words, np.int64), 0
    for at in range(n_words):
        rest = asked[at]
        while rest != ZERO:
            numbers[n_numbers] = 64 * (at if at < n_any else at - n_any + first) + lowest_one(rest)
            n_numbers += 1
            rest &= rest - ONE
    return numbers[:n_numbers]


@njit(nogil=True, cache=True)
def _count_uses(table, asked, tag, uses):
    """Count how many requirements have a condition."""
    for number in _numbers(table, asked, tag):
        c, condition = 0, _condition(table, number, 0)
        while condition >= 0:
            is_new = True
            for before in range(c):
                is_new = is_new and _condition(table, number, before) != condition
            uses[condition] += is_new
            c += 1
            condition = _condition(table, number, c)


@njit(nogil=True, cache=True)
def _most_used(uses):
    """The conditions that most requirements have."""
    many = np.flatnonzero(uses >= _LEAST_USES)
    return many[np.argsort(-uses[many])][:_MOST_MASKS]


@njit(nogil=True, cache=True)
def _fill(table, masks, tag, row_of):
    """Set the bits of all rows but the first."""
    n_any, first, n_words = shape(table.tag_start, tag)
    n_of_any = table.tag_start[1]
    for number in _numbers(table, masks[:n_words].copy(), tag):
        at = _place(number, n_of_any, n_any, first)
        bit, c = ONE << np.uint64(number & 63), 0
        lead = condition = _condition(table, number, 0)
        while condition >= 0:
            if row_of[condition] >= 0:
                masks[(_N_ROWS + row_of[condition]) * n_words + at] |= bit
            elif condition == lead:
                masks[n_words + at] |= bit
            else:
                masks[2 * n_words + at] |= bit
            c += 1
            condition = _condition(table, number, c)


@njit(nogil=True, cache=True)
def find_by_masks(table, cache, levels, state, inner, bits, above):
    """Add to `above` what an element meets. `inner` is a set with all that is in `bits`."""
    tag_start, tag, failed = table.tag_start, cache.state_tag[state], levels.failed
    n_any, first, n_words = shape(tag_start, tag)
    begin = cache.state_masks[state] - 1
    n_masks, masks = np.int64(cache.masks[begin]), cache.masks[begin + _HEAD :]
    conditions = masks[(_N_ROWS + n_masks) * n_words :][:n_masks]
    popular, others, more_start, more = levels.found, table.others, table.more_start, table.more
    for condition in conditions:
        set_bit(popular, np.int64(condition >> ONE))
    failed[:n_words] = masks[n_words : 2 * n_words]
    _meet_leads(table, cache, tag, inner, bits, popular, failed)
    for row in range(n_masks):
        condition = np.int64(conditions[row])
        popular[condition >> 7] = ZERO
        if is_met(bits, condition >> 1) == np.uint64(condition & 1):
            _join(failed, masks[(_N_ROWS + row) * n_words :], n_words)
    for at in range(n_words):
        word = masks[at] & ~failed[at]
        if word == ZERO:
            continue
        whole = at if at < n_any else at - n_any + first
        word &= ~above[whole]
        rest = word & masks[2 * n_words + at]
        while rest != ZERO:
            number = 64 * whole + lowest_one(rest)
            if others_hold(others, number, bits) == ZERO or not holds(
                more_start, more, number, bits
            ):
                word &= ~(rest & (~rest + ONE))
            rest &= rest - ONE
        above[whole] |= word


@njit(nogil=True, cache=True, forceinline=True)
def _join(bits, others, n_words):
    """Set the bits that others have: many words at a time."""
    for at in range(n_words):
        bits[at] |= others[at]


@njit(nogil=True, cache=True)
def _meet_leads(table, cache, tag, inner, bits, popular, failed):
    """What rare leads lead to that are met has not failed yet."""
    tag_start, led_start, led, word_at = table.tag_start, table.led_start, table.led, cache.word_at
    n_any, first, _ = shape(tag_start, tag)
    n_of_any = tag_start[1]
    for i in range(cache.set_start[inner], cache.set_start[inner + 1]):
        at = word_at[i]
        rest = bits[at] & ~popular[at]
        while rest != ZERO:
            lead = 64 * at + lowest_one(rest)
            rest &= rest - ONE
            j, end = led_start[lead], led_start[lead + 1]
            for own in (np.int32(ANY), tag):
                j = first_from(led, j, end, tag_start[own + 1])
                while j < end and led[j] < tag_start[own + 2]:
                    place = _place(led[j], n_of_any, n_any, first)
                    failed[place] &= ~(ONE << np.uint64(led[j] & 63))
                    j += 1
