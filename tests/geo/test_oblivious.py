"""Routes depend on nothing but the request itself, the seed and the run: not on other traffic."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from matchyard import geo
from matchyard.geo.heat_map import Tree
from matchyard.geo.workload import make_requests
from matchyard.kernels.geo.trees import coins_of_each
from tests.geo.plain_mesh import draw_requests, meshes

SEEDS = st.integers(0, 10**6)
SCHEMES = list(itertools.product(geo.ROUTINGS, ["T60", "C1"], ["ring", "face"]))


def plain(tree: Tree) -> tuple[object, ...]:
    return (*tree[:4], [path.tolist() for path in tree.paths], tree.vias)


@given(mesh=meshes(), seed=SEEDS, scheme=st.sampled_from(SCHEMES), data=st.data())
def test_other_requests_and_their_order_change_no_route(
    mesh: geo.Mesh, seed: int, scheme: tuple[str, str, str], data: st.DataObject
) -> None:
    routing, rule, recovery = scheme
    requests = draw_requests(mesh, seed, n=6)
    order = data.draw(st.permutations(range(6)))
    kept = order[: data.draw(st.integers(0, 6))]

    def send(some: geo.Requests) -> geo.Sending:
        return geo.send(mesh, some, routing, rule, 3, seed, recovery=recovery, ties="random")

    whole, part, rest = (
        send(requests),
        send(requests.take(kept)),
        send(requests.take(order[len(kept) :])),
    )
    shuffled = send(requests.take(order))
    np.testing.assert_array_equal(part.sent + rest.sent, whole.sent)
    np.testing.assert_array_equal(shuffled.sent, whole.sent)
    assert shuffled.work == whole.work == part.work + rest.work
    for number in kept:
        name = requests.ids[number]
        assert plain(part.follow(name, 2)) == plain(whole.follow(name, 2))


@pytest.mark.parametrize(("routing", "rule"), [("grd", "T60"), ("grdrnd1", "C0"), ("dsp", "C1.5")])
def test_the_number_of_threads_changes_nothing(routing: str, rule: str) -> None:
    mesh = geo.uniform(300, 7, 1, seed=2)
    requests = geo.workload.uniform(mesh, 20, 5, 1)
    alone = geo.send(mesh, requests, routing, rule, 7, 4)
    for threads in (2, 3, 9):
        found = geo.send(mesh, requests, routing, rule, 7, 4, threads=threads)
        assert found.sent.tobytes() == alone.sent.tobytes()
        assert found.work == alone.work


@given(mesh=meshes(), seed=SEEDS)
def test_the_order_of_targets_does_not_matter(mesh: geo.Mesh, seed: int) -> None:
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, len(mesh), 9)
    sources = [int(rng.integers(0, len(mesh)))]
    one = geo.send(mesh, make_requests(mesh, sources, [targets], ["a"]), "grdrnd2", runs=2)
    again = np.concatenate([targets[::-1], targets[:3], sources])
    other = geo.send(mesh, make_requests(mesh, sources, [again], ["a"]), "grdrnd2", runs=2)
    assert one.sent.tolist() == other.sent.tolist()
    assert plain(one.follow("a", 1)) == plain(other.follow("a", 1))


def test_a_request_is_known_by_its_id_wherever_it_stands() -> None:
    mesh = geo.uniform(300, 7, 1, seed=2)
    sources, targets, ids = [0, 9, 150], [[299, 20], [200], [7, 250]], ["a", "b", "c"]
    one = geo.send(mesh, make_requests(mesh, sources, targets, ids), "grdrnd1", runs=2)
    back = make_requests(mesh, [4, *sources[::-1]], [[8], *targets[::-1]], ["new", *ids[::-1]])
    other = geo.send(mesh, back, "grdrnd1", runs=2)
    for name, run in itertools.product(ids, range(2)):
        assert plain(one.follow(name, run)) == plain(other.follow(name, run))
    added = geo.send(mesh, back.take([0]), "grdrnd1", runs=2)
    np.testing.assert_array_equal(other.sent, one.sent + added.sent)


def test_another_seed_run_or_id_takes_other_routes() -> None:
    mesh = geo.uniform(300, 7, 1, seed=2)
    source, target = geo.nearest(mesh, [(1.5, 3.5), (5.5, 3.5)]).tolist()
    requests = make_requests(mesh, [source] * 2, [[target]] * 2, ["a", "b"])
    sending = geo.send(mesh, requests, runs=8, seed=1)
    routes = [str(plain(sending.follow(name, run))[4:]) for name in "ab" for run in range(8)]
    other = geo.send(mesh, requests, seed=2)
    routes += [str(plain(other.follow(name))[4:]) for name in "ab"]
    assert len(set(routes)) > 13
    same = geo.send(mesh, requests, runs=8, seed=1)
    assert same.sent.tolist() == sending.sent.tolist()
    assert other.sent.tolist() != geo.send(mesh, requests, seed=1).sent.tolist()


def test_targets_of_one_request_draw_their_own_points() -> None:
    mesh = geo.uniform(300, 7, 1, seed=2)
    tree = geo.send(mesh, make_requests(mesh, [0], [[100, 200, 299]]), tree="star").follow("0")
    assert len(set(tree.vias)) == 3


def test_a_scheme_without_coins_has_one_run() -> None:
    mesh = geo.uniform(100, 4, 1, seed=2)
    requests = geo.workload.uniform(mesh, 5, 3)
    for routing, rule, ties, runs in [
        ("grd", "C0", "first", 1),
        ("gsp", "C0", "first", 1),
        ("dsp", "C0", "first", 1),
        ("dsp", "C0", "random", 9),
        ("grdrnd1", "C0", "first", 9),
        ("GrdRnd2", "C0", "first", 9),
        ("grd", "C0.5", "first", 9),
    ]:
        sending = geo.send(mesh, requests, routing, rule, 9, ties=ties)
        assert sending.runs == runs
        assert sending.transmissions == sending.work.transmissions / runs


def test_progress_is_told_after_each_run() -> None:
    mesh = geo.uniform(50, 3, 1)
    told: list[int] = []
    geo.send(mesh, geo.workload.uniform(mesh, 2, 3), runs=5, progress=told.append)
    assert told == [1] * 5


def test_the_route_between_a_pair_depends_on_the_seed_and_the_pair_alone() -> None:
    mesh = geo.uniform(300, 7, 1, seed=2)
    both = geo.route(mesh, [0, 5], [299, 280], "grdrnd1", seed=3)
    alone = geo.route(mesh, [5], [280], "grdrnd1", seed=3)
    assert both[1].tolist() == alone[0].tolist()
    assert geo.route(mesh, [5], [280], "grdrnd1", seed=4)[0].tolist() != alone[0].tolist()


def test_every_edge_of_a_request_throws_coins_of_its_own() -> None:
    mesh = geo.uniform(400, 7, 1, seed=1)
    whole = make_requests(mesh, [0], [np.arange(100, 140)], ["a"])
    fewer = make_requests(mesh, [0], [np.arange(100, 120)], ["a"])
    coins = {}
    for requests in (whole, fewer):
        edges = geo.span(mesh, requests)
        found = coins_of_each(1, 0, requests.keys, edges)
        assert len(set(found.tolist())) == len(edges.heads)
        coins[len(edges.heads)] = dict(zip(edges.heads.tolist(), found.tolist()))
    assert coins[20].items() <= coins[40].items()  # further targets change no coin
