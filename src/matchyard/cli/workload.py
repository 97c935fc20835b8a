"""`matchyard workload`: files of a generated or recorded workload."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from matchyard.cli.arguments import (
    WORKLOADS,
    Engine,
    Parameter,
    Seed,
    Size,
    read_count,
    read_options,
)
from matchyard.cli.terminal import progress, summary


def workload(
    engine: Engine,
    name: Annotated[str, typer.Argument(help=f"The workload. {WORKLOADS}")],
    size: Size = "100k",
    events: Annotated[str, typer.Option(help="How many events.")] = "10k",
    seed: Seed = 1,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the two files.")
    ] = Path("."),
    format: Annotated[
        str,
        typer.Option(
            help="Format of the files: jsonl, parquet or arrow; csv if no column has lists."
        ),
    ] = "parquet",
    parameter: Parameter = None,
) -> None:
    """Write a named workload to files: subscriptions and events."""
    import pyarrow as pa

    import matchyard as my
    from matchyard.cli.formats import Writer
    from matchyard.cli.rows import as_table

    empty = my.create(engine)
    source = my.workload(engine, name, read_count(size), seed, read_options(parameter))
    no_rows = pa.schema({})  # a workload has at least one subscription, but perhaps no events
    subscriptions_file, events_file = (
        Writer(str(output / f"{what}.{format}"), format, no_rows)
        for what in ("subscriptions", "events")
    )
    output.mkdir(parents=True, exist_ok=True)
    with subscriptions_file as file:
        done = 0
        for values, keys in source.chunks(100_000):
            if format in ("jsonl", "csv"):
                values = empty.texts(values)
            file.write(pa.table({empty.subscription_column: values, "key": keys}))
            done += len(keys)
            progress(f"{done:,} subscriptions")
    with events_file as file:
        n_events = read_count(events)
        for start in range(0, n_events, 100_000):
            values = source.events(min(100_000, n_events - start), start)
            if format == "jsonl" and pa.types.is_binary(values.type):
                if empty.event_column is None:  # the events are lines of JSON
                    file.write_lines(values)
                    continue
                values = values.cast(pa.string())
            file.write(as_table(values, range(start, start + len(values)), empty.event_column))
    summary(f"{output}/subscriptions.{format}: {source.size:,} subscriptions")
    summary(f"{output}/events.{format}: {n_events:,} events")
