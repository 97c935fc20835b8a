"""A stream over a folder of files that ends by itself; `test_exactly_once.py` kills it meanwhile."""

from __future__ import annotations

import sys
from pathlib import Path

from matchyard import spark as ms


def main() -> None:
    folder = Path(sys.argv[1])
    spark = ms.session(
        cores=2, memory="1g", name="stream", config={"spark.sql.shuffle.partitions": "2"}
    )
    events = (
        spark.readStream.schema("id bigint, tags array<string>")
        .option("maxFilesPerTrigger", 8)
        .parquet(str(folder / "in"))
    )
    matched = ms.match(events, folder / "a.index", follow=True, version=True, bad="keep")
    query = (
        matched.writeStream.foreachBatch(
            ms.to_files(str(folder / "pairs"), dead_letters=str(folder / "bad"))
        )
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
