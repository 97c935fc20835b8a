"""The scripts that measure a GPU run on a CPU, too: what they compare and what they write down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.scale import dense, gpu, gpu_engines


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "results" / "gpu.jsonl"
    monkeypatch.setattr(gpu, "RESULTS", path)
    monkeypatch.setattr(gpu_engines, "WARM", 10)
    return path


@pytest.mark.parametrize(
    ("case", "size", "n_events", "kind"),
    [
        ("hem", 300, 60, "match"),
        ("ccm-counting", 300, 60, "match"),
        ("ccm-tiles", 300, 60, "match"),
        ("zipf-ordered", 300, 60, "match"),
        ("one", 300, 60, "one by one"),
        ("twigs", 30, 8, "match"),
        ("tags:peers:tagmatch:1000000", 300, 60, "match"),
        ("predicates:hem:tiles:1000000:width=0.5,event_size=12", 300, 60, "match"),
    ],
)
def test_predicates_and_twigs_are_compared_and_measured(
    results: Path, case: str, size: int, n_events: int, kind: str
) -> None:
    gpu_engines.run(case, size, n_events, "cpu")
    compared, *measured = map(json.loads, results.read_text().splitlines())
    assert compared["kind"] == "compared"
    assert compared["events"] == n_events
    assert [line["kind"] for line in measured] == [kind]
    assert measured[0]["size"] == size
    assert measured[0]["events"] == (n_events - 10 if case == "one" else n_events)
    if case == "twigs":
        assert measured[0]["xml_bytes"] > n_events * 20_000
    if kind == "match":
        assert measured[0]["to_one_cpu_thread"] > 0


def test_what_differs_from_the_cpu_ends_the_script(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled = gpu_engines.filled
    indexes = []

    def without_some(*given: object) -> object:
        indexes.append(filled(*given))
        return indexes[0].remove(0).consolidate() if len(indexes) == 1 else indexes[-1]

    monkeypatch.setattr(gpu_engines, "filled", without_some)
    monkeypatch.setitem(gpu_engines.N_ON_CPU, "predicates", 4000)
    with pytest.raises(SystemExit, match="keys, but"):
        gpu_engines.run("hem", 1, 4000, "cpu")


def test_dense_data_is_compared_by_the_algorithms_of_the_device() -> None:
    assert dense.fast("cpu") == ["rarest", "tagmatch", "prefix_tree"]
    assert dense.fast("gpu") == ["rarest", "tagmatch"]
