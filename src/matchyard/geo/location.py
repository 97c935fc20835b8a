"""The location service LLS: nodes of the mesh store the positions of names [thesis §4.6].

Every name has its own hierarchy of tilings: squares of side L, L/2, L/4, … down to the range, with an origin
that is a hash of the name. At every level, the nodes nearest to the four corners of the tile that contains
the name store its position. They are its holders. A look-up asks the nodes at the corners of the tiles that
contain the asking node, the smallest tile first. Two tiles share a corner if they are equal or adjacent.
Therefore the length of the walk is proportional to the distance.

Names that move are our extension of the thesis. A name that leaves a tile updates the holders of its level. The
holders of larger tiles are told once that their position is out of date. From then on they send look-ups to the
middle of their tile: wherever the name is in the tile, the next smaller level has a holder there.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchyard.errors import UsageError
from matchyard.geo.congestion import Traffic, Work
from matchyard.geo.mesh import Mesh, nearest, pairs_of_numbers
from matchyard.geo.path import route
from matchyard.geo.workload import Requests, make_requests
from matchyard.kernels.geo.spirals import search_spirals
from matchyard.matches import Matches

_CORNERS = np.array([(0, 0), (0, 1), (1, 0), (1, 1)])


class Walks(NamedTuple):
    """Messages, each with the nodes that it visits in order."""

    walk_start: NDArray[np.int64]  # [n + 1] offsets into nodes
    nodes: NDArray[np.int32]  # from the first node on

    @property
    def n_asked(self) -> NDArray[np.int64]:
        """The number of nodes that each message visits after the first."""
        return np.diff(self.walk_start) - 1

    def traffic(self, mesh: Mesh, comes_back: bool = False) -> Traffic:
        """The transmissions of the messages by greedy paths; `comes_back` adds an answer to the first node."""
        tails, heads = (
            np.delete(self.nodes, self.walk_start[1:] - 1),
            np.delete(self.nodes, self.walk_start[:-1]),
        )
        if comes_back:
            tails = np.concatenate([tails, self.nodes[self.walk_start[1:] - 1]])
            heads = np.concatenate([heads, self.nodes[self.walk_start[:-1]]])
        paths = route(mesh, tails, heads)
        senders = np.delete(paths.nodes, paths.path_start[1:] - 1)
        sent = np.bincount(senders, minlength=len(mesh)).astype(np.int64)
        work = Work(
            len(senders),
            recoveries=int(paths.recoveries.sum()),
            ring_transmissions=paths.ring_transmissions,
        )
        return Traffic(mesh, sent, 1, work)


class LookUps(NamedTuple):
    """The results of look-ups."""

    positions: NDArray[np.float64]  # [n, 2] NaN: not found
    nodes: NDArray[np.int32]  # [n] the nearest nodes; -1: not found
    walk: NDArray[np.float64]  # [n] length of the straight lines between the nodes asked
    probes: NDArray[np.int64]  # [n] nodes asked
    walks: Walks

    @property
    def is_found(self) -> NDArray[np.bool_]:
        """True for each look-up that succeeded."""
        return self.nodes >= 0

    def traffic(self, mesh: Mesh) -> Traffic:
        """The transmissions of the look-ups and their answers."""
        return self.walks.traffic(mesh, comes_back=True)


class Directory:
    """The positions of names, stored by the nodes of a mesh.

    >>> from matchyard import geo
    >>> directory = Directory(geo.uniform(500, side=10, r_c=1, seed=1))
    >>> told = directory.publish("ada", (2, 3))
    >>> directory.look_up(0, "ada").positions.tolist()
    [[2.0, 3.0]]
    """

    def __init__(self, mesh: Mesh, smallest: float | None = None) -> None:
        smallest = mesh.r_c if smallest is None else smallest
        if not mesh.r_c / 1e6 < smallest < math.inf:
            raise UsageError(
                f"smallest tile {smallest}; expected a length above 0, e.g. the range, {mesh.r_c}"
            )
        self.mesh = mesh
        low_x, low_y, high_x, high_y = mesh.region
        self._side = max(high_x - low_x, high_y - low_y, smallest)
        self.n_levels = 1 + int(math.log2(self._side / smallest) + 1e-9)
        self._rows: dict[str, int] = {}
        levels = self.n_levels
        # For each name: the origin of its tilings, and its component.
        self._origins = np.empty((0, 2))
        self._components = np.empty(0, np.int32)
        # For each name and level: the holders at the corners, the position that they store, the tile, and
        # whether the stored position is up to date.
        self._holders = np.empty((0, levels, 4), np.int32)
        self._positions = np.empty((0, levels, 2))
        self._tiles = np.empty((0, levels, 2), np.int64)
        self._is_fresh = np.empty((0, levels), np.bool_)

    def __len__(self) -> int:
        return len(self._rows)

    def publish(self, name: object, position: Sequence[float]) -> Walks:
        """Store the position of a new name at its holders."""
        return self.publish_many([name], [position])

    def publish_many(self, names: Iterable[object], positions: ArrayLike) -> Walks:
        """Publish many names."""
        called = [str(name) for name in names]
        places = self._checked(positions)
        if len(called) != len(places):
            raise UsageError(
                f"{len(called)} names for {len(places)} positions; expected one for each"
            )
        again = [name for name in called if name in self._rows]
        if again or len(set(called)) < len(called):
            name = again[0] if again else Counter(called).most_common(1)[0][0]
            raise UsageError(
                f"name {name!r} is published twice; expected `move` for a new position"
            )
        origins = self._side * np.array([_fractions(name) for name in called]).reshape(-1, 2)
        nodes = nearest(self.mesh, places)
        components = self.mesh.component[nodes]
        tiles = self._tiles_of(places, origins)
        holders = self._holders_of(tiles, origins, components)
        shape = (len(called), self.n_levels)
        self._origins = np.concatenate([self._origins, origins])
        self._components = np.concatenate([self._components, components])
        self._holders = np.concatenate([self._holders, holders])
        self._positions = np.concatenate(
            [self._positions, np.broadcast_to(places[:, None], (*shape, 2))]
        )
        self._tiles = np.concatenate([self._tiles, tiles])
        self._is_fresh = np.concatenate([self._is_fresh, np.ones(shape, np.bool_)])
        first = len(self._rows)
        self._rows.update({name: first + row for row, name in enumerate(called)})
        return _walks([_in_order(node, holders[row]) for row, node in enumerate(nodes)])

    def move(self, name: object, position: Sequence[float]) -> Walks:
        """Change the position of a name; inform only the holders that need to know."""
        row = self._row(name)
        place = self._checked([position])
        node = int(nearest(self.mesh, place)[0])
        tiles = self._tiles_of(place, self._origins[row : row + 1])[0]
        is_left = (tiles != self._tiles[row]).any(axis=1)
        is_left[-1] = True  # holders of the smallest tile store the exact position
        if self.mesh.component[node] != self._components[row]:
            self._components[row] = self.mesh.component[node]
            is_left[:] = True
        fresh_before = self._is_fresh[row] & ~is_left
        old = self._holders[row].copy()
        components = self._components[row : row + 1]
        holders = self._holders_of(tiles[None], self._origins[row : row + 1], components)[0]
        self._holders[row, is_left] = holders[is_left]
        self._positions[row, is_left] = place[0]
        self._tiles[row] = tiles
        self._is_fresh[row] = is_left
        told = np.concatenate([old[is_left], self._holders[row, is_left], old[fresh_before]])
        return _walks([_in_order(node, told)])

    def look_up(self, source: int, name: object) -> LookUps:
        """Look up a name from a node."""
        return self.look_up_many([source], [name])

    def look_up_many(self, sources: ArrayLike, names: Sequence[object]) -> LookUps:
        """Look up names, each from a node."""
        here = self.mesh.checked_nodes(sources, "sources")
        rows = np.array([self._row(name) for name in names], np.int64)
        if len(here) != len(rows):
            raise UsageError(f"{len(rows)} names for {len(here)} sources; expected one for each")
        origins = self._origins[rows]
        tiles = self._tiles_of(self.mesh.points[here], origins)
        corners = self._holders_of(tiles, origins, self.mesh.component[here])
        start, nodes, levels, walk = search_spirals(
            self.mesh.points, here, rows, corners, self._holders, self._is_fresh, self._tiles
        )
        walks, is_found = Walks(start, nodes), levels >= 0
        positions = np.full((len(rows), 2), np.nan)
        positions[is_found] = self._positions[rows[is_found], levels[is_found]]
        targets = np.full(len(rows), -1, np.int32)
        if is_found.any():
            components = self._components[rows[is_found]]
            targets[is_found] = nearest(self.mesh, positions[is_found], components)
        return LookUps(positions, targets, walk, walks.n_asked, walks)

    def locate(
        self, matches: Matches, sources: ArrayLike, ids: Iterable[object] | None = None
    ) -> tuple[Requests, LookUps]:
        """The requests of matched events. Event i occurs at node `sources[i]`, which looks up the matched names.
        The targets of a request are the nodes at the positions of its names."""
        here = self.mesh.checked_nodes(sources, "sources")
        names = [list(dict.fromkeys(keys)) for keys in matches]
        if len(names) != len(here):
            raise UsageError(f"{len(names)} events at {len(here)} nodes; expected a node for each")
        counts = [len(one) for one in names]
        look_ups = self.look_up_many(
            np.repeat(here, counts), [name for one in names for name in one]
        )
        ends = np.cumsum(counts, dtype=np.int64)[:-1]
        lists = [nodes[nodes >= 0] for nodes in np.split(look_ups.nodes, ends)] if names else []
        return make_requests(self.mesh, here, lists, ids), look_ups

    def resolve(self, requests: Requests) -> LookUps:
        """Look up all targets of each source; targets must be published by the names of their nodes."""
        sources = np.repeat(requests.sources, np.diff(requests.target_start))
        return self.look_up_many(
            sources, [self.mesh.name(node) for node in requests.targets.tolist()]
        )

    def entries(self) -> NDArray[np.int64]:
        """The number of names that each node stores."""
        each = self._holders.reshape(len(self), 4 * self.n_levels)
        pairs = np.unique(each.astype(np.int64) + len(self.mesh) * np.arange(len(self))[:, None])
        return np.bincount(pairs % len(self.mesh), minlength=len(self.mesh))

    def _row(self, name: object) -> int:
        row = self._rows.get(str(name))
        if row is None:
            raise UsageError(
                f"name {name!r} is not published; call `publish` before look-ups and moves"
            )
        return row

    def _checked(self, positions: ArrayLike) -> NDArray[np.float64]:
        places = pairs_of_numbers(positions)
        low, high = np.array(self.mesh.region[:2]), np.array(self.mesh.region[2:])
        outside = np.flatnonzero(((places < low) | (places > high)).any(axis=1))
        if len(outside):
            place = tuple(places[outside[0]].tolist())
            raise UsageError(
                f"position {place} is outside the region; expected a position in {self.mesh.region}"
            )
        return places

    def _tiles_of(
        self, places: NDArray[np.float64], origins: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """The column and row of the tiles that contain positions: [n, level, 2]."""
        scaled = (places - self.mesh.region[:2] - origins) / self._side
        powers = 2.0 ** np.arange(self.n_levels)
        tiles: NDArray[np.int64] = np.floor(scaled[:, None] * powers[:, None]).astype(np.int64)
        return tiles

    def _holders_of(
        self, tiles: NDArray[np.int64], origins: NDArray[np.float64], components: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        """The nodes nearest to the corners of tiles: [n, level, 4]."""
        sides = self._side / 2.0 ** np.arange(self.n_levels)
        corners = (tiles[:, :, None] + _CORNERS) * sides[:, None, None]
        places = self._folded(corners + origins[:, None, None]).reshape(-1, 2)
        if not len(places):
            return np.empty((0, self.n_levels, 4), np.int32)
        each = np.repeat(components, 4 * self.n_levels)
        return nearest(self.mesh, places, each).reshape(-1, self.n_levels, 4)

    def _folded(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Positions relative to the corner of the region, with those outside mirrored at its sides.
        Mirroring never increases the distance of two positions, so walks stay short. Nodes on the rim store at
        most twice their share; clamping would give them all corners outside."""
        low, high = np.array(self.mesh.region[:2]), np.array(self.mesh.region[2:])
        extent = np.maximum(high - low, 1e-300)
        folded: NDArray[np.float64] = low + extent - np.abs(places % (2 * extent) - extent)
        return folded


def _fractions(name: str) -> tuple[float, float]:
    """Hash a name to two fractions, its point in the unit square."""
    digest = hashlib.blake2b(
        name.encode("utf-8", "surrogatepass"), digest_size=16, person=b"lls"
    ).digest()
    return int.from_bytes(digest[:8]) / 2**64, int.from_bytes(digest[8:]) / 2**64


def _in_order(first: int, holders: NDArray[np.int32]) -> list[int]:
    """A node and the holders that it informs, small tiles first, each once."""
    by_size = holders[::-1].ravel().tolist()
    return list(dict.fromkeys([int(first), *by_size]))


def _walks(told: list[list[int]]) -> Walks:
    start = np.append(0, np.cumsum([len(one) for one in told], dtype=np.int64))
    return Walks(start, np.array([node for one in told for node in one], np.int32))
