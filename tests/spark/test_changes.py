"""Feeds of changes: netted by the order of their commits, and applied exactly once."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import matchyard as my
from matchyard import shards
from matchyard.spark import append, build, changes, compact, follow_changes, plain_errors
from tests.spark.change_feeds import Change, applied, drawn, feed, in_index, in_order
from tests.spark.frames import TAGS, subscriptions


@pytest.mark.parametrize("seed", range(3))
def test_a_feed_is_netted_by_the_order_of_its_commits(spark, tmp_path, seed):
    path = tmp_path / "a.index"
    rows = [["a"], ["b", "c"], ["a"], []]
    build(subscriptions(spark, rows, [0, 1, 2, 2]), path)
    held = in_index(path)
    drawn_rows = drawn(seed, 200, 60)
    netted = changes(spark.createDataFrame(feed(drawn_rows)), path, order="at")
    append(netted, path)
    assert in_index(path) == applied(drawn_rows, held)


def test_two_texts_of_one_meaning_are_the_same_subscription(spark, tmp_path):
    path = tmp_path / "a.index"
    build(subscriptions(spark, [["a"]], [1]), path)
    rows: list[Change] = [(1, 7, "insert", ("b", "c")), (2, 7, "delete", ("c", "b", "c"))]
    assert changes(spark.createDataFrame(feed(rows[::-1])), path, order="at").collect() == []
    rows[1] = (2, 7, "remove", ("c", "b", "c"))
    netted = changes(spark.createDataFrame(feed(rows[::-1])), path, order="at")
    assert [tuple(row) for row in netted.select("key", "change").collect()] == [(7, "remove")]


@pytest.mark.parametrize(("engine", "n_shards"), [("tags", 2), ("predicates", 1), ("twigs", 1)])
def test_a_deletion_takes_one_of_equal_rows(spark, tmp_path, engine, n_shards):
    one, other = {"tags": ("a b", "c"), "predicates": ("x = 1", "y = 2"), "twigs": ("//a", "//b")}[
        engine
    ]
    path = tmp_path / "a.index"

    def frame(*rows: tuple[str, str]) -> Any:
        columns = [(at, text, *rest) for at, (text, *rest) in enumerate(rows)]
        return spark.createDataFrame(
            [(7, *row) for row in columns], "key int, at int, row string, op string"
        )

    build(
        frame((one, ""), (one, ""), (other, "")), path, engine, subscription="row", shards=n_shards
    )  # fmt: skip
    append(frame((one, "add")), path, "row", change="op")

    def held() -> list[str]:
        return sorted(str(value) for _, value in my.open(path).items())

    first, last = held()[0], held()[-1]
    assert len(held()) == 4
    for feed_rows, n_left in (
        ([(one, "insert"), (one, "delete"), (one, "delete")], 2),
        ([(one, "delete"), (one, "insert"), (one, "delete")], 1),
        ([(one, "delete"), (one, "delete"), (one, "delete")], 0),
    ):
        netted = changes(frame(*feed_rows), path, "row", order="at")
        append(netted, path, "row")
        assert Counter(held()) == +Counter({first: n_left, last: 1})


def test_keys_are_netted_across_batches_of_arrow(spark, tmp_path):
    path = tmp_path / "a.index"
    build(spark.createDataFrame([], "tags array<string>, key bigint"), path)
    rows = in_order(drawn(9, 300, 5))
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, 7)
    try:
        append(changes(spark.createDataFrame(feed(rows)), path, order="at"), path)
    finally:
        spark.conf.set(name, before)
    assert in_index(path) == applied(rows)


def test_an_unreadable_deletion_names_its_key(spark, tmp_path):
    path = tmp_path / "a.index"
    rules = spark.createDataFrame([(1, "x = 1")], "key int, rule string")
    build(rules, path, "predicates", subscription="rule")
    wrong = spark.createDataFrame(
        [(5, "x =", "delete", 1)], "key int, rule string, op string, at int"
    )
    with pytest.raises(my.ParseError, match=r"^a subscription of key 5: "):
        append(changes(wrong, path, "rule", order="at"), path, "rule")


def test_an_index_that_was_opened_before_changes_came_is_not_saved_over_them(spark, tmp_path):
    path = tmp_path / "a.index"
    build(subscriptions(spark, [["a"]], [1]), path)
    stale = my.open(path)
    rows = spark.createDataFrame(feed([(1, 2, "insert", ("b",))]))
    append(changes(rows, path, order="at"), path, transaction=("orders", 0))
    with pytest.raises(my.ConflictError, match=r"would be lost\. Open it again"):
        stale.add("z", 9).save(path)
    stale.save(tmp_path / "b.index")
    my.open(path).add("z", 9).save(path)
    assert set(in_index(path)) == {(1, frozenset("a")), (2, frozenset("b")), (9, frozenset("z"))}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((1, 5, "insert", "x", "order"), "a change of key 5 has no order"),
        ((1, 5, "merge", "x", "op"), "unknown operation merge of key 5; expected one of: insert, update, delete, remove"),
        ((1, None, "insert", "x", "key"), "a change has no key"),
        ((1, 5, "insert", None, "tags"), "an insert of key 5 has no subscription: leave out"),
        ((1, 5, "u", None, "tags"), "an insert of key 5 has no subscription: leave out"),
    ],
)  # fmt: skip
def test_a_change_that_says_nothing_is_told(spark, tmp_path, row, words):
    path = tmp_path / "a.index"
    build(subscriptions(spark, [["a"]], [1]), path)
    at, key, op, tag, what = row
    table = pa.table(
        {"key": pa.array([key], pa.int64()), "tags": pa.array([tag and [tag]], TAGS), "op": [op],
         "at": pa.array([None if what == "order" else at], pa.int64())}
    )  # fmt: skip
    netted = changes(spark.createDataFrame(table), path, order="at")
    with pytest.raises(my.UsageError, match=words):
        append(netted, path)
    assert in_index(path) == {(1, frozenset("a")): 1}


def test_a_row_of_a_table_that_has_no_subscription_takes_no_others_away(spark, tmp_path):
    path = tmp_path / "a.index"
    build(subscriptions(spark, [["jazz"], ["folk"]], [1, 1]), path)
    rows = [(1, 1, "update_preimage", None), (1, 1, "update_postimage", ["live"])]
    frame = spark.createDataFrame(rows, "at int, key int, op string, tags array<string>")
    append(changes(frame, path, order="at"), path)
    assert in_index(path) == {(1, frozenset({tag})): 1 for tag in ("jazz", "folk", "live")}
    gone = spark.createDataFrame([(2, 1, "delete", None)], frame.schema)  # by its key alone
    append(changes(gone, path, order="at"), path)
    assert in_index(path) == {}


def test_a_transaction_is_applied_once(spark, tmp_path):
    path = tmp_path / "a.index"
    build(subscriptions(spark, [["a"]], [1]), path)
    rows = spark.createDataFrame(feed([(1, 2, "insert", ("b",))]))
    first = append(changes(rows, path, order="at"), path, transaction=("orders", 0))
    again = append(changes(rows, path, order="at"), path, transaction=("orders", 0))
    assert (first.version, again.version, again.subscriptions) == ("0002", "0002", 0)
    compact(path)
    append(changes(rows, path, order="at"), path, transaction=("orders", 0))
    assert shards.current_version(path) == "0003"
    my.open(path).add("z", 9).save(path)  # a writer of another kind forgets no transaction
    append(changes(rows, path, order="at"), path, transaction=("orders", 0))
    assert shards.current_version(path) == "0004"
    assert in_index(path)[2, frozenset("b")] == 1
    append(changes(rows, path, order="at"), path, transaction=("orders", 1))
    append(changes(rows, path, order="at"), path, transaction=("others", 0))
    assert in_index(path)[2, frozenset("b")] == 3
    append(changes(rows, path, order="at"), path, transaction=("orders", np.int64(1)))
    assert in_index(path)[2, frozenset("b")] == 3
    for wrong in ((7, 1), ("orders", -1), ("orders", True), ("orders", 1.5), "orders", ("orders",)):
        with pytest.raises(my.UsageError, match="transaction is"):
            append(rows, path, transaction=wrong, change="op")


def test_what_is_wrong_is_said_before_a_stream_of_changes_begins(spark, tmp_path):
    stream = spark.readStream.format("rate").load().selectExpr("value AS key", "array('a') AS tags")
    asked = {"stream": stream, "path": tmp_path / "a.index", "checkpoint": tmp_path / "state"}
    with pytest.raises(my.StorageError, match="is not a Matchyard index"):
        follow_changes(**asked)
    build(subscriptions(spark, [["a"]], [1]), tmp_path / "a.index")
    with pytest.raises(my.UsageError, match="no column 'order' for the order of changes"):
        follow_changes(**asked)
    with pytest.raises(my.UsageError, match="segments must be at least 1"):
        follow_changes(**asked, segments=0)
    assert not (tmp_path / "state").exists()


def test_a_subscription_of_a_change_that_cannot_be_read_is_told(spark, tmp_path):
    build(subscriptions(spark, [["a"]], [1]), tmp_path / "a.index")
    rows = spark.createDataFrame(feed([(1, 7, "insert", ("b",)), (2, 7, "insert", (None,))]))  # type: ignore[list-item]
    netted = changes(rows, tmp_path / "a.index", order="at")
    with pytest.raises(my.ParseError, match=r"^a subscription of key 7: not a tag: None"):
        append(netted, tmp_path / "a.index")


def test_an_order_by_values_without_order_is_refused(spark, tmp_path):
    path = tmp_path / "a.index"
    build(subscriptions(spark, [["a"]], [1]), path)
    rows = spark.sql("SELECT 1 key, array('a') tags, 'insert' op, array(map(1, 2)) at")
    with pytest.raises(my.UsageError, match=r"column 'at' is array<map<int,int>>, whose values"):
        changes(rows, path, order="at")


def test_a_stream_of_changes_keeps_an_index_up(spark, tmp_path):
    path, folder = tmp_path / "a.index", tmp_path / "feed"
    folder.mkdir()
    build(spark.createDataFrame([], "tags array<string>, key bigint"), path)
    rows = in_order(drawn(5, 240, 20))

    def follow(path: Path = path) -> None:
        stream = (
            spark.readStream.schema("key bigint, tags array<string>, op string, at bigint")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder))
        )
        query = follow_changes(
            stream, path, tmp_path / "state", order="at", segments=2, trigger={"availableNow": True}
        )
        query.awaitTermination()

    def write(numbers: range) -> None:
        for number in numbers:
            table = feed(rows[number * 40 : (number + 1) * 40])
            pq.write_table(table, folder / f"{number}.parquet")
            os.utime(
                folder / f"{number}.parquet", (1e9 + number,) * 2
            )  # Spark takes the oldest first

    write(range(3))
    follow()
    assert in_index(path) == applied(rows[:120])
    commits = tmp_path / "state" / "commits"
    newest = max(int(entry.name) for entry in commits.iterdir() if entry.name.isdigit())
    for left in (commits / str(newest), commits / f".{newest}.crc"):
        left.unlink(missing_ok=True)  # as if the driver had died before Spark noted the batch
    write(range(3, 6))
    follow()
    assert in_index(path) == applied(rows)
    manifest = shards.manifest_of(path, shards.current_version(path))
    assert len(manifest["segments"]) <= 3
    lacking = tmp_path / "b.index"  # begun anew, without what the checkpoint has behind it
    build(spark.createDataFrame([], "tags array<string>, key bigint"), lacking)
    pq.write_table(feed(rows[:1]), folder / "late.parquet")
    words = r"no batch of this stream, and the next batch is 6: .* transaction=\('[-0-9a-f]*', 5\)"
    with pytest.raises(my.UsageError, match=words), plain_errors():
        follow(lacking)
    assert in_index(lacking) == Counter()
