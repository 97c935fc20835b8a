"""The directory: every name in the component is found, where it is now, by a short walk."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from matchyard import geo
from matchyard.geo.location import LookUps, Walks
from tests.geo.plain_mesh import component_of, meshes

SEEDS = st.integers(0, 10**6)


def within(mesh: geo.Mesh, fractions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Positions in the region, from fractions of its sides."""
    low, high = np.array(mesh.region[:2]), np.array(mesh.region[2:])
    return np.clip(low + fractions * (high - low), low, high)


def ask_everywhere(directory: geo.Directory, names: list[str]) -> LookUps:
    n = len(directory.mesh)
    sources = np.tile(np.arange(n), len(names))
    return directory.look_up_many(sources, [name for name in names for _ in range(n)])


def check_everywhere(directory: geo.Directory, places: dict[str, NDArray[np.float64]]) -> None:
    """A look-up finds the name at its place from its own component, and nothing from another."""
    mesh, n = directory.mesh, len(directory.mesh)
    component = component_of(mesh)
    found = ask_everywhere(directory, list(places))
    for number, place in enumerate(places.values()):
        rows = slice(number * n, (number + 1) * n)
        home = component[geo.nearest(mesh, [place])[0]]
        np.testing.assert_array_equal(found.is_found[rows], component == home)
        here = found.positions[rows][component == home]
        np.testing.assert_array_equal(here, np.broadcast_to(place, here.shape))
        assert np.isnan(found.positions[rows][component != home]).all()
        away = np.hypot(*(mesh.points - place).T)
        away[component != home] = np.inf
        np.testing.assert_allclose(away[found.nodes[rows][component == home]], away.min())
        assert (found.nodes[rows][component != home] == -1).all()


@given(meshes(), SEEDS, st.sampled_from([None, 0.3, 2.0, 100.0]))
def test_every_name_is_found_from_everywhere_in_its_component(
    mesh: geo.Mesh, seed: int, smallest: float | None
) -> None:
    directory = geo.Directory(mesh, smallest)
    fractions = np.random.default_rng(seed).random((5, 2))
    fractions[:2] = [[0, 0], [1, 1]]
    places = dict(zip("abcde", within(mesh, fractions)))
    directory.publish_many(places, list(places.values()))
    check_everywhere(directory, places)


@given(
    mesh=meshes(most=40),
    seed=SEEDS,
    kinds=st.lists(st.sampled_from(["tiny", "near", "far", "same"]), max_size=12),
)
def test_a_name_that_moves_is_found_at_its_newest_place(
    mesh: geo.Mesh, seed: int, kinds: list[str]
) -> None:
    rng = np.random.default_rng(seed)
    directory = geo.Directory(mesh, smallest=float(rng.choice([0.1, 1.0])))
    fractions = {"ada": rng.random(2), "bob": rng.random(2)}
    places = {name: within(mesh, one) for name, one in fractions.items()}
    directory.publish_many(places, list(places.values()))
    for kind in kinds:
        name = str(rng.choice(["ada", "bob"]))
        if kind == "far":
            fractions[name] = rng.random(2)
        elif kind != "same":
            step = rng.normal(0, 1e-9 if kind == "tiny" else 0.1, 2)
            fractions[name] = np.clip(fractions[name] + step, 0, 1)
        places[name] = within(mesh, fractions[name])
        told = directory.move(name, places[name].tolist())
        assert told.nodes[0] == geo.nearest(mesh, [places[name]])[0]
        assert len(set(told.nodes.tolist())) == len(told.nodes)
        check_everywhere(directory, places)


def test_a_small_move_tells_few_nodes_and_a_second_one_fewer() -> None:
    mesh = geo.uniform(3000, 20, 1, seed=1)
    directory = geo.Directory(mesh)
    published = directory.publish("ada", (10, 10))
    first = directory.move("ada", (10.001, 10))
    second = directory.move("ada", (10.002, 10))
    far = directory.move("ada", (1, 19))
    assert second.n_asked[0] <= 8 < published.n_asked[0]
    assert second.n_asked[0] < first.n_asked[0] <= published.n_asked[0] + 4
    assert far.n_asked[0] > published.n_asked[0]


def test_an_entry_out_of_date_leads_to_the_middle_of_its_tile() -> None:
    """Its holders know the tile only, so nothing else may decide whom they ask."""
    mesh = geo.uniform(1000, 20, 1.2, seed=1)
    directory = geo.Directory(mesh)
    n_led = 0
    for name in range(20):
        place = within(mesh, np.random.default_rng(name).random(2))
        directory.publish(name, place.tolist())
        directory.move(name, within(mesh, (place / 20 + 1e-6) % 1).tolist())
        holders, tiles = directory._holders[name], directory._tiles[name]
        for nodes in walks_of(directory.look_up_many(range(0, 1000, 50), [name] * 20).walks):
            known = [next(iter(np.flatnonzero((holders == one).any(1))[::-1]), -1) for one in nodes]
            best = np.maximum.accumulate(
                known
            )  # the smallest tile of which an entry was found so far
            n_left = directory.n_levels - 1 - best  # entries out of date from there on
            middles = (
                directory._origins[name]
                + (tiles + 0.5) * (20 / 2 ** np.arange(len(tiles)))[:, None]
            )
            led = geo.nearest(mesh, directory._folded(middles), mesh.component[nodes[:1]]).tolist()
            ends = [
                i for i in range(len(nodes)) if best[i] >= 0 and i + n_left[i] == len(nodes) - 1
            ]
            right = [i for i in ends if nodes[i + 1 :] == led[best[i] : -1]]
            assert right
            n_led += len(nodes) - 1 - right[0]
    assert n_led > 50


def test_walks_are_proportional_to_the_distance() -> None:
    rng = np.random.default_rng(4)
    for seed, degree in enumerate([15, 25]):
        mesh = geo.uniform(3000, (3000 * np.pi / degree) ** 0.5, 1, seed=seed)
        directory = geo.Directory(mesh)
        places = within(mesh, rng.random((100, 2)))
        directory.publish_many(range(100), places)
        names, sources = rng.integers(0, 100, 3000), rng.integers(0, len(mesh), 3000)
        found = directory.look_up_many(sources, names.tolist())
        is_near = mesh.component[sources] == mesh.component[geo.nearest(mesh, places)][names]
        np.testing.assert_array_equal(found.is_found, is_near)
        away = np.maximum(1, np.hypot(*(mesh.points[sources] - places[names]).T))
        assert (found.walk[is_near] <= 15 * away[is_near]).all()
        assert (found.walk[is_near] / away[is_near]).mean() < 5
        assert directory.entries().mean() <= 4 * directory.n_levels * 100 / len(mesh) + 1e-9
        assert directory.entries().max() <= 4 * directory.n_levels


def test_each_name_is_kept_by_at_most_four_nodes_a_level() -> None:
    mesh = geo.uniform(400, 8, 1, seed=6)
    directory = geo.Directory(mesh)
    told = directory.publish_many(range(len(mesh)), mesh.points)
    holders = [set(ask[1:]) | {ask[0]} for ask in walks_of(told)]
    knows = np.zeros((len(mesh), len(mesh)), np.bool_)
    for name in range(len(mesh)):
        for node in holders[name]:
            # A node that knows a name answers without asking others.
            knows[name, node] = directory.look_up(node, name).probes[0] == 0
    np.testing.assert_array_equal(directory.entries(), knows.sum(axis=0))
    assert directory.entries().mean() <= 4 * directory.n_levels
    assert knows.sum(axis=1).max() <= 4 * directory.n_levels


def walks_of(walks: Walks) -> list[list[int]]:
    return [part.tolist() for part in np.split(walks.nodes, walks.walk_start[1:-1])]


def test_publishing_in_bulk_is_publishing_one_by_one() -> None:
    mesh = geo.uniform(300, 7, 1, seed=1)
    bulk, single = geo.Directory(mesh), geo.Directory(mesh)
    told = bulk.publish_many(range(40), mesh.points[:40])
    one_by_one = [single.publish(name, mesh.points[name].tolist()) for name in range(40)]
    assert walks_of(told) == [walks_of(one)[0] for one in one_by_one]
    assert len(bulk) == len(single) == 40
    np.testing.assert_array_equal(bulk.entries(), single.entries())
    sources, names = [0, 7, 299, 299], ["3", 3, "39", 0]
    found = bulk.look_up_many(sources, names)
    for number, (source, name) in enumerate(zip(sources, names)):
        one = single.look_up(source, name)
        np.testing.assert_array_equal(one.positions[0], found.positions[number])
        assert one.walk[0] == found.walk[number]
        assert one.probes[0] == found.probes[number] == found.walks.n_asked[number]
        assert walks_of(one.walks)[0] == walks_of(found.walks)[number]


def test_the_traffic_of_look_ups_is_that_of_their_routes_and_answers() -> None:
    mesh = geo.uniform(300, 8, 1, seed=1)
    directory = geo.Directory(mesh)
    told = directory.publish_many(range(30), mesh.points[:30])
    found = directory.look_up_many(range(100, 130), range(30))
    for walks, comes_back, traffic in [
        (told, False, told.traffic(mesh)),
        (found.walks, True, found.traffic(mesh)),
    ]:
        sent = np.zeros(len(mesh), np.int64)
        for nodes in walks_of(walks):
            stops = nodes + nodes[:1] if comes_back else nodes
            for here, there in pairwise(stops):
                np.add.at(sent, geo.route(mesh, [here], [there])[0][:-1], 1)
        np.testing.assert_array_equal(traffic.sent, sent)
        assert traffic.work.transmissions == sent.sum()
        assert traffic.runs == 1
    lengths = [
        sum(np.hypot(*(mesh.points[a] - mesh.points[b])) for a, b in pairwise(one))
        for one in walks_of(found.walks)
    ]
    np.testing.assert_allclose(found.walk, lengths)


def test_requests_are_resolved_by_the_names_of_their_targets() -> None:
    mesh = geo.uniform(200, 6, 1, seed=1)
    directory = geo.Directory(mesh)
    directory.publish_many(range(200), mesh.points)
    requests = geo.workload.uniform(mesh, 10, 4)
    found = directory.resolve(requests)
    is_near = mesh.component[np.repeat(requests.sources, 3)] == mesh.component[requests.targets]
    np.testing.assert_array_equal(found.is_found, is_near)
    np.testing.assert_array_equal(found.nodes[is_near], requests.targets[is_near])
    assert len(directory.resolve(requests.take([])).nodes) == 0


def test_an_empty_directory_has_no_entries() -> None:
    directory = geo.Directory(geo.uniform(20, 2, 1))
    assert len(directory) == 0
    assert directory.entries().tolist() == [0] * 20


@pytest.mark.parametrize("points", [[(0, 0)], [(2, 3)] * 4, [(0, 0), (0.5, 0), (9, 0)]])
def test_meshes_without_extent_find_names_too(points: list[tuple[float, float]]) -> None:
    mesh = geo.from_points(points, 1)
    directory = geo.Directory(mesh)
    places = {str(node): mesh.points[node] for node in range(len(mesh))}
    directory.publish_many(places, list(places.values()))
    for node, place in places.items():
        assert directory.look_up(int(node), node).positions[0].tolist() == place.tolist()
