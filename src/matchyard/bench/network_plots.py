"""Pictures of networks: a small one with its trees, and how values are distributed over pairs or links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.bench.report import load_pyplot
from matchyard.errors import UsageError
from matchyard.routing import Distribution, Topology, Tree

MOST_DRAWN = 1_000  # nodes; more cannot be told apart
_PANELS = 4  # trees that are drawn beside each other
_STEPS = 150  # of the layout


def layout(topology: Topology, seed: int = 1) -> NDArray[np.float64]:
    """A place in the plane for each node, such that distances there are like those on the network: stress
    majorisation, step by step from random places."""
    from scipy.sparse.csgraph import shortest_path

    n_nodes = topology.n_nodes
    if n_nodes > MOST_DRAWN:
        raise UsageError(f"{n_nodes} nodes; expected at most {MOST_DRAWN} to draw")
    wanted = shortest_path(topology.matrix(), unweighted=True)
    if not np.isfinite(wanted).all():
        raise UsageError("no path between some nodes; expected a connected network")
    np.fill_diagonal(wanted, 1)
    weights = wanted**-2.0
    np.fill_diagonal(weights, 0)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    inverse = np.linalg.pinv(laplacian)
    places = np.random.default_rng(seed).normal(size=(n_nodes, 2))
    for _ in range(_STEPS):
        between = np.linalg.norm(places[:, None] - places[None], axis=2)
        np.fill_diagonal(between, 1)
        pulls = -weights * wanted / np.maximum(between, 1e-9)
        np.fill_diagonal(pulls, 0)
        np.fill_diagonal(pulls, -pulls.sum(axis=1))
        places = inverse @ (pulls @ places)
    found: NDArray[np.float64] = places
    return found


def draw_trees(topology: Topology, trees: Sequence[Tree], path: Path) -> None:
    """A network in grey, once for each of the first trees, which is drawn over it; its root is a star."""
    pyplot = load_pyplot()
    places, ends = layout(topology), topology.ends()
    some = list(trees)[:_PANELS]
    plot, grid = pyplot.subplots(
        1, len(some), figsize=(4.2 * len(some), 4.4), layout="constrained", squeeze=False
    )
    size = float(np.clip(600 / max(1, topology.n_nodes), 2, 40))
    for number, (tree, axes) in enumerate(zip(some, grid[0])):
        axes.set_title(f"tree {number}, root {topology.names[tree.root]}", loc="left", fontsize=9)
        _draw_links(axes, places, ends, "0.85", 0.5)
        children = np.flatnonzero(tree.parent >= 0)
        pairs = np.stack([children, tree.parent[children]], axis=1)
        _draw_links(axes, places, pairs, f"C{number}", 1.1)
        axes.scatter(*places.T, s=size, color="0.25", linewidths=0, zorder=3)
        root = places[tree.root]
        axes.scatter(*root, s=130, marker="*", color=f"C{number}", edgecolors="black", zorder=4)
        axes.set_aspect("equal")
        axes.set_axis_off()
    _save(plot, path)


def _draw_links(
    axes: Any, places: NDArray[np.float64], pairs: NDArray[Any], colour: str, width: float
) -> None:
    gap = np.full((len(pairs), 1, 2), np.nan)  # between one line and the next
    lines = np.concatenate([places[pairs], gap], axis=1).reshape(-1, 2)
    axes.plot(*lines.T, color=colour, linewidth=width, zorder=1)


def draw_shares(
    x: str, found: Mapping[str, Distribution], path: Path, is_log: bool = False
) -> None:
    """Which share of all is at most so large: a line for each distribution."""
    pyplot = load_pyplot()
    plot, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for name, one in found.items():
        shares = np.cumsum(one.counts) / max(1, one.n)
        axes.step(one.values, shares, where="post", label=name, linewidth=1.4)
    axes.set_xlabel(x)
    axes.set_ylabel("share of all")
    axes.set_ylim(0, 1.01)
    if is_log:
        axes.set_xscale("log")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    _save(plot, path)


def _save(plot: Any, path: Path) -> None:
    try:
        plot.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be drawn: {error}; expected e.g. a.png") from None
    finally:
        load_pyplot().close(plot)
