"""Scenarios on Spark have the outcomes that they have embedded, whatever the number of partitions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from matchyard.errors import UsageError
from matchyard.geo import ROUTINGS, from_points, save_mesh, uniform
from matchyard.geo.mesh_files import read_mesh
from matchyard.geo.scenario import Outcome, Scenario, baselines, cross, run_all
from matchyard.spark import geo
from tests.spark.test_connect import HERE, run_connect

SMALL = Scenario(nodes=300, side=7, size=4, requests=10, runs=2)
ROWS = [
    *cross(SMALL, routing=ROUTINGS),
    *baselines([SMALL]),
    SMALL._replace(workload="inline", recovery="face", rule="C1", band=2),
    SMALL._replace(workload="pair", rule="C0", seed=7, mesh_seed=2),
]


def sorted_rows(rows: Any) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: sorted((name, str(value)) for name, value in row.items()))


def test_outcomes_are_those_of_the_embedded_ones_with_a_task_for_each_row(spark: Any) -> None:
    told: list[tuple[int, int]] = []
    frame = geo.simulate(geo.scenarios(ROWS))
    task = F.spark_partition_id().alias("task")
    found = geo.collect(frame.select("*", task), lambda *counts: told.append(counts))
    if hasattr(DataFrame, "repartitionById"):  # from Spark 4.1 on
        assert sorted(found["task"].to_pylist()) == list(range(len(ROWS)))
        first = {row["routing"] for row in found.to_pylist() if row["task"] < 2}
        assert first == {"gsp", "dsp"}  # the heaviest are not left for the end
    assert sorted_rows(found.drop(["task"]).to_pylist()) == sorted_rows(run_all(ROWS))
    assert told[-1] == (len(ROWS), len(ROWS))
    assert all(0 <= done <= total for done, total in told)
    assert frame.columns == [*Scenario._fields, *Outcome._fields]
    assert frame.schema["nodes"].dataType.simpleString() == "bigint"
    assert frame.schema["congestion"].dataType.simpleString() == "double"


def test_a_mesh_from_a_file_and_columns_of_ones_own(spark: Any, tmp_path: Path) -> None:
    save_mesh(uniform(200, 6, 1, seed=5), tmp_path / "roofs.mesh")
    mesh = read_mesh(tmp_path / "roofs.mesh")
    rows = [("a", [1], 3, "T60", 1.0), ("b", [], 5, "C0", 2.5), ("b", None, 5, "C0", 2.5)]
    schema = "`my label` string, marks array<int>, size int, rule string, arc float"
    frame = spark.createDataFrame(rows, schema).withColumns(
        {"requests": F.lit(8).cast("short"), "runs": F.lit(2)}
    )
    for partitions in (1, 5):
        found = geo.simulate(frame.repartition(partitions), mesh)
        assert found.columns[:7] == frame.columns
        assert found.schema[2].dataType.simpleString() == "int"  # as it came
        parameters = [
            Scenario(size=size, requests=8, runs=2, rule=rule, arc=arc)
            for _, _, size, rule, arc in rows
        ]
        wanted = [
            {"my label": row[0], "marks": row[1], **outcome}
            for row, outcome in zip(rows, run_all(parameters, mesh), strict=True)
        ]
        assert sorted_rows(geo.collect(found).to_pylist()) == sorted_rows(wanted)


def test_no_scenarios_have_no_outcomes(spark: Any) -> None:
    found = geo.collect(geo.simulate(geo.scenarios([])))
    assert len(found) == 0
    assert found.column_names == [*Scenario._fields, *Outcome._fields]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"routing": "straight"}, "routing 'straight'; expected one of grd, gsp"),
        ({"recovery": "luck"}, "recovery 'luck'"),
        ({"rule": "T90"}, "rule 'T90'"),
        ({"arc": 0.0}, "arc 0.0"),
        ({"workload": "web"}, "workload is 'web'; expected one of: uniform"),
        ({"tree": "oak"}, "tree is 'oak'; expected one of: mst, star, flood"),
        ({"runs": 0}, "0 runs; expected at least 1"),
        ({"nodes": 0}, "0 nodes"),
        ({"r_i": 0.5}, "0.5"),
        ({"seed": None}, "a scenario has no seed; expected a value such as 1"),
        ({"nodes": "many"}, "no scenarios: .*many"),
    ],
)
def test_values_are_refused_before_a_task_runs(
    spark: Any, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        geo.simulate(geo.scenarios([SMALL._replace(**changed)], spark))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("'8' as nodes", "column 'nodes' is string; expected bigint, such as 80000"),
        ("1.5 as runs", "column 'runs' is decimal.* expected bigint"),
        ("'wide' as side", "column 'side' is string; expected double"),
        ("3 as rule", "column 'rule' is int; expected string, such as 'T60'"),
        ("1 as lost", "column 'lost' would come out twice"),
        ("1 as Runs", "column 'Runs'; parameters are in small letters: 'runs'"),
        ("1 as id", "two columns of the name 'id'"),
        ("make_ym_interval(1) as age", "column 'age' is interval"),
    ],
)
def test_columns_are_refused_before_a_task_runs(spark: Any, column: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        geo.simulate(spark.range(1).selectExpr("id", column))


def test_errors_of_tasks_and_streams_are_told_plainly(spark: Any) -> None:
    frame = geo.simulate(geo.scenarios([SMALL._replace(size=301)]))
    with pytest.raises(UsageError, match=r"^requests of 301 nodes among 300; expected 1 to 300$"):
        geo.collect(frame)
    stream = spark.readStream.format("rate").load()
    with pytest.raises(UsageError, match="scenarios are a stream"):
        geo.simulate(stream)


def test_an_interrupt_cancels_the_job(spark: Any) -> None:
    def interrupt(done: int, total: int) -> None:
        if total == 3:  # the tasks that simulate
            raise KeyboardInterrupt

    frame = geo.simulate(geo.scenarios([SMALL._replace(runs=10_000_000)] * 3))
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        geo.collect(frame, interrupt)
    assert time.perf_counter() - start < 60
    assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []


def test_a_worker_keeps_the_mesh_that_came_first() -> None:
    one, other = (from_points([(0, 0), (1, 0)], r_c=1) for _ in range(2))
    code = geo._code_of(one)
    assert code == geo._code_of(other) != geo._code_of(from_points([(0, 0), (1, 0)], r_c=2))
    assert geo._kept(geo._Carried(one, code)) is geo._kept(geo._Carried(other, code)) is one


@pytest.mark.slow
def test_outcomes_are_the_same_in_connect() -> None:
    pytest.importorskip("grpc", reason="needs pyspark[connect]")
    found = run_connect(HERE / "connect_geo.py")
    assert sorted_rows(found["rows"]) == sorted_rows(run_all(ROWS))
    if hasattr(DataFrame, "repartitionById"):  # from Spark 4.1 on
        assert found["tasks"] == list(range(len(ROWS)))
    assert found["told"][-1] == [len(ROWS), len(ROWS)]
    assert (
        found["mesh"]
        == pa.Table.from_pylist(list(run_all([SMALL], uniform(200, 6, 1)))).to_pylist()
    )
    assert found["error"] == "requests of 301 nodes among 300; expected 1 to 300"
    assert found["interrupted_s"] < 60
