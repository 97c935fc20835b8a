"""Paths from node to node through a mesh, and measures of their straightness [thesis §4.3, §4.7.1].

    grd       the neighbour nearest to the target
    gsp       the shortest path
    dsp       the path with fewest hops
    grdrnd1   a random neighbour among those that advance by at least half the range
    grdrnd2   a random neighbour among those within half the range of the neighbour nearest to the target

A greedy path is stuck if no neighbour is nearer to the target. `recovery` says how it continues:

    ring      search rings of growing radius round the node for a nearer node; always succeeds
    face      walk round a face of the Gabriel graph by the right-hand rule; needs no search
    none      the message is lost
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchyard.errors import UsageError
from matchyard.geo.mesh import Mesh, check_seed
from matchyard.kernels.geo import measures as geo_measures
from matchyard.kernels.geo import paths as geo_paths
from matchyard.kernels.geo.disks import Faces
from matchyard.kernels.geo.trees import coins_of

ROUTINGS = {
    "grd": geo_paths.GRD,
    "gsp": geo_paths.GSP,
    "dsp": geo_paths.DSP,
    "grdrnd1": geo_paths.GRD_RND_1,
    "grdrnd2": geo_paths.GRD_RND_2,
}
RECOVERIES = {"ring": geo_paths.RING, "face": geo_paths.FACE, "none": geo_paths.NO_RECOVERY}
TIES = {"first": geo_paths.FIRST, "random": geo_paths.RANDOM}
_NO_FACES = Faces(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0))


class Way(NamedTuple):
    """A routing, a recovery, and the choice among several paths with fewest hops."""

    routing: str = "grd"
    recovery: str = "ring"
    ties: str = "first"

    @property
    def is_random(self) -> bool:
        """True if paths depend on random choices."""
        return self.routing in ("grdrnd1", "grdrnd2") or self[::2] == ("dsp", "random")

    def codes(self) -> tuple[int, int, int]:
        """The codes of the three choices for kernels."""
        return (
            choose(self.routing.lower(), ROUTINGS, "routing"),
            choose(self.recovery, RECOVERIES, "recovery"),
            choose(self.ties, TIES, "ties"),
        )

    def faces(self, mesh: Mesh) -> Faces:
        """The faces of a mesh if the recovery needs them, otherwise none."""
        return mesh.faces if self.recovery == "face" else _NO_FACES


class Paths(NamedTuple):
    """The paths of many pairs, concatenated."""

    path_start: NDArray[np.int64]  # [n + 1] offsets into nodes
    nodes: NDArray[np.int32]  # from source to target, both included
    arrives: NDArray[np.bool_]  # [n] False: the path ends where it was stuck
    recoveries: NDArray[np.int32]  # [n] the number of times that the path was stuck
    ring_transmissions: int = 0  # of all ring searches

    def __getitem__(self, number: int) -> NDArray[np.int32]:  # type: ignore[override]
        return self.nodes[self.path_start[number] : self.path_start[number + 1]]

    def __len__(self) -> int:
        return len(self.path_start) - 1


def choose(name: str, known: dict[str, int], what: str) -> int:
    """The code of a name; an unknown name is an error that lists all names."""
    if name not in known:
        raise UsageError(f"{what} {name!r}; expected one of {', '.join(known)}")
    return known[name]


def route(
    mesh: Mesh,
    sources: ArrayLike,
    targets: ArrayLike,
    routing: str = "grd",
    recovery: str = "ring",
    ties: str = "first",
    seed: int = 0,
) -> Paths:
    """The paths between pairs of nodes.

    The path of a pair in two components is the source alone. Random choices depend only on the seed and
    the pair.

    >>> from matchyard.geo import from_points
    >>> line = from_points([(0, 0), (1, 0), (2, 0), (3, 0)], r_c=1)
    >>> route(line, [0, 3], [3, 1])[0].tolist()
    [0, 1, 2, 3]
    """
    way = Way(routing, recovery, ties)
    codes = way.codes()
    check_seed(seed)
    here, there = mesh.checked_nodes(sources, "sources"), mesh.checked_nodes(targets, "targets")
    if len(here) != len(there):
        raise UsageError(f"{len(here)} sources for {len(there)} targets; expected one for each")
    meets = mesh.component[here] == mesh.component[there]
    coins = np.array([coins_of(seed, 0, one, other) for one, other in zip(here, there)], np.uint64)
    space = geo_paths.make_space(len(mesh))
    start, nodes, arrives, recoveries = geo_paths.travel_each(
        mesh.disks,
        way.faces(mesh),
        space,
        codes,
        here,
        np.where(meets, there, here).astype(np.int32),
        coins,
    )
    n_ring = int(space.work[geo_paths.RING_NODES])
    return Paths(start, nodes, arrives & meets, recoveries, n_ring)


def padding(mesh: Mesh, paths: Paths) -> NDArray[np.float64]:
    """The least λ of each path: all its nodes are within λ·r_i of the segment between its ends.
    [Definition 4.3.1]"""
    away: NDArray[np.float64] = geo_measures.padding_of(mesh.points, paths.path_start, paths.nodes)
    return away / mesh.r_i


def sparsity(mesh: Mesh, paths: Paths) -> NDArray[np.int64]:
    """The least σ of each path: no disk of diameter r_c contains more than σ of its hops [Definition 4.3.2].
    A node that a path visits twice counts twice."""
    most: NDArray[np.int64] = geo_measures.sparsity_of(
        mesh.points, paths.path_start, paths.nodes, mesh.r_c
    )
    return most


def stretch(mesh: Mesh, paths: Paths) -> NDArray[np.float64]:
    """The length of each path divided by the distance of its ends; 1 if that distance is 0."""
    ratios: NDArray[np.float64] = geo_measures.stretch_of(
        mesh.points, paths.path_start, paths.nodes
    )
    return ratios
