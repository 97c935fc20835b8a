"""A stream takes one version per micro-batch, sets bad events aside, and can be watched."""

from __future__ import annotations

import os
import re
import time
import urllib.error
import urllib.request
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import matchyard as my
from matchyard import shards
from matchyard import spark as ms
from tests.spark.frames import TAGS, found

SCHEMA = "id bigint, tags array<string>"


class Feed:
    """A folder of event files that a stream reads, one file per micro-batch."""

    def __init__(self, spark, folder: Path) -> None:
        self.folder, self.index = folder / "in", folder / "a.index"
        self.folder.mkdir()
        my.TagIndex().add("jazz", 1).add("rock", 2).save(self.index)
        self.n_files = 0
        self.frame = (
            spark.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.folder))
        )

    def put(self, *rows) -> None:
        ids = range(10 * self.n_files, 10 * self.n_files + len(rows))
        table = pa.table({"id": pa.array(ids), "tags": pa.array(rows, TAGS)})
        hidden = self.folder / f".{self.n_files}"
        pq.write_table(table, hidden)
        os.rename(hidden, self.folder / f"{self.n_files:04}.parquet")
        self.n_files += 1


@pytest.fixture
def feed(spark, tmp_path):
    return Feed(spark, tmp_path)


def run(matched, folder, name, write=None):
    writer = matched.writeStream.option("checkpointLocation", str(folder / f"{name}.checkpoint"))
    if write is None:
        writer = writer.format("parquet").option("path", str(folder / name))
    else:
        writer = writer.foreachBatch(write)
    return writer.queryName(name).start()


@pytest.mark.parametrize("strategy", ["replicated", "sharded"])
def test_a_new_version_is_taken_by_the_next_micro_batch(spark, feed, tmp_path, strategy):
    feed.put(["jazz"], ["rock"])
    matched = ms.match(feed.frame, feed.index, follow=True, version=True, strategy=strategy)
    query = run(matched, tmp_path, "out")
    query.processAllAvailable()
    my.open(feed.index).add("jazz", 3).save(feed.index)
    feed.put(["jazz"])
    query.processAllAvailable()
    query.stop()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row.id, row.key, row.version) for row in rows) == [
        (0, 1, 1), (1, 2, 1), (10, 1, 2), (10, 3, 2),
    ]  # fmt: skip


def test_without_follow_the_version_of_the_plan_stays(spark, feed, tmp_path):
    feed.put(["jazz"])
    query = run(ms.match(feed.frame, feed.index), tmp_path, "out")
    query.processAllAvailable()
    for key in (3, 4, 5):
        my.open(feed.index).add("jazz", key).save(feed.index)
    assert (feed.index / "versions" / "0001").exists()  # since the stream still needs it
    feed.put(["jazz"])
    query.processAllAvailable()
    query.stop()
    result = spark.read.parquet(str(tmp_path / "out"))
    assert result.columns == ["id", "key"]
    assert found(result) == {(0, 1): 1, (10, 1): 1}


def test_a_replayed_batch_takes_the_version_it_had(spark, feed, tmp_path):
    """The sink fails after the first batch was matched; three versions later it is run again."""
    feed.put(["jazz"])
    seen = []

    def fail_once(batch, number):
        seen.append(sorted((row.key, row.version) for row in batch.collect()))
        if len(seen) == 1:
            raise RuntimeError("the sink is down")

    def start():
        matched = ms.match(feed.frame, feed.index, follow=True, version=True)
        return run(matched, tmp_path, "out", fail_once)

    query = start()
    with pytest.raises(Exception, match="the sink is down"):
        query.processAllAvailable()
    for key in (3, 4, 5):
        my.open(feed.index).add("jazz", key).save(feed.index)
    assert shards.current_version(feed.index) == "0004"
    query = start()
    query.processAllAvailable()
    feed.put(["jazz"])
    query.processAllAvailable()
    query.stop()
    assert seen == [[(1, 1)], [(1, 1)], [(1, 4), (3, 4), (4, 4), (5, 4)]]


def test_a_version_with_keys_of_another_type_is_refused(spark, feed, tmp_path):
    feed.put(["jazz"])
    query = run(ms.match(feed.frame, feed.index, follow=True), tmp_path, "out")
    query.processAllAvailable()
    my.TagIndex().add("jazz", "ada").save(feed.index)
    feed.put(["jazz"])
    with pytest.raises(
        Exception, match=r"version 0002 of .* has keys of another type than version"
    ):
        query.processAllAvailable()


def test_a_stream_can_match_twice_with_one_index(spark, feed, tmp_path):
    feed.put(["jazz"], ["rock"])
    once, again = (ms.match(feed.frame, feed.index) for _ in range(2))
    query = run(once.union(again), tmp_path, "out")
    query.processAllAvailable()
    query.stop()
    assert found(spark.read.parquet(str(tmp_path / "out"))) == {(0, 1): 2, (1, 2): 2}


def test_versions_can_be_recorded_elsewhere(spark, feed, tmp_path):
    feed.put(["jazz"])
    shared = tmp_path / "shared"
    query = run(ms.match(feed.frame, feed.index, follow=str(shared)), tmp_path, "out")
    query.processAllAvailable()
    query.stop()
    [record] = (shared / "streams").glob("*/*")
    assert (record.name, record.read_text()) == ("000000000", "0001\n")
    assert not (feed.index / "streams").exists()


def test_bad_events_go_to_the_dead_letters_and_the_stream_goes_on(spark, feed, tmp_path):
    feed.put(["jazz"], None)
    feed.put(["rock", None], ["rock"])
    matched = ms.match(feed.frame, feed.index, bad="keep", output="arrays")
    write = ms.to_files(str(tmp_path / "pairs"), dead_letters=str(tmp_path / "bad"))
    query = run(matched, tmp_path, "out", write)
    query.processAllAvailable()
    query.stop()
    pairs = spark.read.parquet(str(tmp_path / "pairs"))
    assert pairs.columns == ["id", "keys", "batch"]
    assert found(pairs) == {(0, 1): 1, (11, 2): 1}
    letters = {row.id: row for row in spark.read.parquet(str(tmp_path / "bad")).collect()}
    assert sorted(letters) == [1, 10]
    assert "not a set of tags: None" in letters[1].reason
    assert {letters[1].batch, letters[10].batch} == {0, 1}  # files of one moment come in any order


def test_a_batch_that_is_written_again_replaces_itself(spark, tmp_path):
    write = ms.to_files(str(tmp_path / "pairs"))
    frame = spark.createDataFrame([(1, 2)], "id int, key int")
    for _ in range(2):
        write(frame, 7)
    assert spark.read.parquet(str(tmp_path / "pairs")).count() == 1
    with pytest.raises(my.UsageError, match="the files have a column 'batch' of their own"):
        write(frame.withColumnRenamed("id", "batch"), 0)
    with pytest.raises(my.UsageError, match="bad='keep'"):
        ms.to_files("pairs", dead_letters="bad")(frame, 0)


def test_a_listener_counts_and_serves_what_streams_do(spark, feed, tmp_path, capsys):
    progress = ms.Progress(console=True)
    spark.streams.addListener(progress)
    try:
        feed.put(["jazz"], ["rock"], None)
        feed.put(["jazz", "rock"])
        query = run(ms.match(feed.frame, feed.index, bad="keep"), tmp_path, 'the "one"')
        query.processAllAvailable()
        query.stop()
        address = progress.serve()
        for _ in range(100):  # listeners hear of a batch a little later
            if sum(sample.batches for sample in progress.samples.values()) == 2:
                break
            time.sleep(0.1)
        [sample] = progress.samples.values()
        assert (sample.total_events, sample.total_matches, sample.total_bad) == (4, 4, 1)
        assert (sample.batch, sample.version) == (1, 1)
        with urllib.request.urlopen(address) as answer:
            text = answer.read().decode()
        assert 'matchyard_matches_total{query="the \\"one\\""} 4\n' in text
        assert "# TYPE matchyard_batch_seconds gauge" in text
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(address + "/else")
        assert re.search(
            "batch [01]: 3 events in .*, 2 matches .*, 1 bad, index version 1",
            capsys.readouterr().err,
        )
    finally:
        spark.streams.removeListener(progress)
        progress.close()
