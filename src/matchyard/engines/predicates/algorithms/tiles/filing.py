"""tiles, first half of the build: the term and the position of each filter.

A *term* is something that an event can have: a value in a slot (its presence), or one certain code in it. A
filter is filed under the rarest term that it needs, so that an event looks only at the postings of
its own terms. Within a posting, filters with like constraints lie side by side: they are sorted by
their rarest slots and by where in each slot their intervals lie.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.layout import Filters
from matchyard.kernels.csr import count_values, ragged
from matchyard.kernels.hashing import mix64

NOT_FILED = -1  # a filter that needs no term of an event: every event looks at it
_LEVELS = 4  # slots of a filter that decide where it lies
_BUCKETS = 4  # parts of a slot for that: with intervals of width 0.3, more cost more than they save
_POINT_BUCKETS = 64  # the same for constraints of one code
_DIGIT = 1 << 15  # a slot and a bucket; with two bits for the first bucket, four fill 62 bits
_CENTRES = 256
_FREE = np.int32(-1)


class Terms(NamedTuple):
    """Terms that stand for one code of a slot, in an open-addressed table."""

    slots: NDArray[np.int32]  # [n_cells of the hash table] -1 for a free one
    codes: NDArray[np.int64]
    numbers: NDArray[np.int32]


class Order(NamedTuple):
    """Filters in the order of their table."""

    filters: NDArray[np.int64]
    posting_start: NDArray[np.int32]  # [n_postings + 1] the first posting is what is not filed
    slot_posting: NDArray[np.int32]  # [n_slots] the posting of a slot's presence, -1 for none
    terms: Terms  # `numbers` are postings


@njit(nogil=True, cache=True, forceinline=True)
def term_position(terms, slot, code):
    """The position of a term in the hash table, or the free one for it."""
    mask = len(terms.slots) - 1
    position = np.int64(mix64(np.uint64(code) ^ mix64(np.uint64(slot))) & np.uint64(mask))
    while terms.slots[position] >= 0 and (
        terms.slots[position] != slot or terms.codes[position] != code
    ):
        position = (position + 1) & mask
    return position


def no_terms(n_terms: int) -> Terms:
    """An empty table with room for so many terms."""
    size = 1 << max(3, (2 * n_terms).bit_length())
    return Terms(np.full(size, _FREE), np.zeros(size, np.int64), np.zeros(size, np.int32))


def order_filters(filters: Filters, n_slots: int, is_plain: bool) -> Order:
    """File every filter under its rarest term; with `is_plain` none is filed at all."""
    n_filters = len(filters.filter_start) - 1
    if is_plain:
        start = np.array([0, n_filters], np.int32)
        unfiled = np.full(n_slots, _FREE)
        return Order(np.arange(n_filters), start, unfiled, no_terms(0))
    slots, is_point = describe(filters)
    terms = no_terms(int(is_point.sum()))
    presence, uses, n_terms = _count_terms(filters, slots, is_point, n_slots, terms)
    counts = np.concatenate([presence, _term_counts(filters, slots, is_point, terms, n_terms)])
    term, primary = _choose(filters, slots, is_point, terms, counts, n_slots)
    rank = np.empty(n_slots, np.int64)
    rank[np.argsort(uses, kind="stable")] = np.arange(n_slots)
    part = _parts(filters, slots, n_slots)
    keys = _sort_keys(filters, slots, is_point, primary, rank, part)
    order = np.argsort(keys)
    used, posting = np.unique(term, return_inverse=True)
    if not len(used) or used[0] != NOT_FILED:
        used, posting = np.concatenate([[NOT_FILED], used]), posting + 1
    order = order[np.argsort(posting[order], kind="stable")]
    posting_start = ragged(count_values(posting, len(used))).astype(np.int32)
    slot_posting = np.full(n_slots, _FREE)
    is_presence = (used >= 0) & (used < n_slots)
    slot_posting[used[is_presence]] = np.flatnonzero(is_presence)
    return Order(order, posting_start, slot_posting, _filed(terms, used, n_slots))


def _filed(terms: Terms, used: NDArray[np.int64], n_slots: int) -> Terms:
    """Only the terms that have a posting, with its number."""
    posting = np.full(int(terms.numbers.max(initial=0)) + 1, _FREE)
    is_point = used >= n_slots
    posting[used[is_point] - n_slots] = np.flatnonzero(is_point)
    kept = np.flatnonzero(terms.slots >= 0)
    kept = kept[posting[terms.numbers[kept]] >= 0]
    small = no_terms(len(kept))
    _insert(small, terms.slots[kept], terms.codes[kept], posting[terms.numbers[kept]])
    return small


@njit(nogil=True, cache=True)
def _insert(terms, slots, codes, numbers):
    for i in range(len(slots)):
        position = term_position(terms, slots[i], codes[i])
        terms.slots[position], terms.codes[position] = slots[i], codes[i]
        terms.numbers[position] = numbers[i]


@njit(nogil=True, cache=True)
def describe(filters):
    """Per constraint its slot, -1 where it is negated or has several; and is it one code only?
    `filters` may be those of a table, where arrays that say nothing are empty."""
    piece_start, groups, low, high = filters.piece_start, filters.groups, filters.low, filters.high
    own = filters.slots
    n_constraints = len(piece_start) - 1 if len(piece_start) else len(own)
    slots = np.empty(n_constraints, np.int32)
    is_point = np.zeros(n_constraints, np.bool_)
    for c in range(n_constraints):
        first, last = (piece_start[c], piece_start[c + 1] - 1) if len(piece_start) else (c, c)
        slots[c] = -1
        if (len(groups) == 0 or groups[c] == 0) and own[first] == own[last]:
            slots[c] = own[first]
            is_point[c] = first == last and low[first] == high[first]
    return slots, is_point


@njit(nogil=True, cache=True)
def _count_terms(filters, slots, is_point, n_slots, terms):
    """How many constraints need each slot's presence, and use it at all; numbers the points."""
    presence, uses = np.zeros(n_slots, np.int64), np.zeros(n_slots, np.int64)
    n_terms = 0
    for c in range(len(slots)):
        if slots[c] < 0:
            continue
        uses[slots[c]] += 1
        if not is_point[c]:
            presence[slots[c]] += 1
            continue
        code = filters.low[filters.piece_start[c]]
        position = term_position(terms, slots[c], code)
        if terms.slots[position] < 0:
            terms.slots[position], terms.codes[position] = slots[c], code
            terms.numbers[position] = n_terms
            n_terms += 1
    return presence, uses, n_terms


@njit(nogil=True, cache=True)
def _term_counts(filters, slots, is_point, terms, n_terms):
    counts = np.zeros(n_terms, np.int64)
    for c in range(len(slots)):
        if slots[c] >= 0 and is_point[c]:
            code = filters.low[filters.piece_start[c]]
            counts[terms.numbers[term_position(terms, slots[c], code)]] += 1
    return counts


@njit(nogil=True, cache=True)
def _choose(filters, slots, is_point, terms, counts, n_slots):
    """Per filter the term it is filed under, and the constraint that it comes from."""
    n_filters = len(filters.filter_start) - 1
    term = np.full(n_filters, NOT_FILED, np.int64)
    primary = np.full(n_filters, -1, np.int64)
    for f in range(n_filters):
        least = np.iinfo(np.int64).max
        for c in range(filters.filter_start[f], filters.filter_start[f + 1]):
            if slots[c] < 0:
                continue
            number = np.int64(slots[c])
            if is_point[c]:
                code = filters.low[filters.piece_start[c]]
                number = n_slots + terms.numbers[term_position(terms, slots[c], code)]
            if counts[number] < least:
                least, term[f], primary[f] = counts[number], number, c
    return term, primary


@njit(nogil=True, cache=True, forceinline=True)
def _centre(filters, c, bottom, top):
    """The part of its slot, 0 … _CENTRES - 1, in which a constraint lies."""
    low = max(filters.low[filters.piece_start[c]], bottom)
    high = min(filters.high[filters.piece_start[c + 1] - 1], top)
    span = np.float64(top) - np.float64(bottom)
    if span <= 0:  # also where neighbouring codes are the same as doubles
        return 0
    at = (np.float64(low) + np.float64(high)) / 2 - np.float64(bottom)
    position = at / span * _CENTRES
    return min(max(np.int64(position), 0), _CENTRES - 1)


@njit(nogil=True, cache=True)
def _parts(filters, slots, n_slots):
    """Per slot: its bottom and top, and the bucket of each centre, all buckets equally full."""
    unbounded_low, unbounded_high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    bottom = np.full(n_slots, unbounded_high, np.int64)
    top = np.full(n_slots, unbounded_low, np.int64)
    for c in range(len(slots)):
        if slots[c] >= 0:
            for p in range(filters.piece_start[c], filters.piece_start[c + 1]):
                for end in (filters.low[p], filters.high[p]):
                    if end not in (unbounded_low, unbounded_high):
                        bottom[slots[c]] = min(bottom[slots[c]], end)
                        top[slots[c]] = max(top[slots[c]], end)
    histogram = np.zeros((n_slots, _CENTRES), np.int64)
    for c in range(len(slots)):
        if slots[c] >= 0:
            histogram[slots[c], _centre(filters, c, bottom[slots[c]], top[slots[c]])] += 1
    bucket = np.zeros((n_slots, _CENTRES), np.int64)
    for slot in range(n_slots):
        total, before = histogram[slot].sum(), 0
        for i in range(_CENTRES):
            middle = before + histogram[slot, i] // 2
            bucket[slot, i] = min(_BUCKETS - 1, middle * _BUCKETS // max(1, total))
            before += histogram[slot, i]
    return bottom, top, bucket


@njit(nogil=True, cache=True)
def _sort_keys(filters, slots, is_point, primary, rank, part):
    """A number per filter; filters that should lie together get numbers close to each other."""
    bottom, top, bucket = part
    n_filters = len(filters.filter_start) - 1
    keys = np.zeros(n_filters, np.uint64)
    chosen = np.empty(_LEVELS, np.int64)
    for f in range(n_filters):
        n_chosen = 0
        for c in range(filters.filter_start[f], filters.filter_start[f + 1]):
            if slots[c] < 0 or c == primary[f]:
                continue
            at = n_chosen  # insert by rank of the slot, the rarest first
            while at > 0 and rank[slots[chosen[at - 1]]] > rank[slots[c]]:
                at -= 1
            if at < _LEVELS:
                n_chosen = min(n_chosen + 1, _LEVELS)
                for i in range(n_chosen - 1, at, -1):
                    chosen[i] = chosen[i - 1]
                chosen[at] = c
        key = np.uint64(0)
        if primary[f] >= 0 and not is_point[primary[f]]:
            slot = slots[primary[f]]
            key = np.uint64(bucket[slot, _centre(filters, primary[f], bottom[slot], top[slot])])
        for level in range(_LEVELS):
            digit = np.uint64(_DIGIT - 1)
            if level < n_chosen:
                c = chosen[level]
                slot = slots[c]
                centre = _centre(filters, c, bottom[slot], top[slot])
                at = centre * _POINT_BUCKETS // _CENTRES if is_point[c] else bucket[slot, centre]
                digit = np.uint64(min(rank[slot], _DIGIT // _POINT_BUCKETS - 2))
                digit = digit * np.uint64(_POINT_BUCKETS) + np.uint64(at)
            key = key * np.uint64(_DIGIT) + digit
        keys[f] = key
    return keys
