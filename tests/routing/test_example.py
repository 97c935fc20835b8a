"""The example on a map of Rocketfuel runs, and delivers to those who asked."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest

from matchyard.routing import generate

EXAMPLE = Path(__file__).parents[2] / "examples" / "isp_routing.py"
MAP = Path(os.environ.get("MATCHYARD_DATA", ""), "topology/rocketfuel/1755.r0.cch.gz")


def run(path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    runpy.run_path(str(EXAMPLE))["main"](str(path), 2)
    return capsys.readouterr().out.splitlines()


def check(lines: list[str]) -> None:
    wants = {line.split()[0] for line in lines if "jazz" in line and " wants " in line}
    trees = [line for line in lines if line.startswith("tree ")]
    assert len(trees) == 2
    for line in trees:
        reached = line.split(": ")[2].split(" hops;")[0].split(", ")
        assert {one.split()[0] for one in reached} == wants
    assert lines[-1].startswith("reply by a label of")


def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "network.txt"
    path.write_text("".join(f"r{a} r{b}\n" for a, b in generate("barabasi-albert", 30).ends()))
    check(run(path, capsys))


@pytest.mark.data
@pytest.mark.skipif(not MAP.exists(), reason="needs maps of Rocketfuel in MATCHYARD_DATA")
def test_the_example_runs_on_a_map(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(MAP, capsys)
    assert "172 routers" in lines[0]
    check(lines)
