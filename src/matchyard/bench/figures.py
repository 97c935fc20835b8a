"""Figures and tables of the papers, run again: one folder each under `benchmarks/figures`.

A folder `tagmatch_fig4` is the figure `tagmatch-fig4` and holds `figure.toml` (title, axes, sizes
and the published numbers) and `run.py` with two functions:

    run(figure)          yields rows: {"series": …, "x": …, "y": …, and whatever explains them}
    judge(figure, rows)  returns ("reproduced" | "partly" | "not", the reason in a sentence)
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from matchyard.bench import machine
from matchyard.bench.report import short
from matchyard.errors import UsageError

Row = dict[str, Any]
VERDICTS = ("reproduced", "partly", "not")


class Figure(NamedTuple):
    """One figure with its settings for this run."""

    name: str
    folder: Path
    title: str
    source: str  # paper and section
    x: str
    y: str
    log_x: bool
    log_y: bool
    size: int  # subscriptions at full scale
    threads: int
    published: list[Row]
    settings: dict[str, Any]  # whatever else the folder's own code needs


def find_figures(start: Path | None = None) -> dict[str, Figure]:
    """All figures of the checkout that contains `start` (or the working folder)."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        found = sorted((folder / "benchmarks" / "figures").glob("*/figure.toml"))
        if found:
            return {figure.name: figure for figure in map(_read, found)}
    raise UsageError(
        "no folder benchmarks/figures here: `matchyard reproduce` runs in a checkout of the sources"
    )


def _read(path: Path) -> Figure:
    config = tomllib.loads(path.read_text(encoding="utf-8"))
    return Figure(
        name=path.parent.name.replace("_", "-"),
        folder=path.parent,
        title=config["title"],
        source=config["source"],
        x=config["x"],
        y=config["y"],
        log_x=config.get("log_x", False),
        log_y=config.get("log_y", True),
        size=config["size"],
        threads=2,
        published=config.get("published", []),
        settings=config.get("settings", {}),
    )


def run_figure(
    figures: Mapping[str, Figure],
    name: str,
    size: int | None,
    threads: int,
    output: Path | None,
    as_json: bool,
    progress: Callable[[str], None],
) -> str:
    """Run one figure, print it beside the published numbers, and write results and plot."""
    if name not in figures:
        raise UsageError(f"no figure {name!r}; expected one of: {', '.join(figures)}")
    figure = figures[name]._replace(threads=threads)
    if size is not None:
        figure = figure._replace(size=size)
    code = _load(figure)
    rows = []
    for row in code.run(figure):
        rows.append(row)
        progress(f"{name}: {row['series']}, {figure.x} {row['x']}: {short(row['y'])}")
    verdict, reason = code.judge(figure, rows)
    if verdict not in VERDICTS:
        raise UsageError(f"{figure.folder}/run.py judges {verdict!r}; expected one of {VERDICTS}")
    report = {"figure": name, "size": figure.size, "threads": threads, "verdict": verdict,
              "reason": reason, "rows": rows, "machine": machine.describe()}  # fmt: skip
    folder = output or figure.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    draw(figure, rows, verdict, folder / f"{name}.png")
    if as_json:
        print(json.dumps(report))
    else:
        show(figure, rows, verdict, reason)
    return str(verdict)


def _load(figure: Figure) -> Any:
    spec = spec_from_file_location(f"figure_{figure.folder.name}", figure.folder / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def series_of(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by series, in order of appearance.

    >>> series_of([{"series": "a", "x": 1, "y": 2}])
    {'a': [{'series': 'a', 'x': 1, 'y': 2}]}
    """
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["series"], []).append(row)
    return found


def _cells(rows: Iterable[Row], places: list[Any]) -> Iterator[tuple[str, list[str]]]:
    for series, points in series_of(rows).items():
        values = {point["x"]: point["y"] for point in points}
        yield series, [short(values[x]) if x in values else "" for x in places]


def show(figure: Figure, rows: list[Row], verdict: str, reason: str) -> None:
    """Print ours and the paper's numbers as tables."""
    console = Console()
    console.print(f"[bold]{figure.title}[/bold]  [dim]{figure.source}[/dim]")
    for title, some in (("here", rows), ("published", figure.published)):
        if not some:
            continue
        places = sorted({row["x"] for row in some}, key=lambda x: (isinstance(x, str), x))
        table = Table(title=f"{title}: {figure.y} by {figure.x}", title_justify="left")
        table.add_column("")
        for place in places:
            label = place if isinstance(place, str) else short(place)
            table.add_column(label, justify="right")
        for series, cells in _cells(some, places):
            table.add_row(series, *cells)
        console.print(table)
    colour = {"reproduced": "green", "partly": "yellow", "not": "red"}[verdict]
    console.print(f"[{colour}]{verdict}[/{colour}]: {reason}\n")


def draw(figure: Figure, rows: list[Row], verdict: str, path: Path) -> None:
    """Lines where x is a number, bars where it is a name; published points are hollow."""
    try:
        import matplotlib
    except ImportError:
        raise UsageError("plots need Matplotlib: pip install 'matchyard[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    plot, axes = pyplot.subplots(figsize=(7.5, 4.5), layout="constrained")
    colours = pyplot.rcParams["axes.prop_cycle"].by_key()["color"]
    for kind, some in (("", rows), ("paper: ", figure.published)):
        for number, (series, points) in enumerate(series_of(some).items()):
            number += len(series_of(rows)) if kind else 0
            style = {"marker": "o", "color": colours[number % len(colours)]}
            if kind:
                style |= {"markerfacecolor": "none", "linestyle": "--", "linewidth": 1}
            axes.plot(
                [p["x"] for p in points], [p["y"] for p in points], label=kind + series, **style
            )
    numeric = all(not isinstance(row["x"], str) for row in [*rows, *figure.published])
    if figure.log_x and numeric:
        axes.set_xscale("log")
    if figure.log_y:
        axes.set_yscale("log")
    axes.set_xlabel(figure.x)
    axes.set_ylabel(figure.y)
    axes.set_title(f"{figure.title} ({verdict})", loc="left", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    plot.savefig(path, dpi=130)
    pyplot.close(plot)
