"""Pack whole trees into sets of nodes for the lanes of a warp.

A set has a node per lane; its last lane is the document, for all trees of the set. A greedy packing
[Twigs §4.4] takes the largest trees first and puts each into the set where it leaves the least room.
Trees that are too large for a set are kept apart. Trees without nodes match every document and take
no lanes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.language.model import DOCUMENT, Axis
from matchyard.gpu.resident import kept
from matchyard.kernels.csr import take_rows

LANES = 32
ROOM = LANES - 1  # for nodes
NONE = -2  # the symbol of lanes without a node; no signal has it

# A personality [Twigs Table 2] is the lane of the prefix and these bits.
DESCENDANT = np.uint32(32)
NEGATED = np.uint32(64)


class Sets(NamedTuple):
    """Trees that fit into a set; all arrays are [n_sets * LANES]."""

    symbol: NDArray[np.int32]
    personality: NDArray[np.uint32]
    children: NDArray[np.uint32]  # a mask of lanes
    tops: NDArray[np.uint32]  # the lanes of the top nodes of the tree…
    row: NDArray[np.int32]  # …and its row, at its first node; else -1


class Wide(NamedTuple):
    """Trees that do not fit into a set, node after node."""

    symbol: NDArray[np.int32]
    prefix: NDArray[np.int32]  # a node of the tree, or DOCUMENT
    personality: NDArray[np.uint32]  # without the prefix
    tree_start: NDArray[np.int32]
    row: NDArray[np.int32]  # [n_trees]


class Packed(NamedTuple):
    """A table of `stacks` for a GPU."""

    sets: Sets
    wide: Wide
    always: NDArray[np.uint32]  # a bit per row: it has a tree without nodes


def pack(table: Any, multiple: int) -> Packed:
    """Pack the trees of a table; the number of sets is a multiple of `multiple`."""
    n_nodes = np.diff(table.tree_start)
    rows = np.repeat(np.arange(len(table.row_start) - 1, dtype=np.int32), np.diff(table.row_start))
    fitting = np.flatnonzero((n_nodes > 0) & (n_nodes <= ROOM))
    fitting = fitting[np.argsort(-n_nodes[fitting], kind="stable")]
    first_lanes, n_sets = _first_lanes(n_nodes[fitting])
    n_lanes = -(-n_sets // multiple) * multiple * LANES
    return Packed(
        _fill(table, fitting, first_lanes, rows, n_lanes),
        _keep_apart(table, np.flatnonzero(n_nodes > ROOM), rows),
        _bits(rows[n_nodes == 0], len(table.row_start) - 1),
    )


@njit(nogil=True, cache=True)
def _first_lanes(n_nodes):
    """The first lane of every tree, and the number of sets. Sets with the same free room are a
    linked list."""
    first_lanes = np.empty(len(n_nodes), np.int64)
    last_with = np.full(ROOM + 1, -1, np.int64)  # by room
    linked = np.empty(len(n_nodes), np.int64)
    n_sets = 0
    for tree in range(len(n_nodes)):
        room = n_nodes[tree]
        while room < ROOM and last_with[room] < 0:
            room += 1
        chosen = last_with[room]
        if chosen < 0:
            chosen, n_sets = n_sets, n_sets + 1
        else:
            last_with[room] = linked[chosen]
        first_lanes[tree] = chosen * LANES + ROOM - room
        room -= n_nodes[tree]
        linked[chosen] = last_with[room]
        last_with[room] = chosen
    return first_lanes, n_sets


def _fill(
    table: Any,
    trees: NDArray[np.int64],
    first_lanes: NDArray[np.int64],
    rows: NDArray[np.int32],
    n_lanes: int,
) -> Sets:
    """Write the nodes of the trees into their lanes."""
    sets = Sets(
        np.full(n_lanes, NONE, np.int32),
        np.zeros(n_lanes, np.uint32),
        np.zeros(n_lanes, np.uint32),
        np.zeros(n_lanes, np.uint32),
        np.full(n_lanes, -1, np.int32),
    )
    sets.row[first_lanes] = rows[trees]
    _fill_nodes(table, trees, first_lanes, sets)
    return sets


@njit(nogil=True, cache=True)
def _fill_nodes(table, trees, first_lanes, sets):
    for i in range(len(trees)):
        first, first_lane = table.tree_start[trees[i]], first_lanes[i]
        for node in range(table.tree_start[trees[i] + 1] - first):
            lane = np.uint32((first_lane + node) % LANES)
            parent = table.parent[first + node]
            prefix = np.uint32(ROOM)
            if parent == DOCUMENT:
                sets.tops[first_lane] |= np.uint32(1) << lane
            else:
                prefix = np.uint32((first_lane + parent) % LANES)
                sets.children[first_lane + parent] |= np.uint32(1) << lane
            sets.symbol[first_lane + node] = table.tag[first + node]
            sets.personality[first_lane + node] = prefix | _kind(table, first + node)


@njit(nogil=True, cache=True)
def _kind(table, node):
    """A personality without its prefix."""
    kind = DESCENDANT if table.axis[node] == Axis.DESCENDANT else np.uint32(0)
    return kind | NEGATED if table.is_negated[node] else kind


def _keep_apart(table: Any, trees: NDArray[np.int64], rows: NDArray[np.int32]) -> Wide:
    tree_start, nodes = take_rows(table.tree_start, np.arange(len(table.tag)), trees)
    kinds = np.where(table.axis[nodes] == Axis.DESCENDANT, DESCENDANT, np.uint32(0))
    kinds |= np.where(table.is_negated[nodes], NEGATED, np.uint32(0))
    return Wide(
        table.tag[nodes],
        table.parent[nodes],
        kinds.astype(np.uint32),
        tree_start.astype(np.int32),
        rows[trees],
    )


def _bits(rows: NDArray[np.int32], n_rows: int) -> NDArray[np.uint32]:
    """A bit for each of the rows."""
    is_in = np.zeros(-(-max(n_rows, 1) // 32) * 32, bool)
    is_in[rows] = True
    return np.packbits(is_in, bitorder="little").view(np.uint32)


def packed(table: Any, multiple: int) -> Packed:
    """The packed table, which is kept after the first call. Tables that differ only in removals
    share it."""
    nodes: Packed = kept.of(table.row_start, ("packed", multiple), lambda: pack(table, multiple))
    return nodes
