"""Meshes and what was sent through them, to files and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from matchyard import geo
from matchyard.geo.workload import make_requests


def feature(place: list[float], name: object = None, /, **properties: object) -> dict[str, Any]:
    geometry = {"type": "Point", "coordinates": place}
    named = {} if name is None else {"id": name}
    return {"type": "Feature", **named, "geometry": geometry, "properties": properties}


def town(path: Path, middle: tuple[float, float], n: int = 60) -> tuple[geo.Mesh, np.ndarray]:  # type: ignore[type-arg]
    """A mesh of places round a middle, over the date line where that is near."""
    places = np.random.default_rng(1).random((n, 2)) * [0.06, 0.04] - [0.03, 0.02] + middle
    places[:, 0] = (places[:, 0] + 180) % 360 - 180
    features = [feature(place, f"n{number}") for number, place in enumerate(places.tolist())]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}), "utf-8")
    return geo.from_geojson(path, 1500, 2000), places


def read(path: Path) -> list[dict[str, Any]]:
    document = json.loads(path.read_text("utf-8"), parse_constant=pytest.fail)
    assert document["type"] == "FeatureCollection"
    assert all(one["type"] == "Feature" for one in document["features"])
    features: list[dict[str, Any]] = document["features"]
    return features


def metres_between(one: np.ndarray, other: np.ndarray) -> float:  # type: ignore[type-arg]
    """Along a great circle, by the haversine formula."""
    (lon, lat), (lon_2, lat_2) = np.radians(one), np.radians(other)
    half = np.sin((lat_2 - lat) / 2) ** 2
    half += np.cos(lat) * np.cos(lat_2) * np.sin((lon_2 - lon) / 2) ** 2
    return float(2 * 6_371_008.8 * np.arcsin(np.sqrt(half)))


@pytest.mark.parametrize("middle", [(8.95, 46.01), (179.99, -17.0), (-180.0, 60.0), (0.0, 0.0)])
def test_places_on_earth_become_metres_and_come_back(
    middle: tuple[float, float], tmp_path: Path
) -> None:
    mesh, places = town(tmp_path / "nodes.geojson", middle)
    back = mesh.lon_lat(mesh.points)
    off = (back - places + [180, 0]) % 360 - [180, 0]
    off[:, 1] = (back - places)[:, 1]
    assert abs(off).max() < 1e-9
    assert (mesh.unit, mesh.r_c, mesh.r_i, mesh.name(3)) == ("m", 1500, 2000, "n3")
    assert np.ptp(mesh.points, axis=0).max() < 10_000  # it is not torn at the date line
    for number in range(1, 20):
        flat = np.hypot(*(mesh.points[number] - mesh.points[0]))
        assert flat == pytest.approx(metres_between(places[number], places[0]), rel=2e-3)


@pytest.mark.parametrize("middle", [(8.95, 46.01), (180.0, -17.0)])
def test_loads_and_trees_are_written_as_geojson(
    middle: tuple[float, float], tmp_path: Path
) -> None:
    mesh, places = town(tmp_path / "nodes.geojson", middle)
    sending = geo.send(mesh, geo.workload.uniform(mesh, 5, 4), runs=3)
    sending.to_geojson(tmp_path / "load.geojson")
    features = read(tmp_path / "load.geojson")
    assert [one["id"] for one in features] == list(mesh.names or ())
    assert [one["properties"]["load"] for one in features] == sending.load.tolist()
    assert [one["properties"]["sent"] for one in features] == (sending.sent / 3).tolist()
    again = geo.from_geojson(tmp_path / "load.geojson", 1500, 2000)
    np.testing.assert_allclose(again.points, mesh.points, atol=1e-4)
    np.testing.assert_array_equal(again.disks.neighbours, mesh.disks.neighbours)
    sending.trees_to_geojson(tmp_path / "trees.geojson", ["0", 3])
    lines = read(tmp_path / "trees.geojson")
    paths = [path for name in ("0", "3") for path in sending.follow(name).paths if len(path) > 1]
    assert len(lines) == len(paths)
    assert {one["properties"]["request"] for one in lines} == {"0", "3"}
    for one, path in zip(lines, paths):
        assert one["geometry"]["type"] == "LineString"
        line = np.array(one["geometry"]["coordinates"])
        assert abs(np.diff(line, axis=0)).max(initial=0) < 0.1  # no line goes round the Earth
        np.testing.assert_allclose((line - places[path] + 180) % 360 - 180, 0, atol=1e-9)


def test_lines_on_a_map_have_two_points_or_more(tmp_path: Path) -> None:
    mesh = geo.uniform(60, 3, 1, seed=1)
    sending = geo.send(mesh, geo.workload.uniform(mesh, 20, 4), rule="C2")
    sending.trees_to_geojson(tmp_path / "trees.geojson", sending.requests.ids)
    assert min(len(one["geometry"]["coordinates"]) for one in read(tmp_path / "trees.geojson")) >= 2


def test_names_are_ids_or_properties_or_numbers(tmp_path: Path) -> None:
    features = [
        feature([0, 0], "roof", id="no", name="no"),
        feature([0, 0.001], id=7, name="no"),
        feature([0, 0.002], name="barn"),
        {**feature([0, 0.003, 480.0]), "properties": None},
    ]
    (tmp_path / "nodes.geojson").write_text(json.dumps({"features": features}), "utf-8")
    mesh = geo.from_geojson(tmp_path / "nodes.geojson", 150)
    assert mesh.names == ("roof", "7", "barn", "feature 3")
    assert (mesh.r_i, mesh.degrees.tolist()) == (150, [1, 2, 2, 1])


def test_a_saved_mesh_comes_back_as_it_was(tmp_path: Path) -> None:
    for number, mesh in enumerate(
        [
            geo.uniform(100, 7.3, 1.1, 2.3, seed=1),
            geo.from_points([(0.1, 1 / 3)], 1e-3, region=(-1, 0, 2, 0.5), names=["Zürich"]),
            town(tmp_path / "nodes.geojson", (180.0, 10.0))[0],
        ]
    ):
        path = tmp_path / f"{number}.geo"
        geo.save_mesh(mesh, path)
        again = geo.read_mesh(path)
        np.testing.assert_array_equal(again.points, mesh.points)
        assert (again.r_c, again.r_i, again.region) == (mesh.r_c, mesh.r_i, mesh.region)
        assert (again.names, again.origin) == (mesh.names, mesh.origin)
        np.testing.assert_array_equal(again.lon_lat(again.points), mesh.lon_lat(mesh.points))


def test_a_mesh_without_places_on_earth_is_written_in_its_own_unit(tmp_path: Path) -> None:
    mesh = geo.from_points([(0, 0), (1, 0.5)], 2)
    geo.send(mesh, make_requests(mesh, [0], [[1]])).to_geojson(tmp_path / "load.geojson")
    places = [one["geometry"]["coordinates"] for one in read(tmp_path / "load.geojson")]
    assert places == [[0, 0], [1, 0.5]]


def test_a_page_is_written_with_the_trees_that_were_asked_for(tmp_path: Path) -> None:
    mesh = geo.uniform(60, 3, 1, seed=1)
    sending = geo.send(mesh, geo.workload.uniform(mesh, 3, 4), runs=2)
    sending.save_map(tmp_path / "all.html")
    sending.save_map(tmp_path / "one.html", "A title of its own", ["1"])
    pages = [(tmp_path / name).read_text("utf-8") for name in ("all.html", "one.html")]
    assert [page.count('"request":') for page in pages] == [3, 1]
    assert "A title of its own" in pages[1]
    facts = sending.facts()
    assert (facts["nodes"], facts["requests"], facts["deliveries"]) == ("60", "3", "9")
