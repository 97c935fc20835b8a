"""Pieces to codes in a vocabulary, and back: the kernels.

The code of an open end is that of the closed end beside it, since codes of constants are two apart.
In FLOAT they are not: there, the slot's domain lists the constants that open ends exclude.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.engines.predicates.encoder.layout import HIGHEST, LOWEST, Kind, Mode
from matchyard.engines.predicates.encoder.number_codes import number_code
from matchyard.engines.predicates.encoder.subscriptions.pieces import HIGH, OPEN, Form
from matchyard.kernels.bits import bits_of, float_of
from matchyard.kernels.search import first_at_least

_NONE, _INTEGER, _UNSIGNED, _FLOAT = (
    int(form) for form in (Form.NONE, Form.INTEGER, Form.UNSIGNED, Form.FLOAT)
)
_TEXT, _CODE, _PATTERN, _END = (
    int(form) for form in (Form.TEXT, Form.CODE, Form.PATTERN, Form.END)
)
_FORMS = 7
_NUMBER, _FIRST_TEXT, _LAST_TEXT = int(Kind.NUMBER), int(Kind.TEXT), int(Kind.ADDRESS)
_FIRST_PATTERN = int(Kind.PATTERN)
_WHOLE, _DOUBLES, _RANKED = int(Mode.INTEGER), int(Mode.FLOAT), int(Mode.RANKED)
_SIGNLESS = (1 << 63) - 1
_EXACT = 1 << 53
_LARGEST = 1 << 61
_INFINITE_CODE = (1 << 62) + 2
_TWO_63, _TWO_64 = float(1 << 63), float(1 << 64)
NOT_WHOLE, NOT_DOUBLE, IN_ORDER = 1, 2, 4  # demands of constraints on a slot
OPEN_LOW, OPEN_HIGH = 1, 2  # in the domain of a FLOAT slot: which ends exclude the constant


@njit(nogil=True, cache=True)
def low_form(pieces, i):
    """The form of the low end of a piece; signed, since kernels mix it with signed numbers."""
    return np.int64(pieces.forms[i]) & 15


@njit(nogil=True, cache=True)
def high_form(pieces, i):
    """The form of the high end."""
    return np.int64(pieces.forms[i]) >> HIGH


@njit(nogil=True, cache=True)
def pair_of(form, word):
    """A constant as the largest double that is not above it and the rest; see `number_codes`."""
    if form == _FLOAT:
        return float_of(word), np.int64(0)
    if form == _UNSIGNED:
        whole = np.uint64(word)
        number = np.float64(whole)
        if number >= _TWO_64 or np.uint64(number) > whole:
            number = float_of(bits_of(number) - 1)
        return number, np.int64(whole - np.uint64(number))
    number = np.float64(word)
    if -_EXACT <= word <= _EXACT:
        return number, np.int64(0)
    if number >= _TWO_63 or np.int64(number) > word:
        number = float_of(bits_of(number) + (-1 if number > 0 else 1))
    return number, word - np.int64(number)


@njit(nogil=True, cache=True)
def word_of(number, rest):
    """The form and the word of a constant; whole numbers of 64 bits are integers."""
    if _TWO_63 <= number < _TWO_64:
        return _UNSIGNED, np.int64(np.uint64(number) + np.uint64(rest))
    if -_TWO_63 <= number < _TWO_63 and number == np.floor(number):
        return _INTEGER, np.int64(number) + rest
    return _FLOAT, bits_of(number)


@njit(nogil=True, cache=True)
def mark_slots(pieces, marks):
    """Mark the kinds of slots that each name needs."""
    for i in range(len(pieces.names)):
        marks[pieces.names[i], pieces.kinds[i]] = True


@njit(nogil=True, cache=True)
def look(pieces, slot_of, demands):
    """Collect what constraints demand of each slot: NOT_WHOLE, NOT_DOUBLE, IN_ORDER."""
    for c in range(len(pieces.groups)):
        start, end = pieces.piece_start[c], pieces.piece_start[c + 1]
        for i in range(start, end):
            kind = pieces.kinds[i]
            slot = slot_of[pieces.names[i], kind]
            low, high = low_form(pieces, i), high_form(pieces, i)
            if kind == _NUMBER:
                demands[slot] |= _doubts(low & _FORMS, pieces.low[i])
                demands[slot] |= _doubts(high & _FORMS, pieces.high[i])
                if low > OPEN and high > OPEN and _is_tight(pieces, i):
                    demands[slot] |= NOT_DOUBLE
            elif _is_text(kind) and not _is_unordered(pieces, start, end, i):
                demands[slot] |= IN_ORDER


@njit(nogil=True, cache=True)
def _is_tight(pieces, i):
    """True if the ends are neighbouring doubles: no code is left between open ends."""
    high = _double_code(high_form(pieces, i), pieces.high[i])
    return high - _double_code(low_form(pieces, i), pieces.low[i]) < 2


@njit(nogil=True, cache=True)
def _is_text(kind):
    return _FIRST_TEXT <= kind <= _LAST_TEXT


@njit(nogil=True, cache=True)
def _doubts(form, word):
    if form == _INTEGER:
        doubts = 0 if -_LARGEST <= word <= _LARGEST else NOT_WHOLE
        return doubts if -_EXACT <= word <= _EXACT else doubts | NOT_DOUBLE
    if form == _UNSIGNED:
        return NOT_WHOLE | NOT_DOUBLE
    if form == _FLOAT:
        number = float_of(word)
        if np.isinf(number):
            return 0
        doubts = 0 if abs(number) <= _LARGEST and number == np.floor(number) else NOT_WHOLE
        return doubts if abs(number) <= _EXACT else doubts | NOT_DOUBLE
    return 0


@njit(nogil=True, cache=True)
def _double_code(form, word):
    """The code in FLOAT of a constant that fits, as `number_code` gives it."""
    number, _ = pair_of(form & _FORMS, word)
    if number == 0.0:
        return np.int64(0)
    bits = bits_of(number)
    return bits if bits >= 0 else bits ^ np.int64(_SIGNLESS)


@njit(nogil=True, cache=True)
def _is_unordered(pieces, start, end, i):
    """True if equality decides the piece: one text, all texts, or all but one text."""
    low, high = low_form(pieces, i), high_form(pieces, i)
    if _TEXT in (low, high):
        return low == high and pieces.low[i] == pieces.high[i]
    if high == _TEXT | OPEN:
        if i + 1 == end or pieces.kinds[i + 1] != pieces.kinds[i]:
            return False
        if low_form(pieces, i + 1) != _TEXT | OPEN or pieces.low[i + 1] != pieces.high[i]:
            return False
    elif high != _NONE:
        return False
    if low == _TEXT | OPEN:
        if i == start or pieces.kinds[i - 1] != pieces.kinds[i]:
            return False
        return high_form(pieces, i - 1) == _TEXT | OPEN and pieces.high[i - 1] == pieces.low[i]
    return low == _NONE


@njit(nogil=True, cache=True)
def collect(pieces, slot_of, wanted, only_open, slots, numbers, rests):
    """Constants of the wanted slots, or words of their patterns; returns how many there are.

    With `only_open`, only constants that open ends exclude, with the end instead of the rest. Short
    arrays are not filled to the end.
    """
    n_found = 0
    for i in range(len(pieces.names)):
        kind = pieces.kinds[i]
        slot = slot_of[pieces.names[i], kind]
        if not wanted[slot]:
            continue
        for side in range(1 if kind >= _FIRST_PATTERN else 2):
            form = high_form(pieces, i) if side else low_form(pieces, i)
            word = pieces.high[i] if side else pieces.low[i]
            if form == _NONE or (only_open and form < OPEN):
                continue
            if n_found < len(slots):
                slots[n_found] = slot
                if kind >= _FIRST_PATTERN:
                    numbers[n_found], rests[n_found] = 0.0, word
                else:
                    numbers[n_found], rests[n_found] = pair_of(form & _FORMS, word)
                    if only_open:
                        rests[n_found] = OPEN_HIGH if side else OPEN_LOW
            n_found += 1
    return n_found


@njit(nogil=True, cache=True)
def excluded(vocabulary, slot, number):
    """The ends (OPEN_LOW, OPEN_HIGH) that exclude this constant of a FLOAT slot."""
    start, end = vocabulary.domain_start[slot], vocabulary.domain_start[slot + 1]
    at = first_at_least(vocabulary.domain, start, end, number)
    if at < end and vocabulary.domain[at] == number:
        return vocabulary.domain_rest[at]
    return np.int64(0)


@njit(nogil=True, cache=True)
def double_with(code):
    """The double that has this code in FLOAT; NaN for the code between the zeros."""
    if code == -1:
        return np.nan
    return float_of(code if code >= 0 else code ^ np.int64(_SIGNLESS))


@njit(nogil=True, cache=True)
def clashes(pieces, slot_of, vocabulary, clashing):
    """Mark FLOAT slots where an included constant has the code of an excluded neighbour."""
    for i in range(len(pieces.names)):
        if pieces.kinds[i] != _NUMBER:
            continue
        slot = slot_of[pieces.names[i], _NUMBER]
        if vocabulary.domain_start[slot] == vocabulary.domain_start[slot + 1]:
            continue
        if vocabulary.mode[slot] == _DOUBLES and not clashing[slot]:
            clashing[slot] |= _clashes(vocabulary, slot, low_form(pieces, i), pieces.low[i], -1)
            clashing[slot] |= _clashes(vocabulary, slot, high_form(pieces, i), pieces.high[i], 1)


@njit(nogil=True, cache=True)
def _clashes(vocabulary, slot, form, word, step):
    if form == _NONE or form >= OPEN:
        return False
    which = OPEN_LOW if step < 0 else OPEN_HIGH
    neighbour = double_with(_double_code(form, word) + step)
    return (excluded(vocabulary, slot, neighbour) & which) != 0


@njit(nogil=True, cache=True)
def first_missing(pieces, slot_of, vocabulary):
    """The first constraint with a name or constant that the vocabulary lacks, or -1."""
    for c in range(len(pieces.groups)):
        start, end = pieces.piece_start[c], pieces.piece_start[c + 1]
        for i in range(start, end):
            if pieces.names[i] < 0:
                return c
            slot = np.int64(slot_of[pieces.names[i], pieces.kinds[i]])
            if slot < 0 or not (
                _has(vocabulary, slot, low_form(pieces, i), pieces.low[i], OPEN_LOW)
                and _has(vocabulary, slot, high_form(pieces, i), pieces.high[i], OPEN_HIGH)
            ):
                return c
            is_unordered = _is_text(pieces.kinds[i]) and vocabulary.mode[slot] == 0
            if is_unordered and not _is_unordered(pieces, start, end, i):
                return c
    return -1


@njit(nogil=True, cache=True)
def code_all(pieces, slot_of, vocabulary, slots, low, high):
    """The codes of all pieces."""
    mode = vocabulary.mode
    n_texts = len(vocabulary.texts.text_start) - 1
    names, kinds, forms = pieces.names, pieces.kinds, pieces.forms
    low_words, high_words = pieces.low, pieces.high
    for i in range(len(names)):
        slot = slot_of[names[i], kinds[i]]
        slots[i] = slot
        for side in range(2):
            form = np.int64(forms[i]) >> HIGH if side else np.int64(forms[i]) & 15
            word = high_words[i] if side else low_words[i]
            plain = form & _FORMS
            # Few words need the arrays of the vocabulary, and passing them for each word is slow.
            if form == _NONE:
                code = np.int64(HIGHEST) if side else np.int64(LOWEST)
            elif plain == _TEXT:
                code = 2 * word + 1
            elif plain == _CODE:
                code = word
            elif plain == _END:
                code = np.int64(2 * n_texts + 1)
            elif plain == _PATTERN or mode[slot] == _RANKED:
                code = _listed_code(vocabulary, slot, plain, word)
            elif mode[slot] == _DOUBLES:
                code = _double_code(plain, word)
            elif plain == _INTEGER:
                code = 2 * word
            elif np.isinf(float_of(word)):
                code = np.int64(_INFINITE_CODE if float_of(word) > 0 else -_INFINITE_CODE)
            else:
                code = 2 * np.int64(float_of(word))
            if side:
                high[i] = code - (form >= OPEN)
            else:
                low[i] = code + (form >= OPEN)


@njit(nogil=True, cache=True)
def _listed_code(vocabulary, slot, form, word):
    """The code of a pattern, or of a number in RANKED."""
    start, end = vocabulary.domain_start[slot], vocabulary.domain_start[slot + 1]
    if form == _PATTERN:
        return first_at_least(vocabulary.domain_rest, start, end, word) - start
    number, rest = pair_of(form, word)
    domain, domain_rest = vocabulary.domain, vocabulary.domain_rest
    return number_code(_RANKED, number, rest, domain, domain_rest, start, end)


@njit(nogil=True, cache=True)
def _has(vocabulary, slot, form, word, side):
    """True if the vocabulary has the constant of this end."""
    plain = form & _FORMS
    start, end = vocabulary.domain_start[slot], vocabulary.domain_start[slot + 1]
    if plain == _TEXT:
        return word >= 0
    if plain == _PATTERN:
        at = first_at_least(vocabulary.domain_rest, start, end, word)
        return at < end and vocabulary.domain_rest[at] == word
    if plain in (_NONE, _CODE, _END):
        return True
    mode = vocabulary.mode[slot]
    if mode == _RANKED:
        return _listed_code(vocabulary, slot, plain, word) % 2 == 1
    if mode == _WHOLE:
        return _doubts(plain, word) & NOT_WHOLE == 0
    if _doubts(plain, word) & NOT_DOUBLE:
        return False
    if form >= OPEN:
        return (excluded(vocabulary, slot, pair_of(plain, word)[0]) & side) != 0
    return not _clashes(vocabulary, slot, form, word, -1 if side == OPEN_LOW else 1)


@njit(nogil=True, cache=True)
def read_all(filters, name_of, vocabulary, pieces):
    """Fill pieces with the constants of the codes: the reverse of `code_all`."""
    for i in range(len(filters.slots)):
        slot = filters.slots[i]
        pieces.names[i] = name_of[slot]
        pieces.kinds[i] = vocabulary.kind[slot]
        form = above = _NONE
        pieces.low[i] = pieces.high[i] = 0
        if filters.low[i] != LOWEST:
            form, pieces.low[i] = _read(vocabulary, slot, filters.low[i], OPEN_LOW)
        if filters.high[i] != HIGHEST:
            above, pieces.high[i] = _read(vocabulary, slot, filters.high[i], OPEN_HIGH)
        pieces.forms[i] = form | above << HIGH


@njit(nogil=True, cache=True)
def _read(vocabulary, slot, code, side):
    """The form and the word of an end."""
    kind, start = vocabulary.kind[slot], vocabulary.domain_start[slot]
    step = -1 if side == OPEN_LOW else 1
    if kind >= _FIRST_PATTERN:
        return _PATTERN, vocabulary.domain_rest[start + code]
    if kind >= _FIRST_TEXT:
        is_open = code % 2 == 0
        text = (code + step * is_open) >> 1
        form = _END if text == len(vocabulary.texts.text_start) - 1 else _TEXT
        return form | (OPEN if is_open else 0), np.int64(0) if form == _END else text
    if kind != _NUMBER:
        return _CODE, code
    mode = vocabulary.mode[slot]
    if mode == _DOUBLES:
        number = double_with(code + step)
        is_open = (excluded(vocabulary, slot, number) & side) != 0
        form, word = word_of(number if is_open else double_with(code), np.int64(0))
        return form | (OPEN if is_open else 0), word
    is_open = code % 2 == (1 if mode == _WHOLE else 0)
    code += step * is_open
    if mode == _RANKED:
        at = start + (code >> 1)
        form, word = word_of(vocabulary.domain[at], vocabulary.domain_rest[at])
    elif abs(code) == _INFINITE_CODE:
        form, word = word_of(np.inf if code > 0 else -np.inf, np.int64(0))
    else:
        form, word = _INTEGER, code >> 1
    return form | (OPEN if is_open else 0), word
