"""Attributes to entries: every value, read in all ways that constraints on its name ask for."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.events.addresses import address
from matchyard.engines.predicates.encoder.events.attributes import (
    FALSE,
    NUMBER,
    TEXT,
    VALUE,
    WHAT,
    WHERE,
    Column,
)
from matchyard.engines.predicates.encoder.events.pattern_index import find_patterns
from matchyard.engines.predicates.encoder.layout import Batch, Kind, Vocabulary
from matchyard.engines.predicates.encoder.number_codes import number_code
from matchyard.kernels.bits import float_of
from matchyard.kernels.growing import with_room
from matchyard.kernels.hashing import is_equal, xxh64
from matchyard.kernels.search import first_at_least
from matchyard.kernels.strings import home

_PRESENT, _NUMBER, _OTHER, _TEXT = (
    int(Kind.PRESENT),
    int(Kind.NUMBER),
    int(Kind.OTHER),
    int(Kind.TEXT),
)
_REVERSED, _FOLDED, _FOLDED_REVERSED = (
    int(Kind.REVERSED),
    int(Kind.FOLDED),
    int(Kind.FOLDED_REVERSED),
)
_ADDRESS, _PATTERN, _FOLDED_PATTERN = int(Kind.ADDRESS), int(Kind.PATTERN), int(Kind.FOLDED_PATTERN)
_DOT = np.uint8(46)
_NAME = 256  # bytes of a dotted name for which there is room at once
_UNASKED = -2  # a name of the column that was not looked up yet
_SHORT = 48  # so few entries are sorted by insertion
_NO_TEXTS = np.empty((0, 2), np.int64)
_NO_BYTES = np.empty(0, np.uint8)


def encode(column: Column, vocabulary: Vocabulary) -> Batch:
    """The events as entries over the slots of the vocabulary."""
    # One by one: taking arrays out of tuples would cost more than a small event does.
    names, texts = vocabulary.names, vocabulary.texts
    given = (*column[:6], *names[:3], *texts[:3], *vocabulary[2:])
    event_start, slots, codes, places, unfolded = _encode(*given, _NO_TEXTS, _NO_BYTES)
    if len(unfolded):  # their case is Python's to fold: only ASCII is folded in the kernel
        folds = _folded(column, np.unique(unfolded[:, 0]))
        event_start, slots, codes, places, _ = _encode(*given, *folds)
    return Batch(event_start, slots, codes, places, column.place_parent, column.place_array)


def _folded(
    column: Column, attributes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The case-folded texts of some attributes: which, and the ends of their texts; and those."""
    parts, ends = [], []
    for start, what in column.attributes[attributes][:, [VALUE, WHAT]].tolist():
        text = bytes(column.text[start : start + (what >> 8)]).decode()
        parts.append(text.casefold().encode())
        ends.append(len(parts[-1]))
    folds = np.stack([attributes, np.cumsum(ends)], axis=1)
    return folds, np.frombuffer(b"".join(parts), np.uint8).copy()


@njit(nogil=True, cache=True)
def _sort(keys, n_keys):
    if n_keys > _SHORT:
        keys[:n_keys] = np.sort(keys[:n_keys])
        return
    for i in range(1, n_keys):
        key = keys[i]
        j = i - 1
        while j >= 0 and keys[j] > key:
            keys[j + 1] = keys[j]
            j -= 1
        keys[j + 1] = key


@njit(nogil=True, cache=True)
def _find(table, text_start, text, data, start, end):
    """The id of a name, negative where there is none: `find_name`, on arrays one by one."""
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
    """How many texts of the vocabulary come before this one."""
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


@njit(nogil=True, cache=True)
def _text_code(table, text_start, text, data, start, end, is_ordered):
    number = _find(table, text_start, text, data, start, end)
    if number >= 0:
        return 2 * number + 1
    return np.int64(2 * _rank(text_start, text, data, start, end)) if is_ordered else np.int64(-1)


@njit(nogil=True, cache=True)
def _copy(data, start, end, out):
    """Copy a text; true where all of it is ASCII."""
    bits = np.uint8(0)
    for i in range(end - start):
        byte = data[start + i]
        out[i] = byte
        bits |= byte
    return bits < 128


@njit(nogil=True, cache=True)
def _lower(out, length):
    for i in range(length):
        if 65 <= out[i] <= 90:
            out[i] |= 32


@njit(nogil=True, cache=True)
def _reverse(out, length):
    """Turn a text round by code points: all bytes, and then those of each code point back."""
    for i in range(length // 2):
        out[i], out[length - 1 - i] = out[length - 1 - i], out[i]
    i = 0
    while i < length:
        j = i
        while out[j] & 0xC0 == 0x80:  # its lead byte comes last now
            j += 1
        for k in range((j - i + 1) // 2):
            out[i + k], out[j - k] = out[j - k], out[i + k]
        i = j + 1


@njit(nogil=True, cache=True)
def _find_fold(folds, attribute):
    at = first_at_least(folds[:, 0], 0, len(folds), attribute)
    return at if at < len(folds) and folds[at, 0] == attribute else -1


@njit(nogil=True, cache=True)
def _longest(names_start):
    """Bytes of the longest name, and some more."""
    found = np.int64(_NAME)
    for i in range(len(names_start) - 1):
        found = max(found, np.int64(names_start[i + 1]) - np.int64(names_start[i]))
    return found


@njit(nogil=True, cache=True)
def _dotted(node, name_start, name_parent, name_text, out):
    """Write a name with those before its dots; returns its length, past `out` where it is longer."""
    length, above = np.int64(-1), node
    while above >= 0 and length < len(out):
        length += name_start[above + 1] - name_start[above] + 1
        above = name_parent[above]
    if length > len(out):
        return length
    end = length
    while node >= 0:
        start = end - (name_start[node + 1] - name_start[node])
        out[start:end] = name_text[name_start[node] : name_start[node + 1]]
        if start > 0:
            out[start - 1] = _DOT
        end, node = start - 1, name_parent[node]
    return length


@njit(nogil=True, cache=True)
def _encode(
    row_start, attributes, name_start, name_parent, name_text, text,
    names_table, names_start, names_text, texts_table, texts_start, texts_text,
    slot_start, kinds, modes, domain_start, domain, domain_rest, gram_slots, gram_patterns,
    folds, fold_text,
):  # fmt: skip
    """(event_start, slots, codes, places, texts that Python is to fold)."""
    n_events = len(row_start) - 1
    longest = 0
    for event in range(n_events):
        longest = max(longest, row_start[event + 1] - row_start[event])
    order = np.empty(longest, np.int64)
    name_of = np.full(len(name_start) - 1, _UNASKED, np.int64)
    dotted, is_longest = np.empty(_NAME, np.uint8), False
    event_start = np.zeros(n_events + 1, np.int64)
    room = 2 * (row_start[-1] - row_start[0]) + 16
    slots, codes = np.empty(room, np.int32), np.empty(room, np.int64)
    places = np.empty(room, np.int32)
    spare = np.empty(256, np.uint8)
    hits = np.empty(16, np.int64)
    unfolded = np.empty((0, 2), np.int64)
    n, n_unfolded = 0, 0
    for event in range(n_events):
        first, n_known = row_start[event], 0
        for i in range(first, row_start[event + 1]):
            node = attributes[i, WHERE] >> 32
            if name_of[node] == _UNASKED:
                length = _dotted(node, name_start, name_parent, name_text, dotted)
                if length > len(dotted) and not is_longest:
                    dotted, is_longest = np.empty(_longest(names_start), np.uint8), True
                    length = _dotted(node, name_start, name_parent, name_text, dotted)
                name_of[node] = -1
                if length <= len(dotted):  # no name of the vocabulary is longer
                    name_of[node] = _find(names_table, names_start, names_text, dotted, 0, length)
            if name_of[node] >= 0:
                order[n_known] = (name_of[node] << 32) | (i - first)
                n_known += 1
        _sort(order, n_known)
        begin = 0
        while begin < n_known:
            name = order[begin] >> 32
            stop = begin + 1
            while stop < n_known and order[stop] >> 32 == name:
                stop += 1
            from_slot, to_slot = np.int64(slot_start[name]), np.int64(slot_start[name + 1])
            needed = n + (stop - begin) * (to_slot - from_slot)
            if needed > len(slots):
                slots, codes = with_room(slots, n, needed), with_room(codes, n, needed)
                places = with_room(places, n, needed)
            for slot in range(from_slot, to_slot):
                kind = kinds[slot]
                if n_unfolded > 0 and kind not in (_FOLDED, _FOLDED_REVERSED, _FOLDED_PATTERN):
                    continue
                for i in range(begin, stop):
                    attribute = first + (order[i] & 0xFFFFFFFF)
                    value, what = attributes[attribute, VALUE], attributes[attribute, WHAT]
                    is_a = what & 255
                    if kind >= _TEXT:
                        if is_a != TEXT:
                            continue
                        start, size = value, what >> 8
                        if kind == _TEXT:
                            code = _text_code(
                                texts_table,
                                texts_start,
                                texts_text,
                                text,
                                start,
                                start + size,
                                modes[slot] > 0,
                            )
                        elif kind == _ADDRESS:
                            size = address(text, start, start + size, spare)
                            if size == 0:
                                continue
                            code = _text_code(
                                texts_table,
                                texts_start,
                                texts_text,
                                spare,
                                0,
                                size,
                                modes[slot] > 0,
                            )
                        else:
                            if 2 * size > len(spare):
                                spare = np.empty(2 * size, np.uint8)
                            is_ascii = _copy(text, start, start + size, spare)
                            if kind in (_FOLDED, _FOLDED_REVERSED, _FOLDED_PATTERN):
                                if is_ascii and n_unfolded > 0:
                                    continue  # all is encoded again with the folds: look for more
                                if is_ascii:
                                    _lower(spare, size)
                                else:
                                    fold = _find_fold(folds, attribute)
                                    if fold < 0:
                                        if n_unfolded == len(unfolded):
                                            wider = np.empty((2 * n_unfolded + 8, 2), np.int64)
                                            wider[:n_unfolded] = unfolded
                                            unfolded = wider
                                        unfolded[n_unfolded, 0] = attribute
                                        n_unfolded += 1
                                        continue
                                    start = folds[fold - 1, 1] if fold > 0 else 0
                                    size = folds[fold, 1] - start
                                    if size > len(spare):
                                        spare = np.empty(2 * size, np.uint8)
                                    _copy(fold_text, start, start + size, spare)
                            if kind in (_PATTERN, _FOLDED_PATTERN):
                                hits, n_hits = find_patterns(
                                    gram_slots,
                                    gram_patterns,
                                    slot,
                                    domain_start[slot],
                                    domain_rest,
                                    texts_start,
                                    texts_text,
                                    spare,
                                    0,
                                    size,
                                    hits,
                                )
                                needed += n_hits
                                if needed > len(slots):
                                    slots = with_room(slots, n, needed)
                                    codes = with_room(codes, n, needed)
                                    places = with_room(places, n, needed)
                                for j in range(n_hits):
                                    slots[n], codes[n] = slot, hits[j]
                                    places[n] = attributes[attribute, WHERE] & 0xFFFFFFFF
                                    n += 1
                                continue
                            if kind != _FOLDED:
                                _reverse(spare, size)
                            code = _text_code(
                                texts_table,
                                texts_start,
                                texts_text,
                                spare,
                                0,
                                size,
                                modes[slot] > 0,
                            )
                    elif kind == _NUMBER:
                        number = float_of(value)
                        if is_a != NUMBER or np.isnan(number):
                            continue
                        rest = what >> 8
                        from_, to = domain_start[slot], domain_start[slot + 1]
                        code = number_code(
                            modes[slot], number, rest, domain, domain_rest, from_, to
                        )
                    elif kind == _OTHER:
                        if is_a < FALSE:
                            continue
                        code = np.int64(is_a - FALSE)
                    else:
                        code = np.int64(0)
                    slots[n], codes[n], places[n] = (
                        slot,
                        code,
                        attributes[attribute, WHERE] & 0xFFFFFFFF,
                    )
                    n += 1
            begin = stop
        event_start[event + 1] = n
    return event_start, slots[:n], codes[:n], places[:n], unfolded[:n_unfolded]
