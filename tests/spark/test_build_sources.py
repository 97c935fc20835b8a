"""What a build reads: a DataFrame once, Parquet files in the tasks."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import matchyard as my
from matchyard import shards
from matchyard import spark as ms
from matchyard.spark.tasks import sources
from tests.spark.frames import ROWS, TAGS, events, found, wanted


def write_files(folder, keys=range(14)):
    folder.mkdir()
    for number, (start, stop) in enumerate([(0, 5), (5, 6), (6, 6), (6, 14)]):
        table = pa.table({"n": range(start, stop), "tags": pa.array(ROWS[start:stop], TAGS),
                          "key": pa.array(list(keys)[start:stop])})  # fmt: skip
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=3)
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.parquet").write_text("no Parquet")


@pytest.mark.parametrize("n_shards", [None, 3])
@pytest.mark.parametrize("keys", [range(14), [f"user {n % 5}" for n in range(14)]])
def test_tasks_read_parquet_files_themselves(spark, tmp_path, n_shards, keys):
    write_files(tmp_path / "files", keys)
    path = tmp_path / "a.index"
    built = ms.build(path=path, paths=str(tmp_path / "files"), shards=n_shards, spark=spark)
    assert built.subscriptions == 14
    assert found(ms.match(events(spark), path)) == wanted(keys=list(keys))
    some = [str(tmp_path / "files" / f"{number}.parquet") for number in (0, 1)]
    assert ms.build(path=path, paths=some, spark=spark).subscriptions == 6


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"paths": "nowhere"}, "nowhere does not exist"),
        ({"paths": "files", "subscription": "words"}, "no column 'words'"),
        ({"paths": "files", "key": "tags"}, "keys are integers of up to 64 bits or strings"),
        ({"paths": "empty"}, "no Parquet files"),
        ({"paths": "broken"}, "cannot be read as Parquet"),
        ({}, "one of them"),
        ({"paths": "files", "path": ""}, "needs the path"),
    ],
)
def test_files_that_cannot_be_built_from_are_told(spark, tmp_path, given, words):
    write_files(tmp_path / "files")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/a.parquet").write_text("no Parquet")
    given = {"path": tmp_path / "a.index", "spark": spark, **given}
    if "paths" in given:
        given["paths"] = str(tmp_path / given["paths"])
    with pytest.raises(my.MatchyardError, match=words):
        ms.build(**given)
    assert not (tmp_path / "a.index").exists()


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("_delta_log/0.json", "a Delta table"),
        ("metadata/00000-1.metadata.json", "an Iceberg table"),
        (".hoodie/hoodie.properties", "a Hudi table"),
    ],
)
def test_folders_of_table_formats_are_refused(spark, tmp_path, file, kind):
    """They also have files of rows that are deleted."""
    folder = tmp_path / "files"
    write_files(folder)
    (folder / file).parent.mkdir()
    (folder / file).touch()
    with pytest.raises(my.UsageError, match=f"files is {kind}: its folder also has files of rows"):
        ms.build(path=tmp_path / "a.index", paths=folder, spark=spark)
    some = [folder / "0.parquet"]
    assert ms.build(path=tmp_path / "a.index", paths=some, spark=spark).subscriptions == 5


def test_keys_of_another_type_than_in_the_first_file_are_refused(spark, tmp_path):
    for number, keys in enumerate(([1], ["7"])):
        table = pa.table({"tags": pa.array([["a"]], TAGS), "key": keys})
        pq.write_table(table, tmp_path / f"{number}.parquet")
    with pytest.raises(
        my.StorageError,
        match=r"1.parquet has column 'key' as string; in the first file it is int64",
    ):
        ms.build(path=tmp_path / "a.index", paths=str(tmp_path), spark=spark)


@pytest.mark.parametrize("n_shards", [None, 1, 2])
def test_a_source_is_read_once(spark, tmp_path, n_shards):
    log = tmp_path / "reads"

    def rows(batches):
        for _ in batches:
            with log.open("a") as file:
                file.write("read\n")
            last = [f"tag {random.random()}"]  # another one each time
            yield pa.record_batch({"tags": pa.array([*ROWS, last], TAGS), "key": range(15)})

    frame = spark.range(0, 1, 1, 1).mapInArrow(rows, "tags array<string>, key bigint")
    assert ms.build(frame, tmp_path / "a.index", shards=n_shards).subscriptions == 15
    assert log.read_text() == "read\n"
    assert found(ms.match(events(spark), tmp_path / "a.index")) == wanted()


def test_long_rows_are_staged_some_at_a_time(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_BYTES", 1000)
    rows = [[f"{n}" + "x" * 100] for n in range(40)]
    frame = pa.table({"tags": pa.array(rows, TAGS), "key": range(40)})
    tables = list(sources.rows_of_frame(iter(frame.to_batches(max_chunksize=4))))
    assert len(tables) == 4
    assert sum(map(len, tables)) == 40
    pq.write_table(frame, tmp_path / "long.parquet")
    piece = sources.Piece(str(tmp_path / "long.parquet"), None, 0)
    batches = list(sources.read_piece(piece, frame.schema, 1 << 16))
    assert len(batches) > 3
    assert pa.Table.from_batches(batches).equals(frame)


def test_files_may_be_named_as_spark_names_them(spark, tmp_path):
    write_files(tmp_path / "some files")
    [given] = {
        file.rpartition("/")[0]
        for file in spark.read.parquet(str(tmp_path / "some files")).inputFiles()
    }
    index = f"file:{tmp_path}/an%20index"
    assert ms.build(path=index, paths=given, spark=spark).subscriptions == 14
    assert found(ms.match(events(spark), tmp_path / "an index")) == wanted()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("a.index", "rows"), "the subscriptions are a DataFrame of Spark, not str"),
        ((None, 5), "not a path: 5"),
    ],
)
def test_arguments_of_other_types_are_told(given, words):
    with pytest.raises(my.UsageError, match=words):
        ms.build(*given)


def test_a_worker_that_cannot_write_says_so(tmp_path):
    rows = [(pa.array([["a"]], TAGS), pa.array([1]))]
    with pytest.raises(
        my.StorageError, match=r"a worker cannot use .*gone: .* Every machine has to"
    ):
        list(shards.stage(tmp_path / "gone", rows, shards.Plan("tags", None, {}), shards.scratch()))


def test_a_column_whose_name_has_a_dot_is_named_with_its_quotes(spark, tmp_path):
    rows = spark.createDataFrame([(["a"], 1)], "tags array<string>, `Key.x` int")
    with pytest.raises(my.UsageError, match=r"write it as `Key\.x`"):
        ms.build(rows, tmp_path / "a.index", key="Key.x")
    ms.build(rows, tmp_path / "a.index", key="`Key.x`")
    asked = spark.createDataFrame([(1, ["a"])], "Key int, tags array<string>")
    with pytest.raises(my.UsageError, match="two columns of one name: Key, key"):
        ms.match(asked, tmp_path / "a.index", id="Key")
