"""Columns of Parquet files that tasks read themselves have the types and values that Spark reads."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import matchyard as my
from matchyard import spark as ms
from matchyard.spark.sources import parquet_work
from tests.spark.frames import TAGS

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
COLUMNS = {
    **{f"i{bits}": pa.array([-1, None], f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": pa.array([1 << bits - 1, None], f"uint{bits}") for bits in (8, 16, 32)},
    "f": pa.array([0.1, None], pa.float32()),
    "d": pa.array([-0.0, None]),
    "b": pa.array([True, None]),
    "text": pa.array(["日本", None]),
    "large text": pa.array(["x", None], pa.large_string()),
    "view": pa.array(["x", None], pa.string_view()),
    "codes": pa.array(["x", None]).dictionary_encode(),
    "bytes": pa.array([b"\xff", None]),
    "large bytes": pa.array([b"x", None], pa.large_binary()),
    "day": pa.array([date(1, 1, 1), None]),
    "moment": pa.array([NOON, None], pa.timestamp("us", "UTC")),
    "ms": pa.array([NOON, None], pa.timestamp("ms", "UTC")),
    "local": pa.array([NOON.replace(tzinfo=None), None], pa.timestamp("us")),
    "decimal": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
    "list": pa.array([["x", None], None], pa.large_list(pa.string_view())),
    "pair": pa.array([[1, 2], None], pa.list_(pa.uint8(), 2)),
    "struct": pa.array([{"a": 1, "b": ["x"]}, None], pa.struct({"a": pa.uint16(), "b": TAGS})),
    "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
    "nothing": pa.nulls(2),
}
REFUSED = {
    "u64": pa.array([1, None], pa.uint64()),
    "ns": pa.array([NOON, None], pa.timestamp("ns", "UTC")),
    "half": pa.array([1.0, None], pa.float16()),
}


@pytest.fixture
def index(tmp_path):
    path = tmp_path / "a.index"
    my.TagIndex().add("jazz", 1).save(path)
    return path


def same_rows(spark: Any, files: str, index: Any, names: list[str], out: Any) -> None:
    """`match_files` writes what `match` returns: the same types, the same rows."""
    done = ms.match_files(files, index, out, id=[f"`{name}`" for name in names])
    assert done.matches
    written = spark.read.parquet(str(out))
    asked = ms.match(spark.read.parquet(files), index, id=[f"`{name}`" for name in names])
    assert [field.dataType for field in written.schema] == [
        field.dataType for field in asked.schema
    ]
    rows = [sorted(map(str, frame.collect())) for frame in (written, asked)]
    assert rows[0] == rows[1]


def test_columns_are_read_as_spark_reads_them(spark, tmp_path, index):
    tags = pa.array([["jazz"]] * 2, TAGS)
    pq.write_table(pa.table({**COLUMNS, "tags": tags}), tmp_path / "in.parquet")
    same_rows(spark, str(tmp_path / "in.parquet"), index, list(COLUMNS), tmp_path / "out")


def test_columns_that_arrow_and_spark_read_differently_are_refused(spark, tmp_path, index):
    tags = pa.array([["jazz"]] * 2, TAGS)
    pq.write_table(pa.table({**REFUSED, "tags": tags}), tmp_path / "in.parquet")
    for name in REFUSED:
        with pytest.raises(my.UsageError, match="cannot be read"):
            ms.match_files(tmp_path / "in.parquet", index, tmp_path / "out", id=name)
    written = spark.sql(
        "SELECT array('jazz') AS tags, interval '1' year AS y, parse_json('1') AS v"
    )
    written.write.parquet(str(tmp_path / "spark"))
    for name, word in (("y", "interval"), ("v", "variant")):
        with pytest.raises(my.UsageError, match=f"column '{name}' is a {word}"):
            ms.match_files(tmp_path / "spark", index, tmp_path / "out", id=name)
    assert not (tmp_path / "out").exists()


def test_old_timestamps_of_spark_are_moments(spark, tmp_path, index):
    moments = "timestamp'9999-12-31 23:59:59' AS far, array(timestamp'1582-01-01') AS early"
    name = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(name)
    spark.conf.set(name, "INT96")
    try:
        spark.sql(f"SELECT array('jazz') AS tags, {moments}").write.parquet(str(tmp_path / "in"))
    finally:
        spark.conf.set(name, before)
    assert parquet_work([str(tmp_path / "in")], spark).schema.field("far").type.unit == "us"
    same_rows(spark, str(tmp_path / "in"), index, ["far", "early"], tmp_path / "out")


def test_files_of_one_folder_may_differ_where_values_stay_what_they_are(spark, tmp_path, index):
    (tmp_path / "in").mkdir()
    tags = pa.array([["jazz"]], TAGS)
    for number, kind in enumerate((pa.int64(), pa.int16(), pa.null())):
        ids = pa.array([None if pa.types.is_null(kind) else number], kind)
        pq.write_table(pa.table({"id": ids, "tags": tags}), tmp_path / f"in/{number}.parquet")
    ms.match_files(tmp_path / "in", index, tmp_path / "out")
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row.id is None, row.id) for row in found) == [
        (False, 0),
        (False, 1),
        (True, None),
    ]
    pq.write_table(pa.table({"id": ["3"], "tags": tags}), tmp_path / "in/3.parquet")
    with pytest.raises(
        my.StorageError, match=r"3.parquet has column 'id' as string; in the first .* int64"
    ):
        ms.match_files(tmp_path / "in", index, tmp_path / "out", overwrite=True)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 3


def test_folders_that_are_columns_in_spark(spark, tmp_path, index):
    rows = spark.sql("SELECT id, array('jazz') AS tags, id % 2 AS half FROM range(4)")
    rows.write.partitionBy("half").parquet(str(tmp_path / "a b/in"))
    [given] = {
        file.rpartition("/half=")[0]
        for file in spark.read.parquet(str(tmp_path / "a b/in")).inputFiles()
    }
    assert "%20" in given
    ms.match_files(given, index, tmp_path / "out")
    assert spark.read.parquet(str(tmp_path / "out")).count() == 4
    my.PredicateIndex().add("half = 1", 1).save(tmp_path / "p.index")
    with pytest.raises(my.UsageError, match="folders such as year=2026"):
        ms.match_files(given, tmp_path / "p.index", tmp_path / "other", event=None)
