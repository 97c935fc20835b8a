"""Builds in Spark: processor time by phase, from a DataFrame and from Parquet files.

`python -m benchmarks.scale.spark build` runs it.
"""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from benchmarks.scale.spark import processor_s, record

import matchyard as my
from matchyard.bench.compare import machine, spark_jobs
from matchyard.bench.compare.report import short
from matchyard.spark import build, segments, session

PHASES = ("stage", "deal", "write", "driver")


class Phases:
    """Processor seconds of the steps of a build, by the tasks that run meanwhile."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys(PHASES, 0.0)

    def __enter__(self) -> "Phases":
        self._steps = {name: getattr(segments, f"_{name}") for name in PHASES[:-1]}
        self._start = cpu_s()
        for name, step in self._steps.items():
            setattr(segments, f"_{name}", partial(self._timed, name, step))
        return self

    def _timed(self, name: str, step: Callable[..., Any], *given: Any) -> Any:
        before = cpu_s()
        result = step(*given)
        self.spent[name] += cpu_s() - before
        return result

    def __exit__(self, *raised: object) -> None:
        for name, step in self._steps.items():
            setattr(segments, f"_{name}", step)
        self.spent["driver"] = cpu_s() - self._start - sum(self.spent.values())


def cpu_s() -> float:
    return sum(processor_s().values())


def builds(sizes: list[int], cores: int, root: str) -> None:
    spark, rows = session(cores=cores, config=spark_jobs.CONFIG), []
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=root) as folder:
            source, place = my.workload("tags", "twitter", size), Path(folder)
            spark_jobs.write_subscriptions(source, f"{folder}/subscriptions", 2 * cores)
            files = sorted(str(file) for file in (place / "subscriptions").iterdir())
            ways: dict[str, Callable[[], Any]] = {
                "paths": partial(build, path=place / "paths", paths=files, spark=spark),
                "DataFrame": partial(build, spark.read.parquet(*files), place / "DataFrame"),
                "embedded": partial(embed, files, place / "embedded", cores),
            }
            some = files[:1]
            build(path=place / "warm", paths=some, spark=spark)
            build(spark.read.parquet(*some), place / "warm", shards=2)
            for name, way in ways.items():
                others, start = machine.Others(), time.perf_counter()
                with Phases() as phases:
                    way()
                seconds = time.perf_counter() - start
                spent = sum(phases.spent.values())
                per_million = {part: s / size * 1e6 for part, s in phases.spent.items()}
                busy = max(0.0, others.cores() - spent / seconds)
                rows.append(
                    record("build", {"way": name, "size": size, "cores": cores, "seconds": seconds,
                                     "cpu_s_per_million": spent / size * 1e6, "phases": per_million,
                                     "other_cores": busy})
                )  # fmt: skip
                parts = ", ".join(f"{part} {s:.2f}" for part, s in per_million.items())
                print(
                    f"{short(size)} {name}: {spent / size * 1e6:.2f} CPU s per million ({parts}); "
                    f"{seconds:.1f} s, {short(size / seconds)}/s; others kept {busy:.1f} cores busy",
                    flush=True,
                )
            n_same = same_pairs([place / name for name in ways], source, cores)
            print(f"{short(size)}: {n_same:,} pairs of 20,000 events are the same", flush=True)
    spark.stop()


def embed(files: list[str], path: Path, threads: int) -> None:
    index = my.TagIndex(threads=threads)
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(1 << 18):
            index.add_many(batch.column("tags"), batch.column("key"))
    index.save(path)


def same_pairs(paths: list[Path], source: Any, threads: int) -> int:
    """The number of pairs of some events, which all indexes find."""
    events, pairs = source.events(20_000, 0), []
    for path in paths:
        found = my.open(path, threads=threads).match(events).to_arrow()
        pairs.append(found.sort_by([("event", "ascending"), ("key", "ascending")]))
    assert all(one.equals(pairs[0]) for one in pairs)
    return len(pairs[0])
