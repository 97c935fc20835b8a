"""Faults that a review found, each as it was found."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from matchyard import geo
from matchyard.errors import UsageError
from matchyard.geo.workload import make_requests


def test_a_shortest_path_begins_at_its_source() -> None:
    values = [1.93, 0.74, 3.42, 3.54, 2.22, 2.95]
    mesh = geo.from_points([(x * 0.3, x * 0.7) for x in values], r_c=1.0)
    assert geo.route(mesh, [2], [1], routing="gsp")[0].tolist() == [2, 4, 0, 1]


def test_an_entry_out_of_date_does_not_lead_far_away() -> None:
    mesh = geo.from_points([(i * 0.5, 0) for i in range(400)], r_c=1)
    directory, rng, places = geo.Directory(mesh), np.random.default_rng(0), mesh.points.copy()
    directory.publish_many(range(400), places)
    for _ in range(800):
        name = int(rng.integers(400))
        step = rng.normal() * 10 ** rng.uniform(-2, 1.5)
        places[name, 0] = np.clip(places[name, 0] + step, 0, 199.5)
        directory.move(name, places[name])
    names = rng.integers(0, 400, 4_000)
    sources = geo.nearest(mesh, places[names] + rng.normal(size=(4_000, 1)) * [3, 0])
    found = directory.look_up_many(sources, names.tolist())
    away = np.abs(mesh.points[sources, 0] - places[names, 0])
    assert found.positions.tolist() == places[names].tolist()
    assert (found.walk / np.maximum(away, 1)).max() <= 15


@pytest.mark.parametrize("offset", [0, 1e7, 1e8])
def test_coverage_keeps_its_digits_far_from_the_origin(offset: float) -> None:
    points = np.random.default_rng(0).random((60, 2)) * 10
    expected = geo.coverage(geo.from_points(points, 3))
    assert geo.coverage(geo.from_points(points + offset, 3)) == pytest.approx(expected, 1e-6)


def test_a_road_has_a_bound() -> None:
    road = geo.from_points([(i, 0) for i in range(100)], 1)
    requests = make_requests(road, [0] * 1000, [[99]] * 1000)
    assert 100 < geo.lower_bound(road, requests).asserted < 1000


def test_greedy_paths_on_a_lattice_are_two_sparse() -> None:
    points = [(i * 0.1, j * 0.1) for i in range(7) for j in range(7)]
    lattice = geo.from_points(points, 0.1 * math.sqrt(2))
    sources, targets = np.divmod(np.arange(49 * 49), 49)
    paths = geo.route(lattice, sources, targets, recovery="none")
    assert geo.sparsity(lattice, paths).max() == 2


def test_a_name_that_is_refused_leaves_no_trace() -> None:
    directory = geo.Directory(geo.uniform(200, 5, 1, seed=1))
    with pytest.raises(UsageError):
        directory.publish_many(["a", "b"], [(1, 1), (9, 9)])
    directory.publish("ok", (1, 1))
    assert directory.look_up(0, "ok").positions.tolist() == [[1, 1]]
    with pytest.raises(UsageError, match="name 'a' is not published"):
        directory.look_up(0, "a")


def test_a_mesh_over_the_date_line_is_read_again(tmp_path: Path) -> None:
    places = {"west": [179.99, 10.0], "east": [-179.99, 10.0]}
    features = [
        {"type": "Feature", "id": name, "geometry": {"type": "Point", "coordinates": place}}
        for name, place in places.items()
    ]
    path = tmp_path / "a.geojson"
    path.write_text("\ufeff" + json.dumps({"features": features}), encoding="utf-8")
    mesh = geo.from_geojson(path, 3_000)
    assert mesh.degrees.tolist() == [1, 1]
    sending = geo.send(mesh, make_requests(mesh, [0], [[1]]))
    sending.to_geojson(tmp_path / "b.geojson")
    again = geo.from_geojson(tmp_path / "b.geojson", 3_000)
    assert again.points == pytest.approx(mesh.points, abs=1e-6)


def test_what_cannot_be_right_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="too many to store; expected a range in the unit"):
        _ = geo.uniform(80_000, 100, 3_000).disks
    with pytest.raises(UsageError, match="seed -1; expected a whole number"):
        geo.uniform(5, 1, 1, seed=-1)
    with pytest.raises(UsageError, match="a band of -1; expected a width above 0"):
        geo.workload.inline(geo.uniform(50, 3, 1), 1, 2, band=-1)
    points = [[0, 0], [0, 60]]
    features = [{"geometry": {"type": "Point", "coordinates": place}} for place in points]
    path = tmp_path / "far.geojson"
    path.write_text(json.dumps({"features": features}))
    with pytest.raises(UsageError, match="too far from the others for a plane map"):
        geo.from_geojson(path, 1_000)


def test_columns_of_a_matrix_are_points_too() -> None:
    mesh = geo.from_points(np.array([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]]).T, 1)
    assert mesh.points.flags.c_contiguous
    assert geo.route(mesh, [0], [2])[0].tolist() == [0, 1, 2]
