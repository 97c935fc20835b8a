"""lazy_dfa: masks for states whose requirements have many conditions in common.

For each condition that many requirements have, a state has a *mask* of the requirements without it.
If the condition does not hold, all others fail at once. A *rare* lead is a lead without a mask: its
requirements, which are neighbours, are examined only if the lead is met. The remaining requirements
hold, except for some of the few that have a second rare condition: these are *unsure*.

A row of bits has the requirements of `*`, then those of the symbol, from the first word with any. In
`masks` a state has, one after the other:

    head        the numbers of blocks of eight words, masks, words with leads, and rare leads
    rows        asked; open: without a rare lead; unsure
    conditions  of the masks
    masks       block by block
    words       of leads: the position of the word, the first rare lead in it, and the rare bits
    leads       of each rare lead the ranges of bits that it leads to, for `*` and for the symbol
"""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.engines.twigs.algorithms.lazy_dfa.cache import N_MASKS
from matchyard.engines.twigs.algorithms.lazy_dfa.requirements import N_OTHERS
from matchyard.engines.twigs.algorithms.lazy_dfa.states import holds, is_met, of_symbol, others_hold
from matchyard.engines.twigs.encoder.layout import ANY
from matchyard.kernels.bitset import (
    ALL,
    ONE,
    ZERO,
    and_8_rows,
    and_row,
    count_ones,
    lanes_8,
    lowest_one,
)
from matchyard.kernels.growing import put
from matchyard.kernels.sorting import sort_numbers

MOST_MASKS = 64
_LEAST_USES = 8
_MOST_WORDS = 1 << 17  # of masks
_BLOCK = 8
_N_ROWS = 3
_HEAD = 4
_HALF = np.uint64(32)
_LOW = np.uint64((1 << 32) - 1)
_CONDITION = (1 << 32) - 1  # the bits of a condition, below its number of uses
NO_ROOM = -1


@njit(nogil=True, cache=True, forceinline=True)
def shape(tag_start, symbol):
    """The number of words of `*`, the first word of the symbol, and the number of words in all."""
    n_any = (tag_start[1] + 63) >> 6
    first = tag_start[symbol + 1] >> 6
    return n_any, first, n_any + ((tag_start[symbol + 2] + 63) >> 6) - first


@njit(nogil=True, cache=True, forceinline=True)
def _position(number, n_of_any, n_any, first):
    """The position of a requirement in a row of bits."""
    return number if number < n_of_any else number + 64 * (n_any - first)


@njit(nogil=True, cache=True)
def make_masks(table, cache, state):
    """Make masks for a state, if there is room."""
    symbol = cache.state_symbol[state]
    n_words = shape(table.tag_start, symbol)[2]
    n_blocks = (n_words + _BLOCK - 1) // _BLOCK
    asked = np.zeros(n_blocks * _BLOCK, np.uint64)
    _ask(table, cache, state, asked)
    numbers = _numbers(table, asked, symbol)
    chosen = _most_used(_uses(table, numbers))[: _MOST_WORDS // len(asked)]
    row_of = np.full(2 * len(table.lead), -1, np.int32)
    for row in range(len(chosen)):
        row_of[chosen[row]] = row
    ranges = _ranges(table, numbers, symbol, row_of)
    rare, n_at = _rare_leads(ranges)
    begin, n_row = cache.used[N_MASKS], len(asked)
    n_all = _HEAD + len(chosen) + (_N_ROWS + len(chosen)) * n_row + 2 * n_at + 2 * len(rare)
    if begin + n_all > len(cache.masks):
        cache.state_masks[state] = NO_ROOM
        return
    cache.used[N_MASKS] += n_all
    cache.state_masks[state] = begin + 1
    masks = cache.masks[begin : begin + n_all]
    masks[:] = ZERO
    masks[0], masks[1] = np.uint64(n_blocks), np.uint64(len(chosen))
    masks[2], masks[3] = np.uint64(n_at), np.uint64(len(rare))
    _, is_open, unsure, conditions, blocks, words, leads = _parts(masks)
    put(masks, _HEAD, asked, 0, n_row)
    put(conditions, 0, chosen, 0, len(chosen))
    blocks[:] = ALL
    _fill(table, numbers, symbol, row_of, is_open, unsure, blocks, len(chosen))
    _fill_leads(ranges, rare, words, leads)


@njit(nogil=True, cache=True, forceinline=True)
def _parts(masks):
    """The parts of the masks of a state: asked, open, unsure, conditions, blocks, words, leads."""
    n_row, n_masks = _BLOCK * np.int64(masks[0]), np.int64(masks[1])
    n_at, n_rare = np.int64(masks[2]), np.int64(masks[3])
    first = _HEAD + _N_ROWS * n_row
    block = first + n_masks
    at = block + n_masks * n_row
    return (
        masks[_HEAD : _HEAD + n_row],
        masks[_HEAD + n_row : _HEAD + 2 * n_row],
        masks[_HEAD + 2 * n_row : first],
        masks[first:block],
        masks[block:at],
        masks[at : at + 2 * n_at],
        masks[at + 2 * n_at : at + 2 * n_at + 2 * n_rare],
    )


@njit(nogil=True, cache=True)
def _ask(table, cache, state, asked):
    """Set the bits of the requirements of the scope that have a lead."""
    tag_start, symbol, asking = (
        table.tag_start,
        cache.state_symbol[state],
        cache.state_asking[state],
    )
    n_any, first, _ = shape(tag_start, symbol)
    for i in range(cache.set_start[asking], cache.set_start[asking + 1]):
        at = cache.word_at[i]
        word = cache.words[i] & ~table.is_free[at]
        if at < n_any:
            asked[at] |= word & of_symbol(tag_start, ANY, at)
        of_own = of_symbol(tag_start, symbol, at)
        if of_own != ZERO:
            asked[at - first + n_any] |= word & of_own


@njit(nogil=True, cache=True, forceinline=True)
def _condition(table, number, c):
    """Condition `c` of a requirement: first the lead, then the others; -1 after the last."""
    if c == 0:
        return 2 * np.int64(table.lead[number])
    if c <= N_OTHERS:
        return np.int64(table.others[number, c - 1])
    at = table.more_start[number] + c - 1 - N_OTHERS
    return np.int64(table.more[at]) if at < table.more_start[number + 1] else np.int64(-1)


@njit(nogil=True, cache=True)
def _numbers(table, asked, symbol):
    """The requirements whose bits are set."""
    n_any, first, n_words = shape(table.tag_start, symbol)
    numbers, n_numbers = np.empty(64 * n_words, np.int64), 0
    for at in range(n_words):
        rest = asked[at]
        while rest != ZERO:
            numbers[n_numbers] = 64 * (at if at < n_any else at - n_any + first) + lowest_one(rest)
            n_numbers += 1
            rest &= rest - ONE
    return numbers[:n_numbers]


@njit(nogil=True, cache=True)
def _uses(table, numbers):
    """How many of the requirements have each condition."""
    uses = np.zeros(2 * len(table.lead), np.int32)
    for number in numbers:
        c, condition = 0, _condition(table, number, 0)
        while condition >= 0:
            is_new = True
            for before in range(c):
                is_new = is_new and _condition(table, number, before) != condition
            uses[condition] += is_new
            c += 1
            condition = _condition(table, number, c)
    return uses


@njit(nogil=True, cache=True)
def _most_used(uses):
    """The conditions that most requirements have."""
    n_many = 0
    order = np.empty(len(uses), np.int64)
    for condition in range(len(uses)):
        if uses[condition] >= _LEAST_USES:
            order[n_many] = -(np.int64(uses[condition]) << 32) | condition
            n_many += 1
    sort_numbers(order, 0, n_many)
    for i in range(n_many):
        order[i] &= _CONDITION
    return order[: min(n_many, MOST_MASKS)]


@njit(nogil=True, cache=True)
def _rare_leads(ranges):
    """The leads that have a range, and how many words of 64 leads they are in."""
    rare = np.empty(len(ranges), np.int64)
    n_rare, n_words = 0, 0
    for lead in range(len(ranges)):
        if ranges[lead, 0] | ranges[lead, 1] != ZERO:
            n_words += n_rare == 0 or rare[n_rare - 1] >> 6 != lead >> 6
            rare[n_rare] = lead
            n_rare += 1
    return rare[:n_rare], n_words


@njit(nogil=True, cache=True)
def _ranges(table, numbers, symbol, row_of):
    """By lead, of those that are rare: the bits of `*` and of the symbol that it leads to, as where they
    begin and, in the lower half, how many there are."""
    n_any, first, _ = shape(table.tag_start, symbol)
    n_of_any, lead = table.tag_start[1], table.lead
    ranges = np.zeros((len(lead), 2), np.uint64)
    for number in numbers:
        by, own = lead[number], 1 if number >= n_of_any else 0
        if row_of[2 * by] >= 0:
            continue
        position = np.uint64(_position(number, n_of_any, n_any, first))
        if ranges[by, own] == ZERO:
            ranges[by, own] = position << _HALF
        begin = ranges[by, own] >> _HALF
        ranges[by, own] = (begin << _HALF) | (position + ONE - begin)
    return ranges


@njit(nogil=True, cache=True)
def _fill(table, numbers, symbol, row_of, is_open, unsure, blocks, n_masks):
    """Set the bits of the rows open and unsure, and of the masks."""
    n_any, first, _ = shape(table.tag_start, symbol)
    n_of_any = table.tag_start[1]
    for number in numbers:
        position = _position(number, n_of_any, n_any, first)
        at, bit, c = position >> 6, ONE << np.uint64(position & 63), 0
        lead = condition = _condition(table, number, 0)
        if row_of[lead] >= 0:
            is_open[at] |= bit
        while condition >= 0:
            if row_of[condition] >= 0:
                block = at // _BLOCK * n_masks + row_of[condition]
                blocks[block * _BLOCK + at % _BLOCK] &= ~bit
            elif condition != lead:
                unsure[at] |= bit
            c += 1
            condition = _condition(table, number, c)


@njit(nogil=True, cache=True)
def _fill_leads(ranges, rare, words, leads):
    """Write the rare leads and their words."""
    n_at = 0
    for i in range(len(rare)):
        if i == 0 or rare[i] >> 6 != rare[i - 1] >> 6:
            words[2 * n_at] = (np.uint64(i) << _HALF) | np.uint64(rare[i] >> 6)
            n_at += 1
        words[2 * n_at - 1] |= ONE << np.uint64(rare[i] & 63)
        leads[2 * i], leads[2 * i + 1] = ranges[rare[i], 0], ranges[rare[i], 1]


@njit(nogil=True, cache=True)
def find_by_masks(table, cache, levels, state, bits, above):
    """Add to `above` the requirements that an element meets."""
    tag_start, symbol, alive, failing = (
        table.tag_start,
        cache.state_symbol[state],
        levels.alive,
        levels.failing,
    )
    n_any, first, _ = shape(tag_start, symbol)
    asked, is_open, unsure, conditions, blocks, words, leads = _parts(
        cache.masks[cache.state_masks[state] - 1 :]
    )
    others, more_start, more = table.others, table.more_start, table.more
    put(alive, 0, is_open, 0, len(asked))
    _follow_leads(words, leads, bits, alive)
    n_failing, size = _fail(conditions, bits, failing), _BLOCK * len(conditions)
    for block in range(len(asked) // _BLOCK):
        at = _BLOCK * block
        and_row(alive, at, asked[at:])
        left = _and_rows(alive[at:], blocks[block * size :], failing[:n_failing])
        while left != ZERO:
            at = _BLOCK * block + lowest_one(left)
            left &= left - ONE
            whole = at if at < n_any else at - n_any + first
            word = alive[at] & ~above[whole]
            rest = word & unsure[at]
            while rest != ZERO:
                number = 64 * whole + lowest_one(rest)
                if others_hold(others, number, bits) == ZERO or not holds(
                    more_start, more, number, bits
                ):
                    word &= ~(rest & (~rest + ONE))
                rest &= rest - ONE
            above[whole] |= word


@njit(nogil=True, cache=True, forceinline=True)
def _fail(conditions, bits, failing):
    """Write where the masks of failing conditions begin; returns how many there are. The first is
    repeated up to a multiple of eight."""
    n_failing = 0
    for row in range(len(conditions)):
        condition = np.int64(conditions[row])
        failing[n_failing] = _BLOCK * row
        n_failing += is_met(bits, condition >> 1) == np.uint64(condition & 1)
    while n_failing & 7:
        failing[n_failing] = failing[0]
        n_failing += 1
    return n_failing


@njit(nogil=True, cache=True, forceinline=True)
def _and_rows(row, rows, starts):
    """AND the rows of eight words at `starts`, a multiple of eight of them, into a row; returns a
    bit for each of its words that is not 0."""
    left = ~lanes_8(row, 0, ALL) & np.uint64(255)
    for i in range(0, len(starts), 8):
        if left == ZERO:
            return left
        left = and_8_rows(
            row, rows, starts[i], starts[i + 1], starts[i + 2], starts[i + 3],
            starts[i + 4], starts[i + 5], starts[i + 6], starts[i + 7],
        )  # fmt: skip
    return left


@njit(nogil=True, cache=True)
def _follow_leads(words, leads, bits, alive):
    """Set the bits of the requirements whose rare lead is met."""
    for i in range(0, len(words), 2):
        among = words[i + 1]
        rest = bits[np.int64(words[i] & _LOW)] & among
        while rest != ZERO:
            lowest = rest & (~rest + ONE)
            rest ^= lowest
            lead = 2 * (np.int64(words[i] >> _HALF) + count_ones(among & (lowest - ONE)))
            _set_range(alive, leads[lead])
            _set_range(alive, leads[lead + 1])


@njit(nogil=True, cache=True, forceinline=True)
def _set_range(bits, bounds):
    """Set a range of bits."""
    start = np.int64(bounds >> _HALF)
    end = start + np.int64(bounds & _LOW)
    while start < end:
        n_here = min(end - start, 64 - (start & 63))
        bits[start >> 6] |= (ALL >> np.uint64(64 - n_here)) << np.uint64(start & 63)
        start += n_here
