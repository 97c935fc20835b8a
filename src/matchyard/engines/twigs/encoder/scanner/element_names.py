"""Names of elements: a cache finds their symbols, and a stack checks that end tags fit.

cache    four words per slot: first and last eight bytes of a name, its length, its symbol;
         only for names of at most 16 bytes, which the first two words hold completely
stack    four words per open element: the same, with the start of the name instead of the symbol
"""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.engines.twigs.encoder.scanner.characters import (
    GREATER,
    REFUSED,
    name_end,
    skip_name,
    skip_space,
)
from matchyard.kernels.hashing import is_equal, read_8, xxh64
from matchyard.kernels.strings import find_name

CACHE_BITS = 10
STACKED = 4  # words of an open element
MISSING = -9
_WORD = 8
_NO_WORD = np.uint64(0)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)  # the first n bytes of a word


@njit(nogil=True, cache=True)
def _words(text, start, end):
    """The first and last eight bytes of a name of at most 16."""
    first = read_8(text, start)
    if end - start <= _WORD:
        return first & _MASKS[end - start], _NO_WORD
    return first, read_8(text, end - _WORD)


@njit(nogil=True, cache=True)
def _cache_slot(first, last):
    """The word of the cache at which the slot of a name starts."""
    mixed = (first ^ (last * np.uint64(3))) * _MIX
    return np.int64(mixed >> np.uint64(64 - CACHE_BITS)) * 4


@njit(nogil=True, cache=True)
def _find_id(names, text, start, end):
    """The id of a name + 1, or 0 if it has none."""
    return max(find_name(names, xxh64(text, start, end), text, start, end), np.int64(-1)) + 1


@njit(nogil=True, cache=True)
def find_cached(names, cache, text, start, end):
    """The id of a name + 1, or 0 if it has none; the cache is used for short names only."""
    length = end - start
    if length > 2 * _WORD or start + _WORD > len(text):
        return _find_id(names, text, start, end)
    first, last = _words(text, start, end)
    slot = _cache_slot(first, last)
    if cache[slot] != first or cache[slot + 1] != last or cache[slot + 2] != np.uint64(length):
        cache[slot + 3] = np.uint64(_find_id(names, text, start, end))
        cache[slot], cache[slot + 1], cache[slot + 2] = first, last, np.uint64(length)
    return np.int64(cache[slot + 3])


@njit(nogil=True, cache=True)
def open_element(text, start, end, cache, stack, top):
    """Push the element whose name starts here; returns the end of the name, and its symbol or
    MISSING if it is not in the cache. Cached names are known to be valid."""
    after = skip_name(text, start, end)
    length = after - start
    stack[top + 2], stack[top + 3] = np.uint64(length), np.uint64(start)
    if 0 < length <= 2 * _WORD and start + _WORD <= len(text):
        first, last = _words(text, start, after)
        stack[top], stack[top + 1] = first, last
        slot = _cache_slot(first, last)
        if (
            cache[slot] == first
            and cache[slot + 1] == last
            and cache[slot + 2] == np.uint64(length)
        ):
            return after, np.int64(cache[slot + 3])
    return after, np.int64(MISSING)


@njit(nogil=True, cache=True)
def look_up(names, cache, text, start, end):
    """The symbol of an element that is not in the cache, or REFUSED or ASK."""
    after = name_end(text, start, end)
    return after if after < 0 else find_cached(names, cache, text, start, after)


@njit(nogil=True, cache=True)
def close_element(text, position, end, stack, top):
    """After `</`: the position after the end tag of the innermost element, or REFUSED."""
    length = np.int64(stack[top + 2])
    after = position + length
    if after >= end:
        return np.int64(REFUSED)
    if length > 2 * _WORD or position + _WORD > len(text):
        is_same = is_equal(text, np.int64(stack[top + 3]), text, position, length)
    else:
        first, last = _words(text, position, after)
        is_same = first == stack[top] and last == stack[top + 1]
    if not is_same:
        return np.int64(REFUSED)
    if text[after] != GREATER:
        after = skip_space(text, after, end)
        if after >= end or text[after] != GREATER:
            return np.int64(REFUSED)
    return after + 1
