"""Follow the change feed of a Delta table by Delta's connector; `test_feeds.py` runs it.

python delta_job.py FOLDER JARS
"""

from __future__ import annotations

import sys
from pathlib import Path

from matchyard import spark as ms


def main() -> None:
    folder = Path(sys.argv[1])
    config = {
        "spark.jars": sys.argv[2],
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = ms.session(cores=2, memory="1g", name="delta", config=config)
    index = folder / "a.index"
    if not index.exists():
        ms.build(spark.createDataFrame([], "user string, tags array<string>"), index, key="user")
    feed = (
        spark.readStream.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", 0)
        .load(str(folder / "table"))
        .where("tags IS NOT NULL")
    )
    query = ms.follow_changes(
        feed, index, folder / "state", key="user", op="_change_type", order="_commit_version",
        segments=4, trigger={"availableNow": True},
    )  # fmt: skip
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
