"""lazy_dfa: the state of an element that opens in a scope; computed once, then stored (`cache`)."""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.engines.twigs.algorithms.lazy_dfa.cache import (
    N_WORDS,
    UNKNOWN,
    append,
    intern_scope,
    intern_set,
    new_state,
    take,
)
from matchyard.engines.twigs.algorithms.lazy_dfa.requirements import N_OTHERS
from matchyard.engines.twigs.encoder.layout import ANY
from matchyard.kernels.bitset import ALL, ONE, ZERO, lowest_one


@njit(nogil=True, cache=True)
def n_words_at_most(table):
    """An upper bound of the words of the sets that one signal adds."""
    return 4 * len(table.is_deep) + 8


@njit(nogil=True, cache=True)
def document_scope(table, cache):
    """The scope of the root element."""
    word_at, words, target = cache.word_at, cache.words, cache.used[N_WORDS]
    word, at = ZERO, 0
    for requirement in table.tops:
        if requirement >> 6 != at:
            target = append(word_at, words, target, at, word)
            word, at = ZERO, requirement >> 6
        word |= ONE << np.uint64(requirement & 63)
    target = append(word_at, words, target, at, word)
    return intern_scope(cache, intern_set(cache, target))


@njit(nogil=True, cache=True)
def enter(table, cache, scope, symbol):
    """The state of an element in a scope, from 1."""
    state = cache.next_state[scope, symbol]
    if state == UNKNOWN:
        if symbol > 0 and not _asks_for(table, cache, cache.scope_set[scope], symbol):
            state = cache.next_state[scope, 0]  # as an element that no twig names
            if state == UNKNOWN:
                state = cache.next_state[scope, 0] = _new_state(table, cache, scope, np.int32(0))
        else:
            state = _new_state(table, cache, scope, symbol)
        cache.next_state[scope, symbol] = state
    return np.int64(state)


@njit(nogil=True, cache=True)
def _new_state(table, cache, scope, symbol):
    asking = cache.scope_set[scope]
    sure = _intern_free(table, cache, asking, symbol, ALL)
    late = _intern_free(table, cache, asking, symbol, ZERO)
    unnamed, any_inner = cache.next_state[scope, 0], np.int64(-1)
    if unnamed != UNKNOWN:
        any_inner = np.int64(cache.scope_set[cache.state_scope[unnamed - 1]])
    inner = intern_scope(cache, _intern_inner(table, cache, asking, symbol, any_inner))
    return np.int32(new_state(cache, asking, symbol, inner, sure, late) + 1)


@njit(nogil=True, cache=True)
def enter_leaf(table, cache, scope, symbol):
    """The set that a leaf meets in a scope, from 1. A `*` stands for no leaf."""
    word_at, words, target = cache.word_at, cache.words, cache.used[N_WORDS]
    tag_start, asking = table.tag_start, cache.scope_set[scope]
    for i in range(cache.set_start[asking], cache.set_start[asking + 1]):
        at = word_at[i]
        target = append(word_at, words, target, at, words[i] & of_symbol(tag_start, symbol, at))
    cache.next_state[scope, symbol] = intern_set(cache, target) + 1
    return np.int64(cache.next_state[scope, symbol])


@njit(nogil=True, cache=True, forceinline=True)
def of_symbol(tag_start, symbol, at):
    """The bits of a word that are requirements of a symbol."""
    start, end = tag_start[symbol + 1] - 64 * at, tag_start[symbol + 2] - 64 * at
    if start >= 64 or end <= 0 or start == end:
        return ZERO
    mask = ALL << np.uint64(max(start, 0))
    return mask if end >= 64 else mask & ~(ALL << np.uint64(end))


@njit(nogil=True, cache=True, forceinline=True)
def of_element(tag_start, symbol, at):
    """The bits of a word that an element with a symbol may meet, including those of `*`."""
    return of_symbol(tag_start, symbol, at) | of_symbol(tag_start, ANY, at)


@njit(nogil=True, cache=True)
def _asks_for(table, cache, asking, symbol):
    """True if a set has a requirement of the symbol itself, not of `*`."""
    word_at, words, tag_start = cache.word_at, cache.words, table.tag_start
    for i in range(cache.set_start[asking], cache.set_start[asking + 1]):
        if words[i] & of_symbol(tag_start, symbol, word_at[i]) != ZERO:
            return True
    return False


@njit(nogil=True, cache=True)
def _intern_free(table, cache, asking, symbol, flipped):
    """The requirements without a lead: with `flipped` ALL those without any condition, with ZERO
    those that have only negated conditions."""
    word_at, words, target = cache.word_at, cache.words, cache.used[N_WORDS]
    tag_start, has_more, is_free = table.tag_start, table.has_more, table.is_free
    for i in range(cache.set_start[asking], cache.set_start[asking + 1]):
        at = word_at[i]
        word = words[i] & is_free[at] & of_element(tag_start, symbol, at)
        word &= has_more[at] ^ flipped
        target = append(word_at, words, target, at, word)
    return intern_set(cache, target)


@njit(nogil=True, cache=True)
def _intern_inner(table, cache, asking, symbol, any_inner):
    """The requirements that the children of an element may meet: its own conditions, and those that
    its ancestors have for any descendant. `any_inner` is this set for an unnamed element, or -1."""
    word_at, words, target = cache.word_at, cache.words, cache.used[N_WORDS]
    tag_start, is_deep, lead, others = table.tag_start, table.is_deep, table.lead, table.others
    more_start, more = table.more_start, table.more
    bits, never = np.zeros(len(is_deep), np.uint64), len(lead) - 1
    if any_inner >= 0:
        take(cache, bits, any_inner)
    for i in range(cache.set_start[asking], cache.set_start[asking + 1]):
        at = word_at[i]
        bits[at] |= words[i] & is_deep[at]
        rest = words[i] & of_symbol(tag_start, symbol, at)
        if any_inner < 0:
            rest |= words[i] & of_symbol(tag_start, ANY, at)
        while rest != ZERO:
            number = 64 * at + lowest_one(rest)
            rest &= rest - ONE
            set_bit(bits, lead[number])
            for c in range(N_OTHERS):
                set_bit(bits, others[number, c] >> 1)
            for c in range(more_start[number], more_start[number + 1]):
                set_bit(bits, more[c] >> 1)
    bits[never >> 6] &= ~(ONE << np.uint64(never & 63))
    for at in range(len(bits)):
        target = append(word_at, words, target, at, bits[at])
    return intern_set(cache, target)


@njit(nogil=True, cache=True, forceinline=True)
def set_bit(bits, number):
    """Set one bit of a set."""
    bits[number >> 6] |= ONE << np.uint64(number & 63)


@njit(nogil=True, cache=True, forceinline=True)
def is_met(bits, requirement):
    """1 if the requirement is met, else 0."""
    return (bits[requirement >> 6] >> np.uint64(requirement & 63)) & ONE


@njit(nogil=True, cache=True, forceinline=True)
def others_hold(others, number, bits):
    """1 if the conditions in `others` hold, else 0; without a branch."""
    all_hold = ONE
    for c in range(N_OTHERS):
        condition = others[number, c]
        all_hold &= is_met(bits, condition >> 1) ^ np.uint64(condition & 1)
    return all_hold


@njit(nogil=True, cache=True, forceinline=True)
def holds(start, conditions, number, bits):
    """True if the conditions hold."""
    for c in range(start[number], start[number + 1]):
        if is_met(bits, conditions[c] >> 1) == np.uint64(conditions[c] & 1):
            return False
    return True


@njit(nogil=True, cache=True, forceinline=True)
def first_from(numbers, start, end, least):
    """The position of the first of ascending numbers that is at least `least`."""
    while end - start > 4:
        middle = (start + end) >> 1
        if numbers[middle] < least:
            start = middle + 1
        else:
            end = middle
    while start < end and numbers[start] < least:
        start += 1
    return start
