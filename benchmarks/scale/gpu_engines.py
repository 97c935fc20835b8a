"""Predicates and twigs on one GPU: the default workloads of HEM, CCM and the paper on twigs, and others.

    python -m benchmarks.scale.gpu_engines [CASE …] [--size N] [--events N] [--device cpu]

Measures encoded batches to keys in the host's memory: medians of at least five passes after a warm-up,
for one, two and four threads, the time of the kernels alone, and one thread of the CPU. Compares the
keys of some events with those of the CPU. `one` gives an event at a time, and takes the median and the
90th percentile. Any other workload is a case, too, as
ENGINE:WORKLOAD:ALGORITHM:SIZE[:PARAMETER=VALUE,…]; tags are compared with `rarest`. Several processes
with the name of one file in MATCHYARD_ALONE build side by side and measure one after the other.

Appends JSON lines to benchmarks/results/gpu.jsonl.
"""

import argparse
import statistics
import time
from typing import Any, NamedTuple

import numpy as np
from benchmarks.scale import gpu

import matchyard as my
from matchyard.bench.compare import harness, machine
from matchyard.bench.compare.twigs import n_xml_bytes
from matchyard.cli.arguments import read_count, read_options
from matchyard.gpu import devices

N_ON_CPU = {"tags": 2000, "predicates": 500, "twigs": 20}  # events
WARM, SINGLE = 300, 3000  # single events of the warm-up, and counted ones


class Case(NamedTuple):
    """A workload, an algorithm and their settings."""

    engine: str
    workload: str
    algorithm: str
    size: int
    n_events: int
    launch: int
    settings: dict[str, Any] | None = None  # of the workload
    options: dict[str, Any] | None = None  # of the index


CASES = {
    "hem": Case("predicates", "hem", "tiles", 1_000_000, 1 << 17, 1 << 14),
    "ccm-counting": Case("predicates", "ccm", "counting", 250_000, 1 << 17, 1 << 14),
    "ccm-tiles": Case("predicates", "ccm", "tiles", 250_000, 1 << 17, 1 << 14),
    # names by Zipf's law; the constraints of a name unsorted, and sorted by value
    "zipf": Case("predicates", "ccm-zipf", "counting", 250_000, 1 << 15, 1 << 14),
    "zipf-ordered": Case(
        "predicates", "ccm-zipf", "counting", 250_000, 1 << 15, 1 << 14, options={"ordered": True}
    ),
    "one": Case("predicates", "ccm", "counting", 250_000, WARM + SINGLE, 1),
    "twigs": Case(
        "twigs", "dblp", "stacks", 2_000, 1_000, 1_000, {"document_bytes": 25_000, "nodes": 10}
    ),
}


def case_of(name: str) -> Case:
    """The case of that name, or the case that the name describes.

    >>> case_of("predicates:hem:tiles:1000:width=0.5").settings
    {'width': 0.5}
    """
    if name in CASES:
        return CASES[name]
    try:
        engine, workload, algorithm, size, *parameters = name.split(":")
    except ValueError:
        raise my.UsageError(f"no case {name!r}; there are: {', '.join(CASES)}") from None
    n_events, launch = (500, 500) if engine == "twigs" else (1 << 16, 1 << 14)
    return Case(
        engine, workload, algorithm, read_count(size), n_events, launch,
        read_options([entry for some in parameters for entry in some.split(",")]),
        {"max_partition": 4000} if algorithm == "tagmatch" else None,
    )  # fmt: skip


class Runner(gpu.Runner):
    """An index with encoded events."""

    def rows(self, first: int, last: int) -> Any:
        """A range of the events."""
        if hasattr(self.batch, "rows"):
            return super().rows(first, last)
        start_name = "signal_start" if hasattr(self.batch, "signals") else "event_start"
        start = getattr(self.batch, start_name)[first : last + 1]
        entries = slice(int(start[0]), int(start[-1]))
        rows = {start_name: start - start[0]}
        for name in ("slots", "codes", "elements", "signals"):  # of predicates, and of twigs
            if hasattr(self.batch, name):
                rows[name] = getattr(self.batch, name)[entries]
        if hasattr(self.batch, "depth"):
            rows["depth"] = self.batch.depth[first:last]
        return self.batch._replace(**rows)


def filled(case: Case, source: Any, where: str) -> Any:
    """The index."""
    options = {**(case.options or {}), **getattr(source, "options", {})}
    index = my.create(case.engine, case.algorithm, options, where)
    harness.build(index, source)
    return index


def one_by_one(runner: Runner) -> dict[str, Any]:
    """Microseconds from single encoded events to keys."""
    (space,), (table,), times = runner.borrow(), runner.segment.tables, []
    match = runner.settings.algorithm.match
    for batch, _ in runner.batches(1):
        start = time.perf_counter()
        match(table, batch, space, runner.options)
        times.append(1e6 * (time.perf_counter() - start))
    p50, p90, p99 = np.percentile(times[WARM:], [50, 90, 99]).tolist()
    return {"launch": 1, "events": len(times) - WARM, "p50_us": p50, "p90_us": p90, "p99_us": p99}


def one_thread_of_the_cpu(index: Any, events: Any) -> float:
    """The encoded events that one thread matches per second."""
    runner = Runner(index, events, {})
    passes = [runner.run(runner.batches(len(events)), 1)[0] for _ in range(1 + gpu.PASSES)][1:]
    return len(events) / statistics.median(passes)


def run(name: str, size: int | None, n_events: int | None, where: str) -> None:
    """Compare and measure one case."""
    case = case_of(name)
    case = case._replace(size=size or case.size, n_events=n_events or case.n_events)
    source = my.workload(case.engine, case.workload, case.size, 1, case.settings)
    events = source.events(case.n_events)
    as_on_cpu = case._replace(algorithm="rarest", options=None) if case.engine == "tags" else case
    index, on_cpu = filled(case, source, where), filled(as_on_cpu, source, "cpu")
    about = {"case": name, "workload": case.workload, "algorithm": case.algorithm,
             "size": case.size, "gpu": devices.report()}  # fmt: skip
    some = events[: N_ON_CPU[case.engine]]
    n_keys = gpu.compare(index, on_cpu, some)
    gpu.record("compared", {**about, "events": len(some), "keys": n_keys})
    with machine.alone():  # other processes may build meanwhile
        record_all(case, about, index, on_cpu, events)


def record_all(case: Case, about: dict[str, Any], index: Any, on_cpu: Any, events: Any) -> None:
    """Measure an index, and one thread of the CPU."""
    runner = Runner(index, events, {})
    if case.launch == 1:
        gpu.record("one by one", {**about, **one_by_one(runner)})
        return
    by_cpu = one_thread_of_the_cpu(on_cpu, events[: N_ON_CPU[case.engine]])
    launch = runner.segment.at_once(case.launch)  # fewer events if they have very many matches
    for threads in (n for n in gpu.THREADS if n * launch <= case.n_events or n == 1):
        rates = gpu.measure(runner, launch, threads)
        rate = rates["events_per_s"]
        rates |= {"cpu_events_per_s": by_cpu, "to_one_cpu_thread": rate / by_cpu}
        if case.engine == "twigs":
            n_bytes = n_xml_bytes(events)
            rates |= {"xml_bytes": n_bytes, "xml_bytes_per_s": rate * n_bytes / case.n_events}
        gpu.record("match", {**about, **rates})
    if index.device != "cpu":
        gpu.record("kernels", {**about, **gpu.kernels(runner, launch)})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE")
    parser.add_argument("--size", type=int, help="subscriptions, instead of the paper's number")
    parser.add_argument("--events", type=int, help="most events of a pass")
    parser.add_argument("--device", default="gpu")
    given = parser.parse_args()
    for name in given.cases:
        run(name, given.size, given.events, given.device)


if __name__ == "__main__":
    main()
