"""Wrong input is refused with what was found, where, and an example."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from matchyard import TagIndex, geo
from matchyard.errors import StorageError, UsageError
from matchyard.geo import scenario
from matchyard.geo.workload import make_requests

MESH = geo.from_points([(0, 0), (1, 0), (1, 1)], 1, names=["roof", "barn", "gate"])
REQUESTS = make_requests(MESH, [0], [[2]])
NAN, INF = float("nan"), float("inf")


def geojson(coordinates: str, kind: str = "Point") -> str:
    return (
        '{"features": [{"geometry": {"type": "Point", "coordinates": [1, 2]}}, '
        f'{{"geometry": {{"type": "{kind}", "coordinates": {coordinates}}}}}]}}'
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no JSON"),
        ("{'features'}", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[1, 2]", "has no features; expected e.g. {"),
        ("{}", "has no features"),
        ('{"features": []}', "has no features"),
        ('{"features": {"a": 1}}', "has no features"),
        ('{"features": [7]}', "feature 0 is a None; expected a Point as in {"),
        ('{"features": [{"geometry": null}]}', "feature 0 is a None; expected a Point"),
        (geojson("[[1, 2], [3, 4]]", "LineString"), "feature 1 is a LineString; expected a Point"),
        (geojson("[NaN, 2]"), r"feature 1 has coordinates \[nan, 2\]; expected longitude and lat"),
        (geojson("[1, Infinity]"), "feature 1 has coordinates"),
        (geojson('["1", "2"]'), "feature 1 has coordinates"),
        (geojson("[true, 2]"), "feature 1 has coordinates"),
        (geojson("[1]"), "feature 1 has coordinates"),
        (geojson("null"), "feature 1 has coordinates None"),
        (geojson(f"[1, 1{'0' * 400}]"), "feature 1 is at"),
        (geojson("[1, 95]"), r"feature 1 is at \[1, 95\]; expected .* latitude from -90 to 90, e.g."),
        (geojson("[-180.1, 5]"), "feature 1 is at"),
        (
            '{"features": [{"id": 1, "geometry": {"type": "Point", "coordinates": [1, 2]}, "properties": []},'
            '{"id": "1", "geometry": {"type": "Point", "coordinates": [1, 2]}, "properties": [3]}]}',
            "two nodes have the id '1'; expected ids that differ",
        ),
    ],
)  # fmt: skip
def test_broken_geojson_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "nodes.geojson"
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=message) as error:
        geo.from_geojson(path, 100)
    assert "nodes.geojson" in str(error.value) or "two nodes" in message


def test_files_that_are_absent_or_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"nodes.geojson: No such file .*expected a file of GeoJSON"
    ):
        geo.from_geojson(tmp_path / "nodes.geojson", 100)
    with pytest.raises(
        UsageError, match=r"requests.jsonl: No such file .*expected lines such as {"
    ):
        geo.workload.from_jsonl(tmp_path / "requests.jsonl", MESH)
    (tmp_path / "odd").write_bytes(b"\xff\xfe\0")
    with pytest.raises(UsageError, match="odd is no JSON"):
        geo.from_geojson(tmp_path / "odd", 100)
    with pytest.raises(UsageError, match="odd is no UTF-8"):
        geo.workload.from_jsonl(tmp_path / "odd", MESH)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[1]", "has no source and targets; expected e.g. {"),
        ('{"source": "roof"}', "has no source and targets"),
        ('{"source": "roof", "targets": "barn"}', "targets are no list; expected e.g. {"),
        ('{"source": "tower", "targets": []}', "no node 'tower'; expected a name such as 'roof'"),
        ('{"source": "roof", "targets": [null]}', "a node None; expected a name or a place as in {"),
        ('{"source": "roof", "targets": [1.5]}', "a node 1.5; expected a name or a place"),
        ('{"source": "roof", "targets": [true]}', "True"),
        ('{"source": [1], "targets": []}', r"\[1\].*expected"),
        ('{"source": [1, 2, 3, 4], "targets": []}', "expected"),
        ('{"source": [], "targets": []}', r"\[\].*expected"),
        ('{"source": [NaN, 1], "targets": []}', "expected"),
        ('{"source": ["1", "2"], "targets": []}', "expected"),
        ('{"source": [true, 2], "targets": []}', "expected"),
        ('{"source": [1, 1' + "0" * 400 + '], "targets": []}', "expected"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("origin", [None, (8.95, 46.01)])
def test_bad_lines_of_requests_are_refused(
    origin: tuple[float, float] | None, line: str, message: str, tmp_path: Path
) -> None:
    mesh = geo.Mesh(MESH.points.copy(), 1, 1, MESH.region, MESH.names, origin)
    path = tmp_path / "requests.jsonl"
    path.write_text('{"source": "roof", "targets": []}\n\n' + line + "\n", "utf-8")
    with pytest.raises(UsageError, match=r"requests.jsonl, line 3.*" + message):
        geo.workload.from_jsonl(path, mesh)


def test_two_requests_with_one_id_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(
        '{"source": 0, "targets": [], "id": 2}\n{"source": 0, "targets": [], "id": "2"}', "utf-8"
    )
    with pytest.raises(UsageError, match=r"line 2: the id '2' is also in line 1; expected ids"):
        geo.workload.from_jsonl(path, geo.uniform(3, 1, 1))
    with pytest.raises(UsageError, match="two requests have the id 'a'; expected ids that differ"):
        make_requests(MESH, [0, 1], [[1], [2]], "aa")


CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: geo.uniform(0, 1, 1), "0 nodes; expected a whole number from 1 on"),
    (lambda: geo.uniform(5, 0, 1), "side 0; expected a length above 0, e.g. 100"),
    (lambda: geo.uniform(5, NAN, 1), "side nan"),
    *[
        (lambda reach=reach: geo.uniform(5, 1, reach), f"range {reach!r}; expected a length above 0, e.g. 1")  # type: ignore[misc]
        for reach in (0, -1, NAN, INF, "3", None)
    ],
    (lambda: geo.uniform(5, 1, 1, 0.5), "interference range 0.5; expected at least the range, 1"),
    (lambda: geo.uniform(5, 1, 1, NAN), "interference range nan"),
    (lambda: geo.uniform(5, 1, 1, "2"), "interference range '?2'?; expected"),  # type: ignore[arg-type]
    (lambda: geo.from_points([], 1), r"points of shape \(0,\); expected at least one pair, e.g."),
    (lambda: geo.from_points([(1, 2, 3)], 1), r"points of shape \(1, 3\)"),
    (lambda: geo.from_points([(1, 2), (1, NAN)], 1), "point 1 is .*; expected numbers below"),
    (lambda: geo.from_points([("a", "b")], 1), "not points: .*; expected e.g."),
    (lambda: geo.from_points([(1,), (1, 2)], 1), "not points"),
    (lambda: geo.from_points([(0, 0), (5, 0)], 1, region=(0, 0, 4, 4), names="ab"),
     r"node 'b' at \(5.0, 0.0\) is outside the region .*; expected least x"),
    (lambda: geo.from_points([(0, 0)], 1, region=(1, 0, 0, 0)), r"region .*; expected .* e.g. \("),
    (lambda: geo.from_points([(0, 0)], 1, region=(0, 0, 1)), "region .*; expected least x"),
    (lambda: geo.from_points([(0, 0)], 1, region=(0, 0, INF, INF)), "region .*; expected least x"),
    (lambda: geo.from_points([(0, 0), (1, 1)], 1, names="aa"), "two nodes have the id 'a'"),
    (lambda: geo.from_points([(0, 0)], 1, names="ab"), "2 names for 1 nodes; expected one for"),
    (lambda: MESH.node("tower"), "no node 'tower'; expected a name such as 'roof'"),
    (lambda: make_requests(MESH, [3], [[1]]), "sources: no node 3 of 3; numbers count from 0"),
    (lambda: make_requests(MESH, [0], [[-1]]), "targets: no node -1 of 3"),
    (lambda: make_requests(MESH, [0.5], [[1]]), r"sources of float64; expected numbers of nodes, e.g."),
    (lambda: make_requests(MESH, [0], [[1], [2]]), "1 sources, 2 lists of targets and 1 ids; exp"),
    (lambda: REQUESTS.number("x"), "no request 'x'; expected an id such as '0'"),
    (lambda: geo.send(MESH, REQUESTS).follow("x"), "no request 'x'"),
    (lambda: geo.send(MESH, REQUESTS, "ospf"), "routing 'ospf'; expected one of grd, gsp, dsp, grdr"),
    (lambda: geo.send(MESH, REQUESTS, recovery="no"), "recovery 'no'; expected one of ring, face, none"),
    (lambda: geo.send(MESH, REQUESTS, ties="no"), "ties 'no'; expected one of first, random"),
    (lambda: geo.send(MESH, REQUESTS, tree="oak"), "tree 'oak'; expected one of mst, star"),
    (lambda: geo.send(MESH, REQUESTS, runs=0), "0 runs; expected at least 1"),
    (lambda: geo.send(MESH, REQUESTS, threads=0), "0 threads; expected at least 1"),
    *[
        (lambda rule=rule: geo.send(MESH, REQUESTS, rule=rule), f"rule '{rule}'; expected T and degrees")  # type: ignore[misc]
        for rule in ("T0", "T90", "C2.1", "X1", "", "T", "T-5", "t60")
    ],
    (lambda: geo.Rule("C1", arc=0).codes(), "arc 0; expected degrees above 0, at most 180"),
    (lambda: geo.Rule("C1", outside="no").codes(), "outside 'no'; expected one of nearest, clamp"),
    (lambda: geo.route(MESH, [0, 1], [2]), "2 sources for 1 targets; expected one for each"),
    (lambda: geo.route(MESH, [0], [9]), "targets: no node 9 of 3"),
    (lambda: geo.route(MESH, [0], [1], "ospf"), "routing 'ospf'"),
    (lambda: geo.workload.uniform(MESH, 1, 0), "requests of 0 nodes among 3; expected 1 to 3"),
    (lambda: geo.workload.uniform(MESH, 1, 4), "requests of 4 nodes among 3"),
    (lambda: geo.workload.uniform(MESH, -1, 2), "-1 requests; expected 0 or more"),
    (lambda: geo.workload.pair(MESH, -1), "-1 requests; expected 0 or more"),
    (lambda: geo.workload.inline(MESH, 1, 2, band=0.1), "requests of 2 nodes among 0"),
    (lambda: geo.Directory(MESH, 0), "smallest tile 0; expected a length above 0, e.g. the range"),
    (lambda: geo.Directory(MESH, NAN), "smallest tile nan"),
    (lambda: geo.Directory(MESH, INF), "smallest tile inf"),
    (lambda: geo.Directory(MESH).look_up(0, "x"), "name 'x' is not published; call `publish`"),
    (lambda: geo.Directory(MESH).move("x", (0, 0)), "name 'x' is not published"),
    (lambda: geo.Directory(MESH).publish("x", (2, 0)), r"position \(2.0, 0.0\) is outside the region"),
    (lambda: geo.Directory(MESH).publish("x", (NAN, 0)), "expected numbers below"),
    (lambda: geo.Directory(MESH).publish_many("ab", [(0, 0)]), "2 names for 1 positions; expected"),
    (lambda: geo.Directory(MESH).publish_many("aa", [(0, 0)] * 2), "name 'a' is published twice"),
    (lambda: scenario.run(scenario.Scenario(9, 1, workload="odd", runs=1)), "workload 'odd'; expected one of uniform"),
    (lambda: scenario.run(scenario.Scenario(20, 1, tree="oak", runs=1)), "tree 'oak'; expected"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_wrong_arguments_are_refused_with_what_was_expected(number: int) -> None:
    call, message = CALLS[number]
    with pytest.raises(UsageError, match=message):
        call()


def test_a_directory_is_unchanged_by_what_it_refuses() -> None:
    directory = geo.Directory(MESH)
    directory.publish("x", (0, 0))
    for position in [(5, 5), (NAN, 0)]:
        with pytest.raises(UsageError):
            directory.move("x", position)
    with pytest.raises(UsageError, match="name 'x' is published twice; expected `move`"):
        directory.publish_many(["y", "x"], [(0, 0), (1, 1)])
    with pytest.raises(UsageError, match="2 names for 1 sources"):
        directory.look_up_many([0], ["x", "x"])
    assert len(directory) == 1
    assert directory.look_up(2, "x").positions.tolist() == [[0, 0]]


def test_matches_need_a_source_for_each_event_and_known_keys() -> None:
    matches = TagIndex().add(["a"], "tower").consolidate().match([["a"]])
    with pytest.raises(UsageError, match="1 events and 2 sources; expected a node for each event"):
        geo.workload.from_matches(matches, MESH, [0, 1])
    with pytest.raises(UsageError, match="no node 'tower'; expected a name such as 'roof'"):
        geo.workload.from_matches(matches, MESH, [0])


def test_files_that_are_no_mesh_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "town.geo"
    with pytest.raises(StorageError, match=r"no file .*town.geo; `matchyard geo mesh"):
        geo.read_mesh(path)
    good = {"r_c": 1.0, "r_i": 1.0, "region": [0, 0, 1, 1], "origin": None}
    table = pa.table({"x": [0.0, 1.0], "y": [0.0, 1.0]})
    for content in [
        b"",
        b"PAR1 and no more",
        table,
        table.replace_schema_metadata({b"matchyard mesh 1": "{"}),
        *[
            table.replace_schema_metadata({b"matchyard mesh 1": json.dumps(settings)})
            for settings in (
                [],
                {},
                {**good, "r_c": 0},
                {**good, "r_i": "far"},
                {**good, "region": [0, 0, 0.5, 0.5]},
                {**good, "origin": [1]},
                {**good, "origin": "here"},
                {name: one for name, one in good.items() if name != "origin"},
            )
        ],
        pa.table(
            {"x": [0.0, None], "y": [0.0, 1.0]}, metadata={"matchyard mesh 1": json.dumps(good)}
        ),
        pa.table({"x": [0.0]}, metadata={"matchyard mesh 1": json.dumps(good)}),
    ]:
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            pq.write_table(content, path)
        with pytest.raises(StorageError, match=r"town.geo is no mesh .*expected a file of"):
            geo.read_mesh(path)
