"""lazy_dfa: what an element meets for those above it when it closes."""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.engines.twigs._coded import ANY
from matchyard.engines.twigs.algorithms._cache import (
    AS_BITS,
    EMPTY,
    N_WORDS,
    append,
    intern_frame,
    intern_set,
    take,
)
from matchyard.engines.twigs.algorithms._requirements import N_OTHERS
from matchyard.engines.twigs.algorithms._states import of_element, set_bit
from matchyard.kernels.bitset import ONE, ZERO, count_ones, lowest_one

_LEADS = 4  # requirements looked at one after the other in the time that one met takes by leads
_FEW = 16  # sets taken up by an element that may well be like others


@njit(nogil=True, cache=True)
def close_frame(table, cache, levels, frame):
    """The set that an element meets for those above, once for all that have this frame."""
    state, met, bits = cache.frame_state[frame], cache.frame_met[frame], levels.scratch
    take(cache, bits, met)
    _find(table, cache, state, met, bits, levels.found)
    bits[:] = ZERO
    up = _intern_found(cache, state, levels.found)
    cache.frame_up[frame] = up + 1
    return up


@njit(nogil=True, cache=True)
def close_bits(table, cache, levels, level):
    """The same of an element that is kept as bits. What it meets for another such is handed over
    at once, and the set is empty."""
    state, found = levels.states[level], levels.found
    inner = cache.scope_set[cache.state_scope[state]]
    _find(table, cache, state, inner, levels.bits[level], found)
    if levels.n_taken[level] <= _FEW:  # the next one may be worth remembering
        cache.first_frame[state] = intern_frame(cache, state, EMPTY)
    if levels.frames[level - 1] != AS_BITS:
        return _intern_found(cache, state, found)
    word_at, words, asking = cache.word_at, cache.words, cache.state_asking[state]
    above = levels.bits[level - 1]
    for i in range(cache.set_start[asking], cache.set_start[asking + 1]):
        above[word_at[i]] |= found[word_at[i]] & words[i]
    found[:] = ZERO
    return np.int64(EMPTY)


@njit(nogil=True, cache=True)
def _find(table, cache, state, inner, bits, found):
    """Set what an element meets, and what was met below it and may be asked for above; `inner` is a
    set with all that is in `bits`."""
    word_at, words, is_deep = cache.word_at, cache.words, table.is_deep
    late, more_start, more = cache.state_late[state], table.more_start, table.more
    take(cache, found, cache.state_sure[state])
    for i in range(cache.set_start[late], cache.set_start[late + 1]):
        rest = words[i]
        while rest != ZERO:
            requirement = 64 * word_at[i] + lowest_one(rest)
            rest &= rest - ONE
            if holds(more_start, more, requirement, bits):
                set_bit(found, requirement)
    n_met = 0
    for i in range(cache.set_start[inner], cache.set_start[inner + 1]):
        at = word_at[i]
        found[at] |= bits[at] & is_deep[at]
        n_met += count_ones(bits[at])
    if n_met * _LEADS < _n_asked(table, cache, state):
        _find_by_leads(table, cache, state, inner, bits, found)
    else:
        _find_all(table, cache, state, bits, found)


@njit(nogil=True, cache=True)
def _n_asked(table, cache, state):
    """How many requirements `_find_all` would look at."""
    word_at, words, tag_start = cache.word_at, cache.words, table.tag_start
    asking, tag, n_asked = cache.state_asking[state], cache.state_tag[state], 0
    for i in range(cache.set_start[asking], cache.set_start[asking + 1]):
        n_asked += 64 * (words[i] & of_element(tag_start, tag, word_at[i]) != ZERO)
    return n_asked


@njit(nogil=True, cache=True)
def _find_by_leads(table, cache, state, inner, bits, found):
    """Where little is met: look at what that may lead to."""
    word_at, led_start, led, others = cache.word_at, table.led_start, table.led, table.others
    more_start, more, has_more = table.more_start, table.more, table.has_more
    tag_start, tag = table.tag_start, cache.state_tag[state]
    for i in range(cache.set_start[inner], cache.set_start[inner + 1]):
        at = word_at[i]
        rest = bits[at]
        while rest != ZERO:
            lead = 64 * at + lowest_one(rest)
            rest &= rest - ONE
            j, end = led_start[lead], led_start[lead + 1]
            for own in (np.int32(ANY), tag):
                j = _first_from(led, j, end, tag_start[own + 1])
                while j < end and led[j] < tag_start[own + 2]:
                    number = led[j]
                    j += 1
                    if _others_hold(others, number, bits) == ZERO:
                        continue
                    if _is_met(has_more, number) == ZERO or holds(more_start, more, number, bits):
                        set_bit(found, number)


@njit(nogil=True, cache=True, forceinline=True)
def _first_from(numbers, start, end, least):
    """Where, of ascending numbers, the first is that is not less."""
    while end - start > 4:
        middle = (start + end) >> 1
        if numbers[middle] < least:
            start = middle + 1
        else:
            end = middle
    while start < end and numbers[start] < least:
        start += 1
    return start


@njit(nogil=True, cache=True)
def _find_all(table, cache, state, bits, found):
    """Where much is met: look at all that is asked for, without a branch for each."""
    word_at, words, tag_start = cache.word_at, cache.words, table.tag_start
    lead, others, has_more = table.lead, table.others, table.has_more
    more_start, more = table.more_start, table.more
    asking, tag = cache.state_asking[state], cache.state_tag[state]
    for i in range(cache.set_start[asking], cache.set_start[asking + 1]):
        at = word_at[i]
        asked = words[i] & of_element(tag_start, tag, at)
        if asked == ZERO:
            continue
        rest, first, word = ZERO, 64 * at, ZERO
        for j in range(min(64, len(lead) - first)):
            rest |= _is_met(bits, lead[first + j]) << np.uint64(j)
        rest &= asked
        while rest != ZERO:
            j = lowest_one(rest)
            word |= _others_hold(others, first + j, bits) << np.uint64(j)
            rest &= rest - ONE
        rest = word & has_more[at]
        while rest != ZERO:
            if not holds(more_start, more, first + lowest_one(rest), bits):
                word &= ~(rest & (~rest + ONE))
            rest &= rest - ONE
        found[at] |= word


@njit(nogil=True, cache=True)
def _intern_found(cache, state, found):
    """The set of what was found and is asked for."""
    word_at, words, place = cache.word_at, cache.words, cache.used[N_WORDS]
    asking = cache.state_asking[state]
    for i in range(cache.set_start[asking], cache.set_start[asking + 1]):
        at = word_at[i]
        place = append(word_at, words, place, at, found[at] & words[i])
    found[:] = ZERO
    return intern_set(cache, place)


@njit(nogil=True, cache=True, forceinline=True)
def _is_met(bits, requirement):
    return (bits[requirement >> 6] >> np.uint64(requirement & 63)) & ONE


@njit(nogil=True, cache=True, forceinline=True)
def _others_hold(others, number, bits):
    """As `holds`, 1 or 0, without a branch."""
    is_met = ONE
    for c in range(N_OTHERS):
        condition = others[number, c]
        is_met &= _is_met(bits, condition >> 1) ^ np.uint64(condition & 1)
    return is_met


@njit(nogil=True, cache=True, forceinline=True)
def holds(start, conditions, number, bits):
    """Are the requirements met, or not, as the conditions have it?"""
    for c in range(start[number], start[number + 1]):
        if _is_met(bits, conditions[c] >> 1) == np.uint64(conditions[c] & 1):
            return False
    return True
