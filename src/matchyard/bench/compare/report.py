"""Printed results: a table on the terminal, and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from matchyard.bench.compare.harness import Result
from matchyard.errors import UsageError

WORDS = {
    "arrow": "Arrow columns to keys",
    "python": "Python values to keys",
    "json": "lines of JSON to keys",
    "parquet": "Parquet files to rows of keys",
}


def short(value: float) -> str:
    """A number that fits into a column.

    >>> short(1_350_000), short(999), short(0.25)
    ('1.35 M', '999', '0.25')
    """
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"


def table(results: Sequence[Result], console: Console | None = None) -> None:
    """Print results side by side, with ratios to the first."""
    if not results:
        return
    console = console or Console()
    base = results[0]
    title = (
        f"{base.engine} · {base.workload} · {base.subscriptions:,} subscriptions · "
        f"{base.threads} thread{'s' * (base.threads > 1)} · "
        f"{short(base.matches / base.events)} matches per event"
    )
    shown = Table(box=box.SIMPLE_HEAD, padding=0)
    known = ["µs", "match µs", "cand."] if base.candidates is not None else []
    false = ["false"] if any(result.false_share is not None for result in results) else []
    shown.add_column("algorithm", no_wrap=True)
    for column in ("events/s", "±", "pairs/s", "ratio", *known, "build", "MB", *false):
        shown.add_column(column, justify="right", no_wrap=True)
    for result in results:
        shown.add_row(
            result.algorithm,
            short(result.events_per_s),
            f"{50 * result.spread:.0f} %",
            short(result.pairs_per_s),
            f"{result.events_per_s / base.events_per_s:.2g}",
            *(_inside(result) if known else []),
            f"{result.build_s:.2f} s",
            megabytes(result.index_bytes),
            *([_percent(result.false_share)] if false else []),
        )
    console.print(title, style="bold")
    console.print(shown)
    inside = "µs of a thread per event, match µs without encoding; cand. per event; "
    console.print(
        f"whole job, {WORDS[base.form]}; {inside if known else ''}{_passes(base.passes)}; "
        f"same matches on {base.checked:,} events: {'no' if disagreement(results) else 'yes'}"
        + ("; false: the share of false matches" if false else ""),
        style="dim",
    )


def _inside(result: Result) -> tuple[str, str, str]:
    """The columns that are known only for an index in this process."""
    candidates = (result.candidates or 0) / result.events
    return short(result.event_us), short(result.match_us or 0), short(candidates)


def megabytes(size: int) -> str:
    """Bytes in millions, short enough for a column."""
    return f"{size / 1e6:,.{1 if size < 1e7 else 0}f}"


def _passes(number: int) -> str:
    return "one pass" if number == 1 else f"median of {number} passes"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def disagreement(results: Sequence[Result]) -> str | None:
    """A text with the algorithms that found other matches than the first; None if all agree."""
    others = [r.algorithm for r in results if r.checksum != results[0].checksum]
    if not others:
        return None
    return f"{', '.join(others)} found other matches than {results[0].algorithm}"


def load_pyplot() -> Any:
    """Import Matplotlib's pyplot with a backend for files."""
    try:
        import matplotlib
    except ImportError:
        raise UsageError("plots need Matplotlib: pip install 'matchyard[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def draw(results: Sequence[Result], path: Path) -> None:
    """Draw bars of events/s on a logarithmic scale."""
    pyplot = load_pyplot()
    figure, axes = pyplot.subplots(figsize=(7, 0.6 * len(results) + 1.6), layout="constrained")
    names = [result.algorithm for result in results][::-1]
    speeds = [result.events_per_s for result in results][::-1]
    bars = axes.barh(names, speeds, color="#3b6ea5")
    axes.bar_label(bars, [short(speed) for speed in speeds], padding=4)
    axes.set_xscale("log")
    axes.set_xlabel("events/s (log scale)")
    axes.margins(x=0.2)
    first = results[0]
    axes.set_title(
        f"{first.workload}, {short(first.subscriptions)} subscriptions, {first.threads} threads, "
        f"{first.matches / first.events:,.0f} matches per event",
        loc="left",
        fontsize=10,
    )
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
