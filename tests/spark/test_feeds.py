"""Feeds as other systems write them: Debezium's messages, and the change feed of a real Delta table."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from deltalake import DeltaTable, write_deltalake
from examples.debezium_changes import rows_of
from examples.delta_changes import synchronise

from matchyard.spark import append, build, changes
from tests.spark.change_feeds import in_index
from tests.spark.frames import TAGS, subscriptions
from tests.spark.maven import resolve

ROOT = Path(__file__).parents[2]
COLUMNS = pa.schema([("user", pa.string()), ("row", pa.int64()), ("tags", TAGS)])


# -------------------------------------------------------------------- Debezium


def row(user: str, *tags: str) -> dict[str, Any]:
    return {"user": user, "tags": list(tags)}


def debezium(lsn: int, op: str, before: Any, after: Any) -> str:
    return json.dumps({"op": op, "source": {"lsn": lsn}, "before": before, "after": after})


MESSAGES = [
    debezium(4, "d", row("bob", "jazz"), None),
    "",  # Debezium sends a message without a value after a deletion
    debezium(1, "c", None, row("eve", "folk")),
    debezium(3, "u", row("eve", "folk"), row("eve", "folk", "live")),
    debezium(2, "c", None, row("eve", "rock")),  # a second row of the same user
    debezium(5, "r", None, row("kim", "oslo")),
]
AFTERWARDS = {
    ("eve", frozenset({"folk", "live"})): 1,
    ("eve", frozenset({"rock"})): 1,
    ("kim", frozenset({"oslo"})): 1,
}


def test_messages_of_debezium(spark, tmp_path):
    path = tmp_path / "a.index"
    build(subscriptions(spark, [["rock"], ["jazz"]], ["ada", "bob"]), path)
    messages = spark.createDataFrame([(line,) for line in MESSAGES], "value string")
    append(changes(rows_of(messages), path, key="user", order="lsn"), path, key="user")
    assert in_index(path) == {("ada", frozenset({"rock"})): 1, **AFTERWARDS}


def test_messages_of_debezium_that_come_twice_or_with_a_schema(spark, tmp_path):
    path = tmp_path / "a.index"
    build(subscriptions(spark, [["rock"], ["jazz"]], ["ada", "bob"]), path)
    wrapped = [json.dumps({"schema": {}, "payload": json.loads(line)}) for line in MESSAGES if line]
    for lines in (wrapped, MESSAGES):
        messages = spark.createDataFrame([(line,) for line in lines], "value string")
        append(changes(rows_of(messages), path, key="user", order="lsn"), path, key="user")
        assert in_index(path) == {("ada", frozenset({"rock"})): 1, **AFTERWARDS}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            debezium(1, "u", None, row("bob", "folk")),
            "no tags in the row before: set REPLICA IDENTITY",
        ),
        (debezium(1, "d", {"user": "bob", "tags": None}, None), "REPLICA IDENTITY FULL"),
        (debezium(1, "t", None, None), "op is not c, r, u or d"),
        ('{"some": "thing"}', "op is not c, r, u or d"),
        ('{"op": "c", "source"', "MALFORMED"),
    ],
)
def test_messages_of_debezium_that_say_too_little_are_refused(spark, line, words):
    with pytest.raises(Exception, match=words):
        rows_of(spark.createDataFrame([(line,)], "value string")).collect()


@pytest.mark.slow
def test_the_example_follows_messages_of_debezium(tmp_path):
    (tmp_path / "messages").mkdir()

    def run() -> None:
        subprocess.run(
            [sys.executable, str(ROOT / "examples/debezium_changes.py"), "messages", "a.index"],
            cwd=tmp_path, check=True, capture_output=True,
        )  # fmt: skip

    (tmp_path / "messages/0.json").write_text("\n".join(MESSAGES))
    run()
    assert in_index(tmp_path / "a.index") == AFTERWARDS
    (tmp_path / "messages/1.json").write_text(debezium(6, "d", row("kim", "oslo"), None))
    run()
    del AFTERWARDS["kim", frozenset({"oslo"})]
    assert in_index(tmp_path / "a.index") == AFTERWARDS


# -------------------------------------------------------------------- Delta


def rows(*given: tuple[str, int, list[str] | None]) -> pa.Table:
    return pa.table(dict(zip(COLUMNS.names, map(list, zip(*given)))), COLUMNS)


def in_table(folder: str) -> Counter[Any]:
    return Counter(
        (one["user"], frozenset(one["tags"]))
        for one in DeltaTable(folder).to_pyarrow_table().to_pylist()
        if one["tags"] is not None
    )


def change(folder: str, chance: random.Random) -> None:
    """One commit: rows are inserted, updated, deleted or merged."""
    table, user = DeltaTable(folder), f"user{chance.randrange(8)}"
    tags = chance.sample("abcde", chance.randrange(1, 4))
    what = chance.choice(["insert", "equal", "null", "fill", "row", "update", "delete", "merge"])
    if what == "insert":
        write_deltalake(folder, rows((user, chance.randrange(1 << 40), tags)), mode="append")
    elif what == "equal":  # rows of one user with the same tags
        some = [(user, chance.randrange(1 << 40), tags) for _ in range(3)]
        write_deltalake(folder, rows(*some), mode="append")
    elif what == "null":  # a row without a subscription
        write_deltalake(folder, rows((user, chance.randrange(1 << 40), None)), mode="append")
    elif what == "fill":
        there = table.to_pyarrow_table().to_pylist()
        numbers = [str(one["row"]) for one in there if one["tags"] is None][:1]
        where = f"row IN ({', '.join(numbers)})" if numbers else "row = -1"
        table.update(predicate=where, updates={"tags": "make_array('a')"})
    elif what == "row":
        there = table.to_pyarrow_table()["row"].to_pylist()
        table.delete(f"row = {chance.choice(there)}")
    elif what == "update":
        words = ", ".join(f"'{tag}'" for tag in tags)
        table.update(predicate=f"user = '{user}'", updates={"tags": f"make_array({words})"})
    elif what == "delete":
        table.delete(f"user = '{user}'")
    else:
        some = rows((user, 0, tags), (f"new{chance.randrange(50)}", 0, tags))
        merging = table.merge(some, "s.user = t.user", source_alias="s", target_alias="t")
        merging.when_matched_update({"tags": "s.tags"}).when_not_matched_insert_all().execute()


def made_table(folder: Path) -> str:
    write_deltalake(
        str(folder), rows(("ada", 1, ["rock"]), ("bob", 2, ["jazz"]), ("bob", 3, ["folk"])),
        configuration={"delta.enableChangeDataFeed": "true"},
    )  # fmt: skip
    return str(folder)


def test_an_index_follows_a_delta_table(spark, tmp_path):
    folder, index, chance = (
        made_table(tmp_path / "table"),
        str(tmp_path / "a.index"),
        random.Random(3),
    )

    def follow() -> int:
        return synchronise(spark, folder, index, "tags", "user")

    assert follow() == 1
    assert in_index(index) == in_table(folder)
    DeltaTable(folder).optimize.compact()
    write_deltalake(folder, rows(("eve", 9, ["live"])), mode="append")
    DeltaTable(folder).optimize.compact()  # a commit that changes no row
    assert follow() >= 2
    assert in_index(index) == in_table(folder)
    DeltaTable(folder).optimize.z_order(["user"])
    assert follow() == 1
    for n_commits in (4, 20):
        for _ in range(n_commits):
            change(folder, chance)
        assert 0 < follow() <= n_commits  # changes of no row make no commit
        assert in_index(index) == in_table(folder)
        assert follow() == 0


@pytest.mark.slow
def test_a_stream_of_the_connector_of_delta(tmp_path):
    """Delta's connector for this version of Spark, if there is one, gives `follow_changes` its stream."""
    minor = ".".join(pyspark.__version__.split(".")[:2])
    jars, problem = [], ""
    for version in ("4.4.1", "4.3.1", "4.2.0", "4.1.0"):
        jars, problem = resolve(
            tmp_path / "delta.xml", [f"io.delta:delta-spark_{minor}_2.13:{version}"]
        )
        if jars:
            break
    else:
        pytest.skip(f"no connector of Delta for Spark {minor}: {problem}")
    needed = [jar for jar in jars if "delta" in Path(jar).name or "roaringbitmap" in jar.lower()]
    folder, chance = made_table(tmp_path / "table"), random.Random(5)
    for _ in range(3):
        for _ in range(12):
            change(folder, chance)
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("delta_job.py")), str(tmp_path), ",".join(needed)],
            check=False, capture_output=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()[-4000:]
        assert in_index(tmp_path / "a.index") == in_table(folder)
