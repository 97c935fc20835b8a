"""The paper's database, 212 million subscriptions, on one GPU.

    python -m benchmarks.scale.gpu [SIZE] [FOLDER] [ALGORITHM …] [--processes N] [--device cpu]

Builds `twitter` at SIZE into FOLDER with a process per core (see `parallel_build.py`), unless FOLDER has
it already. Then measures encoded batches to keys in the host's memory: medians of at least five passes
after a warm-up, for launches of several sizes and for one, two and four threads, and the time of the
kernels alone. Compares the keys of some events with those of `rarest` on the CPU. An ALGORITHM is
`rarest`, `tagmatch`, `tagmatch-cpu` (`tagmatch` with the pre-process on the CPU), `scan`, or `plain`
(`scan` with one event in a launch).

`icn-tagmatch` and `icn-rarest` are routers [thesis §3.4.5 and §3.5]: the thesis has 63 million filters
of the workload `icn`, and forwards 383 500 packets per second on one GPU. There are eight trees, as in
the thesis; the number of interfaces of a router is our choice.

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

import numpy as np
from benchmarks.scale import parallel_build
from numpy.typing import NDArray

import matchyard as my
from matchyard import shards
from matchyard.bench.compare import machine
from matchyard.forwarding import Way
from matchyard.gpu import devices
from matchyard.index.segment import join

RESULTS = Path(__file__).parents[1] / "results" / "gpu.jsonl"
LAUNCHES = (1 << 14, 1 << 16)
THREADS = (1, 2, 4)
PASSES = 5
MOST_S = 1.0  # of a pass; slower passes get fewer events
N_COMPARED = 2000
N_TREES, N_INTERFACES = 8, 64
BRUTE_FORCE = 1.38e12  # sets per second of a plain loop on an H200


class Case(NamedTuple):
    """An algorithm with options for building and for matching."""

    algorithm: str
    built_with: dict[str, Any]
    matched_with: dict[str, Any]
    launches: tuple[int, ...]
    threads: tuple[int, ...] = THREADS
    is_router: bool = False


CASES = {
    "rarest": Case("rarest", {}, {}, LAUNCHES),
    "tagmatch": Case("tagmatch", {"max_partition": 4000}, {}, LAUNCHES),
    # the pre-process on the CPU, as in the paper, and not on the card [TagMatch §4.5]
    "tagmatch-cpu": Case("tagmatch", {"max_partition": 4000}, {"pre_process": "cpu"}, LAUNCHES),
    # "GPU-only, plain with batching" and "GPU-only, plain" [TagMatch Table 1]
    "scan": Case("scan", {}, {}, (1 << 12,), (1,)),
    "plain": Case("scan", {}, {"batch": 1}, (1 << 8,), (1,)),
    "icn-rarest": Case("rarest", {}, {}, LAUNCHES, is_router=True),
    "icn-tagmatch": Case("tagmatch", {"max_partition": 4000}, {}, LAUNCHES, is_router=True),
}


def record(kind: str, values: dict[str, Any]) -> None:
    line = {"kind": kind, **values, "machine": machine.describe()}
    print(json.dumps(line), flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(line) + "\n")


def route_keys(subscribers: NDArray[np.int64]) -> NDArray[np.int64]:
    """A tree and an interface for each subscriber, as keys of a router."""
    mixed = (subscribers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)
    place = mixed.astype(np.int64) % (N_TREES * N_INTERFACES)
    keys: NDArray[np.int64] = my.interface_key(place % N_TREES, place // N_TREES)
    return keys


def came(n_events: int) -> Way:
    """The trees and interfaces on which events come to a router."""
    rng = np.random.default_rng(1)
    return Way(rng.integers(0, N_TREES, n_events), rng.integers(0, N_INTERFACES, n_events))


def built(given: argparse.Namespace, case: Case) -> Path:
    """The saved index; it is built if it is missing."""
    workload, make_keys = ("icn", route_keys) if case.is_router else ("twitter", None)
    algorithm = case.algorithm
    path: Path = given.folder / f"{workload}-{algorithm}-{given.size}.index"
    if not (path / "CURRENT").exists():
        plan = shards.Plan("tags", algorithm, case.built_with)
        parts = given.folder / "parts"
        job = parallel_build.Job(workload, given.size, plan, given.processes, parts, make_keys)
        start = time.perf_counter()
        steps = parallel_build.build(path, job)
        took = {"build_s": time.perf_counter() - start, **steps, "processes": given.processes}
        record("build", {"algorithm": algorithm, "workload": workload, "size": given.size, **took})
    return path


def reference_of(case: Case) -> Case:
    """The case to compare the matches with."""
    return CASES["icn-rarest" if case.is_router else "rarest"]


class Runner:
    """An index with batches that are encoded once and matched often."""

    def __init__(
        self, index: Any, events: Any, matched_with: dict[str, Any], way: Way | None = None
    ) -> None:
        self.way = way
        (self.segment,) = index.segments()
        self.settings = self.segment.settings
        self.options = self.settings.options._replace(**matched_with)
        column = self.settings.engine.encoder.column(events, self.settings.input_options)
        self.batch = self.segment.encode(column)
        self._lent: list[list[Any]] = []

    def rows(self, first: int, last: int) -> Any:
        """A range of the events."""
        return self.batch.rows(first, last)

    def batches(self, launch: int) -> list[tuple[Any, Way | None]]:
        """The events of each launch, and their trees and interfaces if this is a router."""
        n_events, batches = self.batch.n_rows, []
        for start in range(0, n_events, launch):
            rows = start, min(start + launch, n_events)
            batches.append((self.rows(*rows), self.way and self.way.rows(*rows)))
        return batches

    def borrow(self) -> list[Any]:
        """The workspaces of a thread, one for each table."""
        return [space for _, space in self.segment.workspaces.borrow()]

    def match(self, given: tuple[Any, Way | None], spaces: list[Any]) -> Counter[str]:
        """Match one batch; count the pairs, and the bytes over the bus."""
        (batch, way), algorithm = given, self.settings.algorithm
        sent = sum(array.nbytes for array in batch)
        parts, bus = [], 0
        for table, space in zip(self.segment.tables, spaces, strict=True):
            if way is None:
                part = algorithm.match(table, batch, space, self.options)
            else:
                part = algorithm.forward(table, batch, way, space, self.options)
            keys = part.keys  # once: they are written when they are asked for
            bus += sent + keys.nbytes + part.event_start.nbytes
            parts.append(part._replace(found=keys))
        matches = join(parts, batch.n_rows)
        return Counter(
            events=batch.n_rows, pairs=len(matches.keys), candidates=matches.candidates, bus=bus
        )

    def run(self, batches: list[Any], threads: int) -> tuple[float, Counter[str]]:
        """Match batches, dealt to threads in turn; return the seconds and the counts."""
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
    """The median seconds of each kernel alone, by the clock of the card."""
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
    n_events = batch[0].n_rows
    runner.match(batch, spaces)
    for _ in range(PASSES):
        marks.clear()
        runner.match(batch, spaces)
        once: Counter[str] = Counter()
        for name, begin, end in marks:
            once[name] += cupy.cuda.get_elapsed_time(begin, end) / 1000  # type: ignore[assignment]
        for name, took in once.items():
            times.setdefault(name, []).append(took)
    medians = {name: statistics.median(all_of_it) for name, all_of_it in times.items()}
    total = sum(medians.values())
    return {"launch": launch, "kernels_s": medians, "events_per_s": n_events / max(total, 1e-9)}


def compare(index: Any, reference: Any, events: Any, way: Way | None = None) -> int:
    """Exit unless both find the same keys or interfaces; return their number."""
    if way is None:
        ours, theirs = index.match(events), reference.match(events)
    else:
        ours, theirs = index.forward(events, *way), reference.forward(events, *way)
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if sorted(one) != sorted(other):
            sys.exit(f"event {number}: {len(one)} keys, but {len(other)} on the CPU")
    return int(ours.work.matches)


def free_bytes() -> int:
    """The free memory of the card."""
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()
    return devices.card_state().free_bytes


def run(given: argparse.Namespace, name: str) -> None:
    """Compare and measure one case."""
    case = CASES[name]
    by_rarest, path = built(given, reference_of(case)), built(given, case)
    index, reference = my.open(path, device=given.device), my.open(by_rarest)
    is_gpu, about = given.device == "gpu", {"algorithm": name, "size": given.size}
    about["gpu"] = devices.report()
    free = free_bytes() if is_gpu else 0
    for workload in ("icn",) if case.is_router else ("twitter", "twitter-popular"):
        events = my.workload("tags", workload, given.size).events(given.events)
        about["workload"] = workload
        some = events[:N_COMPARED]
        way = came(len(events)) if case.is_router else None
        n_keys = compare(index, reference, some, way and way.rows(0, len(some)))
        record("compared", {**about, "events": len(some), "keys": n_keys})
        if case.is_router and not is_gpu:
            continue  # the CPU has no kernels to measure
        runner = Runner(index, events, case.matched_with, way)
        for launch in case.launches:
            for threads in (n for n in case.threads if n * launch <= given.events or n == 1):
                record("match", {**about, **measure(runner, launch, threads)})
            if is_gpu:
                record("kernels", {**about, **kernels(runner, launch)})
    if is_gpu:
        taken = (free - devices.card_state().free_bytes) / 2**30
        table_gib = sum(segment.n_bytes for segment in index.segments()) / 2**30
        record("memory", {**about, "on_card_gib": taken, "index_gib": table_gib})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("size", type=int, nargs="?", default=212_000_000)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("/tmp/gpu"))
    parser.add_argument("algorithms", nargs="*", default=["rarest", "tagmatch"], metavar="CASE")
    parser.add_argument("--processes", type=int, default=machine.cores())
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--events", type=int, default=1 << 20, help="most events of a pass")
    given = parser.parse_args()
    for (
        name
    ) in given.algorithms:  # all before CUDA starts, since it does not support forked processes
        built(given, reference_of(CASES[name]))
        built(given, CASES[name])
    for name in given.algorithms:
        run(given, name)


if __name__ == "__main__":
    main()
