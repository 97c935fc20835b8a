"""`matchyard bench ENGINE --against REVISION`: compare the working tree with a revision."""

from __future__ import annotations

import json

import typer

from matchyard.cli.arguments import BenchArguments, read_threads
from matchyard.cli.terminal import clear, progress, say


def bench_against(given: BenchArguments, revision: str) -> None:
    """Print a verdict for each algorithm, on building and on matching. Exit status 1 if one is slower."""
    import matchyard as my
    from matchyard.bench.compare.against import PAIRS, Job, compare
    from matchyard.bench.compare.harness import default_workload, size_of

    engine = given.engine
    name = given.workload or default_workload("tags" if engine == "spark" else engine)
    size, threads = given.n_subscriptions or size_of(name), read_threads(given.threads)
    options, parameters = given.options or None, given.parameters or None
    if engine == "spark":
        algorithms = ["match"]
    else:
        algorithms = given.algorithm_names or list(my.algorithms(engine, given.device))
    is_slower = False
    for algorithm in algorithms:
        job = Job(
            engine, name, size, algorithm, threads, given.seed, given.device, options, parameters
        )
        for verdict in compare(job, revision, max(given.passes, PAIRS), progress):
            clear()
            is_slower = is_slower or verdict.word == "slower"
            if given.as_json:
                row = {**job._asdict(), "against": revision, **verdict._asdict()}
                print(json.dumps({**row, "verdict": verdict.word}), flush=True)
            else:
                say(f"{algorithm} on {name}, {job.size:,} subscriptions, {verdict}")
    if is_slower:
        raise typer.Exit(1)
