"""Multicast trees in the plane: spanning the nodes of requests, and sending messages along edges."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.geo.disks import square_between
from matchyard.kernels.geo.paths import travel
from matchyard.kernels.hashing import mix64
from matchyard.kernels.random import draw, fraction

OWN, BROADCAST, HEARD = range(3)  # a separate message; a broadcast; another node that hears it
STRAIGHT, ANGLES, ARC = range(3)  # kinds of rules for intermediate points
NEAREST, CLAMP, REDRAW = range(3)  # treatments of points outside the region
_DRAWS = 64  # the most draws of a point that falls outside


class Edges(NamedTuple):
    """The edges of the trees of all requests; within a request, parents come first."""

    request_start: NDArray[np.int64]  # [n_requests + 1] offsets into the others
    tails: NDArray[np.int32]  # the sending node
    heads: NDArray[np.int32]  # the receiving node; each target is the head of one edge
    befores: NDArray[np.int64]  # the edge that leads to the tail; -1 at the source
    kinds: NDArray[np.int8]  # OWN, BROADCAST or HEARD


@njit(nogil=True, cache=True)
def span_each(points, sources, target_start, targets, reach, is_star):
    """The tree of each request: (tails, heads, befores, kinds), one edge per target."""
    n_edges = len(targets)
    tails, heads = np.empty(n_edges, np.int32), np.empty(n_edges, np.int32)
    befores, kinds = np.full(n_edges, -1, np.int64), np.zeros(n_edges, np.int8)
    for request in range(len(sources)):
        first, stop = target_start[request], target_start[request + 1]
        nodes = np.empty(stop - first + 1, np.int32)
        nodes[0] = sources[request]
        nodes[1:] = targets[first:stop]
        if is_star:
            order, parents = np.arange(len(nodes)), np.zeros(len(nodes), np.int64)
        else:
            order, parents = _span(points, nodes)
            _contract(points, nodes, order, parents, reach)
        edge_to = np.full(len(nodes), -1, np.int64)
        n_done, half, hears = first, reach / 2, np.zeros(len(nodes), np.bool_)
        for node in order[1:]:
            tail = parents[node]
            tails[n_done], heads[n_done], befores[n_done] = nodes[tail], nodes[node], edge_to[tail]
            if not is_star and square_between(points, nodes[tail], nodes[node]) <= half * half:
                kinds[n_done] = HEARD if hears[tail] else BROADCAST
                hears[tail] = True
            edge_to[node] = n_done
            n_done += 1
    return tails, heads, befores, kinds


@njit(nogil=True, cache=True)
def _span(points, nodes):
    """The Euclidean minimum spanning tree of a few nodes, from the first: (order, parents)."""
    n = len(nodes)
    order, parents = np.zeros(n, np.int64), np.zeros(n, np.int64)
    squares, is_in = np.full(n, np.inf), np.zeros(n, np.bool_)
    last = 0
    for k in range(n):
        order[k] = last
        is_in[last] = True
        least, nearest = np.inf, -1
        for other in range(n):
            if is_in[other]:
                continue
            square = square_between(points, nodes[last], nodes[other])
            if square < squares[other]:
                squares[other], parents[other] = square, last
            if squares[other] < least:
                least, nearest = squares[other], other
        last = nearest
    return order, parents


@njit(nogil=True, cache=True)
def _contract(points, nodes, order, parents, reach):
    """Replace a node's parent by its grandparent while that is within half the range [thesis §4.5].
    Parents come first in `order`, so one pass is enough."""
    half = reach / 2
    for node in order[1:]:
        parent = parents[node]
        while parent != 0:
            grandparent = parents[parent]
            if square_between(points, nodes[grandparent], nodes[node]) > half * half:
                break
            parent = grandparent
        parents[node] = parent


# ------------------------------------------------------------------------ intermediate points


@njit(nogil=True, cache=True)
def coins_of(seed, run, request, head):
    """The seed of all random numbers of one edge, independent of other edges, requests and runs."""
    return mix64(draw(seed, request, run) ^ mix64(np.uint64(head) + np.uint64(1)))


@njit(nogil=True, cache=True)
def coins_of_each(seed, run, keys, edges):
    """The seeds of all edges; `keys` has one key per request."""
    coins = np.empty(len(edges.heads), np.uint64)
    for request in range(len(keys)):
        for edge in range(edges.request_start[request], edges.request_start[request + 1]):
            coins[edge] = coins_of(seed, run, keys[request], edges.heads[edge])
    return coins


@njit(nogil=True, cache=True)
def turn(here, there, kind, value, arc, first, second, third):
    """An intermediate point from three fractions: (x, y, first angle, second angle) [thesis §4.5, §4.7.1]."""
    across, up = there[0] - here[0], there[1] - here[1]
    if kind == ANGLES:
        alpha, beta = value * first, value * second
        both = math.sin(alpha + beta)
        share = math.sin(beta) / both if both > 0.0 else 0.5
        angle = alpha if third < 0.5 else -alpha
    else:
        alpha, beta, share = arc * (2.0 * first - 1.0), 0.0, value
        angle = alpha
    cosine, sine = share * math.cos(angle), share * math.sin(angle)
    x, y = here[0] + cosine * across - sine * up, here[1] + sine * across + cosine * up
    return x, y, alpha, beta


@njit(nogil=True, cache=True)
def draw_points(points, tails, heads, coins, rule, region, outside):
    """An intermediate point for each edge; `rule` is (kind, value, arc), angles in radians."""
    kind, value, arc = rule
    drawn = np.empty((len(tails), 2))
    for edge in range(len(tails)):
        here, there = points[tails[edge]], points[heads[edge]]
        for again in range(_DRAWS if outside == REDRAW else 1):
            first = fraction(draw(coins[edge], again, 2))
            second = fraction(draw(coins[edge], again, 3))
            third = fraction(draw(coins[edge], again, 4))
            x, y, _, _ = turn(here, there, kind, value, arc, first, second, third)
            if region[0] <= x <= region[2] and region[1] <= y <= region[3]:
                break
        if outside != NEAREST:
            x = min(max(x, region[0]), region[2])
            y = min(max(y, region[1]), region[3])
        drawn[edge] = x, y
    return drawn


# ------------------------------------------------------------------------------- sending


@njit(nogil=True, cache=True)
def carry(disks, faces, space, way, edges, vias, coins, sent):
    """Send the messages of one run along all edges, through `vias` (-1: straight).

    Adds transmissions to `sent`. Returns (arrived, transmissions, broadcasts): whether a message reached
    the head of each edge, and the number of transmissions, of which some are broadcasts.
    """
    arrived = np.zeros(len(edges.heads), np.bool_)
    n_transmissions = n_broadcasts = 0
    path = np.empty(256, np.int32)
    for edge in range(len(edges.heads)):
        if edges.befores[edge] >= 0 and not arrived[edges.befores[edge]]:
            continue
        tail, head = np.int64(edges.tails[edge]), np.int64(edges.heads[edge])
        if edges.kinds[edge] != OWN:
            arrived[edge] = True
            if edges.kinds[edge] == BROADCAST:
                sent[tail] += 1
                n_transmissions += 1
                n_broadcasts += 1
            continue
        arrives, via = True, np.int64(vias[edge])
        if via >= 0:
            path, n, arrives = travel(disks, faces, space, way, tail, via, coins[edge], path)
            n_transmissions += _count(path, n, sent)
            tail = via
        if arrives:
            again = mix64(coins[edge])
            path, n, arrives = travel(disks, faces, space, way, tail, head, again, path)
            n_transmissions += _count(path, n, sent)
        arrived[edge] = arrives
    return arrived, n_transmissions, n_broadcasts


@njit(nogil=True, cache=True)
def _count(path, n, sent):
    """Add a transmission for each node of a path but the last; return their number."""
    for k in range(n - 1):
        sent[path[k]] += 1
    return n - 1
