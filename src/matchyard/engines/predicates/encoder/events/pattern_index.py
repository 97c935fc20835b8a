"""The patterns of a slot that a text contains or satisfies as wildcards, all searched at once.

Every pattern is filed under one *gram* of its longest literal piece: the gram of up to four bytes
that the fewest patterns of its slot share. `find_patterns` looks up the gram at every byte of a text
and confirms the patterns of that gram. It tries every text with patterns without a literal, and with
inverted patterns, which hold for texts that do not satisfy them.

    gram_slots     hash table of pairs: key, and begin << 32 | count in `gram_patterns`
                   key = (slot + 1) << 35 | bytes of the gram << 32 | gram; 0 is free
    gram_patterns  pairs: pattern, and where in it the gram is (-1: a wildcard);
                   a gram of no bytes lists those that are always tried, after a pair that
                   begins with the lengths of the slot's grams, a bit each
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.layout import Kind
from matchyard.kernels.growing import put, with_room
from matchyard.kernels.hashing import is_equal, mix64
from matchyard.kernels.sorting import sort_numbers
from matchyard.kernels.strings import Names

WILDCARD, INVERTED = 1, 2  # flags below the id of a pattern's text; an inverted one has wildcards
_LONGEST = 4  # bytes of a gram; with three, 200 000 patterns share too few
_TRIES = 64  # wildcards tested at once on a text; later ones wait, to be tested only once
_STAR, _BACKSLASH, _BAR = np.uint8(42), np.uint8(92), np.uint8(124)
_FIRST_KIND = int(Kind.PATTERN)


def build(
    texts: Names,
    kind: NDArray[np.uint8],
    domain_start: NDArray[np.int64],
    domain_rest: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """`gram_slots` and `gram_patterns` of a vocabulary with these slots."""
    slots = np.flatnonzero(kind >= _FIRST_KIND)
    if not len(slots):
        return np.zeros(2, np.int64), np.empty(0, np.int32)
    n_patterns = int(np.sum(domain_start[slots + 1] - domain_start[slots]))
    keys = np.empty(n_patterns + len(slots), np.int64)
    entries = np.empty((n_patterns + len(slots), 2), np.int32)
    ids = (domain_rest >> 2)[: domain_start[-1]]
    longest = 0 if n_patterns == 0 else int(np.max(np.diff(texts.text_start)))
    n_bytes = int(sum(_n_bytes(texts, ids, domain_start, slots)))
    _choose(
        slots,
        texts.text_start,
        texts.text,
        domain_start,
        domain_rest,
        longest,
        n_bytes,
        keys,
        entries,
    )
    order = np.argsort(keys, kind="stable")
    keys, entries = keys[order], entries[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(starts, append=len(keys))
    table = np.zeros(2 << (2 * len(starts)).bit_length(), np.int64)
    _fill(table, keys[starts], starts << 32 | counts)
    return table, entries.reshape(-1)


def _n_bytes(texts, ids, domain_start, slots):
    lengths = np.diff(texts.text_start).astype(np.int64)
    for slot in slots:
        yield int(lengths[ids[domain_start[slot] : domain_start[slot + 1]]].sum())


@njit(nogil=True, cache=True)
def _key(slot, length, gram):
    return ((np.int64(slot) + 1) << 35) | (length << 32) | gram


@njit(nogil=True, cache=True)
def _find(table, key):
    """The position of the key's pair, or of the free pair for it."""
    mask = len(table) // 2 - 1
    slot = np.int64(mix64(key) & np.uint64(mask))
    while table[2 * slot] != key and table[2 * slot] != 0:
        slot = (slot + 1) & mask
    return 2 * slot


@njit(nogil=True, cache=True)
def _fill(table, keys, values):
    for i in range(len(keys)):
        pair = _find(table, keys[i])
        table[pair], table[pair + 1] = keys[i], values[i]


@njit(nogil=True, cache=True)
def _literal(text, start, end, is_wildcard, piece):
    """Write the longest literal piece of a pattern; returns its length."""
    if not is_wildcard:
        put(piece, 0, text, start, end)
        return end - start
    best_start, best_end, best = start, start, 0
    position, piece_start, length = start, start, 0
    while position <= end:
        if position == end or text[position] == _STAR:
            if length > best:
                best_start, best_end, best = piece_start, position, length
            piece_start, length = position + 1, 0
        else:
            position += text[position] == _BACKSLASH and position + 1 < end
            length += 1
        position += 1
    position = best_start
    for i in range(best):
        position += text[position] == _BACKSLASH and position + 1 < best_end
        piece[i] = text[position]
        position += 1
    return best


@njit(nogil=True, cache=True)
def _gram(data, position, length):
    gram = 0
    for i in range(length):
        gram = (gram << 8) | np.int64(data[position + i])
    return gram


@njit(nogil=True, cache=True)
def _choose(slots, text_start, text, domain_start, domain_rest, longest, n_bytes, keys, entries):
    """The gram that each pattern is filed under."""
    n_table = 16
    while n_table < 2 * n_bytes:
        n_table *= 2
    counts = np.zeros(2 * n_table, np.int64)
    piece = np.empty(longest + 1, np.uint8)
    n = 0
    for slot in slots:
        lengths = 0
        header = n
        n += 1
        for is_last in (False, True):  # count the grams, then take the rarest
            for pattern in range(domain_start[slot], domain_start[slot + 1]):
                coded = domain_rest[pattern]
                start, end = text_start[coded >> 2], text_start[(coded >> 2) + 1]
                is_wildcard = coded & WILDCARD > 0
                n_literal = _literal(text, start, end, is_wildcard, piece)
                length = min(_LONGEST, n_literal)
                best, best_key, offset = np.int64(1 << 62), _key(slot, 0, 0), -1
                if coded & INVERTED == 0 and length > 0:
                    for i in range(n_literal - length + 1):
                        key = _key(slot, length, _gram(piece, i, length))
                        pair = _find(counts, key)
                        if not is_last:
                            counts[pair] = key
                            counts[pair + 1] += 1
                        elif counts[pair + 1] < best:
                            best, best_key, offset = counts[pair + 1], key, i
                if is_last:
                    lengths |= 1 << ((best_key >> 32) & 7)
                    keys[n] = best_key
                    entries[n, 0] = pattern - domain_start[slot]
                    entries[n, 1] = -1 if is_wildcard else offset
                    n += 1
        keys[header] = _key(slot, 0, 0)
        entries[header, 0], entries[header, 1] = lengths, 0


@njit(nogil=True, cache=True)
def wildcard_holds(pattern, position, pattern_end, data, start, end):
    """True if the whole text satisfies the wildcard: `*` is any run, `\\*` and `\\\\` are escapes.

    The first occurrence of a piece between two stars is the best: only the last star is tried again.
    """
    star, mark = -1, start
    while start < end:
        if position < pattern_end:
            if pattern[position] == _STAR:
                position += 1
                if position == pattern_end:
                    return True
                star, mark = position, start
                continue
            is_escape = pattern[position] == _BACKSLASH and position + 1 < pattern_end
            byte = pattern[position + is_escape]
            if position == star:  # most bytes are passed here
                while start < end and data[start] != byte:
                    start += 1
                if start == end:
                    return False
                mark = start
            if byte == data[start]:
                position += 1 + is_escape
                start += 1
                continue
        if star < 0:
            return False
        mark += 1  # the last star takes one byte more
        start, position = mark, star
    while position < pattern_end and pattern[position] == _STAR:
        position += 1
    return position == pattern_end


@njit(nogil=True, cache=True)
def _one_holds(pattern, position, pattern_end, data, start, end):
    """True if the text satisfies one of the wildcards, which `\\|` separates."""
    first = position
    while position < pattern_end:
        if pattern[position] == _BACKSLASH and position + 1 < pattern_end:
            if pattern[position + 1] == _BAR:
                if wildcard_holds(pattern, first, position, data, start, end):
                    return True
                first = position + 2
            position += 1
        position += 1
    return wildcard_holds(pattern, first, pattern_end, data, start, end)


@njit(nogil=True, cache=True)
def _contains(text, from_, to, data, start, end):
    for position in range(start, end - (to - from_) + 1):
        if is_equal(text, from_, data, position, to - from_):
            return True
    return False


@njit(nogil=True, cache=True)
def pattern_holds(word, text_start, text, data, start, end):
    """True if a pattern holds for data[start:end]; its word is the id of its text << 2 | flags."""
    from_, to = text_start[word >> 2], text_start[(word >> 2) + 1]
    if word & INVERTED:
        return not _one_holds(text, from_, to, data, start, end)
    if word & WILDCARD:
        return wildcard_holds(text, from_, to, data, start, end)
    return _contains(text, from_, to, data, start, end)


@njit(nogil=True, cache=True)
def _added(hits, n_hits, pattern):
    """(hits, how many) with one more; a full array loses its duplicates before it grows."""
    if n_hits == len(hits):
        n_hits = _distinct(hits, n_hits)
        if 2 * n_hits >= len(hits):
            hits = with_room(hits, n_hits, len(hits) + 16)
    hits[n_hits] = pattern
    return hits, n_hits + 1


@njit(nogil=True, cache=True)
def _distinct(hits, n_hits):
    """Sort, and remove duplicates; returns how many are left."""
    if n_hits < 2:
        return n_hits
    sort_numbers(hits, 0, n_hits)
    n_kept = 1
    for i in range(1, n_hits):
        if hits[i] != hits[n_kept - 1]:
            hits[n_kept] = hits[i]
            n_kept += 1
    return n_kept


@njit(nogil=True, cache=True)
def _confirmed(hits, n_hits, first, coded, text_start, text, data, start, end):
    """Keep the patterns that hold: after _TRIES, wildcards were added without a test."""
    n_kept = 0
    for i in range(n_hits):
        word = coded[first + hits[i]]
        from_, to = text_start[word >> 2], text_start[(word >> 2) + 1]
        if word & WILDCARD == 0 or wildcard_holds(text, from_, to, data, start, end):
            hits[n_kept] = hits[i]
            n_kept += 1
    return n_kept


@njit(nogil=True, cache=True)
def find_patterns(table, listed, slot, first, coded, text_start, text, data, start, end, hits):
    """(hits, how many): the numbers of the slot's patterns that hold for data[start:end], rising.

    The slot's patterns are `coded[first:]`; `hits` is replaced where it is too short.
    """
    n_hits, n_tried = 0, 0
    header = _find(table, _key(slot, 0, 0))
    if table[header] == 0:
        return hits, 0
    always, n_always = table[header + 1] >> 32, table[header + 1] & 0xFFFFFFFF
    lengths = listed[2 * always]
    for length in range(1, _LONGEST + 1):
        if (lengths >> length) & 1 == 0:
            continue
        for position in range(start, end - length + 1):
            pair = _find(table, _key(slot, length, _gram(data, position, length)))
            if table[pair] == 0:
                continue
            begin, count = table[pair + 1] >> 32, table[pair + 1] & 0xFFFFFFFF
            for i in range(begin, begin + count):
                pattern, offset = np.int64(listed[2 * i]), listed[2 * i + 1]
                word = coded[first + pattern]
                from_, to = text_start[word >> 2], text_start[(word >> 2) + 1]
                if offset < 0:
                    n_tried += 1
                    holds = n_tried > _TRIES
                    holds = holds or wildcard_holds(text, from_, to, data, start, end)
                else:
                    begins = position - offset
                    holds = begins >= start and begins + to - from_ <= end
                    holds = holds and is_equal(text, from_, data, begins, to - from_)
                if holds:
                    hits, n_hits = _added(hits, n_hits, pattern)
    if n_tried > _TRIES:
        n_hits = _distinct(hits, n_hits)
        n_hits = _confirmed(hits, n_hits, first, coded, text_start, text, data, start, end)
    for i in range(always + 1, always + n_always):
        pattern = np.int64(listed[2 * i])
        if pattern_holds(coded[first + pattern], text_start, text, data, start, end):
            hits, n_hits = _added(hits, n_hits, pattern)
    return hits, _distinct(hits, n_hits)
