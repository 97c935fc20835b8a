"""A whole path in Spark Connect; `test_connect.py` runs this and reads the last line it prints."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa

import matchyard.spark


def double(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from matchyard import TagIndex  # the package is found by the workers too

    assert TagIndex
    for batch in batches:
        yield pa.record_batch({"twice": pa.array([2 * id for id in batch["id"].to_pylist()])})


def main() -> None:
    spark = matchyard.spark.session(memory="1g", name="connect")
    try:
        table = spark.range(5).mapInArrow(double, "twice long").toArrow()
        found = {
            "session": type(spark).__module__,
            "found": matchyard.spark.session() is spark,
            "twice": sorted(table["twice"].to_pylist()),
        }
    finally:
        spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
