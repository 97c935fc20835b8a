"""Compare sharded, replicated and embedded matching, pair by pair; and measure the memory of building workers.

    python -m benchmarks.scale.spark_shards [--size 1M] [--events 100k] [--shards 32,7,1]

Every number of shards has a Spark of its own, so that the peak memory of a worker process is that of
this build. Appends JSON lines to benchmarks/results/spark.jsonl; a difference is an error.
"""

import argparse
import resource
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.scale.spark import number, record

import matchyard as my
from matchyard.spark import build, match, session, workloads


def pairs_of(table: Any) -> np.ndarray:
    """The pairs in a fixed order: two rows, ids and keys."""
    pairs = np.stack([table["id"].to_numpy(), table["key"].to_numpy()])
    return pairs[:, np.lexsort(pairs[::-1])]


def embedded(size: int, n_events: int) -> np.ndarray:
    source = my.workload("tags", "twitter", size)
    index = my.TagIndex(threads=2)
    for tags, keys in source.chunks():
        index.add_many(tags, keys)
    pairs = index.consolidate().match(source.events(n_events)).to_arrow()
    return pairs_of(pairs.rename_columns(["id", "key"]))


def memory(batches: Any) -> Any:
    """The peak memory of a worker that has only imported the modules of a build."""
    import pyarrow as pa

    from matchyard import shards

    assert shards
    for _ in batches:
        yield pa.record_batch({"bytes": [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10]})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=number, default=1_000_000)
    parser.add_argument("--events", type=number, default=100_000)
    parser.add_argument("--shards", default="32,7,1")
    given = parser.parse_args()
    expected = embedded(given.size, given.events)
    for n_shards in map(int, given.shards.split(",")):
        spark = session(cores=2)
        idle_bytes = spark.range(1).mapInArrow(memory, "bytes bigint").first()[0]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.index"
            rows = workloads.subscriptions("twitter", given.size, spark=spark)
            rows.write.parquet(f"{folder}/subscriptions")
            built = build(spark.read.parquet(f"{folder}/subscriptions"), path, shards=n_shards)
            events = workloads.events("twitter", given.size, given.events, spark=spark)
            for strategy in ("replicated", "sharded"):
                matched = match(events, path, strategy=strategy).toArrow()
                if not np.array_equal(pairs_of(matched), expected):
                    raise SystemExit(f"{strategy} with {n_shards} shards found other pairs")
            values = {
                "subscriptions": given.size,
                "events": given.events,
                "pairs": expected.shape[1],
                "shards": n_shards,
                "build_s": round(built.seconds, 2),
                "index_bytes": built.index_bytes,
                "worker_bytes": built.worker_bytes,
                "idle_worker_bytes": idle_bytes,
            }
            record("shards", values)
            print(values, flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
