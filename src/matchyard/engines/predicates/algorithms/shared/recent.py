"""Recent subscriptions of a live index: a few predicates that every event is compared with, one by one.

They are kept as pieces: codes would change with every addition (`encoder.events.direct_check`).
"""

from __future__ import annotations

from array import array
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared.exact_check import ABSENT, holds
from matchyard.engines.predicates.encoder import Column, Reader, Subscriptions, Writer
from matchyard.engines.predicates.encoder.events.direct_check import (
    ONE_TEXT,
    checks_of,
    number_lies,
    satisfies,
    sort_by_name,
    values_of_column,
    values_of_one,
    with_folds,
)
from matchyard.engines.predicates.encoder.layout import TEXT, VALUE, WHAT, WHERE, Kind
from matchyard.kernels.growing import put, with_room
from matchyard.kernels.hashing import is_equal
from matchyard.kernels.prepared import Prepared, opened
from matchyard.kernels.strings import Interner, freeze

_LEFT_TO_BATCH = -1
_TEXT, _NUMBER = int(Kind.TEXT), int(Kind.NUMBER)
_LOW_32 = 0xFFFFFFFF


class Log:
    """Recent predicates, in the order of their addition."""

    def __init__(self, options: Any) -> None:
        self._writer, self._names = Writer(), Interner()
        self._text_ends, self._text = array("q", [0]), bytearray()
        self._last: Prepared | None = None

    def append(self, predicate: Any) -> None:
        """Add a predicate."""
        self._writer.add(predicate)

    def column(self) -> Subscriptions:
        """All predicates so far, as the encoder's column."""
        return self._writer.subscriptions()

    def checks(self) -> Prepared:
        """All predicates so far, in arrays that do not change."""
        new = [name.encode() for name in islice(self._writer.names, self._names.n_names, None)]
        if new:
            self._names.add(new)
        for text in islice(self._writer.texts, len(self._text_ends) - 1, None):
            self._text += text.encode()
            self._text_ends.append(len(self._text))
        checks = checks_of(self._names, self._text_ends, self._text, self._writer.pieces())
        self._last = Prepared(freeze(checks), self._last)
        return self._last


class Scratch(NamedTuple):
    """Arrays that the search of one event changes."""

    rows: NDArray[np.int32]


class Finder:
    """Finds the recent predicates that hold for one event, for one thread."""

    def __init__(self, options: Any) -> None:
        self._prepare(64)

    def _prepare(self, n_rows: int) -> None:
        self.rows = np.empty(n_rows, np.int32)
        self._scratch = Prepared(Scratch(self.rows))

    def find(self, event: Reader, checks: Prepared) -> int:
        """Write the rows that hold to `rows`; returns how many there are. Less than 0: the event has to
        be matched as a batch."""
        n_rows = checks.arrays[3].n_rows
        if n_rows > len(self.rows):
            self._prepare(2 * n_rows)
        return int(_find(checks, self._scratch, event.prepared))


def match(column: Column, checks: Prepared, options: Any) -> tuple[Any, Any]:
    """The rows that hold for each event: (hit_start, rows)."""
    found: tuple[Any, Any] = with_folds(
        lambda *folds: _match(checks.arrays, column, *folds), column
    )
    return found


@njit(nogil=True, cache=True)
def _entries(checks, values, first, last):
    """(pieces, elements) of the attributes that satisfy the constraints from `first` to `last`."""
    pieces, attributes = checks.pieces, values.attributes
    found, elements, n = np.empty(16, np.int32), np.empty(16, np.int32), 0
    for piece in range(pieces.piece_start[first], pieces.piece_start[last]):
        name = pieces.names[piece]
        for i in range(values.name_start[name], values.name_start[name + 1]):
            attribute = values.by_name[i]
            if satisfies(
                checks.text_start, checks.text, pieces.kinds[piece], np.int64(pieces.forms[piece]),
                pieces.low[piece], pieces.high[piece], attributes[attribute, VALUE],
                attributes[attribute, WHAT], attribute, values.text, values.folds, values.fold_text,
                values.is_unfolded,
            ):  # fmt: skip
                found, elements = with_room(found, n, n + 1), with_room(elements, n, n + 1)
                found[n], elements[n] = piece, attributes[attribute, WHERE] & _LOW_32
                n += 1
    return found[:n], elements[:n]


@njit(nogil=True, cache=True)
def _groups_hold(checks, values, number):
    """True if a filter holds that has negated groups, or for an event with arrays of objects.

    Each piece is a slot of its own, with an entry for every attribute that satisfies it.
    """
    pieces = checks.pieces
    n_pieces, first = len(pieces.names), np.full(len(pieces.names), ABSENT, np.int32)
    found, elements = _entries(
        checks, values, pieces.filter_start[number], pieces.filter_start[number + 1]
    )
    has_elements = False
    for i in range(len(found) - 1, -1, -1):
        first[found[i]] = i
        has_elements |= elements[i] > 0
    slots, zeros = np.empty(n_pieces, np.int32), np.zeros(n_pieces + len(found), np.int64)
    for piece in range(n_pieces):
        slots[piece] = piece
    return holds(
        pieces.filter_start, pieces.piece_start, pieces.groups, slots, zeros, zeros, number, found,
        zeros, elements, values.element_parent, values.element_array, 0, len(found), first,
        has_elements,
    )  # fmt: skip


@njit(nogil=True, cache=True)
def _append_rows(checks, values, has_elements, rows, n_rows):
    """Append the rows that hold for an event; `rows` has room for all. Returns how many there are."""
    row_start, filter_start = checks.pieces.row_start, checks.pieces.filter_start
    piece_start, groups = checks.pieces.piece_start, checks.pieces.groups
    names, kinds, forms = checks.pieces.names, checks.pieces.kinds, checks.pieces.forms
    low, high = checks.pieces.low, checks.pieces.high
    text_start, text = checks.text_start, checks.text
    attributes, data, by_name = values.attributes, values.text, values.by_name
    name_start, folds, fold_text = values.name_start, values.folds, values.fold_text
    is_unfolded = values.is_unfolded
    for row in range(len(row_start) - 1):
        is_held = False
        for number in range(row_start[row], row_start[row + 1]):
            first, last = filter_start[number], filter_start[number + 1]
            if last > first and (has_elements or groups[last - 1] > 0):
                is_held = _groups_hold(checks, values, number)
            else:
                is_held = True
                for constraint in range(first, last):
                    is_held = False
                    for piece in range(piece_start[constraint], piece_start[constraint + 1]):
                        kind, form = kinds[piece], np.int64(forms[piece])
                        from_, to = low[piece], high[piece]
                        is_one_text = kind == _TEXT and form == ONE_TEXT and from_ == to
                        for i in range(name_start[names[piece]], name_start[names[piece] + 1]):
                            value, what = (
                                attributes[by_name[i], VALUE],
                                attributes[by_name[i], WHAT],
                            )
                            if kind == _NUMBER:
                                is_held |= number_lies(form, from_, to, value, what)
                            elif is_one_text:
                                begin, length = text_start[to], text_start[to + 1] - text_start[to]
                                is_held |= what == length << 8 | TEXT and is_equal(
                                    text, begin, data, value, length
                                )
                            else:
                                is_held |= satisfies(
                                    text_start, text, kind, form, from_, to, value, what, by_name[i],
                                    data, folds, fold_text, is_unfolded,
                                )  # fmt: skip
                    if not is_held:
                        break
            if is_held:
                break
        rows[n_rows] = row
        n_rows += is_held
    return n_rows


@njit(cache=True)
def _find(prepared, scratch, event):
    checks = opened(prepared)
    values, has_elements = values_of_one(checks, event)
    n_rows = _append_rows(checks, values, has_elements, opened(scratch).rows, 0)
    for i in range(len(values.is_unfolded)):
        if values.is_unfolded[i]:
            return _LEFT_TO_BATCH
    return n_rows


@njit(nogil=True, cache=True)
def _match(checks, column, folds, fold_text):
    """((hit_start, rows), is_unfolded): the rows are incomplete if Python has to fold texts."""
    tree, name_of, values = values_of_column(checks, column, folds, fold_text)
    row_start = column.row_start
    hit_start, hits, n_hits = np.zeros(len(row_start), np.int64), np.empty(256, np.int32), 0
    for event in range(len(row_start) - 1):
        hits = with_room(hits, n_hits, n_hits + len(checks.pieces.row_start))
        first, last = row_start[event], row_start[event + 1]
        has_elements = sort_by_name(checks, values, first, last, tree, name_of)
        n_hits = _append_rows(checks, values, has_elements, hits, n_hits)
        hit_start[event + 1] = n_hits
    rows = np.empty(n_hits, np.int32)
    put(rows, 0, hits, 0, n_hits)
    return (hit_start, rows), values.is_unfolded
