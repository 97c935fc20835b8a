"""stacks on a GPU: a lane per node of a twig, and a block per document and some of the twigs.

Trees are packed into warps (`gpu_packing`). The stacks of a node are two words with a bit per level
(`stacks.cu`). Words have 32 bits, or 64 for deeper documents; still deeper documents are matched on
the CPU. A tree with more nodes than a warp has lanes gets a block of its own. The kernels return
matching rows as bits, which are counted and then written one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.algorithms.shared import stored_twigs
from matchyard.engines.twigs.algorithms.stacks import gpu_packing, stacks
from matchyard.engines.twigs.encoder.layout import ANY, CLOSE, Batch
from matchyard.gpu.compilation import kernel
from matchyard.gpu.devices import guarded
from matchyard.gpu.lanes import Lane
from matchyard.gpu.resident import on_card
from matchyard.kernels import csr
from matchyard.matches import Part

LAUNCH = 4096
_WARPS = 4  # per block
_SETS = 4  # of nodes per warp
_THREADS = _WARPS * gpu_packing.LANES
VARIANTS = tuple(
    {
        "LEVELS": levels,
        "WARPS": _WARPS,
        "SETS": _SETS,
        "STAGED": 1024,  # signals of a document at a time
        "DESCENDANT": int(gpu_packing.DESCENDANT),
        "NEGATED": int(gpu_packing.NEGATED),
        "ANY": ANY,
        "CLOSE": CLOSE,
    }
    for levels in (32, 64)
)
_MOST_LEVELS = VARIANTS[-1]["LEVELS"] - 1  # one level is the document
_HIT_WORDS = 1 << 26  # of all documents of a launch: 256 MB
_BLOCKS = 1 << 30  # of a launch
_WIDE_NODES = 1 << 22  # of large trees that are matched at a time: 80 MB


class Workspace:
    """A stream with its buffers, and the packed table on the card."""

    def __init__(self, table: stacks.Table) -> None:
        self.lane = Lane()
        packed = gpu_packing.packed(table, _WARPS * _SETS)
        self.n_groups = len(packed.sets.symbol) // (_THREADS * _SETS)
        self.n_wide_trees, self.n_wide_nodes = len(packed.wide.row), len(packed.wide.symbol)
        self.n_words = len(packed.always)
        self.sets = [on_card(array) for array in packed.sets]
        self.wide = [on_card(array) for array in packed.wide]
        self.always = on_card(packed.always)

    @property
    def n_documents(self) -> int:
        """How many documents a launch may have."""
        return max(1, min(_HIT_WORDS // self.n_words, _BLOCKS // max(1, self.n_groups)))


def workspace(table: stacks.Table, options: stacks.Options) -> Workspace:
    """Pack the table and copy it to the card, unless it is there already."""
    return Workspace(table)


def match(table: stacks.Table, batch: Batch, workspace: Workspace, options: stacks.Options) -> Part:
    """The keys per document; candidates are columns, as on the CPU."""
    is_deep = batch.depth > _MOST_LEVELS
    if not is_deep.any():
        return _match(table, batch, workspace)
    deep = np.flatnonzero(is_deep)
    on_card = _match(table, _take(batch, np.flatnonzero(~is_deep)), workspace)
    on_cpu = stacks.match(table, _take(batch, deep), None, options)
    return _joined(on_card, on_cpu, is_deep)


def _take(batch: Batch, documents: NDArray[np.int64]) -> Batch:
    signal_start, signals = csr.take_rows(batch.signal_start, batch.signals, documents)
    return Batch(signal_start, signals, batch.depth[documents])


def _joined(on_card: Part, on_cpu: Part, is_deep: NDArray[np.bool_]) -> Part:
    """Merge the matches of both in the order of the documents."""
    starts = []
    for part, is_its in ((on_card, ~is_deep), (on_cpu, is_deep)):
        counts = np.zeros(len(is_deep), np.int64)
        counts[is_its] = np.diff(part.event_start)
        starts.append(csr.ragged(counts))
    event_start, keys = csr.interleave(starts[0], on_card.keys, starts[1], on_cpu.keys)
    return Part(event_start, keys, on_card.candidates + on_cpu.candidates)


def _match(table: stacks.Table, batch: Batch, workspace: Workspace) -> Part:
    lane, step = workspace.lane, workspace.n_documents
    counts, rows, n_updates = [np.empty(0, np.int64)], [np.empty(0, np.int32)], 0
    with guarded("matching documents"), lane.stream:
        signals = lane.send("signal_start", batch.signal_start), lane.send("signals", batch.signals)
        for first in range(0, batch.n_rows, step):
            last = min(first + step, batch.n_rows)
            hits = _find(batch, range(first, last), signals, workspace)
            its_signals = batch.signals[batch.signal_start[first] : batch.signal_start[last]]
            n_updates += _count_updates(table.named_start, len(table.prefix), its_signals)
            n_rows, its_rows = _fetch(
                hits, last - first, workspace
            )  # the card was at work meanwhile
            counts.append(n_rows)
            rows.append(its_rows)
    hit_start = csr.ragged(np.concatenate(counts))
    return stored_twigs.finish(table, hit_start, np.concatenate(rows), n_updates)


def _find(batch: Batch, documents: range, signals: tuple[Any, Any], workspace: Workspace) -> Any:
    """Match the documents; returns a bit per row for each."""
    lane, n_words = workspace.lane, workspace.n_words
    hits = lane.empty("hits", len(documents) * n_words, np.uint32)
    hits.fill(0)
    out = hits, np.int64(n_words)
    for constants, numbers in _by_depth(batch, documents):
        chosen = lane.send(f"documents_{constants['LEVELS']}", numbers)
        first = np.int32(documents.start)
        sets = *workspace.sets, np.int32(workspace.n_groups)
        find: Any = kernel(__file__, "match", constants)
        n_blocks = len(numbers) * workspace.n_groups
        lane.launch(find, n_blocks, _THREADS, *sets, chosen, first, *signals, *out)
        if workspace.n_wide_trees:
            some = chosen, np.int32(len(numbers)), first
            _find_wide(constants, len(numbers), (*some, *signals), out, workspace)
    return hits


def _by_depth(batch: Batch, documents: range) -> Iterator[tuple[Any, NDArray[np.int32]]]:
    """The documents for each word size. The longest come first, so that none starts late."""
    depth = batch.depth[documents.start : documents.stop]
    n_signals = np.diff(batch.signal_start[documents.start : documents.stop + 1])
    levels = [variant["LEVELS"] for variant in VARIANTS]
    for variant, (least, most) in zip(VARIANTS, pairwise([0, *levels])):
        chosen = np.flatnonzero((depth >= least) & (depth < most))
        chosen = chosen[np.argsort(-n_signals[chosen], kind="stable")]
        if len(chosen):
            yield variant, (chosen + documents.start).astype(np.int32)


def _find_wide(
    constants: Any, n_documents: int, documents: Any, out: Any, workspace: Workspace
) -> None:
    """Match large trees, with as many documents at a time as fit in memory."""
    lane, n_nodes = workspace.lane, workspace.n_wide_nodes
    n_slots = min(n_documents, max(1, _WIDE_NODES // n_nodes))
    levels = np.uint32 if constants["LEVELS"] == 32 else np.uint64
    room = [
        lane.empty(f"{name}_{constants['LEVELS']}", n_slots * n_nodes, kind)
        for name, kind in (("matched", levels), ("reported", levels), ("is_refuted", np.int32))
    ]
    find: Any = kernel(__file__, "match_wide", constants)
    trees = *workspace.wide, np.int32(workspace.n_wide_trees)
    n_blocks = n_slots * workspace.n_wide_trees
    lane.launch(find, n_blocks, _THREADS, *trees, *documents, *room, *out)


def _fetch(
    hits: Any, n_documents: int, workspace: Workspace
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The number of rows of each document, and the rows."""
    lane, n_blocks = workspace.lane, -(-n_documents // _WARPS)
    results = hits, workspace.always, np.int64(workspace.n_words), np.int32(n_documents)
    on_lane = lane.empty("counts", n_documents, np.int64)
    count: Any = kernel(__file__, "count", VARIANTS[0])
    lane.launch(count, n_blocks, _THREADS, *results, on_lane)
    counts = lane.fetch(on_lane)
    hit_start = csr.ragged(counts)
    rows = lane.empty("rows", int(hit_start[-1]), np.int32)
    if len(rows):
        write: Any = kernel(__file__, "write", VARIANTS[0])
        lane.launch(write, n_blocks, _THREADS, *results, lane.send("hit_start", hit_start), rows)
    return counts, lane.fetch(rows)


@njit(nogil=True, cache=True)
def _count_updates(named_start, n_columns, signals):
    """Count as `stacks` does: all columns for an opening or closing, those of the test for a leaf."""
    n_updates = 0
    for signal in signals:
        if signal >= CLOSE:
            n_updates += n_columns
        else:
            symbol = -2 - signal
            if symbol + 3 < len(named_start):
                n_updates += named_start[symbol + 3] - named_start[symbol + 2]
    return n_updates
