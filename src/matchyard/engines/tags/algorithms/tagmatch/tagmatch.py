"""tagmatch: the algorithm of the paper [TagMatch, EuroSys 2017], on the CPU.

    event ─▶ pre-process: masks ⊆ event? ─▶ a batch per partition ─▶ subset match: blocks with a
    common-prefix filter, then set by set ─▶ key look-up ─▶ merge by event (and exact check)

`partition` cuts the sets into partitions around pivot bits, before any event comes. A batch is
processed when it is full, or after the last event of a call. Vector instructions test 64 masks,
events or sets at a time; the paper uses GPU threads for this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.tags.algorithms.shared import signed_sets
from matchyard.engines.tags.algorithms.tagmatch import joining
from matchyard.engines.tags.algorithms.tagmatch.partition import PIVOTS, partition
from matchyard.engines.tags.encoder.layout import Batch, Vocabulary
from matchyard.errors import UsageError
from matchyard.kernels.bitset import (
    ONE,
    WORD,
    ZERO,
    common_prefix,
    first_lanes,
    is_one,
    lanes_64,
    leftmost_one,
    lowest_one,
    n_words_for,
)
from matchyard.kernels.inspection import Inspection
from matchyard.matches import Part

DEVICES = ("cpu", "gpu")
LANES = 64
MAX_BATCH = 256  # the paper numbers the events of a batch with eight bits


class Options(NamedTuple):
    """The options of this algorithm."""

    n_bits: int = signed_sets.N_BITS
    n_hashes: int = signed_sets.N_HASHES
    pivot: str = "balanced"  # or "frequent" or "prefix"
    max_partition: int = 400  # MAX_P; the paper takes 200 000 on GPUs
    block: int = 64  # sets under one common prefix
    batch: int = MAX_BATCH  # events per partition and batch
    exact: bool = True  # compare the tags of the sets whose signatures match
    pre_process: str = "gpu"  # on a GPU: pre-process there [§4.5], or on the "cpu" as in the paper


class Table(NamedTuple):
    """Partition table, tagset table and key table.

    Signatures and masks are stored word by word: one instruction tests eight of them. LANES columns
    of padding allow it to read past the end.
    """

    words: NDArray[np.uint64]  # [n_words, n_slots + LANES] tagset table
    masks: NDArray[np.uint64]  # [n_words, n_partitions + LANES]
    mask_start: NDArray[np.int64]  # [64 n_words + 2] first partition by leftmost one-bit
    block_start: NDArray[np.int64]  # [n_partitions + 1] first block of each partition
    slot_start: NDArray[np.int64]  # [n_blocks + 1] first slot of each block
    prefixes: NDArray[np.uint64]  # [n_blocks, n_words] ones of the block's common prefix
    set_start: NDArray[np.int32]  # the rest is as in `signed_sets.Signed` and `kernels.key_table`
    tag_start: NDArray[np.int32]
    tags: NDArray[np.int32]
    key_start: NDArray[np.int32]
    keys: NDArray[np.signedinteger]
    removed_keys: NDArray[np.int64]
    removed_at: NDArray[np.int64]


class Workspace(NamedTuple):
    """The batches that are being filled, and the partitions that one event is forwarded to."""

    batches: NDArray[np.int32]  # [n_partitions, batch]
    n_waiting: NDArray[np.int64]  # [n_partitions]
    forward: NDArray[np.int64]  # [n_partitions]


def check(options: Options) -> None:
    """Refuse options that make no sense."""
    signed_sets.check(options.n_bits, options.n_hashes)
    if options.pivot not in PIVOTS:
        raise UsageError(f"no pivot {options.pivot!r}; expected one of: {', '.join(PIVOTS)}")
    if options.pre_process not in ("cpu", "gpu"):
        raise UsageError(f'option "pre_process" is "cpu" or "gpu", not {options.pre_process!r}')
    if options.max_partition < 1 or options.block < 1:
        raise UsageError('options "max_partition" and "block" must be at least 1')
    if not 1 <= options.batch <= MAX_BATCH:
        raise UsageError(f'option "batch" must be 1 to {MAX_BATCH}, not {options.batch}')


def signature_bits(options: Options) -> tuple[int, int, bool]:
    """Bits and hashes of the signatures of a batch, and whether bare ones are allowed."""
    return options.n_bits, options.n_hashes, not options.exact


def inspect(look: Inspection, table: Table, vocabulary: Vocabulary, options: Options) -> None:
    """Refuse a damaged table: see `kernels.inspection`."""
    n_words = n_words_for(options.n_bits)
    n_slots = look.shape("words", n_words, None)[1] - LANES
    n_partitions = look.shape("masks", n_words, None)[1] - LANES
    look.expect("words", min(n_slots, n_partitions) >= 0, f"has fewer than {LANES} columns")
    look.offsets("mask_start", n_words * WORD + 1, n_partitions)
    n_blocks = look.shape("prefixes", None, n_words)[0]
    look.offsets("block_start", n_partitions, n_blocks)
    look.offsets("slot_start", n_blocks, n_slots)
    signed_sets.inspect(look, table, vocabulary, n_slots)


def compile(
    subscriptions: Batch, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """Sign the subscriptions, partition the signatures, and lay them out."""
    signed = signed_sets.sign(subscriptions, keys, vocabulary, options.n_bits, options.n_hashes)
    rows = signed.signatures.copy()
    bounds, masks, source = partition(rows, options.max_partition, options.pivot)
    # Sorted by leftmost bit, PT[j] of the partition table [§3.2] is a range; an empty mask is last.
    leftmost = np.array([leftmost_one(mask) for mask in masks], np.int64)
    order = np.argsort(leftmost, kind="stable")
    bounds, masks = bounds[order], masks[order]
    n_words = rows.shape[1]
    block_start = np.zeros(len(bounds) + 1, np.int64)
    np.cumsum(-(-(bounds[:, 1] - bounds[:, 0]) // options.block), out=block_start[1:])
    padded = np.zeros((n_words, len(bounds) + LANES), np.uint64)
    padded[:, : len(bounds)] = masks.T
    words, slot_start, prefixes, slots = _lay_out(
        rows, source, bounds, options.block, int(block_start[-1])
    )
    mask_start = np.searchsorted(leftmost[order], np.arange(n_words * WORD + 2))
    layout = (words, padded, mask_start, block_start, slot_start, prefixes)
    return Table(*layout, *signed_sets.key_fields(signed_sets.reorder(signed, slots)))


def join(tables: Sequence[Table], options: Options) -> Table:
    """Join tables that have no set in common."""
    return joining.join(tables, LANES)


def workspace(table: Table, options: Options) -> Workspace:
    """The workspace of one thread."""
    n_partitions = len(table.block_start) - 1
    return Workspace(
        np.empty((n_partitions, options.batch), np.int32),
        np.zeros(n_partitions, np.int64),
        np.empty(n_partitions, np.int64),
    )


def find(
    table: Table, batch: Batch, workspace: Workspace, options: Options
) -> tuple[NDArray[np.int64], NDArray[np.int32], int]:
    """The slots per event and the candidates: all stages but the exact check and the key look-up
    [thesis, Table 3.4]."""
    hits, n_found, candidates = _match(table, batch.signatures, workspace)
    slots = signed_sets.group(hits.event, hits.slot, hits.lanes, n_found, batch.n_rows)
    return *slots, candidates


def match(table: Table, batch: Batch, workspace: Workspace, options: Options) -> Part:
    """The keys per event."""
    slot_start, slots, candidates = find(table, batch, workspace, options)
    return signed_sets.finish(table, batch, slot_start, slots, candidates, options.exact)


def search_space(table: Table, batch: Batch) -> NDArray[np.int64]:
    """Count the sets in the partitions of each event [thesis, Figures 3.9 and 3.10]."""
    sizes = np.diff(table.slot_start[table.block_start])
    forward = np.empty(len(sizes), np.int64)
    return np.array(
        [sizes[forward[: _pre_process(table, ~row, forward)]].sum() for row in batch.signatures]
    )


def locate(
    table: Table, batch: Batch, workspace: Workspace, options: Options
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The sets that equal each set of the batch."""
    return signed_sets.locate(table, batch, *find(table, batch, workspace, options)[:2])


def subscriptions(table: Table, rows: NDArray[np.int64]) -> Batch:
    """The tag sets of the given sets."""
    return signed_sets.subscriptions(table, table.words[:, :-LANES].T, rows)


def estimate(n_subscriptions: int, n_tags: int, n_names: int, options: Options) -> int:
    """Bytes of the table without keys."""
    return signed_sets.estimate(n_subscriptions, n_tags, options.n_bits)


@njit(nogil=True, cache=True)
def _lay_out(rows, source, bounds, block, n_blocks):
    """Lay out the tagset table in the order of partitions, cut into blocks [§3.3.1]."""
    n_rows, n_words = rows.shape
    words = np.zeros((n_words, n_rows + LANES), np.uint64)
    slot_start = np.zeros(n_blocks + 1, np.int64)
    prefixes = np.zeros((n_blocks, n_words), np.uint64)
    slots = np.empty(n_rows, np.int64)
    at, done = 0, 0
    for start, stop in bounds:
        for first in range(start, stop, block):
            last = min(first + block, stop) - 1
            slot_start[done] = at
            common_prefix(rows[first], rows[last], prefixes[done])
            done += 1
            for i in range(first, last + 1):
                for word in range(n_words):
                    words[word, at] = rows[i, word]
                slots[at] = source[i]
                at += 1
    slot_start[done] = at
    return words, slot_start, prefixes, slots


class Found(NamedTuple):
    """Events with up to LANES slots, of which at least one matches."""

    event: NDArray[np.int32]
    slot: NDArray[np.int32]  # the first of the slots
    lanes: NDArray[np.uint64]  # bit j: slot + j matches


@njit(nogil=True, cache=True)
def _empty(size):
    return Found(np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.uint64))


@njit(nogil=True, cache=True)
def _with_room(hits, n_found, n_more):
    if n_found + n_more <= len(hits.event):
        return hits
    larger = _empty(max(n_found + n_more, 2 * len(hits.event)))
    larger.event[:n_found] = hits.event[:n_found]
    larger.slot[:n_found] = hits.slot[:n_found]
    larger.lanes[:n_found] = hits.lanes[:n_found]
    return larger


@njit(nogil=True, cache=True)
def _pre_process(table, absent, forward):
    """Algorithm 2: list the partitions whose mask lies in the event; returns their number."""
    n_words, n_forward = len(absent), 0
    for position in range(n_words * WORD):
        if is_one(absent, position):
            continue
        stop = table.mask_start[position + 1]
        for at in range(table.mask_start[position], stop, LANES):
            ready = first_lanes(stop - at)
            for word in range(position >> 6, n_words):  # masks in PT[position] start there
                ready &= lanes_64(table.masks[word], at, absent[word])
            while ready != ZERO:
                forward[n_forward] = at + lowest_one(ready)
                ready &= ready - ONE
                n_forward += 1
    for empty in range(table.mask_start[-2], table.mask_start[-1]):
        forward[n_forward] = empty
        n_forward += 1
    return n_forward


@njit(nogil=True, cache=True)
def _survivors(prefix, absent, column, size):
    """Algorithm 4: the bits of the LANES events of the batch that have the prefix."""
    alive = first_lanes(size - column)
    for word in range(len(prefix)):
        if prefix[word] != ZERO:
            alive &= lanes_64(absent[word], column, prefix[word])
    return alive


@njit(nogil=True, cache=True)
def _matching(words, at, stop, absent, event):
    """Algorithm 3: the bits of the LANES slots from `at` on that lie in one event."""
    lanes, word = first_lanes(stop - at), 0
    while lanes != ZERO and word < len(words):
        lanes &= lanes_64(words[word], at, absent[word, event])
        word += 1
    return lanes


@njit(nogil=True, cache=True)
def _match_batch(table, partition, batch, absent, hits, n_found):
    """Subset match of one batch in one partition [§3.3]; `hits` has room.

    Every result is written, but only a hit advances `n_found`: there is no branch to mispredict.
    """
    candidates = 0
    for block in range(table.block_start[partition], table.block_start[partition + 1]):
        first, stop = table.slot_start[block], table.slot_start[block + 1]
        for column in range(0, len(batch), LANES):
            alive = _survivors(table.prefixes[block], absent, column, len(batch))
            while alive != ZERO:
                event = column + lowest_one(alive)
                alive &= alive - ONE
                candidates += stop - first
                for at in range(first, stop, LANES):
                    lanes = _matching(table.words, at, stop, absent, event)
                    hits.event[n_found] = batch[event]
                    hits.slot[n_found] = at
                    hits.lanes[n_found] = lanes
                    n_found += lanes != ZERO
    return n_found, candidates


@njit(nogil=True, cache=True)
def _process(table, partition, batch, signatures, absent, hits, n_found):
    """Store a batch word by word, as the paper does on the GPU, and match it."""
    for i in range(len(batch)):
        for word in range(signatures.shape[1]):
            absent[word, i] = ~signatures[batch[i], word]
    first, last = table.block_start[partition], table.block_start[partition + 1]
    n_slots = table.slot_start[last] - table.slot_start[first]
    most = len(batch) * (n_slots // LANES + last - first) + 1  # the last write may be no hit
    hits = _with_room(hits, n_found, most)
    n_found, candidates = _match_batch(table, partition, batch, absent, hits, n_found)
    return hits, n_found, candidates


@njit(nogil=True, cache=True)
def _match(table, signatures, workspace):
    """Pre-process and subset match; returns the hits, their number and the candidates."""
    batches, n_waiting, forward = workspace
    batch_size = batches.shape[1]
    absent = np.zeros((signatures.shape[1], batch_size + LANES), np.uint64)
    hits, n_found, candidates = _empty(1024), 0, 0
    n_waiting[:] = 0
    for event in range(len(signatures)):
        n_forward = _pre_process(table, ~signatures[event], forward)
        for i in range(n_forward):
            partition = forward[i]
            batches[partition, n_waiting[partition]] = event
            n_waiting[partition] += 1
            if n_waiting[partition] == batch_size:
                n_waiting[partition] = 0
                hits, n_found, looked_at = _process(
                    table, partition, batches[partition], signatures, absent, hits, n_found
                )
                candidates += looked_at
    for partition in range(len(n_waiting)):
        if n_waiting[partition]:
            batch = batches[partition, : n_waiting[partition]]
            hits, n_found, looked_at = _process(
                table, partition, batch, signatures, absent, hits, n_found
            )
            candidates += looked_at
    return hits, n_found, candidates
