"""Plans and running jobs keep the version of the index that they began with."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import matchyard as my
from matchyard import shards
from matchyard.spark import append, build, match
from matchyard.spark.leases import has_long_jobs
from matchyard.storage import leases
from tests.spark.frames import TAGS, found, subscriptions


def test_a_batch_plan_keeps_its_version_whatever_is_published(spark, tmp_path):
    path = tmp_path / "a.index"
    build(subscriptions(spark, [["a"]], [1]), path)
    events = spark.createDataFrame(pa.table({"id": [0], "tags": pa.array([["a", "b"]], TAGS)}))
    plan = match(events, path)
    derived = match(events, path).select("id", "key")
    for number in range(10):
        append(
            spark.createDataFrame(
                pa.table({"key": [number], "tags": pa.array([["b"]], TAGS), "change": ["add"]})
            ),
            path,
        )
    assert found(plan) == found(derived) == {(0, 1): 1}
    assert len(match(events, path).collect()) == 11


@contextmanager
def running(plan: Any, folder: Path) -> Iterator[Any]:
    """A job in another thread, whose rows `held_up` holds back until the end of the block."""
    with ThreadPoolExecutor(1) as pool:
        counted = pool.submit(plan.collect)
        try:
            while not (folder / "began").exists():
                assert not counted.done()
                time.sleep(0.02)
            yield counted
            assert not counted.done()
        finally:
            (folder / "go").touch()


def held_up(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as they are; every batch after the first waits until the file `go` exists."""
    for batch in batches:
        yield batch
        Path(folder, "began").touch()
        while not Path(folder, "go").exists():
            time.sleep(0.02)


def test_a_running_job_keeps_its_version_whatever_is_published(spark, tmp_path):
    path = tmp_path / "a.index"
    build(subscriptions(spark, [["a"]], [1]), path)
    assert leases._names(path) == []
    rows = spark.range(0, 40_000, 1, 4).selectExpr("id", "array('a', 'b') AS tags")
    slow = rows.mapInArrow(partial(held_up, str(tmp_path)), rows.schema)
    plan = match(slow, path, version=True).groupBy("key", "version").count()
    with running(plan, tmp_path) as counted:
        assert len(leases._names(path)) == 1  # for all tasks
        for number in range(10):
            my.open(path).add("b", 100 + number).save(path)
    assert [tuple(row) for row in counted.result()] == [(1, 1, 40_000)]
    assert shards.current_version(path) == "0011"
    versions = sorted(entry.name for entry in (path / "versions").iterdir())
    assert versions == ["0001", "0010", "0011"]  # the job's, and the two newest


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> float:
    """Leases that run out after a moment, for this process; workers keep the usual times."""
    monkeypatch.setattr(leases, "LEASE_S", 2.0)
    monkeypatch.setattr(leases, "_RENEW_S", 0.2)
    monkeypatch.setattr(leases.renew, "__defaults__", (2.0,))
    return 2.0


def publish_again(path: Path) -> list[str]:
    """Publish three versions; returns those that are there then."""
    for _ in range(3):
        my.open(path).add("z", 9).save(path)
    return sorted(entry.name for entry in (path / "versions").iterdir())


def wait_renewing(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.2)
        leases.renew_held()  # as its thread does now and then


def test_the_driver_renews_the_leases_of_its_plans(spark, tmp_path, quick):
    path = tmp_path / "a.index"
    build(subscriptions(spark, [["a"]], [1]), path)
    events = spark.createDataFrame(pa.table({"id": [0], "tags": pa.array([["a"]], TAGS)}))
    plan = match(events, path)
    wait_renewing(quick + 0.5)
    assert publish_again(path) == ["0001", "0003", "0004"]
    assert found(plan) == {(0, 1): 1}
    shards.release(next(use for use in leases._process.held if use.path == str(path)))
    (path / "leases" / next(iter(leases._names(path)))).unlink()  # which the job's tasks renewed
    wait_renewing(quick + 0.5)
    assert publish_again(path) == ["0006", "0007"]


def test_a_long_job_of_a_derived_frame_keeps_its_version(spark, tmp_path, quick):
    path = tmp_path / "a.index"
    build(subscriptions(spark, [["a"]], [1]), path)
    rows = spark.range(0, 40_000, 1, 4).selectExpr("id", "array('a', 'b') AS tags")
    slow = rows.mapInArrow(partial(held_up, str(tmp_path)), rows.schema).repartition(2)
    plan = match(slow, path).groupBy("key").count()  # nobody holds what `match` returned
    gc.collect()
    with running(plan, tmp_path) as counted:
        wait_renewing(quick + 0.5)  # no task matches yet
        assert publish_again(path) == ["0001", "0003", "0004"]
    assert [tuple(row) for row in counted.result()] == [(1, 40_000)]
    assert not has_long_jobs()


def test_a_stream_that_does_not_follow_keeps_its_version_before_it_begins(spark, tmp_path, quick):
    path = tmp_path / "a.index"
    build(subscriptions(spark, [["a"]], [1]), path)
    (tmp_path / "in").mkdir()
    events = spark.readStream.schema("id bigint, tags array<string>").parquet(str(tmp_path / "in"))
    matched = match(events, path)
    wait_renewing(quick + 0.5)
    assert publish_again(path) == ["0001", "0003", "0004"]
    spark.createDataFrame([(0, ["a", "z"])], "id bigint, tags array<string>").write.mode(
        "append"
    ).parquet(str(tmp_path / "in"))
    query = (
        matched.writeStream.format("memory").queryName("kept").trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "state")).start()
    )  # fmt: skip
    query.awaitTermination()
    assert found(spark.table("kept")) == {(0, 1): 1}


def test_a_plan_does_not_answer_from_another_index_at_its_path(spark, tmp_path):
    path = tmp_path / "a.index"
    build(subscriptions(spark, [["a"]], [1]), path)
    events = spark.createDataFrame(pa.table({"id": [0], "tags": pa.array([["a"]], TAGS)}))
    plan: Any = match(events, path)
    path.rename(tmp_path / "old.index")
    build(subscriptions(spark, [["a"]], [777]), path)
    with pytest.raises(Exception, match="another index was built at this path"):
        plan.collect()
