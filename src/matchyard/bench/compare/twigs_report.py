"""Printed results of twigs on documents: a table per shape and number of threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from matchyard.bench.compare.harness import Result
from matchyard.bench.compare.report import WORDS, disagreement, load_pyplot, megabytes, short
from matchyard.bench.compare.twigs import Shape, in_bytes, said
from matchyard.bench.rivals.xpath import Sampled

_COLUMNS = "docs/s", "±", "MB/s", "ns/tag", "parse", "match", "ratio", "first", "later", "MB"

_MEANING = (
    "MB/s of XML; ns of a thread per opening or closing tag, parsing and matching apart; first: the "
    "first pass of a fresh index; later: the passes after it"
)


def tables(results: Sequence[Result], console: Console | None = None) -> None:
    """Print all results, and the speedup by more threads."""
    console = console or Console()
    for some in _grouped(results):
        _table(some, console)
    if results:
        console.print(f"whole job, {WORDS[results[0].form]}; {_MEANING}", style="dim")
    for line in _by_threads(results):
        console.print(line)


def _grouped(results: Sequence[Result]) -> list[list[Result]]:
    """Groups of comparable results, in order of appearance."""
    groups: dict[object, list[Result]] = {}
    for result in results:
        place = result.document_bytes, result.events if result.document_bytes else 0, result.threads
        groups.setdefault(place, []).append(result)
    return list(groups.values())


def problems(results: Sequence[Result]) -> list[str]:
    """The algorithms of each table that found other matches than the first."""
    disagreements = map(disagreement, _grouped(results))
    return [problem for problem in disagreements if problem]


def _table(results: Sequence[Result], console: Console) -> None:
    base = results[0]
    shown = Table(box=box.SIMPLE_HEAD, padding=0)
    shown.add_column("algorithm", no_wrap=True)
    for column in _COLUMNS:
        shown.add_column(column, justify="right", no_wrap=True)
    for result in results:
        shown.add_row(*_row(result, base))
    console.print(
        f"{base.workload} · {base.subscriptions:,} twigs · {_shape(base)} · "
        f"{base.threads} thread{'s' * (base.threads > 1)} · "
        f"{short(base.matches / base.events)} matches each",
        style="bold",
    )
    console.print(shown)
    built = ", ".join(f"{result.algorithm} {_seconds(result.build_s)}" for result in results)
    console.print(
        f"built in {built}; median of {base.passes}; same matches on {base.checked:,} "
        f"document{'s' * (base.checked > 1)}: {'no' if disagreement(results) else 'yes'}\n",
        style="dim",
    )


def _shape(result: Result) -> str:
    """The documents of a pass in words, with their number only if a shape was given."""
    n_documents = result.events if result.document_bytes else None
    return said(Shape(n_documents, result.document_bytes))


def _row(result: Result, base: Result) -> list[str]:
    n_tags, pass_s = result.xml_tags or 1, result.events / result.events_per_s
    tag_ns = 1e9 * result.threads * pass_s / n_tags
    match_ns = 1e3 * (result.match_us or 0) * result.events / n_tags
    return [
        result.algorithm,
        short(result.events_per_s),
        f"{50 * result.spread:.0f} %",
        f"{mb_per_s(result):.3g}",
        short(tag_ns),
        short(tag_ns - match_ns),
        short(match_ns),
        f"{result.events_per_s / base.events_per_s:.2g}",
        _seconds(result.first_s or 0),
        _seconds(pass_s),
        megabytes(result.index_bytes),
    ]


def mb_per_s(result: Result) -> float:
    """Megabytes of XML per second, the whole job."""
    return (result.xml_bytes or 0) / result.events * result.events_per_s / 1e6


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 0.9995 else f"{1e3 * value:.3g} ms"


def _by_threads(results: Sequence[Result]) -> list[str]:
    """The speedup by more threads, for each algorithm and shape."""
    alone: dict[object, Result] = {}
    lines = []
    for result in results:
        fewest = alone.setdefault((result.algorithm, _shape(result)), result)
        if result.threads > fewest.threads:
            times = result.events_per_s / fewest.events_per_s
            lines.append(
                f"{result.algorithm}: {result.threads} threads are {times:.2f}× as fast as "
                f"{fewest.threads} ({_shape(result)})"
            )
    return lines


def rival_line(sampled: Sampled, ours: Result) -> str:
    """Compare lxml with an algorithm, by bytes per second."""
    rate = sampled.documents_per_s * sampled.document_bytes
    times = 1e6 * mb_per_s(ours) / rate
    return (
        f"{sampled.rival}, one XPath after the other: {in_bytes(rate)}/s (from {sampled.twigs:,} of "
        f"{ours.subscriptions:,} twigs on {sampled.documents} document{'s' * (sampled.documents > 1)} "
        f"of {in_bytes(sampled.document_bytes)}, same matches); on {_shape(ours)} "
        f"{ours.algorithm} is {short(times)}× {sampled.rival}"
    )


def parser_line(speeds: Mapping[str, float]) -> str:
    """Compare parsers with the first of them."""
    first, *others = speeds.items()
    said_of = [
        f"{name} {speed:.3g} MB/s ({first[1] / speed:.2g}× slower)" for name, speed in others
    ]
    return f"parsing alone: {first[0]} {first[1]:.3g} MB/s, {', '.join(said_of)}"


def draw(results: Sequence[Result], path: Path) -> None:
    """Bars of MB/s, a panel for each table."""
    pyplot = load_pyplot()
    groups = _grouped(results)
    heights = [len(some) for some in groups]
    figure, grid = pyplot.subplots(
        len(groups), figsize=(7, 0.4 * sum(heights) + 0.5 * len(groups) + 0.8), sharex=True,
        squeeze=False, layout="constrained", height_ratios=heights,
    )  # fmt: skip
    for axes, some in zip(grid[:, 0], groups):
        speeds = [mb_per_s(result) for result in some]
        bars = axes.barh([result.algorithm for result in some], speeds, color="#3b6ea5")
        axes.bar_label(bars, [f"{speed:.3g}" for speed in speeds], padding=4)
        axes.invert_yaxis()
        axes.margins(x=0.1)
        axes.spines[["top", "right"]].set_visible(False)
        n_threads = some[0].threads
        axes.set_title(
            f"{_shape(some[0])}, {n_threads} thread{'s' * (n_threads > 1)}", loc="left", fontsize=9
        )
    grid[-1, 0].set_xlabel("MB/s of XML, bytes to matches")
    first = results[0]
    figure.suptitle(
        f"{first.workload}, {first.subscriptions:,} twigs", x=0.01, ha="left", fontsize=10
    )
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
