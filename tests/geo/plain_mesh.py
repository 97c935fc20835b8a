"""Meshes that are hard on geometry, and plain answers to the questions that the package answers fast."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from matchyard import geo
from matchyard.geo.heat_map import Tree
from matchyard.geo.workload import make_requests

Points = NDArray[np.float64]
RECOVERIES = ("ring", "face")


def random_points(rng: np.random.Generator, n: int) -> Points:
    """A mean degree from nearly none to nearly all."""
    return rng.random((n, 2)) * rng.choice([0.9, 2.0, 3.0, 5.0])


def lattice(rng: np.random.Generator, n: int) -> Points:
    """Distances that are exactly the range, or would be without rounding; some places are taken twice."""
    spacing = rng.choice([0.1, 0.25, 1 / 3, 0.5, 1.0])
    return rng.integers(0, rng.integers(2, 9), (n, 2)) * spacing


def line(rng: np.random.Generator, n: int) -> Points:
    """Nodes on one straight line, at even or random steps."""
    angle = rng.choice([0.0, math.pi / 2, math.pi / 4, 0.3, 2.7])
    steps = rng.integers(0, 40, n) / 10 if rng.random() < 0.5 else rng.random(n) * n / 8
    return np.outer(steps, [math.cos(angle), math.sin(angle)])


def circle(rng: np.random.Generator, n: int) -> Points:
    """Nodes on one circle, and perhaps its centre: every disk through three of them holds all."""
    radius = rng.choice([0.5, 0.6, 1.5])
    angles = 2 * math.pi * rng.integers(0, 36, n) / 36
    points = radius * np.column_stack([np.cos(angles), np.sin(angles)])
    points[: int(rng.random() < 0.5)] = 0.0
    return points


def ring_of_nodes(rng: np.random.Generator, n: int) -> Points:
    """A thin horseshoe: every greedy path across its opening is stuck."""
    angles = rng.random(n) * 1.8 * math.pi
    radius = n / 16 + 0.1 * rng.random(n)
    return np.column_stack([radius * np.cos(angles), radius * np.sin(angles)])


def clumps(rng: np.random.Generator, n: int) -> Points:
    """Several components, each of nodes that may share a place."""
    places = rng.random((3, 2)) * 0.4
    return places[rng.integers(0, 3, n)] + rng.integers(0, 3, (n, 1)) * 4.0


KINDS = (random_points, lattice, line, circle, ring_of_nodes, clumps)


@st.composite
def meshes(draw: Any, most: int = 60, kinds: Any = KINDS, ratios: Any = (1, 2)) -> geo.Mesh:
    """A mesh of few nodes with range 1."""
    kind = draw(st.sampled_from(kinds))
    n = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    return geo.from_points(kind(rng, n), 1, draw(st.sampled_from(ratios)))


def draw_requests(mesh: geo.Mesh, seed: int, n: int = 4, most: int = 9) -> geo.Requests:
    """Requests with up to so many targets, the source perhaps among them."""
    rng = np.random.default_rng(seed)
    targets = [rng.integers(0, len(mesh), rng.integers(0, most + 1)) for _ in range(n)]
    ids = [f"request {seed} {i}" for i in range(n)]
    return make_requests(mesh, rng.integers(0, len(mesh), n), targets, ids)


# ------------------------------------------------------------------------------------ oracles


def is_within(points: Points, reach: float) -> NDArray[np.bool_]:
    """Which pairs of nodes are within a range, no node with itself."""
    away = points[:, None] - points[None]
    return ((away**2).sum(axis=2) <= reach * reach) & ~np.eye(len(points), dtype=bool)


def component_of(mesh: geo.Mesh) -> NDArray[np.int32]:
    """Reachability as SciPy sees it."""
    graph = csr_array(is_within(mesh.points, mesh.r_c))
    found: NDArray[np.int32] = connected_components(graph, directed=False)[1]
    return found


def reachable_targets(mesh: geo.Mesh, requests: geo.Requests) -> list[set[int]]:
    """The targets of each request in the component of its source."""
    component = component_of(mesh)
    return [
        {node for node in requests.targets_of(i).tolist() if component[node] == component[source]}
        for i, source in enumerate(requests.sources.tolist())
    ]


def count_hops(sending: geo.Sending, tree: Tree) -> NDArray[np.int64]:
    """The transmissions of a tree, each hop checked. Broadcasts count once per sender."""
    mesh, requests, scheme = sending.mesh, sending.requests, sending.scheme
    hears, is_near = is_within(mesh.points, mesh.r_c), is_within(mesh.points, mesh.r_c / 2)
    edges = geo.span(mesh, requests.take([requests.number(tree.request)]), scheme.tree)
    sent = np.zeros(len(mesh), np.int64)
    reached, broadcasts = [tree.source], set()
    paths, vias = iter([path.tolist() for path in tree.paths]), iter(tree.vias)
    for tail, head in zip(edges.tails.tolist(), edges.heads.tolist()):
        if tail not in reached:
            continue
        path, is_lost = next(paths), False
        assert path[0] == tail
        if not scheme.rule.is_straight and not is_near[tail, head]:
            is_lost = path[-1] != next(vias)
            rest = path[-1:] if is_lost else next(paths)
            assert rest[0] == path[-1]
            path += rest[1:]
        assert all(hears[one, other] for one, other in pairwise(path))
        reached += [head] if path[-1] == head and not is_lost else []
        if is_near[tail, head] and scheme.tree == "mst":
            assert path == [tail, head]
            broadcasts.add(tail)
        else:
            np.add.at(sent, path[:-1], 1)
    assert (next(paths, None), next(vias, None)) == (None, None)
    assert reached[1:] == tree.targets
    sent[list(broadcasts)] += 1
    return sent
