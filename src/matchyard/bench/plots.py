"""Plots of figures: ours as full lines, what was published as grey, dashed and hollow.

Rows with `"beside": True` are there for comparison only; they are dotted, with large hollow marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matchyard.bench.report import short
from matchyard.errors import UsageError

Row = dict[str, Any]
_OURS, _PUBLISHED = "osD^vP*X", "sD^vP*Xo"


class Axes(NamedTuple):
    """What the axes say and how they are scaled."""

    x: str
    y: str
    log_x: bool
    log_y: bool


def series_of(rows: Iterable[Row], by_panel: bool = False) -> dict[Any, list[Row]]:
    """Rows by series, or by panel and series, in order of appearance.

    >>> series_of([{"series": "a", "x": 1, "y": 2}])
    {'a': [{'series': 'a', 'x': 1, 'y': 2}]}
    """
    found: dict[Any, list[Row]] = {}
    for row in rows:
        name = (row.get("panel", ""), row["series"]) if by_panel else row["series"]
        found.setdefault(name, []).append(row)
    return found


def draw(
    title: str, shape: Axes, rows: Sequence[Row], published: Sequence[Row], path: Path
) -> None:
    """One panel per name in the rows; published points without a panel are drawn in all."""
    try:
        import matplotlib
    except ImportError:
        raise UsageError("plots need Matplotlib: pip install 'matchyard[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = list(dict.fromkeys(row.get("panel", "") for row in rows))
    width = 8.2 if len(panels) == 1 else 3.2 + 3.4 * len(panels)
    plot, grid = pyplot.subplots(
        1, len(panels), figsize=(width, 4.4), layout="constrained", sharey=True, squeeze=False
    )
    names = list(series_of(rows)), list(series_of(published))
    for panel, axes in zip(panels, grid[0]):
        ours = [row for row in rows if row.get("panel", "") == panel]
        theirs = [row for row in published if row.get("panel", panel) == panel]
        _lines(axes, ours, theirs, *names)
        _frame(axes, shape, ours + theirs)
        axes.set_title(panel, loc="left", fontsize=9)
    grid[0][0].set_ylabel(shape.y)
    plot.supxlabel(shape.x, fontsize=10)
    plot.suptitle(title, x=0.01, ha="left", fontsize=10)
    # One entry per series, whichever panels it is in; beside the plot, where no line can cross it.
    entries = {
        label: handle
        for axes in grid[0]
        for handle, label in zip(*axes.get_legend_handles_labels())
    }
    plot.legend(entries.values(), entries, loc="outside right center", fontsize=8, frameon=False)
    plot.savefig(path, dpi=130)
    pyplot.close(plot)


def _lines(
    axes: Any, ours: list[Row], theirs: list[Row], our_names: list[str], their_names: list[str]
) -> None:
    for series, points in series_of(ours).items():
        number = our_names.index(series)
        style = {"color": f"C{number % 10}", "marker": _OURS[number % len(_OURS)], "markersize": 5}
        if points[0].get("beside"):  # seen also where it lies under what it is compared with
            style |= {"markersize": 10, "markerfacecolor": "none", "linestyle": ":"}
        axes.plot(*_points(points), label=series, **style)
    for series, points in series_of(theirs).items():
        number = their_names.index(series)
        shade = str(0.25 + 0.45 * number / max(1, len(their_names) - 1))
        style = {"color": shade, "marker": _PUBLISHED[number % len(_PUBLISHED)]}
        axes.plot(
            *_points(points), label=f"paper: {series}", markersize=6, markerfacecolor="none",
            linestyle="--", linewidth=1, **style,
        )  # fmt: skip


def _points(rows: list[Row]) -> tuple[list[Any], list[float]]:
    return [row["x"] for row in rows], [row["y"] for row in rows]


def _frame(axes: Any, shape: Axes, rows: list[Row]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    places = sorted({row["x"] for row in rows})
    axes.set_xscale("log" if shape.log_x else "linear")
    axes.set_yscale("log" if shape.log_y else "linear")
    if not shape.log_y:
        axes.set_ylim(bottom=0)
    if not shape.log_x and len(places) <= 10 and places[-1] <= 100:  # counts: a tick for each
        axes.set_xticks(places)
    number = FuncFormatter(lambda value, place: short(value))
    axes.xaxis.set_major_formatter(number)
    axes.yaxis.set_major_formatter(number)
    for axis, is_log in ((axes.xaxis, shape.log_x), (axes.yaxis, shape.log_y)):
        if is_log:
            low, high = axis.get_view_interval()
            few = high / low < 300  # powers of ten alone would leave one or two labels
            axis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,), numticks=12))
            axis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
