"""Build the subset index: file sets under their rarest id, sort them, merge equal sets, and split
long postings. `matchyard.kernels.subset` explains the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.csr import check_offsets
from matchyard.kernels.growing import put, with_rows
from matchyard.kernels.hashing import prefetch
from matchyard.kernels.subset import LEAF, SubsetIndex, id_bits

_NO_NODE = np.int32(-1)


class Built(NamedTuple):
    """An index, and the row of each input set."""

    subset_index: SubsetIndex
    order: NDArray[np.int32]  # [n_sets] input sets in row order
    member_start: NDArray[np.int32]  # [n_rows + 1] the elements of `order` that share a row


def build(sets: list[Any], n_ids: int, leaf: int = LEAF) -> Built:
    """Index the sets given as [start, ids]; the ids of each are sorted in place.

    Takes the arrays out of the list, so that the build can free them early.
    """
    set_start, set_ids = sets
    sets.clear()
    lengths = sort_sets(set_start, set_ids)
    check_offsets(len(lengths), int(lengths.sum(dtype=np.int64)))
    posting_count, order = _file_under_rarest(set_start, lengths, set_ids, n_ids)
    sorted_start, sorted_ids = _gather(set_start, lengths, set_ids, order)
    del set_start, set_ids, lengths
    _sort_postings(posting_count, sorted_start, sorted_ids, order)
    rows = _merge_equal(posting_count, sorted_start, sorted_ids)
    del sorted_start, sorted_ids
    signatures, id_start, ids, posting_start, member_start = rows
    nodes = _split(posting_start, id_start, ids, leaf)
    return Built(SubsetIndex(signatures, id_start, ids, posting_start, *nodes), order, member_start)


def join(parts: Sequence[SubsetIndex], leaf: int = LEAF) -> SubsetIndex:
    """Join indexes over the same ids, whose ranges of rarest ids follow each other. The result has
    the rows of one after the other, as one build over all sets would."""
    check_offsets(sum(len(part.signatures) for part in parts))
    signatures = np.concatenate([part.signatures for part in parts])
    id_start = join_offsets([part.id_start for part in parts])
    ids = np.concatenate([part.ids for part in parts])
    posting_start = parts[0].posting_start.copy()
    for part in parts[1:]:
        posting_start += part.posting_start
    nodes = _split(posting_start, id_start, ids, leaf)
    return SubsetIndex(signatures, id_start, ids, posting_start, *nodes)


def join_offsets(parts: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    """Join the offsets of parts whose values are laid end to end."""
    ends = np.cumsum([0, *(int(part[-1]) for part in parts)])
    check_offsets(int(ends[-1]))
    moved = [part[:-1] + end for part, end in zip(parts, ends)]
    return np.concatenate([*moved, ends[-1:]]).astype(np.int32)


@njit(nogil=True, cache=True)
def sort_sets(set_start, set_ids):
    """Sort each set descending in place and drop repeats; returns the new lengths."""
    lengths = np.empty(len(set_start) - 1, np.int32)
    for number in range(len(lengths)):
        start, end = set_start[number], set_start[number + 1]
        if end - start > 32:
            ascending = np.sort(set_ids[start:end])
            for i in range(end - start):
                set_ids[start + i] = ascending[end - start - 1 - i]
        else:
            for i in range(start + 1, end):
                value, j = set_ids[i], i
                while j > start and set_ids[j - 1] < value:
                    set_ids[j] = set_ids[j - 1]
                    j -= 1
                set_ids[j] = value
        kept = start
        for i in range(start, end):
            if i == start or set_ids[i] != set_ids[i - 1]:
                set_ids[kept] = set_ids[i]
                kept += 1
        lengths[number] = kept - start
    return lengths


@njit(nogil=True, cache=True)
def _file_under_rarest(set_start, lengths, set_ids, n_ids):
    """Counting sort of the sets by their rarest id; empty sets come first (posting 0)."""
    count = np.zeros(n_ids + 2, np.int64)
    for number in range(len(lengths)):
        posting = set_ids[set_start[number]] + 1 if lengths[number] else 0
        count[posting + 1] += 1
    for posting in range(1, len(count)):
        count[posting] += count[posting - 1]
    order = np.empty(len(lengths), np.int32)
    next_position = count[:-1].copy()
    for number in range(len(lengths)):
        posting = set_ids[set_start[number]] + 1 if lengths[number] else 0
        order[next_position[posting]] = number
        next_position[posting] += 1
    return count, order


@njit(nogil=True, cache=True)
def _gather(set_start, lengths, set_ids, order):
    """Copy the sets into posting order without their rarest id, so that a posting is contiguous."""
    start = np.empty(len(order) + 1, np.int32)
    start[0] = 0
    for row in range(len(order)):
        start[row + 1] = start[row] + max(0, lengths[order[row]] - 1)
    ids = np.empty(start[-1], np.int32)
    for row in range(len(order)):
        if row + 16 < len(order):
            prefetch(set_ids, set_start[order[row + 16]])
        source = set_start[order[row]] + 1
        for i in range(start[row + 1] - start[row]):
            ids[start[row] + i] = set_ids[source + i]
    return start, ids


@njit(nogil=True, cache=True)
def _precedes(left, right, start, ids):
    """True if row `left` comes before row `right` in lexicographic order; False for equal rows."""
    length = min(start[left + 1] - start[left], start[right + 1] - start[right])
    for i in range(length):
        a, b = ids[start[left] + i], ids[start[right] + i]
        if a != b:
            return a < b
    return start[left + 1] - start[left] < start[right + 1] - start[right]


@njit(nogil=True, cache=True)
def _sort_rows(rows, spare, start, ids):
    """Sort row numbers with a stable merge sort; insertion sort for runs of 12."""
    n_rows, width = len(rows), 12
    for low in range(0, n_rows, width):
        for i in range(low + 1, min(low + width, n_rows)):
            row, j = rows[i], i
            while j > low and _precedes(row, rows[j - 1], start, ids):
                rows[j] = rows[j - 1]
                j -= 1
            rows[j] = row
    while width < n_rows:
        for low in range(0, n_rows - width, 2 * width):
            middle, high = low + width, min(low + 2 * width, n_rows)
            if not _precedes(rows[middle], rows[middle - 1], start, ids):
                continue
            put(spare, low, rows, low, middle)
            i, j = low, middle
            for position in range(low, high):
                if i == middle:
                    break
                if j < high and _precedes(rows[j], spare[i], start, ids):
                    rows[position] = rows[j]
                    j += 1
                else:
                    rows[position] = spare[i]
                    i += 1
        width *= 2


@njit(nogil=True, cache=True)
def _sort_postings(count, start, ids, order):
    """Sort each posting's rows in place, and `order` with them."""
    longest = 0
    widest = 0
    for posting in range(len(count) - 1):
        low, high = count[posting], count[posting + 1]
        longest = max(longest, high - low)
        widest = max(widest, start[high] - start[low])
    rows, spare = np.empty(longest, np.int64), np.empty(longest, np.int64)
    old_order = np.empty(longest, np.int32)
    old_length = np.empty(longest, np.int64)
    old_ids = np.empty(widest, np.int32)
    for posting in range(1, len(count) - 1):
        low, high = count[posting], count[posting + 1]
        n_rows = high - low
        if n_rows < 2:
            continue
        for i in range(n_rows):
            rows[i] = low + i
        _sort_rows(rows[:n_rows], spare, start, ids)
        base, end = start[low], 0
        for i in range(n_rows):
            row = rows[i]
            old_order[i] = order[row]
            length = start[row + 1] - start[row]
            old_length[i] = length
            for k in range(length):
                old_ids[end + k] = ids[start[row] + k]
            end += length
        for i in range(n_rows):
            order[low + i] = old_order[i]
            start[low + i + 1] = start[low + i] + old_length[i]
        for k in range(end):
            ids[base + k] = old_ids[k]


@njit(nogil=True, cache=True)
def _is_same(left, right, start, ids):
    length = start[left + 1] - start[left]
    if length != start[right + 1] - start[right]:
        return False
    for i in range(length):
        if ids[start[left] + i] != ids[start[right] + i]:
            return False
    return True


@njit(nogil=True, cache=True)
def _n_distinct(count, start, ids):
    """The numbers of distinct rows and of their ids."""
    n_rows, n_ids = 0, 0
    for posting in range(len(count) - 1):
        for member in range(count[posting], count[posting + 1]):
            if member == count[posting] or not _is_same(member - 1, member, start, ids):
                n_rows += 1
                n_ids += start[member + 1] - start[member]
    return n_rows, n_ids


@njit(nogil=True, cache=True)
def _merge_equal(count, start, sorted_ids):
    """Make one row per distinct set, with its bits."""
    n_rows, n_ids = _n_distinct(count, start, sorted_ids)
    posting_start = np.empty(len(count) - 1, np.int32)
    id_start = np.empty(n_rows + 1, np.int32)
    member_start = np.empty(n_rows + 1, np.int32)
    signatures = np.empty(n_rows, np.uint64)
    ids = np.empty(n_ids, np.int32)
    row, end = 0, 0
    for posting in range(len(count) - 1):
        if posting > 0:
            posting_start[posting - 1] = row
        for member in range(count[posting], count[posting + 1]):
            if member > count[posting] and _is_same(member - 1, member, start, sorted_ids):
                continue
            id_start[row], member_start[row] = end, member
            signature = np.uint64(0)
            for i in range(start[member], start[member + 1]):
                signature |= id_bits(sorted_ids[i])
                ids[end] = sorted_ids[i]
                end += 1
            signatures[row] = signature
            row += 1
    posting_start[len(count) - 2] = row
    id_start[row], member_start[row] = end, len(start) - 1
    return signatures, id_start, ids, posting_start, member_start


@njit(nogil=True, cache=True)
def _split(posting_start, id_start, ids, leaf):
    """Cut long postings into runs, and long runs again: see the picture in `subset`."""
    n_splits = 0
    for number in range(len(posting_start) - 1):
        n_splits += posting_start[number + 1] - posting_start[number] > leaf
    split_ids = np.empty(n_splits, np.int32)
    # The arrays of nodes are also the queue of nodes to cut.
    node_row = np.empty(n_splits + 16, np.int32)
    node_end = np.empty(n_splits + 16, np.int32)
    node_depth = np.empty(n_splits + 16, np.int32)
    n_nodes = 0
    for number in range(len(posting_start) - 1):
        if posting_start[number + 1] - posting_start[number] > leaf:
            split_ids[n_nodes] = number
            node_row[n_nodes], node_end[n_nodes] = posting_start[number], posting_start[number + 1]
            node_depth[n_nodes] = 0
            n_nodes += 1
    node_own = np.zeros(len(node_row), np.int32)
    run_start = np.zeros(len(node_row) + 1, np.int32)
    runs = np.empty((64, 4), np.int32)  # id, row, end, node
    n_runs, node = 0, 0
    while node < n_nodes:
        row, end, depth = node_row[node], node_end[node], node_depth[node]
        run_start[node] = n_runs
        if id_start[row + 1] - id_start[row] == depth:
            node_own[node] = 1
            row += 1
        light = False  # the last run is open for more light groups
        while row < end:
            number = ids[id_start[row] + depth]
            group_end = row + 1
            while group_end < end and ids[id_start[group_end] + depth] == number:
                group_end += 1
            heavy = group_end - row > leaf
            if light and not heavy and group_end - runs[n_runs - 1, 1] <= leaf:
                runs[n_runs - 1, 2] = group_end
            else:
                runs = with_rows(runs, n_runs, n_runs + 1)
                runs[n_runs, 0], runs[n_runs, 1] = number, row
                runs[n_runs, 2], runs[n_runs, 3] = group_end, _NO_NODE
                n_runs += 1
                light = not heavy
            if heavy:
                if n_nodes == len(node_row):
                    node_row, node_end = _doubled(node_row), _doubled(node_end)
                    node_depth, node_own = _doubled(node_depth), _doubled(node_own)
                    run_start = _doubled(run_start)
                runs[n_runs - 1, 3] = n_nodes
                node_row[n_nodes], node_end[n_nodes] = row, group_end
                node_depth[n_nodes], node_own[n_nodes] = depth + 1, 0
                n_nodes += 1
            row = group_end
        node += 1
    run_start[n_nodes] = n_runs
    return (
        split_ids,
        node_row[:n_nodes].copy(),
        node_own[:n_nodes].copy(),
        run_start[: n_nodes + 1].copy(),
        runs[:n_runs, 0].copy(),
        runs[:n_runs, 1].copy(),
        runs[:n_runs, 2].copy(),
        runs[:n_runs, 3].copy(),
    )


@njit(nogil=True, cache=True)
def _doubled(array):
    grown = np.zeros(2 * len(array), array.dtype)
    put(grown, 0, array, 0, len(array))
    return grown
