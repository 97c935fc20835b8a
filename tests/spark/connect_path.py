"""A whole path in Spark Connect; `test_connect.py` runs this and reads the last line it prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import matchyard as my
from matchyard import spark as ms
from tests.spark.change_feeds import applied, drawn, feed, in_index, in_order
from tests.spark.frames import EVENTS, TAGS, changes, events, found, subscriptions, wanted


def stream(spark: Any, index: Path, folder: Path) -> dict[str, Any]:
    """A stream that ends by itself: its pairs, its dead letters, and what a listener heard."""
    (folder / "in").mkdir()
    rows = pa.array([*EVENTS, None], TAGS)
    pq.write_table(pa.table({"id": range(len(rows)), "tags": rows}), folder / "in" / "a.parquet")
    frame = spark.readStream.schema("id bigint, tags array<string>").parquet(str(folder / "in"))
    matched = ms.match(frame, index, follow=True, version=True, bad="keep")
    query = (
        matched.writeStream.foreachBatch(
            ms.to_files(str(folder / "pairs"), dead_letters=str(folder / "bad"))
        )
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    pairs = spark.read.parquet(str(folder / "pairs"))
    return {
        "pairs": found(pairs) == wanted(),
        "versions": [row.version for row in pairs.select("version").distinct().collect()],
        "bad": [row.id for row in spark.read.parquet(str(folder / "bad")).collect()],
    }


def followed(spark: Any, index: Path, folder: Path) -> bool:
    """A stream of changes, the last batch of which runs twice: true if the index has each change once."""
    (folder / "feed").mkdir()
    rows = in_order(drawn(3, 60, 20))
    held = in_index(index)
    stream = (
        spark.readStream.schema("key bigint, tags array<string>, op string, at bigint")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "feed"))
    )
    for number in range(2):
        pq.write_table(
            feed(rows[30 * number : 30 * number + 30]), folder / f"feed/{number}.parquet"
        )
        query = ms.follow_changes(
            stream, index, folder / "state", order="at", segments=1, trigger={"availableNow": True}
        )
        query.awaitTermination(120)
        if query.exception() is not None:
            raise query.exception()
        if number == 0:  # as if the driver had died before Spark noted the batch
            for left in (folder / "state/commits").glob("*0*"):
                left.unlink()
    return in_index(index) == applied(rows, held)


def main() -> None:
    folder = Path(sys.argv[1])
    index = folder / "a.index"
    spark = ms.session(memory="1g", name="connect", config={"spark.sql.shuffle.partitions": "2"})
    try:
        ms.build(subscriptions(spark), index, shards=2)
        given = {
            "session": type(spark).__module__,
            "found": ms.session() is spark,
            "replicated": found(ms.match(events(spark), index)) == wanted(),
            "sharded": found(
                ms.match(events(spark), index, strategy="sharded", output="arrays", unique=True)
            )
            == wanted(unique=True),
            "stream": stream(spark, index, folder),
        }
        ms.register(spark)
        events(spark).createOrReplaceTempView("events")
        query = f"SELECT * FROM matchyard_match(TABLE(SELECT id, tags FROM events), '{index}')"
        given["sql"] = found(spark.sql(query)) == wanted()
        ms.append(changes(spark, [("add", 99, ["new"])]), index)
        ms.compact(index)
        given["changed"] = my.open(index).match([["new"]])[0] == [3, 99]
        given["followed"] = followed(spark, index, folder)
        try:
            ms.build(subscriptions(spark, [None]), index)
        except my.ParseError as error:
            given["error"] = str(error)
    finally:
        spark.stop()
    print(json.dumps(given))


if __name__ == "__main__":
    main()
