"""Predicates in Spark: events as structs, maps, JSON and rows, and always what the embedded index
answers."""

from __future__ import annotations

import json
import math
import os
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import matchyard as my
from matchyard import spark as ms
from tests.spark.frames import found

RULES = [
    'area = "north" and temp > 30', "temp > 30 or wind > 20", "temp in [0, 40]", "exists wind",
    'not (area = "north")', 'area in {"north", "söuth", 7}', '{"area": [{"prefix": "n"}]}',
    "temp != 31", "temp >= 1e308", "wind = 9007199254740993", "exists nothing",
    'area contains "or" and not (wind > 20)', "deep.x = 1 and deep.y = 2", "ok = true", "temp > 30",
]  # fmt: skip
KEYS = [n % 11 for n in range(len(RULES))]  # several under one key
EVENTS = [
    {"area": "north", "temp": 31.0, "wind": 9007199254740993, "deep": {"x": 1, "y": 2}},
    {"area": "söuth", "temp": math.nan, "wind": 9007199254740992, "ok": True},
    {"temp": math.inf, "deep": {"x": 1}}, {"temp": -0.0, "wind": 25, "ok": False},
    {"area": "north"}, {}, {"area": "", "temp": 31.5, "deep": {"y": 2}},
    {"area": "north", "temp": 31.0, "wind": 9007199254740993, "deep": {"x": 1, "y": 2}},
]  # fmt: skip
EVENT = pa.struct(
    {
        "area": pa.string(), "temp": pa.float64(), "wind": pa.int64(), "ok": pa.bool_(),
        "deep": pa.struct({"x": pa.int32(), "y": pa.int32()}),
    }
)  # fmt: skip


def rules(spark, rows=RULES, keys=KEYS):
    return spark.createDataFrame(pa.table({"rule": pa.array(rows), "id": pa.array(keys)}))


def events(spark, column):
    return spark.createDataFrame(pa.table({"id": range(len(column)), "event": column}))


def wanted(asked=EVENTS, rows=RULES, keys=KEYS, unique=False):
    index = my.PredicateIndex().add_many(rows, keys).consolidate()
    matches = (index.match_unique if unique else index.match)(asked)
    return Counter((event, key) for event, some in enumerate(matches) for key in some)


@pytest.fixture(scope="module")
def indexes(spark, tmp_path_factory):
    """The same rules in one shard, and in seven."""
    folder = tmp_path_factory.mktemp("predicates")
    for name, shards in (("one", None), ("seven", 7)):
        built = ms.build(
            rules(spark), folder / name, "predicates", subscription="rule", key="id", shards=shards
        )
        assert (built.subscriptions, built.shards) == (len(RULES), shards or 1)
    return {"replicated": folder / "one", "sharded": folder / "seven"}


@pytest.fixture(params=["replicated", "sharded"])
def strategy(request):
    return request.param


def test_structs_rows_and_json_are_matched_as_the_embedded_index_does(spark, indexes, strategy):
    path, structs = indexes[strategy], events(spark, pa.array(EVENTS, EVENT))
    rows = structs.select("id", "event.*")
    text = events(spark, pa.array([json.dumps(event) for event in EVENTS]))
    for frame, event in (
        (structs, "event"),
        (rows, ["area", "temp", "wind", "ok", "deep"]),
        (rows, None),
        (text, "event"),
        (text.withColumn("event", text.event.cast("binary")), "event"),
    ):
        assert found(ms.match(frame, path, event, strategy=strategy)) == wanted(), event
    some = rows.select("id", "area", "deep")
    assert found(ms.match(some, path, ["area", "deep.x", "deep.y"], strategy=strategy)) == wanted(
        [{name: event[name] for name in ("area", "deep") if name in event} for event in EVENTS]
    )


@pytest.mark.parametrize("kind", [pa.float64(), pa.string(), pa.list_(pa.int64())])
def test_maps_are_matched_whatever_their_values_are(spark, indexes, kind):
    values = {pa.float64(): [31.0, math.nan, None], pa.string(): ["north", "", None]}
    some = values.get(kind, [[1, 31], [], None])
    asked = [{name: some[n % 3]} for n, name in enumerate(["temp", "area", "wind"] * 4)] + [{}]
    maps = pa.array([list(event.items()) for event in asked], pa.map_(pa.string(), kind))
    present = [{k: v for k, v in event.items() if v is not None} for event in asked]
    for how, path in indexes.items():
        pairs = found(ms.match(events(spark, maps), path, "event", strategy=how, output="arrays"))
        assert pairs == wanted(present)


def test_arrays_and_unique_keys_are_put_together_from_shards(spark, indexes, strategy):
    """Two events of one id that differ only in which of two attributes is null stay two."""
    asked = [{"temp": 31.0}, {"wind": 31}, {"temp": 31.0}]
    table = pa.table({"id": [0, 0, 0], "event": pa.array(asked, EVENT)})
    frame = spark.createDataFrame(table)
    for unique in (False, True):
        matched = ms.match(
            frame, indexes[strategy], "event", unique=unique, output="arrays", strategy=strategy
        )
        keys = Counter(tuple(sorted(row["keys"])) for row in matched.collect())
        pairs = wanted(asked, unique=unique)
        assert keys == Counter(
            tuple(sorted(key for (event, key), n in pairs.items() for _ in range(n) if event == i))
            for i in range(3)
        )


def test_constraints_on_objects_in_an_array_meet_in_one_of_them(spark, tmp_path):
    some = ['parts.kind = "bolt" and parts.size > 4', "parts.size > 4", "not (parts.size > 4)"]
    asked = [
        {"parts": [{"kind": "bolt", "size": 3.0}, {"kind": "nut", "size": 5.0}]},
        {"parts": [{"kind": "bolt", "size": 5.0}, {"kind": None, "size": math.nan}]},
        {"parts": []},
    ]
    kind = pa.struct({"parts": pa.list_(pa.struct({"kind": pa.string(), "size": pa.float64()}))})
    ms.build(
        rules(spark, some, [1, 2, 3]), tmp_path / "a.index", "predicates", "rule", "id", shards=2
    )
    frame = events(spark, pa.array(asked, kind))
    for how in ("replicated", "sharded"):
        pairs = found(ms.match(frame, tmp_path / "a.index", "event", strategy=how))
        assert pairs == wanted(asked, some, [1, 2, 3]) == Counter([(0, 2), (1, 1), (1, 2), (2, 3)])


def test_constraints_come_as_columns_and_changes_as_either(spark, tmp_path):
    """A text that is removed is found among columns, and columns among text."""
    constraint = {"name": pa.string(), "op": pa.string(), "value": pa.float64(),
                  "high": pa.float64(), "text": pa.string()}  # fmt: skip
    kind = pa.list_(pa.struct(constraint))

    def bulk(*rows):
        return pa.array(
            [[dict(zip(constraint, c, strict=False)) for c in row] for row in rows], kind
        )

    north, warm = ("area", "=", None, None, "north"), ("temp", "between", 30.0, 32.0, None)
    columns = bulk([north], [north, warm], [warm], [("ok", "exists", None, None, None)])
    path = tmp_path / "a.index"
    table = pa.table({"rule": columns, "id": ["a", "b", "c", "d"]})
    ms.build(spark.createDataFrame(table), path, "predicates", "rule", "id", shards=3)
    changes = pa.table({"change": ["remove", "add"], "id": ["c", "e"],
                        "rule": ["temp in [30, 32]", "temp > 30 or exists ok"]})  # fmt: skip
    ms.append(spark.createDataFrame(changes), path, subscription="rule", key="id")
    table = pa.table(
        {"change": ["remove", "remove"], "id": ["b", "a"], "rule": bulk([north, warm], [warm])}
    )
    ms.append(spark.createDataFrame(table), path, subscription="rule", key="id")
    rows, keys = ['area = "north"', "exists ok", "temp > 30 or exists ok"], ["a", "d", "e"]
    frame = events(spark, pa.array(EVENTS, EVENT))
    for fold in (True, False):
        for how in ("replicated", "sharded"):
            matched = ms.match(frame, path, "event", strategy=how)
            assert found(matched) == wanted(EVENTS, rows, keys)
        read = ms.subscriptions(path, spark=spark).collect()
        assert {(row.key, row.subscription) for row in read} == {
            ("a", 'area = "north"'), ("d", "exists ok"), ("e", "exists ok or temp > 30"),
        }  # fmt: skip
        if fold:
            ms.compact(path, spark=spark)


def test_a_stream_takes_new_versions_and_sets_bad_events_aside(spark, tmp_path):
    index, folder = tmp_path / "a.index", tmp_path / "in"
    folder.mkdir()
    my.PredicateIndex().add("temp > 30", 1).save(index)
    frame = (
        spark.readStream.schema("id bigint, event string").option("maxFilesPerTrigger", 1)
        .parquet(str(folder))
    )  # fmt: skip

    def put(number, *rows):
        table = pa.table({"id": range(number, number + len(rows)), "event": pa.array(rows)})
        pq.write_table(table, folder / f".{number}")
        os.rename(folder / f".{number}", folder / f"{number}.parquet")

    put(0, '{"temp": 31}', '{"temp": oops}', None, "[]")
    matched = ms.match(frame, index, "event", follow=True, version=True, bad="keep")
    query = (
        matched.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(ms.to_files(str(tmp_path / "out"), dead_letters=str(tmp_path / "bad"))).start()
    )  # fmt: skip
    query.processAllAvailable()
    my.open(index).add("temp = 31", 2).save(index)
    put(10, '{"temp": 31}')
    query.processAllAvailable()
    query.stop()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row.id, row.key, row.version) for row in rows) == [
        (0, 1, 1),
        (10, 1, 2),
        (10, 2, 2),
    ]
    bad = {row.id: row.reason for row in spark.read.parquet(str(tmp_path / "bad")).collect()}
    assert sorted(bad) == [1, 2, 3]
    assert bad[1].startswith("not JSON at byte 9: expected a value; found 'o'")
    assert bad[2].startswith("null; expected an object")
    assert bad[3].startswith("not JSON at byte 0: expected an object; found '['")


def test_predicates_are_matched_in_sql(spark, indexes):
    ms.register(spark, "match_rules")
    events(spark, pa.array(EVENTS, EVENT)).createOrReplaceTempView("readings")
    for query in (
        "SELECT id, event FROM readings",
        "SELECT id, to_json(event) FROM readings WHERE id != 1 AND id != 2",
    ):
        pairs = found(
            spark.sql(f"SELECT * FROM match_rules(TABLE({query}), '{indexes['sharded']}')")
        )
        left = {(0, 3, 4, 5, 6, 7)} if "json" in query else {tuple(range(8))}
        assert pairs == Counter({p: n for p, n in wanted().items() if p[0] in min(left)})


def test_what_is_wrong_is_said_before_anything_runs(spark, indexes, tmp_path):
    frame = spark.sql("SELECT 1 id, 'x' rule, 2.5 price, current_date() day, map(1, 2) pairs, "
                      "array(named_struct('at', current_timestamp())) visits, array(1) numbers")  # fmt: skip
    path = indexes["replicated"]
    for event, words in (
        ("price", r"column 'price' is decimal\(2,1\); events of engine 'predicates' are struct"),
        ("numbers", "column 'numbers' is array<int>; events of engine"),
        (
            ["id", "price"],
            r"'price' is decimal\(2,1\); attributes are numbers, strings and booleans",
        ),
        (["day"], "'day' is date; attributes are .* cast it, e.g. to double or string"),
        ("pairs", "'pairs' is map<int,int>; names of attributes are strings"),
        (["visits"], r"'visits\[\].at' is timestamp; attributes"),
        (None, "'price' is decimal"),
        ([], "events of no columns"),
        (["area"], "no column 'area' for the events; found: id, rule"),
        (["id", "id"], "two attributes of the name 'id'"),
    ):
        with pytest.raises(my.UsageError, match=words):
            ms.match(frame, path, event)
    with pytest.raises(
        my.UsageError, match="column 'numbers' is array<int>; subscriptions of engine"
    ):
        ms.build(frame, tmp_path / "a.index", "predicates", subscription="numbers", key="id")
    ms.build(frame, tmp_path / "t.index", subscription="rule", key="id")
    with pytest.raises(my.UsageError, match="events of engine 'tags' are one column, not None"):
        ms.match(frame, tmp_path / "t.index", None)


def test_bad_subscriptions_and_events_are_named(spark, indexes, tmp_path):
    for rule, words in (
        ("temp >", "a subscription of key 8: not a predicate: column 7: it ends here; (.|\n)*\\^"),
        (None, "a subscription of key 8: not a predicate: None"),
        ('{"temp": 3}', "a subscription of key 8: not a pattern: temp: found 3"),
    ):
        with pytest.raises(my.ParseError, match=words):
            ms.build(
                rules(spark, ["temp > 1", rule], [7, 8]),
                tmp_path / "a.index",
                "predicates",
                "rule",
                "id",
            )
    frame = events(spark, pa.array(['{"temp": 1}', "{"]))
    for how, path in indexes.items():
        with pytest.raises(Exception, match="event 1: not JSON at byte 1: the text ends too early"):
            ms.match(frame, path, "event", strategy=how).collect()
