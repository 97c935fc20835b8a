"""Scenarios in Spark Connect; `test_geo.py` runs this and reads the last line it prints."""

from __future__ import annotations

import json
import time
from typing import Any

from pyspark.sql import functions as F

import matchyard.spark
from matchyard.errors import UsageError
from matchyard.geo import uniform
from matchyard.spark import geo
from tests.spark.test_geo import ROWS, SMALL


def interrupt(done: int, total: int) -> None:
    if total == 3:  # the tasks that simulate
        raise KeyboardInterrupt


def interrupted_s() -> float:
    start = time.perf_counter()
    try:
        geo.collect(geo.simulate(geo.scenarios([SMALL._replace(runs=10_000_000)] * 3)), interrupt)
    except KeyboardInterrupt:
        return time.perf_counter() - start
    raise AssertionError("the job ended by itself")


def main() -> None:
    spark = matchyard.spark.session(memory="1g", name="connect")
    told: list[tuple[int, int]] = []
    try:
        frame = geo.simulate(geo.scenarios(ROWS)).withColumn("task", F.spark_partition_id())
        table = geo.collect(frame, lambda *counts: told.append(counts))
        given: dict[str, Any] = {
            "rows": table.drop(["task"]).to_pylist(),
            "tasks": sorted(table["task"].to_pylist()),
            "told": told,
            "mesh": geo.collect(
                geo.simulate(geo.scenarios([SMALL]), uniform(200, 6, 1))
            ).to_pylist(),
        }
        try:
            geo.collect(geo.simulate(geo.scenarios([SMALL._replace(size=301)])))
        except UsageError as error:
            given["error"] = str(error)
        given["interrupted_s"] = interrupted_s()
    finally:
        spark.stop()
    print(json.dumps(given))


if __name__ == "__main__":
    main()
