"""`matchyard geo` as people type it: meshes, requests, comparisons, pictures and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from matchyard.cli import app
from matchyard.errors import MatchyardError

RUNNER = CliRunner()


def run(*words: object) -> str:
    done = RUNNER.invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def town(tmp_path: Path) -> Path:
    """Twelve radios along a street, a kilometre apart, and one that nobody hears."""
    places = {f"house {number}": [8.9 + 0.013 * number, 46.0] for number in range(12)}
    places["hut"] = [8.9, 47.0]
    features = [
        {"type": "Feature", "id": name, "geometry": {"type": "Point", "coordinates": place}}
        for name, place in places.items()
    ]
    path = tmp_path / "town.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    run("geo", "mesh", path, "--range", 1500, "-o", tmp_path / "town.geo")
    return tmp_path / "town.geo"


def test_a_mesh_is_made_and_described(tmp_path: Path) -> None:
    out = run("geo", "mesh", "--nodes", "2k", "--side", 16, "--range", 1, "--json")
    row = json.loads(out)
    assert row["nodes"] == 2000
    assert row["components"] == 1
    assert 20 < row["mean degree"] < 26
    assert "share of greedy paths" in run("geo", "mesh", "--nodes", 50, "--range", 20)


def test_requests_of_a_file_are_sent_by_name(town: Path, tmp_path: Path) -> None:
    requests = tmp_path / "requests.jsonl"
    requests.write_text(
        '{"id": "alarm", "source": "house 0", "targets": ["house 11", "hut", [8.952, 46.0001]]}\n'
        '\n{"source": "house 3", "targets": []}\n'
    )
    page, points = tmp_path / "heat.html", tmp_path / "load.geojson"
    out = run("geo", "send", town, requests, "--runs", 2, "--map", page, "--geojson", points)
    assert "2 requests on 13 nodes, 2 runs" in out
    assert "hut of alarm" in out
    assert "flooding" in out
    assert "alarm" in page.read_text()
    assert len(json.loads(points.read_text())["features"]) == 13
    found = json.loads(run("geo", "send", town, requests, "--runs", 2, "--json"))
    assert found["undelivered"] == [["alarm", "hut"]]
    assert found["work of all runs"]["deliveries"] == 2 * 2
    assert [row["scheme"] for row in found["schemes"]] == [
        "tree, T60", "one message per target", "flooding",
    ]  # fmt: skip


def test_a_plot_shows_the_tree_of_a_request(town: Path, tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    run("geo", "send", town, "--size", 3, "--requests", 4, "--plot", picture, "--show", 2)
    assert picture.stat().st_size > 10_000


def test_help_keeps_what_is_in_brackets() -> None:
    text = " ".join(run("geo", "compare", "--help").split())
    assert "matchyard[spark]" in text
    assert "the range" in text


def test_rules_and_sizes_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "net.geo"
    run("geo", "mesh", "--nodes", "1k", "--side", 11, "--range", 1, "-o", path)
    words = ("geo", "compare", path, "--workload", "uniform,inline", "--size", "2,4", "--rules",
             "T60,C0", "--runs", 2, "--requests", 20)  # fmt: skip
    rows = [json.loads(line) for line in run(*words, "--json").splitlines()]
    assert len(rows) == 2 * 2 * (2 + 3)
    assert {row["scheme"] for row in rows} >= {"grd, T60", "flooding"}
    assert all(row["congestion"] > 0 for row in rows)
    assert "one message per target, C0" in run(*words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["geo", "mesh", "--range", 3], "or --nodes"),
        (["geo", "mesh", "--nodes", 5], "no --range"),
        (["geo", "mesh", "--nodes", 5, "--range", 0], "range 0.0; expected a length above 0"),
        (["geo", "mesh", "none.geojson", "--range", 5], "none.geojson"),
        (["geo", "send", "none.geo"], "no file none.geo"),
        (["geo", "send", "TOWN", "--rule", "X1"], "rule 'X1'; expected T and degrees"),
        (["geo", "send", "TOWN", "--routing", "ospf"], "expected one of grd, gsp"),
        (["geo", "send", "TOWN", "--workload", "odd"], "expected one of uniform, inline"),
        (["geo", "send", "TOWN", "--size", 40], "requests of 40 nodes among 13"),
        (["geo", "send", "TOWN", "--show", "x", "--map", "a.html"], "no request 'x'"),
        (["geo", "compare", "TOWN", "--size", "2,x"], "not a count: 'x'"),
    ],
)
def test_mistakes_are_told_in_a_line(words: list[str], said: str, town: Path) -> None:
    with pytest.raises(MatchyardError) as error:
        run(*[town if word == "TOWN" else word for word in words])
    assert said in str(error.value)
    assert "\n" not in str(error.value)
