"""Which values of an event satisfy a constraint: the meaning of `Pieces`, without codes.

Codes depend on everything else in a vocabulary. A few subscriptions that come and go are compared with
the values themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.events.entries import UNASKED, NameTree, Texts, look_up
from matchyard.engines.predicates.encoder.events.pattern_index import pattern_holds
from matchyard.engines.predicates.encoder.events.slot_texts import NOT_FOLDED, case_folds, rewrite
from matchyard.engines.predicates.encoder.json.name_tree import N_ATTRIBUTES, N_ELEMENTS, N_NODES
from matchyard.engines.predicates.encoder.layout import (
    FALSE,
    NUMBER,
    TEXT,
    WHERE,
    Column,
    Kind,
)
from matchyard.engines.predicates.encoder.subscriptions.coding import pair_of
from matchyard.engines.predicates.encoder.subscriptions.pieces import HIGH, OPEN, Form, Pieces
from matchyard.kernels.bits import float_of
from matchyard.kernels.growing import copied
from matchyard.kernels.prepared import opened
from matchyard.kernels.strings import Interner

_NONE, _TEXT_FORM = int(Form.NONE), int(Form.TEXT)
_FORMS = 7
_PRESENT, _NUMBER, _OTHER = int(Kind.PRESENT), int(Kind.NUMBER), int(Kind.OTHER)
_TEXT, _FIRST_PATTERN = int(Kind.TEXT), int(Kind.PATTERN)
ONE_TEXT = _TEXT_FORM | _TEXT_FORM << HIGH  # the forms of a piece with both ends at texts
_NAME = 256  # bytes of the buffer for most dotted names
_LOW_32 = 0xFFFFFFFF
_BELOW, _EQUAL, _ABOVE = -1, 0, 1
_NO_FOLDS, _NO_BYTES = np.empty((0, 2), np.int64), np.empty(0, np.uint8)


class Values(NamedTuple):
    """The attributes of one event by name."""

    attributes: NDArray[np.int64]  # [n, 3] of all events, see `Column`
    text: NDArray[np.uint8]
    name_start: NDArray[np.int64]  # [n_names + 1] offsets into `by_name`, by id in `Checks`
    by_name: NDArray[np.int64]  # attributes
    element_parent: NDArray[np.int32]  # see `Column`
    element_array: NDArray[np.int32]
    folds: NDArray[np.int64]  # see `slot_texts.case_folds`
    fold_text: NDArray[np.uint8]
    is_unfolded: NDArray[np.uint8]  # [n] 1 where Python has to fold a text


class Checks(NamedTuple):
    """Subscriptions as pieces, with the names and texts that they are about."""

    names: Texts  # of attributes
    text_start: NDArray[np.int64]  # [n_texts + 1]
    text: NDArray[np.uint8]
    pieces: Pieces


def checks_of(names: Interner, ends: Any, text: bytes | bytearray, pieces: Pieces) -> Checks:
    """Copies of all that subscriptions are made of."""
    table, start, letters, _ = names.copied()
    of_names: Any = Texts(table, start, letters)
    return Checks(of_names, copied(ends), copied(text), pieces)


def with_folds(find: Callable[..., Any], column: Column) -> Any:
    """The result of `find(folds, fold_text)`, which returns it with `is_unfolded`; Python folds texts in
    between if it has to."""
    result, is_unfolded = find(_NO_FOLDS, _NO_BYTES)
    if is_unfolded.any():
        result, _ = find(*case_folds(column, np.flatnonzero(is_unfolded)))
    return result


@njit(nogil=True, cache=True)
def values_of_column(checks, column, folds, fold_text):
    """(names of the column for `sort_by_name`, the ids of those names, values without an event yet)."""
    tree = NameTree(column.name_start, column.name_parent, column.name_text)
    name_of, most = np.full(len(column.name_start) - 1, UNASKED, np.int64), 0
    for event in range(len(column.row_start) - 1):
        most = max(most, column.row_start[event + 1] - column.row_start[event])
    values = Values(
        column.attributes, column.text, np.empty(len(checks.names.start), np.int64),
        np.empty(most, np.int64), column.element_parent, column.element_array, folds, fold_text,
        np.zeros(len(column.attributes), np.uint8),
    )  # fmt: skip
    return tree, name_of, values


@njit(cache=True)
def values_of_one(checks, event):
    """(values of an event that a `Reader` has read, true if it has arrays of objects)."""
    room, texts = opened(event)
    n_attributes, n_nodes = room.counts[N_ATTRIBUTES], room.counts[N_NODES]
    n_elements = room.counts[N_ELEMENTS]
    tree = NameTree(texts.name_start[: n_nodes + 1], texts.name_parent[:n_nodes], room.paths)
    values = Values(
        room.attributes, texts.text, np.empty(len(checks.names.start), np.int64),
        np.empty(n_attributes, np.int64), room.elements[0][:n_elements],
        room.elements[1][:n_elements], np.empty((0, 2), np.int64), np.empty(0, np.uint8),
        np.zeros(n_attributes, np.uint8),
    )  # fmt: skip
    name_of = np.full(n_nodes, UNASKED, np.int64)
    return values, sort_by_name(checks, values, 0, n_attributes, tree, name_of)


@njit(nogil=True, cache=True)
def sort_by_name(checks, values, first, last, tree, name_of):
    """Fill `name_start` and `by_name` with the attributes from `first` to `last`; true if one of them is in
    an array of objects. `name_of` gets the id of each name that occurs."""
    attributes, name_start, by_name = values.attributes, values.name_start, values.by_name
    dotted, longest = np.empty(_NAME, np.uint8), np.zeros(1, np.int64)
    n_names, n_known, has_elements = len(name_start) - 1, 0, False
    for i in range(n_names + 1):
        name_start[i] = 0
    for i in range(first, last):
        node = attributes[i, WHERE] >> 32
        if name_of[node] == UNASKED:
            name_of[node] = look_up(node, tree, checks.names, dotted, longest)
        if name_of[node] >= 0:
            has_elements |= attributes[i, WHERE] & _LOW_32 > 0
            name_start[name_of[node] + 1] += 1
            n_known += 1
    for i in range(n_names):
        name_start[i + 1] += name_start[i]  # the end of each name, then its start
    for i in range(last - 1, first - 1, -1):
        name = name_of[attributes[i, WHERE] >> 32]
        if name >= 0:
            name_start[name + 1] -= 1
            by_name[name_start[name + 1]] = i
    for i in range(n_names):
        name_start[i] = name_start[i + 1]
    name_start[n_names] = n_known
    return has_elements


@njit(nogil=True, cache=True, forceinline=True)
def _compare_numbers(number, rest, other, other_rest):
    if number == other and rest == other_rest:
        return _EQUAL
    return _BELOW if number < other or (number == other and rest < other_rest) else _ABOVE


@njit(nogil=True, cache=True)
def _compare_texts(data, start, end, text, i, stop):
    while i < stop and start < end and text[i] == data[start]:
        i += 1
        start += 1
    if start == end:
        return _EQUAL if i == stop else _BELOW
    return _ABOVE if i == stop or text[i] < data[start] else _BELOW


@njit(nogil=True, cache=True, forceinline=True)
def _is_within(low, above_low, high, above_high):
    """True if a value that compares with both ends in this way lies between them."""
    is_above = low == _NONE or above_low > (_EQUAL if low >= OPEN else _BELOW)
    is_below = high == _NONE or above_high < (_EQUAL if high >= OPEN else _ABOVE)
    return is_above and is_below


@njit(nogil=True, cache=True, forceinline=True)
def number_lies(forms, low_word, high_word, value, what):
    """True if an attribute is a number that lies in a piece of NUMBER."""
    number, rest, low, high = float_of(value), what >> 8, forms & 15, forms >> HIGH
    if what & 255 != NUMBER or np.isnan(number):
        return False
    above_low = above_high = _EQUAL
    if low != _NONE:
        other, other_rest = pair_of(low & _FORMS, low_word)
        above_low = _compare_numbers(number, rest, other, other_rest)
    if high != _NONE:
        other, other_rest = pair_of(high & _FORMS, high_word)
        above_high = _compare_numbers(number, rest, other, other_rest)
    return _is_within(low, above_low, high, above_high)


@njit(nogil=True, cache=True)
def _text_lies(text_start, text, low, low_word, high, high_word, data, start, end):
    above_low = above_high = _BELOW  # than the end of all texts
    if low & _FORMS == _TEXT_FORM:
        above_low = _compare_texts(
            data, start, end, text, text_start[low_word], text_start[low_word + 1]
        )
    if high & _FORMS == _TEXT_FORM:
        above_high = _compare_texts(
            data, start, end, text, text_start[high_word], text_start[high_word + 1]
        )
    return _is_within(low, above_low, high, above_high)


@njit(nogil=True, cache=True)
def _rewritten_lies(
    text_start, text, kind, low, low_word, high, high_word,
    data, start, size, attribute, folds, fold_text, is_unfolded,
):  # fmt: skip
    """True if a text lies in a piece that reads it in another way: backwards, folded, as an address."""
    out, length = rewrite(
        kind, data, start, size, attribute, folds, fold_text, np.empty(256, np.uint8)
    )
    if length < 0:
        is_unfolded[attribute] |= length == NOT_FOLDED
        return False
    if kind >= _FIRST_PATTERN:
        return pattern_holds(low_word, text_start, text, out, 0, length)
    return _text_lies(text_start, text, low, low_word, high, high_word, out, 0, length)


@njit(nogil=True, cache=True)
def satisfies(
    text_start, text, kind, forms, low_word, high_word,
    value, what, attribute, data, folds, fold_text, is_unfolded,
):  # fmt: skip
    """True if an attribute satisfies a piece of its name. `is_unfolded` is set to 1 where Python has to fold
    a text first; see `slot_texts.case_folds`."""
    low, high, value_type = forms & 15, forms >> HIGH, what & 255
    if kind == _PRESENT:
        return True
    if kind == _NUMBER:
        return number_lies(forms, low_word, high_word, value, what)
    if kind == _OTHER:
        code = value_type - FALSE
        above_low = min(max(code - low_word, _BELOW), _ABOVE)
        above_high = min(max(code - high_word, _BELOW), _ABOVE)
        return code >= 0 and _is_within(low, above_low, high, above_high)
    if value_type != TEXT:
        return False
    if kind == _TEXT:
        end = value + (what >> 8)
        return _text_lies(text_start, text, low, low_word, high, high_word, data, value, end)
    return _rewritten_lies(
        text_start, text, kind, low, low_word, high, high_word,
        data, value, what >> 8, attribute, folds, fold_text, is_unfolded,
    )  # fmt: skip
