"""Every target that can be reached is reached, and every transmission is accounted for."""

from __future__ import annotations

import math
from itertools import product

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from matchyard import geo
from matchyard.geo.workload import make_requests
from tests.geo.plain_mesh import (
    RECOVERIES,
    count_hops,
    draw_requests,
    meshes,
    reachable_targets,
)

SEEDS = st.integers(0, 10**6)


def check_delivery(sending: geo.Sending) -> None:
    """Follow all requests of all runs, hop by hop."""
    mesh, requests, work = sending.mesh, sending.requests, sending.work
    wanted = reachable_targets(mesh, requests)
    sent = np.zeros(len(mesh), np.int64)
    for run in range(sending.runs):
        for number, name in enumerate(requests.ids):
            tree = sending.follow(name, run)
            assert set(tree.targets) == wanted[number]
            sent += count_hops(sending, tree)
    np.testing.assert_array_equal(sending.sent, sent)
    n_wanted = sum(map(len, wanted))
    assert work.transmissions == sent.sum()
    assert work.deliveries == sending.runs * n_wanted
    assert work.lost == 0
    assert work.undelivered == len(requests.targets) - n_wanted
    assert sending.undelivered == [
        (name, mesh.name(node))
        for number, name in enumerate(requests.ids)
        for node in requests.targets_of(number).tolist()
        if node not in wanted[number]
    ]


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("routing", geo.ROUTINGS)
@given(
    mesh=meshes(),
    seed=SEEDS,
    rule=st.sampled_from(geo.RULES),
    tree=st.sampled_from(["mst", "star"]),
)
def test_every_target_in_the_component_is_reached(
    routing: str, recovery: str, mesh: geo.Mesh, seed: int, rule: str, tree: str
) -> None:
    requests = draw_requests(mesh, seed)
    check_delivery(geo.send(mesh, requests, routing, rule, 2, seed, recovery=recovery, tree=tree))


@pytest.mark.parametrize("ratio", [1, 2])
@pytest.mark.parametrize("degree", [25, 6])
def test_all_schemes_deliver_in_dense_and_in_thin_meshes(degree: int, ratio: int) -> None:
    n_nodes = 120
    mesh = geo.uniform(n_nodes, (n_nodes * math.pi / degree) ** 0.5, 1, ratio, seed=degree)
    assert abs(mesh.degrees.mean() - degree) < degree / 3  # the rim has fewer
    requests = draw_requests(mesh, degree, n=2, most=5)
    schemes = product(geo.ROUTINGS, geo.RULES, RECOVERIES, ["mst", "star"])
    for routing, rule, recovery, tree in schemes:
        check_delivery(geo.send(mesh, requests, routing, rule, recovery=recovery, tree=tree))


@given(mesh=meshes(), seed=SEEDS, outside=st.sampled_from(["clamp", "redraw"]))
def test_points_that_are_moved_inside_lose_no_message(
    mesh: geo.Mesh, seed: int, outside: str
) -> None:
    requests = draw_requests(mesh, seed)
    check_delivery(geo.send(mesh, requests, "grdrnd2", geo.Rule("C2", 180, outside), 2, seed))


@given(mesh=meshes(), seed=SEEDS)
def test_random_ties_among_fewest_hops_lose_no_message(mesh: geo.Mesh, seed: int) -> None:
    check_delivery(geo.send(mesh, draw_requests(mesh, seed), "dsp", "T45", 2, seed, ties="random"))


@pytest.mark.parametrize("angle", [0.3, 2.7])
def test_shortest_paths_along_a_line_survive_rounding(angle: float) -> None:
    """All paths along a line are equally long but for rounding, which may change the way to a node that
    was done already."""
    rng = np.random.default_rng(5)
    for n in range(10, 60, 5):
        away = np.outer(rng.random(n) * n / 8, [math.cos(angle), math.sin(angle)])
        mesh = geo.from_points(away, 1)
        check_delivery(geo.send(mesh, draw_requests(mesh, n), "gsp", "T60", 3))


# ------------------------------------------------------------------------------------- losses


def dead_end() -> geo.Mesh:
    """A wall that is open to the source: node 2 is nearest to the target, and no way leads on from it."""
    bay = [(0, 0), (0.9, 0), (1.8, 0)]
    round_about = [(0, 0.9), (0, 1.8), (0.9, 1.8), (1.8, 1.8), (2.7, 1.8), (3.6, 1.8), (4.5, 1.8)]
    return geo.from_points([*bay, *round_about, (4.5, 0.9), (4.5, 0.0)], 1)


def test_a_dead_end_loses_a_message_that_recovery_delivers() -> None:
    mesh = dead_end()
    requests = make_requests(mesh, [0], [[11]])
    lost = geo.send(mesh, requests, rule="C0", recovery="none")
    assert (lost.work.lost, lost.work.deliveries, lost.work.undelivered) == (1, 0, 0)
    assert lost.sent.tolist() == [1, 1, *[0] * 10]
    assert lost.undelivered == []
    tree = lost.follow("0")
    assert (tree.targets, tree.undelivered, tree.paths[0].tolist()) == ([], ["11"], [0, 1, 2])
    for recovery in RECOVERIES:
        found = geo.send(mesh, requests, rule="C0", recovery=recovery)
        check_delivery(found)
        assert found.work.recoveries == 1
        assert (found.work.ring_transmissions > 0) == (recovery == "ring")


@given(
    mesh=meshes(),
    seed=SEEDS,
    routing=st.sampled_from(["grd", "grdrnd1", "grdrnd2"]),
    rule=st.sampled_from(geo.RULES),
    tree=st.sampled_from(["mst", "star"]),
)
def test_losses_without_recovery_are_counted(
    mesh: geo.Mesh, seed: int, routing: str, rule: str, tree: str
) -> None:
    requests = draw_requests(mesh, seed)
    sending = geo.send(mesh, requests, routing, rule, 2, seed, recovery="none", tree=tree)
    wanted = reachable_targets(mesh, requests)
    trees = [sending.follow(one, run) for run in range(sending.runs) for one in requests.ids]
    n_reached = sum(len(one.targets) for one in trees)
    assert sending.work.deliveries == n_reached
    assert sending.work.lost + n_reached == sending.runs * sum(map(len, wanted))
    assert sending.work.recoveries == sending.work.ring_transmissions == 0
    sent = np.zeros(len(mesh), np.int64)
    for number, one in enumerate(trees):
        assert set(one.targets) <= wanted[number % len(requests)]
        missed = set(requests.targets_of(number % len(requests)).tolist()) - set(one.targets)
        assert one.undelivered == [mesh.name(node) for node in sorted(missed)]
        sent += count_hops(sending, one)
    np.testing.assert_array_equal(sending.sent, sent)


def test_faces_need_no_search_among_random_points() -> None:
    """A Gabriel graph of points in general position always has a nearer node on the first face."""
    for seed in range(10):
        mesh = geo.uniform(150, 8.5, 1, seed=seed)
        sending = geo.send(mesh, draw_requests(mesh, seed), rule="C0", recovery="face")
        assert sending.work.ring_transmissions == 0
        assert sending.work.recoveries > 0


def test_a_mesh_in_two_parts_delivers_within_each() -> None:
    mesh = geo.from_points([(0, 0), (0.9, 0), (5, 0), (5.9, 0)], 1, names="abcd")
    requests = make_requests(mesh, [0, 3], [[1, 2, 3], [0, 2]], ["one", "two"])
    sending = geo.send(mesh, requests)
    assert sending.undelivered == [("one", "c"), ("one", "d"), ("two", "a")]
    assert sending.follow("one").undelivered == ["c", "d"]
    assert sending.work.deliveries == 2
