"""What a paper says about a figure, claim by claim, and whether it holds here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matchyard.bench.figures.figures import Figure
from matchyard.bench.figures.plots import Row, series_of

ON_GPU = " (GPU)"  # what a series that a GPU made is called after its algorithm


class Claim(NamedTuple):
    """A finding in words, with the paper's own, and whether the two agree."""

    text: str
    holds: bool


def verdict(main: Claim, *others: Claim, besides: str = "") -> tuple[str, str]:
    """The verdict, and the reason: without the main claim nothing is reproduced.

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


def of_gpu(figure: Figure, found: Mapping[str, Any], name: str) -> tuple[Any, str]:
    """What answers a claim about a GPU, and what to call it: the series that a GPU made, else that
    of the CPU. After the name there may be what it is compared with, as in "stacks / yfilter"."""
    algorithm, *rest = name.split(" ", 1)
    on_gpu = " ".join([algorithm + ON_GPU, *rest])
    return (
        (found[on_gpu], f"{algorithm} on {figure.card}{figure.fed}")
        if on_gpu in found
        else (found[name], algorithm)
    )


def speedups(
    figure: Figure, found: Mapping[str, Any], name: str, other: str
) -> tuple[list[float], str]:
    """How many times as fast an algorithm is as another on the CPU, and what to call it; on a GPU,
    where it was measured on one. Values are times."""
    ours, called = of_gpu(figure, found, name)
    return [slow / fast for slow, fast in zip(found[other], ours)], called


def ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """How many times as much, in the mean of all places (geometric, so that none dominates)."""
    product = 1.0
    for a, b in zip(slow, fast):
        product *= a / b
    return float(product ** (1 / len(slow)))


def reduction(slow: Sequence[float], fast: Sequence[float]) -> float:
    """By how many percent the times are reduced, on average.

    >>> reduction([10.0, 10.0], [1.0, 3.0])
    80.0
    """
    return 100 * (1 - sum(b / a for a, b in zip(slow, fast)) / len(slow))


def reductions(found: Mapping[str, list[float]], published: Mapping[str, float]) -> list[Claim]:
    """That `hem` is ahead of the others, and how far; 10 points less than published is too little."""
    less = {name: reduction(found[name], found["hem"]) for name in published}
    behind = [name for name, percent in less.items() if percent <= 0]
    text = f"hem is ahead of {', '.join(name for name in less if name not in behind) or 'none'}"
    claims = [Claim(f"{text} on average (paper: of all)", not behind)]
    for name, percent in published.items():
        ours = less[name]
        text = f"hem reduces the time of {name} by {ours:.1f} % (paper: {percent} %)"
        claims.append(Claim(text, ours >= percent - 10))
    return claims


def reduced(found: Mapping[str, list[float]], workload: str) -> str:
    """By how much `hem` reduces the times of the others on real data, to be said after all else;
    nothing where there is no such data."""
    if not found:
        return ""
    said = [
        f"{name} by {reduction(times, found['hem']):.0f} %"
        for name, times in found.items()
        if name not in ("hem", "tiles")
    ]
    ours = [slow / fast for slow, fast in zip(found["hem"], found["tiles"])]
    return (
        f"; on {workload}, which is real, hem reduces the times of {', '.join(said)}, and tiles is "
        f"{min(ours):.2g}× to {max(ours):.2g}× as fast as hem"
    )


def rises(found: Mapping[str, list[float]], names: Sequence[str], by: str, least: float) -> Claim:
    """From the first place to the last, the values of all of these grow at least so many times."""
    grown = {name: found[name][-1] / found[name][0] for name in names}
    said = ", ".join(f"{name} {times:.2g}×" for name, times in grown.items())
    return Claim(f"with {by}, times change: {said} (paper: all rise)", min(grown.values()) >= least)


def falls(found: Mapping[str, list[float]], names: Sequence[str], by: str, most: float) -> Claim:
    """From the first place to the last, the values of all of these shrink to so much or less."""
    left = {name: found[name][-1] / found[name][0] for name in names}
    said = ", ".join(f"{name} {times:.2g}×" for name, times in left.items())
    return Claim(f"with {by}, times change: {said} (paper: all fall)", max(left.values()) <= most)


def ahead(found: Mapping[str, list[float]], name: str, others: Sequence[str]) -> str:
    """How many times as fast one is as others, in words; for an algorithm that no paper has."""
    said = " and ".join(
        f"{ratio(found[other], found[name]):.1f}× as fast as {other}" for other in others
    )
    text = f"{name}, which is ours, is {said}"
    if name + ON_GPU in found:
        text += f", and on the GPU {ratio(found[name], found[name + ON_GPU]):.1f}× as fast as here"
    return text
