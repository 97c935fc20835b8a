"""The claims of a paper about a figure, and whether our results support them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matchyard.bench.figures.figures import Figure
from matchyard.bench.figures.plots import Row, series_of

ON_GPU = " (GPU)"  # follows the algorithm in the name of a series from a GPU


class Claim(NamedTuple):
    """Our result in words beside the paper's, and whether the two agree."""

    text: str
    holds: bool


def verdict(main: Claim, *others: Claim, besides: str = "") -> tuple[str, str]:
    """The verdict and its reason; without the main claim, the verdict is "not".

    >>> verdict(Claim("it falls", True), Claim("by 3× (paper: 9×)", False))
    ('partly', 'it falls; but by 3× (paper: 9×)')
    """
    claims = (main, *others)
    kept = [claim.text for claim in claims if claim.holds]
    lost = [claim.text for claim in claims if not claim.holds]
    if kept and lost:
        lost[0] = f"but {lost[0]}"
    text = "; ".join([*kept, *lost])
    word = "not" if not main.holds else "partly" if lost else "reproduced"
    return word, f"{text}; {besides}" if besides else text


def ys(rows: Sequence[Row]) -> dict[str, list[float]]:
    """The values of each series."""
    return {name: [row["y"] for row in points] for name, points in series_of(rows).items()}


def in_panel(rows: Sequence[Row], panel: str) -> list[Row]:
    """The rows of one panel."""
    return [row for row in rows if row["panel"] == panel]


def of_gpu(figure: Figure, series: Mapping[str, Any], name: str) -> tuple[Any, str]:
    """The series for a claim about a GPU, and its label: from a GPU, or else from the CPU. The name
    may include the other algorithm of a ratio, as in "stacks / yfilter"."""
    algorithm, *rest = name.split(" ", 1)
    on_gpu = " ".join([algorithm + ON_GPU, *rest])
    return (
        (series[on_gpu], f"{algorithm} on {figure.card}{figure.fed}")
        if on_gpu in series
        else (series[name], algorithm)
    )


def speedups(
    figure: Figure, series: Mapping[str, Any], name: str, other: str
) -> tuple[list[float], str]:
    """The speedups of an algorithm over another on the CPU, and its label; values are times. If the
    first was measured on a GPU, these times count."""
    ours, called = of_gpu(figure, series, name)
    return [slow / fast for slow, fast in zip(series[other], ours)], called


def ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """The mean ratio of the values (geometric, so that no value dominates)."""
    product = 1.0
    for a, b in zip(slow, fast):
        product *= a / b
    return float(product ** (1 / len(slow)))


def reduction(slow: Sequence[float], fast: Sequence[float]) -> float:
    """The mean reduction of the times, in percent.

    >>> reduction([10.0, 10.0], [1.0, 3.0])
    80.0
    """
    return 100 * (1 - sum(b / a for a, b in zip(slow, fast)) / len(slow))


def reductions(series: Mapping[str, list[float]], published: Mapping[str, float]) -> list[Claim]:
    """Claims that `hem` is ahead of the others, at most 10 points less than published."""
    less = {name: reduction(series[name], series["hem"]) for name in published}
    behind = [name for name, percent in less.items() if percent <= 0]
    text = f"hem is ahead of {', '.join(name for name in less if name not in behind) or 'none'}"
    claims = [Claim(f"{text} on average (paper: of all)", not behind)]
    for name, percent in published.items():
        ours = less[name]
        text = f"hem reduces the time of {name} by {ours:.1f} % (paper: {percent} %)"
        claims.append(Claim(text, ours >= percent - 10))
    return claims


def reduced(series: Mapping[str, list[float]], workload: str) -> str:
    """The reductions by `hem` on real data as the end of a reason; empty without such data."""
    if not series:
        return ""
    said = [
        f"{name} by {reduction(times, series['hem']):.0f} %"
        for name, times in series.items()
        if name not in ("hem", "tiles")
    ]
    ours = [slow / fast for slow, fast in zip(series["hem"], series["tiles"])]
    return (
        f"; on {workload}, which is real, hem reduces the times of {', '.join(said)}, and tiles is "
        f"{min(ours):.2g}× to {max(ours):.2g}× as fast as hem"
    )


def rises(series: Mapping[str, list[float]], names: Sequence[str], by: str, least: float) -> Claim:
    """A claim: from first to last value, each series grows at least `least` times."""
    grown = {name: series[name][-1] / series[name][0] for name in names}
    said = ", ".join(f"{name} {times:.2g}×" for name, times in grown.items())
    return Claim(f"with {by}, times change: {said} (paper: all rise)", min(grown.values()) >= least)


def falls(series: Mapping[str, list[float]], names: Sequence[str], by: str, most: float) -> Claim:
    """A claim: from first to last value, each series shrinks to at most the share `most`."""
    left = {name: series[name][-1] / series[name][0] for name in names}
    said = ", ".join(f"{name} {times:.2g}×" for name, times in left.items())
    return Claim(f"with {by}, times change: {said} (paper: all fall)", max(left.values()) <= most)


def ahead(series: Mapping[str, list[float]], name: str, others: Sequence[str]) -> str:
    """The speedups of our own algorithm over others, in words."""
    said = " and ".join(
        f"{ratio(series[other], series[name]):.1f}× as fast as {other}" for other in others
    )
    text = f"{name}, which is ours, is {said}"
    if name + ON_GPU in series:
        text += (
            f", and on the GPU {ratio(series[name], series[name + ON_GPU]):.1f}× as fast as here"
        )
    return text
