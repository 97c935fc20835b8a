"""Pictures of networks: a small network with its trees or the load of its links, and distributions of
values over pairs or links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.bench.compare.report import load_pyplot
from matchyard.errors import UsageError
from matchyard.network import Run
from matchyard.network.collectors import ends_of_places, stretch_of
from matchyard.routing import Distribution, Topology, Tree, distribution

MOST_DRAWN = 1_000  # nodes; more cannot be told apart
_MOST_FOLLOWED = 300  # nodes; in larger pictures, the eye cannot follow a path
_PANELS = 4  # trees drawn side by side
_STEPS = 150  # of the layout


def layout(topology: Topology, seed: int = 1) -> NDArray[np.float64]:
    """Positions of nodes in the plane, with distances like those in the network: stress majorisation from
    random positions."""
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
    positions: NDArray[np.float64] = places
    return positions


def draw_trees(topology: Topology, trees: Sequence[Tree], path: Path) -> None:
    """Draw each of the first trees over the network in grey; a star marks the root."""
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
        _as_map(axes)
    _save(plot, path)


def _draw_links(
    axes: Any, places: NDArray[np.float64], pairs: NDArray[Any], colour: str, width: float
) -> None:
    gap = np.full((len(pairs), 1, 2), np.nan)  # between one line and the next
    lines = np.concatenate([places[pairs], gap], axis=1).reshape(-1, 2)
    axes.plot(*lines.T, color=colour, linewidth=width, zorder=1)


def draw_shares(
    x: str, distributions: Mapping[str, Distribution], path: Path, is_log: bool = False
) -> None:
    """Draw the cumulative share of values, a line for each distribution."""
    pyplot = load_pyplot()
    plot, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    _shares_on(axes, x, distributions, is_log)
    axes.legend(frameon=False, fontsize=8)
    _save(plot, path)


def _shares_on(
    axes: Any,
    x: str,
    distributions: Mapping[str, Distribution],
    is_log: bool,
    y: str = "share of all",
) -> None:
    for name, one in distributions.items():
        shares = np.cumsum(one.counts) / max(1, one.n)
        axes.step(one.values, shares, where="post", label=name, linewidth=1.4)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_ylim(0, 1.01)
    if is_log:
        axes.set_xscale("log")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


# -------------------------------------------------------------------- what a run has done


def draw_run(run: Run, path: Path) -> None:
    """Draw the distributions of the load of links and of the stretch of deliveries. For a small network, also
    draw the path of the notification with the most receivers, and the load of each link."""
    pyplot = load_pyplot()
    is_small = run.topology.n_nodes <= _MOST_FOLLOWED and run.copies is not None
    if is_small:
        plot, names = pyplot.subplot_mosaic(
            [["one", "all", "load"], ["one", "all", "stretch"]],
            figsize=(13, 4.8),
            width_ratios=(1.1, 1.2, 0.8),
            layout="constrained",
        )
        places = layout(run.topology)
        _draw_one(names["one"], run, places, int(run.delivered.argmax()))
        _draw_load(plot, names["all"], run, places)
    else:
        plot, pair = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        names = dict(zip(("load", "stretch"), pair))
    used = distribution(run.load[run.load > 0])
    _shares_on(names["load"], "copies on a link, one direction", {"": used}, True, "share of links")
    stretch = {"": stretch_of(run)}
    _shares_on(names["stretch"], "stretch of a delivery", stretch, False, "share of deliveries")
    _save(plot, path)


def _draw_one(axes: Any, run: Run, places: NDArray[np.float64], number: int) -> None:
    """Draw the links of one notification, its source and its receivers."""
    assert run.copies is not None
    assert run.deliveries is not None
    start, end = ends_of_places(run.topology)
    mine = run.copies.notification == number
    taken, hops = run.copies.place[mine], run.copies.hops[mine]
    first = taken[hops == 1]
    there = run.deliveries.node[run.deliveries.notification == number]
    source = start[first[:1]] if len(first) else there[:1]
    _draw_links(axes, places, run.topology.ends(), "0.88", 0.5)
    for link in taken:
        axes.annotate(
            "",
            places[end[link]],
            places[start[link]],
            arrowprops={"arrowstyle": "-|>", "color": "C0", "lw": 1.3, "shrinkA": 0, "shrinkB": 2},
        )
    size = float(np.clip(600 / max(1, run.topology.n_nodes), 3, 20))
    axes.scatter(*places.T, s=size, color="0.6", linewidths=0, zorder=3)
    axes.scatter(*places[there].T, s=34, color="C1", edgecolors="black", linewidths=0.6, zorder=4, label="wants it")  # fmt: skip
    axes.scatter(*places[source].T, s=170, marker="*", color="C2", edgecolors="black", zorder=5, label="source")  # fmt: skip
    axes.set_title(f"notification {number}: {len(taken)} links", loc="left", fontsize=9)
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    _as_map(axes)


def _draw_load(plot: Any, axes: Any, run: Run, places: NDArray[np.float64]) -> None:
    """Draw links wider and darker with their load, both directions together."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LogNorm

    load = np.bincount(run.topology.links, run.load, minlength=run.topology.n_links)
    used = np.argsort(load, kind="stable")[(load == 0).sum() :]
    _draw_links(axes, places, run.topology.ends(), "0.88", 0.5)
    most = max(2.0, float(load.max(initial=0)))
    lines = LineCollection(
        list(places[run.topology.ends()[used]]),
        linewidths=0.5 + 5.5 * load[used] / most,
        cmap="YlOrRd",
        norm=LogNorm(max(0.5, load[used].min(initial=most) / 2), most),
        capstyle="round",
        zorder=2,
    )
    lines.set_array(load[used])
    axes.add_collection(lines, autolim=False)
    sizes = np.clip(3 * run.topology.degrees, 5, 50)
    axes.scatter(*places.T, s=sizes, color="0.25", linewidths=0, zorder=3)
    axes.set_title(
        f"{run.n_notifications:,} notifications: copies on each link", loc="left", fontsize=9
    )
    _as_map(axes)
    plot.colorbar(lines, ax=axes, shrink=0.7, pad=0.01).outline.set_visible(False)


def _as_map(axes: Any) -> None:
    axes.set_aspect("equal", anchor="N")
    axes.set_axis_off()


def _save(plot: Any, path: Path) -> None:
    try:
        plot.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be drawn: {error}; expected e.g. a.png") from None
    finally:
        load_pyplot().close(plot)
