"""Sweeps over one parameter with algorithms for twigs: the figures of XML twigs on GPUs.

As in the paper, documents are parsed before the clock starts, and matching alone is timed. Several
copies of an algorithm share the documents of a batch, each with all twigs. Every round has new
documents, so caches hold only their structure. The result is the processor time of the slowest copy,
in the median of the rounds, so that other processes hardly matter. On a GPU it is wall time, since the
processor waits for it. Warm-up rounds come first, as in a system that has been running for a while.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import matchyard as my
from benchmarks.shared import steps
from matchyard.bench.compare import harness, machine
from matchyard.bench.compare.twigs import n_xml_bytes
from matchyard.bench.figures.figures import Figure
from matchyard.bench.figures.plots import Row
from matchyard.errors import MatchyardError

_LONG_S = 1.0  # longer rounds are not repeated
_MOST_ROUNDS = 15
_MOST_BYTES = 60_000_000  # of XML per job: generating it takes longer than fast algorithms
_WARM_BYTES = 1_000_000  # of XML in all warm-up rounds
_WARM_ROUNDS = 32  # at most


class Card(NamedTuple):
    """Twigs and documents of one measurement."""

    twigs: int
    n_documents: int = 1
    document_bytes: int = 1_000_000
    nodes: int = 10
    splits: int = 3
    chance: float = 0.3  # of a name to be *, and of a step to be //
    max_children: int = 4

    def source(self) -> Any:
        """The workload."""
        given = {"document_bytes": self.document_bytes, "nodes": self.nodes, "splits": self.splits,
                 "wildcard": float(self.chance), "descendant": float(self.chance),
                 "max_children": self.max_children}  # fmt: skip
        return my.workload("twigs", "dblp", self.twigs, 1, given)


class Timed(NamedTuple):
    """One round of an algorithm, in a number of copies."""

    algorithm: str
    copies: int
    seconds: float  # of the slowest copy
    n_bytes: int
    n_matches: int

    @property
    def mb_per_s(self) -> float:
        """Throughput, without parsing."""
        return self.n_bytes / self.seconds / 1e6


class Copies:
    """Copies of an algorithm over one index, each with its own caches."""

    def __init__(self, index: Any, source: Any, n_documents: int, copies: int) -> None:
        (self._segment,) = index.segments()
        self._source, self._n_documents, self._rounds = source, n_documents, 0
        self.n_first = 0  # matches of the first round, which is the same for every algorithm
        self.algorithm, self.copies = index.algorithm, min(copies, n_documents)
        settings = self._segment.settings
        self._spaces = [
            [
                settings.algorithm.workspace(table, settings.options)
                for table in self._segment.tables
            ]
            for _ in range(self.copies)
        ]

    def run(self) -> Timed:
        """Run one round over new documents."""
        documents = self._source.events(self._n_documents, start=self._rounds * self._n_documents)
        self._rounds += 1
        share = -(-self._n_documents // self.copies)
        batches = [
            self._encoded(documents.slice(start, share))
            for start in range(0, self._n_documents, share)
        ]
        with machine.alone(), ThreadPoolExecutor(self.copies) as pool:
            done = list(pool.map(self._match, batches, self._spaces))
        n_matches = sum(number for _, number in done)
        if self._rounds == 1:
            self.n_first = n_matches
        return Timed(
            self.algorithm, self.copies, max(seconds for seconds, _ in done), n_xml_bytes(documents),
            n_matches,
        )  # fmt: skip

    def _encoded(self, documents: Any) -> Any:
        settings = self._segment.settings
        return self._segment.encode(
            settings.engine.encoder.column(documents, settings.input_options)
        )

    def _match(self, batch: Any, spaces: Sequence[Any]) -> tuple[float, int]:
        """Time and number of matches of one copy."""
        settings, n_matches = self._segment.settings, 0
        clock = time.perf_counter if settings.device == "gpu" else time.thread_time
        start = clock()
        for table, space in zip(self._segment.tables, spaces, strict=True):
            part = settings.algorithm.match(table, batch, space, settings.options)
            n_matches += len(part.keys)
        return clock() - start, n_matches


def measure(
    place: Card,
    algorithms: Sequence[str],
    copies: Mapping[str, Sequence[int]] | None = None,
    device: str = "cpu",
) -> dict[tuple[str, int], Timed]:
    """A typical round of each algorithm, by its name and the number of copies. Algorithms without
    kernels for the device run on the CPU."""
    jobs = {}
    for name in algorithms:
        index, source = filled(
            place, name, device if name in my.algorithms("twigs", device) else "cpu"
        )
        for number in (copies or {}).get(name, [1]):
            jobs[name, number] = Copies(index, source, place.n_documents, number)
    results = dict(zip(jobs, side_by_side(list(jobs.values())), strict=True))
    n_matches = {job.n_first for job in jobs.values()}
    if len(n_matches) > 1:
        raise MatchyardError(f"algorithms found different numbers of matches: {sorted(n_matches)}")
    return results


def filled(place: Card, algorithm: str, device: str = "cpu") -> tuple[Any, Any]:
    """An index over the twigs of a place, and its workload."""
    _compile_kernels(algorithm, device)
    index, source = my.TwigIndex(algorithm, device=device), place.source()
    harness.build(index, source)
    return index, source


@cache
def _compile_kernels(algorithm: str, device: str) -> None:
    """Compile kernels, once in a process, before the clock starts."""
    harness.warm_up(my.TwigIndex(algorithm, device=device), Card(50).source(), 1)


def side_by_side(jobs: Sequence[Copies]) -> list[Timed]:
    """The median round of each job. Jobs take turns, since other processes can slow down one job and
    not the next."""
    rounds = [_warmed(job) for job in jobs]
    results: list[list[Timed]] = [[] for _ in jobs]
    for number in range(max(rounds)):
        for place, job in enumerate(jobs):
            if number < rounds[place]:
                results[place].append(job.run())
    return [sorted(some, key=lambda one: one.seconds)[len(some) // 2] for some in results]


def _warmed(job: Copies) -> int:
    """Run the warm-up rounds; return the number of rounds to count."""
    first = job.run()
    if first.seconds > _LONG_S:
        return 1
    for _ in range(min(_WARM_ROUNDS, _WARM_BYTES // first.n_bytes) - 1):
        job.run()
    by_bytes = min(_MOST_ROUNDS, _MOST_BYTES // first.n_bytes)
    return max(steps.PASSES, min(by_bytes, int(steps.PASS_S / first.seconds)))


def lengths(figure: Figure) -> Iterator[tuple[int, int]]:
    """The nodes and split points of the paper's twigs."""
    yield from zip(figure.settings["nodes"], figure.settings["splits"], strict=True)


def throughputs(figure: Figure) -> Iterator[Row]:
    """MB/s by the number of twigs, a panel for each length."""
    chosen = figure.settings
    for (nodes, splits), share in product(lengths(figure), chosen["shares"]):
        place = Card(
            max(1, round(share * figure.size)), chosen["batch"], chosen["document_bytes"], nodes,
            splits, chosen["chance"],
        )  # fmt: skip
        for result in measure(place, chosen["algorithms"], device=figure.device).values():
            yield {"series": result.algorithm, "panel": f"{nodes} nodes", "x": place.twigs,
                   "y": result.mb_per_s, "matches": result.n_matches}  # fmt: skip


def speedups(place: Card, panel: str, x: float, figure: Figure) -> Iterator[Row]:
    """The speedups of algorithms over one or several copies of yfilter."""
    chosen = figure.settings
    copies = chosen.get("copies", [1])
    named = [*chosen["algorithms"], "yfilter"]
    results = measure(place, named, {"yfilter": copies}, figure.device)
    for name, number in product(chosen["algorithms"], copies):
        theirs = results["yfilter", number]
        yield {"series": f"{name} / {over(number)}", "panel": panel, "x": x,
               "y": theirs.seconds / results[name, 1].seconds,
               "mb_per_s": results[name, 1].mb_per_s, "yfilter_mb_per_s": theirs.mb_per_s}  # fmt: skip


def over(copies: int) -> str:
    """The name of the baseline of a speedup.

    >>> over(1), over(2)
    ('yfilter', '2 yfilters')
    """
    return "yfilter" if copies == 1 else f"{copies} yfilters"


def per_doubling(first: float, last: float, doublings: float) -> float:
    """The factor of a value for each doubling of the varied parameter.

    >>> per_doubling(8.0, 1.0, 3)
    0.5
    """
    return float((last / first) ** (1 / doublings))
