"""The filters that a router keeps of very many registrations, computed all at once. [Thesis 2.3.6]

The result equals that of `updates`, which adds filters one by one. Here, the strict subsets of each set are
searched once for all routers of a network. The owners of a set and of its subsets then determine the entries
that a router keeps. An *owner* is a tree and an interface, as a number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.csr import count_values, ragged
from matchyard.kernels.routing.sets import sort_rows, sort_some
from matchyard.kernels.search import first_at_least
from matchyard.kernels.subset import LEAF, SubsetIndex, select
from matchyard.kernels.subset_build import build

_STEP = 1 << 20  # sets whose subsets are searched together


class Family(NamedTuple):
    """Distinct sets, and the strict subsets of each among them."""

    start: NDArray[np.int64]  # [n_sets + 1]
    ids: NDArray[np.int32]  # rising within a set
    order: NDArray[np.int32]  # [n_sets] set numbers, the smallest set first
    subset_start: NDArray[np.int64]  # [n_sets + 1]
    subsets: NDArray[np.int32]


class Grouped(NamedTuple):
    """A family of sets, and the given sets that equal each of its members."""

    family: Family
    member_start: NDArray[np.int64]  # [n_sets + 1] offsets into members
    members: NDArray[np.int32]  # numbers of the given sets that equal each set


def grouped(start: NDArray[np.int64], ids: NDArray[np.int32]) -> Grouped:
    """The family of some sets of ids; ids are any numbers from 0 on."""
    n_ids = int(ids.max(initial=-1)) + 1
    if n_ids > 4 * len(ids):  # sparse numbers: renumber them, to avoid an array of all
        known, numbers = np.unique(ids, return_inverse=True)
        dense = grouped(start, numbers.astype(np.int32))
        return dense._replace(family=dense.family._replace(ids=known[dense.family.ids]))
    uses = count_values(ids, n_ids)
    used = np.flatnonzero(uses)
    frequent = used[np.argsort(-uses[used], kind="stable")].astype(np.int32)
    rank = np.full(len(uses), -1, np.int32)
    rank[frequent] = np.arange(len(frequent), dtype=np.int32)
    del uses, used
    built = build([start, rank[ids]], len(frequent))
    del rank
    index = built.subset_index
    set_start, set_ids = _whole_sets(index)
    subset_start, subsets = _strict_subsets(index, set_start, set_ids)
    sizes = np.diff(set_start).astype(np.int32)
    order = np.argsort(sizes, kind="stable").astype(np.int32)
    set_start, set_ids = sort_rows(set_start, frequent[set_ids])
    family = Family(set_start, set_ids, order, subset_start, subsets)
    return Grouped(family, built.member_start.astype(np.int64), built.order)


def _strict_subsets(
    index: SubsetIndex, start: NDArray[np.int64], ids: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """For each row of an index, the rows that are strict subsets of it."""
    n_rows, hits = len(start) - 1, np.empty(4096, np.int32)
    counts, parts = np.zeros(n_rows, np.int64), []
    for low in range(0, n_rows, _STEP):
        some = start[low : low + _STEP + 1]
        hit_start = np.empty(len(some), np.int64)
        hits, _ = select(index, some - some[0], ids[some[0] : some[-1]], LEAF, hits, hit_start)
        parts.append(_without_itself(hit_start, hits, low, counts))
    return ragged(counts), np.concatenate(parts) if parts else np.empty(0, np.int32)


@njit(nogil=True, cache=True)
def _whole_sets(index):
    """The rows of an index with their rarest ids."""
    n_rows, n_empty = len(index.signatures), index.posting_start[0]
    start = np.zeros(n_rows + 1, np.int64)
    for row in range(n_rows):
        start[row + 1] = start[row] + index.id_start[row + 1] - index.id_start[row]
        start[row + 1] += row >= n_empty
    ids = np.empty(start[-1], np.int32)
    for rarest in range(len(index.posting_start) - 1):
        for row in range(index.posting_start[rarest], index.posting_start[rarest + 1]):
            end = start[row]
            ids[end] = rarest
            for i in range(index.id_start[row], index.id_start[row + 1]):
                end += 1
                ids[end] = index.ids[i]
    return start, ids


@njit(nogil=True, cache=True)
def _without_itself(hit_start, hits, first, counts):
    kept = np.empty(hit_start[-1] - len(hit_start) + 1, np.int32)
    end = 0
    for query in range(len(hit_start) - 1):
        counts[first + query] = hit_start[query + 1] - hit_start[query] - 1
        for i in range(hit_start[query], hit_start[query + 1]):
            if hits[i] != first + query:
                kept[end] = hits[i]
                end += 1
    return kept


@njit(nogil=True, cache=True)
def directions(parents, order, node, interface_to):
    """The interface of a node towards each node on a tree; 0 for the node itself.
    `interface_to` has the interface to each of its neighbours."""
    interfaces = np.zeros(len(parents), np.int32)
    up = interface_to[parents[node]] if parents[node] >= 0 else 0
    for other in order:
        if other == node:
            interfaces[other] = 0
        elif parents[other] < 0:
            interfaces[other] = up
        elif parents[other] == node:
            interfaces[other] = interface_to[other]
        else:
            interfaces[other] = interfaces[parents[other]]
    return interfaces


@njit(nogil=True, cache=True)
def owners_at(row_start, nodes, to_nodes, bits):
    """The owners of each set at a router: (start, owners), each owner once except local ones.
    `to_nodes` has for each tree the interface that leads to each node."""
    n_trees = len(to_nodes)
    n_rows = len(row_start) - 1
    start = np.zeros(n_rows + 1, np.int64)
    owners = np.empty(max(16, n_rows * n_trees), np.int32)
    end = 0
    for row in range(n_rows):
        most = (row_start[row + 1] - row_start[row]) * n_trees
        if end + most > len(owners):
            grown = np.empty(2 * len(owners) + most, np.int32)
            grown[:end] = owners[:end]
            owners = grown
        for tree in range(n_trees):
            first = end
            for i in range(row_start[row], row_start[row + 1]):
                owners[end] = np.int32(tree << bits) | to_nodes[tree, nodes[i]]
                end += 1
            end = sort_owners(owners, first, end, bits)
        start[row + 1] = end
    return start, owners[:end].copy()


@njit(nogil=True, cache=True)
def sort_owners(owners, low, high, bits):
    """Sort some owners and drop repeats, except of local ones; return the new end."""
    sort_some(owners, low, high)
    end, local = low, np.int32((1 << bits) - 1)
    for i in range(low, high):
        if end == low or owners[i] != owners[end - 1] or owners[i] & local == 0:
            owners[end] = owners[i]
            end += 1
    return end


@njit(nogil=True, cache=True)
def sort_all_owners(start, owners, bits):
    """Apply `sort_owners` to each set: (start, owners)."""
    kept_start = np.zeros(len(start), np.int64)
    kept = np.empty(len(owners), np.int32)
    end = 0
    for row in range(len(start) - 1):
        first = end
        for i in range(start[row], start[row + 1]):
            kept[end] = owners[i]
            end += 1
        end = sort_owners(kept, first, end, bits)
        kept_start[row + 1] = end
    return kept_start, kept[:end].copy()


@njit(nogil=True, cache=True)
def keep_minimal(family, owner_start, owners, bits):
    """The owners of each set that a router keeps: (start, owners).
    It keeps all local owners, and the other owners that do not own a strict subset of the set."""
    n_rows = len(owner_start) - 1
    local = np.int32((1 << bits) - 1)
    kept = np.empty(len(owners), np.int32)
    # `kept` is in the order of `family.order`; the last loop copies it into the order of sets.
    at, count = np.zeros(n_rows, np.int64), np.zeros(n_rows, np.int32)
    end = 0
    for row in family.order:
        at[row] = end
        for i in range(owner_start[row], owner_start[row + 1]):
            owner = owners[i]
            if owner & local == 0 or not _is_covered(family, row, owner, at, count, kept):
                kept[end] = owner
                end += 1
        count[row] = end - at[row]
    start = np.zeros(n_rows + 1, np.int64)
    for row in range(n_rows):
        start[row + 1] = start[row] + count[row]
    in_order = np.empty(end, np.int32)
    for row in range(n_rows):
        for i in range(count[row]):
            in_order[start[row] + i] = kept[at[row] + i]
    return start, in_order


@njit(nogil=True, cache=True)
def _is_covered(family, row, owner, at, count, kept):
    """True if a strict subset has this owner; the owners of each set rise."""
    for i in range(family.subset_start[row], family.subset_start[row + 1]):
        subset = family.subsets[i]
        end = at[subset] + count[subset]
        position = first_at_least(kept, at[subset], end, owner)
        if position < end and kept[position] == owner:
            return True
    return False
