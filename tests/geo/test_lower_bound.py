"""Congestion: loads against a double loop, and bounds that no scheme is below."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from matchyard import geo
from matchyard.errors import UsageError
from matchyard.geo.workload import make_requests
from tests.geo.plain_mesh import RECOVERIES, draw_requests, is_within, meshes, reachable_targets

SEEDS = st.integers(0, 10**6)


@given(meshes(), SEEDS)
def test_load_is_a_double_loop_over_transmissions(mesh: geo.Mesh, seed: int) -> None:
    sent = np.random.default_rng(seed).integers(0, 9, len(mesh))
    hears = is_within(mesh.points, mesh.r_i)
    expected = [0] * len(mesh)
    for sender in range(len(mesh)):
        for node in range(len(mesh)):
            if node == sender or hears[sender, node]:
                expected[node] += int(sent[sender])
    assert geo.load(mesh, sent).tolist() == expected
    traffic = geo.Traffic(mesh, sent, 4, geo.Work())
    assert traffic.load.tolist() == [one / 4 for one in expected]
    assert traffic.congestion == max(expected) / 4


def draw_workload(mesh: geo.Mesh, kind: str, seed: int) -> geo.Requests:
    if kind == "pair":
        return geo.workload.pair(mesh, 9)
    if kind == "uniform":
        return geo.workload.uniform(mesh, 9, min(4, len(mesh)), seed)
    if kind == "few points":
        return make_requests(mesh, [seed % len(mesh)] * 9, [[0]] * 9)
    return draw_requests(mesh, seed, n=9)


@pytest.mark.parametrize("kind", ["uniform", "pair", "few points", "mixed"])
@given(
    mesh=meshes(),
    seed=SEEDS,
    grid=st.integers(1, 6),
    routing=st.sampled_from(list(geo.ROUTINGS)),
    recovery=st.sampled_from(RECOVERIES),
    rule=st.sampled_from(geo.RULES),
)
def test_no_scheme_is_below_the_bound(
    kind: str, mesh: geo.Mesh, seed: int, grid: int, routing: str, recovery: str, rule: str
) -> None:
    requests = draw_workload(mesh, kind, seed)
    bound = geo.lower_bound(mesh, requests, grid)
    for tree in ("mst", "star"):
        sending = geo.send(mesh, requests, routing, rule, 2, seed, recovery=recovery, tree=tree)
        assert bound.asserted <= sending.congestion
    assert bound.asserted <= geo.flood(mesh, requests).congestion
    assert bound.n_cut == n_cut(mesh, requests, bound.rectangle)
    low_x, low_y, high_x, high_y = bound.rectangle
    around = high_x - low_x + high_y - low_y
    expected = min(bound.n_cut, bound.n_cut * mesh.r_i / around) if bound.n_cut else 0
    assert bound.load == pytest.approx(expected)


def n_cut(mesh: geo.Mesh, requests: geo.Requests, rectangle: tuple[float, ...]) -> int:
    """Requests with a point inside and one outside; the right and upper sides belong to the next
    rectangle, unless the region ends there."""
    low, high = np.array(rectangle[:2]), np.array(rectangle[2:])
    is_last = high == mesh.region[2:]
    wanted, cut = reachable_targets(mesh, requests), 0
    for number, source in enumerate(requests.sources.tolist()):
        points = mesh.points[[source, *wanted[number]]]
        below = (points < high) | (is_last & (points <= high))
        inside = ((points >= low) & below).all(axis=1)
        cut += bool(inside.any() and not inside.all())
    return cut


@given(meshes(most=20), SEEDS)
def test_the_bound_is_the_best_of_all_rectangles_on_the_grid(mesh: geo.Mesh, seed: int) -> None:
    requests, grid = draw_requests(mesh, seed), 2
    nodes = [[s, *t] for s, t in zip(requests.sources, reachable_targets(mesh, requests))]
    points = mesh.points[[node for one in nodes for node in one]]
    lines = []
    for axis in (0, 1):
        ends, values = (mesh.region[axis], mesh.region[axis + 2]), points[:, axis]
        grid_lines = np.linspace(values.min(), np.nextafter(values.max(), np.inf), grid + 1)
        lines.append(np.unique([*ends, *grid_lines.clip(*ends)]) if ends[0] < ends[1] else ends)
    most, asserted = 0.0, 0.0
    rims = np.array(mesh.region)
    for left in range(len(lines[0])):
        for right in range(left + 1, len(lines[0])):
            for low in range(len(lines[1])):
                for high in range(low + 1, len(lines[1])):
                    sides = lines[0][left], lines[1][low], lines[0][right], lines[1][high]
                    wide, tall = sides[2] - sides[0], sides[3] - sides[1]
                    cut = n_cut(mesh, requests, sides)
                    if not cut:
                        continue
                    most = max(most, min(cut, cut * mesh.r_i / (wide + tall)))
                    rim = np.array(sides) != rims
                    pieces = 2 if rim.tolist() in ([1, 0, 1, 0], [0, 1, 0, 1]) else 1
                    length = rim @ [tall, wide, tall, wide]
                    area = 3 * length * mesh.r_i + 2.25 * np.pi * mesh.r_i**2 * pieces
                    asserted = max(asserted, cut * np.pi * mesh.r_i**2 / 4 / area)
    bound = geo.lower_bound(mesh, requests, grid)
    assert bound.load == pytest.approx(most)
    assert bound.asserted == pytest.approx(asserted)


def test_many_messages_between_two_nodes_have_a_bound_near_their_number() -> None:
    mesh = geo.uniform(500, 10, 1, seed=3)
    bound = geo.lower_bound(mesh, geo.workload.pair(mesh, 100))
    assert (bound.n_cut, bound.load) == (100, 100)
    assert 100 / 15 < bound.asserted < 100


def test_the_rim_of_a_strip_has_two_pieces() -> None:
    """Eight messages leave the middle of a line, four each way. A strip round the middle cuts all of them,
    but nodes at both of its ends share them."""
    mesh = geo.from_points([(x, 0) for x in range(11)], 1)
    requests = make_requests(mesh, [5] * 8, [[0], [10]] * 4)
    assert geo.lower_bound(mesh, requests).asserted == pytest.approx(4 / 9)


def test_the_bound_grows_with_the_number_of_requests() -> None:
    mesh = geo.uniform(500, 10, 1, 2, seed=3)
    found = [geo.lower_bound(mesh, geo.workload.uniform(mesh, n, 4, 1)) for n in (0, 1, 10, 100)]
    assert found[0] == (0, 0, mesh.region, 0)
    assert found[0].asserted < found[1].asserted < found[2].asserted < found[3].asserted


def test_a_grid_without_lines_is_refused() -> None:
    mesh = geo.uniform(9, 1, 1)
    with pytest.raises(UsageError, match="a grid of 0; expected at least 1 line"):
        geo.lower_bound(mesh, geo.workload.pair(mesh, 1), 0)


@given(meshes(), SEEDS)
def test_flooding_lets_every_node_of_the_component_send_once(mesh: geo.Mesh, seed: int) -> None:
    requests = draw_requests(mesh, seed)
    found, component = geo.flood(mesh, requests), mesh.component
    wanted = [
        source
        for source, targets in zip(requests.sources, reachable_targets(mesh, requests))
        if targets
    ]
    expected = [sum(component[source] == one for source in wanted) for one in component]
    assert found.sent.tolist() == expected
    n_reached = sum(map(len, reachable_targets(mesh, requests)))
    assert found.work.transmissions == found.work.broadcasts == sum(expected)
    assert found.work.deliveries == n_reached
    assert found.work.undelivered == len(requests.targets) - n_reached
