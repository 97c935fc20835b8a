"""Each operator of the language as pieces (`write`) and back (`read`); see `layout` for the slots.

Within a constraint, `<` comes after every other test of one piece, and tests of several pieces come
last. A piece without a low end and with an open high end is therefore the first of the last test.
`except` and `not …` stand alone and take all values that are not texts. Only these two have a piece
without a high end among true, false and null.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import pairwise
from typing import Any

from matchyard.engines.predicates.encoder.events.pattern_index import INVERTED, WILDCARD
from matchyard.engines.predicates.encoder.layout import Kind
from matchyard.engines.predicates.encoder.subscriptions.pieces import HIGH, OPEN, Form
from matchyard.engines.predicates.language.canonical import sort_key, successor
from matchyard.engines.predicates.language.model import Test

Piece = tuple[int, int, int, int]  # kind, forms, low and high word
End = tuple[int, int]  # form and word
TextId = Callable[[str], int]
Text = Callable[[int], str]  # the text of an id

_OTHER = {False: 0, True: 1, None: 2}
_VALUES = (False, True, None)
_HALF, _SIZE = 1 << 63, 1 << 64
_LAST = {"<": 1, "!=": 2}  # else 0
_AS_DOUBLE, _AS_INTEGER = struct.Struct("<d"), struct.Struct("<q")
_NONE: End = (Form.NONE, 0)
_NO_TEXTS: list[Piece] = [(Kind.NUMBER, 0, 0, 0), (Kind.OTHER, 0, 0, 0)]  # all of either kind
_BACKWARDS = {Kind.REVERSED, Kind.FOLDED_REVERSED}
_OTHER_KIND, _TEXT_KIND, _NUMBER_KIND = int(Kind.OTHER), int(Kind.TEXT), int(Kind.NUMBER)
_CODE, _TEXT, _FLOAT = int(Form.CODE), int(Form.TEXT), int(Form.FLOAT)
_INTEGER, _UNSIGNED = int(Form.INTEGER), int(Form.UNSIGNED)
_MASK = 15  # of the low end in the forms of a piece
COMPARISONS = {  # the forms of both ends: that of the constant times the first, plus the second
    "=": (1 + (1 << HIGH), 0),
    "<": (1 << HIGH, OPEN << HIGH),
    "<=": (1 << HIGH, 0),
    ">": (1, OPEN),
    ">=": (1, 0),
}
_PREFIXES = {
    "prefix": Kind.TEXT,
    "suffix": Kind.REVERSED,
    "prefix ignore-case": Kind.FOLDED,
    "suffix ignore-case": Kind.FOLDED_REVERSED,
}
_PATTERNS = {
    "contains": (Kind.PATTERN, 0),
    "wildcard": (Kind.PATTERN, WILDCARD),
    "not wildcard": (Kind.PATTERN, WILDCARD | INVERTED),
    "contains ignore-case": (Kind.FOLDED_PATTERN, 0),
    "wildcard ignore-case": (Kind.FOLDED_PATTERN, WILDCARD),
}
_OP_OF_PATTERN = {(int(kind), flags): op for op, (kind, flags) in _PATTERNS.items()}
_OP_OF_PREFIX = {int(kind): op for op, kind in _PREFIXES.items()}
_SEPARATOR = "\\|"  # between the wildcards of a pattern, where a backslash escapes only * and \
_TOKEN = re.compile(r"\\.|[^\\]+", re.DOTALL)


def write_constraint(tests: Sequence[Test], text_id: TextId) -> list[Piece]:
    """The pieces of a constraint."""
    if len(tests) > 1:
        tests = sorted(tests, key=lambda test: _LAST.get(test.op, 0))
    return [piece for test in tests for piece in write(test.op, test.value, text_id)]


def read_constraint(pieces: Sequence[Piece], text: Text) -> tuple[Test, ...]:
    """The tests of a constraint in canonical order: the reverse of `write_constraint`."""
    slots: dict[int, list[Piece]] = {}
    for piece in pieces:
        slots.setdefault(piece[0], []).append(piece)
    others = slots.get(Kind.OTHER, [])
    if any(forms >> HIGH == Form.NONE for _, forms, _, _ in others):
        return (_read_alone(slots, text),)
    tests = [test for kind, some in slots.items() for test in _read_slot(kind, some, text)]
    return tuple(sorted(tests, key=sort_key)) if len(tests) > 1 else tuple(tests)


def write(op: str, value: Any, text_id: TextId) -> list[Piece]:
    """The pieces of one test."""
    if op in COMPARISONS:
        kind, form, word = constant(value, text_id)
        times, plus = COMPARISONS[op]
        # Nobody reads the word of an end whose form is NONE.
        return [(kind, form * times + plus, word, word)]
    if op == "!=":
        kind, form, word = constant(value, text_id)
        return _around(kind, [_gap(form, word)])
    if op == "between":
        low, low_open, high, high_open = value
        kind, form, word = constant(low, text_id)
        _, above, end = constant(high, text_id)
        return [_piece(kind, (form | OPEN * low_open, word), (above | OPEN * high_open, end))]
    if op == "exists":
        return [(Kind.PRESENT, Form.CODE | Form.CODE << HIGH, 0, 0)]
    if op == "except":
        return _write_except(value, text_id)
    if op.startswith("not "):
        return [*_NO_TEXTS, *_write_not(op, value, text_id)]
    return _write_text(op, value, text_id)


def _read_slot(kind: int, pieces: list[Piece], text: Text) -> list[Test]:
    tests, i = [], 0
    while i < len(pieces):
        n_pieces = _count_pieces(pieces, i)
        if n_pieces == 1:
            tests.append(_read_single(kind, pieces[i], text))
        else:
            tests.append(_read_chain(kind, pieces[i : i + n_pieces], text))
        i += n_pieces
    return tests


def _count_pieces(pieces: list[Piece], i: int) -> int:
    """The number of pieces of the test that begins with piece `i`."""
    n_pieces = 1
    if pieces[i][1] & _MASK == Form.NONE and pieces[i][1] >> HIGH >= OPEN:
        while i + n_pieces < len(pieces) and pieces[i + n_pieces][1] & _MASK != Form.NONE:
            n_pieces += 1
    return n_pieces


def _read_single(kind: int, piece: Piece, text: Text) -> Test:
    _, forms, low_word, high_word = piece
    low_form, high_form = forms & _MASK, forms >> HIGH
    if kind == Kind.PRESENT:
        return Test("exists", None)
    if kind == Kind.OTHER:
        return Test("=", _VALUES[low_word])
    if kind >= Kind.PATTERN:
        op, value = _OP_OF_PATTERN[kind, low_word & 3], text(low_word >> 2)
        return Test(op, alternatives_of(value) if op == "not wildcard" else value)
    low, high = _end(low_form, low_word, text), _end(high_form, high_word, text)
    if kind == Kind.ADDRESS:
        return Test("cidr", _network(low, high))
    if low_form == high_form and low == high:
        return Test("=" if kind in (Kind.NUMBER, Kind.TEXT) else "ignore-case", low)
    is_range = kind != Kind.NUMBER and low_form == Form.TEXT and high_form >= OPEN
    if is_range and successor(low) == high:
        return Test(_OP_OF_PREFIX[kind], low[::-1] if kind in _BACKWARDS else low)
    if low_form == Form.NONE:
        return Test("<" if high_form >= OPEN else "<=", high)
    if high_form == Form.NONE:
        return Test(">" if low_form >= OPEN else ">=", low)
    return Test("between", (low, low_form >= OPEN, high, high_form >= OPEN))


def _read_chain(kind: int, pieces: list[Piece], text: Text) -> Test:
    """A test of several pieces in one slot: `!=`, or the texts of a `not …`."""
    values = _gaps(pieces, text)
    if kind in (Kind.NUMBER, Kind.TEXT) and pieces[1][1] & _MASK >= OPEN:
        return Test("!=", values[0])
    if kind == Kind.FOLDED:
        return Test("not ignore-case", tuple(values))
    if kind in _BACKWARDS:
        values = sorted(value[::-1] for value in values)
    return Test(f"not {_OP_OF_PREFIX[kind]}", tuple(values))


def _write_text(op: str, value: Any, text_id: TextId) -> list[Piece]:
    if op in _PATTERNS:
        return [_pattern(op, value, text_id)]
    if op in _PREFIXES:
        low, high = _range(_PREFIXES[op], value, text_id)
        return [_piece(_PREFIXES[op], low, (high[0] | OPEN, high[1]))]
    if op == "ignore-case":
        return [_point(Kind.FOLDED, value, text_id)]
    first, last = _addresses(ip_network(value))  # of cidr
    return [_piece(Kind.ADDRESS, (Form.TEXT, text_id(first)), (Form.TEXT, text_id(last)))]


def _write_not(op: str, values: Sequence[str], text_id: TextId) -> list[Piece]:
    """The texts that satisfy a `not …`."""
    if op == "not wildcard":
        return [_pattern(op, _SEPARATOR.join(values), text_id)]
    if op == "not ignore-case":
        return _around(Kind.FOLDED, [_gap(Form.TEXT, text_id(text)) for text in values])
    kind = _PREFIXES[op.removeprefix("not ")]
    ordered = sorted(text[::-1] for text in values) if kind in _BACKWARDS else sorted(values)
    return _around(kind, [_range(kind, text, text_id, True) for text in ordered])


def _read_alone(slots: dict[int, list[Piece]], text: Text) -> Test:
    """Read an `except` or a `not …`; the slot of the latter, or its gaps of whole ranges, show it."""
    for kind, pieces in slots.items():
        if kind >= Kind.PATTERN:
            return _read_single(kind, pieces[0], text)
        is_range = len(pieces) > 1 and pieces[1][1] & _MASK < OPEN
        if kind > Kind.TEXT or (kind == Kind.TEXT and is_range):
            return _read_chain(kind, pieces, text)
    return _read_except(slots, text)


def _write_except(values: Iterable[Any], text_id: TextId) -> list[Piece]:
    others = {_OTHER[value] for value in values if value is None or isinstance(value, bool)}
    gaps = {Kind.NUMBER: [], Kind.TEXT: []}  # type: dict[int, list[tuple[End, End]]]
    for value in values:  # in order within each type
        if value is not None and not isinstance(value, bool):
            kind, form, word = constant(value, text_id)
            gaps[kind].append(_gap(form, word))
    pieces = _around(Kind.NUMBER, gaps[Kind.NUMBER])
    low = _NONE
    for code in sorted(others):
        if code > low[1]:
            pieces.append(_piece(Kind.OTHER, low, (Form.CODE, code - 1)))
        low = (Form.CODE, code + 1)
    pieces.append(_piece(Kind.OTHER, low, _NONE))  # `_read_alone` relies on this piece
    return [*pieces, *_around(Kind.TEXT, gaps[Kind.TEXT])]


def _read_except(slots: dict[int, list[Piece]], text: Text) -> Test:
    others = [_VALUES[code] for code in (2, 0, 1) if not _covers(slots[Kind.OTHER], code)]
    numbers, texts = _gaps(slots[Kind.NUMBER], text), _gaps(slots[Kind.TEXT], text)
    return Test("except", (*others, *numbers, *texts))


def _covers(pieces: list[Piece], code: int) -> bool:
    for _, forms, low, high in pieces:
        is_above = forms & _MASK == Form.NONE or low + (forms & _MASK >= OPEN) <= code
        if is_above and (forms >> HIGH == Form.NONE or code <= high - (forms >> HIGH >= OPEN)):
            return True
    return False


def _pattern(op: str, text: str, text_id: TextId) -> Piece:
    kind, flags = _PATTERNS[op]
    word = text_id(text) << 2 | flags
    return kind, Form.PATTERN | Form.PATTERN << HIGH, word, word


def alternatives_of(pattern: str) -> tuple[str, ...]:
    """The wildcards of an inverted pattern."""
    wildcards = [""]
    for token in _TOKEN.findall(pattern):
        if token == _SEPARATOR:
            wildcards.append("")
        else:
            wildcards[-1] += token
    return tuple(wildcards)


def _addresses(network: IPv4Network | IPv6Network) -> tuple[str, str]:
    """The first and the last address of a network, written so that texts compare as addresses."""
    digits = 8 if network.version == 4 else 32
    first, last = int(network.network_address), int(network.broadcast_address)
    return f"{network.version}{first:0{digits}x}", f"{network.version}{last:0{digits}x}"


def _network(first: str, last: str) -> str:
    """The network that reaches from the first to the last address, in CIDR notation."""
    low, high = int(first[1:], 16), int(last[1:], 16)
    bits = 32 if first[0] == "4" else 128
    kind = IPv4Network if first[0] == "4" else IPv6Network
    return str(kind((low, bits - (low ^ high).bit_length())))


def constant(value: Any, text_id: TextId) -> tuple[int, int, int]:
    """Kind of slot, form and word of a constant."""
    if isinstance(value, str):
        return _TEXT_KIND, _TEXT, text_id(value)
    if value is None or isinstance(value, bool):
        return _OTHER_KIND, _CODE, _OTHER[value]
    return (_NUMBER_KIND, *number_end(value))


def number_end(value: float) -> End:
    """The form and the word of a number."""
    if isinstance(value, float):
        if not (value.is_integer() and -_HALF <= value < _SIZE):
            return _FLOAT, _AS_INTEGER.unpack(_AS_DOUBLE.pack(value))[0]
        value = int(value)
    if value < _HALF:
        return _INTEGER, value
    return _UNSIGNED, value - _SIZE


def read_number(form: int, word: int) -> int | float:
    """The number of a form and a word."""
    if form == Form.INTEGER:
        return word
    if form == Form.UNSIGNED:
        return word + _SIZE
    number: float = _AS_DOUBLE.unpack(_AS_INTEGER.pack(word))[0]
    return number


def _end(form: int, word: int, text: Text) -> Any:
    form &= ~OPEN
    if form == Form.TEXT:
        return text(word)
    return None if form in (Form.NONE, Form.END) else read_number(form, word)


def _piece(kind: int, low: End, high: End) -> Piece:
    return kind, low[0] | high[0] << HIGH, low[1], high[1]


def _point(kind: int, text: str, text_id: TextId) -> Piece:
    word = text_id(text)
    return kind, Form.TEXT | Form.TEXT << HIGH, word, word


def _gap(form: int, word: int) -> tuple[End, End]:
    return (form, word), (form | OPEN, word)


def _range(kind: int, text: str, text_id: TextId, is_turned: bool = False) -> tuple[End, End]:
    """The text, and the first text after all that begin with it."""
    if kind in _BACKWARDS and not is_turned:
        text = text[::-1]
    after = successor(text)
    end: End = (Form.END, 0) if after is None else (Form.TEXT, text_id(after))
    return (Form.TEXT, text_id(text)), end


def _around(kind: int, gaps: Sequence[tuple[End, End]]) -> list[Piece]:
    """All values outside some sorted gaps: pairs of the first end inside and the next one outside."""
    pieces, start = [], _NONE
    for (form, word), end in gaps:
        if start != (form, word):  # gaps may touch
            pieces.append(_piece(kind, start, (form | OPEN, word)))
        start = end
    return [*pieces, _piece(kind, start, _NONE)]


def _gaps(pieces: list[Piece], text: Text) -> list[Any]:
    """The values, or the beginnings of texts, between the pieces: the reverse of `_around`."""
    gaps = []
    for left, right in pairwise(pieces):
        start = _end(left[1] >> HIGH, left[3], text)
        gaps.append(start)
        if right[1] & _MASK < OPEN:  # ranges of texts, perhaps several that touch
            end = _end(right[1] & _MASK, right[2], text)
            while (start := successor(start)) != end:
                gaps.append(start)
    return gaps
