"""References in texts and values: to characters, and to entities.

Decoded texts and values are *gathered* in a buffer for value tests. An empty buffer means that no
test needs them.

    state    counts, indexed by N_SIGNALS … N_HITS; functions that add something change them
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.encoder.scanner.characters import (
    ASK,
    HASH,
    REFUSED,
    SEMICOLON,
    name_end,
)
from matchyard.kernels.growing import put
from matchyard.kernels.hashing import is_equal

N_SIGNALS, N_GATHERED, N_EXPANDED, N_REFERENCES, N_HITS = 0, 1, 2, 3, 4  # in `state`
N_STATE = 5
REFERENCE = 3  # words of a reference to an entity with tags: start, end, number of the entity
_ONE_BYTE, _TWO_BYTES, _THREE_BYTES = 0x80, 0x800, 0x10000


class Declared(NamedTuple):
    """The declared entities by document."""

    entity_start: NDArray[np.int64]  # [n_documents + 1]
    name_start: NDArray[np.int64]  # [n_entities + 1] into `text`
    value_start: NDArray[np.int64]  # [n_entities + 1] into `text`
    is_plain: NDArray[np.bool_]  # [n_entities] it is only text
    size: NDArray[np.int64]  # [n_entities] bytes that its expansion reads, at least its value
    text: NDArray[np.uint8]


@njit(nogil=True, cache=True)
def _put(gathered, n_gathered, code):
    """Append a character as UTF-8; returns the number of gathered bytes."""
    if code < _ONE_BYTE:
        gathered[n_gathered] = code
        return n_gathered + 1
    n_more = 1 if code < _TWO_BYTES else (2 if code < _THREE_BYTES else 3)
    lead = (0xC0, 0xE0, 0xF0)[n_more - 1]
    gathered[n_gathered] = lead | (code >> (6 * n_more))
    for i in range(n_more):
        gathered[n_gathered + 1 + i] = 0x80 | ((code >> (6 * (n_more - 1 - i))) & 0x3F)
    return n_gathered + n_more + 1


@njit(nogil=True, cache=True)
def _read_character(text, position, end):
    """After `&#`: the character or REFUSED, and the position of the `;`."""
    base = 10
    if position < end and text[position] == 120:
        base = 16
        position += 1
    code, begin = 0, position
    while position < end and text[position] != SEMICOLON:
        byte = text[position]
        digit = np.int64(byte) - 48
        if base == 16 and digit > 9:
            digit = np.int64(byte | 32) - 97 + 10
            if digit < 10:
                return np.int64(REFUSED), position
        if digit < 0 or digit >= base:
            return np.int64(REFUSED), position
        code = min(base * code + digit, 1 << 24)
        position += 1
    is_control = code < 32 and code not in (9, 10, 13)
    is_bad = is_control or 0xD800 <= code <= 0xDFFF or code in (0xFFFE, 0xFFFF) or code > 0x10FFFF
    if position >= end or position == begin or is_bad:
        return np.int64(REFUSED), position
    return np.int64(code), position


@njit(nogil=True, cache=True)
def _predefined(text, position, length):
    """The character of one of the five predefined entities; 0 for others."""
    first, second = text[position], text[position + 1]
    if length == 2 and second == 116:
        return 60 if first == 108 else (62 if first == 103 else 0)  # lt, gt
    if length == 3 and (first, second, text[position + 2]) == (97, 109, 112):
        return 38  # amp
    if length == 4:
        rest = (second, text[position + 2], text[position + 3])
        if first == 97 and rest == (112, 111, 115):
            return 39  # apos
        if first == 113 and rest == (117, 111, 116):
            return 34  # quot
    return 0


@njit(nogil=True, cache=True)
def _note(references, start, end, entity, state):
    first = REFERENCE * state[N_REFERENCES]
    if first + REFERENCE > len(references):  # always, in an attribute
        return np.int64(ASK)
    references[first], references[first + 1], references[first + 2] = start, end, entity
    state[N_REFERENCES] += 1
    return end


@njit(nogil=True, cache=True)
def read_reference(
    text, position, end, declared, document, skips, limit, references, gathered, state
):
    """After `&`: gather the text of a reference, or note the reference if it stands for markup;
    returns the position after it."""
    n_gathered = state[N_GATHERED]
    if position < end and text[position] == HASH:
        code, position = _read_character(text, position + 1, end)
        if code < 0:
            return code
        if len(gathered):
            state[N_GATHERED] = _put(gathered, n_gathered, code)
        return position + 1
    after = name_end(text, position, end)
    if after < 0 or after >= end or text[after] != SEMICOLON:
        return after if after < 0 else np.int64(REFUSED)
    code = _predefined(text, position, after - position)
    if code:
        if len(gathered):
            state[N_GATHERED] = _put(gathered, n_gathered, code)
        return after + 1
    for i in range(declared.entity_start[document], declared.entity_start[document + 1]):
        begin = declared.name_start[i]
        length = declared.name_start[i + 1] - begin
        if length == after - position and is_equal(declared.text, begin, text, position, length):
            if not declared.is_plain[i]:
                return _note(references, position - 1, after + 1, i, state)
            begin, stop = declared.value_start[i], declared.value_start[i + 1]
            state[N_EXPANDED] += declared.size[i]
            if state[N_EXPANDED] > limit:
                return np.int64(ASK)
            if len(gathered):
                put(gathered, n_gathered, declared.text, begin, stop)
                state[N_GATHERED] += stop - begin
            return after + 1
    return after + 1 if skips else np.int64(ASK)
