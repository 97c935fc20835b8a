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


def test_floats_of_more_bits_than_in_the_first_file_are_refused(spark, tmp_path, index):
    (tmp_path / "in").mkdir()
    for number, kind in enumerate((pa.float32(), pa.float64())):
        table = pa.table({"id": pa.array([1e300 if number else 1.5], kind), "tags": [["jazz"]]})
        pq.write_table(table, tmp_path / f"in/{number}.parquet")
    with pytest.raises(my.StorageError, match="'id' as double; in the first file it is float"):
        ms.match_files(tmp_path / "in", index, tmp_path / "out")


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


LISTS = {
    "plain": pa.list_(pa.string()),
    "views": pa.list_(pa.string_view()),
    "of-two": pa.list_(pa.string(), 2),
    "list-views": pa.list_view(pa.string()),
    "large-views": pa.large_list_view(pa.large_string()),
    "codes": pa.list_(pa.dictionary(pa.int32(), pa.string())),
}


def test_files_may_differ_in_kinds_of_lists_and_in_capitals(spark, tmp_path):
    (tmp_path / "in").mkdir()
    for number, (name, kind) in enumerate(LISTS.items()):
        tags, ids = "TAGS" if number % 2 else "tags", "Id" if number % 2 else "id"
        columns = {
            ids: pa.array([f"{name}-0", f"{name}-1"], pa.string_view()),
            "key": pa.array([2 * number, 2 * number + 1], pa.uint8()),
            tags: pa.array([["jazz", "live"], ["rock", "oslo"]], kind),
        }
        pq.write_table(pa.table(columns), tmp_path / f"in/{number}.parquet")
    ms.build(path=tmp_path / "an.index", paths=tmp_path / "in", spark=spark)
    matched = ms.match_files(tmp_path / "in", tmp_path / "an.index", tmp_path / "out")
    assert (matched.events, matched.matches) == (2 * len(LISTS), 2 * len(LISTS) ** 2)
    pairs = {(row.id, row.key) for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    even, odd = (set(range(start, 2 * len(LISTS), 2)) for start in (0, 1))
    assert pairs == {
        (f"{name}-{row}", key)
        for name in LISTS
        for row, keys in ((0, even), (1, odd))
        for key in keys
    }


def test_events_of_several_columns_may_be_views(spark, tmp_path):
    columns = {
        "id": [1, 2],
        "area": pa.array(["north", "south"], pa.string_view()),
        "units": pa.array([["u"], ["v"]], pa.list_(pa.string_view(), 1)),
        "level": pa.array([1, 200], pa.uint8()),
    }
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    rules = ['area = "north" and level = 1', 'units = "v" and level > 100']
    my.PredicateIndex().add_many(rules, ["a", "b"]).save(tmp_path / "an.index")
    ms.match_files(
        tmp_path / "in.parquet", tmp_path / "an.index", tmp_path / "out", ["area", "units", "level"],
        spark=spark,
    )  # fmt: skip
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row.id, row.key) for row in found) == [(1, "a"), (2, "b")]


STRUCTS = [
    pa.struct({"x": pa.int64(), "deep": pa.struct({"y": pa.string()})}),
    pa.struct({"x": pa.int16(), "z": pa.timestamp("us")}),  # one field more, one less
    pa.struct({"deep": pa.struct({"w": pa.int64(), "Y": pa.string()}), "X": pa.int64()}),
    pa.struct({"deep": pa.struct({"y": pa.string()}), "x": pa.int64(), "other": pa.string()}),
]
VALUES = [
    {"x": 1, "deep": {"y": "a"}}, {"x": 1, "z": 0}, {"deep": {"w": 1, "Y": "a"}, "X": 1},
    {"deep": {"y": "a"}, "x": None, "other": "b"},
]  # fmt: skip


@pytest.mark.parametrize("form", ["struct", "list", "map"])
def test_structs_have_the_fields_of_the_first_file(spark, tmp_path, form):
    (tmp_path / "in").mkdir()
    rules = ["ev.x = 1", 'ev.deep.y = "a"', "exists ev.z", 'ev.other = "b"']
    if form == "map":
        rules = [rule.replace("ev.", "ev.k.") for rule in rules]
    my.PredicateIndex().add_many(rules, ["x", "y", "z", "other"]).save(tmp_path / "an.index")
    for number, (kind, value) in enumerate(zip(STRUCTS, VALUES, strict=True)):
        if form != "struct":
            value = [value] if form == "list" else [("k", value)]
            kind = pa.list_(kind) if form == "list" else pa.map_(pa.string(), kind)
        table = pa.table({"id": [2 * number, 2 * number + 1], "ev": pa.array([value, None], kind)})
        pq.write_table(table, tmp_path / f"in/{number}.parquet")
    given = {"event": ["ev"], "id": ["id", "ev"]}
    ms.match_files(tmp_path / "in", tmp_path / "an.index", tmp_path / "out", **given)
    schema = spark.read.parquet(str(tmp_path / "in/0.parquet")).schema
    frame = spark.read.schema(schema).parquet(str(tmp_path / "in"))
    found, asked = (
        sorted((row.id, row.key, str(row.ev)) for row in rows.collect())
        for rows in (
            spark.read.parquet(str(tmp_path / "out")),
            ms.match(frame, tmp_path / "an.index", **given),
        )
    )
    assert found == asked
    assert {(id, key) for id, key, _ in found} >= {(0, "x"), (0, "y"), (4, "y"), (6, "y")}
