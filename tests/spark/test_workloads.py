"""Workloads on Spark: the rows of the embedded generators, whatever the number of partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import matchyard as my
from matchyard.spark import workloads
from matchyard.spark.workloads import _ranges, checksum
from tests.spark.test_connect import HERE, run_connect

NAMES = [
    "twitter", "twitter-popular", "peers", "skew",
    "active-web", "blog-posts", "video", "short-messages", "bittorrent", "icn",
]  # fmt: skip
SIZE = 600


def embedded(spark: Any, name: str, size: int = SIZE, seed: int = 1) -> Any:
    """The subscriptions as the library makes them without Spark."""
    tags, keys = my.workload("tags", name, size, seed).subscriptions(0, size)
    return spark.createDataFrame(pa.table({"tags": tags, "key": keys}))


@pytest.mark.parametrize("name", NAMES)
def test_spark_makes_the_rows_of_the_embedded_generator(spark: Any, name: str) -> None:
    made = workloads.subscriptions(name, SIZE, partitions=8)
    assert made.schema.simpleString() == "struct<tags:array<string>,key:bigint>"
    assert checksum(made) == checksum(embedded(spark, name))
    events = my.workload("tags", name, SIZE).events(100).to_pylist()
    rows = workloads.events(name, SIZE, 100, partitions=2).collect()
    assert {row.id: row.tags for row in rows} == dict(enumerate(events))


@pytest.mark.parametrize(
    ("engine", "name", "parameters"),
    [
        ("predicates", "hem", {"width": 0.5}),
        ("predicates", "ccm", {}),
        ("twigs", "dblp", {"document_bytes": 2000}),
        ("twigs", "dblp", {"distinct": False, "tests": 0.5}),
    ],
)
def test_other_engines_have_the_rows_of_their_generators(
    spark: Any, engine: str, name: str, parameters: dict[str, Any]
) -> None:
    source = my.workload(engine, name, 90, 2, parameters)
    index = my.create(engine)
    values, keys = source.subscriptions(0, 90)
    texts = dict(zip(keys.tolist(), index.texts(values).to_pylist(), strict=True))
    table = workloads.subscriptions(name, 90, 2, spark, 7, engine, parameters).toArrow()
    made = index.texts(table[index.subscription_column])
    assert dict(zip(table["key"].to_pylist(), made.to_pylist(), strict=True)) == texts
    table = workloads.events(name, 90, 30, 2, spark, 7, engine, parameters).toArrow()
    made = table[index.event_column or "event"].to_pylist()
    asked = source.events(30).to_pylist()
    assert dict(zip(table["id"].to_pylist(), made, strict=True)) == dict(enumerate(asked))


def test_the_checksum_is_the_same_with_1_8_and_20_partitions(spark: Any) -> None:
    made = {n: workloads.subscriptions("icn", SIZE, partitions=n) for n in (1, 8, 20)}
    assert len({checksum(frame) for frame in made.values()}) == 1
    assert checksum(made[8]) != checksum(workloads.subscriptions("icn", SIZE, seed=2))
    twigs = [workloads.subscriptions("dblp", 99, partitions=n, engine="twigs") for n in (1, 8)]
    assert checksum(twigs[0]) == checksum(twigs[1]) != 0


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_workload_is_the_same_with_1_8_and_200_partitions(spark: Any, name: str) -> None:
    asked = [workloads.subscriptions(name, SIZE, 1, spark, n) for n in (1, 8, 200)]
    assert len({checksum(frame) for frame in asked}) == 1
    events = [workloads.events(name, SIZE, SIZE, 1, spark, n) for n in (1, 8, 200)]
    assert len({checksum(frame) for frame in events}) == 1


def test_rows_do_not_depend_on_batches_that_follow_each_other() -> None:
    assert list(_ranges(np.array([4, 5, 6, 9, 2, 3]))) == [(4, 7), (9, 10), (2, 4)]
    assert list(_ranges(np.arange(15_000))) == [(0, 10_000), (10_000, 15_000)]


@pytest.mark.parametrize("kind", ["users", "publishers", "tweets"])
def test_the_people_of_twitter_are_those_of_the_embedded_workload(spark: Any, kind: str) -> None:
    table = getattr(my.workload("tags", "twitter", SIZE, 3), kind)()
    for partitions in (1, 8):
        made = getattr(workloads, kind)(SIZE, seed=3, partitions=partitions)
        assert made.columns == table.column_names
        assert checksum(made) == checksum(spark.createDataFrame(table))


def test_a_checksum_sees_every_row_and_no_order(spark: Any) -> None:
    rows = [(["a", "b"], 1), (["a"], 2), (["a"], 2)]
    schema = "tags array<string>, key bigint"
    sums = {
        checksum(spark.createDataFrame(some, schema))
        for some in (rows, rows[:2], [(["b", "a"], 1), *rows[1:]], [(["a", "b"], 3), *rows[1:]])
    }
    assert len(sums) == 4
    turned = spark.createDataFrame(rows[::-1], schema).repartition(3)
    assert checksum(turned) in sums
    assert checksum(turned.limit(0)) == 0


def test_traces_become_what_the_engine_makes_of_them(spark: Any) -> None:
    traces = embedded(spark, "skew", 50).selectExpr("tags", "key as who", "key * 7 as place")
    made = workloads.from_traces(traces.repartition(5), seed=2, key="who", row="place")
    tags, keys = my.workload("tags", "skew", 50).subscriptions(0, 50)
    copies, spoken = my.workload("tags", "icn", 1, seed=2).expand(tags, 7 * keys)
    expected = pa.table({"tags": copies, "key": np.repeat(keys, 12), "language": spoken})
    assert made.columns == expected.column_names
    assert checksum(made) == checksum(spark.createDataFrame(expected))


def test_traces_have_the_same_copies_in_any_partition_and_order(spark: Any) -> None:
    traces = embedded(spark, "twitter", 200)
    made = [
        workloads.from_traces(frame, languages=3, factor=2)
        for frame in (traces.repartition(1), traces.repartition(8), traces.orderBy("key"))
    ]
    assert len({checksum(frame) for frame in made}) == 1
    assert made[0].count() == 400
    other = workloads.from_traces(traces, seed=2, languages=3, factor=2)
    assert checksum(other) != checksum(made[0])


def test_traces_may_have_keys_of_any_type_and_no_tags(spark: Any) -> None:
    rows = [(["jazz", None, "jazz"], "ada"), ([], "bo"), (None, None)]
    traces = spark.createDataFrame(rows, "tags array<string>, key string")
    made = workloads.from_traces(traces, languages=1).collect()
    found = {row.key: [tag.rpartition("_")[2] for tag in row.tags] for row in made}
    assert found == {"ada": ["jazz"], "bo": [], None: []}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tags": "key"}, "'key' is bigint; expected array<string>"),
        ({"tags": "words"}, "'words' is None; expected"),
        ({"factor": 0}, "at least 1"),
        ({"languages": 26}, "expected 1 to 25"),
    ],
)
def test_impossible_traces_are_refused(spark: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(my.UsageError, match=message):
        workloads.from_traces(embedded(spark, "skew", 5), **options)


def test_a_workload_that_does_not_exist_is_refused_on_the_driver(spark: Any) -> None:
    with pytest.raises(my.UsageError, match="no tags workload"):
        workloads.subscriptions("nothing", 10)
    with pytest.raises(my.UsageError, match="no tags workload"):
        workloads.events("nothing", 10, 10)


@pytest.mark.slow
def test_workloads_are_the_same_in_connect(spark: Any, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="needs pyspark[connect]")
    assert run_connect(HERE / "connect_workloads.py", str(tmp_path)) == {
        "subscriptions": checksum(embedded(spark, "icn")),
        "users": 200,
        "traces": 1200,
        "topics": 50,
    }
