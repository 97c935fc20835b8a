"""Trees of requests: minimum spanning trees, contracted; and how many long edges can leave a circle."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy.sparse.csgraph import minimum_spanning_tree

from matchyard import geo
from matchyard.geo.workload import make_requests
from matchyard.kernels.geo.trees import BROADCAST, HEARD, OWN, span_each
from tests.geo.plain_mesh import Points, draw_requests, meshes, reachable_targets

SEEDS = st.integers(0, 10**6)


def distances(points: Points) -> Points:
    found: Points = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    return found


def scipy_length(points: Points) -> float:
    """The length of a minimum spanning tree. SciPy leaves out edges of length 0, which matter not."""
    return float(minimum_spanning_tree(distances(np.unique(points, axis=0))).sum())


@given(meshes(), SEEDS)
def test_a_tree_is_as_short_as_the_one_of_scipy(mesh: geo.Mesh, seed: int) -> None:
    requests = draw_requests(mesh, seed, most=30)
    wanted = reachable_targets(mesh, requests)
    edges = geo.span(mesh, requests)
    for number, source in enumerate(requests.sources.tolist()):
        rows = slice(edges.request_start[number], edges.request_start[number + 1])
        points = mesh.points[[source, *wanted[number]]]
        lengths = np.hypot(*(mesh.points[edges.tails[rows]] - mesh.points[edges.heads[rows]]).T)
        # Contraction replaces edges by others of at most half the range, so longer ones all stay.
        least = minimum_spanning_tree(distances(np.unique(points, axis=0))).data
        assert np.sort(lengths[lengths > 0.5 + 1e-9]) == pytest.approx(
            np.sort(least[least > 0.5 + 1e-9]), rel=1e-9
        )


@given(meshes(), SEEDS)
def test_a_tree_that_is_not_contracted_is_a_minimum_spanning_tree(
    mesh: geo.Mesh, seed: int
) -> None:
    """Prim's algorithm in the kernel, apart from the mesh: half the range is less than any distance."""
    rng = np.random.default_rng(seed)
    points = np.unique(mesh.points, axis=0)[rng.permutation(len(np.unique(mesh.points, axis=0)))]
    points.flags.writeable = False  # as in a mesh
    targets = np.arange(1, len(points), dtype=np.int32)
    start = np.array([0, len(targets)])
    tails, heads, _, _ = span_each(points, np.zeros(1, np.int32), start, targets, 1e-12, False)
    found = np.hypot(*(points[tails] - points[heads]).T).sum()
    assert found == pytest.approx(scipy_length(points), rel=1e-9)


@given(meshes(), SEEDS)
def test_a_tree_leads_from_the_source_to_each_target_once(mesh: geo.Mesh, seed: int) -> None:
    requests = draw_requests(mesh, seed)
    wanted = reachable_targets(mesh, requests)
    for tree in ("mst", "star"):
        edges = geo.span(mesh, requests, tree)
        for number, source in enumerate(requests.sources.tolist()):
            first, stop = edges.request_start[number : number + 2].tolist()
            assert sorted(edges.heads[first:stop].tolist()) == sorted(wanted[number])
            for edge in range(first, stop):
                before = edges.befores[edge]
                assert before < edge
                assert edges.tails[edge] == (source if before < 0 else edges.heads[before])
                assert before < 0 or (before >= first and tree == "mst")


@given(meshes(), SEEDS)
def test_no_grandchild_is_within_half_the_range(mesh: geo.Mesh, seed: int) -> None:
    edges = geo.span(mesh, draw_requests(mesh, seed, most=30))
    for edge, before in enumerate(edges.befores.tolist()):
        if before >= 0:
            away = mesh.points[edges.tails[before]] - mesh.points[edges.heads[edge]]
            assert (away**2).sum() > 0.25


@given(meshes(), SEEDS)
def test_one_broadcast_serves_all_children_within_half_the_range(mesh: geo.Mesh, seed: int) -> None:
    requests = draw_requests(mesh, seed, most=30)
    edges = geo.span(mesh, requests)
    is_near = ((mesh.points[edges.tails] - mesh.points[edges.heads]) ** 2).sum(axis=1) <= 0.25
    np.testing.assert_array_equal(edges.kinds == OWN, ~is_near)
    for number in range(len(requests)):
        rows = slice(edges.request_start[number], edges.request_start[number + 1])
        sends = edges.tails[rows][edges.kinds[rows] == BROADCAST].tolist()
        assert len(set(sends)) == len(sends)
        assert set(edges.tails[rows][edges.kinds[rows] == HEARD].tolist()) <= set(sends)
    assert (geo.span(mesh, requests, "star").kinds == OWN).all()


def test_children_at_exactly_half_the_range_hear_one_broadcast() -> None:
    mesh = geo.from_points([(0, 0), (0.5, 0), (0, 0.5), (-0.5, 0), (0.75, 0)], 1)
    sending = geo.send(mesh, make_requests(mesh, [0], [[1, 2, 3]]))
    assert sending.sent.tolist() == [1, 0, 0, 0, 0]
    assert (sending.work.broadcasts, sending.work.deliveries) == (1, 3)
    star = geo.send(mesh, make_requests(mesh, [0], [[1, 2, 3]]), tree="star")
    assert (star.sent[0], star.work.broadcasts) == (3, 0)


# ------------------------------------------------------- long edges that leave a circle [Lemma 4.5.1]


def rays() -> Points:
    """Eight points at 0.99 and eight at 4.02 from the middle, on the same rays, the eighths of a turn."""
    angles = np.arange(8) * math.pi / 4
    ends = np.column_stack([np.cos(angles), np.sin(angles)])
    return np.concatenate([0.99 * ends, 4.02 * ends])


def n_leaving(points: Points, tails: object, heads: object, radius: float) -> int:
    """How many edges of length 3 radii or more lead out of the circle round the origin."""
    one, other = points[tails], points[heads]  # type: ignore[index]
    is_in = [np.hypot(*ends.T) <= radius for ends in (one, other)]
    return int(((is_in[0] != is_in[1]) & (np.hypot(*(one - other).T) >= 3 * radius)).sum())


def test_eight_long_edges_leave_a_circle_where_the_thesis_says_seven() -> None:
    points = rays()
    tree = minimum_spanning_tree(distances(points)).tocoo()
    assert n_leaving(points, tree.row, tree.col, 1) == 8
    mesh = geo.from_points(points, 3.1)
    assert len(geo.components(mesh)) == 1
    requests = make_requests(mesh, [8], [range(16)])
    edges = geo.span(mesh, requests)
    assert n_leaving(points, edges.tails, edges.heads, 1) == 8
    lengths = np.hypot(*(points[edges.tails] - points[edges.heads]).T)
    assert lengths[lengths >= 3] == pytest.approx([3.03] * 8)


@given(seed=SEEDS, n_inside=st.integers(1, 12), n_outside=st.integers(1, 30))
def test_no_more_than_eight_long_edges_leave_a_circle(
    seed: int, n_inside: int, n_outside: int
) -> None:
    rng = np.random.default_rng(seed)
    n = n_inside + n_outside
    angles = 2 * math.pi * (rng.random(n) if seed % 2 else np.linspace(0, 3, n))
    away = np.concatenate([rng.random(n_inside) * 0.3 + 0.7, 3.7 + 0.6 * rng.random(n_outside)])
    points = away[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    tree = minimum_spanning_tree(distances(points)).tocoo()
    assert n_leaving(points, tree.row, tree.col, 1) <= 8
