"""The steps of figures: build an index over a workload, measure its speed and its memory."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import matchyard as my
from matchyard.bench.compare import harness, machine
from matchyard.gpu import devices as cards

PASSES = 3  # timed passes or rounds per point
PASS_S = 0.4  # shorter than in a comparison, since a figure has dozens of points
# On a GPU a pass is a few launches: generating events takes far longer than matching them.
ON_GPU = {"tags": 1 << 17, "predicates": 1 << 14}


def workload(
    name: str, size: int, extra_tags: int | None = None, tags_each: int | None = None, seed: int = 1
) -> Any:
    """A named workload, or "rib", the table of a router; `tags_each` is the exact number of hashtags of every
    subscription."""
    if name == "rib":
        from benchmarks.shared.rib_source import rib_source  # needs SciPy

        return rib_source(size, seed)
    parameters = {} if extra_tags is None else {"extra_tags": extra_tags}
    source = my.workload("tags", name, size, seed, parameters)
    if tags_each is not None:
        source.model = source.model._replace(fewest=tags_each, most=tags_each)
    return source


def filled(
    source: Any,
    algorithm: str = "rarest",
    options: dict[str, Any] | None = None,
    device: str = "cpu",
) -> Any:
    """An index over a workload, with compiled kernels."""
    index = my.TagIndex(algorithm, options, device)
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
    device: str = "cpu",
) -> tuple[Any, Any]:
    """An index over a named workload, and the workload itself."""
    source = workload(name, size, extra_tags, seed=seed)
    return filled(source, algorithm, options, device), source


def n_events(index: Any) -> int | None:
    """The events of a pass; None: as many as the time allows."""
    return ON_GPU[index.info()["engine"]] if index.device == "gpu" else None


def speed(
    index: Any, source: Any, threads: int, verb: str = "match", passes: int | None = None
) -> harness.Result:
    """The index's speed on the workload's events."""
    result, _ = harness.measure(
        index, source, index.algorithm, 0.0, threads, index.device, n_events(index),
        passes or PASSES, verb, PASS_S,
    )  # fmt: skip
    return result


def best_of_rounds(jobs: Mapping[Any, Callable[[], Any]]) -> dict[Any, Any]:
    """Run timed jobs in turn, round after round, and keep the fastest result of each job.

    Ratios within a figure need this on a shared machine: other processes slow down one job and not
    the next, for longer than a pass.
    """
    best: dict[Any, Any] = {}
    for _ in range(PASSES):
        for name, job in jobs.items():
            result = job()
            if name not in best or result.events_per_s > best[name].events_per_s:
                best[name] = result
    return best


def by_extra_tags(
    name: str,
    size: int,
    algorithms: Iterable[str],
    extra_tags: Iterable[int],
    threads: int,
    device: str = "cpu",
) -> dict[tuple[str, int], harness.Result]:
    """The speed of match_unique by algorithm and number of extra tags."""
    indexes = {
        algorithm: prepared(name, size, algorithm, device=device)[0] for algorithm in algorithms
    }
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
    """The least seconds to stage a workload (`add_many`) and to compile it (`consolidate`).

    The least of some rounds, since other processes only ever add time.
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


class Copied(NamedTuple):
    """The cost of an index on a card."""

    seconds: float
    n_bytes: int


def copied(index: Any, source: Any) -> Copied:
    """Time the copy of a fresh index to the card: the first match includes it, the second does not."""
    gc.collect()  # frees the card's memory of other indexes
    before, seconds = cards.used_bytes(), []
    for number in range(2):
        events = source.events(1, start=number)
        with machine.alone():
            start = time.perf_counter()
            index.match(events)
            seconds.append(time.perf_counter() - start)
    return Copied(max(1e-6, seconds[0] - seconds[1]), cards.used_bytes() - before)
