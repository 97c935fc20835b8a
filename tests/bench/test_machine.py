"""Processes that build side by side measure one at a time, and say what they measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from matchyard.bench.compare import machine

CHILD = """
from matchyard.bench.compare import machine
print("started", flush=True)
with machine.alone():
    print("alone", flush=True)
"""


def test_who_measures_waits_for_who_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATCHYARD_ALONE", str(tmp_path / "lock"))
    with machine.alone():
        child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "started\n"
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.5)
    assert child.stdout.readline() == "alone\n"
    assert child.wait(60) == 0
    child.stdout.close()


def test_without_a_file_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MATCHYARD_ALONE", raising=False)
    monkeypatch.chdir(tmp_path)
    with machine.alone(), machine.alone():  # with a file, the second would wait for the first
        assert list(tmp_path.iterdir()) == []


def test_a_result_that_was_written_makes_no_commit_dirty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert machine.describe()["commit"] == "unknown"
    for name in ("src/code.py", "results/lines.jsonl"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("1")
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for given in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *given], check=True)
    clean = machine.describe()["commit"]
    (tmp_path / "results" / "lines.jsonl").write_text("2")
    assert machine.describe()["commit"] == clean
    (tmp_path / "src" / "more.py").write_text("3")
    monkeypatch.chdir(tmp_path / "results")
    assert machine.describe()["commit"] == f"{clean}-dirty"
