"""An index that several processes have built finds what one that was built at once finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.scale.parallel_build import Job, build
from tests.cases import counted

import matchyard as my
from matchyard import shards

pytestmark = [
    pytest.mark.usefixtures("quick_saves"),
    # Threads that other tests have left do not matter to processes that never ask them.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def at_once(source: Any, algorithm: str, options: dict[str, Any]) -> my.TagIndex:
    tags, keys = source.subscriptions(0, source.size)
    return my.TagIndex(algorithm, options).add_many(tags, keys).consolidate()  # type: ignore[return-value]


@pytest.mark.parametrize("workload", ["twitter", "peers", "skew"])
@pytest.mark.parametrize(
    ("algorithm", "options"),
    [("rarest", {"leaf": 2}), ("tagmatch", {"max_partition": 20}), ("scan", {})],
)
def test_it_finds_what_one_process_finds(
    tmp_path: Path, workload: str, algorithm: str, options: dict[str, Any]
) -> None:
    plan = shards.Plan("tags", algorithm, options)
    seconds = build(tmp_path / "an.index", Job(workload, 3000, plan, 3, tmp_path / "parts"))
    index, source = my.open(tmp_path / "an.index"), my.workload("tags", workload, 3000)
    events = source.events(300)
    assert counted(index.match(events)) == counted(at_once(source, "rarest", {}).match(events))
    assert index.info()["tables"] == (3 if algorithm == "scan" else 1)
    assert ("join_s" in seconds) == (algorithm != "scan")
    assert not (tmp_path / "parts").exists()


def test_keys_may_be_made_of_those_there_are(tmp_path: Path) -> None:
    job = Job("peers", 200, shards.Plan(), 2, tmp_path / "parts", np.negative)
    build(tmp_path / "an.index", job)
    source = my.workload("tags", "peers", 200)
    events = source.events(50)
    wanted = at_once(source, "rarest", {}).match(events)
    found = my.open(tmp_path / "an.index").match(events)
    assert sorted((-found.keys).tolist()) == sorted(wanted.keys.tolist())
