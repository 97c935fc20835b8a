"""`matchyard bench twigs`: algorithms on documents of several shapes, beside what people use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from matchyard.cli.arguments import read_count, read_several_threads, read_shapes
from matchyard.cli.terminal import clear, collect, note, progress, say


def bench_documents(
    workload: str | None,
    size: int | None,
    algorithms: str,
    threads: str,
    device: str,
    events: str | None,
    passes: int,
    seed: int,
    options: dict[str, Any],
    parameters: dict[str, Any],
    form: str,
    documents: str | None,
    rivals: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Compare algorithms for twigs, print what was found, and fail where they disagree."""
    import matchyard as my
    from matchyard.bench.compare.twigs import Job, Shape, compare
    from matchyard.bench.compare.twigs_report import draw, problems, tables
    from matchyard.bench.rivals.xpath import load_lxml

    if documents and events:
        raise my.UsageError("--documents says how many there are; leave --events out")
    shapes = [Shape(read_count(events) if events else None)]
    if documents:
        shapes = [Shape(*numbers) for numbers in read_shapes(documents)]
    if rivals:  # rather now than after all measurements
        load_lxml()
    job = Job(workload, size, seed, parameters, device, passes, form)
    names = my.algorithms("twigs", device) if algorithms == "all" else algorithms.split(",")
    found = compare(job, names, shapes, read_several_threads(threads), options, progress)
    results = collect(found, as_json)
    if not as_json:
        tables(results)
        if job.source().about():
            say(job.source().about())
    if rivals:
        _show_rivals(job, shapes, results, as_json)
    if plot is not None:
        draw(results, plot)
    for problem in problems(results):
        note(problem)
    if problems(results):
        raise typer.Exit(1)


def _show_rivals(job: Any, shapes: Sequence[Any], results: Sequence[Any], as_json: bool) -> None:
    """lxml on documents of each shape, or shorter ones, beside the first algorithm with the fewest
    threads; and the speed of parsers on the last."""
    import matchyard as my
    from matchyard.bench.compare import harness, twigs_report
    from matchyard.bench.rivals import xpath

    source = job.source()
    index = my.create("twigs", results[0].algorithm, dict(source.options))
    harness.build(index, source)
    for shape in shapes:
        source = job.source(xpath.suitable(shape))
        progress("evaluating with lxml")
        ours = next(r for r in results if r.document_bytes == shape.document_bytes)
        found = xpath.race(source, ours.events, index)
        clear()
        say(json.dumps(found._asdict()) if as_json else twigs_report.rival_line(found, ours))
    speeds = xpath.parser_speeds(source)
    say(json.dumps({"parser_mb_per_s": speeds}) if as_json else twigs_report.parser_line(speeds))
