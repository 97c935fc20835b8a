"""All registrations of a network, and the table of any router, computed without updates. [Thesis 2.4.4]

    registrations (descriptor, node) ──▶ subsets among them, once ──▶ table of a router
                                                                  ──▶ table of another one …

A table equals the content of a `Rib` after all updates. Tables of parts of the registrations can be
merged, because a filter in the table of all registrations is also in the table of some part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from matchyard.errors import UsageError
from matchyard.kernels.csr import ragged, take_rows
from matchyard.kernels.routing.aggregation import (
    directions,
    grouped,
    keep_minimal,
    owners_at,
    sort_all_owners,
)
from matchyard.kernels.routing.filters import INTERFACE_BITS
from matchyard.routing.descriptors import Descriptors, Vocabulary
from matchyard.routing.placement import place
from matchyard.routing.rib import Memory, Rib, memory
from matchyard.routing.saved_ribs import MOST_INTERFACES, MOST_TREES
from matchyard.routing.topology import Topology
from matchyard.routing.trees import Tree, check_tree, first_equal
from matchyard.routing.whole_numbers import whole_number, whole_numbers

PART = 1 << 25  # registrations that are processed together
_ROWS = 1 << 20  # rows of a workload that are generated together
_MOST_SUBSETS = 16  # with more trees, `sizes` does not enumerate all choices


class Sizes(NamedTuple):
    """The size of a router's table for a number of trees: (least, mean, most) over all choices of trees."""

    n_trees: int
    filters: tuple[int, float, int]
    entries: tuple[int, float, int]

    def memory(self) -> Memory:
        """The memory of the largest table."""
        return memory(self.filters[2], self.entries[2], 0)


class Table(NamedTuple):
    """The filters of a router, with the trees and interfaces that want them."""

    descriptors: Descriptors
    start: NDArray[np.int64]  # [n_filters + 1]
    entries: NDArray[np.int32]  # tree << 20 | interface, rising within a filter
    n_trees: int

    @property
    def n_filters(self) -> int:
        """The number of different filters."""
        return len(self.start) - 1

    def memory(self) -> Memory:
        """The memory of the table, here and in the layout of the thesis."""
        arrays = (self.descriptors.start, self.descriptors.ids, self.start, self.entries)
        return memory(self.n_filters, len(self.entries), sum(array.nbytes for array in arrays))

    def sizes(self) -> list[Sizes]:
        """The sizes for 1, 2, … trees; with more than 16 trees, only the size for all of them."""
        per_tree = np.bincount(self.entries >> INTERFACE_BITS, minlength=self.n_trees)
        if self.n_trees > _MOST_SUBSETS:
            n_filters, n_entries = [self.n_filters], [len(self.entries)]
            return [Sizes(self.n_trees, _spread(n_filters), _spread(n_entries))]
        without = np.bincount(self._masks(), minlength=1 << self.n_trees)
        chosen = np.arange(1 << self.n_trees)
        size, entries = np.zeros_like(chosen), np.zeros_like(chosen)
        for tree in range(self.n_trees):
            pairs = without.reshape(-1, 2, 1 << tree)
            pairs[:, 1] += pairs[
                :, 0
            ]  # `without[s]` becomes the number of filters on no tree outside s
            is_chosen = chosen >> tree & 1
            size, entries = size + is_chosen, entries + is_chosen * per_tree[tree]
        filters = self.n_filters - without[chosen ^ (len(chosen) - 1)]
        return [
            Sizes(count, _spread(filters[size == count]), _spread(entries[size == count]))
            for count in range(1, self.n_trees + 1)
        ]

    def _masks(self) -> NDArray[np.int64]:
        """The trees of each filter as bits."""
        masks = np.zeros(self.n_filters, np.int64)
        rows = np.repeat(np.arange(self.n_filters), np.diff(self.start))
        trees = self.entries >> INTERFACE_BITS
        for tree in range(self.n_trees):
            masks[rows[trees == tree]] |= 1 << tree
        return masks

    def rib(self, links: Sequence[Sequence[int]]) -> Rib:
        """A RIB with this content, at a router with these interfaces on each tree."""
        return Rib.of_table(links, self.descriptors, self.start, self.entries)


def _spread(values: Any) -> tuple[int, float, int]:
    return int(min(values)), float(sum(values) / len(values)), int(max(values))


class Registrations:
    """Descriptors with the nodes that registered them.

    >>> from matchyard.routing import from_links, grow
    >>> line = from_links([(0, 1), (1, 2)])
    >>> all_of = Registrations(["jazz", "jazz live", "rock"], [0, 0, 2])
    >>> all_of.table(line, grow(line, "L", 1), 1).memory().filters
    2
    """

    def __init__(
        self, descriptors: Any, nodes: ArrayLike, vocabulary: Vocabulary | None = None
    ) -> None:
        if not isinstance(descriptors, Descriptors):
            descriptors = (vocabulary or Vocabulary()).encode(descriptors)
        numbers = whole_numbers(nodes, "nodes")
        if len(numbers) != len(descriptors):
            raise UsageError(
                f"{len(numbers)} nodes for {len(descriptors)} descriptors; expected a node for each"
            )
        if numbers.min(initial=0) < 0:
            raise UsageError(f"a registration at node {numbers.min()}; expected numbers from 0 on")
        self.vocabulary: Vocabulary = descriptors.vocabulary
        self.n_registrations = len(descriptors)
        self.last_node = int(numbers.max(initial=-1))
        self._family, self._start, members = grouped(descriptors.start, descriptors.ids)
        self._nodes = numbers.astype(np.int32)[members]

    def __repr__(self) -> str:
        return f"<{self.n_registrations} registrations of {len(self)} descriptors>"

    def __len__(self) -> int:
        """The number of different descriptors."""
        return len(self._family.order)

    @property
    def n_subsumed(self) -> int:
        """The number of pairs of different descriptors in which one subsumes the other."""
        return len(self._family.subsets)

    def by_descriptor(self) -> tuple[Descriptors, NDArray[np.int64], NDArray[np.int32]]:
        """The different descriptors and the nodes of each: (descriptors, start, nodes)."""
        sets = Descriptors(self.vocabulary, self._family.start, self._family.ids)
        return sets, self._start, self._nodes

    def table(self, topology: Topology, trees: Sequence[Tree], at: int) -> Table:
        """The table of the router at a node, for all trees."""
        return next(self.tables(topology, trees, [at]))

    def tables(
        self, topology: Topology, trees: Sequence[Tree], nodes: Iterable[int]
    ) -> Iterator[Table]:
        """Yield the tables of the routers at several nodes. The trees are checked only once."""
        for tree in trees:
            check_tree(topology, tree)
        if self.last_node >= topology.n_nodes:
            raise UsageError(
                f"a registration at node {self.last_node} of {topology.n_nodes}; expected a node of "
                "this network"
            )
        if len(trees) > MOST_TREES:
            raise UsageError(f"{len(trees)} trees; expected at most {MOST_TREES}")
        first = first_equal(trees)
        different = [trees[number] for number in sorted(set(first))]
        for node in nodes:
            table = self._table_at(topology, different, topology.checked_node(node))
            yield table if len(different) == len(trees) else _with_equal_trees(table, first)

    def _table_at(self, topology: Topology, trees: Sequence[Tree], at: int) -> Table:
        near = topology.neighbours[topology.start[at] : topology.start[at + 1]]
        if len(near) >= MOST_INTERFACES:
            raise UsageError(f"{len(near)} links; expected fewer than {MOST_INTERFACES}")
        interface_to = np.zeros(topology.n_nodes, np.int32)
        interface_to[near] = np.arange(1, len(near) + 1)
        ways = [directions(tree.parent, tree.order, at, interface_to) for tree in trees]
        to_nodes = np.array(ways, np.int32).reshape(len(trees), topology.n_nodes)
        start, owners = owners_at(self._start, self._nodes, to_nodes, INTERFACE_BITS)
        start, entries = keep_minimal(self._family, start, owners, INTERFACE_BITS)
        sets = Descriptors(self.vocabulary, self._family.start, self._family.ids)
        return _table(sets, start, entries, len(trees))


def _table(
    sets: Descriptors, start: NDArray[np.int64], entries: NDArray[np.int32], n_trees: int
) -> Table:
    """The table of the sets that have entries."""
    counts = np.diff(start)
    kept = np.flatnonzero(counts)
    return Table(sets.take(kept), ragged(counts[kept]), entries, n_trees)


def _with_equal_trees(table: Table, first: Sequence[int]) -> Table:
    """The table of all trees, from that of the different ones; `first` is of `first_equal`."""
    different = sorted(set(first))
    equal = [[tree for tree, one in enumerate(first) if one == number] for number in different]
    equal_start = ragged(np.array([len(some) for some in equal]))
    start, trees = take_rows(equal_start, np.concatenate(equal), table.entries >> INTERFACE_BITS)
    counts = np.diff(start)
    interfaces = np.repeat(table.entries & (MOST_INTERFACES - 1), counts)
    rows = np.repeat(np.repeat(np.arange(table.n_filters), np.diff(table.start)), counts)
    entries = (trees << INTERFACE_BITS | interfaces).astype(np.int32)
    entries = entries[np.lexsort((entries, rows))]
    return Table(table.descriptors, start[table.start], entries, len(first))


def merge(tables: Sequence[Table]) -> Table:
    """Merge the tables of one router for parts of the registrations into the table for all."""
    if not tables:
        raise UsageError("no tables to merge; expected at least one")
    vocabulary = tables[0].descriptors.vocabulary
    parts = [
        table.descriptors
        if table.descriptors.vocabulary is vocabulary  # its numbers may have no text
        else vocabulary.encode(table.descriptors)
        for table in tables
    ]
    ids = np.concatenate([part.ids for part in parts])
    counts = np.concatenate([np.diff(part.start) for part in parts])
    n_entries = np.concatenate([np.diff(table.start) for table in tables])
    entries = np.concatenate([table.entries for table in tables])
    family, member_start, members = grouped(ragged(counts), ids)
    _, owners = take_rows(ragged(n_entries), entries, members)
    starts = ragged(n_entries[members])[member_start]
    start, owners = sort_all_owners(starts, owners, INTERFACE_BITS)
    start, kept = keep_minimal(family, start, owners, INTERFACE_BITS)
    sets = Descriptors(vocabulary, family.start, family.ids)
    return _table(sets, start, kept, max(table.n_trees for table in tables))


def register_workload(
    workload: Any,
    topology: Topology,
    placement: str = "zipf",
    seed: int = 1,
    rows: tuple[int, int] | None = None,
    vocabulary: Vocabulary | None = None,
) -> Registrations:
    """Register the subscriptions of a workload at the nodes of their users.

    `rows` (from, to) selects some of the subscriptions.

    >>> import matchyard as my
    >>> from matchyard.routing import generate
    >>> register_workload(my.workload("tags", "icn", 120), generate("grid", 9))
    <120 registrations of 116 descriptors>
    """
    tags, users = workload.subscriptions(*(rows or (0, workload.size)))
    return Registrations(tags, place(users, topology, placement, seed), vocabulary)


def table_by_parts(
    workload: Any,
    topology: Topology,
    trees: Sequence[Tree],
    at: int,
    placement: str = "zipf",
    seed: int = 1,
    part: int = PART,
    progress: Callable[[int], object] | None = None,
) -> Table:
    """The table of a router for a large workload, computed in parts of `part` registrations.

    Tables of the same level are merged. `progress` is called with the number of finished rows. The
    table keeps the workload's numbers of tags and therefore has no text.
    """
    if whole_number(part, "part") < 1:
        raise UsageError(f"parts of {part} registrations; expected at least 1")
    vocabulary, waiting = Vocabulary(), list[tuple[int, Table]]()
    for low in range(0, workload.size, part):
        high, level = min(workload.size, low + part), 0
        descriptors, users = _numbers(workload, low, high, vocabulary)
        registered = Registrations(descriptors, place(users, topology, placement, seed))
        del descriptors, users
        table = registered.table(topology, trees, at)
        del registered
        while waiting and waiting[-1][0] == level:
            table, level = merge([waiting.pop()[1], table]), level + 1
        waiting.append((level, table))
        if progress is not None:
            progress(high - low)
    while len(waiting) > 1:
        _, table = waiting.pop()
        waiting[-1] = (0, merge([waiting[-1][1], table]))
    return waiting[0][1]


def _numbers(
    workload: Any, low: int, high: int, vocabulary: Vocabulary
) -> tuple[Descriptors, NDArray[np.int64]]:
    """The descriptors of rows of a workload, and their users."""
    if not hasattr(workload, "rows"):
        raise UsageError(f"the workload {workload.name} has no numbers; expected e.g. icn")
    counts, ids, users = [], [], []
    for first in range(low, high, _ROWS):
        start, names, keys = workload.rows(first, min(high, first + _ROWS))
        if names.max(initial=0) >= 1 << 31 or names.min(initial=0) < 0:
            raise UsageError(f"the workload {workload.name} has tags beyond 31 bits; expected icn")
        counts.append(np.diff(start))
        ids.append(names.astype(np.int32))
        users.append(keys)
    descriptors = Descriptors(vocabulary, ragged(np.concatenate(counts)), np.concatenate(ids))
    return descriptors, np.concatenate(users)


def sizes_table(
    topology: Topology, trees: Sequence[Tree], registrations: Registrations, nodes: Sequence[int]
) -> pa.Table:
    """The sizes of routers' tables: a row for each node and number of trees."""
    rows = [
        size_row(topology, node, size)
        for node in nodes
        for size in registrations.table(topology, trees, node).sizes()
    ]
    return pa.Table.from_pylist(rows)


def size_row(topology: Topology, node: int, size: Sizes) -> dict[str, Any]:
    """`Sizes` as a row of `sizes_table`."""
    most = size.memory()
    return {
        "node": topology.names[node],
        "trees": size.n_trees,
        "least_filters": size.filters[0],
        "mean_filters": size.filters[1],
        "most_filters": size.filters[2],
        "least_entries": size.entries[0],
        "mean_entries": size.entries[1],
        "most_entries": size.entries[2],
        "most_compact_bytes": most.compact_bytes,
        "most_thesis_bytes": most.thesis_bytes,
    }
