"""Plots of figures: our results as full lines, published ones as grey, dashed and hollow.

The name of a line stands at its end. If the values of x are names, bars replace the lines. Rows with
`"beside": True` are for comparison only: their lines are dotted, with large hollow marks. Their bars
are hollow, and cut if they are much longer than all others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matchyard.bench.compare.report import load_pyplot, short

Row = dict[str, Any]
_OURS, _PUBLISHED = "osD^vP*X", "sD^vP*Xo"


class Axes(NamedTuple):
    """The labels and scales of the axes."""

    x: str
    y: str
    log_x: bool
    log_y: bool
    shared_y: bool = True


def place_name(x: Any) -> str:
    """The readable label of a value of x.

    >>> place_name("sff"), place_name(25_000)
    ('sff', '25 k')
    """
    return x if isinstance(x, str) else short(x)


def series_of(rows: Iterable[Row], by_panel: bool = False) -> dict[Any, list[Row]]:
    """Rows by series, or by panel and series, in order of appearance.

    >>> series_of([{"series": "a", "x": 1, "y": 2}])
    {'a': [{'series': 'a', 'x': 1, 'y': 2}]}
    """
    series: dict[Any, list[Row]] = {}
    for row in rows:
        name = (row.get("panel", ""), row["series"]) if by_panel else row["series"]
        series.setdefault(name, []).append(row)
    return series


def draw(
    title: str, shape: Axes, rows: Sequence[Row], published: Sequence[Row], path: Path
) -> None:
    """Draw one panel per name in the rows; every panel shows published points without a panel."""
    pyplot = load_pyplot()
    panels = list(dict.fromkeys(row.get("panel", "") for row in rows))
    is_bars = isinstance(rows[0]["x"], str)
    size = _size_of_bars(rows, len(panels)) if is_bars else (3.2 + 3.4 * len(panels), 4.4)
    plot, grid = pyplot.subplots(
        1, len(panels), figsize=(8.2, size[1]) if len(panels) == 1 else size, layout="constrained",
        sharex=is_bars and shape.shared_y, sharey=shape.shared_y, squeeze=False,
    )  # fmt: skip
    names = list(series_of(rows)), list(series_of(published))
    for panel, axes in zip(panels, grid[0]):
        ours = [row for row in rows if row.get("panel", "") == panel]
        theirs = [row for row in published if row.get("panel", panel) == panel]
        axes.set_title(panel, loc="left", fontsize=9)
        if is_bars:
            names_of_bars = _bar_names(rows, published) if shape.shared_y else None
            _bars(axes, ours, theirs, names_of_bars, _longest(rows if shape.shared_y else ours))
            continue
        lines = _lines(axes, ours, theirs, *names)
        _frame(axes, shape, ours + theirs, [*rows, *published] if shape.shared_y else ours + theirs)
        later = panels[panels.index(panel) + 1 :] if shape.shared_y else []
        again = {row["series"] for row in rows if row.get("panel", "") in later}
        _name_lines(axes, [line for line in lines if line.get_label() not in again])
    if not is_bars:
        grid[0][0].set_ylabel(shape.y if shape.shared_y else "")
        plot.supxlabel(shape.x, fontsize=10)
    plot.suptitle(title, x=0.01, ha="left", fontsize=10)
    plot.savefig(path, dpi=130)
    pyplot.close(plot)


def _size_of_bars(rows: Sequence[Row], n_panels: int) -> tuple[float, float]:
    """The size in inches, with room for long names and many bars."""
    names = {row["x"] for row in rows}
    return (3.0 + 0.06 * max(0, max(map(len, names)) - 12)) * n_panels, max(2.6, 0.4 * len(names))


def _bar_names(ours: Sequence[Row], theirs: Sequence[Row]) -> list[str]:
    names = [row["x"] for row in ours] + [f"paper: {row['x']}" for row in theirs]
    return list(dict.fromkeys(names))


def _longest(rows: Sequence[Row]) -> float:
    """The greatest length of comparison bars: somewhat above all others."""
    return 1.15 * max([row["y"] for row in rows if not row.get("beside")], default=math.inf)


def _bars(
    axes: Any, ours: list[Row], theirs: list[Row], shared: list[str] | None, longest: float
) -> None:
    """Draw bars from top to bottom, each with its value; published ones are grey. If panels share the
    names at their side, a bar has the same position in all of them."""
    rows, names = ours + theirs, shared or _bar_names(ours, theirs)
    places = [names.index(row["x"]) for row in ours]
    places += [names.index(f"paper: {row['x']}") for row in theirs]
    colours = ["C0"] * len(ours) + ["0.7"] * len(theirs)
    is_cut = [bool(row.get("beside")) and row["y"] > longest for row in rows]
    widths = [longest if cut else row["y"] for row, cut in zip(rows, is_cut)]
    bars = axes.barh(places, widths, color=colours)
    for bar, row in zip(bars, rows):
        if row.get("beside"):
            bar.set(facecolor="none", edgecolor="C0", linestyle=":")
    labels = [f"» {short(row['y'])}" if cut else short(row["y"]) for row, cut in zip(rows, is_cut)]
    axes.bar_label(bars, labels, padding=3, fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.margins(x=0.25)
    axes.xaxis.set_visible(False)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


_GAP = 0.05  # of the height between two names


def _name_lines(axes: Any, lines: list[Any]) -> None:
    """Write a name at the end of each line, in its colour; close names are moved apart."""
    to_axes = axes.transData + axes.transAxes.inverted()
    ends: dict[float, list[tuple[float, Any]]] = {}  # heights and lines, by the last x
    for line in lines:
        place, height = to_axes.transform((line.get_xdata()[-1], line.get_ydata()[-1]))
        ends.setdefault(1.0 if place > 0.6 else round(place, 2), []).append((height, line))
    for place, there in ends.items():
        there.sort(key=lambda end: end[0])
        heights = _spread([height for height, _ in there])
        for (height, line), moved in zip(there, heights):
            is_moved = abs(moved - height) > _GAP / 4
            leader = {"arrowstyle": "-", "color": line.get_color(), "linewidth": 0.6, "shrinkB": 3}
            axes.annotate(
                line.get_label(), (line.get_xdata()[-1], line.get_ydata()[-1]),
                (place + 0.03, moved), textcoords="axes fraction", va="center",
                color=line.get_color(), fontsize=8, arrowprops=leader if is_moved else None,
                annotation_clip=False, zorder=5,
                bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 1},
            )  # fmt: skip


def _spread(heights: list[float]) -> list[float]:
    """Move ascending heights apart, as little as possible.

    >>> [round(height, 3) for height in _spread([0.5, 0.5, 0.9])]
    [0.475, 0.525, 0.9]
    """
    groups: list[list[float]] = []  # touching neighbours: [sum of wanted heights, number]
    for height in heights:
        groups.append([height, 1])
        while len(groups) > 1 and _top(groups[-2]) + _GAP > _bottom(groups[-1]):
            total, count = groups.pop()
            groups[-1] = [groups[-1][0] + total, groups[-1][1] + count]
    return [_bottom(group) + _GAP * i for group in groups for i in range(int(group[1]))]


def _bottom(group: list[float]) -> float:
    return group[0] / group[1] - _GAP * (group[1] - 1) / 2


def _top(group: list[float]) -> float:
    return group[0] / group[1] + _GAP * (group[1] - 1) / 2


def _lines(
    axes: Any, ours: list[Row], theirs: list[Row], our_names: list[str], their_names: list[str]
) -> list[Any]:
    lines = []
    for series, points in series_of(ours).items():
        number = our_names.index(series)
        style = {"color": f"C{number % 10}", "marker": _OURS[number % len(_OURS)], "markersize": 5}
        if points[0].get("beside"):  # visible even under another line
            style |= {"markersize": 10, "markerfacecolor": "none", "linestyle": ":"}
        lines += axes.plot(*_points(points), label=series, **style)
    for series, points in series_of(theirs).items():
        number = their_names.index(series)
        shade = str(0.25 + 0.45 * number / max(1, len(their_names) - 1))
        style = {"color": shade, "marker": _PUBLISHED[number % len(_PUBLISHED)]}
        lines += axes.plot(
            *_points(points), label=f"paper: {series}", markersize=6, markerfacecolor="none",
            linestyle="--", linewidth=1, **style,
        )  # fmt: skip
    return lines


def _points(rows: list[Row]) -> tuple[list[Any], list[float]]:
    return [row["x"] for row in rows], [row["y"] for row in rows]


def _frame(axes: Any, shape: Axes, rows: list[Row], all_rows: list[Row]) -> None:
    """Set up the axes for the rows of a panel; panels with a shared axis share its range."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    places = sorted({row["x"] for row in rows})
    axes.set_xscale("log" if shape.log_x else "linear")
    axes.set_yscale("log" if shape.log_y else "linear")
    if not shape.log_y:
        axes.set_ylim(0, 1.05 * max(row["y"] for row in all_rows))
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
