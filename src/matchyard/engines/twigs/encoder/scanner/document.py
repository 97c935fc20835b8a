"""Scan one document from its first byte to its last: the loop over tags and texts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.encoder.events.value_tests import UNSURE, Tests, add_leaves
from matchyard.engines.twigs.encoder.layout import CLOSE
from matchyard.engines.twigs.encoder.scanner.attributes import read_attributes, skip_attributes
from matchyard.engines.twigs.encoder.scanner.characters import (
    AMPERSAND,
    ASK,
    EXCLAMATION,
    FULL,
    GREATER,
    LESS,
    LINE_FEED,
    QUESTION,
    REFUSED,
    RETURN,
    SLASH,
    character_length,
    copy,
    is_next,
    is_space,
    skip_text,
    skip_wide,
)
from matchyard.engines.twigs.encoder.scanner.element_names import (
    MISSING,
    STACKED,
    close_element,
    look_up,
    open_element,
)
from matchyard.engines.twigs.encoder.scanner.markup import (
    CDATA,
    COMMENT,
    cdata_end,
    skip_comment,
    skip_instruction,
    skip_misc,
)
from matchyard.engines.twigs.encoder.scanner.references import (
    N_GATHERED,
    N_HITS,
    N_SIGNALS,
    read_reference,
)
from matchyard.kernels.strings import Names

_CDATA_END = np.frombuffer(b"]]>", np.uint8)
_NO_TAG = np.uint8(0)


class Lookups(NamedTuple):
    """A vocabulary in arrays for kernels."""

    names: Names
    attributes: Names
    texts: Names
    tests: Tests


class Room(NamedTuple):
    """Arrays that scanning writes to, besides the signals."""

    cache: NDArray[np.uint64]  # of element names, see `element_names`
    attribute_cache: NDArray[np.uint64]
    stack: NDArray[np.uint64]  # [max_depth * STACKED], see `element_names`
    value_start: NDArray[np.int64]  # [max_depth] where the value of an open element starts
    spans: NDArray[np.int64]  # start and length of the attributes of an element
    gathered: NDArray[np.uint8]  # texts with references replaced; empty if there are no tests
    references: NDArray[np.int64]  # to entities with tags, see `references`
    state: NDArray[np.int64]  # see `references`


class Settings(NamedTuple):
    """Settings for all documents."""

    max_depth: int
    max_entity_expansion: int
    max_value_hits: int
    has_attribute_tests: bool
    has_text_tests: bool
    has_value_tests: bool


@njit(nogil=True, cache=True)
def _is_start(text, position, end):
    """True if a start tag begins at `position`."""
    if position + 1 >= end or text[position] != LESS:
        return False
    byte = text[position + 1]
    return byte not in (SLASH, EXCLAMATION, QUESTION)


@njit(nogil=True, cache=True)
def _gather(text, start, end, gathered, state):
    copy(text, start, end, gathered, state[N_GATHERED])
    state[N_GATHERED] += end - start


@njit(nogil=True, cache=True)
def _gather_lines(text, start, end, gathered, state):
    """Gather text and normalise its line ends: CR and CR LF become LF."""
    n_gathered = state[N_GATHERED]
    for i in range(start, end):
        byte = text[i]
        if byte == RETURN:
            byte = LINE_FEED
        elif byte == LINE_FEED and i > start and text[i - 1] == RETURN:
            continue
        gathered[n_gathered] = byte
        n_gathered += 1
    state[N_GATHERED] = n_gathered


@njit(nogil=True, cache=True)
def _skip_special(
    text, position, end, document, skips, declared, limit, references, gathered, state
):  # fmt: skip
    """Read a reference or a character that is not plain; returns the position after it."""
    byte = text[position]
    if byte == AMPERSAND:
        return read_reference(
            text, position + 1, end, declared, document, skips, limit, references, gathered, state
        )
    if byte == LESS or is_next(text, position, end, _CDATA_END):
        return np.int64(REFUSED)
    n_bytes = character_length(text, position, end)
    if n_bytes == 0:
        return np.int64(REFUSED)
    after = position + n_bytes
    if len(gathered):
        if byte == RETURN and after < end and text[after] == LINE_FEED:
            after += 1
        _gather_lines(text, position, after, gathered, state)
    return after


@njit(nogil=True, cache=True)
def _skip_unnamed(text, position, end):
    """Skip a comment or an instruction."""
    if text[position + 1] == QUESTION:
        return skip_instruction(text, position + 2, end)
    if not is_next(text, position, end, COMMENT):
        return np.int64(REFUSED)
    return skip_comment(text, position + len(COMMENT), end)


@njit(nogil=True, cache=True)
def _read_cdata(text, position, end, gathered, state):
    """Read a CDATA section; returns the position after it."""
    begin = position + len(CDATA)
    position = cdata_end(text, begin, end)
    if position < 0:
        return position
    if len(gathered):
        _gather_lines(text, begin, position, gathered, state)
    return position + len(_CDATA_END)


@njit(nogil=True, cache=True)
def scan_document(
    text, position, end, document, skips, lookups, declared, settings, room, signals
):  # fmt: skip
    """Write the signals of a document whose root begins at `position`, or after comments and
    instructions there; returns its depth or a code.

    Start tags and leaves are part of this loop: as functions, even inlined ones, start tags took
    80 % more time and leaves 5 %. Arrays are taken out of their tuples once for the same reason.
    """
    cache, stack, value_start = room.cache, room.stack, room.value_start
    spans, gathered, state = room.spans, room.gathered, room.state
    references = room.references
    names, tests, texts = lookups.names, lookups.tests, lookups.texts
    run_start, symbols, operands, numbers = tests.run_start, tests.symbol, tests.text, tests.number
    length_bits = tests.length_bits
    slots, word_start, words = texts.slots, texts.text_start, texts.text
    has_attribute_tests, has_text_tests = settings.has_attribute_tests, settings.has_text_tests
    has_value_tests = settings.has_value_tests
    gathers = has_text_tests or has_value_tests
    for_texts = gathered if gathers else gathered[:0]
    for_attributes = gathered if has_attribute_tests else gathered[:0]
    max_depth, limit = settings.max_depth, settings.max_entity_expansion
    max_hits = settings.max_value_hits
    text_group = len(lookups.attributes.text_start) - 1
    n_signals, n_most, depth, text_start = state[N_SIGNALS], 0, 0, 0
    state[N_GATHERED] = state[N_HITS] = 0
    position = skip_misc(text, position, end)
    if position < 0 or not _is_start(text, position, end):
        return min(position, np.int64(REFUSED))
    while True:
        # At a `<`, or at a character of text that is not plain.
        byte = text[position + 1] if text[position] == LESS and position + 1 < end else _NO_TAG
        if text[position] >= 128:
            begin = position
            position = skip_wide(text, position, end)
            if position < 0:
                return position
            if gathers:
                _gather(text, begin, position, gathered, state)
        elif byte == _NO_TAG:
            position = _skip_special(
                text, position, end, document, skips, declared, limit, references, for_texts, state
            )
            if position < 0:
                return position
        elif byte == EXCLAMATION and is_next(text, position, end, CDATA):
            position = _read_cdata(text, position, end, for_texts, state)
            if position < 0:
                return position
        else:
            if gathers and state[N_GATHERED] > text_start:
                if has_text_tests:
                    n_before = n_signals
                    n_signals = add_leaves(
                        run_start, symbols, operands, numbers, length_bits, slots, word_start, words,
                        text_group, gathered, text_start, state[N_GATHERED], signals, n_signals,
                    )  # fmt: skip
                    state[N_HITS] += n_signals - n_before
                    if n_signals == UNSURE or state[N_HITS] > max_hits:
                        return np.int64(ASK)
                if not has_value_tests:
                    state[N_GATHERED] = text_start
                text_start = state[N_GATHERED]
            if n_signals + 2 > len(signals):
                return np.int64(FULL)
            is_closed = byte == SLASH
            if is_closed:
                position = close_element(text, position + 2, end, stack, STACKED * (depth - 1))
                if position < 0:
                    return position
            elif byte in (EXCLAMATION, QUESTION):
                position = _skip_unnamed(text, position, end)
                if position < 0:
                    return position
            else:
                if depth == max_depth:
                    return np.int64(REFUSED)
                top = STACKED * depth
                begin = position + 1
                position, symbol = open_element(text, begin, end, cache, stack, top)
                if symbol == MISSING:
                    symbol = look_up(names, cache, text, begin, end)
                if symbol < 0 or position >= end:
                    return min(symbol, np.int64(REFUSED))
                signals[n_signals] = symbol
                n_signals += 1
                if is_space(text[position]):
                    begin = position
                    if not has_attribute_tests:
                        position = skip_attributes(text, begin, end, spans)
                    if has_attribute_tests or position < 0:
                        state[N_SIGNALS] = n_signals
                        position = read_attributes(
                            text, begin, end, lookups, room.attribute_cache, declared, document,
                            skips, limit, max_hits, spans, for_attributes, signals, state,
                        )  # fmt: skip
                        if position < 0:
                            return position
                        n_signals = state[N_SIGNALS]
                is_closed = text[position] == SLASH
                position += is_closed
                if position >= end or text[position] != GREATER:
                    is_wide = position < end and text[position] >= 128  # part of the name
                    return np.int64(ASK if is_wide else REFUSED)
                position += 1
                value_start[depth] = text_start = state[N_GATHERED]
                depth += 1
                n_most = max(n_most, depth)
            if is_closed:
                depth -= 1
                if has_value_tests:
                    n_before = n_signals
                    n_signals = add_leaves(
                        run_start, symbols, operands, numbers, length_bits, slots, word_start, words,
                        text_group + 1, gathered, value_start[depth], state[N_GATHERED], signals,
                        n_signals,
                    )  # fmt: skip
                    state[N_HITS] += n_signals - n_before
                    if n_signals == UNSURE or state[N_HITS] > max_hits:
                        return np.int64(ASK)
                if n_signals >= len(signals):
                    return np.int64(FULL)
                signals[n_signals] = CLOSE
                n_signals += 1
                if depth == 0:
                    break
        begin = position
        position = skip_text(text, position, end)
        if position >= end:
            return np.int64(REFUSED)
        if gathers and position > begin:
            _gather(text, begin, position, gathered, state)
    state[N_SIGNALS] = n_signals
    position = skip_misc(text, position, end)
    if position < 0:
        return position
    return np.int64(n_most if position == end else REFUSED)
