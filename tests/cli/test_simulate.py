"""`matchyard route simulate` and `trace`: notifications over a network in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import matchyard as my
from matchyard.cli import app
from matchyard.routing import generate, grow, register_workload

runner = CliRunner()


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("networks") / "network.txt"
    path.write_text("".join(f"{a} {b}\n" for a, b in generate("grid", 9).ends()))
    return path


def run(*arguments: object) -> Any:
    return runner.invoke(app, ["route", *map(str, arguments)])


def found(*arguments: object) -> dict[str, Any]:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.exception
    [line] = [line for line in done.output.splitlines() if line.startswith("{")]
    row: dict[str, Any] = json.loads(line)
    return row


SMALL = ("--count", 2, "--size", 1200, "--events", 300, "--at", 4, "--at", 0)


@pytest.mark.parametrize("descriptors", ["tags", "bloom"])
def test_both_ways_say_the_same(network: Path, descriptors: str) -> None:
    given = ("simulate", network, *SMALL, "--descriptors", descriptors)
    by_subtree, by_hops = found(*given), found(*given, "--by", "hops")
    assert by_subtree == by_hops
    assert by_subtree["notifications"] == 300
    assert (by_subtree["trees"], by_subtree["different_trees"]) == (2, 2)
    assert by_subtree["deliveries"] >= by_subtree["wanted"] > 200
    assert ("false_forwards" in by_subtree) == (descriptors == "bloom")
    if descriptors == "tags":
        topology = my.topology(network)
        registered = register_workload(my.workload("tags", "icn", 1200), topology)
        size = registered.table(topology, grow(topology, "LC", 2), topology.node("4")).memory()
        assert [one["node"] for one in by_subtree["tables"]] == ["4", "0"]
        assert by_subtree["tables"][0]["filters"] == size.filters


def test_links_delay_and_lose_copies(network: Path, tmp_path: Path) -> None:
    given = ("simulate", network, *SMALL)
    plain, same = found(*given), found(*given, "--delay", 1)
    assert plain == same
    assert found(*given, "--delay", "weights") == plain
    assert found(*given, "--delay", 2.5)["last_time"] == 2.5 * plain["last_time"]
    lossy = found(*given, "--loss", 0.2, "-o", tmp_path / "out")
    assert lossy["lost"] > 0
    assert lossy["missed"] + lossy["deliveries"] == plain["deliveries"]
    assert pq.read_table(tmp_path / "out" / "losses.parquet").num_rows == lossy["lost"]
    assert pq.read_table(tmp_path / "out" / "deliveries.parquet").num_rows == lossy["deliveries"]
    assert sum(pq.read_table(tmp_path / "out" / "load.parquet")["packets"].to_pylist()) == lossy["copies"]  # fmt: skip
    assert found(*given, "--loss", 0.2, "--resends", 9)["missed"] == 0
    queued = found(*given, "--rate", 1, "--queue", 0)
    assert queued["lost"] > 0


def test_a_table_for_people_and_a_picture(network: Path, tmp_path: Path) -> None:
    done = run("simulate", network, *SMALL, "--loss", 0.1, "--plot", tmp_path / "a.png")
    assert done.exit_code == 0, done.exception
    assert "300 notifications" in done.output
    assert "copies lost" in done.output
    assert "stretch of a delivery" in done.output
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    large = tmp_path / "large.txt"
    large.write_text("".join(f"{a} {b}\n" for a, b in generate("grid", 400).ends()))
    done = run("simulate", large, *SMALL, "--plot", tmp_path / "b.png", "--descriptors", "bloom")
    assert "went astray by Bloom filters" in done.output, done.exception
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")


TRACE = ("--register", "jazz live@8=ada", "--register", "rock@0=bob", "--count", 2)


def test_a_trace_says_where_a_notification_stops(network: Path) -> None:
    for_ada = ("trace", network, *TRACE, "--at", 0, "--key", "ada")
    done = run(*for_ada, "--tags", "jazz live oslo", "--tree", 1)
    assert "arrives: 'ada' wants {jazz, live}" in done.output, done.exception
    done = run(*for_ada, "--tags", "jazz")
    assert "missing tag: live" in done.output
    traced = found(*for_ada, "--tags", "jazz live", "--descriptors", "bloom")
    assert traced["arrives"]
    assert [traced["hops"][0]["node"], traced["hops"][-1]["node"]] == ["0", "8"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["simulate", "--by", "chance"], "--by chance; expected subtree or hops"),
        (["simulate", "--descriptors", "x"], "expected tags or bloom"),
        (["simulate", "--delay", "far"], "--delay far; expected a number, or weights"),
        (["simulate", "--at", "oslo"], "no node 'oslo'"),
        (["simulate", "--rate", "0"], "rate of 0"),
        (["trace", "--register", "jazz", "--tags", "a", "--at", "0", "--key", "ada"], "--register jazz"),
        (["trace", "--register", "a@0=ada", "--tags", "a", "--at", "0", "--key", "ada", "--tree", "9"], "tree 9"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(network: Path, arguments: list[str], reason: str) -> None:
    command, *rest = arguments
    done = run(command, network, "--count", 2, *rest)
    assert isinstance(done.exception, my.UsageError), done.output
    assert reason in str(done.exception)
