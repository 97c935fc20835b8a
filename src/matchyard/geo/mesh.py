"""Meshes: wireless nodes in the plane that hear each other within one range [thesis §4.3].

Two nodes at a distance of at most `r_c` hear each other. Two nodes at a distance of at most `r_i`
disturb each other, and `r_i` is at least `r_c`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import QhullError, Voronoi, cKDTree

from matchyard.errors import UsageError
from matchyard.kernels.geo.disks import Disks, Faces, faces_of, rows_of_pairs

Region = tuple[float, float, float, float]  # least x, least y, greatest x, greatest y
_EARTH_M = 6_371_008.8  # mean radius
_HUGE, _TINY = 1e100, 1e-100  # squares of lengths beyond overflow or underflow
_MOST_PAIRS = 500_000_000  # pairs of neighbours: they take 8 GB while they are sorted
_SLACK = 1 + 1e-9  # the k-d tree must not miss a pair that the kernels count


class Mesh:
    """Nodes at known positions in a region, with one range for all.
    `uniform` and `from_points` make a mesh; `from_geojson` and `read_mesh` of `mesh_files` read one."""

    def __init__(
        self,
        points: NDArray[np.float64],
        r_c: float,
        r_i: float,
        region: Region,
        names: tuple[str, ...] | None = None,
        origin: tuple[float, float] | None = None,
    ) -> None:
        self.points = points  # [n, 2]
        self.r_c, self.r_i = r_c, r_i
        self.region = region
        self.names = names  # None: the names are the numbers of the nodes
        self.origin = origin  # longitude and latitude of (0, 0), if points are in metres
        self.points.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Mesh, (self.points, self.r_c, self.r_i, self.region, self.names, self.origin)

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        return (
            f"Mesh({len(self):,} nodes, range {self.r_c:g}, mean degree {self.degrees.mean():.1f})"
        )

    @cached_property
    def disks(self) -> Disks:
        """The nodes that each node hears."""
        return self._within(self.r_c)

    @cached_property
    def disturbed(self) -> Disks:
        """The nodes that each node disturbs."""
        return self.disks if self.r_i == self.r_c else self._within(self.r_i)

    @cached_property
    def faces(self) -> Faces:
        """The Gabriel graph, for recovery along faces."""
        return Faces(*faces_of(self.points, self.disks.start, self.disks.neighbours))

    @cached_property
    def tree(self) -> cKDTree:
        """A k-d tree of the nodes."""
        return cKDTree(self.points)

    @cached_property
    def component(self) -> NDArray[np.int32]:
        """The number of the connected component of each node."""
        shape = len(self), len(self)
        ones = np.ones(len(self.disks.neighbours), np.int8)
        graph = csr_array((ones, self.disks.neighbours, self.disks.start), shape=shape)
        numbers: NDArray[np.int32] = connected_components(graph, directed=False)[1]
        return numbers

    @cached_property
    def trees_of_components(self) -> dict[int, tuple[NDArray[np.int64], cKDTree]]:
        """A cache of the nodes and k-d trees of components."""
        return {}

    @property
    def degrees(self) -> NDArray[np.int64]:
        """The number of other nodes that each node hears."""
        return np.diff(self.disks.start)

    @property
    def unit(self) -> str:
        """The unit of positions, or "" if unknown."""
        return "m" if self.origin is not None else ""

    @cached_property
    def _numbers(self) -> dict[str, int]:
        names = self.names or map(str, range(len(self)))
        return {name: number for number, name in enumerate(names)}

    def name(self, node: int) -> str:
        """The name of a node."""
        return str(node) if self.names is None else self.names[node]

    def node(self, name: object) -> int:
        """The number of the node with a name.

        >>> from_points([(0, 0), (1, 0)], r_c=1, names=["ada", "bob"]).node("bob")
        1
        """
        number = self._numbers.get(str(name))
        if number is None:
            raise UsageError(f"no node {name!r}; expected a name such as {self.name(0)!r}")
        return number

    def checked_nodes(self, nodes: ArrayLike, what: str) -> NDArray[np.int32]:
        """Check numbers of nodes and return them as an array."""
        numbers = np.atleast_1d(np.asarray(nodes))
        if numbers.size == 0:
            return np.empty(0, np.int32)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise UsageError(f"{what} of {numbers.dtype}; expected numbers of nodes, e.g. [0, 7]")
        outside = numbers[(numbers < 0) | (numbers >= len(self))]
        if len(outside):
            raise UsageError(f"{what}: no node {outside[0]} of {len(self)}; numbers count from 0")
        return numbers.astype(np.int32)

    def lon_lat(self, points: NDArray[np.float64], is_line: bool = False) -> NDArray[np.float64]:
        """Longitudes and latitudes of points if the mesh has an origin, otherwise the points.
        Longitudes of lines may exceed 180°, so that no line jumps round the Earth."""
        if self.origin is None:
            return points
        scale = np.array([_metres_per_degree(self.origin[1]), _metres_per_degree(0.0)])
        coordinates: NDArray[np.float64] = np.array(self.origin) + points / scale
        beyond = np.abs(coordinates[:, 0]) > 180
        if not is_line:
            coordinates[beyond, 0] -= 360 * np.sign(coordinates[beyond, 0])
        return coordinates

    def metres(self, lon_lat: NDArray[np.float64]) -> NDArray[np.float64]:
        """The inverse of `lon_lat`."""
        if self.origin is None:
            return lon_lat
        scale = np.array([_metres_per_degree(self.origin[1]), _metres_per_degree(0.0)])
        across = lon_lat - np.array(self.origin)
        across[:, 0] = (across[:, 0] + 180) % 360 - 180  # the short way, also across the date line
        points: NDArray[np.float64] = across * scale
        return points

    def _within(self, reach: float) -> Disks:
        some = self.points[:: max(1, len(self) // 64)]
        n_near = np.mean(self.tree.query_ball_point(some, reach, return_length=True))
        if n_near * len(self) / 2 > _MOST_PAIRS:
            raise UsageError(
                f"range {reach:g}: each of {len(self):,} nodes has about {n_near:,.0f} neighbours, too many to store; "
                f"expected a range in the unit of the positions, such as {reach * 20 / n_near:.2g}"
            )
        pairs = self.tree.query_pairs(reach * _SLACK, output_type="ndarray")
        start, neighbours = rows_of_pairs(self.points, pairs, reach)
        return Disks(self.points, start, neighbours, reach)


# ----------------------------------------------------------------------------- making a mesh


def uniform(n: int, side: float, r_c: float, r_i: float | None = None, seed: int = 0) -> Mesh:
    """A mesh of nodes at uniform random positions in a square.

    >>> uniform(1000, side=10, r_c=1, seed=1)
    Mesh(1,000 nodes, range 1, mean degree 28.6)
    """
    if not isinstance(n, Integral) or n < 1:
        raise UsageError(f"{n!r} nodes; expected a whole number from 1 on")
    check_seed(seed)
    if not (isinstance(side, Real) and _TINY < side < _HUGE):
        raise UsageError(f"side {side!r}; expected a length above 0, e.g. 100")
    points = np.random.default_rng(seed).random((n, 2)) * side
    # Nearby nodes get nearby numbers, so that searches hit the processor's cache.
    return from_points(points[_along_cells(points, side)], r_c, r_i, (0, 0, side, side))


def _along_cells(points: NDArray[np.float64], side: float) -> NDArray[np.int64]:
    """The order of points along a snake through a grid with some points per cell."""
    n_rows = max(1, math.isqrt(len(points) // 8))
    row, column = (points.T * (n_rows / side)).astype(np.int64)
    order: NDArray[np.int64] = np.lexsort((np.where(row % 2, -column, column), row))
    return order


def from_points(
    points: ArrayLike,
    r_c: float,
    r_i: float | None = None,
    region: Sequence[float] | None = None,
    names: Iterable[object] | None = None,
) -> Mesh:
    """A mesh of nodes at positions [(x, y), …]. The default region is their bounding box.

    >>> from_points([(0, 0), (0.8, 0), (0.8, 3)], r_c=1).degrees.tolist()
    [1, 1, 0]
    """
    positions = pairs_of_numbers(points)
    _check_ranges(r_c, r_i)
    low, high = positions.min(axis=0), positions.max(axis=0)
    box = (*low.tolist(), *high.tolist()) if region is None else _read_region(region)
    outside = np.flatnonzero(((positions < box[:2]) | (positions > box[2:])).any(axis=1))
    called = None if names is None else _distinct(names, len(positions))
    if len(outside):
        one = int(outside[0])
        raise UsageError(
            f"node {one if called is None else called[one]!r} at {tuple(positions[one].tolist())} is outside the "
            f"region {box}; expected least x, least y, greatest x and greatest y round all nodes"
        )
    return Mesh(positions, float(r_c), float(r_c if r_i is None else r_i), box, called)


# ----------------------------------------------------------------------- properties of a mesh


def nearest(mesh: Mesh, points: ArrayLike, component: ArrayLike | None = None) -> NDArray[np.int32]:
    """The node nearest to each point, optionally among the nodes of its `component`.

    >>> nearest(from_points([(0, 0), (3, 0)], r_c=1), [(2, 5), (-9, 0)]).tolist()
    [1, 0]
    """
    places = pairs_of_numbers(points)
    nodes: NDArray[np.int32] = mesh.tree.query(places)[1].astype(np.int32)
    if component is None:
        return nodes
    wanted = np.broadcast_to(np.asarray(component), nodes.shape)
    foreign = mesh.component[nodes] != wanted
    for number in np.unique(wanted[foreign]).tolist():
        if number not in mesh.trees_of_components:
            members = np.flatnonzero(mesh.component == number)
            mesh.trees_of_components[number] = members, cKDTree(mesh.points[members])
        members, tree = mesh.trees_of_components[number]
        rows = np.flatnonzero(foreign & (wanted == number))
        nodes[rows] = members[tree.query(places[rows])[1]]
    return nodes


def components(mesh: Mesh) -> list[NDArray[np.int64]]:
    """The nodes of each component, the largest first."""
    order = np.argsort(mesh.component, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(mesh.component[order])) + 1)
    return sorted(parts, key=lambda nodes: (-len(nodes), nodes[0]))


def coverage(mesh: Mesh) -> float:
    """The largest distance from a point of the region to its nearest node.

    >>> round(coverage(from_points([(1, 1)], r_c=1, region=(0, 0, 4, 4))), 3)
    4.243
    """
    # Qhull loses precision if coordinates are large compared to the extent: scale them.
    scale = max(mesh.region[2] - mesh.region[0], mesh.region[3] - mesh.region[1]) or 1.0
    points = (mesh.points - mesh.region[:2]) / scale
    low, high = np.zeros(2), (np.array(mesh.region[2:]) - mesh.region[:2]) / scale
    corners = np.array([(x, y) for x in (low[0], high[0]) for y in (low[1], high[1])])
    # With nodes mirrored at the sides, the Voronoi diagram has vertices on the sides. Only nodes that may
    # be nearest to a point of a side need an image: those at most `deep` away from it.
    deep = 2 * _most_empty(points, low, high)
    mirrored = [points]
    for axis in (0, 1):
        for side in (low[axis], high[axis]):
            image = points[np.abs(points[:, axis] - side) <= deep]
            image[:, axis] = 2 * side - image[:, axis]
            mirrored.append(image)
    try:
        vertices = Voronoi(np.unique(np.concatenate(mirrored), axis=0)).vertices
    except (QhullError, ValueError):  # all nodes on one line, in a region of area 0
        along = np.unique(points, axis=0)
        vertices = (along[1:] + along[:-1]) / 2
    inside = vertices[((vertices >= low - 1e-9) & (vertices <= high + 1e-9)).all(axis=1)]
    return scale * float(cKDTree(points).query(np.concatenate([corners, inside]))[0].max())


def _most_empty(
    points: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> float:
    """An upper bound on the distance of any point of the region to its nearest node.
    It is the diagonal of the cells of the finest grid without an empty cell."""
    extent, n = high - low, max(1, math.isqrt(len(points)))
    while n > 1:
        cells = np.minimum((points - low) / np.where(extent > 0, extent, 1) * n, n - 1).astype(int)
        if len(np.unique(cells @ (n, 1))) == n * n:
            break
        n //= 2
    return float(math.hypot(*(extent / n)))


# ---------------------------------------------------------------------------------- checking


def pairs_of_numbers(points: ArrayLike) -> NDArray[np.float64]:
    """Check points and return them as an array."""
    try:
        pairs = np.array(points, np.float64, order="C")  # Numba compiles anew for another order
    except (ValueError, TypeError) as error:
        raise UsageError(f"not points: {error}; expected e.g. [(0.0, 1.5), (2.0, 3.0)]") from None
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
        raise UsageError(
            f"points of shape {pairs.shape}; expected at least one pair, e.g. [(0, 1.5)]"
        )
    odd = np.flatnonzero(~(np.abs(pairs) < _HUGE).all(axis=1))  # NaN compares False, too
    if len(odd):
        place = tuple(pairs[odd[0]].tolist())
        raise UsageError(f"point {odd[0]} is {place}; expected numbers below {_HUGE:g}")
    return pairs


def check_seed(seed: int) -> None:
    """Raise an error unless the seed is a whole number of 63 bits."""
    if not isinstance(seed, Integral) or not 0 <= seed < 1 << 63:
        raise UsageError(f"seed {seed!r}; expected a whole number from 0 on, below 2^63")


def _check_ranges(r_c: float, r_i: float | None) -> None:
    if not (isinstance(r_c, Real) and _TINY < r_c < _HUGE):
        raise UsageError(f"range {r_c!r}; expected a length above 0, e.g. 1 or 3000 for metres")
    if r_i is not None and not (isinstance(r_i, Real) and r_c <= r_i < _HUGE):
        raise UsageError(f"interference range {r_i!r}; expected at least the range, {r_c}")


def _read_region(region: Sequence[float]) -> Region:
    try:
        low_x, low_y, high_x, high_y = (float(one) for one in region)
        if -_HUGE < low_x <= high_x < _HUGE and -_HUGE < low_y <= high_y < _HUGE:
            return low_x, low_y, high_x, high_y
    except (TypeError, ValueError):
        pass
    raise UsageError(
        f"region {region!r}; expected least x, least y, greatest x and greatest y, e.g. (0, 0, 100, 100)"
    )


def _distinct(names: Iterable[object], n: int) -> tuple[str, ...]:
    texts = tuple(str(name) for name in names)
    if len(texts) != n:
        raise UsageError(f"{len(texts)} names for {n} nodes; expected one for each")
    for name in texts:
        if not name.isascii() and name.encode(errors="replace").decode() != name:
            raise UsageError(f"the id {name!r} is not valid text; expected characters of Unicode")
    if len(set(texts)) != n:
        twice = Counter(texts).most_common(1)[0][0]
        raise UsageError(f"two nodes have the id {twice!r}; expected ids that differ")
    return texts


def _metres_per_degree(latitude: float) -> float:
    return math.pi / 180 * _EARTH_M * math.cos(math.radians(latitude))
