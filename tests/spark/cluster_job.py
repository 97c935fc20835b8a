"""A job on a cluster, for `test_cluster.py`: build, match in both ways and stream; prints what it finds as JSON.

python cluster_job.py MASTER FOLDER WHAT
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

import matchyard.spark as ms

CONFIG = {
    "spark.executor.memory": "1g",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "4",
    "spark.task.maxFailures": "8",
}


COPIES = 30  # of the events that `files` matches, so that its tasks take a while


def slow(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as they are; the first attempt at partition 1 takes long, so that Spark starts another one."""
    context = TaskContext.get()
    if context.partitionId() == 1:
        with Path(folder, "attempts").open("a") as file:
            file.write(f"{context.attemptNumber()}\n")
        if context.attemptNumber() == 0:
            time.sleep(40)
    yield from batches


def origins(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The file that the worker's Matchyard comes from."""
    for batch in batches:
        import matchyard

        yield pa.record_batch({"origin": [matchyard.__file__] * len(batch)})


def pairs(frame: Any) -> list[list[int]]:
    return sorted([row.id, row.key] for row in frame.collect())


def main(master: str, folder: Path, what: str) -> None:
    config = {**CONFIG, "spark.master": master}
    if what == "speculation":
        config |= {
            "spark.speculation": "true",
            "spark.speculation.interval": "500ms",
            "spark.speculation.minTaskRuntime": "1s",
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.quantile": "0.5",
        }
    if what == "packed":
        config |= {
            "spark.archives": f"{folder / 'environment.tar.gz'}#environment",
            # An archive is unpacked for each application: kernels are to outlive it.
            "spark.executorEnv.NUMBA_CACHE_DIR": str(folder / "kernels"),
        }
    spark = ms.session(name=what, config=config)
    rows = spark.read.parquet(str(folder / "subscriptions")).repartition(4)
    if what == "speculation":
        rows = rows.mapInArrow(partial(slow, str(folder)), rows.schema)
    index = str(folder / "a.index")
    built = ms.build(rows, index, shards=4)
    events = spark.read.parquet(str(folder / "events"))
    found: dict[str, Any] = {"subscriptions": built.subscriptions}
    found["replicated"] = pairs(ms.match(events, index, strategy="replicated"))
    if what == "everything":
        found["sharded"] = pairs(ms.match(events, index, strategy="sharded"))
        ms.match_files(str(folder / "events"), index, folder / "files", overwrite=True, spark=spark)
        found["files"] = pairs(spark.read.parquet(str(folder / "files")))
        stream = spark.readStream.schema(events.schema).parquet(str(folder / "events"))
        query = (
            ms.match(stream, index, follow=True)
            .writeStream.foreachBatch(ms.to_files(str(folder / "streamed")))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        found["streamed"] = pairs(spark.read.parquet(str(folder / "streamed")))
    if what == "files":
        many = [str(folder / "events")] * COPIES
        ms.match_files(many, index, folder / "out" / "files", spark=spark)
        found["files"] = pairs(spark.read.parquet(str(folder / "out" / "files")))
    if what == "packed":
        rows = spark.range(4).mapInArrow(origins, "origin string").distinct().collect()
        found["origins"] = [row.origin for row in rows]
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
