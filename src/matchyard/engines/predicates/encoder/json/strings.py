"""Strings of JSON text: their ends, their escapes, and whether they are UTF-8."""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.engines.predicates.encoder.json.faults import (
    CONTROL,
    ENDS,
    ESCAPE,
    FULL_UNESCAPED,
    NO_FAULT,
    NOT_UTF8,
    SURROGATE,
)
from matchyard.kernels.bitset import lowest_one
from matchyard.kernels.hashing import read_8

_ONES = np.uint64(0x0101010101010101)
_TOPS = np.uint64(0x8080808080808080)
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_SPACES = np.uint64(0x2020202020202020)
QUOTE, BACKSLASH = np.uint8(34), np.uint8(92)


@njit(nogil=True, cache=True)
def _plain_end(text, position, end):
    """The position of the next quote, backslash, control character or non-ASCII byte."""
    while position + 8 <= len(text):
        word = read_8(text, position)
        quotes, slashes = word ^ _QUOTES, word ^ _BACKSLASHES
        special = ((quotes - _ONES) & ~quotes) | ((slashes - _ONES) & ~slashes)
        special = (special | ((word - _SPACES) & ~word) | word) & _TOPS
        if special != np.uint64(0):
            return min(end, position + (lowest_one(special) >> 3))
        position += 8
        if position >= end:
            return end
    while position < end:
        byte = text[position]
        if byte in (QUOTE, BACKSLASH) or byte < 32 or byte >= 128:
            return position
        position += 1
    return end


@njit(nogil=True, cache=True)
def _sequence(text, position, end):
    """The length of the UTF-8 sequence at `position`, 0 if it is invalid."""
    lead = text[position]
    low, high = 0x80, 0xBF
    if 0xC2 <= lead <= 0xDF:
        length = 2
    elif 0xE0 <= lead <= 0xEF:
        length = 3
        if lead == 0xE0:
            low = 0xA0
        elif lead == 0xED:
            high = 0x9F
    elif 0xF0 <= lead <= 0xF4:
        length = 4
        if lead == 0xF0:
            low = 0x90
        elif lead == 0xF4:
            high = 0x8F
    else:
        return 0
    if position + length > end or not low <= text[position + 1] <= high:
        return 0
    for i in range(2, length):
        if text[position + i] & 0xC0 != 0x80:
            return 0
    return length


@njit(nogil=True, cache=True)
def string_end(text, position, end):
    """(fault, position) of the closing quote or first escape after `position` in a string."""
    while True:
        position = _plain_end(text, position, end)
        if position == end:
            return ENDS, position
        byte = text[position]
        if byte in (QUOTE, BACKSLASH):
            return NO_FAULT, position
        if byte < 128:
            return CONTROL, position
        length = _sequence(text, position, end)
        if length == 0:
            return NOT_UTF8, position
        position += length


@njit(nogil=True, cache=True)
def _hex_4(text, position, end):
    """The value of four hex digits, or -1."""
    if position + 4 > end:
        return -1
    value = 0
    for i in range(position, position + 4):
        digit = np.int64(text[i])
        if 48 <= digit <= 57:
            digit -= 48
        elif 65 <= digit <= 70 or 97 <= digit <= 102:
            digit = (digit | 32) - 87
        else:
            return -1
        value = 16 * value + digit
    return value


@njit(nogil=True, cache=True)
def _put(room, n_used, code):
    """Write one code point as UTF-8; returns the new end."""
    if code < 0x80:
        room[n_used] = code
        return n_used + 1
    if code < 0x800:
        room[n_used] = 0xC0 | (code >> 6)
    else:
        if code < 0x10000:
            room[n_used] = 0xE0 | (code >> 12)
        else:
            room[n_used] = 0xF0 | (code >> 18)
            n_used += 1
            room[n_used] = 0x80 | ((code >> 12) & 0x3F)
        n_used += 1
        room[n_used] = 0x80 | ((code >> 6) & 0x3F)
    room[n_used + 1] = 0x80 | (code & 0x3F)
    return n_used + 2


@njit(nogil=True, cache=True)
def _escape(text, position, end):
    """(fault, code point, end) of the escape whose backslash is at `position`."""
    if position + 1 >= end:
        return ENDS, 0, end
    letter = text[position + 1]
    if letter == 117:  # u
        code = _hex_4(text, position + 2, end)
        if code < 0:
            return ESCAPE, 0, position
        if not 0xD800 <= code <= 0xDFFF:
            return NO_FAULT, code, position + 6
        low = -1
        if position + 7 < end and text[position + 6] == BACKSLASH and text[position + 7] == 117:
            low = _hex_4(text, position + 8, end)
        if code > 0xDBFF or not 0xDC00 <= low <= 0xDFFF:
            return SURROGATE, 0, position
        return NO_FAULT, 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), position + 12
    code = -1
    if letter in (QUOTE, BACKSLASH, np.uint8(47)):
        code = np.int64(letter)
    elif letter == 98:
        code = 8
    elif letter == 102:
        code = 12
    elif letter == 110:
        code = 10
    elif letter == 114:
        code = 13
    elif letter == 116:
        code = 9
    if code < 0:
        return ESCAPE, 0, position
    return NO_FAULT, code, position + 2


@njit(nogil=True, cache=True)
def unescape(text, position, end, room, n_used):
    """(fault, closing quote, new end of `room`): copy the inside of a string without its escapes."""
    while True:
        fault, stop = string_end(text, position, end)
        if fault:
            return fault, stop, n_used
        if n_used + stop - position + 4 > len(room):
            return FULL_UNESCAPED, position, n_used
        for i in range(position, stop):
            room[n_used] = text[i]
            n_used += 1
        if text[stop] == QUOTE:
            return NO_FAULT, stop, n_used
        fault, code, position = _escape(text, stop, end)
        if fault:
            return fault, position, n_used
        n_used = _put(room, n_used, code)
