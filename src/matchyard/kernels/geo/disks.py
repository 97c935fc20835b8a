"""Unit-disk graphs as arrays, and their Gabriel graphs, which have no crossing edges."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray


class Disks(NamedTuple):
    """Nodes in the plane and the nodes within reach of each."""

    points: NDArray[np.float64]  # [n, 2] positions
    start: NDArray[np.int64]  # [n + 1] offsets into neighbours
    neighbours: NDArray[np.int32]  # nodes at a distance of at most `reach`, by number
    reach: float


class Faces(NamedTuple):
    """The Gabriel graph: an edge stays if no other node lies in the disk whose diameter is the edge.

    No two edges cross, and connected nodes stay connected. Of several nodes at the same point, only the
    first has edges.
    """

    start: NDArray[np.int64]  # [n + 1] offsets into the others; no rows if faces are not needed
    neighbours: NDArray[np.int32]  # sorted by angle, counterclockwise
    angles: NDArray[np.float64]  # of the edges, from -π to π


@njit(nogil=True, cache=True, forceinline=True)
def square_between(points, one, other):
    """The squared distance between two nodes; all comparisons with a range use this function."""
    across, up = points[one, 0] - points[other, 0], points[one, 1] - points[other, 1]
    return across * across + up * up


@njit(nogil=True, cache=True)
def rows_of_pairs(points, pairs, reach):
    """The rows of a graph from pairs, without pairs beyond `reach`: (start, neighbours)."""
    n_nodes, limit = len(points), reach * reach
    counts = np.zeros(n_nodes + 1, np.int64)
    for pair in range(len(pairs)):
        one, other = pairs[pair, 0], pairs[pair, 1]
        if square_between(points, one, other) <= limit:
            counts[one + 1] += 1
            counts[other + 1] += 1
    start = np.cumsum(counts)
    places = start[:-1].copy()
    neighbours = np.empty(start[n_nodes], np.int32)
    for pair in range(len(pairs)):
        one, other = pairs[pair, 0], pairs[pair, 1]
        if square_between(points, one, other) <= limit:
            neighbours[places[one]] = other
            neighbours[places[other]] = one
            places[one] += 1
            places[other] += 1
    for node in range(n_nodes):
        neighbours[start[node] : start[node + 1]].sort()
    return start, neighbours


@njit(nogil=True, cache=True)
def faces_of(points, start, neighbours):
    """The Gabriel graph of a unit-disk graph: (start, neighbours, angles)."""
    n_nodes = len(points)
    face_start = np.zeros(n_nodes + 1, np.int64)
    kept = np.empty(len(neighbours), np.int32)
    angles = np.empty(len(neighbours), np.float64)
    n_kept = 0
    is_first = np.empty(n_nodes, np.bool_)
    for node in range(n_nodes):
        is_first[node] = first_at_place(points, start, neighbours, node) == node
    for node in range(n_nodes):
        first = n_kept
        if is_first[node]:
            for position in range(start[node], start[node + 1]):
                other = neighbours[position]
                if is_first[other] and _is_gabriel(points, start, neighbours, node, other):
                    across = points[other, 0] - points[node, 0]
                    kept[n_kept] = other
                    angles[n_kept] = math.atan2(points[other, 1] - points[node, 1], across)
                    n_kept += 1
        order = np.argsort(angles[first:n_kept])
        kept[first:n_kept] = kept[first:n_kept][order]
        angles[first:n_kept] = angles[first:n_kept][order]
        face_start[node + 1] = n_kept
    return face_start, kept[:n_kept].copy(), angles[:n_kept].copy()


@njit(nogil=True, cache=True)
def first_at_place(points, start, neighbours, node):
    """The node of least number at the same point as a node."""
    for position in range(start[node], start[node + 1]):
        other = neighbours[position]
        if other < node and square_between(points, node, other) == 0.0:
            return np.int64(other)
    return np.int64(node)


@njit(nogil=True, cache=True)
def _is_gabriel(points, start, neighbours, node, other):
    if square_between(points, node, other) == 0.0:
        return False
    for position in range(start[node], start[node + 1]):
        third = neighbours[position]
        if third == other:
            continue
        across = (points[third, 0] - points[node, 0]) * (points[third, 0] - points[other, 0])
        up = (points[third, 1] - points[node, 1]) * (points[third, 1] - points[other, 1])
        if across + up > 0.0:  # the angle to the edge is acute: outside the disk
            continue
        if square_between(points, node, third) > 0.0 and square_between(points, other, third) > 0.0:
            return False
    return True


@njit(nogil=True, cache=True)
def sum_within(sent, start, neighbours):
    """For each node, the sum of its own value and those of its neighbours [thesis (4.1)]."""
    total = sent.copy()
    for node in range(len(sent)):
        for position in range(start[node], start[node + 1]):
            total[node] += sent[neighbours[position]]
    return total
