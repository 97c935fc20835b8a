"""Build an index of a generated workload of tags with several processes of one machine, and save it.

    every process     rows as numbers, and the count of each name
    the main process  the vocabulary: each name that occurs is spelled once
    every process     numbers to ids, and the rarest id of each row
    the main process  ranges of rarest names, one for each process
    every process     the table of one range
    the main process  one joined table, if the algorithm can join tables

The steps are those of `matchyard.shards`, without ever writing rows as text. Processes are forked,
so that they share the kernels that the main process has compiled.
"""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import matchyard as my
from matchyard import shards, storage
from matchyard.engines.tags import encoder
from matchyard.engines.tags.encoder import Batch
from matchyard.kernels import csr
from matchyard.shards.plan import resolve

_CHUNK = 1 << 20  # rows made at a time


class Job(NamedTuple):
    """The index to build, and the folder for arrays that processes share."""

    workload: str
    size: int
    plan: shards.Plan
    n_processes: int
    folder: Path
    # Makes the index's keys from the workload's keys.
    make_keys: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None = None

    def source(self) -> Any:
        """The workload; its tables are made once."""
        return _source(self.workload, self.size)

    def range(self, number: int) -> tuple[int, int]:
        """The range of rows of a process."""
        return tuple(self.size * place // self.n_processes for place in (number, number + 1))  # type: ignore[return-value]

    def save(self, name: str, number: int, array: NDArray[Any]) -> None:
        """Save an array for another step."""
        np.save(self.folder / f"{name}.{number}.npy", array)

    def load(self, name: str, number: int) -> NDArray[Any]:
        """Map the array that an earlier step has saved."""
        array: NDArray[Any] = np.load(self.folder / f"{name}.{number}.npy", mmap_mode="r")
        return array

    def remove(self, name: str, number: int) -> None:
        """Remove an array that no further step needs."""
        (self.folder / f"{name}.{number}.npy").unlink()


@cache
def _source(workload: str, size: int) -> Any:
    return my.workload("tags", workload, size)


def build(path: Path, job: Job) -> dict[str, float]:
    """Build and publish the index; the seconds of each step."""
    _warm_up(job)
    job.folder.mkdir(parents=True, exist_ok=True)
    seconds, last = {}, time.perf_counter()

    def done(step: str) -> None:
        nonlocal last
        seconds[f"{step}_s"], last = time.perf_counter() - last, time.perf_counter()

    numbers = range(job.n_processes)
    with shards.new_version(path) as version:
        _in_processes(partial(_generate, job), numbers)
        done("generate")
        files, n_names = _write_vocabulary(job, version)
        done("vocabulary")
        _in_processes(partial(_encode, job, n_names), numbers)
        n_filed = np.sum(
            [job.load("n_filed", number) for number in numbers], axis=0, dtype=np.int64
        )
        job.save("routes", 0, shards.cut(np.asarray(n_filed), job.n_processes))
        done("encode")
        is_joined = shards.can_join(job.plan)
        below = shards.scratch() if is_joined else ""
        tables = _in_processes(partial(_compile, job, version, files, below), numbers)
        done("compile")
        if is_joined:
            tables = [shards.join(version, 0, tables, job.plan)]
            done("join")
        files = [*files, *(file for table in tables for file in table)]
        shards.publish(path, version, files, job.plan, [len(tables)])
    shutil.rmtree(job.folder)
    done("publish")
    return seconds


def _warm_up(job: Job) -> None:
    """Compile the kernels."""
    source, index = job.source(), my.create("tags", job.plan.algorithm, job.plan.options)
    index.add_many(*source.subscriptions(0, min(1000, job.size))).consolidate()
    start, names, _ = source.rows(0, min(1000, job.size))
    csr.count_values(names.astype(np.int32), 1)
    csr.take_rows(start, names.astype(np.int32), np.arange(1))


def _in_processes(step: Callable[[int], Any], numbers: range) -> list[Any]:
    """Run a step in a process for each number; its memory is freed when it ends."""
    with multiprocessing.get_context("fork").Pool(len(numbers), maxtasksperchild=1) as pool:
        return pool.map(step, numbers, chunksize=1)


def _generate(job: Job, number: int) -> None:
    """Save rows as 32-bit numbers, and the count of each name among them."""
    source, (first, last) = job.source(), job.range(number)
    counts, names, keys = [np.empty(0, np.int64)], [], []
    for start in range(first, last, _CHUNK):
        rows = source.rows(start, min(start + _CHUNK, last))
        counts.append(np.diff(rows[0]))
        names.append(rows[1].astype(np.int32))
        keys.append(rows[2])
    every_name, every_key = np.concatenate(names), np.concatenate(keys)
    lowest = int(every_name.min())
    every_name -= lowest
    used = csr.count_values(every_name, int(every_name.max()) + 1)
    job.save("lowest", number, np.array([lowest]))
    job.save("used", number, np.flatnonzero(used))
    job.save("uses", number, used[used > 0])
    job.save("row_start", number, csr.ragged(np.concatenate(counts)))
    job.save("names", number, every_name)
    job.save("keys", number, job.make_keys(every_key) if job.make_keys else every_key)


def _write_vocabulary(job: Job, version: Any) -> tuple[list[shards.File], int]:
    """Rank the names, save the id of each, and write the vocabulary; return its files and its size."""
    numbers = range(job.n_processes)
    lows = [int(job.load("lowest", number)[0]) for number in numbers]
    lowest = min(lows)
    end = max(
        low + int(job.load("used", number)[-1]) for low, number in zip(lows, numbers, strict=True)
    )
    uses = np.zeros(end - lowest + 1, np.int64)
    for low, number in zip(lows, numbers, strict=True):
        uses[job.load("used", number) + (low - lowest)] += job.load("uses", number)
    used = np.flatnonzero(uses)
    ranked = used[np.argsort(-uses[used], kind="stable")]
    words = job.source().words(ranked + lowest)
    counted = pa.table({"name": words, "count": uses[ranked]})
    vocabulary = encoder.merge_counts([counted])
    if not vocabulary.to_arrow().equals(words.cast(vocabulary.to_arrow().type)):
        raise my.UsageError("the vocabulary changed the order of names that were already ranked")
    ids = np.full(len(uses), -1, np.int32)
    ids[ranked] = np.arange(len(ranked), dtype=np.int32)
    for low, number in zip(lows, numbers, strict=True):
        job.save("lowest", number, np.array([low - lowest]))
    job.save("ids", 0, ids)
    return shards.write_names(version, vocabulary), len(ranked)


def _encode(job: Job, n_names: int, number: int) -> None:
    """Replace names by ids, and count the rows of each rarest id."""
    tags = job.load("ids", 0)[job.load("names", number) + job.load("lowest", number)[0]]
    batch = _batch(np.asarray(job.load("row_start", number)), tags)
    rarest = encoder.rarest(batch).astype(np.int32)
    job.save("tags", number, tags)
    job.save("rarest", number, rarest)
    n_filed = csr.count_values(rarest + np.int32(1), n_names + 1)
    job.save("n_filed", number, n_filed.astype(np.int32))
    job.remove("names", number)


def _batch(start: NDArray[np.int64], tags: NDArray[np.int32]) -> Batch:
    return Batch(start, tags, np.zeros((len(start) - 1, 0), np.uint64))


def _compile(
    job: Job, version: Any, files: list[shards.File], below: str, number: int
) -> list[shards.File]:
    """The table of the rows whose rarest names are in the range of this process."""
    filed = np.flatnonzero(job.load("routes", 0) == number)
    lowest, highest = (int(filed[0]) - 1, int(filed[-1]) - 1) if len(filed) else (0, -1)
    counts, tags, keys = [], [], []
    for part in range(job.n_processes):
        rarest = job.load("rarest", part)
        rows = np.flatnonzero((rarest >= lowest) & (rarest <= highest))
        start, its_tags = csr.take_rows(
            np.asarray(job.load("row_start", part)), np.asarray(job.load("tags", part)), rows
        )
        counts.append(np.diff(start))
        tags.append(its_tags)
        keys.append(job.load("keys", part)[rows])
    start, every_key = csr.ragged(np.concatenate(counts)), np.concatenate(keys)
    batch = _batch(start, np.concatenate(tags))
    del counts, tags, keys
    vocabulary, _ = shards.open_names(version, files, job.plan)
    settings = resolve(job.plan)
    table = settings.algorithm.compile(batch, every_key, vocabulary, settings.options)
    return storage.write_table(Path(version), number, table, below=below)
