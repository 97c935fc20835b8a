"""Pictures of meshes: every node as a point, coloured by its load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.bench.compare.report import load_pyplot, short
from matchyard.geo import Mesh
from matchyard.geo.heat_map import Tree

MOST_NAMED = 40  # nodes; with more, names and edges hide each other
_COLOURS = "viridis"  # even steps for the eye, also in grey
_SIDE_IN = 4.6  # of a panel
_DPI = 110


class Panel(NamedTuple):
    """A mesh, the load of its nodes, and trees to draw over it."""

    mesh: Mesh
    load: NDArray[np.float64]
    title: str = ""
    trees: Sequence[Tree] = ()
    label: str = "load: transmissions that a node hears or makes"


def draw_load(
    mesh: Mesh,
    load: NDArray[np.float64],
    path: Path,
    *,
    trees: Sequence[Tree] = (),
    label: str = Panel._field_defaults["label"],
) -> None:
    """Draw one mesh, with given trees as lines."""
    draw_loads([Panel(mesh, load, f"{len(mesh):,} nodes", trees, label)], path)


def draw_loads(panels: Sequence[Panel], path: Path, title: str = "") -> None:
    """Draw meshes side by side, each with its own range of colours."""
    pyplot = load_pyplot()
    size = (_SIDE_IN + 0.9) * len(panels), _SIDE_IN + 0.4
    plot, grid = pyplot.subplots(1, len(panels), figsize=size, layout="constrained", squeeze=False)
    for panel, axes in zip(panels, grid[0]):
        _draw(plot, axes, panel)
    if title:
        plot.suptitle(title, x=0.01, ha="left", fontsize=10)
    plot.savefig(path, dpi=_DPI)
    pyplot.close(plot)


def _draw(plot: Any, axes: Any, panel: Panel) -> None:
    from matplotlib.colors import PowerNorm

    mesh = panel.mesh
    most = max(float(panel.load.max()), 1.0)
    order = np.argsort(panel.load, kind="stable")  # the busiest nodes lie on top
    _draw_lines(axes, mesh, panel.trees)
    points = axes.scatter(
        *mesh.points[order].T, c=panel.load[order], s=_area(len(mesh)), cmap=_COLOURS,
        norm=PowerNorm(0.5, 0, most),  # square roots: a few nodes have most of the load
        linewidths=0, zorder=2,
    )  # fmt: skip
    if len(mesh) <= MOST_NAMED:
        _draw_names(axes, mesh)
    bar = plot.colorbar(points, ax=axes, shrink=0.85, format=lambda value, place: short(value))
    bar.set_label(panel.label, fontsize=8)
    bar.ax.tick_params(labelsize=8)
    _frame(axes, mesh)
    axes.set_title(panel.title, loc="left", fontsize=9)


def _draw_lines(axes: Any, mesh: Mesh, trees: Sequence[Tree]) -> None:
    """Draw the edges of a small mesh, and the hops of trees, with a star at their sources."""
    from matplotlib.collections import LineCollection

    if len(mesh) <= MOST_NAMED:
        tails = np.repeat(np.arange(len(mesh)), mesh.degrees)
        edges = np.stack([mesh.points[tails], mesh.points[mesh.disks.neighbours]], axis=1)
        axes.add_collection(LineCollection(list(edges), colors="0.85", linewidths=0.8, zorder=1))
    for number, tree in enumerate(trees):
        colour = f"C{(3 + number) % 10}"  # red first: far from all colours of loads
        lines = [mesh.points[hops] for hops in tree.paths]
        axes.add_collection(LineCollection(lines, colors=colour, linewidths=1.2, zorder=3))
        axes.plot(*mesh.points[tree.source], marker="*", markersize=11, color=colour, zorder=4)
        axes.plot(*mesh.points[tree.targets].T, "o", markersize=5, color=colour, zorder=4)


def _draw_names(axes: Any, mesh: Mesh) -> None:
    for node, place in enumerate(mesh.points):
        axes.annotate(
            mesh.name(node), place, (4, 4), textcoords="offset points", fontsize=7, zorder=5
        )


def _area(n_nodes: int) -> float:
    """The area of a mark in square points: many marks leave no gaps, and few do not touch."""
    return float(np.clip(6 * (72 * _SIDE_IN) ** 2 / n_nodes, 3, 50))


def _frame(axes: Any, mesh: Mesh) -> None:
    low_x, low_y, high_x, high_y = mesh.region
    margin = 0.02 * max(high_x - low_x, high_y - low_y, mesh.r_c)
    axes.set_xlim(low_x - margin, high_x + margin)
    axes.set_ylim(low_y - margin, high_y + margin)
    axes.set_aspect("equal")
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    if mesh.unit:
        axes.set_xlabel(mesh.unit, fontsize=8)
