"""Figures and tables of the papers, run again: one folder each under `benchmarks/figures`.

A folder `tagmatch_fig4` is the figure `tagmatch-fig4` and holds `figure.toml` (title, axes, sizes
and the published numbers) and `run.py` with two functions:

    run(figure)          yields rows: {"series": …, "x": …, "y": …, and fields that explain them};
                         rows may have a "panel": panels are drawn side by side
    judge(figure, rows)  returns ("reproduced" | "partly" | "not", the reason in a sentence)

An optional function `illustrate(figure, folder)` draws more pictures. Results go into NAME.json and
NAME.png in the folder, and into a row of the overview README.md. Results of a GPU, often in another
machine, go into NAME.gpu.json (see `reproduce`).
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from matchyard.bench.compare.report import short
from matchyard.bench.figures import plots
from matchyard.bench.figures.plots import Row, series_of
from matchyard.errors import UsageError

_NUMBER = re.compile(r"(\d+)")
VERDICTS = ("reproduced", "partly", "not")


class Figure(NamedTuple):
    """One figure with its settings for this run."""

    name: str
    folder: Path
    title: str
    asks: str  # the question in a few words
    source: str  # paper and section, and the source of the published numbers
    x: str
    y: str
    log_x: bool
    log_y: bool
    shared_y: bool  # all panels have one unit; otherwise their names include it
    size: int  # subscriptions at full scale
    threads: int
    published: list[Row]
    settings: dict[str, Any]  # further settings of the folder's code
    gpu_engine: str  # the engine whose algorithms run on a GPU as well; empty: none
    device: str = "cpu"  # of this measurement
    cores: int = 1  # of the machine with the CPU's results
    card: str = ""  # name of the GPU, if its rows are judged…
    fed: str = ""  # …and " with 16 threads", if the CPU's results have another number


def find_figures(start: Path | None = None) -> dict[str, Figure]:
    """All figures of the checkout that contains `start` (or the working folder)."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        files = sorted((folder / "benchmarks" / "figures").glob("*/figure.toml"), key=_in_order)
        if files:
            return {figure.name: figure for figure in map(_read, files)}
    raise UsageError(
        "no folder benchmarks/figures here: `matchyard reproduce` runs in a checkout of the sources"
    )


def _in_order(path: Path) -> list[tuple[int, str]]:
    """A sort key that puts Figure 2 before Figure 10."""
    return [(int(part) if part.isdigit() else -1, part) for part in _NUMBER.split(str(path))]


def _read(path: Path) -> Figure:
    config = tomllib.loads(path.read_text(encoding="utf-8"))
    return Figure(
        name=path.parent.name.replace("_", "-"),
        folder=path.parent,
        title=config["title"],
        asks=config["asks"],
        source=config["source"],
        x=config["x"],
        y=config["y"],
        log_x=config.get("log_x", False),
        log_y=config.get("log_y", True),
        shared_y=config.get("shared_y", True),
        size=config["size"],
        threads=2,
        published=config.get("published", []),
        settings=config.get("settings", {}),
        gpu_engine=config.get("gpu_engine", ""),
    )


def load(figure: Figure) -> Any:
    """The code of a figure's folder, which may import `benchmarks.shared` of its checkout."""
    checkout = str(figure.folder.parents[2])
    if checkout not in sys.path:
        sys.path.append(checkout)
    spec = spec_from_file_location(f"figure_{figure.folder.name}", figure.folder / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def draw(figure: Figure, rows: list[Row], verdict: str, path: Path) -> None:
    """Plot our numbers and the published ones."""
    shape = plots.Axes(figure.x, figure.y, figure.log_x, figure.log_y, figure.shared_y)
    plots.draw(f"{figure.title} — {verdict}", shape, rows, figure.published, path)


def _table(title: str, x: str, rows: list[Row]) -> Table:
    """A table of series by values of x, transposed if that is narrower."""
    places = sorted({row["x"] for row in rows})
    cells = {}
    for (panel, series), points in series_of(rows, by_panel=True).items():
        values = {point["x"]: short(point["y"]) for point in points}
        label = f"{series} · {panel}" if panel else series
        cells[label] = [values.get(place, "") for place in places]
    heads, lines = [plots.place_name(place) for place in places], list(cells.items())
    if len(places) > len(cells):
        heads, lines = list(cells), list(zip(heads, map(list, zip(*cells.values()))))
    table = Table(x if len(places) > len(cells) else "", title=title, title_justify="left")
    for head in heads:
        table.add_column(head, justify="right")
    for label, line in lines:
        table.add_row(label, *line)
    return table


def show(figure: Figure, rows: list[Row], verdict: str = "", reason: str = "") -> None:
    """Print our numbers and the paper's as tables, and the verdict if there is one."""
    console = Console()
    console.print(f"[bold]{figure.title}[/bold]  [dim]{figure.source}[/dim]")
    for title, some in (("here", rows), ("published", figure.published)):
        if some:
            console.print(_table(f"{title}: {figure.y} by {figure.x}", figure.x, some))
    if not verdict:
        return
    colour = {"reproduced": "green", "partly": "yellow", "not": "red"}[verdict]
    console.print(f"[{colour}]{verdict}[/{colour}]: {reason}\n")


def write_overview(figures: Mapping[str, Figure]) -> None:
    """Write README.md beside the folders: a row for each figure with results."""
    lines = [_INTRODUCTION, "| figure | asks | verdict | because |", "|---|---|---|---|"]
    for name, figure in figures.items():
        place, verdict, reason = figure.folder.name, "not run", ""
        results = figure.folder / f"{name}.json"
        if results.exists():
            report = json.loads(results.read_text(encoding="utf-8"))
            verdict, reason = f"**[{report['verdict']}]({place}/{name}.png)**", report["reason"]
        lines.append(f"| [{name}]({place}) | {figure.asks} | {verdict} | {reason} |")
    folder = next(iter(figures.values())).folder.parent
    (folder / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


_INTRODUCTION = """\
# The papers' figures, run again

`matchyard reproduce NAME` runs a figure and writes its results, its plot (linked from the verdict) and
this table. *reproduced*: our results support the paper's claims in words. *partly*: they support some
of them. *not*: they do not support the main claim. Sizes are those of a small machine: the papers had
24 cores, two GPUs and 212 million sets (TagMatch), one core and a million predicates (HEM), or a GPU
for the stacks and 12 cores for YFilter (XML twigs). A series called *(GPU)* comes from `matchyard
reproduce NAME --device gpu`, in another machine with the card that the reason names; it tests the
paper's claims about GPUs. Published numbers come from the papers' text and tables, never from a chart.
"""
