"""Read the attributes of start tags, or skip them if no value test needs them."""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.engines.twigs.encoder.events.value_tests import UNSURE, add_leaves
from matchyard.engines.twigs.encoder.scanner.characters import (
    AMPERSAND,
    APOSTROPHE,
    ASK,
    EQUALS,
    FULL,
    GREATER,
    HASH,
    LESS,
    LINE_FEED,
    QUOTE,
    REFUSED,
    RETURN,
    SLASH,
    SPACE,
    TAB,
    character_length,
    is_space,
    name_end,
    skip_space,
    skip_value,
)
from matchyard.engines.twigs.encoder.scanner.element_names import find_cached
from matchyard.engines.twigs.encoder.scanner.references import (
    N_GATHERED,
    N_HITS,
    N_SIGNALS,
    read_reference,
)
from matchyard.kernels.hashing import is_equal

MAX_ATTRIBUTES = 64  # expat looks for repeated names if an element has more


@njit(nogil=True, cache=True)
def _gather_value(text, start, end, gathered, state):
    """Gather a part of the value of an attribute; white space becomes spaces."""
    n_gathered = state[N_GATHERED]
    for i in range(start, end):
        byte = text[i]
        gathered[n_gathered + i - start] = SPACE if byte in (LINE_FEED, TAB) else byte
    state[N_GATHERED] = n_gathered + end - start


@njit(nogil=True, cache=True)
def _read_value(text, position, end, declared, document, skips, limit, gathered, state):
    """After the `=`: read a value in quotes; returns the position after it."""
    if position >= end or (text[position] != QUOTE and text[position] != APOSTROPHE):
        return np.int64(REFUSED)
    quote = text[position]
    position += 1
    while True:
        begin = position
        position = skip_value(text, position, end)
        if position >= end:
            return np.int64(REFUSED)
        if len(gathered):
            _gather_value(text, begin, position, gathered, state)
        byte = text[position]
        if byte == quote:
            return position + 1
        if byte == LESS:
            return np.int64(REFUSED)
        if byte == AMPERSAND:
            n_before = state[N_GATHERED]
            is_character = position + 1 < end and text[position + 1] == HASH
            position = read_reference(
                text, position + 1, end, declared, document, skips, limit, state[:0],
                gathered, state,
            )  # fmt: skip
            if position < 0:
                return position
            if not is_character:
                for i in range(n_before, state[N_GATHERED]):
                    if is_space(gathered[i]):
                        gathered[i] = SPACE
            continue
        n_bytes = character_length(text, position, end)
        if n_bytes == 0:
            return np.int64(REFUSED)
        if len(gathered):
            for i in range(n_bytes):
                gathered[state[N_GATHERED] + i] = text[position + i]
            state[N_GATHERED] += n_bytes
            if byte == RETURN:
                gathered[state[N_GATHERED] - 1] = SPACE
                n_bytes += position + 1 < end and text[position + 1] == LINE_FEED
        position += n_bytes


@njit(nogil=True, cache=True)
def _is_repeated(text, spans, n_attributes):
    """True if an earlier attribute has the name of the last one."""
    start, length = spans[2 * n_attributes], spans[2 * n_attributes + 1]
    for i in range(n_attributes):
        if spans[2 * i + 1] == length and is_equal(text, spans[2 * i], text, start, length):
            return True
    return False


@njit(nogil=True, cache=True)
def _plain_value_end(text, position, end):
    """The position after the value in quotes that comes next, or ASK if it has references."""
    if position >= end or (text[position] != QUOTE and text[position] != APOSTROPHE):
        return np.int64(ASK)
    quote = text[position]
    position += 1
    while True:
        position = skip_value(text, position, end)
        if position >= end:
            return np.int64(ASK)
        byte = text[position]
        if byte == quote:
            return position + 1
        n_bytes = character_length(text, position, end)
        if byte in (AMPERSAND, LESS) or n_bytes == 0:
            return np.int64(ASK)
        position += n_bytes


@njit(nogil=True, cache=True)
def skip_attributes(text, position, end, spans):
    """Skip attributes that no test needs; ASK if `read_attributes` has to decide."""
    n_attributes = 0
    while True:
        before = position
        position = skip_space(text, position, end)
        if position >= end:
            return np.int64(ASK)
        if text[position] == GREATER or text[position] == SLASH:
            return position
        after = name_end(text, position, end)
        if after < 0 or position == before or n_attributes == MAX_ATTRIBUTES:
            return np.int64(ASK)
        spans[2 * n_attributes], spans[2 * n_attributes + 1] = position, after - position
        if _is_repeated(text, spans, n_attributes):
            return np.int64(ASK)
        n_attributes += 1
        if after >= end or text[after] != EQUALS:
            return np.int64(ASK)
        position = _plain_value_end(text, after + 1, end)
        if position < 0:
            return position


@njit(nogil=True, cache=True)
def read_attributes(
    text, position, end, lookups, cache, declared, document, skips, limit, max_hits, spans,
    gathered, signals, state,
):  # fmt: skip
    """After the name of an element: read its attributes and add leaves for their tests; returns the
    position of the `>` or `/`. `gathered` is empty if no test needs attributes."""
    names, tests, texts = lookups.attributes, lookups.tests, lookups.texts
    run_start, symbols, operands, numbers = tests.run_start, tests.symbol, tests.text, tests.number
    length_bits = tests.length_bits
    slots, word_start, words = texts.slots, texts.text_start, texts.text
    nothing = gathered[:0]
    n_attributes = 0
    while True:
        before = position
        position = skip_space(text, position, end)
        if position >= end:
            return np.int64(REFUSED)
        if text[position] == GREATER or text[position] == SLASH:
            return position
        after = name_end(text, position, end)
        if after < 0 or position == before:
            return after if after < 0 else np.int64(REFUSED)
        if n_attributes == MAX_ATTRIBUTES:
            return np.int64(ASK)
        spans[2 * n_attributes], spans[2 * n_attributes + 1] = position, after - position
        if _is_repeated(text, spans, n_attributes):
            return np.int64(REFUSED)
        n_attributes += 1
        attribute = 0
        if len(gathered):
            attribute = find_cached(names, cache, text, position, after)
        position = skip_space(text, after, end)
        if position >= end or text[position] != EQUALS:
            return np.int64(REFUSED)
        position = skip_space(text, position + 1, end)
        begin = state[N_GATHERED]
        position = _read_value(
            text, position, end, declared, document, skips, limit,
            gathered if attribute else nothing, state,
        )  # fmt: skip
        if position < 0:
            return position
        if attribute:
            n_signals = add_leaves(
                run_start, symbols, operands, numbers, length_bits, slots, word_start, words, attribute - 1,
                gathered, begin, state[N_GATHERED], signals, state[N_SIGNALS],
            )  # fmt: skip
            state[N_HITS] += n_signals - state[N_SIGNALS]
            is_left = n_signals == UNSURE or state[N_HITS] > max_hits
            if is_left or n_signals >= len(signals):
                return np.int64(ASK if is_left else FULL)
            state[N_SIGNALS], state[N_GATHERED] = n_signals, begin
