"""Shared by the algorithms over Bloom signatures: sign sets, and check the sets of matching slots.

A *slot* is a distinct signature. Different tag sets can share a signature, so a slot has one or
more sets. A bare signature (of a packet without tags) has one set, without tags. Bloom filters only
say "maybe": with `exact`, the tags of every set in a matching slot are compared as well.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.tags.algorithms.rarest import rarest
from matchyard.engines.tags.encoder.layout import Batch, Vocabulary
from matchyard.engines.tags.encoder.signatures import sign_sets
from matchyard.errors import UsageError
from matchyard.kernels import csr, subset
from matchyard.kernels.bitset import ONE, ZERO, count_ones, lowest_one, n_words_for
from matchyard.kernels.inspection import Inspection
from matchyard.kernels.strings import hash_names
from matchyard.matches import Part, part_of

N_BITS, N_HASHES = 192, 7  # [TagMatch §3]
MOST_BITS, MOST_HASHES = 1 << 20, 1 << 10


class Signed(NamedTuple):
    """Distinct signatures with their sets and keys; every signed table ends with these fields."""

    signatures: NDArray[np.uint64]  # [n_slots, n_words]
    set_start: NDArray[np.int32]  # [n_slots + 1] the sets of each slot
    tag_start: NDArray[np.int32]  # [n_sets + 1] the tags of each set
    tags: NDArray[np.int32]
    key_start: NDArray[np.int32]  # [n_sets + 1] the key table: see `kernels.key_table`
    keys: NDArray[np.int64]


def check(n_bits: int, n_hashes: int) -> None:
    """Refuse numbers of bits and hashes that make no signature."""
    if n_bits < 1 or n_hashes < 1:
        raise UsageError(f"signatures need bits and hashes, not {n_bits} bits, {n_hashes} hashes")
    if n_bits > MOST_BITS or n_hashes > MOST_HASHES:
        raise UsageError(
            f"signatures have at most {MOST_BITS} bits and {MOST_HASHES} hashes, "
            f"not {n_bits} bits, {n_hashes} hashes"
        )


def inspect(look: Inspection, table: Any, vocabulary: Vocabulary, n_slots: int) -> None:
    """Check the last fields of a signed table: see `kernels.inspection`."""
    n_sets, n_tags = look.length("tag_start") - 1, look.length("tags")
    look.offsets("set_start", n_slots, n_sets)
    look.offsets("tag_start", n_sets, n_tags)
    look.values("tags", 0, vocabulary.n_names)
    # A table without tags has bare signatures, with one set each.
    look.expect("tags", n_tags or n_sets == n_slots, "is empty")
    look.key_table(n_sets)


def sign(
    subscriptions: Batch,
    keys: NDArray[np.int64],
    vocabulary: Vocabulary,
    n_bits: int,
    n_hashes: int,
) -> Signed:
    """Group subscriptions by tag set and tag sets by signature, in the signatures' order."""
    if subscriptions.signatures.shape[1]:
        return _sign_bare(subscriptions.signatures, keys)
    sets = rarest.compile(subscriptions, keys, vocabulary, rarest.Options())
    batch = rarest.subscriptions(sets, np.arange(len(sets.signatures)))
    codes = hash_names(vocabulary.text_start, vocabulary.text)
    signatures = sign_sets(
        batch.tag_start, batch.tags, codes, n_bits, n_hashes, n_words_for(n_bits)
    )
    order = np.lexsort(signatures.T[::-1])
    first = _first_of_equal(signatures[order])
    tag_start, tags = csr.take_rows(batch.tag_start, batch.tags, order)
    key_start, set_keys = csr.take_rows(sets.key_start, sets.keys, order)
    set_start = np.append(np.flatnonzero(first), len(order))
    return _signed(signatures[order[first]], set_start, tag_start, tags, key_start, set_keys)


def _sign_bare(signatures: NDArray[np.uint64], keys: NDArray[np.int64]) -> Signed:
    order = np.lexsort(signatures.T[::-1])
    first = _first_of_equal(signatures[order])
    n_slots = int(np.count_nonzero(first))
    key_start = np.append(np.flatnonzero(first), len(order))
    set_start, tag_start = np.arange(n_slots + 1), np.zeros(n_slots + 1, np.int64)
    none = np.empty(0, np.int32)
    return _signed(signatures[order[first]], set_start, tag_start, none, key_start, keys[order])


def _first_of_equal(rows: NDArray[np.uint64]) -> NDArray[np.bool_]:
    first = np.ones(len(rows), np.bool_)
    first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return first


def _signed(
    signatures: NDArray[np.uint64],
    set_start: NDArray[Any],
    tag_start: NDArray[Any],
    tags: NDArray[np.int32],
    key_start: NDArray[Any],
    keys: NDArray[np.int64],
) -> Signed:
    """Narrow the offsets to the 32 bits of tables."""
    starts = set_start, tag_start, key_start
    csr.check_offsets(*(int(start[-1]) for start in starts))
    set_start, tag_start, key_start = (start.astype(np.int32) for start in starts)
    return Signed(signatures, set_start, tag_start, tags, key_start, keys)


def reorder(signed: Signed, order: NDArray[np.int64]) -> Signed:
    """Reorder the slots: the new slot i is the old slot `order[i]`."""
    set_start, sets = csr.take_rows(
        signed.set_start, np.arange(len(signed.key_start) - 1, dtype=np.int64), order
    )
    tag_start, tags = csr.take_rows(signed.tag_start, signed.tags, sets)
    key_start, keys = csr.take_rows(signed.key_start, signed.keys, sets)
    return _signed(signed.signatures[order], set_start, tag_start, tags, key_start, keys)


def key_fields(signed: Signed) -> tuple[Any, ...]:
    """The last fields of a table: sets, tags and the key table without removals."""
    none = np.empty(0, np.int64)
    return (*signed[1:], none, none)


def finish(
    table: Any,
    batch: Batch,
    slot_start: NDArray[np.int64],
    slots: NDArray[np.int32],
    candidates: int,
    exact: bool,
) -> Part:
    """Do the exact check, then look up and merge the keys [TagMatch §3.4]."""
    hit_start, hits = _confirm(table, batch.tag_start, batch.tags, slot_start, slots, exact)
    return part_of(table, hit_start, hits, candidates)


def locate(
    table: Any, batch: Batch, slot_start: NDArray[np.int64], slots: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The sets that equal each set of the batch."""
    hit_start, hits = _confirm(table, batch.tag_start, batch.tags, slot_start, slots, True)
    wanted = np.repeat(np.diff(batch.tag_start), np.diff(hit_start))
    equal = np.diff(table.tag_start)[hits] == wanted
    kept = np.concatenate([[0], np.cumsum(equal)])
    return kept[hit_start], hits[equal]


def subscriptions(table: Any, signatures: NDArray[np.uint64], rows: NDArray[np.int64]) -> Batch:
    """The tags of the given sets, or their bare signatures."""
    tag_start, tags = csr.take_rows(table.tag_start, table.tags, rows)
    if len(table.tags) or (table.set_start[-1] <= 1 and not signatures.any()):
        return Batch(tag_start, tags, np.zeros((len(rows), 0), np.uint64))
    return Batch(tag_start, tags, signatures[rows])


def estimate(n_subscriptions: int, n_tags: int, n_bits: int) -> int:
    """Bytes of a signed table without keys, if all subscriptions differ."""
    return n_subscriptions * (8 * n_words_for(n_bits) + 4 + 4 + 4) + 4 * n_tags


@njit(nogil=True, cache=True)
def _confirm(table, tag_start, tags, slot_start, slots, exact):
    """The matching sets of each event's slots; compares their tags if `exact`."""
    n_events = len(slot_start) - 1
    total = 0
    for i in range(slot_start[n_events]):
        total += table.set_start[slots[i] + 1] - table.set_start[slots[i]]
    hit_start = np.empty(n_events + 1, np.int64)
    hits = np.empty(total, np.int32)
    members, distinct = subset.scratch_for(tag_start)
    n_hits = 0
    for event in range(n_events):
        hit_start[event] = n_hits
        if slot_start[event] == slot_start[event + 1]:
            continue
        mask, _ = subset.remember(tags, tag_start[event], tag_start[event + 1], members, distinct)
        for i in range(slot_start[event], slot_start[event + 1]):
            for number in range(table.set_start[slots[i]], table.set_start[slots[i] + 1]):
                hits[n_hits] = number
                first, last = table.tag_start[number], table.tag_start[number + 1]
                n_hits += not exact or subset.has_all(table.tags, first, last, members, mask)
    hit_start[n_events] = n_hits
    return hit_start, hits[:n_hits]


@njit(nogil=True, cache=True)
def group(found_event, found_slot, found_lanes, n_found, n_events):
    """Slots by event: a counting sort of (event, first slot, 64 lanes) triples."""
    start = np.zeros(n_events + 1, np.int64)
    for i in range(n_found):
        start[found_event[i] + 1] += count_ones(found_lanes[i])
    for event in range(n_events):
        start[event + 1] += start[event]
    next_start = start[:n_events].copy()
    slots = np.empty(start[n_events], np.int32)
    for i in range(n_found):
        event, lanes = found_event[i], found_lanes[i]
        at = next_start[event]
        while lanes != ZERO:
            slots[at] = found_slot[i] + lowest_one(lanes)
            lanes &= lanes - ONE
            at += 1
        next_start[event] = at
    return start, slots
