"""Skip runs of plain bytes, 32 at a time, and check characters of more than one byte.

Positions are within `text`, the bytes of all documents; the current document ends at `end`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.engines.twigs.encoder.scanner.vector_blocks import (
    WIDTH,
    copy_block,
    count_block,
    markup_run,
    name_run,
    text_run,
    value_run,
)

# Codes that functions return instead of a position. The first two send the document to expat.
REFUSED = -1  # the document is malformed; expat says how
ASK = -2  # expat has to decide
FULL = -3  # the array of signals is full
SUBSET = -4  # the declarations of the document have to be read first
REWRITE = -5  # references to entities with markup have to be replaced first

TAB, LINE_FEED, RETURN, SPACE = np.uint8(9), np.uint8(10), np.uint8(13), np.uint8(32)
LESS, GREATER, AMPERSAND, SLASH = np.uint8(60), np.uint8(62), np.uint8(38), np.uint8(47)
BRACKET, QUOTE, APOSTROPHE, EQUALS = np.uint8(93), np.uint8(34), np.uint8(39), np.uint8(61)
QUESTION, EXCLAMATION, HASH, SEMICOLON = np.uint8(63), np.uint8(33), np.uint8(35), np.uint8(59)

SLACK = WIDTH  # bytes that `copy` may write beyond the end of a buffer
_TEXT, _VALUE, _MARKUP, _NAME = 1, 2, 4, 8  # a byte is plain in texts, values, markup or names


def _parts() -> np.ndarray:
    parts = np.zeros(256, np.uint8)
    for byte in range(128):
        sign = chr(byte)
        if byte >= 32 or sign in "\t\n":
            parts[byte] |= _TEXT * (sign not in "<&]")
            parts[byte] |= _VALUE * (sign not in "<&\"'")
            parts[byte] |= _MARKUP * (sign not in "-?]")
        parts[byte] |= _NAME * (sign.isalnum() or sign in "-.:_")
    return parts


_PARTS = _parts()


@njit(nogil=True, cache=True)
def _skip_rest(text, position, end, part):
    """Skip byte by byte, if fewer than 32 bytes are left of all documents."""
    while position < end and _PARTS[text[position]] & part:
        position += 1
    return min(position, end)


@njit(nogil=True, cache=True)
def skip_text(text, position, end):
    """The position of the first byte that is not plain text: `<`, `&`, `]`, CR, or not ASCII."""
    while position + WIDTH <= len(text):
        n_plain = text_run(text, position)
        position += n_plain
        if n_plain < WIDTH:
            return min(position, end)
        if position >= end:
            return end
    return _skip_rest(text, position, end, _TEXT)


@njit(nogil=True, cache=True)
def skip_value(text, position, end):
    """The position of the first byte of a value that is not plain, or a quote of either kind."""
    while position + WIDTH <= len(text):
        n_plain = value_run(text, position)
        position += n_plain
        if n_plain < WIDTH:
            return min(position, end)
        if position >= end:
            return end
    return _skip_rest(text, position, end, _VALUE)


@njit(nogil=True, cache=True)
def skip_markup(text, position, end):
    """The position of the first `-`, `?`, `]`, CR or byte that is not ASCII."""
    while position + WIDTH <= len(text):
        n_plain = markup_run(text, position)
        position += n_plain
        if n_plain < WIDTH:
            return min(position, end)
        if position >= end:
            return end
    return _skip_rest(text, position, end, _MARKUP)


@njit(nogil=True, cache=True)
def skip_name(text, position, end):
    """The position of the first byte that is no part of a name in ASCII."""
    while position + WIDTH <= len(text):
        n_plain = name_run(text, position)
        position += n_plain
        if n_plain < WIDTH:
            return min(position, end)
        if position >= end:
            return end
    return _skip_rest(text, position, end, _NAME)


@njit(nogil=True, cache=True)
def name_end(text, position, end):
    """The end of the name that starts here; REFUSED if there is no name, ASK if it has letters
    beyond ASCII."""
    after = skip_name(text, position, end)
    if after < end and text[after] >= 128:
        return np.int64(ASK)
    if after == position or not starts_name(text[position]):
        return np.int64(REFUSED)
    return after


@njit(nogil=True, cache=True)
def starts_name(byte):
    """True if a name may start with this byte; it is a byte of names."""
    return byte >= 65 or byte == 58  # not with a digit, minus or dot


@njit(nogil=True, cache=True)
def is_space(byte):
    """True for white space of XML."""
    return byte in (SPACE, LINE_FEED, TAB, RETURN)


@njit(nogil=True, cache=True)
def skip_space(text, position, end):
    """The position of the first byte that is no white space."""
    while position < end and is_space(text[position]):
        position += 1
    return position


@njit(nogil=True, cache=True)
def is_next(text, position, end, word):
    """True if the bytes of `word` come next."""
    if position + len(word) > end:
        return False
    for i in range(len(word)):
        if text[position + i] != word[i]:
            return False
    return True


@njit(nogil=True, cache=True)
def _follows(text, position, end, low, high):
    return position < end and low <= text[position] <= high


@njit(nogil=True, cache=True)
def wide_length(text, position, end):
    """The length in bytes of a character beyond ASCII; 0 if XML does not allow it."""
    lead = text[position]
    if lead < 0xC2 or lead > 0xF4:
        return 0
    if lead < 0xE0:
        return 2 * _follows(text, position + 1, end, 0x80, 0xBF)
    low, high = 0x80, 0xBF  # of the second byte: no overlong forms, surrogates, nor above 10FFFF
    if lead == 0xE0:
        low = 0xA0
    elif lead == 0xED:
        high = 0x9F
    elif lead == 0xF0:
        low = 0x90
    elif lead == 0xF4:
        high = 0x8F
    if not _follows(text, position + 1, end, low, high):
        return 0
    if lead < 0xF0:
        is_last = lead == 0xEF and text[position + 1] == 0xBF  # FFFE and FFFF are no characters
        return 3 * _follows(text, position + 2, end, 0x80, 0xBD if is_last else 0xBF)
    is_long = _follows(text, position + 2, end, 0x80, 0xBF)
    return 4 * (is_long and _follows(text, position + 3, end, 0x80, 0xBF))


@njit(nogil=True, cache=True)
def skip_wide(text, position, end):
    """The position after all characters beyond ASCII that come next, or REFUSED."""
    while position < end and text[position] >= 128:
        n_bytes = wide_length(text, position, end)
        if n_bytes == 0:
            return np.int64(REFUSED)
        position += n_bytes
    return position


@njit(nogil=True, cache=True)
def character_length(text, position, end):
    """The length in bytes of the character that ended a run; 0 if XML does not allow it."""
    byte = text[position]
    if byte >= 128:
        return wide_length(text, position, end)
    return 1 if byte >= SPACE or is_space(byte) else 0


@njit(nogil=True, cache=True)
def copy(source, start, end, target, position):
    """Copy bytes; up to 31 more may be written."""
    while start < end and start + WIDTH <= len(source):
        copy_block(source, start, target, position)
        start += WIDTH
        position += WIDTH
    for i in range(end - start):
        target[position + i] = source[start + i]


@njit(nogil=True, cache=True)
def count_brackets(text, start, end):
    """An upper bound of the signals of elements: one for every `<`, and one for every `/>`."""
    n_brackets = 0
    while start + WIDTH < end:
        n_brackets += count_block(text, start)
        start += WIDTH
    for i in range(start, end):
        n_brackets += text[i] == LESS or (
            i + 1 < end and text[i] == SLASH and text[i + 1] == GREATER
        )
    return n_brackets
