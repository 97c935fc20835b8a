"""Spark on one machine: the growth of time with subscriptions and events, and the time of each step.

    python -m benchmarks.scale.spark scaling [--sizes 1M,5M,20M] [--events 1M,2M,5M]
    python -m benchmarks.scale.spark draw
    python -m benchmarks.scale.spark overhead [--sizes 100k] [--events 5M]
    python -m benchmarks.scale.spark build [--sizes 5M,20M]

`scaling` builds an index over each size of `twitter` and matches the first number of events with it;
the smallest index gets all numbers of events. The points and the slopes of the lines through them are
drawn to benchmarks/results/spark_scaling.png. `draw` does the same for the latest points of each kind
in the file, if sizes were measured one by one.

`overhead` takes the events of `twitter` that match at most ten subscriptions, which the embedded index
selects. It times longer and longer parts of the job: a scan, a `mapInArrow` that reads, a `mapInArrow`
that also returns its input, and `match`; and the embedded index without Spark. Processor time is
reported separately for the JVM and for Python.

`build` builds an index over each size of `twitter` from a DataFrame, from Parquet paths, and embedded in one
process. It prints processor seconds per million subscriptions, by phase, and compares the pairs of the three
indexes one by one.

Appends JSON lines to benchmarks/results/spark.jsonl.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.table import Table

import matchyard as my
from matchyard.bench.compare import machine, spark_jobs
from matchyard.bench.compare.report import short
from matchyard.spark import build, match, match_files, session

RESULTS = Path(__file__).parents[1] / "results" / "spark.jsonl"
PLOT = RESULTS.with_name("spark_scaling.png")
MOST_MATCHES = 10


def record(kind: str, values: dict[str, Any]) -> dict[str, Any]:
    line = {"kind": kind, **values, "machine": machine.describe()}
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(line) + "\n")
    return line


def number(text: str) -> int:
    """Parse a count such as 250k or 20M."""
    factor = {"k": 1_000, "M": 1_000_000}.get(text[-1:], 1)
    return int(float(text.rstrip("kM")) * factor)


def write_nowhere(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def processor_s() -> dict[tuple[str, int], float]:
    """Processor seconds so far, of the JVM and of Python (this process and the workers)."""
    used = {("python", 0): time.process_time()}
    for process in psutil.Process().children(recursive=True):
        try:
            name, times = process.name(), process.cpu_times()
        except psutil.Error:  # the process has ended meanwhile
            continue
        used["jvm" if name == "java" else "python", process.pid] = times.user + times.system
    return used


def timed(job: Callable[[], Any], passes: int) -> dict[str, Any]:
    """Seconds per pass after a warm-up, and processor time of an average pass."""
    job()
    seconds, before, others = [], processor_s(), machine.Others()
    for _ in range(passes):
        start = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - start)
    spent = {"jvm": 0.0, "python": 0.0}
    for process, used in processor_s().items():
        spent[process[0]] += (used - before.get(process, 0.0)) / passes
    own_cores = sum(spent.values()) * passes / sum(seconds)
    return {
        "s": statistics.median(seconds),
        "passes_s": seconds,
        "jvm_cpu_s": spent["jvm"],
        "python_cpu_s": spent["python"],
        "other_cores": max(0.0, others.cores() - own_cores),
    }


# -------------------------------------------------------------------- scaling


def scaling(sizes: list[int], n_events: list[int], cores: int, passes: int, root: str) -> None:
    spark, lines = session(cores=cores, config=spark_jobs.CONFIG), []
    for size in sorted(sizes):
        with tempfile.TemporaryDirectory(dir=root) as folder:
            source, place = my.workload("tags", "twitter", size), Path(folder)
            spark_jobs.write_subscriptions(source, f"{folder}/subscriptions", 2 * cores)
            counts = sorted(n_events) if size == min(sizes) else n_events[:1]
            for count in counts:
                rows = partial(spark_jobs.numbered, source)
                spark_jobs.write_files(f"{folder}/{count}", rows, count, 2 * cores)
            build(spark.read.parquet(f"{folder}/subscriptions").limit(200), place / "tiny")
            built = build(spark.read.parquet(f"{folder}/subscriptions"), place / "index")
            lines.append(record("build", {"size": size, "cores": cores, **built._asdict()}))
            print(f"{size:,}: built in {built.seconds:.1f} s", flush=True)
            for count in counts:
                for point in match_times(spark, place / "index", f"{folder}/{count}", passes):
                    rates = {"events_per_s": count / point["s"]}
                    rates["pairs_per_s"] = point["matches"] / point["s"]
                    given = {"size": size, "events": count, "cores": cores}
                    lines.append(record("match", {**given, **point, **rates}))
                    print(
                        f"{size:,} × {count:,}, {point['output']}: {point['s']:.2f} s, "
                        f"{short(rates['events_per_s'])} events/s, "
                        f"{short(rates['pairs_per_s'])} pairs/s",
                        flush=True,
                    )
    spark.stop()
    draw(lines)


def match_times(spark: Any, index: Path, events: str, passes: int) -> Iterator[dict[str, Any]]:
    """The times of both forms of the output, with the number of pairs."""
    arrays, pairs = (
        spark_jobs.InSpark(spark, partial(match, index=index, output=output))
        for output in ("arrays", "pairs")
    )
    n_pairs = arrays.count(events)
    for output, way in (("pairs", pairs), ("arrays", arrays)):
        times = timed(partial(way.run, events), passes)
        yield {"output": output, "matches": n_pairs, **times}


def draw(lines: list[dict[str, Any]]) -> None:
    """Draw the latest value of every point, in two panels, with the slope of each line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter, LogLocator

    builds = {line["size"]: line["seconds"] for line in lines if line["kind"] == "build"}
    points = {
        (line["output"], line["size"], line["events"]): line
        for line in lines
        if line["kind"] == "match"
    }
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    _line(left, "build", builds)
    fewest = min(events for _, _, events in points)
    smallest = min(size for _, size, _ in points)
    for output in ("pairs", "arrays"):
        by_size, by_events = {}, {}
        for (kind, size, events), line in points.items():
            if kind == output and events == fewest:
                by_size[size] = line["s"] / events * 1e6
            if kind == output and size == smallest:
                by_events[events] = line["s"]
        _line(left, f"match to {output}, per million events", by_size)
        _line(right, f"match to {output}", by_events)
    matches = {
        size: line["matches"] / events
        for (_, size, events), line in points.items()
        if events == fewest
    }
    _line(left, "matches per event (no seconds)", matches, color="0.5", linestyle=":")
    left.set_xlabel("subscriptions")
    right.set_xlabel(f"events, with {short(smallest)} subscriptions")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", ylabel="seconds")
        axes.grid(alpha=0.3, which="both")
        axes.legend(frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        places = sorted({x for line in axes.lines for x in line.get_xdata()})
        axes.set_xticks(places, [short(place) for place in places])
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: short(value)))
        axes.minorticks_off()
    figure.suptitle("twitter in Spark local, Parquet to noop", x=0.01, ha="left", fontsize=10)
    figure.savefig(PLOT, dpi=130)
    pyplot.close(figure)
    print(PLOT)


def _line(axes: Any, label: str, points: dict[int, float], **style: Any) -> None:
    x, y = sorted(points), [points[place] for place in sorted(points)]
    if len(x) > 1:
        slope = np.polyfit(np.log(x), np.log(y), 1)[0]
        label = f"{label}: slope {slope:.2f}"
        print(label)
    axes.plot(x, y, marker="o", label=label, **style)


# -------------------------------------------------------------------- overhead


def hand_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def consume(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    yield from ()


def write_events_of_few_matches(index: Any, source: Any, folder: str, n_events: int) -> float:
    """Write files of events with at most MOST_MATCHES each; return the share of such events."""
    kept, n_seen, n_kept = [], 0, 0
    while n_kept < n_events:
        events = source.events(spark_jobs.FILE_ROWS, n_seen)
        matches = index.match(events)
        few = np.diff(matches.event_start) <= MOST_MATCHES
        kept.append(events.filter(pa.array(few)))
        n_seen, n_kept = n_seen + len(events), n_kept + int(few.sum())
    whole = pa.chunked_array(kept)

    def rows(start: int, stop: int) -> pa.Table:
        tags = whole.slice(start, stop - start)
        return pa.table({"id": np.arange(start, stop), "tags": tags})

    spark_jobs.write_files(folder, rows, n_events, 4)
    return n_kept / n_seen


def overhead(size: int, n_events: int, cores: int, passes: int, root: str) -> None:
    with tempfile.TemporaryDirectory(dir=root) as folder:
        source, place = my.workload("tags", "twitter", size), Path(folder) / "index"
        spark_jobs.write_subscriptions(source, f"{folder}/subscriptions", 2 * cores)
        files, results = f"{folder}/events", {}
        spark = session(cores=cores, config=spark_jobs.CONFIG)
        build(spark.read.parquet(f"{folder}/subscriptions"), place)
        index = my.open(place, threads=cores)
        share = write_events_of_few_matches(index, source, files, n_events)
        n_pairs = spark_jobs.InSpark(spark, partial(match, index=place)).count(files)
        for name, job in in_spark(spark, files, place).items():
            results[name] = timed(job, passes)
            print(f"{name}: {results[name]['s']:.2f} s", flush=True)
        spark.stop()
        results |= {name: timed(job, passes) for name, job in embedded(index, files).items()}
    conditions = {"size": size, "events": n_events, "matches": n_pairs, "cores": cores,
                  "most_matches": MOST_MATCHES, "share_of_events": share}  # fmt: skip
    for name, values in results.items():
        record(
            "overhead",
            {"job": name, **conditions, "events_per_s": n_events / values["s"], **values},
        )
    show(results, conditions)


def in_spark(spark: Any, files: str, place: Path) -> dict[str, Callable[[], Any]]:
    def events() -> Any:
        return spark.read.parquet(files)

    return {
        "scan": lambda: write_nowhere(events()),
        "mapInArrow that reads": lambda: write_nowhere(events().mapInArrow(consume, "id long")),
        "mapInArrow that hands on": lambda: write_nowhere(
            events().mapInArrow(hand_on, "id long, tags array<string>")
        ),
        "match to pairs": lambda: write_nowhere(match(events(), place)),
        "match to arrays": lambda: write_nowhere(match(events(), place, output="arrays")),
        "copy of Parquet": lambda: events().write.mode("overwrite").parquet(f"{place}.copied"),
        "match, write Parquet": lambda: (
            match(events(), place).write.mode("overwrite").parquet(f"{place}.matched")
        ),
        "match_files": lambda: match_files(files, place, f"{place}.files", overwrite=True),
    }


def embedded(index: Any, files: str) -> dict[str, Callable[[], Any]]:
    def each(columns: Any) -> None:
        for column in columns:
            index.match(column).to_arrow()

    def read() -> Iterator[pa.Array]:
        for file in sorted(Path(files).iterdir()):
            yield pq.read_table(file)["tags"].combine_chunks()

    held = list(read())
    return {
        "embedded index, from Arrow": lambda: each(held),
        "embedded index, from Parquet": lambda: each(read()),
    }


def show(results: dict[str, dict[str, Any]], conditions: dict[str, Any]) -> None:
    n_events, cores = conditions["events"], conditions["cores"]
    title = (
        f"{n_events:,} events, {conditions['matches'] / n_events:.1f} matches each, at most "
        f"{MOST_MATCHES}; {conditions['size']:,} subscriptions; {cores} cores"
    )
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("job", no_wrap=True)
    for column in ("events/s", "JVM", "Python", "others"):
        shown.add_column(column, justify="right", no_wrap=True)
    for name, values in results.items():
        shown.add_row(
            name,
            short(n_events / values["s"]),
            f"{values['jvm_cpu_s'] / n_events * 1e6:.2f}",
            f"{values['python_cpu_s'] / n_events * 1e6:.2f}",
            f"{values['other_cores']:.1f}",
        )
    console = Console()
    console.print(shown)
    console.print(
        "JVM, Python: seconds of processor time per million events; others: cores that other "
        "processes kept busy",
        style="dim",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["scaling", "overhead", "draw", "build"])
    parser.add_argument("--sizes", help="subscriptions, e.g. 1M,5M,20M")
    parser.add_argument("--events", help="events, e.g. 1M,2M,5M")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--folder", help="folder for files and indexes; by default temporary")
    given = parser.parse_args()
    if given.what == "draw":
        draw([json.loads(line) for line in RESULTS.read_text().splitlines()])
        return
    if given.what == "build":
        sizes = [number(text) for text in (given.sizes or "5M,20M").split(",")]
        from benchmarks.scale.spark_builds import builds

        builds(sizes, given.cores, given.folder)
        return
    scale = given.what == "scaling"
    sizes, events = (
        [number(text) for text in (chosen or default).split(",")]
        for chosen, default in (
            (given.sizes, "1M,5M,20M" if scale else "100k"),
            (given.events, "1M,2M,5M" if scale else "5M"),
        )
    )
    if scale:
        scaling(sizes, events, given.cores, given.passes, given.folder)
    else:
        overhead(sizes[0], events[0], given.cores, given.passes, given.folder)


if __name__ == "__main__":
    main()
