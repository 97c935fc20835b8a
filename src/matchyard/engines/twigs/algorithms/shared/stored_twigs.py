"""The part that the tables of all algorithms share: the twigs themselves, and the keys of hits.

Every table ends in the arrays of `Stored`, the last of which are the key table (`kernels.key_table`).
Its rows are distinct twigs: equal subscriptions are matched once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.encoder.layout import ANY, Twigs, Vocabulary
from matchyard.engines.twigs.language.model import DOCUMENT, Axis
from matchyard.kernels import csr
from matchyard.kernels.equal_rows import first_alike, grouped_keys
from matchyard.kernels.hashing import mix64
from matchyard.kernels.inspection import Inspection
from matchyard.matches import Part, part_of

_ODD = np.uint64(0x9E3779B97F4A7C15)


class Stored(NamedTuple):
    """Distinct twigs, and the key table."""

    row_start: NDArray[np.int32]  # as in `Twigs`, and so the next
    tree_start: NDArray[np.int32]
    parent: NDArray[np.int32]
    axis: NDArray[np.uint8]
    is_negated: NDArray[np.bool_]
    tag: NDArray[np.int32]  # the symbols; files of tables have this name
    key_start: NDArray[np.int32]
    keys: NDArray[np.signedinteger]
    removed_keys: NDArray[np.int64]
    removed_at: NDArray[np.int64]


class Distinct(NamedTuple):
    """Distinct twigs with the keys of all equal subscriptions."""

    twigs: Twigs
    key_start: NDArray[np.int64]
    keys: NDArray[np.int64]


def distinct(twigs: Twigs, keys: NDArray[np.int64]) -> Distinct:
    """Group equal subscriptions into one row."""
    first, key_start, keys = grouped_keys(_first_equal(twigs), keys)
    return Distinct(twigs.take(first), key_start, keys)


def store(rows: Distinct) -> Stored:
    """The arrays of a table."""
    twigs, key_start, keys = rows
    csr.check_offsets(len(twigs.tree_start), len(twigs.symbol), len(keys))
    none = np.empty(0, np.int64)
    return Stored(
        twigs.row_start.astype(np.int32),
        twigs.tree_start.astype(np.int32),
        *twigs[2:],
        key_start.astype(np.int32),
        keys,
        none,
        none,
    )


def subscriptions(table: Any, rows: NDArray[np.int64]) -> Twigs:
    """The twigs of the given rows: the inverse of `store`."""
    return twigs_of(table).take(rows)


def finish(
    table: Any, hit_start: NDArray[np.int64], rows: NDArray[np.int32], candidates: int
) -> Part:
    """Replace the rows that match each document by their keys."""
    return part_of(table, hit_start, rows, candidates)


def inspect(look: Inspection, table: Any, vocabulary: Vocabulary) -> None:
    """Refuse twigs or a key table that are unsafe to match: see `kernels.inspection`."""
    n_rows, n_trees = look.length("row_start") - 1, look.length("tree_start") - 1
    look.expect("row_start", min(n_rows, n_trees) >= 0, "is empty")
    n_nodes = look.length("tag")
    look.offsets("row_start", n_rows, n_trees)
    look.offsets("tree_start", n_trees, n_nodes)
    look.shape("parent", n_nodes)
    look.values("axis", 0, len(Axis), n_nodes)
    look.flags("is_negated", n_nodes)
    look.values("tag", ANY, vocabulary.n_symbols)
    look.key_table(n_rows)
    if look.is_thorough:
        first = np.repeat(table.tree_start[:-1], np.diff(table.tree_start))
        is_before = (table.parent >= DOCUMENT) & (table.parent < np.arange(n_nodes) - first)
        look.expect("parent", is_before.all(), "has nodes before their parents")


def build_anew(compile: Any, table: Any, vocabulary: Vocabulary, options: Any) -> Any:
    """Build the table again from its own subscriptions, with the same removals."""
    rows = np.repeat(np.arange(len(table.key_start) - 1), np.diff(table.key_start))
    built = compile(subscriptions(table, rows), table.keys, vocabulary, options)
    return built._replace(removed_keys=table.removed_keys, removed_at=table.removed_at)


def estimate(n_subscriptions: int, n_nodes: int) -> int:
    """Bytes of the twigs if each has one tree."""
    return 12 * n_subscriptions + 10 * n_nodes


def twigs_of(table: Any) -> Twigs:
    """All twigs of a table."""
    first = table._fields.index("row_start")
    return Twigs._make(table[first : first + len(Twigs._fields)])


@njit(nogil=True, cache=True)
def _row_codes(twigs):
    """A hash per row."""
    row_start, tree_start = twigs.row_start, twigs.tree_start
    codes = np.empty(len(row_start) - 1, np.uint64)
    for row in range(len(codes)):
        code = np.uint64(0)
        for tree in range(row_start[row], row_start[row + 1]):
            code = mix64(code ^ np.uint64(tree_start[tree + 1] - tree_start[tree]))
            for node in range(tree_start[tree], tree_start[tree + 1]):
                shape = (np.uint64(twigs.parent[node]) << np.uint64(2)) ^ (
                    np.uint64(twigs.axis[node]) << np.uint64(1)
                )
                shape ^= np.uint64(twigs.is_negated[node])
                code = (code ^ shape ^ (np.uint64(twigs.symbol[node]) << np.uint64(32))) * _ODD
                code ^= code >> np.uint64(29)
        codes[row] = mix64(code)
    return codes


@njit(nogil=True, cache=True)
def _is_same(twigs, left, right):
    row_start, tree_start = twigs.row_start, twigs.tree_start
    n_trees = row_start[left + 1] - row_start[left]
    if n_trees != row_start[right + 1] - row_start[right]:
        return False
    for i in range(n_trees):
        first, other = tree_start[row_start[left] + i], tree_start[row_start[right] + i]
        n_nodes = tree_start[row_start[left] + i + 1] - first
        if n_nodes != tree_start[row_start[right] + i + 1] - other:
            return False
        for node in range(n_nodes):
            m, n = first + node, other + node
            if twigs.symbol[m] != twigs.symbol[n] or twigs.parent[m] != twigs.parent[n]:
                return False
            if twigs.axis[m] != twigs.axis[n] or twigs.is_negated[m] != twigs.is_negated[n]:
                return False
    return True


@njit(nogil=True, cache=True)
def _first_equal(twigs):
    """Per row the first row that is equal to it."""
    codes = _row_codes(twigs)
    while True:
        first_of, n_others = first_alike(codes), 0
        for row in range(len(codes)):
            if first_of[row] != row and not _is_same(twigs, first_of[row], row):
                codes[row] += _ODD  # rows with equal hashes that differ get another hash
                n_others += 1
        if n_others == 0:
            return first_of
