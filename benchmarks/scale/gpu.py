"""The paper's database, 212 million subscriptions, on one GPU.

    python benchmarks/scale/gpu.py [SIZE] [FOLDER] [ALGORITHM …] [--processes N] [--device cpu]

Builds `twitter` at SIZE into FOLDER with as many processes as there are cores (see
`parallel_build.py`), unless it is there from the last time. Then measures encoded
batches to keys in the host's memory: medians of at least five passes after a first, for launches of
several sizes and for one, two and four threads, and the time of the kernels alone; and compares the
keys of some events with those that `rarest` finds on the CPU. An ALGORITHM is `rarest`, `tagmatch`,
`scan`, or `plain`, which is `scan` with one event in a launch.

Appends JSON lines to benchmarks/results/gpu.jsonl.
"""

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import parallel_build

import matchyard as my
from matchyard import device, shards
from matchyard.bench import machine

RESULTS = Path(__file__).parents[1] / "results" / "gpu.jsonl"
LAUNCHES = (1 << 14, 1 << 16)
THREADS = (1, 2, 4)
PASSES = 5
MOST_S = 1.0  # of a pass: with more, it takes fewer events
N_COMPARED = 2000
BRUTE_FORCE = 1.38e12  # sets per second that a plain loop over all of them checks on an H200


class Case(NamedTuple):
    """What is measured: an algorithm with options for building, and others for matching."""

    algorithm: str
    built_with: dict[str, Any]
    matched_with: dict[str, Any]
    launches: tuple[int, ...]


CASES = {
    "rarest": Case("rarest", {}, {}, LAUNCHES),
    "tagmatch": Case("tagmatch", {"max_partition": 4000}, {}, LAUNCHES),
    "scan": Case("scan", {}, {}, (1 << 12,)),  # "GPU-only, plain with batching" [TagMatch Table 1]
    "plain": Case("scan", {}, {"batch": 1}, (1 << 8,)),  # "GPU-only, plain"
}


def record(kind: str, values: dict[str, Any]) -> None:
    line = {"kind": kind, **values, "gpu": device.report(), "machine": machine.describe()}
    print(json.dumps(line), flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(line) + "\n")


def built(given: argparse.Namespace, case: Case) -> Path:
    """The saved index, which is built if it is not there."""
    algorithm = case.algorithm
    path: Path = given.folder / f"{algorithm}-{given.size}.index"
    if not (path / "CURRENT").exists():
        plan = shards.Plan("tags", algorithm, case.built_with)
        parts = given.folder / "parts"
        job = parallel_build.Job("twitter", given.size, plan, given.processes, parts)
        start = time.perf_counter()
        steps = parallel_build.build(path, job)
        took = {"build_s": time.perf_counter() - start, **steps, "processes": given.processes}
        record("build", {"algorithm": algorithm, "size": given.size, **took})
    return path


class Runner:
    """An index whose batches are encoded once, and matched often."""

    def __init__(self, index: Any, events: Any, matched_with: dict[str, Any]) -> None:
        (self.segment,) = index.segments()
        self.settings = self.segment.settings
        self.options = self.settings.options._replace(**matched_with)
        column = self.settings.engine.encoder.column(events, self.settings.reading)
        self.batch = self.segment.encode(column)
        self._lent: list[list[Any]] = []

    def batches(self, launch: int) -> list[Any]:
        """The events, some in each launch."""
        n_events = self.batch.n_rows
        return [
            self.batch.rows(start, min(start + launch, n_events))
            for start in range(0, n_events, launch)
        ]

    def borrow(self) -> list[Any]:
        """What a thread matches with, for each table."""
        return [space for _, space in self.segment.workspaces.borrow()]

    def match(self, batch: Any, spaces: list[Any]) -> Counter[str]:
        """Match one batch: what was found, and what went over the bus."""
        algorithm, done = self.settings.algorithm, Counter(events=batch.n_rows)
        sent = batch.tags.nbytes + batch.tag_start.nbytes + batch.signatures.nbytes
        for table, space in zip(self.segment.tables, spaces, strict=True):
            part = algorithm.match(table, batch, space, self.options)
            fetched = part.keys.nbytes + part.event_start.nbytes
            done.update(pairs=len(part.keys), candidates=part.candidates, bus=sent + fetched)
        return done

    def run(self, batches: list[Any], threads: int) -> tuple[float, Counter[str]]:
        """Match batches, each thread every so many-th: the seconds, and what was done."""
        while len(self._lent) < threads:
            self._lent.append(self.borrow())
        lent = self._lent
        start = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            done = pool.map(
                lambda number: sum(
                    (self.match(one, lent[number]) for one in batches[number::threads]), Counter()
                ),
                range(threads),
            )
            total: Counter[str] = sum(done, Counter())
        return time.perf_counter() - start, total


def measure(runner: Runner, launch: int, threads: int) -> dict[str, Any]:
    """Rates of encoded batches to keys."""
    batches = runner.batches(launch)
    first_s, _ = runner.run(batches[:threads], threads)
    fitting = int(MOST_S / first_s * threads)
    batches = batches[: max(threads, fitting // threads * threads)]
    passes = [runner.run(batches, threads) for _ in range(1 + PASSES)][1:]
    seconds, done = statistics.median(took for took, _ in passes), passes[0][1]
    return {
        "launch": launch, "threads": threads, **done, "passes_s": [took for took, _ in passes],
        "events_per_s": done["events"] / seconds, "pairs_per_s": done["pairs"] / seconds,
        "bus_bytes_per_s": done["bus"] / seconds, "checks_per_s": done["candidates"] / seconds,
        "checks_to_brute_force": done["candidates"] / seconds / BRUTE_FORCE,
    }  # fmt: skip


def kernels(runner: Runner, launch: int) -> dict[str, Any]:
    """Seconds of each kernel alone, by the clock of the card; the median of several launches."""
    import cupy

    spaces, marks = runner.borrow(), []
    for space in spaces:

        def timed(function: Any, *args: Any, lane: Any = space.lane, **more: Any) -> None:
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record(lane.stream)
            type(lane).launch(lane, function, *args, **more)
            end.record(lane.stream)
            marks.append((function.name, begin, end))

        space.lane.launch = timed
    times: dict[str, list[float]] = {}
    batch = runner.batches(launch)[0]
    runner.match(batch, spaces)
    for _ in range(PASSES):
        marks.clear()
        runner.match(batch, spaces)
        once: Counter[str] = Counter()
        for name, begin, end in marks:
            once[name] += cupy.cuda.get_elapsed_time(begin, end) / 1000  # type: ignore[assignment]
        for name, took in once.items():
            times.setdefault(name, []).append(took)
    found = {name: statistics.median(all_of_it) for name, all_of_it in times.items()}
    total = sum(found.values())
    return {"launch": launch, "kernels_s": found, "events_per_s": batch.n_rows / max(total, 1e-9)}


def compare(index: Any, reference: Any, events: Any) -> int:
    """Do both find the same keys? How many these are."""
    ours, theirs = index.match(events), reference.match(events)
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if sorted(one) != sorted(other):
            sys.exit(f"event {number}: {len(one)} keys, but {len(other)} by rarest on the CPU")
    return int(ours.work.matches)


def run(given: argparse.Namespace, name: str) -> None:
    """Build, compare, and measure one case."""
    case = CASES[name]
    path, by_rarest = built(given, case), built(given, CASES["rarest"])
    index, reference = my.open(path, device=given.device), my.open(by_rarest)
    is_gpu, about = given.device == "gpu", {"algorithm": name, "size": given.size}
    free = device.card().free_bytes if is_gpu else 0
    for workload in ("twitter", "twitter-popular"):
        events = my.workload("tags", workload, given.size).events(given.events)
        about["workload"] = workload
        some = events[:N_COMPARED]
        n_keys = compare(index, reference, some)
        record("compared", {**about, "events": len(some), "keys": n_keys})
        runner = Runner(index, events, case.matched_with)
        for launch in case.launches:
            for threads in (n for n in THREADS if n * launch <= given.events or n == 1):
                record("match", {**about, **measure(runner, launch, threads)})
            if is_gpu:
                record("kernels", {**about, **kernels(runner, launch)})
    if is_gpu:
        taken = (free - device.card().free_bytes) / 2**30
        table_gib = sum(segment.n_bytes for segment in index.segments()) / 2**30
        record("memory", {**about, "on_card_gib": taken, "index_gib": table_gib})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("size", type=int, nargs="?", default=212_000_000)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("/tmp/gpu"))
    parser.add_argument("algorithms", nargs="*", default=["rarest", "tagmatch"], metavar="CASE")
    parser.add_argument("--processes", type=int, default=machine.cores())
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--events", type=int, default=1 << 20, help="that a pass has at most")
    given = parser.parse_args()
    for name in given.algorithms:
        run(given, name)


if __name__ == "__main__":
    main()
