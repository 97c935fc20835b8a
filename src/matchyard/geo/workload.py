"""Requests: sources and their targets [thesis §4.4, §4.7.2].

A request has an id, a source and a set of targets. Its random choices depend on its id, so other requests do not
change its route.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchyard.errors import UsageError
from matchyard.geo.mesh import Mesh, check_seed, nearest
from matchyard.matches import Matches

_EXAMPLE = '{"id": "alarm", "source": "roof", "targets": ["barn", [8.95, 46.01]]}'


class Requests(NamedTuple):
    """Requests. The targets of a request are distinct nodes without the source."""

    ids: tuple[str, ...]
    sources: NDArray[np.int32]  # [n] nodes
    target_start: NDArray[np.int64]  # [n + 1] offsets into targets
    targets: NDArray[np.int32]  # nodes
    keys: NDArray[np.uint64]  # [n] seeds of random choices, hashed from the ids

    def __len__(self) -> int:
        return len(self.ids)

    def targets_of(self, number: int) -> NDArray[np.int32]:
        """The targets of a request."""
        return self.targets[self.target_start[number] : self.target_start[number + 1]]

    def number(self, request: object) -> int:
        """The number of the request with an id."""
        if str(request) not in self.ids:
            raise UsageError(
                f"no request {request!r}; expected an id such as {self.ids[0] if self.ids else ''!r}"
            )
        return self.ids.index(str(request))

    def take(self, numbers: Sequence[int] | NDArray[Any]) -> Requests:
        """The requests with these numbers, in this order."""
        chosen = [int(number) for number in numbers]
        lists = [self.targets_of(number) for number in chosen]
        return Requests(
            tuple(self.ids[number] for number in chosen),
            self.sources[chosen],
            np.append(0, np.cumsum([len(one) for one in lists], dtype=np.int64)),
            np.concatenate([np.empty(0, np.int32), *lists]),
            self.keys[chosen],
        )


def make_requests(
    mesh: Mesh,
    sources: ArrayLike,
    targets: Iterable[ArrayLike],
    ids: Iterable[object] | None = None,
) -> Requests:
    """Make requests from numbers of nodes. The default ids are 0, 1, 2, …

    >>> from matchyard.geo import uniform
    >>> make_requests(uniform(9, 1, 1), [3], [[5, 3, 5, 1]]).targets.tolist()
    [1, 5]
    """
    here = mesh.checked_nodes(sources, "sources")
    lists = [np.unique(mesh.checked_nodes(one, "targets")) for one in targets]
    named = tuple(str(one) for one in (range(len(here)) if ids is None else ids))
    if not len(here) == len(lists) == len(named):
        raise UsageError(
            f"{len(here)} sources, {len(lists)} lists of targets and {len(named)} ids; expected equal numbers"
        )
    if len(set(named)) < len(named):
        twice = Counter(named).most_common(1)[0][0]
        raise UsageError(f"two requests have the id {twice!r}; expected ids that differ")
    lists = [there[there != source] for there, source in zip(lists, here)]
    return Requests(
        named,
        here,
        np.append(0, np.cumsum([len(one) for one in lists], dtype=np.int64)),
        np.concatenate([np.empty(0, np.int32), *lists]),
        np.array([_key(one) for one in named], np.uint64),
    )


def _key(name: str) -> int:
    return int.from_bytes(
        hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    )


# ------------------------------------------------------------------------------ as in the thesis


def uniform(mesh: Mesh, n: int, size: int, seed: int = 0) -> Requests:
    """Random requests among all nodes; `size` includes the source."""
    return _drawn(mesh, np.arange(len(mesh)), n, size, seed)


def inline(mesh: Mesh, n: int, size: int, seed: int = 0, band: float | None = None) -> Requests:
    """Random requests among the nodes of a narrow band across the middle, by default as wide as the range."""
    low, high = mesh.region[1], mesh.region[3]
    wide = mesh.r_c if band is None else band
    if not wide > 0:
        raise UsageError(f"a band of {band}; expected a width above 0, e.g. {mesh.r_c}")
    away = np.abs(mesh.points[:, 1] - (low + high) / 2)
    return _drawn(mesh, np.flatnonzero(away <= wide / 2), n, size, seed)


def pair(mesh: Mesh, n: int) -> Requests:
    """The worst case: all requests go from one node to another, half the width of the region away."""
    low_x, low_y, high_x, high_y = mesh.region
    middle, quarter = (low_y + high_y) / 2, (high_x - low_x) / 4
    _check_number(n)
    ends = nearest(mesh, [(low_x + quarter, middle), (high_x - quarter, middle)])
    return make_requests(mesh, np.full(n, ends[0]), [ends[1:]] * n)


def _drawn(mesh: Mesh, pool: NDArray[Any], n: int, size: int, seed: int) -> Requests:
    """Draw requests; request i depends only on the seed and i, not on the number of requests."""
    if not 1 <= size <= len(pool):
        raise UsageError(f"requests of {size} nodes among {len(pool)}; expected 1 to {len(pool)}")
    _check_number(n)
    check_seed(seed)
    drawn = [
        pool[np.random.default_rng([seed, i]).choice(len(pool), size, replace=False)]
        for i in range(n)
    ]
    return make_requests(mesh, [one[0] for one in drawn], [one[1:] for one in drawn])


def _check_number(n: int) -> None:
    if n < 0:
        raise UsageError(f"{n} requests; expected 0 or more")


# ------------------------------------------------------------------------------------ from users


def from_matches(
    matches: Matches, mesh: Mesh, sources: ArrayLike, ids: Iterable[object] | None = None
) -> Requests:
    """The requests of matched events. Event i occurs at node `sources[i]`; its matched keys are the names of
    the target nodes."""
    if len(matches) != len(np.atleast_1d(np.asarray(sources))):
        raise UsageError(
            f"{len(matches)} events and {len(np.atleast_1d(np.asarray(sources)))} sources; expected a node for "
            "each event"
        )
    nodes: dict[Any, int] = {}
    lists = []
    for keys in matches:
        for key in keys:
            if key not in nodes:
                nodes[key] = mesh.node(key)
        lists.append(np.array([nodes[key] for key in keys], np.int32))
    return make_requests(mesh, sources, lists, ids)


def from_jsonl(path: str | os.PathLike[str], mesh: Mesh) -> Requests:
    """Read requests from lines of JSON. A node is a name, or a position that stands for the nearest node.
    A position is [x, y], or longitude and latitude if the mesh has them. The default ids are "line 1", "line 2", …"""
    sources, targets = [], []
    ids: dict[str, int] = {}  # the line of each id
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            request = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where} is no JSON: {error}; expected e.g. {_EXAMPLE}") from None
        if not isinstance(request, dict) or not {"source", "targets"} <= request.keys():
            raise UsageError(f"{where} has no source and targets; expected e.g. {_EXAMPLE}")
        if not isinstance(request["targets"], list):
            raise UsageError(f"{where}: targets are no list; expected e.g. {_EXAMPLE}")
        sources.append(_node(mesh, request["source"], where))
        targets.append([_node(mesh, one, where) for one in request["targets"]])
        name = request.get("id")
        if isinstance(name, bool | list | dict | float):
            raise UsageError(f"{where}: an id {name!r}; expected a text as in {_EXAMPLE}")
        name = f"line {number}" if name is None else str(name)
        if name in ids:
            raise UsageError(
                f"{where}: the id {name!r} is also in line {ids[name]}; expected ids that differ"
            )
        ids[name] = number
    return make_requests(mesh, sources, targets, ids)


def _lines(path: str | os.PathLike[str]) -> Iterator[str]:
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            yield from file
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; expected lines such as {_EXAMPLE}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no UTF-8: {error}; expected e.g. {_EXAMPLE}") from None


def _node(mesh: Mesh, given: Any, where: str) -> int:
    try:
        if isinstance(given, list) and len(given) == 2 and all(map(_is_coordinate, given)):
            return _nearest_to(mesh, given)
        if isinstance(given, str | int):
            return mesh.node(given)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    raise UsageError(f"{where}: a node {given!r}; expected a name or a place as in {_EXAMPLE}")


def _nearest_to(mesh: Mesh, place: list[float]) -> int:
    """The node nearest to a position, which is at most the range outside the region."""
    x, y = mesh.metres(np.array([place], np.float64))[0].tolist()
    low_x, low_y, high_x, high_y = mesh.region
    away = max(low_x - x, x - high_x, low_y - y, y - high_y)
    if away > mesh.r_c or (mesh.origin is not None and abs(place[1]) > 90):
        kind = "x and y" if mesh.origin is None else "longitude and latitude"
        inside = mesh.lon_lat(mesh.points[:1])[0].round(4).tolist()
        raise UsageError(f"the place {place} is outside the mesh; expected {kind}, e.g. {inside}")
    return int(nearest(mesh, [(x, y)])[0])


def _is_coordinate(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18
