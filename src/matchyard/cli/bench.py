"""`matchyard bench` and `demo`: what is measured, and shown to people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from matchyard.cli.arguments import (
    WORKLOADS,
    AlgorithmOption,
    AsJson,
    Device,
    Parameter,
    Seed,
    Size,
    Threads,
    read_count,
    read_options,
    read_threads,
)
from matchyard.cli.terminal import collect, note, progress


def bench(
    engine: Annotated[
        str,
        typer.Argument(
            help="The engine: tags, predicates or twigs; or spark, to compare ways to match in Spark."
        ),
    ],
    workload: Annotated[
        str | None,
        typer.Option(
            help=f"{WORKLOADS} By default twitter, for predicates hem, and for twigs dblp."
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="How many subscriptions, e.g. 250k; by default the workload's own size, 100k in Spark."
        ),
    ] = None,
    algorithms: Annotated[
        str,
        typer.Option(
            help="Names of algorithms (in Spark, of ways to match), with commas between; or all."
        ),
    ] = "all",
    threads: Annotated[
        str,
        typer.Option(
            help="Threads that match; in Spark, its cores; for twigs also several numbers, e.g. 1,2."
        ),
    ] = "2",
    device: Device = "cpu",
    events: Annotated[
        str | None,
        typer.Option(
            help="How many events per pass; by default what takes about a second, 500k in Spark."
        ),
    ] = None,
    documents: Annotated[
        str | None,
        typer.Option(
            help="For twigs: how many documents of how many bytes per pass, each after the other in one "
            "run, e.g. 1x30M,1000x25k."
        ),
    ] = None,
    rivals: Annotated[
        bool,
        typer.Option(
            "--rivals", help="For twigs: also lxml, on a sample of them, and the speed of parsers."
        ),
    ] = False,
    common: Annotated[
        str,
        typer.Option(
            help="In Spark: how many events the slow ways get; all ways are checked on these."
        ),
    ] = "5k",
    passes: Annotated[int, typer.Option(min=1, help="Timed passes; the median counts.")] = 5,
    seed: Seed = 1,
    option: AlgorithmOption = None,
    parameter: Parameter = None,
    form: Annotated[
        str | None,
        typer.Option(
            help="How events are given: arrow, python or json, by default arrow; in Spark, parquet."
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the comparison into this file, e.g. a.png.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="In a checkout: compare the working tree with this revision instead, each algorithm in CPU "
            "time, at least nine pairs; says faster, slower or noise."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare algorithms on one workload in one run, and check that they agree."""
    import matchyard as my
    from matchyard.bench import compare
    from matchyard.bench.compare.report import disagreement, draw, table

    options, names = read_options(option), algorithms.split(",")
    if against is not None:
        from matchyard.cli.against import bench_against

        bench_against(
            against, engine, workload, read_count(size) if size else None, algorithms, read_threads(threads),
            seed, device, passes, options, read_options(parameter), as_json,
        )  # fmt: skip
        return
    if engine == "twigs":
        from matchyard.cli.bench_twigs import bench_documents

        bench_documents(
            workload, read_count(size) if size else None, algorithms, threads, device, events, passes,
            seed, options, read_options(parameter), form or "arrow", documents, rivals, plot, as_json,
        )  # fmt: skip
        return
    if documents or rivals:
        raise my.UsageError("--documents and --rivals are for twigs")
    n_threads = read_threads(threads)
    if engine == "spark":
        if (device, form or "parquet") != ("cpu", "parquet"):
            raise my.UsageError("in Spark, the device is cpu and events come from parquet")
        from matchyard.bench.compare import spark_jobs

        found = spark_jobs.compare(
            workload or "twitter", read_count(size or "100k"), spark_jobs.ALL if algorithms == "all" else names,
            n_threads, seed, read_count(events or "500k"), read_count(common), passes, options, progress,
        )  # fmt: skip
    else:
        names = list(my.algorithms(engine, device)) if algorithms == "all" else names
        found = compare(
            engine, workload, read_count(size) if size else None, tuple(names), n_threads, device, seed,
            read_count(events) if events else None, passes, options, read_options(parameter), progress,
            form or "arrow", note,
        )  # fmt: skip
    results = collect(found, as_json)
    if not as_json:
        table(results)
    if plot is not None:
        draw(results, plot)
    problem = disagreement(results)
    if problem:
        note(problem)
        raise typer.Exit(1)


def demo(
    what: Annotated[
        str,
        typer.Argument(
            help="spark: tweets stream past a million interests; network: ten routers, one of which is killed."
        ),
    ] = "spark",
    size: Size = "1M",
    seconds: Annotated[float, typer.Option(help="For how many seconds tweets arrive.")] = 30.0,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Folder for all files; by default demo, or demo-network."
        ),
    ] = None,
    threads: Threads = 2,
    seed: Seed = 1,
) -> None:
    """Run the whole pipeline on Spark, live: tweets against a million interests that change.

    With `network`, instead: ten routers in processes on the map of a provider, with a look at each.
    """
    from matchyard.errors import UsageError

    if what == "spark":
        from matchyard.bench.demo.demo import run

        is_right = run(read_count(size), seconds, output or Path("demo"), threads, seed)
    elif what == "network":
        from matchyard.bench.demo.network import run as run_network

        is_right = run_network(seconds, output or Path("demo-network"), seed)
    else:
        raise UsageError(f"no demo {what!r}; expected spark or network")
    if not is_right:
        raise typer.Exit(1)
