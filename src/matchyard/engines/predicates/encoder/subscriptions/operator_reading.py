"""Pieces back as tests of the language: what `operators` writes is read here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from matchyard.engines.predicates.encoder.layout import Kind
from matchyard.engines.predicates.encoder.subscriptions.operators import (
    OP_OF_PATTERN,
    OP_OF_PREFIX,
    READ_BACKWARDS,
    VALUES,
    Piece,
    alternatives_of,
    network,
    read_number,
)
from matchyard.engines.predicates.encoder.subscriptions.pieces import HIGH, OPEN, Form
from matchyard.engines.predicates.language.canonical import Test, sort_key, successor

Text = Callable[[int], str]
_MASK = 15


def read_constraint(pieces: Sequence[Piece], text: Text) -> tuple[Test, ...]:
    """The tests of a constraint in their order, given the text of an id."""
    slots: dict[int, list[Piece]] = {}
    for piece in pieces:
        slots.setdefault(piece[0], []).append(piece)
    others = slots.get(Kind.OTHER, [])
    if any(forms >> HIGH == Form.NONE for _, forms, _, _ in others):
        return (_read_alone(slots, text),)
    found = [test for kind, some in slots.items() for test in _read_slot(kind, some, text)]
    return tuple(sorted(found, key=sort_key)) if len(found) > 1 else tuple(found)


def _read_slot(kind: int, pieces: list[Piece], text: Text) -> list[Test]:
    found, i = [], 0
    while i < len(pieces):
        n_pieces = _length(pieces, i)
        if n_pieces == 1:
            found.append(_read_single(kind, pieces[i], text))
        else:
            found.append(_read_chain(kind, pieces[i : i + n_pieces], text))
        i += n_pieces
    return found


def _length(pieces: list[Piece], i: int) -> int:
    """How many pieces the next test has."""
    n_pieces = 1
    if pieces[i][1] & _MASK == Form.NONE and pieces[i][1] >> HIGH >= OPEN:
        while i + n_pieces < len(pieces) and pieces[i + n_pieces][1] & _MASK != Form.NONE:
            n_pieces += 1
    return n_pieces


def _end(form: int, word: int, text: Text) -> Any:
    form &= ~OPEN
    if form == Form.TEXT:
        return text(word)
    return None if form in (Form.NONE, Form.END) else read_number(form, word)


def _read_single(kind: int, piece: Piece, text: Text) -> Test:
    _, forms, low_word, high_word = piece
    low_form, high_form = forms & _MASK, forms >> HIGH
    if kind == Kind.PRESENT:
        return Test("exists", None)
    if kind == Kind.OTHER:
        return Test("=", VALUES[low_word])
    if kind >= Kind.PATTERN:
        op, value = OP_OF_PATTERN[kind, low_word & 3], text(low_word >> 2)
        return Test(op, alternatives_of(value) if op == "not wildcard" else value)
    low, high = _end(low_form, low_word, text), _end(high_form, high_word, text)
    if kind == Kind.ADDRESS:
        return Test("cidr", network(low, high))
    if low_form == high_form and low == high:
        return Test("=" if kind in (Kind.NUMBER, Kind.TEXT) else "ignore-case", low)
    is_range = kind != Kind.NUMBER and low_form == Form.TEXT and high_form >= OPEN
    if is_range and successor(low) == high:
        return Test(OP_OF_PREFIX[kind], low[::-1] if kind in READ_BACKWARDS else low)
    if low_form == Form.NONE:
        return Test("<" if high_form >= OPEN else "<=", high)
    if high_form == Form.NONE:
        return Test(">" if low_form >= OPEN else ">=", low)
    return Test("between", (low, low_form >= OPEN, high, high_form >= OPEN))


def _gaps(pieces: list[Piece], text: Text) -> list[Any]:
    """The values, or beginnings of texts, that are left out between pieces."""
    found = []
    for left, right in pairwise(pieces):
        start = _end(left[1] >> HIGH, left[3], text)
        found.append(start)
        if right[1] & _MASK < OPEN:  # ranges of texts, perhaps several that touch
            end = _end(right[1] & _MASK, right[2], text)
            while (start := successor(start)) != end:
                found.append(start)
    return found


def _read_chain(kind: int, pieces: list[Piece], text: Text) -> Test:
    """`!=`, or the texts that a `not …` leaves."""
    values = _gaps(pieces, text)
    if kind in (Kind.NUMBER, Kind.TEXT) and pieces[1][1] & _MASK >= OPEN:
        return Test("!=", values[0])
    if kind == Kind.FOLDED:
        return Test("not ignore-case", tuple(values))
    if kind in READ_BACKWARDS:
        values = sorted(value[::-1] for value in values)
    return Test(f"not {OP_OF_PREFIX[kind]}", tuple(values))


def _read_alone(slots: dict[int, list[Piece]], text: Text) -> Test:
    """An `except` or a `not …`: of the latter a slot says which, or gaps that are no single texts."""
    for kind, pieces in slots.items():
        if kind >= Kind.PATTERN:
            return _read_single(kind, pieces[0], text)
        is_range = len(pieces) > 1 and pieces[1][1] & _MASK < OPEN
        if kind > Kind.TEXT or (kind == Kind.TEXT and is_range):
            return _read_chain(kind, pieces, text)
    return _read_except(slots, text)


def _read_except(slots: dict[int, list[Piece]], text: Text) -> Test:
    others = [VALUES[code] for code in (2, 0, 1) if not _covers(slots[Kind.OTHER], code)]
    numbers, texts = _gaps(slots[Kind.NUMBER], text), _gaps(slots[Kind.TEXT], text)
    return Test("except", (*others, *numbers, *texts))


def _covers(pieces: list[Piece], code: int) -> bool:
    for _, forms, low, high in pieces:
        is_above = forms & _MASK == Form.NONE or low + (forms & _MASK >= OPEN) <= code
        if is_above and (forms >> HIGH == Form.NONE or code <= high - (forms >> HIGH >= OPEN)):
            return True
    return False
