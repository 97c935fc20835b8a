"""scan: compare every signature with every event, 64 signatures at a time, without an index.

This is the simplest algorithm, and the baseline for the others. Signatures are cut into stripes: a
stripe stays in the cache while all events of a call are compared with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.tags.algorithms.shared import signed_sets
from matchyard.engines.tags.encoder.layout import Batch, Vocabulary
from matchyard.errors import UsageError
from matchyard.kernels.bitset import (
    ZERO,
    first_lanes,
    lanes_64,
    n_words_for,
)
from matchyard.kernels.inspection import Inspection
from matchyard.matches import Part

DEVICES = ("cpu", "gpu")
LANES = 64


class Options(NamedTuple):
    """The options of this algorithm."""

    n_bits: int = signed_sets.N_BITS
    n_hashes: int = signed_sets.N_HASHES
    stripe: int = 8192  # signatures per stripe: 192 kB at 192 bits
    exact: bool = True  # compare the tags of the sets whose signatures match
    batch: int = 256  # events in one launch on a card; 1 is the paper's "plain"


class Table(NamedTuple):
    """Signatures word by word, with LANES columns of padding, and the key table."""

    words: NDArray[np.uint64]  # [n_words, n_slots + LANES]
    set_start: NDArray[np.int32]  # the rest is as in `signed_sets.Signed` and `kernels.key_table`
    tag_start: NDArray[np.int32]
    tags: NDArray[np.int32]
    key_start: NDArray[np.int32]
    keys: NDArray[np.signedinteger]
    removed_keys: NDArray[np.int64]
    removed_at: NDArray[np.int64]


def check(options: Options) -> None:
    """Refuse options that make no sense."""
    signed_sets.check(options.n_bits, options.n_hashes)
    for name in ("stripe", "batch"):
        if getattr(options, name) < 1:
            raise UsageError(f'option "{name}" must be at least 1, not {getattr(options, name)}')


def signature_bits(options: Options) -> tuple[int, int, bool]:
    """Bits and hashes of the signatures of a batch, and whether bare ones are allowed."""
    return options.n_bits, options.n_hashes, not options.exact


def inspect(look: Inspection, table: Table, vocabulary: Vocabulary, options: Options) -> None:
    """Refuse a damaged table: see `kernels.inspection`."""
    n_slots = look.shape("words", n_words_for(options.n_bits), None)[1] - LANES
    look.expect("words", n_slots >= 0, f"has fewer than {LANES} columns")
    signed_sets.inspect(look, table, vocabulary, n_slots)


def compile(
    subscriptions: Batch, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """Sign the subscriptions and store the signatures word by word."""
    signed = signed_sets.sign(subscriptions, keys, vocabulary, options.n_bits, options.n_hashes)
    n_slots, n_words = signed.signatures.shape
    words = np.zeros((n_words, n_slots + LANES), np.uint64)
    words[:, :n_slots] = signed.signatures.T
    return Table(words, *signed_sets.key_fields(signed))


def workspace(table: Table, options: Options) -> None:
    """None: this algorithm needs no workspace."""


def _find(
    table: Table, batch: Batch, options: Options
) -> tuple[NDArray[np.int64], NDArray[np.int32], int]:
    slots = _scan(table.words, batch.signatures, options.stripe)
    return *slots, batch.n_rows * (table.words.shape[1] - LANES)


def match(table: Table, batch: Batch, workspace: None, options: Options) -> Part:
    """The keys per event."""
    slot_start, slots, candidates = _find(table, batch, options)
    return signed_sets.finish(table, batch, slot_start, slots, candidates, options.exact)


def locate(
    table: Table, batch: Batch, workspace: None, options: Options
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The sets that equal each set of the batch."""
    return signed_sets.locate(table, batch, *_find(table, batch, options)[:2])


def subscriptions(table: Table, rows: NDArray[np.int64]) -> Batch:
    """The tag sets of the given sets."""
    return signed_sets.subscriptions(table, table.words[:, :-LANES].T, rows)


def estimate(n_subscriptions: int, n_tags: int, n_names: int, options: Options) -> int:
    """Bytes of the table without keys."""
    return signed_sets.estimate(n_subscriptions, n_tags, options.n_bits)


@njit(nogil=True, cache=True)
def _scan(words, signatures, stripe):
    n_events, n_slots = len(signatures), words.shape[1] - LANES
    found_event = np.empty(1024, np.int32)
    found_slot = np.empty(1024, np.int32)
    found_lanes = np.empty(1024, np.uint64)
    n_found = 0
    for start in range(0, n_slots, stripe):
        stop = min(start + stripe, n_slots)
        for event in range(n_events):
            n_more = n_found + (stop - start) // LANES + 1
            if n_more > len(found_event):
                found_event = np.append(found_event, np.empty(n_more, np.int32))
                found_slot = np.append(found_slot, np.empty(n_more, np.int32))
                found_lanes = np.append(found_lanes, np.empty(n_more, np.uint64))
            for at in range(start, stop, LANES):
                lanes, word = first_lanes(stop - at), 0
                while lanes != ZERO and word < len(words):
                    lanes &= lanes_64(words[word], at, ~signatures[event, word])
                    word += 1
                if lanes != ZERO:
                    found_event[n_found], found_slot[n_found] = event, at
                    found_lanes[n_found] = lanes
                    n_found += 1
    return signed_sets.group(found_event, found_slot, found_lanes, n_found, n_events)
