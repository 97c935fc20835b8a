"""`matchyard bench ENGINE --against REVISION`: is the working tree faster or slower than a revision?"""

from __future__ import annotations

import json
from typing import Any

import typer

from matchyard.cli.terminal import clear, progress, say


def bench_against(
    revision: str,
    engine: str,
    workload: str | None,
    size: int | None,
    algorithms: str,
    threads: int,
    seed: int,
    device: str,
    pairs: int,
    options: dict[str, Any],
    parameters: dict[str, Any],
    as_json: bool,
) -> None:
    """Print a verdict for each algorithm, on building and on matching. Exit status 1 if one is slower."""
    import matchyard as my
    from matchyard.bench.compare.against import PAIRS, Job, compare
    from matchyard.bench.compare.harness import default_workload, size_of

    language = "tags" if engine == "spark" else engine
    name = workload or default_workload(language)
    chosen = ["match"] if engine == "spark" else algorithms.split(",")
    if chosen == ["all"]:
        chosen = list(my.algorithms(engine, device))
    is_slower = False
    for algorithm in chosen:
        job = Job(
            engine, name, size or size_of(name), algorithm, threads, seed, device, options or None,
            parameters or None,
        )  # fmt: skip
        for verdict in compare(job, revision, max(pairs, PAIRS), progress):
            clear()
            is_slower = is_slower or verdict.word == "slower"
            if as_json:
                row = {**job._asdict(), "against": revision, **verdict._asdict()}
                print(json.dumps({**row, "verdict": verdict.word}), flush=True)
            else:
                say(f"{algorithm} on {name}, {job.size:,} subscriptions, {verdict}")
    if is_slower:
        raise typer.Exit(1)
