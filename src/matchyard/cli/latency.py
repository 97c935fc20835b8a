"""`matchyard latency`: the latency of events in a stream."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from matchyard.cli.arguments import (
    WORKLOADS,
    AlgorithmOption,
    AsJson,
    Device,
    Engine,
    Seed,
    read_count,
    read_options,
)
from matchyard.cli.terminal import clear, progress, say


def latency(
    engine: Engine,
    workload: Annotated[str | None, typer.Option(help=WORKLOADS)] = None,
    size: Annotated[str | None, typer.Option(help="How many subscriptions, e.g. 250k.")] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="The algorithm; by default the engine's own.")
    ] = None,
    device: Device = "cpu",
    events: Annotated[str, typer.Option(help="Number of different events.")] = "20k",
    seconds: Annotated[float, typer.Option(min=0.1, help="Duration of each rate.")] = 2.0,
    producers: Annotated[int, typer.Option(min=1, help="Threads that submit events.")] = 2,
    max_batch: Annotated[int, typer.Option(min=1, help="Most events of a batch.")] = 256,
    max_delay_ms: Annotated[
        float, typer.Option(min=0, help="Longest wait of an event for others.")
    ] = 2.0,
    workers: Annotated[int, typer.Option(min=1, help="Threads that match events.")] = 2,
    seed: Seed = 1,
    option: AlgorithmOption = None,
    as_json: AsJson = False,
) -> None:
    """Submit events one by one to a stream, at several shares of its peak rate."""
    import matchyard as my
    from matchyard.bench.compare import harness
    from matchyard.bench.compare.latency import latencies

    name, n_events = workload or harness.default_workload(engine), read_count(events)
    if n_events < 1:
        raise my.UsageError(f"{n_events} events; expected at least 1")
    source = my.workload(engine, name, read_count(size) if size else harness.size_of(name), seed)
    index = my.create(engine, algorithm, read_options(option), device)
    progress(f"building {index.algorithm} over {source.size:,} subscriptions")
    harness.build(index, source)
    asked = source.events(n_events).to_pylist()
    clear()
    if not as_json:
        say(f"{name} · {source.size:,} subscriptions · {index.algorithm} on the {index.device}")
        say(f"{'load':>6}{'events/s':>12}{'p50':>11}{'p90':>11}{'p99':>11}{'worst':>11}")
    for measured in latencies(
        index, asked, seconds=seconds, producers=producers, max_batch=max_batch,
        max_delay_ms=max_delay_ms, workers=workers,
    ):  # fmt: skip
        if as_json:
            print(
                json.dumps({"engine": engine, "workload": name, **measured._asdict()}), flush=True
            )
            continue
        times = "".join(f"{value:>8.2f} ms" for value in measured[2:])
        say(f"{measured.share:>6.0%}{measured.events_per_s:>12,.0f}{times}")
