"""Feeds as other systems write them: Debezium's messages, and the rows of Delta's change feed."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from pyspark.sql import functions as F

import matchyard as my
from matchyard.spark import append, build, changes
from tests.spark.frames import subscriptions

ROW = "struct<user: string, tags: array<string>>"
MESSAGE = f"op string, source struct<lsn: bigint>, before {ROW}, after {ROW}"


def held(path: Any) -> Counter[Any]:
    return Counter((key, frozenset(tags)) for key, tags in my.open(path).items())


def row(user: str, *tags: str) -> dict[str, Any]:
    return {"user": user, "tags": list(tags)}


def debezium(lsn: int, op: str, before: Any, after: Any) -> str:
    return json.dumps({"op": op, "source": {"lsn": lsn}, "before": before, "after": after})


def test_messages_of_debezium(spark, tmp_path):
    path = tmp_path / "a.index"
    build(subscriptions(spark, [["rock"], ["jazz"]], ["ada", "bob"]), path)
    lines = [
        debezium(4, "d", row("bob", "jazz"), None),
        debezium(1, "c", None, row("eve", "folk")),
        debezium(3, "u", row("eve", "folk"), row("eve", "folk", "live")),
        debezium(2, "c", None, row("eve", "rock")),  # a second row of the same user
        debezium(5, "r", None, row("kim", "oslo")),
    ]
    messages = spark.createDataFrame([(line,) for line in lines], "value string")
    parsed = messages.select(F.from_json("value", MESSAGE).alias("m")).select("m.*")
    before, after = (
        parsed.where(f"{side} is not null").select(
            F.col("source.lsn").alias("lsn"), F.lit(op).alias("op"), f"{side}.user", f"{side}.tags"
        )
        for side, op in (("before", "delete"), ("after", "insert"))
    )
    feed = before.unionAll(after)
    append(changes(feed, path, key="user", order="lsn"), path, "subscription")
    assert held(path) == Counter(
        {
            ("ada", frozenset({"rock"})): 1,
            ("eve", frozenset({"folk", "live"})): 1,
            ("eve", frozenset({"rock"})): 1,
            ("kim", frozenset({"oslo"})): 1,
        }
    )


def test_rows_of_a_change_feed_of_delta(spark, tmp_path):
    path = tmp_path / "a.index"
    build(subscriptions(spark, [["rock"], ["jazz"]], ["ada", "bob"]), path)
    feed = spark.createDataFrame(
        [
            ("ada", ["rock"], "update_preimage", 2),
            ("ada", ["folk"], "update_postimage", 2),
            ("bob", ["jazz"], "delete", 3),
            ("eve", ["live"], "insert", 1),
            ("eve", ["live"], "delete", 3),
            ("bob", ["oslo"], "insert", 4),
        ],
        "user string, tags array<string>, _change_type string, _commit_version bigint",
    )
    netted = changes(feed, path, key="user", op="_change_type", order="_commit_version")
    append(netted, path, "subscription", transaction=("table", 4))
    assert held(path) == {("ada", frozenset({"folk"})): 1, ("bob", frozenset({"oslo"})): 1}
