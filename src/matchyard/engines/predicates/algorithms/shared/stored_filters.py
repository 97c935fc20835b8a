"""Shared by the tables of all algorithms: the stored filters, and the way from hits to keys.

Every table ends in the arrays of `Stored` and the key table (`kernels.key_table`). Rows of the key table
are distinct predicates; most have one filter, so that rows and filters are the same numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.layout import (
    HIGHEST,
    LOWEST,
    Batch,
    Filters,
    Kind,
    Mode,
    Vocabulary,
)
from matchyard.kernels import csr
from matchyard.kernels.csr import ragged
from matchyard.kernels.equal_rows import first_alike, grouped_keys
from matchyard.kernels.hashing import mix64, prefetch
from matchyard.kernels.inspection import Inspection
from matchyard.kernels.sorting import sort_numbers
from matchyard.matches import Part, part_of

_ODD = np.uint64(0x9E3779B97F4A7C15)
_OTHER_ODD = np.uint64(0xC2B2AE3D27D4EB4F)
NARROW = 1 << 30  # codes up to this size are kept in 32 bits


class Stored(NamedTuple):
    """Filters in the order of a table, and the key table."""

    filter_row: NDArray[np.int32]  # [n_filters] their predicates; empty where each has one filter
    filter_start: NDArray[np.int32]  # [n_filters + 1] as in `Filters`, and so the next
    piece_start: NDArray[np.int32]  # empty where every constraint has one piece
    groups: NDArray[np.int16]  # empty where nothing is negated
    slots: NDArray[np.int32]
    low: NDArray[np.signedinteger]  # 32 bits where they fit: see `narrowed`
    high: NDArray[np.signedinteger]
    key_start: NDArray[np.int32]
    keys: NDArray[np.signedinteger]
    removed_keys: NDArray[np.int64]
    removed_at: NDArray[np.int64]


class Distinct(NamedTuple):
    """Distinct predicates with the keys of each."""

    filters: Filters
    key_start: NDArray[np.int64]
    keys: NDArray[np.int64]


def distinct(filters: Filters, keys: NDArray[np.int64]) -> Distinct:
    """One row per predicate, with the keys of all subscriptions that have it."""
    if filters.row_start[0] or filters.row_start[-1] < len(filters.filter_start) - 1:
        filters = filters.take(np.arange(filters.n_rows))  # some rows of a larger batch
    first, key_start, keys = grouped_keys(_first_equal(filters), keys)
    if len(first) < filters.n_rows:
        filters = filters.take(first)
    return Distinct(filters, key_start, keys)


def store(distinct_rows: Distinct, order: NDArray[np.int64] | None = None) -> Stored:
    """The arrays of a table, with the filters in the given order."""
    filters, key_start, keys = distinct_rows
    n_filters = int(filters.row_start[-1])
    csr.check_offsets(n_filters, len(filters.groups), len(filters.slots), len(keys))
    is_plain = n_filters == filters.n_rows and (np.diff(filters.row_start) == 1).all()
    if order is None:
        order = np.arange(n_filters)
    filter_row = np.empty(0, np.int32)
    if is_plain:  # rows follow their filters
        if len(keys) == n_filters:  # no two are the same
            keys = keys[order]
        else:
            key_start, keys = csr.take_rows(key_start, keys, order)
    else:
        rows = np.repeat(np.arange(filters.n_rows, dtype=np.int32), np.diff(filters.row_start))
        filter_row = rows[order]
    is_single = len(filters.slots) == len(filters.groups)
    is_positive = not filters.groups.any()
    is_narrow = _fits(filters.low, LOWEST) and _fits(filters.high, HIGHEST)
    n_constraints, n_pieces = len(filters.groups), len(filters.slots)
    none = np.empty(0, np.int64)
    stored = Stored(
        filter_row,
        np.empty(n_filters + 1, np.int32),
        np.empty(0 if is_single else n_constraints + 1, np.int32),
        np.empty(0 if is_positive else n_constraints, np.int16),
        np.empty(n_pieces, np.int32),
        np.empty(n_pieces, np.int32 if is_narrow else np.int64),
        np.empty(n_pieces, np.int32 if is_narrow else np.int64),
        key_start.astype(np.int32),
        keys,
        none,
        none,
    )
    _copy_filters(filters, order, stored)
    return stored


@njit(nogil=True, cache=True)
def _fits(ends, unbounded):
    """True if all codes fit into 32 bits."""
    for end in ends:
        if (end > NARROW or end < -NARROW) and end != unbounded:
            return False
    return True


@njit(nogil=True, cache=True)
def _copy_filters(filters, order, stored):
    """Lay the filters down in the given order; codes without bound stay the extremes of their type."""
    lowest, highest = np.iinfo(stored.low.dtype).min, np.iinfo(stored.low.dtype).max
    filter_start, piece_start, groups = filters.filter_start, filters.piece_start, filters.groups
    slots, low, high = filters.slots, filters.low, filters.high
    to_start, to_piece_start, to_groups = stored.filter_start, stored.piece_start, stored.groups
    to_slots, to_low, to_high = stored.slots, stored.low, stored.high
    constraint, piece = 0, 0
    for i in range(len(order)):
        to_start[i] = constraint
        if i + 24 < len(order):
            prefetch(filter_start, order[i + 24])
            ahead = filter_start[order[i + 12]]
            for line in range(0, min(filter_start[order[i + 12] + 1] - ahead, 32), 8):
                at = min(ahead + line, len(low) - 1)
                prefetch(slots, at)
                prefetch(low, at)
                prefetch(high, at)
        first, last = filter_start[order[i]], filter_start[order[i] + 1]
        if len(to_groups):
            for c in range(first, last):
                to_groups[constraint + c - first] = groups[c]
        if len(to_piece_start):
            for c in range(first, last):
                to_piece_start[constraint + c - first] = piece + piece_start[c] - piece_start[first]
        from_piece, to_piece = piece_start[first], piece_start[last]
        for p in range(from_piece, to_piece):
            to_slots[piece] = slots[p]
            to_low[piece] = max(low[p], lowest)
            to_high[piece] = min(high[p], highest)
            piece += 1
        constraint += last - first
    to_start[len(order)] = constraint
    if len(to_piece_start):
        to_piece_start[constraint] = piece


def narrowed(table: Any, batch: Batch) -> Batch:
    """The batch with codes that compare as before with a table of 32 bits."""
    if table.low.dtype == np.int64:
        return batch
    return batch._replace(codes=np.clip(batch.codes, -2 * NARROW + 1, 2 * NARROW - 2))


def subscriptions(table: Any, rows: NDArray[np.int64]) -> Filters:
    """The predicates of the given rows: the inverse of `store`."""
    n_filters = len(table.filter_start) - 1
    filter_start = table.filter_start.astype(np.int64)
    n_constraints = int(filter_start[-1])
    piece_start = table.piece_start.astype(np.int64)
    if not len(piece_start):
        piece_start = np.arange(n_constraints + 1)
    groups = table.groups if len(table.groups) else np.zeros(n_constraints, np.int16)
    if len(table.filter_row) or not n_filters:  # no filters at all may be of several rows
        chosen_start, chosen = csr.take_rows(*_filters_by_row(table), rows)
    else:
        chosen_start, chosen = np.arange(len(rows) + 1), np.asarray(rows, np.int64)
    everything = Filters(
        np.arange(n_filters + 1), filter_start, piece_start, groups, table.slots, table.low,
        table.high,
    )  # fmt: skip
    filters = everything.take_filters(chosen_start, chosen)
    limits = np.iinfo(table.low.dtype)
    low, high = filters.low.astype(np.int64), filters.high.astype(np.int64)
    low[filters.low == limits.min] = LOWEST
    high[filters.high == limits.max] = HIGHEST
    return filters._replace(low=low, high=high)


def _filters_by_row(table: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    n_rows = len(table.key_start) - 1
    return ragged(csr.count_values(table.filter_row, n_rows)), np.argsort(
        table.filter_row, kind="stable"
    )


def finish(
    table: Any, hit_start: NDArray[np.int64], hits: NDArray[np.int32], candidates: int
) -> Part:
    """From the filters that matched each event to the keys, each predicate once."""
    if len(table.filter_row):
        hit_start, hits = rows_of(table.filter_row, hit_start, hits)
    return part_of(table, hit_start, hits, candidates)


def has_few_keys(table: Any, most: int) -> bool:
    """True if each filter has its own row, with at most so many keys and none removed."""
    if len(table.filter_row) or len(table.removed_keys) or len(table.removed_at):
        return False
    return 1 <= int(np.diff(table.key_start).max(initial=0)) <= most


def n_slots(table: Any) -> int:
    """Slots that the filters of a table ask for: one more than the last."""
    return int(table.slots.max(initial=-1)) + 1


def inspect(look: Inspection, table: Any, vocabulary: Vocabulary) -> int:
    """Refuse damaged filters and key tables: see `kernels.inspection`. Returns the number of filters."""
    n_filters, n_rows = look.length("filter_start") - 1, look.length("key_start") - 1
    look.expect("filter_start", min(n_filters, n_rows) >= 0, "is empty")
    n_constraints, n_pieces = int(table.filter_start[-1]), look.length("slots")
    look.offsets("filter_start", n_filters, n_constraints)
    look.expect("filter_start", 0 <= n_constraints <= n_pieces, f"ends beyond {n_pieces} pieces")
    if look.length("filter_row"):
        look.values("filter_row", 0, n_rows, n_filters)
    else:  # no filters at all may be of several rows
        look.expect("filter_row", n_filters in (0, n_rows), f"is empty for {n_rows} rows")
    if look.length("piece_start"):
        look.offsets("piece_start", n_constraints, n_pieces)
        look.rising("piece_start", is_strict=True)
    else:
        look.expect("piece_start", n_constraints == n_pieces, f"is empty for {n_pieces} pieces")
    if look.length("groups"):
        look.values("groups", 0, 1 << 15, n_constraints)
    look.values("slots", 0, vocabulary.n_slots)
    for name in ("low", "high"):
        look.shape(name, n_pieces)
        look.expect(
            name, table.low.dtype == table.high.dtype, "is of another type than its other end"
        )
    look.key_table(n_rows)
    if look.is_thorough:
        _inspect_codes(look, table, vocabulary)
    return n_filters


def _inspect_codes(look: Inspection, table: Any, vocabulary: Vocabulary) -> None:
    """Refuse codes without a text, constant or pattern in the vocabulary."""
    kind = vocabulary.kind[table.slots]  # plain numbers: NumPy may swallow Ctrl-C at an IntEnum
    is_ranked = (kind == Kind.NUMBER.value) & (vocabulary.mode[table.slots] == Mode.RANKED.value)
    is_text, is_pattern = (
        (kind >= Kind.TEXT.value) & (kind < Kind.PATTERN.value),
        kind >= Kind.PATTERN.value,
    )
    n_own = np.diff(vocabulary.domain_start)[table.slots]  # constants or patterns of the slot
    n_texts = vocabulary.texts.n_names
    limits = np.iinfo(table.low.dtype)
    for name, unbounded, first in (("low", limits.min, 1), ("high", limits.max, 0)):
        codes, largest = getattr(table, name), np.zeros(len(kind), np.int64)
        least = np.where(is_text | is_ranked, first, 0)
        least[kind == Kind.OTHER.value] = -1
        largest[is_text] = 2 * n_texts + 1 + first
        largest[is_ranked] = 2 * n_own[is_ranked] - 1 + first
        largest[is_pattern] = n_own[is_pattern] - 1
        largest[kind == Kind.OTHER.value] = 3  # one beyond either end: `except` leaves some out
        is_free = (codes == unbounded) | ((kind == Kind.NUMBER.value) & ~is_ranked)
        is_right = is_free | ((codes >= least) & (codes <= largest))
        look.expect(
            name, is_right.all(), "refers to texts or constants that the vocabulary does not have"
        )


def build_anew(compile: Any, table: Any, vocabulary: Vocabulary, options: Any) -> Any:
    """The table as it is built from its own subscriptions; removals are kept."""
    rows = np.repeat(np.arange(len(table.key_start) - 1), np.diff(table.key_start))
    built = compile(subscriptions(table, rows), table.keys, vocabulary, options)
    return built._replace(removed_keys=table.removed_keys, removed_at=table.removed_at)


def estimate(n_subscriptions: int, n_constraints: int) -> int:
    """Bytes of the filters, with one filter each and codes of 32 bits."""
    return 8 * n_subscriptions + 12 * n_constraints


@njit(nogil=True, cache=True, forceinline=True)
def _folded(code):
    """Its upper half in the lower one, too: those of short decimal numbers have nothing there."""
    word = np.uint64(code)
    return word ^ (word >> np.uint64(32))


@njit(nogil=True, cache=True)
def _row_codes(filters):
    """A hash per row: the sum of the hashes of its pieces, which the CPU computes in parallel."""
    row_start, filter_start, piece_start, groups, slots, low, high = filters
    codes = np.empty(len(row_start) - 1, np.uint64)
    for row in range(len(codes)):
        code = np.uint64(0)
        for f in range(row_start[row], row_start[row + 1]):
            code = mix64(code ^ np.uint64(filter_start[f + 1] - filter_start[f]))
            for c in range(filter_start[f], filter_start[f + 1]):
                for p in range(piece_start[c], piece_start[c + 1]):
                    word = (np.uint64(slots[p]) << np.uint64(16)) ^ np.uint64(groups[c])
                    word = (word ^ _folded(low[p]) * _ODD) * _ODD ^ _folded(high[p])
                    word *= _OTHER_ODD
                    code += word ^ (word >> np.uint64(32))
        codes[row] = mix64(code)
    return codes


@njit(nogil=True, cache=True)
def _is_same(filters, left, right):
    n_filters = filters.row_start[left + 1] - filters.row_start[left]
    if n_filters != filters.row_start[right + 1] - filters.row_start[right]:
        return False
    for i in range(n_filters):
        f, g = filters.row_start[left] + i, filters.row_start[right] + i
        n_constraints = filters.filter_start[f + 1] - filters.filter_start[f]
        if n_constraints != filters.filter_start[g + 1] - filters.filter_start[g]:
            return False
        for j in range(n_constraints):
            c, d = filters.filter_start[f] + j, filters.filter_start[g] + j
            n_pieces = filters.piece_start[c + 1] - filters.piece_start[c]
            if n_pieces != filters.piece_start[d + 1] - filters.piece_start[d]:
                return False
            if filters.groups[c] != filters.groups[d]:
                return False
            for k in range(n_pieces):
                p, q = filters.piece_start[c] + k, filters.piece_start[d] + k
                if filters.slots[p] != filters.slots[q]:
                    return False
                if filters.low[p] != filters.low[q] or filters.high[p] != filters.high[q]:
                    return False
    return True


@njit(nogil=True, cache=True)
def _first_equal(filters):
    """Per row the first row that equals it."""
    codes = _row_codes(filters)
    while True:
        first_of, n_others = first_alike(codes), 0
        for row in range(len(codes)):
            if first_of[row] != row and not _is_same(filters, first_of[row], row):
                codes[row] += _ODD  # they go elsewhere together
                n_others += 1
        if n_others == 0:
            return first_of


@njit(nogil=True, cache=True)
def rows_of(filter_row, hit_start, hits):
    """Rows instead of filters, each once per event."""
    start = np.empty(len(hit_start), np.int64)
    rows = np.empty(hit_start[-1], np.int32)
    end = 0
    for event in range(len(hit_start) - 1):
        start[event] = end
        first, last = hit_start[event], hit_start[event + 1]
        for i in range(first, last):
            rows[end + i - first] = filter_row[hits[i]]
        sort_numbers(rows, end, end + last - first)
        kept = end
        for i in range(end, end + last - first):
            if i == end or rows[i] != rows[kept - 1]:
                rows[kept] = rows[i]
                kept += 1
        end = kept
    start[-1] = end
    return start, rows[:end]
