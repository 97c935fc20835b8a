"""The paths of notifications: the subtree that joins a source and its targets.

A *place* identifies a link in one direction: it is the position of the link in `Topology.neighbours`.
"""

import numpy as np
from numba import njit

from matchyard.kernels.routing.trees import interface_to


@njit(nogil=True, cache=True)
def distinct_nodes(hit_start, hits, node_start, nodes, n_nodes):
    """The nodes of the sets that each query has hit, each node once: (start, nodes)."""
    n_queries = len(hit_start) - 1
    start = np.zeros(n_queries + 1, np.int64)
    distinct, n_distinct = np.empty(max(16, 2 * n_queries), np.int32), 0
    seen_by = np.full(n_nodes, -1, np.int64)
    for query in range(n_queries):
        for i in range(hit_start[query], hit_start[query + 1]):
            for position in range(node_start[hits[i]], node_start[hits[i] + 1]):
                node = nodes[position]
                if seen_by[node] == query:
                    continue
                seen_by[node] = query
                if n_distinct == len(distinct):
                    distinct = longer(distinct, n_distinct, 2 * n_distinct)
                distinct[n_distinct] = node
                n_distinct += 1
        start[query + 1] = n_distinct
    return start, distinct[:n_distinct]


@njit(nogil=True, cache=True)
def longer(array, n_used, length):
    """An array of a new length, with the first `n_used` values copied."""
    grown = np.empty(length, array.dtype)
    grown[:n_used] = array[:n_used]
    return grown


@njit(nogil=True, cache=True)
def places_of(start, neighbours, parents):
    """The places from each node up to its parent, and from the parent down; -1 at the root."""
    ups = np.full(len(parents), -1, np.int32)
    downs = np.full(len(parents), -1, np.int32)
    for node in range(len(parents)):
        parent = parents[node]
        if parent >= 0:
            ups[node] = start[node] + interface_to(start, neighbours, node, parent) - 1
            downs[node] = start[parent] + interface_to(start, neighbours, parent, node) - 1
    return ups, downs


@njit(nogil=True, cache=True)
def backs_of(start, neighbours):
    """The interface by which each place enters the node at its end."""
    backs = np.empty(len(neighbours), np.int32)
    for node in range(len(start) - 1):
        for place in range(start[node], start[node + 1]):
            backs[place] = interface_to(start, neighbours, neighbours[place], node)
    return backs


@njit(nogil=True, cache=True)
def by_number(numbers, n_numbers):
    """The positions of each number in a list: (start, positions), rising within a number."""
    start = np.zeros(n_numbers + 1, np.int64)
    for number in numbers:
        start[number + 1] += 1
    for number in range(n_numbers):
        start[number + 1] += start[number]
    free, positions = start[:-1].copy(), np.empty(len(numbers), np.int64)
    for position in range(len(numbers)):
        positions[free[numbers[position]]] = position
        free[numbers[position]] += 1
    return start, positions


@njit(nogil=True, cache=True)
def spanned(parents, ups, downs, trees, sources, target_start, targets):
    """The copies that bring each notification from its source to its targets on its tree.

    Returns for each copy: notification, place, the previous copy (-1 at the source), hops; and for each target: the
    copy that reaches it (-1 at the source), hops. `parents`, `ups` and `downs` have a row for each tree.

    The path up from the source is marked first. Each target is followed up to a node that a copy has reached, or that
    is on the marked path. In the second case, copies are added along the marked path up to that node.
    """
    n_nodes = parents.shape[1]
    seen_by = np.full(n_nodes, -1, np.int64)
    above = np.full(n_nodes, -1, np.int64)
    reached = np.empty(n_nodes, np.int32)  # the copy that has reached a node
    far = np.empty(n_nodes, np.int32)  # its number of hops
    climbed = np.empty(n_nodes, np.int32)
    of, place = np.empty(4 * n_nodes, np.int32), np.empty(4 * n_nodes, np.int32)
    before, hops = np.empty(4 * n_nodes, np.int32), np.empty(4 * n_nodes, np.int32)
    target_copy, target_hops = np.empty(len(targets), np.int32), np.empty(len(targets), np.int32)
    n_copies = 0
    for row in range(len(sources)):
        if n_copies + n_nodes > len(of):
            length = 2 * len(of)
            of, place = longer(of, n_copies, length), longer(place, n_copies, length)
            before, hops = longer(before, n_copies, length), longer(hops, n_copies, length)
        parent, up, down = parents[trees[row]], ups[trees[row]], downs[trees[row]]
        top = sources[row]
        seen_by[top], reached[top], far[top] = row, -1, 0
        node = top
        while node >= 0:
            above[node] = row
            node = parent[node]
        for i in range(target_start[row], target_start[row + 1]):
            node, n_climbed = targets[i], 0
            while seen_by[node] != row and above[node] != row:
                climbed[n_climbed] = node
                n_climbed += 1
                node = parent[node]
            while seen_by[node] != row:
                of[n_copies], place[n_copies] = row, up[top]
                before[n_copies], hops[n_copies] = reached[top], far[top] + 1
                top = parent[top]
                seen_by[top], reached[top], far[top] = row, n_copies, hops[n_copies]
                n_copies += 1
            for step in range(n_climbed - 1, -1, -1):
                child = climbed[step]
                of[n_copies], place[n_copies] = row, down[child]
                before[n_copies], hops[n_copies] = reached[node], far[node] + 1
                seen_by[child], reached[child], far[child] = row, n_copies, hops[n_copies]
                n_copies += 1
                node = child
            target_copy[i], target_hops[i] = reached[node], far[node]
    some = slice(0, n_copies)
    return of[some], place[some], before[some], hops[some], target_copy, target_hops


@njit(nogil=True, cache=True)
def sums_below(before, counts):
    """For each copy, the sum of the counts of it and its descendants; copies come after their ancestors."""
    sums = counts.copy()
    for copy in range(len(before) - 1, -1, -1):
        if before[copy] >= 0:
            sums[before[copy]] += sums[copy]
    return sums
