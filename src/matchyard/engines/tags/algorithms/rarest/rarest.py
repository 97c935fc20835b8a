"""rarest: file every subscription under its rarest tag only.

An event searches the postings of its own tags. A candidate costs one test of a 64-bit signature,
and only the survivors get the exact check. See `matchyard.kernels.subset` for the index itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.engines.tags.algorithms.rarest import one_event
from matchyard.engines.tags.encoder.layout import Batch, Vocabulary
from matchyard.errors import UsageError
from matchyard.kernels import csr, subset
from matchyard.kernels.inspection import Inspection
from matchyard.kernels.subset_build import build, join_offsets
from matchyard.kernels.subset_build import join as join_parts
from matchyard.matches import Part, part_of

DEVICES = ("cpu", "gpu")
Finder = one_event.Finder
BY_ROW = {"signatures": "", "id_start": "", "ids": "id_start", "key_start": "", "keys": "key_start"}


class Options(NamedTuple):
    """The options of this algorithm."""

    leaf: int = subset.LEAF  # postings with more sets are split by the next tag


class Table(NamedTuple):
    """A subset index over tag ids, and the key table."""

    signatures: NDArray[np.uint64]  # the fields of `kernels.subset.SubsetIndex`, row by row…
    id_start: NDArray[np.int32]
    ids: NDArray[np.int32]
    posting_start: NDArray[np.int32]
    split_ids: NDArray[np.int32]
    node_row: NDArray[np.int32]
    node_own: NDArray[np.int32]
    run_start: NDArray[np.int32]
    run_id: NDArray[np.int32]
    run_row: NDArray[np.int32]
    run_end: NDArray[np.int32]
    run_node: NDArray[np.int32]
    key_start: NDArray[np.int32]  # …and of the key table: see `kernels.key_table`
    keys: NDArray[np.signedinteger]
    removed_keys: NDArray[np.int64]
    removed_at: NDArray[np.int64]


class Workspace:
    """The buffer of hits, kept between calls; it grows to the size of the largest batch."""

    def __init__(self) -> None:
        self.hits = np.empty(4096, np.int32)


def check(options: Options) -> None:
    """Refuse options that make no sense."""
    if options.leaf < 1:
        raise UsageError(f'option "leaf" must be at least 1, not {options.leaf}')


def signature_bits(options: Options) -> tuple[int, int, bool]:
    """Bits and hashes of the signatures of a batch, and whether bare ones are allowed: none."""
    return 0, 0, False


def inspect(look: Inspection, table: Table, vocabulary: Vocabulary, options: Options) -> None:
    """Refuse a damaged table: see `kernels.inspection`."""
    n_rows, n_ids = look.length("signatures"), look.length("ids")
    look.offsets("id_start", n_rows, n_ids)
    look.values("ids", 0, vocabulary.n_names)
    look.offsets("posting_start", vocabulary.n_names, n_rows, first=None)
    look.expect("posting_start", table.posting_start[0] >= 0, "starts below 0")
    n_nodes, n_runs = look.length("node_row"), look.length("run_id")
    look.values("node_row", 0, n_rows)
    look.shape("node_own", n_nodes)
    look.offsets("run_start", n_nodes, n_runs)
    look.values("run_row", 0, n_rows + 1, n_runs)
    look.values("run_end", 0, n_rows + 1, n_runs)
    look.values("run_node", -1, n_nodes, n_runs)
    n_splits = look.length("split_ids")
    look.expect("split_ids", n_splits <= n_nodes, f"has more than {n_nodes} ids")
    look.key_table(n_rows)
    if look.is_thorough:
        _inspect_nodes(look, table, options.leaf)


def _inspect_nodes(look: Inspection, table: Table, leaf: int) -> None:
    """Check that only long postings are nodes, that nodes form trees, and that leaves are short."""
    is_long = np.diff(table.posting_start) > leaf
    look.expect(
        "split_ids",
        np.array_equal(np.flatnonzero(is_long), table.split_ids),
        f"does not list the ids with more than {leaf} rows",
    )
    look.rising("run_start", is_strict=True)
    node_of = np.repeat(np.arange(len(table.node_row)), np.diff(table.run_start))
    inner = table.run_node >= 0
    children = table.run_node[inner]
    is_after = (children > node_of[inner]) & (children >= len(table.split_ids))
    look.expect("run_node", is_after.all(), "leads back")
    look.distinct("run_node", children, len(table.node_row))
    first, last = table.run_row[~inner], table.run_end[~inner]
    look.expect("run_end", (last - first <= leaf).all(), f"has runs of more than {leaf} rows")
    order = np.argsort(first, kind="stable")
    is_apart = first[order][1:] >= last[order][:-1]
    look.expect("run_row", is_apart.all(), "has runs that overlap")


def compile(
    subscriptions: Batch, keys: NDArray[np.int64], vocabulary: Vocabulary, options: Options
) -> Table:
    """File every subscription under its rarest tag. Sorts `subscriptions.tags` in place."""
    sets = [subscriptions.tag_start, subscriptions.tags]
    del subscriptions  # lets the build free the input early
    built = build(sets, vocabulary.n_names, options.leaf)
    none = np.empty(0, np.int64)
    return Table(*built.subset_index, built.member_start, keys[built.order], none, none)


def join(tables: Sequence[Table], options: Options) -> Table:
    """Join tables over one vocabulary, whose ranges of rarest tags follow each other."""
    fields = len(subset.SubsetIndex._fields)
    parts = [subset.SubsetIndex._make(table[:fields]) for table in tables]
    none = np.empty(0, np.int64)
    key_start = join_offsets([table.key_start for table in tables])
    keys = np.concatenate([table.keys for table in tables])
    return Table(*join_parts(parts, options.leaf), key_start, keys, none, none)


def workspace(table: Table, options: Options) -> Workspace:
    """The workspace of one thread."""
    return Workspace()


def match(table: Table, batch: Batch, workspace: Workspace, options: Options) -> Part:
    """The keys per event."""
    hit_start = np.empty(batch.n_rows + 1, np.int64)
    workspace.hits, candidates = subset.select(
        table, batch.tag_start, batch.tags, options.leaf, workspace.hits, hit_start
    )
    return part_of(table, hit_start, workspace.hits, candidates)


def rows_read(table: Table, batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that `match` may read: the postings of the tags."""
    tags = batch.tags[batch.tag_start[0] : batch.tag_start[-1]]
    return subset.rows_read(table, tags, batch.n_rows)


def locate(
    table: Table, batch: Batch, workspace: Workspace, options: Options
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The rows that equal each set of the batch: (start, rows)."""
    hit_start = np.empty(batch.n_rows + 1, np.int64)
    hits, _ = subset.select(
        table, batch.tag_start, batch.tags, options.leaf, workspace.hits, hit_start
    )
    hits = hits[: hit_start[-1]]
    wanted = np.repeat(np.diff(batch.tag_start), np.diff(hit_start))
    sizes = table.id_start[hits + 1] - table.id_start[hits] + (hits >= table.posting_start[0])
    equal = sizes == wanted
    kept = np.concatenate([[0], np.cumsum(equal)])
    return kept[hit_start], hits[equal]


def subscriptions(table: Table, rows: NDArray[np.int64]) -> Batch:
    """The tag sets of the given rows."""
    start, ids = csr.take_rows(table.id_start, table.ids, rows)
    rarest = np.searchsorted(table.posting_start, rows, side="right") - 1
    has_tags = rarest >= 0
    tag_start = csr.ragged(np.diff(start) + has_tags)
    tags = np.empty(int(tag_start[-1]), np.int32)
    first = np.zeros(len(tags), bool)
    first[tag_start[:-1][has_tags]] = True
    tags[first] = rarest[has_tags]
    tags[~first] = ids
    return Batch(tag_start, tags, np.zeros((len(rows), 0), np.uint64))


def estimate(n_subscriptions: int, n_tags: int, n_names: int, options: Options) -> int:
    """Bytes of the table without keys, if all subscriptions differ."""
    per_row = 8 + 4 + 4  # signature, id_start, key_start
    return per_row * n_subscriptions + 4 * max(0, n_tags - n_subscriptions) + 4 * n_names
