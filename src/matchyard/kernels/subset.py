"""The subset index: find the stored sets of ids that a given set of ids contains.

Every stored set is filed under its rarest id only, so a query searches only the postings of its own
ids. Ids are ranks: 0 is the most frequent id, so the rarest id of a set is its largest. In a
posting the sets are sorted by their next-rarest ids. A posting that is longer than a leaf becomes a
*node*: it is cut by the next id into *runs* of at most a leaf's length. If too many sets share the
next id, their run is a node again. The index is thus a trie over ids in order of rarity, with
leaves that are scanned. Even with skewed data a query does not scan all sets.

    posting of id 7 ──▶ rows  [7] [7 2] [7 2 0] [7 4] [7 5 1] …      (a leaf: scan it)
    posting of id 3 ──▶ node: own row [3], runs  ids 0…0 ─▶ node
                                                 ids 1…2 ─▶ leaf
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.csr import are_marked
from matchyard.kernels.growing import with_room, with_rows
from matchyard.kernels.hashing import mix64, prefetch
from matchyard.kernels.search import first_above

LEAF = 64  # up to so many rows are scanned and not split
_AHEAD = 8  # queries between the prefetch of a cache line and its use


class SubsetIndex(NamedTuple):
    """Rows (distinct stored sets, in posting order) and the trie above them."""

    signatures: NDArray[np.uint64]  # [n_rows] two bits per id, without the rarest id
    id_start: NDArray[np.int32]  # [n_rows + 1] offsets into ids
    ids: NDArray[np.int32]  # rarest first, without the rarest id (the posting implies it)
    posting_start: NDArray[np.int32]  # [n_ids + 1] rows of each rarest id, after the empty set
    split_ids: NDArray[np.int32]  # [n_splits] ids whose posting is a node, ascending: nodes 0, 1, …
    node_row: NDArray[np.int32]  # [n_nodes] first row
    node_own: NDArray[np.int32]  # [n_nodes] 1 if the first row has no further ids
    run_start: NDArray[np.int32]  # [n_nodes + 1] offsets into the runs
    run_id: NDArray[np.int32]  # [n_runs] smallest next id in the run
    run_row: NDArray[np.int32]  # [n_runs] first row of the run
    run_end: NDArray[np.int32]  # [n_runs] the row after the last one of the run
    run_node: NDArray[np.int32]  # [n_runs] node of a run that is split further, or -1


@njit(nogil=True, cache=True)
def id_bits(number):
    """The two bits of an id in `signatures`."""
    code = mix64(number)
    one = np.uint64(1)
    return (one << (code & np.uint64(63))) | (one << ((code >> np.uint64(6)) & np.uint64(63)))


@njit(nogil=True, cache=True)
def _slot(number, mask):
    return np.int64((np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) & mask


@njit(nogil=True, cache=True)
def _has(members, mask, number):
    slot = _slot(number, mask)
    while True:
        member = members[slot]
        if member == number:
            return True
        if member < 0:
            return False
        slot = (slot + 1) & mask


@njit(nogil=True, cache=True)
def remember(ids, start, end, members, distinct):
    """Put ids into the hash set `members` and list them in `distinct`; returns (mask, number)."""
    size, n_distinct = 32, 0
    while size < 4 * (end - start):
        size *= 2
    members[:size] = -1
    for i in range(start, end):
        slot = _slot(ids[i], size - 1)
        while members[slot] >= 0 and members[slot] != ids[i]:
            slot = (slot + 1) & (size - 1)
        if members[slot] < 0:
            members[slot] = ids[i]
            distinct[n_distinct] = ids[i]
            n_distinct += 1
    return size - 1, n_distinct


@njit(nogil=True, cache=True)
def has_all(ids, start, end, members, mask):
    """True if the query has all of ids[start:end]."""
    for i in range(start, end):
        if not _has(members, mask, ids[i]):
            return False
    return True


@njit(nogil=True, cache=True)
def _scan(index, low, high, depth, missing, members, mask, hits, n_hits):
    """Append the rows in [low, high) that the query contains; `hits` has room for all of them."""
    for row in range(low, high):
        if index.signatures[row] & missing == np.uint64(0):
            first, last = index.id_start[row] + depth, index.id_start[row + 1]
            hits[n_hits] = row
            n_hits += has_all(index.ids, first, last, members, mask)
    return n_hits


@njit(nogil=True, cache=True)
def scratch_for(query_start):
    """Memory for `remember`: a hash set of four times the longest query, and a list of ids."""
    longest, size = 0, 32
    for query in range(len(query_start) - 1):
        longest = max(longest, query_start[query + 1] - query_start[query])
    while size < 4 * longest:
        size *= 2
    return np.empty(size, np.int32), np.empty(longest, np.int32)


@njit(nogil=True, cache=True)
def _sort_if_split(index, ids, n_ids, leaf):
    """Sort the ids if one of them has a node: `_walk` needs ascending ids."""
    is_split = False
    for i in range(n_ids):
        is_split |= index.posting_start[ids[i] + 1] - index.posting_start[ids[i]] > leaf
    if is_split:
        ids[:n_ids].sort()


@njit(nogil=True, cache=True)
def _walk(index, node, ids, limit, missing, members, mask, stack, hits, n_hits):
    """Search a node and the nodes below it with ids[:limit], which are smaller than the node's id.

    Returns (hits, n_hits, stack, candidates); `hits` and `stack` are new arrays if they grew.
    """
    stack[0, 0], stack[0, 1], stack[0, 2] = node, limit, 0
    n_open, candidates = 1, 0
    while n_open:
        n_open -= 1
        node, limit, depth = stack[n_open, 0], stack[n_open, 1], stack[n_open, 2]
        stack = with_rows(stack, n_open, n_open + limit + 1)
        hits = with_room(hits, n_hits, n_hits + 1)
        if index.node_own[node]:
            hits[n_hits] = index.node_row[node]
            n_hits += 1
            candidates += 1
        run, last = index.run_start[node], index.run_start[node + 1]
        done = -1  # a leaf is scanned once, even if several ids of the query lead to it
        for i in range(limit):
            run = max(run, first_above(index.run_id, run, last, ids[i]) - 1)
            if run == done or index.run_id[run] > ids[i]:
                continue
            child = index.run_node[run]
            if child >= 0:
                if index.run_id[run] == ids[i]:
                    stack[n_open, 0], stack[n_open, 1], stack[n_open, 2] = child, i, depth + 1
                    n_open += 1
                continue
            done = run
            low, high = index.run_row[run], index.run_end[run]
            hits = with_room(hits, n_hits, n_hits + high - low)
            candidates += high - low
            n_hits = _scan(index, low, high, depth, missing, members, mask, hits, n_hits)
    return hits, n_hits, stack, candidates


def rows_read(
    index: Any, query_ids: NDArray[np.int32], n_queries: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that `select` may read, as ranges from `low` to `high` - 1. Ranges repeat, so that they have at
    least as many rows together as `select` finds."""
    start = index.posting_start
    none, n_empty = np.zeros(n_queries, np.int64), np.full(n_queries, start[0], np.int64)
    return np.concatenate([none, start[query_ids]]), np.concatenate([n_empty, start[query_ids + 1]])


@njit(nogil=True, cache=True)
def may_read(index, ids, n_ids, is_checked):
    """True if the rows that `select` may read for a query are in checked groups of rows."""
    start = index.posting_start
    if not are_marked(0, start[0], is_checked):
        return False
    for i in range(n_ids):
        if not are_marked(start[ids[i]], start[ids[i] + 1], is_checked):
            return False
    return True


@njit(nogil=True, cache=True)
def _load_ahead(index, query_start, query_ids, query):
    """Prefetch for later queries: postings of the farthest one, then rows, then ids."""
    # Fields are read once: in a loop, each read of a field would count references to its array.
    posting_start, signatures = index.posting_start, index.signatures
    id_start, stored_ids = index.id_start, index.ids
    n_queries = len(query_start) - 1
    if query + _AHEAD < n_queries:
        for i in range(query_start[query + _AHEAD], query_start[query + _AHEAD + 1]):
            prefetch(posting_start, query_ids[i])
    sooner = query + _AHEAD // 2
    if sooner < n_queries:
        for i in range(query_start[sooner], query_start[sooner + 1]):
            row = posting_start[query_ids[i]]
            prefetch(signatures, row)
            prefetch(id_start, row)
    soon = query + _AHEAD // 4
    if soon < n_queries:
        for i in range(query_start[soon], query_start[soon + 1]):
            row = posting_start[query_ids[i]]
            prefetch(stored_ids, id_start[row])


@njit(nogil=True, cache=True)
def select(index, query_start, query_ids, leaf, hits, hit_start):
    """Find the rows that each query contains. Its ids may be unsorted and repeated.

    Fills `hit_start` and returns (hits, candidates): the rows per query in CSR form, and the number
    of rows that were tested. `hits` is a buffer; a larger one replaces it if it is too small.
    """
    members, ids = scratch_for(query_start)
    stack = np.empty((64, 3), np.int64)  # nodes to visit: node, number of ids to try, depth
    n_hits, candidates = 0, 0
    n_empty = index.posting_start[0]
    for query in range(len(query_start) - 1):
        hit_start[query] = n_hits
        _load_ahead(index, query_start, query_ids, query)
        start, end = query_start[query], query_start[query + 1]
        mask, n_ids = remember(query_ids, start, end, members, ids)
        _sort_if_split(index, ids, n_ids, leaf)
        missing = ~np.uint64(0)
        for i in range(n_ids):
            missing &= ~id_bits(ids[i])
        hits = with_room(hits, n_hits, n_hits + n_empty)
        for row in range(n_empty):
            hits[n_hits] = row
            n_hits += 1
        candidates += n_empty
        for i in range(n_ids):
            low, high = index.posting_start[ids[i]], index.posting_start[ids[i] + 1]
            if high - low <= leaf:
                hits = with_room(hits, n_hits, n_hits + high - low)
                candidates += high - low
                n_hits = _scan(index, low, high, 0, missing, members, mask, hits, n_hits)
            else:
                node = first_above(index.split_ids, 0, len(index.split_ids), ids[i]) - 1
                hits, n_hits, stack, looked_at = _walk(
                    index, node, ids, i, missing, members, mask, stack, hits, n_hits
                )
                candidates += looked_at
    hit_start[len(query_start) - 1] = n_hits
    return hits, candidates
