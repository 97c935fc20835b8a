"""Reading of many notifications in their form on the wire: see `network.packet`."""

import numpy as np
from numba import njit

from matchyard.kernels.hashing import xxh64
from matchyard.kernels.routing.sets import sort_some
from matchyard.kernels.strings import find_name

# Offsets in a packet.
HEAD, FLAGS, CACHE, VERSION, TREE, HOPS, TRIES = 24, 2, 3, 9, 17, 19, 20
_TAGS, _SENDER, _WHOLE = 1, 16, 32
_MOST_TAGS = 4096


@njit(nogil=True, cache=True)
def read_notifications(data, start, names, fields):
    """Read concatenated packets in `data`, and look up their tags in `names`.

    Writes to `fields` [n, 5]: version, tree, hops, whether the text is ASCII, and the offset of the sender or 0. Returns
    (is_plain, start, ids). A packet is plain if it is a well-formed notification to all by tags only. The ids are
    the known tags of plain packets.
    """
    n_packets = len(start) - 1
    is_plain = np.zeros(n_packets, np.bool_)
    id_start = np.zeros(n_packets + 1, np.int64)
    ids, n_ids = np.empty(max(16, 4 * n_packets), np.int32), 0
    for packet in range(n_packets):
        low, high = start[packet], start[packet + 1]
        id_start[packet + 1] = n_ids
        text = _text_of_plain(data, low, high)
        if text < 0:
            continue
        is_plain[packet] = True
        fields[packet, 0] = _number(data, low + VERSION, 8)
        fields[packet, 1] = _number(data, low + TREE, 2)
        fields[packet, 2] = data[low + HOPS]
        n_tags = np.int64(_number(data, low + HEAD, 2))
        if n_ids + n_tags > len(ids):
            grown = np.empty(2 * (n_ids + n_tags), np.int32)
            grown[:n_ids] = ids[:n_ids]
            ids = grown
        first, bits = n_ids, np.uint8(0)
        for tag in range(n_tags):
            end = text + np.int64(_number(data, low + HEAD + 2 + 2 * tag, 2))
            name = find_name(names, xxh64(data, text, end), data, text, end)
            if name >= 0:
                ids[n_ids] = name
                n_ids += 1
            for i in range(text, end):
                bits |= data[i]
            text = end
        if data[low + FLAGS] & _SENDER:
            fields[packet, 4] = text - low
            for i in range(text + 3, text + 3 + np.int64(_number(data, text + 1, 2))):
                bits |= data[i]
        fields[packet, 3] = bits < 128
        sort_some(ids, first, n_ids)
        n_ids = _without_repeats(ids, first, n_ids)
        id_start[packet + 1] = n_ids
    return is_plain, id_start, ids[:n_ids]


@njit(nogil=True, cache=True)
def _text_of_plain(data, low, high):
    """The offset of the text of the tags; -1 for a packet that is not plain or not well-formed."""
    if high - low < HEAD + 2 or data[low] != 1 or data[low + 1] != 1:
        return -1
    flags = data[low + FLAGS]
    if flags & ~_SENDER != _TAGS | _WHOLE:
        return -1
    for i in range(low + CACHE, low + VERSION):  # cache control, and a fan-out of all
        if data[i] != 0:
            return -1
    for i in range(low + TRIES, low + HEAD):  # tries, scope, and no locators
        if data[i] != 0:
            return -1
    n_tags = np.int64(_number(data, low + HEAD, 2))
    text = low + HEAD + 2 + 2 * n_tags
    if text > high or n_tags > _MOST_TAGS:
        return -1
    end = text
    for tag in range(n_tags):
        end += np.int64(_number(data, low + HEAD + 2 + 2 * tag, 2))
    if end + 4 > high or not _is_rising(data, low + HEAD + 2, n_tags, text):
        return -1
    if flags & _SENDER:
        if data[end] != 0 or end + 3 > high:  # the sender must be text
            return -1
        end += 3 + np.int64(_number(data, end + 1, 2))
    if end + 4 > high or end + 4 + np.int64(_number(data, end, 4)) != high:
        return -1
    return text


@njit(nogil=True, cache=True)
def _is_rising(data, lengths, n_tags, text):
    """True if each tag is above the one before, as in packets that we write; then no tag is repeated."""
    before, n_before = text, np.int64(0)
    for tag in range(n_tags):
        count = np.int64(_number(data, lengths + 2 * tag, 2))
        i = 0
        while i < min(count, n_before) and data[before + i] == data[text + i]:
            i += 1
        if tag > 0 and (i == count or (i < n_before and data[before + i] > data[text + i])):
            return False
        before, n_before, text = text, count, text + count
    return True


@njit(nogil=True, cache=True)
def _number(data, at, n_bytes):
    number = np.uint64(0)
    for i in range(at, at + n_bytes):
        number = number << np.uint64(8) | np.uint64(data[i])
    return number


@njit(nogil=True, cache=True)
def _without_repeats(ids, low, high):
    """Drop repeats of sorted ids; return the new end."""
    end = low
    for i in range(low, high):
        if i == low or ids[i] != ids[i - 1]:
            ids[end] = ids[i]
            end += 1
    return end
