"""What the algorithms for intervals share: which subscriptions and events they take, and how the
codes of an attribute are cut into cells.

An *attribute* is a slot that filters ask for; attributes are numbered without gaps. Its domain is
what lies between the lowest and the highest finite bound, in cells of equal width; codes outside
fall in the first or the last cell. Cells only ever decide which codes need not be compared, so all
that matters is that they are in the order of the codes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared import stored_filters
from matchyard.engines.predicates.algorithms.shared.stored_filters import Stored
from matchyard.engines.predicates.encoder.layout import Batch, Filters, Kind, Vocabulary
from matchyard.errors import EventError, UsageError
from matchyard.kernels import csr, key_table
from matchyard.kernels.bitset import ALL, ONE, WORD, ZERO, count_ones, lowest_one
from matchyard.kernels.growing import with_room
from matchyard.kernels.inspection import Inspection

SUPPORTS = "intervals"
NO_ATTRIBUTE = np.int32(-1)


class Domains(NamedTuple):
    """The attributes of a table, and where the cells of each lie."""

    attribute_of: NDArray[np.int32]  # [n_slots] NO_ATTRIBUTE for a slot that no filter asks for
    lowest: NDArray[np.float64]  # [n_attributes] the lowest finite bound…
    scale: NDArray[np.float64]  # …and 1 / (highest - lowest), or 0


def workspace(table: Any, options: Any) -> None:
    """No workspace: nothing is kept between calls."""


def supported(filters: Filters) -> str | None:
    """The first thing that is not one interval per attribute, or None."""
    n_filters = np.diff(filters.row_start)
    if (n_filters != 1).any():
        return f"a subscription of {n_filters[n_filters != 1][0]} filters"
    first, last = filters.row_start[0], filters.row_start[-1]
    constraints = slice(filters.filter_start[first], filters.filter_start[last])
    if filters.groups[constraints].any():
        return "a negated constraint"
    n_pieces = np.diff(filters.piece_start[constraints.start : constraints.stop + 1])
    if (n_pieces != 1).any():
        return f"a constraint of {n_pieces.max()} intervals"
    if _asks_twice(filters, first, last):
        return "two constraints on one attribute"
    return None


def checked(filters: Filters, algorithm: str) -> None:
    """Refuse filters that are not intervals."""
    fault = supported(filters)
    if fault is not None:
        raise UsageError(
            f"{algorithm} takes one interval per attribute and found {fault}; "
            "`tiles` takes any predicate"
        )


def accept_column(column: Any, algorithm: str) -> None:
    """Refuse subscriptions that are not intervals when they are added, which is before they have
    slots."""
    pieces = column.pieces
    is_pattern = pieces.kinds >= Kind.PATTERN  # a text satisfies any number of them at once
    if is_pattern.any():
        raise UsageError(
            f"{algorithm} takes one interval per attribute and found `contains` or `wildcard`; "
            "`tiles` takes any predicate"
        )
    slots = pieces.names * np.int32(len(Kind)) + pieces.kinds.astype(np.int32)
    starts = pieces.row_start, pieces.filter_start, pieces.piece_start
    checked(Filters(*starts, pieces.groups, slots, pieces.low, pieces.high), algorithm)


def store(filters: Filters, keys: NDArray[np.int64], algorithm: str) -> Stored:
    """The filters of a table, equal ones put together."""
    checked(filters, algorithm)
    return stored_filters.store(stored_filters.distinct(filters, keys))


def inspect(look: Inspection, table: Any, vocabulary: Vocabulary) -> int:
    """Refuse damaged filters and domains: see `kernels.inspection`. Returns the number of attributes."""
    n_filters = stored_filters.inspect(look, table, vocabulary)
    look.expect("filter_row", n_filters == len(table.key_start) - 1, "has filters without a row")
    n_attributes = look.length("lowest")
    look.shape("scale", n_attributes)
    look.values("attribute_of", int(NO_ATTRIBUTE), n_attributes)
    return n_attributes


def domains(stored: Any) -> Domains:
    """Number the attributes that filters ask for, and find their bounds."""
    is_asked = np.zeros(stored_filters.n_slots(stored), bool)
    is_asked[stored.slots] = True
    attribute_of = np.where(is_asked, np.cumsum(is_asked) - 1, NO_ATTRIBUTE).astype(np.int32)
    lowest, highest = _bounds(stored.slots, stored.low, stored.high, attribute_of, is_asked.sum())
    return domains_between(attribute_of, lowest, highest)


def domains_between(
    attribute_of: NDArray[np.int32], lowest: NDArray[np.float64], highest: NDArray[np.float64]
) -> Domains:
    """Domains with known ends."""
    width = highest - lowest
    scale = np.zeros(len(width))
    np.divide(1.0, width, out=scale, where=width > 0)
    return Domains(attribute_of, np.where(np.isfinite(lowest), lowest, 0.0), scale)


def accept(table: Any, batch: Batch, algorithm: str) -> Batch:
    """The batch as the table compares it, unless an attribute has more than one value."""
    event = _second_value(batch, table.attribute_of)
    if event >= 0:
        raise EventError(
            f"{algorithm} takes events with one value per attribute and found an array in event "
            "{event}; `tiles` takes any event",
            event,
        )
    return stored_filters.narrowed(table, batch)


def must_rebuild(table: Any, filters: Filters) -> bool:
    """True if the table has no room for these filters, or insertions have doubled its rows."""
    numbers = np.arange(filters.n_rows + 1)
    new = stored_filters.store(stored_filters.Distinct(filters, numbers, numbers[1:]))
    n_rows = len(table.filter_start) - 1 + filters.n_rows
    if n_rows > 2 * table.built[0] + WORD or stored_filters.n_slots(new) > len(table.attribute_of):
        return True
    if new.low.dtype.itemsize > table.low.dtype.itemsize:
        return True
    return bool((table.attribute_of[new.slots] == NO_ATTRIBUTE).any())


def joined(
    table: Any, filters: Filters, keys: NDArray[np.int64]
) -> tuple[Filters, NDArray[np.int64]]:
    """All subscriptions of a table that are not removed, and more, for a new one."""
    positions = key_table.living(table)
    rows = np.searchsorted(table.key_start, positions, side="right") - 1
    old = stored_filters.subscriptions(table, rows)
    new = filters.take(np.arange(filters.n_rows))
    n_starts = Filters._fields.index("groups")
    starts = (_one_after_the_other(*both) for both in zip(old[:n_starts], new[:n_starts]))
    values = (np.concatenate(both) for both in zip(old[n_starts:], new[n_starts:]))
    return Filters._make((*starts, *values)), np.concatenate([table.keys[positions], keys])


def _one_after_the_other(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([left, right[1:] + left[-1]])


def appended(table: Any, filters: Filters, keys: NDArray[np.int64]) -> Any:
    """The table with rows added to its filters and keys, in the spare room behind its arrays."""
    is_ours = bool(table.built[1])  # before, memory behind the arrays is not ours
    limits = np.iinfo(table.low.dtype)
    new = filters.take(np.arange(filters.n_rows))
    more = {
        "filter_start": new.filter_start[1:] + table.filter_start[-1],
        "slots": new.slots,
        "low": np.maximum(new.low, limits.min),
        "high": np.minimum(new.high, limits.max),
        "key_start": np.arange(1, len(keys) + 1) + table.key_start[-1],
        "keys": keys,
    }
    fields = {}
    for name, values in more.items():
        array = getattr(table, name)
        fields[name] = extended(array if is_ours else array.copy(), len(values))
        fields[name][len(fields[name]) - len(values) :] = values
    built = np.array([table.built[0], 1])
    return table._replace(**fields, built=built)


def extended(array: NDArray[Any], n_more: int) -> NDArray[Any]:
    """The array with so many more entries, whatever they are: in place where an earlier call has
    left room behind it, so that growing one by one costs what growing at once does."""
    size = len(array) + n_more
    whole = array.base
    if whole is None or not _is_ours(array, whole) or len(whole) < size:
        whole = np.empty(size + size // 4 + 16, array.dtype)
        whole[: len(array)] = array
    return whole[:size]


def _is_ours(array: NDArray[Any], whole: Any) -> bool:
    """True if the array is the front of a larger one of the same type."""
    return (
        isinstance(whole, np.ndarray)
        and whole.flags.owndata
        and whole.flags.writeable
        and whole.dtype == array.dtype
        and whole.ndim == 1
        and whole.ctypes.data == array.ctypes.data
    )


def writable(table: Any, names: tuple[str, ...]) -> Any:
    """The table with arrays under these names that can be changed in place."""
    copied = {}
    for name in names:
        array = getattr(table, name)
        if not array.flags.writeable:
            copied[name] = array.copy()
    return table._replace(**copied)


def without_rows(table: Any, rows: NDArray[np.int64]) -> Any:
    """The table with all keys of these rows removed."""
    _, positions = csr.take_rows(table.key_start, np.arange(len(table.keys)), rows)
    known = csr.hash_set_values(table.removed_at) if len(table.removed_at) else positions[:0]
    return table._replace(removed_at=csr.hash_set(np.concatenate([known, positions])))


@njit(nogil=True, cache=True)
def _asks_twice(filters, first, last):
    for number in range(first, last):
        start, end = filters.filter_start[number], filters.filter_start[number + 1]
        for c in range(start, end):
            slot = filters.slots[filters.piece_start[c]]
            for d in range(start, c):
                if filters.slots[filters.piece_start[d]] == slot:
                    return True
    return False


@njit(nogil=True, cache=True)
def _bounds(slots, low, high, attribute_of, n_attributes):
    lowest = np.full(n_attributes, np.inf)
    highest = np.full(n_attributes, -np.inf)
    limits = np.iinfo(low.dtype)
    for i in range(len(slots)):
        attribute = attribute_of[slots[i]]
        for code in (np.int64(low[i]), np.int64(high[i])):
            if limits.min < code < limits.max:
                lowest[attribute] = min(lowest[attribute], np.float64(code))
                highest[attribute] = max(highest[attribute], np.float64(code))
    return lowest, highest


@njit(nogil=True, cache=True)
def cell_of(domains, attribute, code, n_cells):
    """The cell of a code: never one before that of a smaller code."""
    share = (np.float64(code) - domains.lowest[attribute]) * domains.scale[attribute] * n_cells
    return np.int64(min(max(share, 0.0), n_cells - 1.0))


@njit(nogil=True, cache=True)
def _second_value(batch, attribute_of):
    """The first event with a second value of an attribute, or with one in an array of objects."""
    for event in range(len(batch.event_start) - 1):
        start, end = batch.event_start[event], batch.event_start[event + 1]
        for entry in range(start, end):
            slot = batch.slots[entry]
            if slot >= len(attribute_of) or attribute_of[slot] < 0:
                continue
            if batch.elements[entry] > 0 or (entry > start and batch.slots[entry - 1] == slot):
                return event
    return -1


@njit(nogil=True, cache=True)
def read(batch, event, attribute_of, codes, is_present):
    """Spread an event over the attributes."""
    is_present[:] = False
    for entry in range(batch.event_start[event], batch.event_start[event + 1]):
        slot = batch.slots[entry]
        if slot < len(attribute_of) and attribute_of[slot] >= 0:
            codes[attribute_of[slot]] = batch.codes[entry]
            is_present[attribute_of[slot]] = True


@njit(nogil=True, cache=True)
def mark(bits, row):
    """Set the bit of a row."""
    bits[row >> 6] |= ONE << np.uint64(row & 63)


@njit(nogil=True, cache=True)
def mark_rows(bits, rows):
    """Set the bits of some rows."""
    for row in rows:
        mark(bits, row)


@njit(nogil=True, cache=True)
def unmark_rows(bits, first, stop):
    """Clear the bits of some consecutive rows."""
    for row in range(first, stop):
        bits[row >> 6] &= ~(ONE << np.uint64(row & 63))


@njit(nogil=True, cache=True)
def all_but_first(n_words, n_rows):
    """A bitset with all bits from row n_rows on: these rows do not exist and must not match."""
    bits = np.full(n_words, ALL)
    bits[: n_rows >> 6] = ZERO
    if n_rows & 63:
        bits[n_rows >> 6] = ALL << np.uint64(n_rows & 63)
    return bits


@njit(nogil=True, cache=True)
def unmarked(bits, hits, n_hits):
    """Append the rows whose bits are clear; the array may be a new one."""
    n_more = WORD * len(bits)
    for word in bits:
        n_more -= count_ones(word)
    hits = with_room(hits, n_hits, n_hits + n_more)
    for at in range(len(bits)):
        word = ~bits[at]
        while word != ZERO:
            hits[n_hits] = at * WORD + lowest_one(word)
            n_hits += 1
            word &= word - ONE
    return hits, n_hits


@njit(nogil=True, cache=True)
def zeros(counts, first, stop, hits, n_hits):
    """Append the rows from first to stop whose count is zero; the array may be a new one."""
    for start in range(first, stop, WORD):
        end = min(start + WORD, stop)
        n_zeros = 0
        for row in range(start, end):
            n_zeros += counts[row] == 0
        if n_zeros == 0:
            continue
        hits = with_room(hits, n_hits, n_hits + WORD)
        for row in range(start, end):
            hits[n_hits] = row  # the next row overwrites it if it does not count
            n_hits += counts[row] == 0
    return hits, n_hits


@njit(nogil=True, cache=True)
def piece_on(table, row, slot):
    """The piece of a row's filter on that slot."""
    piece = table.filter_start[row]
    while table.slots[piece] != slot:
        piece += 1
    return piece
