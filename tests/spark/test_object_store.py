"""Everything works with an index, subscriptions and events in an object store."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import matchyard as my
from matchyard import shards
from matchyard import spark as ms
from matchyard.storage import leases
from matchyard.storage.object_store import Remote
from tests.spark.change_feeds import applied, drawn, feed, in_index
from tests.spark.frames import EVENTS, ROWS, TAGS, events, found, subscriptions, wanted


@pytest.fixture
def bucket(store: str, tmp_path: Path) -> Any:
    """A function that makes addresses in a bucket, which workers reach without settings of their own."""
    name = tmp_path.name.replace("_", "-").lower()
    query = f"scheme=http&endpoint_override={store}&region=us-east-1&allow_bucket_creation=true"
    files, _ = fs.FileSystem.from_uri(f"s3://key:secret@{name}?{query}")
    files.create_dir(name)
    return lambda path: f"s3://key:secret@{name}/{path}?{query}"


def write(address: str, table: pa.Table) -> None:
    with shards.created(address) as file:
        pq.write_table(table, file)


def drafts(address: str) -> list[str]:
    """What is left of versions that were not finished."""
    return [name for name in Remote(address).names("versions") if "/." in name or "scratch" in name]


def test_an_index_is_built_matched_and_changed(spark, bucket, capsys):
    path = bucket("a.index")
    ms.build(subscriptions(spark), path)
    plan = ms.match(events(spark), path)
    plan.explain(True)
    told = capsys.readouterr().out
    assert "MapInArrow" in told
    assert "secret" not in told
    rows = drawn(3, 60, 12)
    netted = ms.changes(spark.createDataFrame(feed(rows)), path, order="at")
    for _ in range(2):
        ms.append(netted, path, transaction=("users", 0))
    held = applied(rows, Counter((key, frozenset(tags)) for key, tags in enumerate(ROWS)))
    assert in_index(path) == held
    ms.compact(path)
    assert ms.applied(path) == {"users": 0}
    assert in_index(path) == held
    assert found(plan) == wanted()  # of the first version, which is leased
    assert drafts(path) == []


def test_files_go_in_and_out(spark, bucket):
    names = ["at=00%3A00/a b.parquet", "c?d.parquet"]
    for number, name in enumerate(names):
        some = slice(7 * number, 7 * number + 7)
        columns = {"tags": pa.array(ROWS[some], TAGS), "key": range(14)[some]}
        quoted = name.replace("%", "%25").replace(" ", "%20").replace("?", "%3F")
        write(bucket(f"subscriptions/{quoted}"), pa.table(columns))
    write(bucket("events/0.parquet"), pa.table({"id": range(8), "tags": pa.array(EVENTS, TAGS)}))
    ms.build(path=bucket("a.index"), paths=bucket("subscriptions"), spark=spark)
    for overwrite in (False, True):
        done = ms.match_files(
            bucket("events"), bucket("a.index"), bucket("out"), overwrite=overwrite, spark=spark
        )
    files, root = fs.FileSystem.from_uri(bucket("out"))
    assert Remote(bucket("out")).has("_SUCCESS")
    pairs = pq.read_table(root, filesystem=files)
    assert done.matches == pairs.num_rows
    ids, keys = (pairs[name].to_pylist() for name in ("id", "key"))
    assert Counter(zip(ids, keys)) == wanted()
    assert not [name for name in Remote(bucket("")).names() if "writing" in name]
    same = bucket("events").replace("s3://", "s3a://")
    with pytest.raises(my.UsageError, match="lie within each other"):
        ms.match_files(bucket("events"), bucket("a.index"), same, overwrite=True, spark=spark)
    assert Remote(bucket("events")).names() == ["0.parquet"]


def test_a_build_that_fails_leaves_nothing(spark, bucket):
    with pytest.raises(my.ParseError, match="a subscription of key 1"):
        ms.build(subscriptions(spark, [["jazz"], [None]]), bucket("a.index"))
    assert Remote(bucket("a.index")).names() == []


@pytest.mark.parametrize("follow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_tasks_of_a_stream_lease_its_version(spark, bucket, tmp_path, follow):
    path, folder = bucket("a.index"), tmp_path / "in"
    folder.mkdir()
    my.TagIndex().add("jazz", 1).save(path)
    stream = spark.readStream.schema("id bigint, tags array<string>").parquet(str(folder))
    record = str(tmp_path / "record") if follow else False
    matched = ms.match(stream, path, follow=record, version=True)
    for lease in leases._names(path):
        Remote(path).remove_file(f"leases/{lease}")  # as if it had run out
    query = (
        matched.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(ms.to_files(str(tmp_path / "out")))
        .start()
    )
    for number in range(2):
        table = pa.table({"id": [number], "tags": pa.array([["jazz"]], TAGS)})
        pq.write_table(table, folder / ".draft")
        os.rename(folder / ".draft", folder / f"{number}.parquet")
        query.processAllAvailable()
        if not number:
            assert leases.leased(path) == {"0001"}
            for _ in range(3):
                my.TagIndex().add("jazz", 2).save(path)
    query.stop()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    second = 4 if follow else 1
    assert sorted((row.id, row.version) for row in rows) == [(0, 1), (1, second)]
