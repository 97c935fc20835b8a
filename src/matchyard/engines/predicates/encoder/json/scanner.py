"""JSON text to attributes, in one pass over the bytes: RFC 8259, and NaN and Infinity.

If both Python's `json.loads` and this scanner accept a text, they read the same values.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.json.decimals import INFINITY, is_word, read_number
from matchyard.engines.predicates.encoder.json.faults import (
    COLON,
    COMMA,
    DEEP,
    ENDS,
    FULL_ATTRIBUTES,
    FULL_ELEMENTS,
    NAME,
    NO_FAULT,
    NO_VALUE,
    OBJECT,
    TRAILING,
    refuse,
)
from matchyard.engines.predicates.encoder.json.name_tree import (
    AGAIN_AT,
    AGAIN_IN,
    FIRST,
    KEY_END,
    KEY_START,
    N_ARRAYS,
    N_ATTRIBUTES,
    N_ELEMENTS,
    N_NODES,
    N_OBJECTS,
    N_SLOW,
    N_UNESCAPED,
    NEXT,
    PARENT,
    POSITION,
    SEEN_IN,
    Room,
    grown,
    new_room,
    read_key,
)
from matchyard.engines.predicates.encoder.json.strings import QUOTE, string_end, unescape
from matchyard.engines.predicates.encoder.layout import (
    FALSE,
    NULL,
    NUMBER,
    SLOW,
    TEXT,
    TRUE,
    VALUE,
    WHAT,
    WHERE,
    Column,
)
from matchyard.kernels.bits import bits_of
from matchyard.kernels.growing import put
from matchyard.kernels.hashing import is_equal

# Columns of the stack, which has a row per open object or array.
_NODE, _OBJECT, _LAST, _ELEMENT, _ARRAY, _N_BEFORE, _IS_ARRAY, _HAS_AGAIN = range(8)
NO_OFFSETS = np.empty(0, np.int64)
_BYTE_COMMA, _BYTE_COLON = np.uint8(44), np.uint8(58)
_OPEN_OBJECT, _CLOSE_OBJECT = np.uint8(123), np.uint8(125)
_OPEN_ARRAY, _CLOSE_ARRAY = np.uint8(91), np.uint8(93)
_MINUS = np.uint8(45)
_NAN = np.frombuffer(b"NaN", np.uint8)
_TRUE, _FALSE = np.frombuffer(b"true", np.uint8), np.frombuffer(b"false", np.uint8)
_NULL = np.frombuffer(b"null", np.uint8)


def read_json(
    text: NDArray[np.uint8], text_start: NDArray[np.int64], n_events: int, max_depth: int
) -> Column:
    """The attributes of many events, `text[text_start[i]:text_start[i + 1]]` each.

    Without offsets the events are the elements of one array, as `json.dumps` writes it.
    """
    room = new_room(n_events, len(text))
    event = 0
    while True:
        fault, event, position = scan(text, text_start, event, max_depth, *room)
        if fault == NO_FAULT:
            break
        if fault > 0:
            start, end = 1, len(text) - 1
            if len(text_start):
                start, end = int(text_start[event]), int(text_start[event + 1])
            elif event:
                start = int(room.counts[POSITION])
            raise refuse(fault, event, position, text, start, end, max_depth)
        room = grown(room, fault)
    return _finished(text, room)


def _read_slowly(text: NDArray[np.uint8], attributes: NDArray[np.int64]) -> None:
    for i in np.flatnonzero(attributes[:, WHAT] & 255 == SLOW).tolist():
        start, size = int(attributes[i, VALUE]), int(attributes[i, WHAT]) >> 8
        number = np.float64(bytes(text[start : start + size]))
        attributes[i, VALUE], attributes[i, WHAT] = number.view(np.int64), NUMBER


def _finished(text: NDArray[np.uint8], room: Room) -> Column:
    counts = room.counts.tolist()
    attributes = room.attributes[: counts[N_ATTRIBUTES]]
    if counts[N_SLOW]:
        _read_slowly(text, attributes)
    if counts[N_UNESCAPED]:
        text = np.concatenate([text, room.unescaped[: counts[N_UNESCAPED]]])
        text.flags.writeable = False
    name_start = np.zeros(counts[N_NODES] + 1, np.int64)
    name_start[1:] = room.nodes[: counts[N_NODES], KEY_END]
    name_parent = room.nodes[: counts[N_NODES], PARENT].copy()
    name_parent[name_parent == 0] = -1  # the first node is the event itself
    parents, arrays = room.elements
    n_elements = counts[N_ELEMENTS]
    return Column(
        room.row_start,
        attributes,
        name_start,
        name_parent,
        room.paths,
        text,
        parents[:n_elements],
        arrays[:n_elements],
    )


@njit(nogil=True, cache=True)
def _skip(text, position, end):
    """The position of the next byte that is not white space."""
    while position < end and text[position] <= 32:
        byte = text[position]
        if byte not in (np.uint8(32), np.uint8(10), np.uint8(13), np.uint8(9)):
            return position
        position += 1
    return position


@njit(nogil=True, cache=True)
def _drop(attributes, nodes, first, end, parent, in_object):
    """Remove the values of all but the last of equal keys in an object; returns the new end. Called
    once per object, at its end, so that keys that come many times cost no more."""
    n_kept, last, node = first, np.int64(-1), np.int64(0)
    for i in range(first, end):
        if attributes[i, WHERE] >> 32 != last:  # else as before: elements of one array
            last = node = attributes[i, WHERE] >> 32
            while nodes[node, PARENT] != parent:
                node = nodes[node, PARENT]
        if nodes[node, AGAIN_IN] != in_object or i >= nodes[node, AGAIN_AT]:
            for column in range(attributes.shape[1]):
                attributes[n_kept, column] = attributes[i, column]
            n_kept += 1
    return n_kept


@njit(nogil=True, cache=True)
def _string(text, position, end, unescaped, counts):
    """(fault, position after it, start, length) of a string's text. Starts past the end of `text`
    are in `unescaped`."""
    fault, stop = string_end(text, position, end)
    if fault:
        return fault, stop, 0, 0
    if text[stop] == QUOTE:
        return NO_FAULT, stop + 1, position, stop - position
    n_used = counts[N_UNESCAPED]
    fault, stop, n_end = unescape(text, position, end, unescaped, n_used)
    if fault:
        return fault, stop, 0, 0
    counts[N_UNESCAPED] = n_end
    return NO_FAULT, stop + 1, len(text) + n_used, n_end - n_used


@njit(nogil=True, cache=True)
def _scalar(text, position, end, unescaped, counts):
    """(fault, position after it, type, value, size) of a value that is neither object nor array."""
    byte = text[position]
    if byte == QUOTE:
        fault, position, start, length = _string(text, position + 1, end, unescaped, counts)
        return fault, position, TEXT, start, length
    if byte == _MINUS or 48 <= byte <= 57:
        return read_number(text, position, end)
    if byte == 116 and is_word(text, position, end, _TRUE):
        return NO_FAULT, position + 4, TRUE, 0, 0
    if byte == 102 and is_word(text, position, end, _FALSE):
        return NO_FAULT, position + 5, FALSE, 0, 0
    if byte == 110 and is_word(text, position, end, _NULL):
        return NO_FAULT, position + 4, NULL, 0, 0
    if byte == 78 and is_word(text, position, end, _NAN):
        return NO_FAULT, position + 3, NUMBER, bits_of(np.nan), 0
    if byte == 73 and is_word(text, position, end, INFINITY):
        return NO_FAULT, position + 8, NUMBER, bits_of(np.inf), 0
    return NO_VALUE, position, NULL, 0, 0


@njit(nogil=True, cache=True)
def _enter(stack, counts, elements, level, node, is_array):
    """Begin an object or an array; false where there is no room for another element.

    An object in an array is a new element. An array in an array adds to the outer array.
    """
    stack[level, _NODE], stack[level, _LAST] = node, 0
    stack[level, _N_BEFORE] = counts[N_ATTRIBUTES]
    stack[level, _IS_ARRAY], stack[level, _HAS_AGAIN] = is_array, False
    above = max(level - 1, 0)
    in_array = level > 0 and stack[above, _IS_ARRAY] > 0
    stack[level, _ELEMENT] = stack[above, _ELEMENT] if level > 0 else 0
    if is_array:
        stack[level, _ARRAY] = stack[above, _ARRAY] if in_array else counts[N_ARRAYS]
        counts[N_ARRAYS] += not in_array
        return True
    counts[N_OBJECTS] += 1
    stack[level, _OBJECT] = counts[N_OBJECTS]
    if in_array:
        element = counts[N_ELEMENTS]
        if element == elements.shape[1]:
            return False
        elements[0, element] = stack[above, _ELEMENT]
        elements[1, element] = stack[above, _ARRAY]
        stack[level, _ELEMENT] = element
        counts[N_ELEMENTS] = element + 1
    return True


@njit(nogil=True, cache=True)
def _event(
    text, position, end, stack, attributes, elements, nodes, slots, paths, unescaped, counts
):
    """(fault, position after it) of one event."""
    position = _skip(text, position, end)
    if position == end:
        return ENDS, position
    if text[position] != _OPEN_OBJECT:
        return OBJECT, position
    is_array = False
    level, node = 0, np.int64(0)
    _enter(stack, counts, elements, 0, 0, False)
    position = _skip(text, position + 1, end)
    is_empty = position < end and text[position] == _CLOSE_OBJECT
    while True:
        if not is_empty:
            if not is_array:
                if position == end or text[position] != QUOTE:
                    return (ENDS if position == end else NAME), position
                position += 1
                parent, last = stack[level, _NODE], stack[level, _LAST]
                node = nodes[last, NEXT] if last > 0 else nodes[parent, FIRST]
                is_guess = False
                if node > 0:
                    key_start = nodes[node, KEY_START]
                    stop = position + nodes[node, KEY_END] - key_start
                    is_guess = stop < end and text[stop] == QUOTE
                    is_guess = is_guess and is_equal(
                        text, position, paths, key_start, stop - position
                    )
                if is_guess:
                    position = stop + 1
                else:
                    fault, position, node = read_key(
                        text, position, end, nodes, slots, paths, unescaped, counts, parent, last
                    )
                    if fault:
                        return fault, position
                if nodes[node, SEEN_IN] == stack[level, _OBJECT]:
                    stack[level, _HAS_AGAIN] = True
                    nodes[node, AGAIN_IN] = stack[level, _OBJECT]
                    nodes[node, AGAIN_AT] = counts[N_ATTRIBUTES]
                nodes[node, SEEN_IN] = stack[level, _OBJECT]
                stack[level, _LAST] = node
                position = _skip(text, position, end)
                if position == end or text[position] != _BYTE_COLON:
                    return (ENDS if position == end else COLON), position
                position = _skip(text, position + 1, end)
            if position == end:
                return ENDS, position
            byte = text[position]
            if byte in (_OPEN_OBJECT, _OPEN_ARRAY):
                level += 1
                if level == len(stack):
                    return DEEP, position
                is_array = byte == _OPEN_ARRAY
                if not _enter(stack, counts, elements, level, node, is_array):
                    return FULL_ELEMENTS, position
                position = _skip(text, position + 1, end)
                is_empty = position < end and text[position] == byte + 2
                continue
            fault, position, kind, value, size = _scalar(text, position, end, unescaped, counts)
            if fault:
                return fault, position
            attribute = counts[N_ATTRIBUTES]
            if attribute == len(attributes):
                return FULL_ATTRIBUTES, position
            attributes[attribute, VALUE] = value
            attributes[attribute, WHERE] = (node << 32) | stack[level, _ELEMENT]
            attributes[attribute, WHAT] = (size << 8) | kind
            counts[N_ATTRIBUTES] = attribute + 1
            counts[N_SLOW] += kind == SLOW
        while True:  # after a value: close the objects and arrays that end here
            position = _skip(text, position, end)
            if position == end:
                return ENDS, position
            byte = text[position]
            if byte == _BYTE_COMMA and not is_empty:
                position = _skip(text, position + 1, end)
                break
            if byte != (_CLOSE_ARRAY if is_array else _CLOSE_OBJECT):
                return COMMA, position
            is_empty = False
            position += 1
            if stack[level, _HAS_AGAIN]:
                n_before, n_now = stack[level, _N_BEFORE], counts[N_ATTRIBUTES]
                parent, in_object = stack[level, _NODE], stack[level, _OBJECT]
                counts[N_ATTRIBUTES] = _drop(attributes, nodes, n_before, n_now, parent, in_object)
            level -= 1
            if level < 0:
                return NO_FAULT, position
            is_array = stack[level, _IS_ARRAY] > 0
            node = stack[level, _NODE]


@njit(nogil=True, cache=True)
def scan(
    text,
    text_start,
    first,
    max_depth,
    row_start,
    attributes,
    elements,
    nodes,
    slots,
    paths,
    unescaped,
    counts,
):
    """(fault, event, position): attributes of the events from `first` on, until there is a fault.

    The arrays of `Room` come one by one: a call with a tuple would cost more than a small event.
    """
    stack = np.empty((max(1, max_depth), 8), np.int64)
    is_one_array = len(text_start) == 0
    for event in range(first, len(row_start) - 1):
        put(counts, 8, counts, 0, 8)
        if is_one_array:
            start, end = counts[POSITION], len(text)
        else:
            start, end = text_start[event], text_start[event + 1]
        fault, position = _event(
            text, start, end, stack, attributes, elements, nodes, slots, paths, unescaped, counts
        )
        if fault == NO_FAULT and not is_one_array:
            position = _skip(text, position, end)
            if position < end:
                fault = TRAILING
        if fault:
            counts[8 + N_NODES] = counts[N_NODES]  # the new nodes stay
            counts[8 + N_OBJECTS] = counts[N_OBJECTS]  # nodes remember these objects
            put(counts, 0, counts, 8, 16)
            return fault, event, position
        counts[POSITION] = position + 2  # past the comma and the blank
        row_start[event + 1] = counts[N_ATTRIBUTES]
    return NO_FAULT, len(row_start) - 1, 0
