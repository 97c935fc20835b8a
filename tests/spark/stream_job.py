"""A stream over a folder of files that ends by itself; `test_exactly_once.py` kills it meanwhile.

python stream_job.py FOLDER match|changes
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from matchyard import spark as ms

SCHEMAS = {
    "match": "id bigint, tags array<string>",
    "changes": "key bigint, tags array<string>, op string, at bigint",
}


def match(events: Any, folder: Path) -> Any:
    """Match events with the index, and write the pairs."""
    matched = ms.match(events, folder / "a.index", follow=True, version=True, bad="keep")
    files = ms.to_files(str(folder / "pairs"), dead_letters=str(folder / "bad"))
    writer = matched.writeStream.foreachBatch(files).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def changes(feed: Any, folder: Path) -> Any:
    """Keep the index up with a feed of changes."""
    return ms.follow_changes(
        feed, folder / "a.index", folder / "checkpoint", order="at", segments=3,
        trigger={"availableNow": True},
    )  # fmt: skip


def main() -> None:
    folder, what = Path(sys.argv[1]), sys.argv[2]
    spark = ms.session(
        cores=2, memory="1g", name="stream", config={"spark.sql.shuffle.partitions": "2"}
    )
    stream = spark.readStream.schema(SCHEMAS[what]).option("maxFilesPerTrigger", 8)
    rows = stream.parquet(str(folder / "in"))
    query = match(rows, folder) if what == "match" else changes(rows, folder)
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
