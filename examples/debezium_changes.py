"""Keep an index up with a table of a database, by Debezium's messages about its changes.

    python examples/debezium_changes.py messages/ music.index

`messages` is a folder of files with a JSON message per line, to which more may be added; with a topic of Kafka, read
`spark.readStream.format("kafka")` instead. The table has the columns `user` and `tags`, and a user may have several rows.
Messages have to say what a row was before its change: in PostgreSQL, ALTER TABLE … REPLICA IDENTITY FULL. The column
`tags` is NOT NULL, since a null of a row and a missing column look the same.

The program ends when all files are read; started again, it goes on where it was. Each file counts once. Debezium may send
a message twice; the index ends the same, because the row after a change takes the place of equal ones. So equal rows of
one user count as one, and go together: if your table has such rows, take its primary key as the key of the index.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from matchyard.spark import build, follow_changes, session

ROW = "struct<user: string, tags: array<string>>"
MESSAGE = f"op string, source struct<lsn: bigint>, before {ROW}, after {ROW}"
WITH_SCHEMA = f"{MESSAGE}, payload struct<{MESSAGE}>"  # as JsonConverter writes by default


def rows_of(messages: Any) -> Any:
    """Removals of the rows before and after each change, and an insertion of the row after it.

    The column `value` has the messages. A key may have several rows, so a change must say which row it replaces.
    """
    text = F.trim(F.col("value").cast("string"))
    parsed = F.from_json(text, WITH_SCHEMA, {"mode": "FAILFAST"})
    message = messages.where(text != "").select(parsed.alias("message"))  # blank: a tombstone
    op, lsn, before, after = (
        F.coalesce(f"message.payload.{name}", f"message.{name}")
        for name in ("op", "source.lsn", "before", "after")
    )
    problem = F.when(op.isNull() | ~op.isin("c", "r", "u", "d"), "op is not c, r, u or d").when(
        op.isin("u", "d") & before["tags"].isNull(),
        "no tags in the row before: set REPLICA IDENTITY FULL, and the column to NOT NULL",
    )
    failed = F.raise_error(F.concat(F.lit("a message of Debezium: "), problem)).cast("boolean")
    checked = message.where(F.when(problem.isNotNull(), failed).otherwise(F.lit(True)))
    sides = [
        F.struct(F.lit(what).alias("op"), row.alias("row"))
        for what, row in (("remove", before), ("remove", after), ("insert", after))
    ]
    changed = checked.select(lsn.alias("lsn"), F.explode(F.array(*sides)).alias("side"))
    return changed.where("side.row is not null").select("lsn", "side.op", "side.row.*")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("messages", type=Path, help="folder of files of messages")
    parser.add_argument("index", type=Path, help="folder of the index, made if it is not there")
    given = parser.parse_args()
    spark = session(name="debezium-changes")
    state = Path(f"{given.index}.state")
    if not (given.index / "CURRENT").exists():
        if state.exists():
            raise SystemExit(f"{state} is of an index that is gone: remove it to begin anew")
        nobody = spark.createDataFrame([], "user string, tags array<string>")
        build(nobody, given.index, key="user")
    query = follow_changes(
        rows_of(spark.readStream.text(str(given.messages.absolute()))), given.index,
        state, key="user", order="lsn", trigger={"availableNow": True},
    )  # fmt: skip
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
