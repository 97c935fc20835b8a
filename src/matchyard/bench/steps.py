"""The steps that figures are made of: an index over a workload, its speed, and what it holds."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import matchyard as my
from matchyard.bench import harness
from matchyard.engines.tags.algorithms import tagmatch

PASSES = 3  # timed passes or rounds per point
PASS_S = 0.4  # a figure has dozens of points: shorter passes than those of a comparison


def workload(
    name: str, size: int, extra_tags: int | None = None, tags_each: int | None = None, seed: int = 1
) -> Any:
    """A named workload; `tags_each` gives every subscription exactly so many hashtags."""
    source = my.workload("tags", name, size, seed, extra_tags)
    if tags_each is not None:
        source.model = source.model._replace(fewest=tags_each, most=tags_each)
    return source


def filled(source: Any, algorithm: str = "rarest", options: dict[str, Any] | None = None) -> Any:
    """An index over a workload; kernels are compiled already."""
    index = my.TagIndex(algorithm, options)
    harness.warm_up(index, source, 1)
    for tags, keys in source.chunks():
        index.add_many(tags, keys)
    return index.consolidate()


def prepared(
    name: str,
    size: int,
    algorithm: str = "rarest",
    options: dict[str, Any] | None = None,
    extra_tags: int | None = None,
    seed: int = 1,
) -> tuple[Any, Any]:
    """An index over a named workload, and the workload itself."""
    source = workload(name, size, extra_tags, seed=seed)
    return filled(source, algorithm, options), source


def speed(
    index: Any, source: Any, threads: int, verb: str = "match", passes: int | None = None
) -> harness.Result:
    """The index's speed on the workload's events."""
    return harness.measure(
        index, source, index.algorithm, 0.0, threads, index.device, None, passes or PASSES, verb,
        PASS_S,
    )  # fmt: skip


def best_of_rounds(jobs: Mapping[Any, Callable[[], Any]]) -> dict[Any, Any]:
    """Run timed jobs in turn, round after round, and keep each one's fastest result.

    Ratios within a figure need this on a shared machine: what else runs there slows one job down
    and not the next, for longer than a pass, and only ever makes it slower.
    """
    best: dict[Any, Any] = {}
    for _ in range(PASSES):
        for name, job in jobs.items():
            found = job()
            if name not in best or found.events_per_s > best[name].events_per_s:
                best[name] = found
    return best


def by_extra_tags(
    name: str, size: int, algorithms: Iterable[str], extra_tags: Iterable[int], threads: int
) -> dict[tuple[str, int], harness.Result]:
    """match_unique while events grow, by algorithm and extra tags."""
    indexes = {algorithm: prepared(name, size, algorithm)[0] for algorithm in algorithms}
    sources = {extra: workload(name, size, extra) for extra in extra_tags}
    return best_of_rounds(
        {
            (algorithm, extra): partial(speed, index, source, threads, "match_unique", 1)
            for algorithm, index in indexes.items()
            for extra, source in sources.items()
        }
    )


def build_times(
    source: Any, algorithm: str, options: dict[str, Any] | None = None, repeats: int = 2
) -> tuple[float, float]:
    """Seconds to stage a workload (`add_many`) and to compile it (`consolidate`), the best of some.

    The best, since everything else that runs on the machine only ever adds to it.
    """
    harness.warm_up(my.TagIndex(algorithm, options), source, 1)
    staging, compiling = [], []
    for _ in range(repeats):
        index = my.TagIndex(algorithm, options)
        gc.collect()
        staging.append(0.0)
        for tags, keys in source.chunks():
            start = time.perf_counter()
            index.add_many(tags, keys)
            staging[-1] += time.perf_counter() - start
        start = time.perf_counter()
        index.consolidate()
        compiling.append(time.perf_counter() - start)
    return min(staging), min(compiling)


# The two steps below look inside a consolidated index. What they read is of interest to figures
# only (one is even specific to tagmatch), so it is not part of what an index shows to its users.


def memory(index: Any) -> dict[str, int]:
    """Bytes of each array of the tables, and of the vocabulary; their sum is `index_bytes`."""
    found: dict[str, int] = {}
    for segment in index._snapshot.segments:
        found["vocabulary"] = found.get("vocabulary", 0) + sum(a.nbytes for a in segment.vocabulary)
        for table in segment.tables:
            for name, array in table._asdict().items():
                found[name] = found.get(name, 0) + array.nbytes
    return found


def search_space(index: Any, events: Any) -> tuple[int, float]:
    """Partitions of a tagmatch index, and the sets in those that an event is forwarded to (mean)
    [thesis, Figures 3.9 and 3.10]."""
    n_partitions, n_sets = 0, 0
    settings = index._settings
    for segment in index._snapshot.segments:
        batch = segment.encode(settings.engine.encoder.column(events, settings.reading))
        for table in segment.tables:
            n_partitions += len(table.block_start) - 1
            n_sets += int(tagmatch.search_space(table, batch).sum())
    return n_partitions, n_sets / len(events)
