"""Requests: made up, from lines of JSON, and from matches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from matchyard import TagIndex, geo
from matchyard.geo.workload import make_requests


def as_lists(requests: geo.Requests) -> list[tuple[str, int, list[int]]]:
    return [
        (name, int(requests.sources[number]), requests.targets_of(number).tolist())
        for number, name in enumerate(requests.ids)
    ]


def named() -> geo.Mesh:
    points = [(0, 0), (1, 0), (2, 0), (0, 5)]
    return geo.from_points(points, 1.2, names=["roof", "barn", "7", "gate"])


@pytest.mark.parametrize("draw", [geo.workload.uniform, geo.workload.inline])
def test_a_request_does_not_depend_on_how_many_there_are(draw: object) -> None:
    mesh = geo.uniform(300, 7, 1, seed=1)
    few, many = draw(mesh, 5, 4, 9), draw(mesh, 50, 4, 9)  # type: ignore[operator]
    assert as_lists(few) == as_lists(many)[:5]
    assert as_lists(draw(mesh, 5, 4, 8)) != as_lists(few)  # type: ignore[operator]
    assert as_lists(draw(mesh, 5, 4, 9)) == as_lists(few)  # type: ignore[operator]


def test_requests_have_their_size_with_the_source() -> None:
    mesh = geo.uniform(40, 3, 1)
    for size in (1, 2, 40):
        requests = geo.workload.uniform(mesh, 6, size)
        for _, source, targets in as_lists(requests):
            assert len({source, *targets}) == size == 1 + len(targets)


def test_inline_requests_stay_in_the_band() -> None:
    mesh = geo.from_points(np.random.default_rng(1).random((400, 2)) * [9, 7] - [3, 2], 0.5)
    middle = (mesh.region[1] + mesh.region[3]) / 2
    for band in (None, 1.0, 3.0):
        requests = geo.workload.inline(mesh, 80, 3, band=band)
        nodes = np.concatenate([requests.sources, requests.targets])
        away = abs(mesh.points[nodes, 1] - middle).max()
        wide = (0.5 if band is None else band) / 2
        assert 0.8 * wide < away <= wide


def test_a_pair_sends_all_messages_over_half_the_width() -> None:
    mesh = geo.uniform(2000, 10, 1, seed=1)
    requests = geo.workload.pair(mesh, 5)
    assert len(requests) == len(set(requests.ids)) == 5
    assert len({(source, *targets) for _, source, targets in as_lists(requests)}) == 1
    ends = mesh.points[[requests.sources[0], requests.targets[0]]]
    assert np.hypot(*(ends - [[2.5, 5], [7.5, 5]]).T).max() <= geo.coverage(mesh)


def test_taken_requests_keep_their_ids_and_keys() -> None:
    mesh = geo.uniform(50, 3, 1)
    requests = geo.workload.uniform(mesh, 6, 4)
    some = requests.take([4, 1])
    assert as_lists(some) == [as_lists(requests)[4], as_lists(requests)[1]]
    assert some.keys.tolist() == requests.keys[[4, 1]].tolist()
    assert (some.number("1"), some.number(4)) == (1, 0)
    assert as_lists(requests.take([])) == []
    assert len(set(requests.keys.tolist())) == 6


def test_a_request_is_a_set_without_its_source() -> None:
    requests = make_requests(named(), [1, 2], [[3, 1, 0, 3], [2]], ["x", 5])
    assert as_lists(requests) == [("x", 1, [0, 3]), ("5", 2, [])]
    sending = geo.send(named(), requests.take([1]))
    assert (sending.congestion, sending.work.transmissions) == (0, 0)


def test_lines_of_json_name_nodes_or_places(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(
        '{"id": "alarm", "source": "roof", "targets": ["barn", [0.2, 4], "roof"]}\n'
        "\n"
        '  {"source": 7, "targets": [], "more": 1}  \n'
        '{"source": [-0.3, -0.2], "targets": ["gate", 7, [2, 0.1]]}',
        encoding="utf-8",
    )
    requests = geo.workload.from_jsonl(path, named())
    assert as_lists(requests) == [("alarm", 0, [1, 3]), ("line 3", 2, []), ("line 4", 0, [2, 3])]


def test_places_on_earth_are_longitudes_and_latitudes(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.geojson"
    point = '{{"type": "Feature", "id": "{}", "geometry": {{"type": "Point", "coordinates": [{}, {}]}}}}'
    features = [point.format("a", 8.95, 46.01), point.format("b", 8.97, 46.01)]
    nodes.write_text('{"features": [' + ",".join(features) + "]}", encoding="utf-8")
    path = tmp_path / "requests.jsonl"
    path.write_text('{"source": [8.951, 46.0], "targets": [[8.968, 46.02]]}', encoding="utf-8")
    mesh = geo.from_geojson(nodes, 3000)
    assert as_lists(geo.workload.from_jsonl(path, mesh)) == [("line 1", 0, [1])]


def test_an_empty_file_has_no_requests(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text("\n \n", encoding="utf-8")
    requests = geo.workload.from_jsonl(path, named())
    assert len(requests) == 0
    sending = geo.send(named(), requests, runs=3)
    assert (sending.congestion, sending.undelivered) == (0, [])
    assert geo.lower_bound(named(), requests).asserted == 0


def test_matched_keys_are_the_targets_of_an_event() -> None:
    index = TagIndex()
    index.add_many([["fire"], ["fire", "smoke"], ["water"]], ["barn", "gate", "7"])
    index.consolidate()
    matches = index.match([["fire", "smoke", "hot"], ["none"], ["water", "fire"]])
    mesh = named()
    requests = geo.workload.from_matches(matches, mesh, [0, 1, 1], ["a", "b", "c"])
    assert as_lists(requests) == [("a", 0, [1, 3]), ("b", 1, []), ("c", 1, [2])]
    sending = geo.send(mesh, requests)
    assert sending.undelivered == [("a", "gate")]
