"""Distances between all pairs of nodes, on a network and on its trees, 64 sources at a time.

The distances from 64 sources to a node lie side by side, a byte each, so that few instructions process
all of them.
"""

import numpy as np
from numba import njit

LANES = 64
_ONE = np.uint64(1)


@njit(nogil=True, cache=True)
def links_between(start, neighbours, sources, distances):
    """Write the fewest links from each source to each node: [n_nodes, LANES]. True if all are reached.

    A breadth-first search runs for all sources at once, with a bit for each. A distance is the number of
    levels at which the node did not have the bit of the source yet.
    """
    n_nodes = len(start) - 1
    seen = np.zeros(n_nodes, np.uint64)
    fresh = np.zeros(n_nodes, np.uint64)  # reached at the present level
    following = np.zeros(n_nodes, np.uint64)
    for lane in range(len(sources)):
        seen[sources[lane]] |= _ONE << np.uint64(lane)
    fresh[:] = seen
    distances[:, :] = 0
    while True:
        is_more, is_missing = False, False
        for node in range(n_nodes):
            missing = ~seen[node]
            arriving = np.uint64(0)
            for position in range(start[node], start[node + 1]):
                arriving |= fresh[neighbours[position]]
            following[node] = arriving & missing
            is_more |= following[node] != 0
        if not is_more:
            break
        for node in range(n_nodes):
            missing = ~seen[node]
            row = distances[node]
            for lane in range(LANES):
                row[lane] += (missing >> np.uint64(lane)) & _ONE
            seen[node] |= following[node]
        fresh, following = following, fresh
    full = ~np.uint64(0) >> np.uint64(LANES - len(sources))
    for node in range(n_nodes):
        is_missing |= seen[node] & full != full
    return not is_missing


@njit(nogil=True, cache=True)
def add_tree(parents, depths, order, sources, below, distances, sums):
    """Add the links between each source and each node on a tree to `sums`: [n_nodes, LANES].

    A step down to a child leads away from every source that is not below the child. `below` is all 0
    before and after the call. `distances` is scratch space of the size of `sums`.
    """
    for lane in range(len(sources)):
        node = sources[lane]
        while node >= 0:
            below[node] |= _ONE << np.uint64(lane)
            node = parents[node]
    root = distances[order[0]]
    for lane in range(len(sources)):
        root[lane] = depths[sources[lane]]
    for node in order:
        row, total = distances[node], sums[node]
        if parents[node] >= 0:
            above = distances[parents[node]]
            for lane in range(LANES):
                row[lane] = above[lane] + 1
            nearer = below[node]
            while nearer:
                lane = _lowest(nearer)
                row[lane] -= 2
                nearer &= nearer - _ONE
        for lane in range(LANES):
            total[lane] += row[lane]
        below[node] = 0


@njit(nogil=True, cache=True, forceinline=True)
def _lowest(bits):
    """The position of the lowest set bit."""
    lane = 0
    while not bits >> np.uint64(lane) & _ONE:
        lane += 1
    return lane


@njit(nogil=True, cache=True)
def tally(sources, distances, sums, counts):
    """Count pairs by distance and sum, each pair once: `counts[distance, sum]`."""
    for node in range(len(distances)):
        row, total = distances[node], sums[node]
        for lane in range(len(sources)):
            if sources[lane] < node:
                counts[row[lane], total[lane]] += 1
