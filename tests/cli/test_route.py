"""`matchyard route`: trees, labels, stretch and congestion of a network in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import matchyard as my
from matchyard.cli import app
from matchyard.cli.simulate import route
from matchyard.cli.terminal import bar
from matchyard.routing import Rib, generate, grow, register_workload

DOCS = Path(__file__).parents[2] / "docs"
runner = CliRunner()


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "network.txt"
    path.write_text("".join(f"{a} {b}\n" for a, b in generate("grid", 9).ends()))
    return path


def run(*arguments: object) -> Any:
    return runner.invoke(app, ["route", *map(str, arguments)])


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_every_command_is_documented() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    for one in route.registered_commands:
        assert f"`matchyard route {one.callback.__name__}" in text


@pytest.mark.parametrize("command", ["trees", "labels", "stretch", "congestion", "rib"])
def test_commands_about_trees_print_a_table_or_objects(command: str, network: Path) -> None:
    as_table = run(command, network, "--count", 3)
    assert as_table.exit_code == 0, as_table.exception
    assert "9 nodes, 12 links; different trees: 2 of 3" in as_table.output
    found = rows(run(command, network, "--count", 3, "--json").output)
    assert len(found) == 3
    header = next(line for line in as_table.output.splitlines()[1:] if "tree" in line)
    assert all(name in header for name in found[0])


def test_trees_are_those_of_the_rule(network: Path) -> None:
    assert [row["root"] for row in rows(run("trees", network, "--json", "--rule", "H3", "--count", 3).output)] == ["0", "1", "2"]  # fmt: skip
    assert rows(run("trees", network, "--json", "--count", 1).output)[0]["root"] == "4"


def test_equal_trees_are_named(tmp_path: Path) -> None:
    ring = tmp_path / "ring.txt"
    ring.write_text("".join(f"{node} {(node + 1) % 6}\n" for node in range(6)))
    done = run("trees", ring, "--count", 8)
    assert "6 nodes, 6 links; different trees: 4 of 8" in done.output
    found = rows(run("trees", ring, "--count", 8, "--json").output)
    assert [row["equal to tree"] for row in found] == [0, 1, 2, 3, 1, 3, 1, 3]


def test_trees_are_written_for_other_programs(network: Path, tmp_path: Path) -> None:
    run("trees", network, "--count", 2, "-o", tmp_path / "trees.parquet")
    table = pq.read_table(tmp_path / "trees.parquet").to_pylist()
    assert len(table) == 18
    assert {row["parent"] for row in table if row["node"] == "4"} == {""}
    steps = {abs(int(row["parent"]) - int(row["node"])) for row in table if row["parent"]}
    assert steps == {1, 3}


def test_stretch_and_congestion_are_of_the_first_trees(network: Path) -> None:
    found = rows(run("stretch", network, "--count", 3, "--json").output)
    assert [row["trees"] for row in found] == [1, 2, 3]
    assert {row["pairs"] for row in found} == {36}
    assert all(row["min"] >= 1 for row in found)
    found = rows(run("congestion", network, "--count", 3, "--json").output)
    assert found[0]["links in use"] == 8 / 12


def test_a_tree_for_each_node_and_networks_of_one_node(network: Path, tmp_path: Path) -> None:
    assert len(rows(run("trees", network, "--rule", "H3", "--json").output)) == 9
    (tmp_path / "one").write_text("a a\n")
    for command in ("trees", "labels", "stretch", "congestion"):
        [row] = rows(run(command, tmp_path / "one", "--json").output)
        assert row.get("median") is None


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--rule", "X"], "no rule 'X'"),
        (["--rule", "L", "--count", "10"], "10 trees of 9 nodes"),
    ],
)
def test_what_is_wrong_is_told(network: Path, arguments: list[str], reason: str) -> None:
    done = run("trees", network, *arguments)
    assert isinstance(done.exception, my.UsageError)
    assert reason in str(done.exception)


def test_rib_is_the_table_of_a_router(network: Path, tmp_path: Path) -> None:
    given = ("rib", network, "--count", 2, "--size", "1200", "--at", "4", "--json")
    found = rows(run(*given, "-o", tmp_path / "a.rib").output)
    topology = my.topology(network)
    registered = register_workload(my.workload("tags", "icn", 1200), topology)
    sizes = registered.table(topology, grow(topology, "LC", 2), topology.node("4")).sizes()
    assert [row["most"] for row in found] == [one.filters[2] for one in sizes]
    assert [row["entries, most"] for row in found] == [one.entries[2] for one in sizes]
    rib = Rib.open(tmp_path / "a.rib")
    assert (len(rib), rib.memory().entries) == (found[-1]["most"], found[-1]["entries, most"])
    assert "no node 'oslo'" in str(run("rib", network, "--at", "oslo").exception)
    assert len(rows(run("rib", network, "--rule", "H3", "--json").output)) == 9
    assert "cannot be drawn" in str(
        run("trees", network, "--count", 1, "--plot", tmp_path / "no" / "a.png").exception
    )
    assert "seed" in str(run("rib", network, "--seed", 10**20).exception)
    assert "no placement" in str(run("rib", network, "--placement", "near").exception)


@pytest.mark.parametrize("command", ["trees", "stretch", "congestion"])
def test_pictures_are_drawn(command: str, network: Path, tmp_path: Path) -> None:
    found = run(command, network, "--count", 2, "--plot", tmp_path / "a.png")
    assert found.exit_code == 0, found.exception
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_bar_says_how_much_is_done(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    bar("nodes", 50, 100)
    assert "nodes ███████████████░░░░░░░░░░░░░░░  50%  50 of 100" in capsys.readouterr().err
