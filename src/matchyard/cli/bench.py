"""`matchyard bench` and `demo`: comparisons of algorithms, and live demonstrations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from matchyard.cli.arguments import (
    WORKLOADS,
    AlgorithmOption,
    AsJson,
    BenchArguments,
    Device,
    Parameter,
    Seed,
    Size,
    Threads,
    read_count,
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
            help="Compare the working tree of a checkout with this revision instead, or these sources with those "
            "in this folder, each algorithm in CPU time, on a card in wall time, at least nine pairs; says "
            "faster, slower or noise."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare algorithms on one workload in one run, and check that they agree."""
    given = BenchArguments(
        engine=engine, workload=workload, size=size, algorithms=algorithms, threads=threads,
        device=device, events=events, documents=documents, rivals=rivals, common=common,
        passes=passes, seed=seed, option=option, parameter=parameter, form=form, plot=plot,
        against=against, as_json=as_json,
    )  # fmt: skip
    if given.against is not None:
        from matchyard.cli.against import bench_against

        bench_against(given, given.against)
    elif given.engine == "twigs":
        from matchyard.cli.bench_twigs import bench_documents

        bench_documents(given)
    else:
        _refuse_arguments_of_twigs(given)
        results = _compare_in_spark(given) if engine == "spark" else _compare_algorithms(given)
        _report(collect(results, as_json), given)


def _refuse_arguments_of_twigs(given: BenchArguments) -> None:
    from matchyard.errors import UsageError

    if given.documents or given.rivals:
        raise UsageError("--documents and --rivals are for twigs")


def _compare_in_spark(given: BenchArguments) -> Iterator[Any]:
    """Compare ways to match in Spark."""
    from matchyard.errors import UsageError

    if (given.device, given.form or "parquet") != ("cpu", "parquet"):
        raise UsageError("in Spark, the device is cpu and events come from parquet")
    from matchyard.bench.compare import spark_jobs

    return spark_jobs.compare(
        given.workload or "twitter",
        read_count(given.size or "100k"),
        given.algorithm_names or spark_jobs.usable_ways(note),
        read_threads(given.threads),
        given.seed,
        read_count(given.events or "500k"),
        read_count(given.common),
        given.passes,
        given.options,
        progress,
    )


def _compare_algorithms(given: BenchArguments) -> Iterator[Any]:
    """Compare algorithms of an engine in this process."""
    import matchyard as my
    from matchyard.bench import compare

    return compare(
        given.engine,
        given.workload,
        given.n_subscriptions,
        given.algorithm_names or my.algorithms(given.engine, given.device),
        read_threads(given.threads),
        given.device,
        given.seed,
        given.n_events,
        given.passes,
        given.options,
        given.parameters,
        progress,
        given.form or "arrow",
        note,
    )


def _report(results: Sequence[Any], given: BenchArguments) -> None:
    """Print and draw the results. Exit status 1 if the algorithms disagree."""
    from matchyard.bench.compare.report import disagreement, draw, table

    if not given.as_json:
        table(results)
    if given.plot is not None:
        draw(results, given.plot)
    problem = disagreement(results)
    if problem:
        note(problem)
        raise typer.Exit(1)


def demo(
    what: Annotated[
        str,
        typer.Argument(
            help="spark: a stream of tweets and a million interests; network: ten routers, one of which is killed."
        ),
    ] = "spark",
    size: Size = "1M",
    seconds: Annotated[float, typer.Option(help="Duration of the tweets in seconds.")] = 30.0,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Folder for all files; by default demo, or demo-network."
        ),
    ] = None,
    threads: Threads = 2,
    seed: Seed = 1,
) -> None:
    """Run the whole pipeline on Spark, with a live view: tweets against a million changing interests.

    With `network`, run ten routers in processes on the map of a provider instead.
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
