"""Paths through a unit-disk graph: greedy paths with recovery from dead ends, and shortest paths."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.geo.disks import first_at_place, square_between
from matchyard.kernels.random import below, draw

GRD, GSP, DSP, GRD_RND_1, GRD_RND_2 = range(5)
NO_RECOVERY, RING, FACE = range(3)
FIRST, RANDOM = range(2)  # the choice among several paths with fewest hops
_FAR = np.iinfo(np.int32).max


class Space(NamedTuple):
    """Scratch space of searches; an element is valid if its mark is the number of the present search."""

    marks: NDArray[np.int32]  # [n] the number of the last search that saw a node
    befores: NDArray[np.int32]  # [n] the node before it on the path
    hops: NDArray[np.int32]  # [n]
    lengths: NDArray[np.float64]  # [n]
    queue: NDArray[np.int32]  # [n]
    number: NDArray[np.int32]  # [1] the number of the present search
    work: NDArray[np.int64]  # [2] counters, by the names below


RECOVERIES, RING_NODES = range(2)


def make_space(n_nodes: int) -> Space:
    """Scratch space of searches among `n_nodes` nodes."""
    marks, befores, hops, queue = (np.zeros(n_nodes, np.int32) for _ in range(4))
    number, work = np.zeros(1, np.int32), np.zeros(2, np.int64)
    return Space(marks, befores, hops, np.zeros(n_nodes), queue, number, work)


@njit(nogil=True, cache=True)
def travel(disks, faces, space, way, source, target, coins, path):
    """The path from one node to another: (path, number of its nodes, whether it arrives).

    `way` is (routing, recovery, ties); `coins` is the seed of the random choices of this path. `path` is a
    buffer, which is replaced if it is too short. The two nodes are in one component.
    """
    routing, recovery, ties = way
    path = _with_room(path, 0)
    path[0] = source
    if source == target:
        return path, 1, True
    if routing == GSP:
        n = _shortest(disks, space, source, target)
        path = _walk_back(space, target, n, path)
        return path, _without_middles(disks, path, n), True
    if routing == DSP:
        path, n, arrives = _go_greedily(
            disks, faces, space, GRD, NO_RECOVERY, source, target, coins, path
        )
        n = _fewest_hops(disks, space, source, target, n - 1 if arrives else _FAR)
        if ties == RANDOM:
            return _walk_back_by_chance(disks, space, target, n, coins, path), n, True
        return _walk_back(space, target, n, path), n, True
    return _go_greedily(disks, faces, space, routing, recovery, source, target, coins, path)


# ------------------------------------------------------------------------------------- greedy


@njit(nogil=True, cache=True)
def _go_greedily(disks, faces, space, routing, recovery, source, target, coins, path):
    here, n = np.int64(source), 1
    while here != target:
        there = _next_hop(disks, routing, here, target, coins, n)
        if there >= 0:
            path = _with_room(path, n)
            path[n] = there
            n += 1
        elif recovery == NO_RECOVERY:
            return path, n, False
        else:
            space.work[RECOVERIES] += 1
            before = n
            if recovery == FACE:
                path, n = _round_a_face(disks, faces, here, target, path, n)
            if n == before:
                path, n = _through_a_ring(disks, space, here, target, path, n)
            if n == before:
                return path, n, False
        here = np.int64(path[n - 1])
    return path, n, True


@njit(nogil=True, cache=True)
def _next_hop(disks, routing, here, target, coins, hop):
    """The neighbour that gets the message next; -1 if no neighbour is nearer to the target."""
    points, start, neighbours = disks.points, disks.start, disks.neighbours
    least, best = square_between(points, here, target), np.int64(-1)
    distance = math.sqrt(least)
    for position in range(start[here], start[here + 1]):
        other = neighbours[position]
        square = square_between(points, other, target)
        if square < least or other == target:
            least, best = square, np.int64(other)
            if other == target:
                break  # another node may be at the same point
    if best < 0 or routing == GRD or (routing == GRD_RND_2 and best == target):
        return best
    n_chosen = 0
    for position in range(start[here], start[here + 1]):
        if _is_candidate(disks, routing, neighbours[position], target, best, distance):
            n_chosen += 1
    left = below(draw(coins, hop, 0), n_chosen) if n_chosen else -1
    for position in range(start[here], start[here + 1]):
        if left >= 0 and _is_candidate(
            disks, routing, neighbours[position], target, best, distance
        ):
            if left == 0:
                return np.int64(neighbours[position])
            left -= 1
    return best


@njit(nogil=True, cache=True)
def _is_candidate(disks, routing, node, target, best, distance):
    left = math.sqrt(square_between(disks.points, node, target))
    if routing == GRD_RND_1:
        return distance - left >= disks.reach / 2
    half = disks.reach / 2
    return left < distance and square_between(disks.points, node, best) <= half * half


# ----------------------------------------------------------------------- out of dead ends


@njit(nogil=True, cache=True)
def _through_a_ring(disks, space, here, target, path, n):
    """Append the path with fewest hops to a node that is nearer to the target than `here`."""
    start, neighbours, marks = disks.start, disks.neighbours, space.marks
    limit = square_between(disks.points, here, target)
    mark = _begin(space)
    marks[here], space.hops[here], space.queue[0] = mark, 0, here
    n_queued, n_taken = 1, 0
    while n_taken < n_queued:
        node = space.queue[n_taken]
        n_taken += 1
        space.work[RING_NODES] += 1
        for position in range(start[node], start[node + 1]):
            other = neighbours[position]
            if marks[other] == mark:
                continue
            marks[other], space.befores[other] = mark, node
            space.hops[other] = space.hops[node] + 1
            if square_between(disks.points, other, target) < limit or other == target:
                n_hops = space.hops[other]
                path = _with_room(path, n + n_hops)
                for k in range(n_hops):
                    path[n + n_hops - 1 - k] = other
                    other = space.befores[other]
                return path, n + n_hops
            space.queue[n_queued] = other
            n_queued += 1
    return path, n


@njit(nogil=True, cache=True)
def _round_a_face(disks, faces, here, target, path, n):
    """Append the path round the face towards the target by the right-hand rule, up to a nearer node.

    In a Gabriel graph, the first face always has such a node [Frey and Stojmenovic, MobiCom 2006]. Rounding
    errors in angles may prevent this; then nothing is appended.
    """
    points, first_n = disks.points, n
    limit = square_between(points, here, target)
    node = first_at_place(points, disks.start, disks.neighbours, here)
    if node != here:
        path = _with_room(path, n)
        path[n] = node
        n += 1
    begin, end = faces.start[node], faces.start[node + 1]
    if begin == end:
        return path, first_n
    angle = math.atan2(points[target, 1] - points[node, 1], points[target, 0] - points[node, 0])
    edge = begin
    while edge < end and faces.angles[edge] <= angle:
        edge += 1
    edge = begin if edge == end else edge
    for _ in range(2 * len(faces.neighbours)):
        before, node = node, np.int64(faces.neighbours[edge])
        path = _with_room(path, n)
        path[n] = node
        n += 1
        if square_between(points, node, target) < limit or node == target:
            return path, n
        begin, end = faces.start[node], faces.start[node + 1]
        edge = begin
        while edge < end and faces.neighbours[edge] != before:
            edge += 1
        edge = begin if edge + 1 >= end else edge + 1
    return path, first_n


# ------------------------------------------------------------------------- shortest paths


@njit(nogil=True, cache=True)
def _shortest(disks, space, source, target):
    """Search the shortest path by A* with straight-line distances; return its number of nodes."""
    points, start, neighbours = disks.points, disks.start, disks.neighbours
    marks, lengths, befores = space.marks, space.lengths, space.befores
    mark = _begin(space)
    marks[source], lengths[source] = mark, 0.0
    heap = [(math.sqrt(square_between(points, source, target)), 0.0, np.int64(source))]
    while len(heap) > 0:
        _, length, node = heappop(heap)
        if node == target:
            break
        if length > lengths[node]:
            continue  # a shorter path was found meanwhile
        for position in range(start[node], start[node + 1]):
            other = neighbours[position]
            through = length + math.sqrt(square_between(points, node, other))
            if marks[other] == mark and through >= lengths[other]:
                continue
            marks[other], lengths[other] = mark, through
            befores[other] = node
            left = math.sqrt(square_between(points, other, target))
            heappush(heap, (through + left, through, np.int64(other)))
    # Rounding may shorten the path to a node after its neighbours were seen, so count nodes backwards.
    n, node = 1, np.int64(target)
    while node != source:
        n, node = n + 1, np.int64(befores[node])
    return n


@njit(nogil=True, cache=True)
def _without_middles(disks, path, n):
    """Drop the node between two nodes that hear each other; on a shortest path it lies on their straight line.
    The length stays the same, and a disk of diameter `reach` then contains at most two nodes."""
    limit, kept = disks.reach * disks.reach, 1
    for i in range(1, n - 1):
        if square_between(disks.points, path[kept - 1], path[i + 1]) > limit:
            path[kept] = path[i]
            kept += 1
    if n > 1:
        path[kept] = path[n - 1]
        kept += 1
    return kept


@njit(nogil=True, cache=True)
def _fewest_hops(disks, space, source, target, most):
    """Search breadth-first for a path with fewest hops, at most `most`; return its number of nodes.
    Nodes too far from the target for the hops that are left are skipped."""
    start, neighbours, marks, hops = disks.start, disks.neighbours, space.marks, space.hops
    mark = _begin(space)
    marks[source], hops[source], space.queue[0] = mark, 0, source
    n_queued, n_taken = 1, 0
    while n_taken < n_queued:
        node = space.queue[n_taken]
        n_taken += 1
        if marks[target] == mark:
            break  # all nodes with fewer hops are marked
        left = (most - hops[node] - 1) * disks.reach
        limit = left * left * (1 + 1e-9)
        for position in range(start[node], start[node + 1]):
            other = neighbours[position]
            if marks[other] == mark:
                continue
            if square_between(disks.points, other, target) > limit:
                continue
            marks[other], space.befores[other], hops[other] = mark, node, hops[node] + 1
            space.queue[n_queued] = other
            n_queued += 1
    return hops[target] + 1


@njit(nogil=True, cache=True)
def _walk_back(space, target, n, path):
    path = _with_room(path, n)
    node = target
    for k in range(n - 1, -1, -1):
        path[k] = node
        if k > 0:
            node = space.befores[node]
    return path


@njit(nogil=True, cache=True)
def _walk_back_by_chance(disks, space, target, n, coins, path):
    """Walk back to the source, choosing uniformly among the possible previous nodes."""
    path = _with_room(path, n)
    node, mark = np.int64(target), space.number[0]
    path[n - 1] = node
    for k in range(n - 2, -1, -1):
        n_before = 0
        for position in range(disks.start[node], disks.start[node + 1]):
            other = disks.neighbours[position]
            n_before += space.marks[other] == mark and space.hops[other] == k
        left = below(draw(coins, k, 1), n_before)
        for position in range(disks.start[node], disks.start[node + 1]):
            other = disks.neighbours[position]
            if space.marks[other] == mark and space.hops[other] == k:
                if left == 0:
                    node = np.int64(other)
                    break
                left -= 1
        path[k] = node
    return path


@njit(nogil=True, cache=True)
def _begin(space):
    """Begin a search and return its number, which invalidates all earlier marks."""
    if space.number[0] == _FAR:
        space.marks[:] = 0
        space.number[0] = 0
    space.number[0] += 1
    return space.number[0]


@njit(nogil=True, cache=True)
def _with_room(path, position):
    """The buffer, or a longer copy, in which this position exists."""
    if position < len(path):
        return path
    longer = np.empty(2 * position + 16, np.int32)
    longer[: len(path)] = path
    return longer


# ------------------------------------------------------------------------- many at a time


@njit(nogil=True, cache=True)
def travel_each(disks, faces, space, way, sources, targets, coins):
    """The paths of many pairs: (start, nodes, whether each arrives, recoveries of each)."""
    start = np.zeros(len(sources) + 1, np.int64)
    arrives = np.zeros(len(sources), np.bool_)
    recoveries = np.zeros(len(sources), np.int32)
    nodes = np.empty(64 * len(sources) + 64, np.int32)
    path = np.empty(256, np.int32)
    for i in range(len(sources)):
        before = space.work[RECOVERIES]
        path, n, arrives[i] = travel(
            disks, faces, space, way, sources[i], targets[i], coins[i], path
        )
        recoveries[i] = space.work[RECOVERIES] - before
        start[i + 1] = start[i] + n
        nodes = _with_room(nodes, start[i + 1])
        nodes[start[i] : start[i + 1]] = path[:n]
    return start, nodes[: start[len(sources)]].copy(), arrives, recoveries
