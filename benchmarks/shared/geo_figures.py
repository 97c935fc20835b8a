"""Shared parts of the figures about wireless meshes: the thesis' square at any number of nodes,
scenarios as rows, and the baselines of every table."""

from __future__ import annotations

import math
from collections.abc import Iterator

from matchyard.bench.figures.figures import Figure
from matchyard.bench.figures.plots import Row
from matchyard.geo import scenario
from matchyard.geo.scenario import Scenario

DENSITY = 8.0  # nodes per unit of area: 80 000 on 100 × 100 [thesis §4.7.2]
BASELINES = {
    ("flood", "C0"): "flooding",
    ("star", "C0"): "one per target, straight",
    ("star", "T60"): "one per target, T60",
}


def side_of(nodes: int) -> float:
    """The side of the square for a number of nodes at the thesis' density.

    >>> side_of(80_000)
    100.0
    """
    return math.sqrt(nodes / DENSITY)


def base_of(figure: Figure, nodes: int | None = None) -> Scenario:
    """The thesis' scenario at the size of a figure, with its numbers of requests and runs."""
    n = figure.size if nodes is None else nodes
    chosen = figure.settings
    return Scenario(
        nodes=n, side=side_of(n), requests=chosen["requests"], runs=chosen.get("runs", 1)
    )


def measure(one: Scenario, threads: int) -> Row:
    """The congestion of a scenario as `y`, and the fields that explain it."""
    outcome = scenario.run(one, threads=threads)
    return {
        "y": outcome.congestion,
        "mean_load": outcome.mean_load,
        "transmissions": outcome.transmissions / outcome.done_runs,
        "runs": outcome.done_runs,
        "recoveries": outcome.recoveries,
        "missed": outcome.lost + outcome.undelivered,
    }


def measure_baselines(base: Scenario, threads: int) -> Iterator[Row]:
    """Measure flooding and one message per target, for the requests of a scenario."""
    for one in scenario.baselines([base]):
        yield {"series": BASELINES[one.tree, one.rule], "beside": True, **measure(one, threads)}
