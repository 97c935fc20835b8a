"""Attributes to entries: a code for every value in each slot of its name."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.events.pattern_index import find_patterns
from matchyard.engines.predicates.encoder.events.slot_texts import (
    NOT_FOLDED,
    case_folds,
    is_folded,
    rewrite,
)
from matchyard.engines.predicates.encoder.layout import (
    FALSE,
    NUMBER,
    TEXT,
    VALUE,
    WHAT,
    WHERE,
    Batch,
    Column,
    Kind,
    Vocabulary,
)
from matchyard.engines.predicates.encoder.number_codes import number_code
from matchyard.kernels.bits import float_of
from matchyard.kernels.growing import put, with_room
from matchyard.kernels.hashing import is_equal, xxh64
from matchyard.kernels.sorting import sort_numbers
from matchyard.kernels.strings import home

_NUMBER, _OTHER = int(Kind.NUMBER), int(Kind.OTHER)
_TEXT, _FIRST_PATTERN = int(Kind.TEXT), int(Kind.PATTERN)
_DOT = np.uint8(46)
_NAME = 256  # bytes of the buffer for most dotted names
UNASKED = -2  # in `name_of`: a name of the column that is not looked up yet
_NO_FOLDS = np.empty((0, 2), np.int64)
_NO_BYTES = np.empty(0, np.uint8)
_LOW_32 = 0xFFFFFFFF


class NameTree(NamedTuple):
    """The names of a `Column`."""

    start: NDArray[np.int64]
    parent: NDArray[np.int64]
    text: NDArray[np.uint8]


class Texts(NamedTuple):
    """The hash table and the texts of `Names`."""

    table: NDArray[np.uint64]
    start: NDArray[np.int32]
    text: NDArray[np.uint8]


def encode(column: Column, vocabulary: Vocabulary) -> Batch:
    """The events as entries over the slots of the vocabulary."""
    # The kernel takes arrays one by one: a call with tuples would cost more than a small event.
    names, texts = vocabulary.names, vocabulary.texts
    name_of = np.full(len(column.name_start) - 1, UNASKED, np.int64)
    given = (*column[:6], *names[:3], *texts[:3], *vocabulary[2:], name_of)
    event_start, slots, codes, elements, unfolded = encode_arrays(*given, _NO_FOLDS, _NO_BYTES)
    if len(unfolded):
        folds = case_folds(column, np.unique(unfolded))
        event_start, slots, codes, elements, _ = encode_arrays(*given, *folds)
    return Batch(event_start, slots, codes, elements, column.element_parent, column.element_array)


@njit(nogil=True, cache=True, forceinline=True)
def _find(texts, data, start, end):
    """The id of a text, or -1: `find_name` on the arrays that a kernel has."""
    table, text_start, text = texts
    code = xxh64(data, start, end)
    position = home(code, len(table))
    upper = code >> np.uint64(32)
    while table[position] != np.uint64(0):
        if table[position] >> np.uint64(32) == upper:
            number = np.int64(table[position] & np.uint64(0xFFFFFFFF)) - 1
            begin = np.int64(text_start[number])
            if text_start[number + 1] - begin == end - start and is_equal(
                text, begin, data, start, end - start
            ):
                return number
        position += 1
        if position == len(table):
            position = 0
    return -1


@njit(nogil=True, cache=True)
def _rank(text_start, text, data, start, end):
    """The number of texts of the vocabulary before this one."""
    low, high = 0, len(text_start) - 1
    while low < high:
        middle = (low + high) >> 1
        i, j = np.int64(text_start[middle]), start
        stop = np.int64(text_start[middle + 1])
        while i < stop and j < end and text[i] == data[j]:
            i += 1
            j += 1
        if j < end and (i == stop or text[i] < data[j]):
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True, forceinline=True)
def _text_code(texts, data, start, end, is_ordered):
    number = _find(texts, data, start, end)
    if number >= 0:
        return 2 * number + 1
    return (
        np.int64(2 * _rank(texts.start, texts.text, data, start, end))
        if is_ordered
        else np.int64(-1)
    )


@njit(nogil=True, cache=True, forceinline=True)
def _longest(text_start):
    """Bytes of the longest text."""
    longest = np.int64(1)
    for i in range(len(text_start) - 1):
        longest = max(longest, np.int64(text_start[i + 1]) - np.int64(text_start[i]))
    return longest


@njit(nogil=True, cache=True, forceinline=True)
def _write_dotted(node, tree, out):
    """Write the dotted name of a node; returns its length, more than that of `out` if it is longer."""
    length, above = np.int64(-1), node
    while above >= 0 and length < len(out):
        length += tree.start[above + 1] - tree.start[above] + 1
        above = tree.parent[above]
    if length > len(out):
        return length
    end = length
    while node >= 0:
        start = end - (tree.start[node + 1] - tree.start[node])
        put(out, start, tree.text, tree.start[node], tree.start[node + 1])
        if start > 0:
            out[start - 1] = _DOT
        end, node = start - 1, tree.parent[node]
    return length


@njit(nogil=True, cache=True)
def look_up(node, tree, names, dotted, longest):
    """The id of a node's dotted name, or -1; `longest[0]` is that of all names once it is needed."""
    length = _write_dotted(node, tree, dotted)
    if length > len(dotted):
        if longest[0] == 0:
            longest[0] = _longest(names.start)
        dotted = np.empty(longest[0], np.uint8)
        length = _write_dotted(node, tree, dotted)
        if length > len(dotted):
            return -1
    return _find(names, dotted, 0, length)


@njit(nogil=True, cache=True)
def _with_room(slots, codes, elements, n, n_needed):
    """Entries with room for more. Callers look at the length first: this call is slow."""
    return (
        with_room(slots, n, n_needed),
        with_room(codes, n, n_needed),
        with_room(elements, n, n_needed),
    )


@njit(nogil=True, cache=True, forceinline=True)
def _most_attributes(row_start):
    """The number of attributes of the largest event."""
    most = 0
    for event in range(len(row_start) - 1):
        most = max(most, row_start[event + 1] - row_start[event])
    return most


@njit(nogil=True, cache=True)
def encode_arrays(
    row_start, attributes, name_start, name_parent, name_text, text,
    names_table, names_start, names_text, texts_table, texts_start, texts_text,
    slot_start, kinds, modes, domain_start, domain, domain_rest, gram_slots, gram_patterns,
    name_of, folds, fold_text,
):  # fmt: skip
    """(event_start, slots, codes, elements, attributes whose texts Python has to fold).

    If there are such attributes, the entries are incomplete. `name_of` gets the id of each name of the
    column that occurs, or -1.
    """
    tree = NameTree(name_start, name_parent, name_text)
    names = Texts(names_table, names_start, names_text)
    texts = Texts(texts_table, texts_start, texts_text)
    n_events = len(row_start) - 1
    event_start = np.zeros(n_events + 1, np.int64)
    order = np.empty(_most_attributes(row_start), np.int64)
    dotted, longest = np.empty(_NAME, np.uint8), np.zeros(1, np.int64)
    room = 2 * (row_start[-1] - row_start[0]) + 16
    slots, codes = np.empty(room, np.int32), np.empty(room, np.int64)
    elements = np.empty(room, np.int32)
    spare, hits = np.empty(256, np.uint8), np.empty(16, np.int64)
    unfolded, n_unfolded = np.empty(8, np.int64), 0
    n = 0
    for event in range(n_events):
        first, end = row_start[event], row_start[event + 1]
        n_known = 0
        for i in range(first, end):
            node = attributes[i, WHERE] >> 32
            if name_of[node] == UNASKED:
                name_of[node] = look_up(node, tree, names, dotted, longest)
            if name_of[node] >= 0:
                order[n_known] = (name_of[node] << 32) | (i - first)
                n_known += 1
        sort_numbers(order, 0, n_known)
        begin = 0
        while begin < n_known:
            name, stop = order[begin] >> 32, begin + 1
            while stop < n_known and order[stop] >> 32 == name:
                stop += 1
            from_slot, to_slot = np.int64(slot_start[name]), np.int64(slot_start[name + 1])
            n_needed = n + (stop - begin) * (to_slot - from_slot)
            if n_needed > len(slots):
                slots, codes, elements = _with_room(slots, codes, elements, n, n_needed)
            for slot in range(from_slot, to_slot):
                kind = kinds[slot]
                if n_unfolded > 0 and not is_folded(kind):
                    continue  # `encode` calls again with the folds: only list texts without a fold
                for i in range(begin, stop):
                    attribute = first + (order[i] & _LOW_32)
                    value, what = attributes[attribute, VALUE], attributes[attribute, WHAT]
                    value_type = what & 255
                    if kind == _NUMBER:
                        number = float_of(value)
                        if value_type != NUMBER or np.isnan(number):
                            continue
                        from_, to = domain_start[slot], domain_start[slot + 1]
                        code = number_code(
                            modes[slot], number, what >> 8, domain, domain_rest, from_, to
                        )
                    elif kind == _OTHER:
                        if value_type < FALSE:
                            continue
                        code = np.int64(value_type - FALSE)
                    elif kind < _TEXT:
                        code = np.int64(0)  # PRESENT has only this code
                    elif value_type != TEXT:
                        continue
                    elif kind == _TEXT:
                        code = _text_code(texts, text, value, value + (what >> 8), modes[slot] > 0)
                    else:
                        spare, size = rewrite(
                            kind, text, value, what >> 8, attribute, folds, fold_text, spare
                        )
                        if size == NOT_FOLDED:
                            unfolded = with_room(unfolded, n_unfolded, n_unfolded + 1)
                            unfolded[n_unfolded] = attribute
                            n_unfolded += 1
                        if size < 0 or n_unfolded > 0:
                            continue
                        if kind >= _FIRST_PATTERN:
                            hits, n_hits = find_patterns(
                                gram_slots, gram_patterns, slot, domain_start[slot], domain_rest,
                                texts_start, texts_text, spare, 0, size, hits,
                            )  # fmt: skip
                            n_needed += n_hits
                            if n_needed > len(slots):
                                slots, codes, elements = _with_room(
                                    slots, codes, elements, n, n_needed
                                )
                            for j in range(n_hits):
                                slots[n], codes[n] = slot, hits[j]
                                elements[n] = attributes[attribute, WHERE] & _LOW_32
                                n += 1
                            continue
                        code = _text_code(texts, spare, 0, size, modes[slot] > 0)
                    slots[n], codes[n] = slot, code
                    elements[n] = attributes[attribute, WHERE] & _LOW_32
                    n += 1
            begin = stop
        event_start[event + 1] = n
    return event_start, slots[:n], codes[:n], elements[:n], unfolded[:n_unfolded]
