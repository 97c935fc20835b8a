"""lazy_dfa: the requirements that a closing element meets for its ancestors."""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.engines.twigs.algorithms.lazy_dfa.cache import (
    AS_BITS,
    EMPTY,
    N_WORDS,
    append,
    intern_set,
    take,
)
from matchyard.engines.twigs.algorithms.lazy_dfa.masks import find_by_masks, make_masks, shape
from matchyard.engines.twigs.algorithms.lazy_dfa.states import (
    first_from,
    holds,
    is_met,
    of_element,
    others_hold,
    set_bit,
)
from matchyard.engines.twigs.encoder.layout import ANY
from matchyard.kernels.bitset import ONE, ZERO, count_ones, lowest_one

_LEADS = 4  # requirements that are examined in sequence in the time of one look-up by lead
_OFTEN = 16  # after so many examined elements a state gets masks
_MANY = 8  # in a word with more requirements, the leads of all 64 are read first


@njit(nogil=True, cache=True)
def close_frame(table, cache, levels, frame):
    """The set that an element with this frame meets for its ancestors; stored in `frame_up`."""
    state, met = np.int64(cache.frame_state[frame]), cache.frame_met[frame]
    bits = levels.scratch
    take(cache, bits, met)
    up = _intern_found(table, cache, levels, state, met, bits)
    cache.frame_up[frame] = up + 1
    bits[:] = ZERO
    return up


@njit(nogil=True, cache=True)
def close_bits(table, cache, levels, level):
    """The set that an element kept as bits meets for its ancestors. If the parent is kept as bits
    too, the requirements are added to it at once, and the set is empty."""
    state, bits = levels.states[level], levels.bits[level]
    inner = cache.scope_set[cache.state_scope[state]]
    if levels.frames[level - 1] != AS_BITS:
        return _intern_found(table, cache, levels, state, inner, bits)
    _find(table, cache, levels, state, inner, bits, levels.bits[level - 1])
    return np.int64(EMPTY)


@njit(nogil=True, cache=True)
def _intern_found(table, cache, levels, state, inner, bits):
    """The number of the set of requirements that `_find` finds."""
    word_at, words, target = cache.word_at, cache.words, cache.used[N_WORDS]
    asking, above = cache.state_asking[state], levels.above
    _find(table, cache, levels, state, inner, bits, above)
    for i in range(cache.set_start[asking], cache.set_start[asking + 1]):
        target = append(word_at, words, target, word_at[i], words[i] & above[word_at[i]])
    above[:] = ZERO
    return intern_set(cache, target)


@njit(nogil=True, cache=True)
def _find(table, cache, levels, state, inner, bits, above):
    """Add to `above` the requirements that an element meets, and those met below it. Requirements
    that are already in `above` are not examined. `inner` is a superset of `bits`.

    It may add requirements that no ancestor has. They do no harm, since nothing depends on them.
    """
    word_at, words, is_deep = cache.word_at, cache.words, table.is_deep
    late, more_start, more = cache.state_late[state], table.more_start, table.more
    take(cache, above, cache.state_sure[state])
    for i in range(cache.set_start[late], cache.set_start[late + 1]):
        rest = words[i] & ~above[word_at[i]]
        while rest != ZERO:
            requirement = 64 * word_at[i] + lowest_one(rest)
            rest &= rest - ONE
            if holds(more_start, more, requirement, bits):
                set_bit(above, requirement)
    n_met = 0
    for i in range(cache.set_start[inner], cache.set_start[inner + 1]):
        at = word_at[i]
        above[at] |= bits[at] & is_deep[at]
        n_met += count_ones(bits[at])
    if n_met * _LEADS >= 64 * shape(table.tag_start, cache.state_symbol[state])[2]:
        _find_all(table, cache, state, bits, above)
        return
    cache.state_closed[state] += 1
    if cache.state_closed[state] == _OFTEN:
        make_masks(table, cache, state)
    if cache.state_masks[state] > 0:
        find_by_masks(table, cache, levels, state, bits, above)
    else:
        _find_by_leads(table, cache, state, inner, bits, above)


@njit(nogil=True, cache=True)
def _find_by_leads(table, cache, state, inner, bits, above):
    """If few requirements are met: examine those that have one of them as their lead."""
    word_at, led_start, led, others = cache.word_at, table.led_start, table.led, table.others
    more_start, more, has_more = table.more_start, table.more, table.has_more
    tag_start, symbol = table.tag_start, cache.state_symbol[state]
    for i in range(cache.set_start[inner], cache.set_start[inner + 1]):
        at = word_at[i]
        rest = bits[at]
        while rest != ZERO:
            lead = 64 * at + lowest_one(rest)
            rest &= rest - ONE
            j, end = led_start[lead], led_start[lead + 1]
            for own in (np.int32(ANY), symbol):
                j = first_from(led, j, end, tag_start[own + 1])
                while j < end and led[j] < tag_start[own + 2]:
                    number = led[j]
                    j += 1
                    if others_hold(others, number, bits) == ZERO:
                        continue
                    if is_met(has_more, number) == ZERO or holds(more_start, more, number, bits):
                        set_bit(above, number)


@njit(nogil=True, cache=True)
def _find_all(table, cache, state, bits, above):
    """If many requirements are met: examine all that the scope has, without a branch for each."""
    word_at, words, tag_start = cache.word_at, cache.words, table.tag_start
    lead, others, has_more = table.lead, table.others, table.has_more
    more_start, more = table.more_start, table.more
    asking, symbol = cache.state_asking[state], cache.state_symbol[state]
    for i in range(cache.set_start[asking], cache.set_start[asking + 1]):
        at = word_at[i]
        rest = words[i] & ~above[at] & of_element(tag_start, symbol, at)
        if rest == ZERO:
            continue
        first, word = 64 * at, ZERO
        if count_ones(rest) > _MANY:
            for j in range(min(64, len(lead) - first)):
                word |= is_met(bits, lead[first + j]) << np.uint64(j)
            rest &= word
            word = ZERO
        while rest != ZERO:
            j = lowest_one(rest)
            is_here = is_met(bits, lead[first + j]) & others_hold(others, first + j, bits)
            word |= is_here << np.uint64(j)
            rest &= rest - ONE
        rest = word & has_more[at]
        while rest != ZERO:
            if not holds(more_start, more, first + lowest_one(rest), bits):
                word &= ~(rest & (~rest + ONE))
            rest &= rest - ONE
        above[at] |= word
