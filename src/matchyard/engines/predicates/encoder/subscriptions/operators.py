"""Tests of the language as pieces, and back; see `layout` for the kinds of slots.

Within a constraint `<` comes after every other test of one piece, and tests of several pieces come
last. So the pieces of the latter, from the first without a low end on, cannot be taken for others.
`except` and `not …` stand alone and take all values that are no texts: only they have a piece without
an end among true, false and null.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from matchyard.engines.predicates.encoder.events.pattern_index import INVERTED, WILDCARD
from matchyard.engines.predicates.encoder.layout import Kind
from matchyard.engines.predicates.encoder.subscriptions.pieces import HIGH, OPEN, Form
from matchyard.engines.predicates.language.canonical import Test, successor

_OTHER = {False: 0, True: 1, None: 2}
VALUES = (False, True, None)
_HALF, _SIZE = 1 << 63, 1 << 64
_LAST = {"<": 1, "!=": 2}  # else 0
_AS_DOUBLE, _AS_INTEGER = struct.Struct("<d"), struct.Struct("<q")

Piece = tuple[int, int, int, int]  # kind, forms, low and high word
TextId = Callable[[str], int]
End = tuple[int, int]  # form and word

_NONE: End = (Form.NONE, 0)
_NO_TEXTS: list[Piece] = [(Kind.NUMBER, 0, 0, 0), (Kind.OTHER, 0, 0, 0)]  # all of either kind
READ_BACKWARDS = {Kind.REVERSED, Kind.FOLDED_REVERSED}
_OTHER_KIND, _TEXT_KIND, _NUMBER_KIND = int(Kind.OTHER), int(Kind.TEXT), int(Kind.NUMBER)
_CODE, _TEXT, _FLOAT = int(Form.CODE), int(Form.TEXT), int(Form.FLOAT)
_INTEGER, _UNSIGNED = int(Form.INTEGER), int(Form.UNSIGNED)
COMPARISONS = {  # how the forms of both ends follow from that of the constant: times this, plus that
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
OP_OF_PATTERN = {(int(kind), flags): op for op, (kind, flags) in _PATTERNS.items()}
OP_OF_PREFIX = {int(kind): op for op, kind in _PREFIXES.items()}
_SEPARATOR = "\\|"  # between the wildcards of one pattern: there a backslash escapes * and \ only
_TOKEN = re.compile(r"\\.|[^\\]+", re.DOTALL)


def write_constraint(tests: Sequence[Test], text_id: TextId) -> list[Piece]:
    """The pieces of a constraint, given what numbers texts."""
    if len(tests) > 1:
        tests = sorted(tests, key=lambda test: _LAST.get(test.op, 0))
    return [piece for test in tests for piece in write(test.op, test.value, text_id)]


def write(op: str, value: Any, text_id: TextId) -> list[Piece]:
    """The pieces of one test."""
    if op in COMPARISONS:
        kind, form, word = constant(value, text_id)
        times, plus = COMPARISONS[op]
        return [
            (kind, form * times + plus, word, word)
        ]  # the word of an end that is none is unread
    if op == "!=":
        kind, form, word = constant(value, text_id)
        return _around(kind, [((form, word), (form | OPEN, word))])
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
        return [*_NO_TEXTS, *_write_others(op, value, text_id)]
    return _write_text(op, value, text_id)


def _write_text(op: str, value: Any, text_id: TextId) -> list[Piece]:
    if op in _PATTERNS:
        return [_pattern(op, value, text_id)]
    if op in _PREFIXES:
        low, high = _range(_PREFIXES[op], value, text_id)
        return [_piece(_PREFIXES[op], low, (high[0] | OPEN, high[1]))]
    if op == "ignore-case":
        return [_point(Kind.FOLDED, value, text_id)]
    first, last = addresses(ip_network(value))  # of cidr
    return [_piece(Kind.ADDRESS, (Form.TEXT, text_id(first)), (Form.TEXT, text_id(last)))]


def _write_others(op: str, values: Sequence[str], text_id: TextId) -> list[Piece]:
    """The texts that a `not …` leaves."""
    if op == "not wildcard":
        return [_pattern(op, _SEPARATOR.join(values), text_id)]
    if op == "not ignore-case":
        return _around(Kind.FOLDED, [_gap(Form.TEXT, text_id(text)) for text in values])
    kind = _PREFIXES[op.removeprefix("not ")]
    ordered = sorted(text[::-1] for text in values) if kind in READ_BACKWARDS else sorted(values)
    return _around(kind, [_range(kind, text, text_id, True) for text in ordered])


def _pattern(op: str, text: str, text_id: TextId) -> Piece:
    kind, flags = _PATTERNS[op]
    word = text_id(text) << 2 | flags
    return kind, Form.PATTERN | Form.PATTERN << HIGH, word, word


def _write_except(values: Iterable[Any], text_id: TextId) -> list[Piece]:
    others = {_OTHER[value] for value in values if value is None or isinstance(value, bool)}
    found = {Kind.NUMBER: [], Kind.TEXT: []}  # type: dict[int, list[tuple[End, End]]]
    for value in values:  # in order within each type
        if value is not None and not isinstance(value, bool):
            kind, form, word = constant(value, text_id)
            found[kind].append(_gap(form, word))
    pieces = _around(Kind.NUMBER, found[Kind.NUMBER])
    low = _NONE
    for code in sorted(others):
        if code > low[1]:
            pieces.append(_piece(Kind.OTHER, low, (Form.CODE, code - 1)))
        low = (Form.CODE, code + 1)
    pieces.append(_piece(Kind.OTHER, low, _NONE))  # only `except` has a piece without an end here
    return [*pieces, *_around(Kind.TEXT, found[Kind.TEXT])]


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


def alternatives_of(pattern: str) -> tuple[str, ...]:
    """The wildcards of a pattern that is inverted."""
    found = [""]
    for token in _TOKEN.findall(pattern):
        if token == _SEPARATOR:
            found.append("")
        else:
            found[-1] += token
    return tuple(found)


def addresses(network: IPv4Network | IPv6Network) -> tuple[str, str]:
    """The first and the last address of a network, written so that texts compare as addresses."""
    digits = 8 if network.version == 4 else 32
    first, last = int(network.network_address), int(network.broadcast_address)
    return f"{network.version}{first:0{digits}x}", f"{network.version}{last:0{digits}x}"


def network(first: str, last: str) -> str:
    """The network that reaches from the first to the last address, in CIDR notation."""
    low, high = int(first[1:], 16), int(last[1:], 16)
    bits = 32 if first[0] == "4" else 128
    kind = IPv4Network if first[0] == "4" else IPv6Network
    return str(kind((low, bits - (low ^ high).bit_length())))


def _piece(kind: int, low: End, high: End) -> Piece:
    return kind, low[0] | high[0] << HIGH, low[1], high[1]


def _point(kind: int, text: str, text_id: TextId) -> Piece:
    word = text_id(text)
    return kind, Form.TEXT | Form.TEXT << HIGH, word, word


def _gap(form: int, word: int) -> tuple[End, End]:
    return (form, word), (form | OPEN, word)


def _range(kind: int, text: str, text_id: TextId, is_turned: bool = False) -> tuple[End, End]:
    """From the texts that begin with one to the first text after them."""
    if kind in READ_BACKWARDS and not is_turned:
        text = text[::-1]
    after = successor(text)
    end: End = (Form.END, 0) if after is None else (Form.TEXT, text_id(after))
    return (Form.TEXT, text_id(text)), end


def _around(kind: int, gaps: Sequence[tuple[End, End]]) -> list[Piece]:
    """Everything but some gaps in order; each from an end that it includes to where it goes on."""
    pieces, start = [], _NONE
    for (form, word), end in gaps:
        if start != (form, word):  # gaps may touch
            pieces.append(_piece(kind, start, (form | OPEN, word)))
        start = end
    return [*pieces, _piece(kind, start, _NONE)]
