"""JSON text to attributes, in one pass over the bytes: what RFC 8259 allows, and NaN and Infinity.

Where Python's `json.loads` and this scanner both take a text, they find the same in it.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates._attributes import (
    FALSE,
    GONE,
    NULL,
    NUMBER,
    SLOW,
    TEXT,
    TRUE,
    Column,
)
from matchyard.engines.predicates._decimals import INFINITY, is_word, read_number
from matchyard.engines.predicates._faults import (
    COLON,
    COMMA,
    DEEP,
    ENDS,
    FULL_ATTRIBUTES,
    FULL_NODES,
    FULL_PLACES,
    FULL_UNESCAPED,
    NAME,
    NO_FAULT,
    OBJECT,
    TRAILING,
    VALUE,
    refuse,
)
from matchyard.engines.predicates._nodes import (
    AT_ARRAY,
    AT_ATTRIBUTES,
    AT_IS_ARRAY,
    AT_LAST,
    AT_NODE,
    AT_OBJECT,
    AT_PLACE,
    FIRST,
    KEY_START,
    N_ARRAYS,
    N_ATTRIBUTES,
    N_NODES,
    N_OBJECTS,
    N_PLACES,
    N_SLOW,
    N_UNESCAPED,
    NEXT,
    PARENT,
    POSITION,
    SEEN_IN,
    Room,
    fill_slots,
    read_key,
)
from matchyard.engines.predicates._numbers import bits_of
from matchyard.engines.predicates._strings import QUOTE, string_end, unescape
from matchyard.kernels.hashing import is_equal

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
    room = _new_room(n_events, len(text), max_depth)
    event = 0
    while True:
        fault, event, position = scan(text, text_start, event, room)
        if fault == NO_FAULT:
            break
        if fault > 0:
            start, end = 1, len(text) - 1
            if len(text_start):
                start, end = int(text_start[event]), int(text_start[event + 1])
            elif event:
                start = int(room.counts[POSITION])
            raise refuse(fault, event, position, text, start, end, max_depth)
        room = _grown(room, fault)
    if room.counts[N_SLOW]:
        _read_slowly(text, room)
    return _finished(text, room)


def _new_room(n_events: int, n_bytes: int, max_depth: int) -> Room:
    n_attributes = n_bytes // 16 + 16
    counts = np.zeros(16, np.int64)
    counts[N_PLACES] = counts[N_NODES] = counts[POSITION] = 1
    nodes = np.empty((64, 6), np.int64)
    nodes[0] = -1
    return Room(
        row_start=np.zeros(n_events + 1, np.int64),
        names=np.empty(n_attributes, np.int32),
        types=np.empty(n_attributes, np.uint8),
        values=np.empty(n_attributes, np.int64),
        sizes=np.empty(n_attributes, np.int32),
        places=np.empty(n_attributes, np.int32),
        place_parent=np.zeros(16, np.int32),
        place_array=np.zeros(16, np.int32),
        path_start=np.zeros(65, np.int64),
        path_text=np.empty(1024, np.uint8),
        nodes=nodes,
        slots=np.zeros(128, np.int32),
        unescaped=np.empty(64, np.uint8),
        stack=np.zeros((max_depth, 7), np.int64),
        counts=counts,
    )


_GROWS = {
    FULL_ATTRIBUTES: ("names", "types", "values", "sizes", "places"),
    FULL_NODES: ("nodes", "path_start", "path_text"),
    FULL_PLACES: ("place_parent", "place_array"),
    FULL_UNESCAPED: ("unescaped",),
}


def _grown(room: Room, fault: int) -> Room:
    """The same with twice the room for whatever had too little."""
    arrays = {}
    for name in _GROWS[fault]:
        array = getattr(room, name)
        arrays[name] = np.empty((2 * len(array), *array.shape[1:]), array.dtype)
        arrays[name][: len(array)] = array
    room = room._replace(**arrays)
    if fault == FULL_NODES:
        room = room._replace(slots=np.zeros(2 * len(room.slots), np.int32))
        fill_slots(room)
    return room


def _read_slowly(text: NDArray[np.uint8], room: Room) -> None:
    n_attributes = room.counts[N_ATTRIBUTES]
    for i in np.flatnonzero(room.types[:n_attributes] == SLOW).tolist():
        start, size = int(room.values[i]), int(room.sizes[i])
        number = np.float64(bytes(text[start : start + size]))
        room.types[i], room.values[i], room.sizes[i] = NUMBER, number.view(np.int64), 0


def _finished(text: NDArray[np.uint8], room: Room) -> Column:
    counts = room.counts.tolist()
    n, n_nodes, n_places = counts[N_ATTRIBUTES], counts[N_NODES], counts[N_PLACES]
    if counts[N_UNESCAPED]:
        text = np.concatenate([text, room.unescaped[: counts[N_UNESCAPED]]])
        text.flags.writeable = False
    return Column(
        room.row_start,
        room.names[:n],
        room.types[:n],
        room.values[:n],
        room.sizes[:n],
        room.places[:n],
        room.path_start[: n_nodes + 1],
        room.path_text,
        text,
        room.place_parent[:n_places],
        room.place_array[:n_places],
    )


@njit(nogil=True, cache=True)
def _skip(text, position, end):
    """The next byte that is no white space."""
    while position < end and text[position] <= 32:
        byte = text[position]
        if byte not in (np.uint8(32), np.uint8(10), np.uint8(13), np.uint8(9)):
            return position
        position += 1
    return position


@njit(nogil=True, cache=True)
def _drop(room, first, node):
    """Values of this key that were seen before in the same object: the last one counts."""
    for attribute in range(first, room.counts[N_ATTRIBUTES]):
        above = np.int64(room.names[attribute])
        while above > node:  # a node comes after its parent
            above = room.nodes[above, PARENT]
        if above == node:
            room.types[attribute] = GONE


@njit(nogil=True, cache=True)
def _close_gaps(room, first):
    n_kept = first
    for i in range(first, room.counts[N_ATTRIBUTES]):
        if room.types[i] != GONE:
            room.names[n_kept], room.types[n_kept] = room.names[i], room.types[i]
            room.values[n_kept], room.sizes[n_kept] = room.values[i], room.sizes[i]
            room.places[n_kept] = room.places[i]
            n_kept += 1
    room.counts[N_ATTRIBUTES] = n_kept


@njit(nogil=True, cache=True)
def _string(text, position, end, unescaped, counts):
    """(fault, position after it, start, length) of a string's text; what had escapes lies past
    the end of `text`."""
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
    return VALUE, position, NULL, 0, 0


@njit(nogil=True, cache=True)
def _enter(stack, counts, place_parent, place_array, level, node, is_array):
    """Begin an object or an array; false where there is no room for another place.

    An object within an array is an element to be chosen; an array within an array adds to it.
    """
    stack[level, AT_NODE] = node
    stack[level, AT_LAST] = 0
    stack[level, AT_ATTRIBUTES] = counts[N_ATTRIBUTES]
    stack[level, AT_IS_ARRAY] = is_array
    above = max(level - 1, 0)
    in_array = level > 0 and stack[above, AT_IS_ARRAY] > 0
    stack[level, AT_PLACE] = stack[above, AT_PLACE] if level > 0 else 0
    if is_array:
        stack[level, AT_ARRAY] = stack[above, AT_ARRAY] if in_array else counts[N_ARRAYS]
        counts[N_ARRAYS] += not in_array
        return True
    counts[N_OBJECTS] += 1
    stack[level, AT_OBJECT] = counts[N_OBJECTS]
    if in_array:
        place = counts[N_PLACES]
        if place == len(place_parent):
            return False
        place_parent[place] = stack[above, AT_PLACE]
        place_array[place] = stack[above, AT_ARRAY]
        stack[level, AT_PLACE] = place
        counts[N_PLACES] = place + 1
    return True


@njit(nogil=True, cache=True)
def _event(text, position, end, room):
    """(fault, position after it) of one event."""
    # Taken out of the tuple once: every access to its parts costs a count of references.
    names, types, values, sizes, places = (
        room.names,
        room.types,
        room.values,
        room.sizes,
        room.places,
    )
    stack, counts, nodes, unescaped = room.stack, room.counts, room.nodes, room.unescaped
    path_start, path_text = room.path_start, room.path_text
    place_parent, place_array = room.place_parent, room.place_array
    first_attribute = counts[N_ATTRIBUTES]
    position = _skip(text, position, end)
    if position == end:
        return ENDS, position
    if text[position] != _OPEN_OBJECT:
        return OBJECT, position
    has_gaps = False
    level, node = 0, np.int64(0)
    is_array = False
    _enter(stack, counts, place_parent, place_array, 0, 0, False)
    position = _skip(text, position + 1, end)
    is_empty = position < end and text[position] == _CLOSE_OBJECT
    while True:
        if not is_empty:
            if not is_array:
                if position == end or text[position] != QUOTE:
                    return (ENDS if position == end else NAME), position
                position += 1
                parent, last = stack[level, AT_NODE], stack[level, AT_LAST]
                node = nodes[last, NEXT] if last > 0 else nodes[parent, FIRST]
                is_guess = False
                if node > 0:
                    key_start = nodes[node, KEY_START]
                    stop = position + path_start[node + 1] - key_start
                    is_guess = stop < end and text[stop] == QUOTE
                    is_guess = is_guess and is_equal(
                        text, position, path_text, key_start, stop - position
                    )
                if is_guess:
                    position = stop + 1
                else:
                    fault, position, node = read_key(text, position, end, room, parent, last)
                    if fault:
                        return fault, position
                if nodes[node, SEEN_IN] == stack[level, AT_OBJECT]:
                    _drop(room, stack[level, AT_ATTRIBUTES], node)
                    has_gaps = True
                nodes[node, SEEN_IN] = stack[level, AT_OBJECT]
                stack[level, AT_LAST] = node
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
                if not _enter(stack, counts, place_parent, place_array, level, node, is_array):
                    return FULL_PLACES, position
                position = _skip(text, position + 1, end)
                is_empty = position < end and text[position] == byte + 2
                continue
            fault, position, kind, value, size = _scalar(text, position, end, unescaped, counts)
            if fault:
                return fault, position
            attribute = counts[N_ATTRIBUTES]
            if attribute == len(names):
                return FULL_ATTRIBUTES, position
            names[attribute], types[attribute] = node, kind
            values[attribute], sizes[attribute] = value, size
            places[attribute] = stack[level, AT_PLACE]
            counts[N_ATTRIBUTES] = attribute + 1
            counts[N_SLOW] += kind == SLOW
        while True:  # after a value: close what ends here
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
            level -= 1
            if level < 0:
                if has_gaps:
                    _close_gaps(room, first_attribute)
                return NO_FAULT, position
            is_array = stack[level, AT_IS_ARRAY] > 0
            node = stack[level, AT_NODE]


@njit(nogil=True, cache=True)
def scan(text, text_start, first, room):
    """(fault, event, position): attributes of the events from `first` on, until there is a fault.

    Without `text_start` the events are the elements of one array, as `json.dumps` writes it.
    """
    counts = room.counts
    is_one_array = len(text_start) == 0
    for event in range(first, len(room.row_start) - 1):
        counts[8:] = counts[:8]
        if is_one_array:
            start, end = counts[POSITION], len(text)
        else:
            start, end = text_start[event], text_start[event + 1]
        fault, position = _event(text, start, end, room)
        if fault == NO_FAULT and not is_one_array:
            position = _skip(text, position, end)
            if position < end:
                fault = TRAILING
        if fault:
            counts[8 + N_NODES] = counts[N_NODES]  # they can stay
            counts[8 + N_OBJECTS] = counts[N_OBJECTS]  # since nodes were seen in these
            counts[:8] = counts[8:]
            return fault, event, position
        counts[POSITION] = position + 2  # past the comma and the blank
        room.row_start[event + 1] = counts[N_ATTRIBUTES]
    return NO_FAULT, len(room.row_start) - 1, 0
