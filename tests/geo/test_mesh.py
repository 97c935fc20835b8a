"""Meshes against brute force: who hears whom, who is nearest, what is connected and what is covered."""

from __future__ import annotations

import math
import pickle

import hypothesis.strategies as st
import numpy as np
from hypothesis import given
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from matchyard import geo
from matchyard.kernels.geo.disks import Disks
from tests.geo.plain_mesh import Points, component_of, is_within, meshes, random_points

SEEDS = st.integers(0, 10**6)


def check_rows(disks: Disks, points: Points, reach: float) -> None:
    for node, near in enumerate(is_within(points, reach)):
        found = disks.neighbours[disks.start[node] : disks.start[node + 1]]
        assert found.tolist() == np.flatnonzero(near).tolist()


@given(meshes())
def test_neighbours_are_those_of_brute_force(mesh: geo.Mesh) -> None:
    check_rows(mesh.disks, mesh.points, mesh.r_c)
    check_rows(mesh.disturbed, mesh.points, mesh.r_i)
    assert mesh.degrees.tolist() == is_within(mesh.points, mesh.r_c).sum(axis=1).tolist()


@given(meshes(), SEEDS)
def test_the_nearest_node_is_nearest_also_to_points_far_outside(mesh: geo.Mesh, seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = np.concatenate([rng.normal(0, 3, (20, 2)), rng.normal(0, 900, (20, 2))])
    away = np.hypot(*(places[:, None] - mesh.points[None]).transpose(2, 0, 1))
    found = geo.nearest(mesh, places)
    np.testing.assert_allclose(away[np.arange(40), found], away.min(axis=1), rtol=1e-12)
    component = component_of(mesh)
    wanted = component[rng.integers(0, len(mesh), 40)]
    found = geo.nearest(mesh, places, mesh.component[[component.tolist().index(k) for k in wanted]])
    assert component[found].tolist() == wanted.tolist()
    least = np.where(component[None] == wanted[:, None], away, np.inf).min(axis=1)
    np.testing.assert_allclose(away[np.arange(40), found], least, rtol=1e-12)


@given(meshes())
def test_components_hold_all_nodes_that_reach_each_other(mesh: geo.Mesh) -> None:
    component = component_of(mesh)
    parts = geo.components(mesh)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(mesh)))
    assert len(parts) == component.max() + 1
    assert [len(set(component[part])) for part in parts] == [1] * len(parts)
    sizes = [len(part) for part in parts]
    assert sizes == sorted(sizes, reverse=True)


@given(meshes(), st.sampled_from([(0, 0, 0, 0), (1, 2, 3, 0), (0, 0, 0.5, 0.1)]))
def test_coverage_is_the_largest_distance_of_a_fine_grid(
    mesh: geo.Mesh, wider: tuple[float, ...]
) -> None:
    region = np.array(mesh.region) + np.array([-1, -1, 1, 1]) * wider
    mesh = geo.from_points(mesh.points, 1, region=region)
    xs, ys = np.linspace(region[0], region[2], 60), np.linspace(region[1], region[3], 60)
    grid = np.stack(np.meshgrid(xs, ys), axis=2).reshape(-1, 2)
    on_grid = mesh.tree.query(grid)[0].max()
    slack = math.hypot(xs[1] - xs[0], ys[1] - ys[0]) / 2
    assert on_grid - 1e-9 <= geo.coverage(mesh) <= on_grid + slack + 1e-9


def crosses(one: Points, other: Points) -> bool:
    """Do two segments with four different ends share a point?"""

    def side(a: Points, b: Points, c: Points) -> float:
        return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))

    (a, b), (c, d) = one, other
    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0


@given(meshes(most=40, kinds=[random_points]))
def test_no_two_edges_of_the_faces_cross(mesh: geo.Mesh) -> None:
    rows = np.repeat(np.arange(len(mesh)), np.diff(mesh.faces.start))
    edges = [(a, b) for a, b in zip(rows, mesh.faces.neighbours) if a < b]
    ends = [mesh.points[list(edge)] for edge in edges]
    for i, edge in enumerate(edges):
        for k in range(i):
            assert {*edge} & {*edges[k]} or not crosses(ends[i], ends[k])


def test_faces_leave_out_both_diagonals_of_a_square() -> None:
    """Each corner is on the rim of the disk round the other diagonal; with both, edges would cross."""
    mesh = geo.from_points([(x / 2, y / 2) for x in range(3) for y in range(3)], 1)
    rows = np.repeat(np.arange(9), np.diff(mesh.faces.start))
    away = mesh.points[rows] - mesh.points[mesh.faces.neighbours]
    assert len(away) == 24
    assert (np.hypot(*away.T) == 0.5).all()


@given(meshes())
def test_faces_connect_the_places_that_the_mesh_connects(mesh: geo.Mesh) -> None:
    n, faces, component = len(mesh), mesh.faces, component_of(mesh)
    graph = csr_array((np.ones(len(faces.neighbours)), faces.neighbours, faces.start), (n, n))
    assert (graph != graph.T).nnz == 0
    found = connected_components(graph, directed=False)[1]
    _, firsts, places = np.unique(mesh.points, axis=0, return_index=True, return_inverse=True)
    firsts = firsts[places.ravel()]  # the first node at the place of each node
    assert np.array_equal(
        found[firsts][:, None] == found[firsts][None], component[:, None] == component[None]
    )
    for node in range(n):
        row = slice(faces.start[node], faces.start[node + 1])
        assert node == firsts[node] or not len(faces.neighbours[row])
        assert (np.diff(faces.angles[row]) >= 0).all()
        across, up = (mesh.points[faces.neighbours[row]] - mesh.points[node]).T
        np.testing.assert_allclose(faces.angles[row], np.arctan2(up, across))


def test_a_uniform_mesh_depends_on_its_seed_alone() -> None:
    one, same, other = (geo.uniform(200, 5, 1, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.points, same.points)
    assert (one.points != other.points).any()
    assert (one.region, one.r_i) == ((0, 0, 5, 5), 1)
    assert ((one.points >= 0) & (one.points <= 5)).all()
    drawn = np.random.default_rng(1).random((200, 2)) * 5
    np.testing.assert_array_equal(np.unique(one.points, axis=0), np.unique(drawn, axis=0))


def test_a_mesh_survives_pickling() -> None:
    mesh = geo.from_points([(0, 0), (1, 0), (1, 1)], 1, 2, (0, 0, 3, 3), names="abc")
    again = pickle.loads(pickle.dumps(mesh))
    np.testing.assert_array_equal(again.points, mesh.points)
    assert (again.r_c, again.r_i, again.region) == (1, 2, (0, 0, 3, 3))
    assert (again.names, again.node("c"), again.name(1)) == (("a", "b", "c"), 2, "b")


def test_nodes_without_names_are_called_by_their_numbers() -> None:
    mesh = geo.from_points([(0, 0), (1, 0)], 1)
    assert (mesh.name(1), mesh.node("1"), mesh.node(1)) == ("1", 1, 1)
