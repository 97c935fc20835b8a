"""lazy_dfa: the rows that match a document."""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.engines.twigs.algorithms.lazy_dfa.states import holds
from matchyard.kernels.bitset import ONE, ZERO, lowest_one


@njit(nogil=True, cache=True)
def append_rows(table, levels, seen, mark, hits, n_hits):
    """Append the rows of a document; returns (hits, n_hits, examined trees)."""
    bits, asked_start, asked = levels.bits[0], table.asked_start, table.asked
    n_looked = len(table.free_trees)
    for at in range(len(bits)):
        word = bits[at]
        if word == ZERO:
            continue
        hits = _with_room(hits, n_hits + asked_start[64 * at + 64] - asked_start[64 * at])
        while word != ZERO:
            requirement = 64 * at + lowest_one(word)
            word &= word - ONE
            start, end = asked_start[requirement], asked_start[requirement + 1]
            n_looked += end - start
            for i in range(start, end):
                row = asked[i]
                if row < 0:
                    if not _is_row_of(table, -1 - row, bits, seen, mark):
                        continue
                    row = table.tree_row[-1 - row]
                hits[n_hits] = row
                n_hits += 1
    hits = _with_room(hits, n_hits + len(table.free_trees))
    for tree in table.free_trees:
        if _is_row_of(table, tree, bits, seen, mark):
            hits[n_hits] = table.tree_row[tree]
            n_hits += 1
    return hits, n_hits, n_looked


@njit(nogil=True, cache=True)
def _is_row_of(table, tree, bits, seen, mark):
    """True if the tree holds, and no tree of its row did before."""
    row = table.tree_row[tree]
    if seen[row] == mark or not holds(table.asking_start, table.asking_conditions, tree, bits):
        return False
    seen[row] = mark
    return True


@njit(nogil=True, cache=True)
def _with_room(hits, n_hits):
    """The same hits in an array of at least `n_hits` elements."""
    if n_hits <= len(hits):
        return hits
    larger = np.empty(2 * n_hits, np.int32)
    larger[: len(hits)] = hits
    return larger
