"""A cluster of one executor that announces a GPU which is not there; run by test_gpu in a process of
its own, since a session has one master. Prints what it finds as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import matchyard.spark as ms
from matchyard.spark.devices import gpu_for
from tests.spark.frames import events, found, subscriptions


def home_of_spark(folder: Path) -> Path:
    """Spark as it is installed, in a folder where its workers may write."""
    import pyspark

    home = folder / "spark"
    home.mkdir()
    for place in Path(pyspark.__file__).parent.iterdir():
        (home / place.name).symlink_to(place)
    return home


def cluster(folder: Path) -> Any:
    """A session on a worker and an executor with one GPU, of which a task takes half."""
    script = folder / "discover.sh"
    script.write_text('#!/bin/sh\necho \'{"name": "gpu", "addresses": ["7"]}\'\n')
    script.chmod(0o755)
    os.environ["SPARK_HOME"] = str(home_of_spark(folder))
    config = {
        "spark.master": "local-cluster[1,1,1024]",
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
        "spark.executorEnv.CUDA_VISIBLE_DEVICES": "-1",  # none, where there happens to be one
        "spark.worker.resource.gpu.amount": "1",
        "spark.worker.resource.gpu.discoveryScript": str(script),
        "spark.executor.resource.gpu.amount": "1",
        "spark.executor.resource.gpu.discoveryScript": str(script),
        "spark.task.resource.gpu.amount": "0.5",
    }
    return ms.session(cores=1, memory="1g", config=config)


def addresses(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The GPU that a task has."""
    for batch in batches:
        yield pa.record_batch({"gpu": pa.array([gpu_for("auto")] * len(batch), pa.string())})


def main(folder: Path) -> None:
    """Build and match, with a GPU that cannot be used."""
    spark = cluster(folder)
    path = str(folder / "music.index")
    ms.build(subscriptions(spark), path)
    try:
        ms.match(events(spark), path, device="gpu").collect()
        error = ""
    except Exception as failure:
        error = str(failure)
    print(
        json.dumps(
            {
                "gpus": [
                    row.gpu for row in spark.range(1).mapInArrow(addresses, "gpu string").collect()
                ],
                "pairs": sorted(found(ms.match(events(spark), path)).elements()),
                "error": error,
            }
        )
    )
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
