"""Oblivious multicast along trees through random points; routes ignore other traffic [thesis §4.5].

    span      the Euclidean minimum spanning tree of the source and its targets; a node within half the
              range of its grandparent becomes a child of the grandparent
    send      a tree node sends one broadcast for all children within half the range, and for each other
              child a message through a random point
    follow    every hop of one request

Baselines: `send(…, tree="star")` sends one message per target; with `flood`, every node repeats a message.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.geo.congestion import Traffic, Work, write_features
from matchyard.geo.detour import OUTSIDE, Rule, read_rule
from matchyard.geo.heat_map import Tree, write_map
from matchyard.geo.mesh import Mesh, check_seed, nearest
from matchyard.geo.path import Way, choose
from matchyard.geo.workload import Requests
from matchyard.kernels.geo import paths as geo_paths
from matchyard.kernels.geo import trees as geo_trees
from matchyard.kernels.geo.trees import Edges
from matchyard.kernels.hashing import mix64

TREES = {"mst": 0, "star": 1}
MOST_TREES = 100  # the most requests whose trees a map shows


class Scheme(NamedTuple):
    """The choices by which requests are sent."""

    way: Way
    rule: Rule
    tree: str
    seed: int

    @property
    def is_random(self) -> bool:
        """True if two runs may differ."""
        return self.way.is_random or not self.rule.is_straight


class Sending(Traffic):
    """The traffic of requests."""

    def __init__(
        self,
        mesh: Mesh,
        sent: NDArray[np.int64],
        runs: int,
        work: Work,
        requests: Requests,
        scheme: Scheme,
    ) -> None:
        super().__init__(mesh, sent, runs, work)
        self.requests = requests
        self.scheme = scheme

    @property
    def undelivered(self) -> list[tuple[str, str]]:
        """Pairs of request id and target name, for targets in another component than the source."""
        is_reached = _is_reachable(self.mesh, self.requests)
        owners = np.repeat(np.arange(len(self.requests)), np.diff(self.requests.target_start))
        return [
            (self.requests.ids[owners[i]], self.mesh.name(int(self.requests.targets[i])))
            for i in np.flatnonzero(~is_reached)
        ]

    def follow(self, request: object, run: int = 0) -> Tree:
        """The path of a request (by id) in one of the runs."""
        return follow(self.mesh, self.requests, self.requests.number(request), self.scheme, run)

    def save_map(
        self,
        path: str | os.PathLike[str],
        title: str = "Load of a mesh",
        trees: Sequence[object] | None = None,
    ) -> None:
        """Write a page with the load of each node, and the trees of some requests (by id)."""
        chosen = self.requests.ids[:MOST_TREES] if trees is None else trees
        low, high = np.array(self.mesh.region[:2]), np.array(self.mesh.region[2:])
        margin = (
            np.maximum(self.mesh.r_c - (high - low), 0) / 2
        )  # widens a region that is a line or a single node
        write_map(
            path,
            title=title,
            region=(*(low - margin).tolist(), *(high + margin).tolist()),
            points=self.mesh.points,
            load=self.load,
            sent=self.sent / self.runs,
            degrees=self.mesh.degrees,
            names=self.mesh.names,
            unit=self.mesh.unit,
            reach=self.mesh.r_c,
            facts=self.facts(),
            trees=[self.follow(one) for one in chosen],
        )

    def trees_to_geojson(self, path: str | os.PathLike[str], trees: Sequence[object]) -> None:
        """Write the trees of some requests (by id) as lines, for a map."""
        features: list[dict[str, object]] = []
        for one in trees:
            for hops in self.follow(one).paths:
                if len(hops) < 2:  # the sender is the intermediate node: no line
                    continue
                line = self.mesh.lon_lat(self.mesh.points[hops], is_line=True).tolist()
                geometry = {"type": "LineString", "coordinates": line}
                properties = {"request": str(one)}
                features.append({"type": "Feature", "geometry": geometry, "properties": properties})
        write_features(path, features)

    def facts(self) -> dict[str, str]:
        """A summary as names and formatted values."""
        work, mesh = self.work, self.mesh
        return {
            "nodes": f"{len(mesh):,}",
            "range": f"{mesh.r_c:g} {mesh.unit}".strip(),
            "mean degree": f"{mesh.degrees.mean():.1f}",
            "requests": f"{len(self.requests):,}",
            "routing": f"{self.scheme.way.routing}, {self.scheme.rule.name}",
            "runs": f"{self.runs:,}",
            "congestion": f"{self.congestion:,.1f}",
            "mean load": f"{self.load.mean():,.1f}",
            "transmissions": f"{self.transmissions:,.0f}",
            "deliveries": f"{work.deliveries / self.runs:,.0f}",
            "lost in dead ends": f"{work.lost / self.runs:,.1f}",
            "undelivered": f"{work.undelivered:,}",
        }


def send(
    mesh: Mesh,
    requests: Requests,
    routing: str = "grd",
    rule: Rule | str = "T60",
    runs: int = 1,
    seed: int = 0,
    *,
    recovery: str = "ring",
    ties: str = "first",
    tree: str = "mst",
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Sending:
    """Send requests `runs` times, each with new random choices. A scheme without randomness runs once.

    >>> from matchyard import geo
    >>> mesh = geo.from_points([(0, 0), (1, 0), (2, 0), (2, 1)], r_c=1)
    >>> sending = send(mesh, geo.workload.make_requests(mesh, [0], [[3]]), rule="C0")
    >>> sending.sent.tolist(), sending.congestion
    ([1, 1, 1, 0], 3.0)
    """
    scheme = Scheme(Way(routing.lower(), recovery, ties), read_rule(rule), tree, seed)
    codes = scheme.way.codes()
    if runs < 1:
        raise UsageError(f"{runs} runs; expected at least 1")
    if threads < 1:
        raise UsageError(f"{threads} threads; expected at least 1")
    check_seed(seed)
    runs = runs if scheme.is_random else 1
    edges = span(mesh, requests, tree)
    faces, disks = scheme.way.faces(mesh), mesh.disks

    def run_some(numbers: Sequence[int]) -> tuple[NDArray[np.int64], Work]:
        sent, work = np.zeros(len(mesh), np.int64), Work()
        space = geo_paths.make_space(len(mesh))
        for run in numbers:
            coins = geo_trees.coins_of_each(seed, run, requests.keys, edges)
            vias = _vias(mesh, edges, coins, scheme.rule)
            arrived, n_sent, n_broadcasts = geo_trees.carry(
                disks, faces, space, codes, edges, vias, coins, sent
            )
            n_reached = int(arrived.sum())
            work += Work(n_sent, n_broadcasts, n_reached, lost=len(arrived) - n_reached)
            if progress is not None:
                progress(1)
        recoveries, n_ring = space.work.tolist()
        return sent, work + Work(recoveries=recoveries, ring_transmissions=n_ring)

    parts = [range(first, runs, threads) for first in range(min(threads, runs))]
    if len(parts) == 1:
        results = [run_some(parts[0])]
    else:
        with ThreadPoolExecutor(len(parts)) as pool:
            results = list(pool.map(run_some, parts))
    work = sum((one[1] for one in results), Work())
    work += Work(undelivered=len(requests.targets) - len(edges.heads))
    sent = np.sum([one[0] for one in results], axis=0)
    return Sending(mesh, sent, runs, work, requests, scheme)


def flood(mesh: Mesh, requests: Requests) -> Traffic:
    """Flood requests: every node of the source's component repeats each message once.
    As in `send`, messages without a reachable target are not sent."""
    is_reached = _is_reachable(mesh, requests)
    n_reached_of = np.diff(np.append(0, np.cumsum(is_reached))[requests.target_start])
    sources = requests.sources[n_reached_of > 0]
    starts = np.bincount(mesh.component[sources], minlength=mesh.component.max() + 1)
    sent = starts[mesh.component].astype(np.int64)
    n_reached = int(is_reached.sum())
    undelivered = len(requests.targets) - n_reached
    work = Work(int(sent.sum()), int(sent.sum()), n_reached, undelivered=undelivered)
    return Traffic(mesh, sent, 1, work)


def span(mesh: Mesh, requests: Requests, tree: str = "mst") -> Edges:
    """The trees of all requests over their reachable targets.
    A source cannot learn the position of a node in another component: see `location`."""
    is_star = bool(choose(tree, TREES, "tree"))
    is_reached = _is_reachable(mesh, requests)
    counts = np.append(0, np.cumsum(is_reached))[requests.target_start]
    edges = geo_trees.span_each(
        mesh.points, requests.sources, counts, requests.targets[is_reached], mesh.r_c, is_star
    )
    return Edges(counts, *edges)


def follow(mesh: Mesh, requests: Requests, number: int, scheme: Scheme, run: int = 0) -> Tree:
    """The path of one request; its hops are the same as in `send` of all requests."""
    alone = requests.take([number])
    edges = span(mesh, alone, scheme.tree)
    coins = geo_trees.coins_of_each(scheme.seed, run, alone.keys, edges)
    vias = _vias(mesh, edges, coins, scheme.rule)
    legs: list[tuple[int, int, int]] = []  # from, to, and the seed of its random choices
    for tail, head, via, key in zip(edges.tails, edges.heads, vias, coins):
        if via >= 0:
            legs.append((tail, via, key))
        legs.append((tail if via < 0 else via, head, mix64(key)))
    start, nodes, arrives, _ = geo_paths.travel_each(
        mesh.disks,
        scheme.way.faces(mesh),
        geo_paths.make_space(len(mesh)),
        scheme.way.codes(),
        np.array([leg[0] for leg in legs], np.int32),
        np.array([leg[1] for leg in legs], np.int32),
        np.array([leg[2] for leg in legs], np.uint64),
    )
    travelled = [(nodes[start[i] : start[i + 1]], bool(arrives[i])) for i in range(len(legs))]
    source = int(alone.sources[0])
    reached, passed, paths = _travelled(source, edges, vias, travelled)
    unreached = set(alone.targets.tolist()) - set(reached)
    names = [mesh.name(node) for node in sorted(unreached)]
    return Tree(alone.ids[0], source, reached, names, paths, passed)


def _travelled(
    source: int,
    edges: Edges,
    vias: NDArray[np.int32],
    legs: list[tuple[NDArray[np.int32], bool]],
) -> tuple[list[int], list[int], list[NDArray[np.int32]]]:
    """The reached targets, the intermediate nodes and the paths of a tree.
    Legs after a lost message are left out. A child that hears a broadcast has the direct hop as its path."""
    reached, passed, paths = {source: None}, [], []  # a dict serves as an ordered set
    left = iter(legs)
    each = zip(edges.tails.tolist(), edges.heads.tolist(), vias.tolist(), edges.kinds.tolist())
    for tail, head, via, kind in each:
        mine = [next(left) for _ in range(1 + (via >= 0))]
        if tail not in reached:
            continue
        if kind != geo_trees.OWN:
            mine = [(np.array([tail, head], np.int32), True)]
        passed += [via] if via >= 0 else []
        n_done = next((i for i, leg in enumerate(mine) if not leg[1]), len(mine))
        paths += [hops for hops, _ in mine[: n_done + 1]]
        if n_done == len(mine):
            reached[head] = None
    return list(reached)[1:], passed, paths


def _is_reachable(mesh: Mesh, requests: Requests) -> NDArray[np.bool_]:
    sources = np.repeat(requests.sources, np.diff(requests.target_start))
    is_same: NDArray[np.bool_] = mesh.component[sources] == mesh.component[requests.targets]
    return is_same


def _vias(mesh: Mesh, edges: Edges, coins: NDArray[np.uint64], rule: Rule) -> NDArray[np.int32]:
    """The node nearest to the random point of each edge; -1 for an edge without one."""
    vias = np.full(len(edges.heads), -1, np.int32)
    if rule.is_straight:
        return vias
    across = mesh.points[edges.tails] - mesh.points[edges.heads]
    is_far = (across**2).sum(axis=1) > (mesh.r_c / 2) ** 2
    rows = np.flatnonzero((edges.kinds == geo_trees.OWN) & is_far)
    if len(rows):
        tails, heads = edges.tails[rows], edges.heads[rows]
        points = geo_trees.draw_points(
            mesh.points, tails, heads, coins[rows], rule.codes(), mesh.region, OUTSIDE[rule.outside]
        )
        vias[rows] = nearest(mesh, points, mesh.component[tails])
    return vias
