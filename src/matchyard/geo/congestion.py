"""Congestion: the transmissions that each node hears, and a lower bound on them [thesis §4.4]."""

from __future__ import annotations

import json
import os
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.geo.mesh import Mesh, Region
from matchyard.geo.workload import Requests
from matchyard.kernels.geo.disks import sum_within
from matchyard.kernels.geo.measures import busiest_rectangles


class Work(NamedTuple):
    """Exact counters, summed over all runs."""

    transmissions: int = 0  # broadcasts included
    broadcasts: int = 0  # transmissions for several tree children at once
    deliveries: int = 0  # targets reached
    recoveries: int = 0  # the number of times that a greedy path was stuck
    ring_transmissions: int = 0  # of ring searches; `sent` does not count them
    lost: int = 0  # targets not reached, although in the source's component
    undelivered: int = 0  # pairs of a request and a target in another component, in one run

    def __add__(self, other: Work) -> Work:  # type: ignore[override]
        return Work(*(one + more for one, more in zip(self, other)))


class Traffic:
    """The transmissions of the nodes of a mesh."""

    def __init__(self, mesh: Mesh, sent: NDArray[np.int64], runs: int, work: Work) -> None:
        self.mesh = mesh
        self.sent = sent  # [n] transmissions of each node, summed over all runs
        self.runs = runs
        self.work = work

    @cached_property
    def load(self) -> NDArray[np.float64]:
        """The transmissions that each node hears or makes, averaged over the runs."""
        return load(self.mesh, self.sent) / self.runs

    @property
    def congestion(self) -> float:
        """The load of the busiest node."""
        return float(self.load.max())

    @property
    def transmissions(self) -> float:
        """The mean number of transmissions per run."""
        return self.work.transmissions / self.runs

    def to_geojson(self, path: str | os.PathLike[str]) -> None:
        """Write the nodes as points with their `load` and `sent`, for a map."""
        places = self.mesh.lon_lat(self.mesh.points).tolist()
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
    """Write features to a GeoJSON file."""
    text = json.dumps({"type": "FeatureCollection", "features": features})
    Path(path).write_text(text + "\n", encoding="utf-8")


def load(mesh: Mesh, sent: NDArray[np.int64]) -> NDArray[np.int64]:
    """The transmissions within the interference range of each node, its own included [thesis (4.1)].

    >>> from matchyard.geo import from_points
    >>> load(from_points([(0, 0), (1, 0), (2, 0)], r_c=1), np.array([1, 0, 5])).tolist()
    [1, 6, 5]
    """
    heard: NDArray[np.int64] = sum_within(sent, mesh.disturbed.start, mesh.disturbed.neighbours)
    return heard


class Bound(NamedTuple):
    """A lower bound on the load of the busiest node, for any routing."""

    load: float  # the largest load(R) of the thesis, up to a constant factor
    asserted: float  # a bound with the constant, for every routing that delivers all messages
    rectangle: Region  # the rectangle of `load`
    n_cut: int  # requests with a node inside the rectangle and one outside


def lower_bound(mesh: Mesh, requests: Requests, grid: int = 20) -> Bound:
    """The largest bound of rectangles with sides on a grid [thesis Lemma 4.4.1].

    The grid has `grid` parts each way. It covers the bounding box of the requests' points, so that it cuts a
    narrow band as finely as a whole square. A request with a point inside a rectangle and a point outside has a
    transmission within r_i of the rim. Take a maximal set of nodes there that are more than r_i apart: one of them
    hears each such transmission. Disks of radius r_i / 2 round these nodes are disjoint and lie within 1.5 r_i of the
    rim, so the area of this strip limits the number of nodes.
    """
    if grid < 1:
        raise UsageError(f"a grid of {grid}; expected at least 1 line each way")
    if not len(requests):
        return Bound(0.0, 0.0, mesh.region, 0)
    owners, nodes = _points_of(mesh, requests)
    points = mesh.points[nodes]
    xs = _lines(mesh.region[0], mesh.region[2], points[:, 0], grid)
    ys = _lines(mesh.region[1], mesh.region[3], points[:, 1], grid)
    columns, rows = _cells(points[:, 0], xs), _cells(points[:, 1], ys)
    order = np.argsort(rows, kind="stable")
    n_points = np.bincount(owners, minlength=len(requests))
    load, (left, right, low, high), n_cut, asserted = busiest_rectangles(
        columns[order], rows[order], owners[order], n_points, xs, ys, mesh.r_i
    )
    rectangle = float(xs[left]), float(ys[low]), float(xs[right]), float(ys[high])
    return Bound(load, asserted, rectangle, n_cut)


def _points_of(mesh: Mesh, requests: Requests) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Pairs of request and node, for all sources and reachable targets."""
    owners = np.repeat(np.arange(len(requests)), np.diff(requests.target_start))
    sources = requests.sources[owners]
    meets = mesh.component[sources] == mesh.component[requests.targets]
    return (
        np.concatenate([np.arange(len(requests)), owners[meets]]),
        np.concatenate([requests.sources, requests.targets[meets]]),
    )


def _lines(low: float, high: float, values: NDArray[np.float64], grid: int) -> NDArray[np.float64]:
    above = np.nextafter(values.max(), np.inf)  # the highest point is below the highest line
    lines = np.unique([low, *np.linspace(values.min(), above, grid + 1).clip(low, high), high])
    return lines if len(lines) > 1 else np.array([low, high])


def _cells(values: NDArray[np.float64], lines: NDArray[np.float64]) -> NDArray[np.int64]:
    cells: NDArray[np.int64] = np.searchsorted(lines, values, "right") - 1
    return np.minimum(cells, len(lines) - 2)
