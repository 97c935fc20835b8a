"""Skip the markup besides elements and text: comments, instructions, declarations.

Each function takes the position after the opening sign, such as `<!--`, and returns the position
after the end, or REFUSED or ASK.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.engines.twigs.encoder.scanner.characters import (
    APOSTROPHE,
    ASK,
    BRACKET,
    GREATER,
    LESS,
    QUESTION,
    QUOTE,
    REFUSED,
    SUBSET,
    character_length,
    is_next,
    is_space,
    name_end,
    skip_markup,
    skip_space,
)


def _bytes(word: str) -> np.ndarray:
    return np.frombuffer(word.encode(), np.uint8)


COMMENT, CDATA, DOCTYPE, XML = map(_bytes, ("<!--", "<![CDATA[", "<!DOCTYPE", "<?xml"))
MARK = np.array([0xEF, 0xBB, 0xBF], np.uint8)  # U+FEFF, the byte order mark
INSTRUCTION = _bytes("<?")
_COMMENT_END, _CDATA_END, _INSTRUCTION_END = map(_bytes, ("--", "]]>", "?>"))
_VERSION, _ENCODING, _STANDALONE = map(_bytes, ("version", "encoding", "standalone"))
_SYSTEM, _PUBLIC = map(_bytes, ("SYSTEM", "PUBLIC"))
_ONE, _UTF8, _YES, _NO = map(_bytes, ("1.0", "utf-8", "yes", "no"))
_PUBLIC_SIGNS = np.zeros(256, np.bool_)
_PUBLIC_SIGNS[list(b" \r\n-'()+,./:=?;!*#@$_%")] = True
_PUBLIC_SIGNS[[byte for byte in range(128) if chr(byte).isalnum()]] = True


@njit(nogil=True, cache=True)
def find_end(text, position, end, word):
    """The position of the word that ends a piece of markup; REFUSED if a character before it is not
    allowed."""
    while True:
        position = skip_markup(text, position, end)
        if position >= end:
            return np.int64(REFUSED)
        if text[position] == word[0] and is_next(text, position, end, word):
            return position
        n_bytes = character_length(text, position, end)
        if n_bytes == 0:
            return np.int64(REFUSED)
        position += n_bytes


@njit(nogil=True, cache=True)
def skip_comment(text, position, end):
    """After `<!--`."""
    position = find_end(text, position, end, _COMMENT_END)
    if position < 0 or position + 2 >= end or text[position + 2] != GREATER:
        return np.int64(REFUSED)
    return position + 3


@njit(nogil=True, cache=True)
def cdata_end(text, position, end):
    """After `<![CDATA[`: the position of its `]]>`."""
    return find_end(text, position, end, _CDATA_END)


@njit(nogil=True, cache=True)
def skip_instruction(text, position, end):
    """After `<?`."""
    after = name_end(text, position, end)
    if after < 0:
        return after
    if after - position == 3:
        lower = (text[position] | 32, text[position + 1] | 32, text[position + 2] | 32)
        if lower == (120, 109, 108):  # xml, in any case
            return np.int64(REFUSED)
    if is_next(text, after, end, _INSTRUCTION_END):
        return after + 2
    if after >= end or not is_space(text[after]):
        return np.int64(REFUSED)
    after = find_end(text, after, end, _INSTRUCTION_END)
    return after if after < 0 else after + 2


@njit(nogil=True, cache=True)
def _is_value(text, position, end, word):
    """True if the quoted value is `word`, in upper or lower case."""
    if position + len(word) + 2 > end:
        return False
    quote = text[position]
    if (quote not in (QUOTE, APOSTROPHE)) or text[position + len(word) + 1] != quote:
        return False
    for i in range(len(word)):
        byte = text[position + 1 + i]
        if byte != word[i] and not (65 <= byte <= 90 and byte + 32 == word[i]):
            return False
    return True


@njit(nogil=True, cache=True)
def _value_start(text, position, end, name):
    """The position of the value of a pseudo attribute, if that comes next; else ASK."""
    after = skip_space(text, position, end)
    if after == position or not is_next(text, after, end, name):
        return np.int64(ASK)
    after = skip_space(text, after + len(name), end)
    if after >= end or text[after] != 61:
        return np.int64(ASK)
    return skip_space(text, after + 1, end)


@njit(nogil=True, cache=True)
def skip_declaration(text, position, end):
    """After `<?xml`: the end, or ASK for unusual forms; and true if the document is standalone."""
    begin = _value_start(text, position, end, _VERSION)
    if begin < 0 or not _is_value(text, begin, end, _ONE):
        return np.int64(ASK), False
    position = begin + len(_ONE) + 2
    begin = _value_start(text, position, end, _ENCODING)
    if begin >= 0:
        if not _is_value(text, begin, end, _UTF8):
            return np.int64(ASK), False
        position = begin + len(_UTF8) + 2
    is_alone = False
    begin = _value_start(text, position, end, _STANDALONE)
    if begin >= 0:
        is_alone = is_next(text, begin + 1, end, _YES)
        word = _YES if is_alone else _NO
        if not is_next(text, begin + 1, end, word) or not _is_value(text, begin, end, word):
            return np.int64(ASK), False
        position = begin + len(word) + 2
    position = skip_space(text, position, end)
    if not is_next(text, position, end, _INSTRUCTION_END):
        return np.int64(ASK), False
    return position + 2, is_alone


@njit(nogil=True, cache=True)
def _skip_literal(text, position, end, is_public):
    """After the white space before it."""
    if position >= end or (text[position] != QUOTE and text[position] != APOSTROPHE):
        return np.int64(REFUSED)
    quote = text[position]
    position += 1
    while position < end and text[position] != quote:
        n_bytes = character_length(text, position, end)
        if n_bytes == 0 or (is_public and not _PUBLIC_SIGNS[text[position]]):
            return np.int64(REFUSED)
        position += n_bytes
    return position + 1 if position < end else np.int64(REFUSED)


@njit(nogil=True, cache=True)
def skip_doctype(text, position, end):
    """After `<!DOCTYPE`: the end and a position. If it has declarations, which expat has to read, the
    result is SUBSET and their probable end."""
    begin = skip_space(text, position, end)
    if begin == position:
        return np.int64(REFUSED), begin
    after = name_end(text, begin, end)
    if after < 0:
        return after, begin
    position = skip_space(text, after, end)
    is_system = is_next(text, position, end, _SYSTEM)
    if is_system or is_next(text, position, end, _PUBLIC):
        if position == after:
            return np.int64(REFUSED), position
        for is_public in (True, False):
            if is_public and is_system:
                continue
            before = position + (6 if is_public or is_system else 0)
            position = skip_space(text, before, end)
            if position == before:
                return np.int64(REFUSED), position
            position = _skip_literal(text, position, end, is_public)
            if position < 0:
                return position, before
        position = skip_space(text, position, end)
    if position < end and text[position] == 91:  # [
        return np.int64(SUBSET), subset_end(text, position + 1, end)
    if position >= end or text[position] != GREATER:
        return np.int64(REFUSED), position
    return position + 1, position


@njit(nogil=True, cache=True)
def subset_end(text, position, end):
    """The position after the `]>` outside quotes, comments and instructions; `end` if none."""
    while position < end:
        byte = text[position]
        position += 1
        if byte in (QUOTE, APOSTROPHE):
            while position < end and text[position] != byte:
                position += 1
            position += 1
        elif byte == LESS and position < end and text[position] == QUESTION:
            position = _after(text, position + 1, end, _INSTRUCTION_END)
        elif byte == LESS and is_next(text, position - 1, end, COMMENT):
            position = _after(text, position + 3, end, _COMMENT_END)
        elif byte == BRACKET:
            after = skip_space(text, position, end)
            if after < end and text[after] == GREATER:
                return after + 1
    return end


@njit(nogil=True, cache=True)
def _after(text, position, end, word):
    while position < end and not is_next(text, position, end, word):
        position += 1
    return min(position + len(word), end)


@njit(nogil=True, cache=True)
def skip_misc(text, position, end):
    """Skip white space, comments and instructions outside the root."""
    while True:
        position = skip_space(text, position, end)
        if is_next(text, position, end, COMMENT):
            position = skip_comment(text, position + 4, end)
        elif is_next(text, position, end, INSTRUCTION):
            position = skip_instruction(text, position + 2, end)
        else:
            return position
        if position < 0:
            return position
