"""`matchyard bench spark`: every way finds the same pairs, and one that does not is found out."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import matchyard as my
from matchyard.bench import Result, compare
from matchyard.bench.compare import spark_jobs
from matchyard.cli import app

runner = CliRunner()
SMALL = ["--size", "500", "--events", "200", "--common", "100", "--passes", "1"]


def bench(*arguments: str) -> Any:
    return runner.invoke(app, ["bench", "spark", *SMALL, *arguments])


def test_all_ways_find_the_pairs_of_the_embedded_index(spark: Any, tmp_path: Path) -> None:
    plot = tmp_path / "bench.png"
    done = bench("--json", "--plot", str(plot))
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["algorithm"] for row in rows] == spark_jobs.usable_ways(print)
    (embedded,) = compare("tags", "twitter", 500, n_events=100, passes=1)
    for row in rows:
        assert tuple(row) == Result._fields
        assert (row["engine"], row["form"], row["device"]) == ("spark", "parquet", "cpu")
        assert (row["checked"], row["checksum"]) == (100, embedded.checksum)
        assert row["events_per_s"] > 0
    assert [row["events"] for row in rows] == [200, *[100] * (len(rows) - 1)]
    assert {row["matches"] for row in rows[1:]} == {embedded.matches}
    assert rows[0]["matches"] > embedded.matches
    assert rows[0]["build_s"] > 0
    assert 0 < rows[0]["index_bytes"] == embedded.index_bytes
    assert plot.stat().st_size > 1000
    assert spark.range(3).count() == 3  # the session was not ours, so it still runs


def test_a_way_that_loses_a_pair_is_found_out(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(subscriptions: Any, events: Any) -> Any:
        return spark_jobs.explode_join(subscriptions, events).where("id <> 7")

    monkeypatch.setitem(spark_jobs.WAYS, "wrong", partial(spark_jobs._joined, wrong))
    done = bench("--algorithms", "matchyard_arrays,wrong")
    assert done.exit_code == 1
    assert "wrong found other matches than matchyard_arrays" in done.stderr
    assert "same matches on 100 events: no" in " ".join(done.stdout.split())


def test_subscriptions_that_are_equal_are_pairs_of_their_own(spark: Any, tmp_path: Path) -> None:
    class Twice(my.workload("tags", "peers", 40).__class__):  # type: ignore[misc]
        def subscriptions(self, start: int, stop: int) -> Any:
            tags, keys = super().subscriptions(0, 2)  # rows 0 and 1 again and again
            return tags.take([row % 2 for row in range(start, stop)]), keys[[0] * (stop - start)]

    source = Twice("peers", 40, 1)
    inputs = spark_jobs.write_inputs(source, tmp_path, 8, 4, 2)
    found = set()
    for name in ["matchyard_arrays", *spark_jobs.usable_ways(print)]:
        prepared = spark_jobs.WAYS[name](spark, inputs, tmp_path / name, 2, None)
        way = prepared.way
        pairs = way.collect(inputs.events)
        assert len(pairs) == way.count(inputs.events) >= 20
        prepared.close()
        found.add(tuple(sorted(zip(pairs["id"].to_pylist(), pairs["key"].to_pylist()))))
    assert len(found) == 1


def test_files_are_of_one_size_and_hold_every_row(tmp_path: Path) -> None:
    source = my.workload("tags", "peers", 100)
    inputs = spark_jobs.write_inputs(source, tmp_path, 30, 3, 4)
    sizes = [pq.read_metadata(file).num_rows for file in sorted(Path(inputs.events).iterdir())]
    assert sizes == [7, 8, 7, 8]
    assert pq.read_table(inputs.events)["id"].to_pylist() == list(range(30))
    assert pq.read_table(inputs.subscriptions)["row"].to_pylist() == list(range(100))
    assert pq.read_table(inputs.common)["tags"].to_pylist() == source.events(3).to_pylist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algorithms", "nothing"], "no way 'nothing' in Spark"),
        (["--device", "gpu"], "the device is cpu"),
        (["--form", "json"], "events come from parquet"),
    ],
)
def test_what_makes_no_sense_in_spark_is_refused(arguments: list[str], message: str) -> None:
    assert message in str(bench(*arguments).exception)
