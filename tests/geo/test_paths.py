"""Paths against SciPy, and what is measured on them against plain Python."""

from __future__ import annotations

import itertools
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from matchyard import geo
from tests.geo.plain_mesh import KINDS, Points, is_within, meshes, random_points

SEEDS = st.integers(0, 10**6)


def all_pairs(mesh: geo.Mesh, routing: str, **more: str) -> tuple[geo.Paths, list[tuple[int, int]]]:
    """Paths between all pairs of nodes, or a few hundred of them."""
    pairs = list(itertools.product(range(len(mesh)), repeat=2))
    pairs = pairs[:: max(1, len(pairs) // 300)]
    return geo.route(mesh, [a for a, _ in pairs], [b for _, b in pairs], routing, **more), pairs


def lengths(mesh: geo.Mesh, path: np.ndarray) -> Points:  # type: ignore[type-arg]
    return np.hypot(*np.diff(mesh.points[path], axis=0).T)


def check_hops(mesh: geo.Mesh, paths: geo.Paths, pairs: list[tuple[int, int]]) -> None:
    hears = is_within(mesh.points, mesh.r_c)
    for number, (source, target) in enumerate(pairs):
        path = paths[number].tolist()
        assert path[0] == source
        assert not paths.arrives[number] or path[-1] == target
        assert all(hears[one, other] for one, other in itertools.pairwise(path))


@given(meshes())
def test_shortest_paths_are_as_long_as_those_of_scipy(mesh: geo.Mesh) -> None:
    away = np.hypot(*(mesh.points[:, None] - mesh.points[None]).transpose(2, 0, 1))
    away[away == 0] = 1e-30  # SciPy has no edges of length 0
    least = dijkstra(csr_array(np.where(is_within(mesh.points, 1), away, 0)))
    paths, pairs = all_pairs(mesh, "gsp")
    check_hops(mesh, paths, pairs)
    for number, (source, target) in enumerate(pairs):
        assert paths.arrives[number] == np.isfinite(least[source, target])
        if paths.arrives[number]:
            found = lengths(mesh, paths[number]).sum()
            assert found == pytest.approx(least[source, target], rel=1e-9, abs=1e-20)
        else:
            assert paths[number].tolist() == [source]


@pytest.mark.parametrize("ties", ["first", "random"])
@given(mesh=meshes())
def test_paths_of_fewest_hops_have_as_few_as_those_of_scipy(ties: str, mesh: geo.Mesh) -> None:
    least = dijkstra(csr_array(is_within(mesh.points, 1)), unweighted=True)
    paths, pairs = all_pairs(mesh, "dsp", ties=ties)
    check_hops(mesh, paths, pairs)
    for number, (source, target) in enumerate(pairs):
        assert paths.arrives[number] == np.isfinite(least[source, target])
        if paths.arrives[number]:
            assert len(paths[number]) - 1 == least[source, target]


def test_random_ties_take_every_path_of_fewest_hops() -> None:
    middle = [(1.0, y / 10) for y in range(-3, 4)]
    mesh = geo.from_points([(0.1, 0), *middle, (1.9, 0)], 1)
    taken = [geo.route(mesh, [0], [8], "dsp", ties="random", seed=s)[0][1] for s in range(300)]
    counts = np.bincount(taken, minlength=9)[1:8]
    assert counts.min() > 15  # 43 are expected of each
    first = {geo.route(mesh, [0], [8], "dsp", seed=seed)[0][1] for seed in range(9)}
    assert len(first) == 1


@given(meshes())
def test_greedy_paths_go_to_the_neighbour_nearest_to_the_target(mesh: geo.Mesh) -> None:
    paths, pairs = all_pairs(mesh, "grd", recovery="none")
    check_hops(mesh, paths, pairs)
    for number, (_, target) in enumerate(pairs):
        left = ((mesh.points - mesh.points[target]) ** 2).sum(axis=1)
        path = paths[number]
        for here, there in itertools.pairwise(path.tolist()):
            row = mesh.disks.neighbours[mesh.disks.start[here] : mesh.disks.start[here + 1]]
            assert left[there] == left[row].min()
            assert there == target or left[there] < left[here]
        assert paths.arrives[number] == (path[-1] == target)


@pytest.mark.parametrize("routing", ["grdrnd1", "grdrnd2"])
@given(mesh=meshes(), seed=SEEDS)
def test_random_greedy_hops_are_within_their_bounds(
    routing: str, mesh: geo.Mesh, seed: int
) -> None:
    pairs = list(itertools.product(range(len(mesh)), repeat=2))[:: max(1, len(mesh) // 3)]
    sources, targets = [a for a, _ in pairs], [b for _, b in pairs]
    paths = geo.route(mesh, sources, targets, routing, "none", seed=seed)
    check_hops(mesh, paths, pairs)
    for number, (_, target) in enumerate(pairs):
        left = np.sqrt(((mesh.points - mesh.points[target]) ** 2).sum(axis=1))
        for here, there in itertools.pairwise(paths[number].tolist()):
            row = mesh.disks.neighbours[mesh.disks.start[here] : mesh.disks.start[here + 1]]
            least = left[row].min()
            if routing == "grdrnd1":
                bold = row[left[here] - left[row] >= 0.5]
                assert there in bold or (not len(bold) and left[there] == least)
            elif there != target:
                assert left[there] < left[here]
                best = mesh.points[row[left[row] <= least + 1e-12]]  # rounding may choose any
                assert np.hypot(*(best - mesh.points[there]).T).min() <= 0.5 + 1e-12


# ----------------------------------------------------------------------------------- measures


def fullest(points: Points, diameter: float) -> int:
    """The most of some points in a disk: of those through two of them, and those at one place."""
    most = max(int((points == one).all(axis=1).sum()) for one in points)
    for one, other in itertools.permutations(points, 2):
        half, away = (other - one) / 2, math.dist(one, other)
        if 0 < away <= diameter:
            off = math.sqrt(max(0.0, (diameter / away) ** 2 - 1))
            centre = one + half + off * np.array([-half[1], half[0]])
            inside = np.hypot(*(points - centre).T) <= diameter / 2 * (1 + 1e-9)
            most = max(most, int(inside.sum()))
    return most


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("routing", "recovery"), [("grd", "none"), ("gsp", "ring"), ("dsp", "ring")]
)
@given(data=st.data())
def test_no_disk_holds_three_nodes_of_a_plain_path(
    routing: str, recovery: str, kind: object, data: st.DataObject
) -> None:
    mesh = data.draw(meshes(kinds=[kind]))
    paths, _ = all_pairs(mesh, routing, recovery=recovery)
    assert geo.sparsity(mesh, paths).max() <= 2


@given(meshes(most=30), SEEDS)
def test_sparsity_is_that_of_the_fullest_disk(mesh: geo.Mesh, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_hops = rng.integers(1, 12, 5)
    walks = [rng.integers(0, len(mesh), n) for n in n_hops]  # any nodes; some more than once
    start = np.append(0, np.cumsum(n_hops))
    nodes = np.concatenate(walks).astype(np.int32)
    paths = geo.Paths(start, nodes, np.ones(5, np.bool_), np.zeros(5, np.int32))
    found = geo.sparsity(mesh, paths)
    for number, walk in enumerate(walks):
        points = mesh.points[walk]
        assert found[number] == fullest(points, mesh.r_c)
        centres = points[rng.integers(0, len(walk), 50)] + rng.normal(0, 0.3, (50, 2))
        held = np.hypot(*(points[:, None] - centres[None]).transpose(2, 0, 1)) <= mesh.r_c / 2
        assert held.sum(axis=0).max() <= found[number]


@given(meshes(most=30, kinds=[random_points]), SEEDS)
def test_padding_and_stretch_are_those_of_plain_sums(mesh: geo.Mesh, seed: int) -> None:
    paths, pairs = all_pairs(mesh, "grdrnd1", recovery="face")
    padding, stretch = geo.padding(mesh, paths), geo.stretch(mesh, paths)
    for number, (source, _) in enumerate(pairs):
        path = paths[number]
        first, last = mesh.points[source], mesh.points[path[-1]]
        straight = math.dist(first, last)
        away = 0.0
        for point in mesh.points[path]:
            share = np.dot(point - first, last - first) / straight**2 if straight else 0.0
            away = max(away, math.dist(point, first + min(max(share, 0), 1) * (last - first)))
        assert padding[number] == pytest.approx(away / mesh.r_i, abs=1e-12)
        expected = lengths(mesh, path).sum() / straight if straight else 1.0
        assert stretch[number] == pytest.approx(expected, rel=1e-12)


def test_the_padding_of_a_path_back_to_its_start_is_the_farthest_node() -> None:
    mesh = geo.from_points([(0, 0), (0.8, 0), (1.6, 0)], 1, 2)
    nodes = np.array([0, 1, 2, 1, 0], np.int32)
    paths = geo.Paths(np.array([0, 5]), nodes, np.ones(1, np.bool_), np.zeros(1, np.int32))
    assert geo.padding(mesh, paths).tolist() == [0.8]
    assert geo.stretch(mesh, paths).tolist() == [1]
    assert geo.sparsity(mesh, paths).tolist() == [4]
