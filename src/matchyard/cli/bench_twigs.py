"""`matchyard bench twigs`: algorithms on documents of several shapes, and common tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from matchyard.cli.arguments import BenchArguments, read_several_threads, read_shapes
from matchyard.cli.terminal import clear, collect, note, progress, say

if TYPE_CHECKING:
    from matchyard.bench.compare.twigs import Job, Shape


def bench_documents(given: BenchArguments) -> None:
    """Compare algorithms for twigs, and print the results. Exit status 1 if they disagree."""
    from matchyard.bench.compare.twigs_report import draw, problems, tables

    shapes = _read_shapes(given)
    if given.rivals:
        from matchyard.bench.rivals.xpath import load_lxml

        load_lxml()  # fail before the measurements rather than after
    job, results = _measure(given, shapes)
    if not given.as_json:
        tables(results)
        if job.source().about():
            say(job.source().about())
    if given.rivals:
        _show_rivals(job, shapes, results, given.as_json)
    if given.plot is not None:
        draw(results, given.plot)
    for problem in problems(results):
        note(problem)
    if problems(results):
        raise typer.Exit(1)


def _read_shapes(given: BenchArguments) -> list[Shape]:
    """The documents of a pass, from --documents or --events."""
    from matchyard.bench.compare.twigs import Shape
    from matchyard.errors import UsageError

    if given.documents and given.events:
        raise UsageError("--documents sets the number of events; leave --events out")
    if given.documents:
        return [Shape(*numbers) for numbers in read_shapes(given.documents)]
    return [Shape(given.n_events)]


def _measure(given: BenchArguments, shapes: Sequence[Shape]) -> tuple[Job, list[Any]]:
    """Measure all algorithms on all shapes."""
    import matchyard as my
    from matchyard.bench.compare.twigs import Job, compare

    job = Job(
        given.workload, given.n_subscriptions, given.seed, given.parameters, given.device,
        given.passes, given.form or "arrow",
    )  # fmt: skip
    algorithms = given.algorithm_names or my.algorithms("twigs", given.device)
    threads = read_several_threads(given.threads)
    results = compare(job, algorithms, shapes, threads, given.options, progress)
    return job, collect(results, given.as_json)


def _show_rivals(job: Job, shapes: Sequence[Shape], results: Sequence[Any], as_json: bool) -> None:
    """Print lxml's speed on documents of each shape, or shorter ones, compared with the first result
    of the shape; then the speed of parsers on the last shape."""
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
        sampled = xpath.race(source, ours.events, index)
        clear()
        say(json.dumps(sampled._asdict()) if as_json else twigs_report.rival_line(sampled, ours))
    speeds = xpath.parser_speeds(source)
    say(json.dumps({"parser_mb_per_s": speeds}) if as_json else twigs_report.parser_line(speeds))
