"""Congestion: how many transmissions each node hears, and how few it could be at best [thesis §4.4]."""

from __future__ import annotations

import json
import math
import os
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.geo.mesh import Mesh, Region
from matchyard.geo.workload import Requests
from matchyard.kernels.disks import sum_within
from matchyard.kernels.geo_measures import count_cuts


class Work(NamedTuple):
    """Exact counters of all runs together."""

    transmissions: int = 0  # broadcasts included
    broadcasts: int = 0  # that several nodes may hear as their message
    deliveries: int = 0  # targets that were reached
    recoveries: int = 0  # how often a greedy path was stuck
    ring_transmissions: int = 0  # of searches by rings; they are not in `sent`
    lost: int = 0  # targets in the source's component that were not reached
    undelivered: int = 0  # pairs of a request and a target in another component; one run counts

    def __add__(self, other: Work) -> Work:  # type: ignore[override]
        return Work(*(one + more for one, more in zip(self, other)))


class Traffic:
    """What the nodes of a mesh sent."""

    def __init__(self, mesh: Mesh, sent: NDArray[np.int64], runs: int, work: Work) -> None:
        self.mesh = mesh
        self.sent = sent  # [n] transmissions of each node, all runs together
        self.runs = runs
        self.work = work

    @cached_property
    def load(self) -> NDArray[np.float64]:
        """The transmissions that each node hears or makes, in the mean of the runs."""
        return load(self.mesh, self.sent) / self.runs

    @property
    def congestion(self) -> float:
        """The load of the busiest node."""
        return float(self.load.max())

    @property
    def transmissions(self) -> float:
        """How many transmissions a run has, in the mean."""
        return self.work.transmissions / self.runs

    def to_geojson(self, path: str | os.PathLike[str]) -> None:
        """Write the nodes as points with their `load` and `sent`, to be shown on a map."""
        here = self.mesh.lon_lat(self.mesh.points)
        if self.mesh.origin is not None:  # GeoJSON counts anew at the date line
            here[:, 0] -= 360 * (here[:, 0] > 180.0) - 360 * (here[:, 0] < -180.0)
        places = here.tolist()
        sent = (self.sent / self.runs).tolist()
        features: list[dict[str, object]] = [
            {
                "type": "Feature",
                "id": self.mesh.name(node),
                "geometry": {"type": "Point", "coordinates": places[node]},
                "properties": {"load": load, "sent": sent[node]},
            }
            for node, load in enumerate(self.load.tolist())
        ]
        write_features(path, features)


def write_features(path: str | os.PathLike[str], features: list[dict[str, object]]) -> None:
    """Write GeoJSON."""
    text = json.dumps({"type": "FeatureCollection", "features": features})
    Path(path).write_text(text + "\n", encoding="utf-8")


def load(mesh: Mesh, sent: NDArray[np.int64]) -> NDArray[np.int64]:
    """The transmissions within the interference range of each node, its own included [thesis (4.1)].

    >>> from matchyard.geo import from_points
    >>> load(from_points([(0, 0), (1, 0), (2, 0)], r_c=1), np.array([1, 0, 5])).tolist()
    [1, 6, 5]
    """
    found: NDArray[np.int64] = sum_within(sent, mesh.disturbed.start, mesh.disturbed.neighbours)
    return found


class Bound(NamedTuple):
    """How congested the busiest node is at least, however messages are routed."""

    load: float  # the largest load(R) of the thesis, which hides a constant
    asserted: float  # a bound with the constant: no routing is below it
    rectangle: Region  # the one that gives `load`
    n_cut: int  # requests with a node inside it and one outside


def lower_bound(mesh: Mesh, requests: Requests, grid: int = 20) -> Bound:
    """The largest bound of rectangles with sides on a grid [thesis Lemma 4.4.1].

    The lines of the grid are `grid` evenly spaced ones each way, and as many that share the requests'
    points evenly, so that a narrow band is cut as well. A request with a point inside a rectangle and a
    point outside has a transmission within r_i of its rim. Nodes there that are more than r_i apart hear
    one such transmission each; disks of radius r_i / 2 round them are disjoint, and lie within 1.5 r_i of
    the rim. So they are at most as many as fit into its area.
    """
    if grid < 1:
        raise UsageError(f"a grid of {grid}; expected at least 1 line each way")
    owners, nodes = _points_of(mesh, requests)
    points = mesh.points[nodes]
    xs = _lines(mesh.region[0], mesh.region[2], points[:, 0], grid)
    ys = _lines(mesh.region[1], mesh.region[3], points[:, 1], grid)
    columns, rows = _cells(points[:, 0], xs), _cells(points[:, 1], ys)
    order = np.argsort(rows, kind="stable")
    n_points = np.bincount(owners, minlength=len(requests))
    shape = len(xs) - 1, len(ys) - 1
    cuts = count_cuts(columns[order], rows[order], owners[order], len(requests), n_points, *shape)
    left, right, low, high = np.nonzero(cuts)
    if not len(left):
        return Bound(0.0, 0.0, mesh.region, 0)
    n_cut = cuts[left, right, low, high]
    widths, heights = xs[right + 1] - xs[left], ys[high + 1] - ys[low]
    loads = np.minimum(n_cut, n_cut * mesh.r_i / np.maximum(widths + heights, 1e-300))
    is_inside = left > 0, right < shape[0] - 1, low > 0, high < shape[1] - 1
    rims = (is_inside[0] + 0 + is_inside[1]) * heights + (is_inside[2] + 0 + is_inside[3]) * widths
    across, up = is_inside[0] & is_inside[1], is_inside[2] & is_inside[3]
    is_strip = (across & ~is_inside[2] & ~is_inside[3]) | (up & ~is_inside[0] & ~is_inside[1])
    area = 3 * rims * mesh.r_i + 2.25 * math.pi * mesh.r_i**2 * (1 + is_strip)
    asserted = n_cut / (area / (math.pi * mesh.r_i**2 / 4))
    best = int(loads.argmax())
    sides = xs[left[best]], ys[low[best]], xs[right[best] + 1], ys[high[best] + 1]
    rectangle = tuple(float(side) for side in sides)
    return Bound(float(loads[best]), float(asserted.max()), rectangle, int(n_cut[best]))  # type: ignore[arg-type]


def _points_of(mesh: Mesh, requests: Requests) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Requests and nodes: sources, and targets that can be reached."""
    owners = np.repeat(np.arange(len(requests)), np.diff(requests.target_start))
    sources = requests.sources[owners]
    meets = mesh.component[sources] == mesh.component[requests.targets]
    return (
        np.concatenate([np.arange(len(requests)), owners[meets]]),
        np.concatenate([requests.sources, requests.targets[meets]]),
    )


def _lines(low: float, high: float, values: NDArray[np.float64], grid: int) -> NDArray[np.float64]:
    shares = np.linspace(0, 1, grid + 1)
    if not len(values) or low == high:
        return np.array([low, high])
    return np.unique(
        np.concatenate([np.linspace(low, high, grid + 1), np.quantile(values, shares)])
    )


def _cells(values: NDArray[np.float64], lines: NDArray[np.float64]) -> NDArray[np.int64]:
    found: NDArray[np.int64] = np.searchsorted(lines, values, "right") - 1
    return np.minimum(found, len(lines) - 2)
