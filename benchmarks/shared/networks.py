"""The networks of figures about routing: from the data, or generated ones like them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from matchyard import topology
from matchyard.routing import Topology, generate

N_INTERNET = 41_203  # autonomous systems


def internet(size: int) -> tuple[Topology, str]:
    """A topology and its name: CAIDA's map of the Internet if `size` is its size and the data is there,
    or else a scale-free network of that size."""
    path = _data("caida-as-rel-20120601.txt.gz")
    if size == N_INTERNET and path is not None:
        return topology(path), "CAIDA, June 2012"
    return generate("barabasi-albert", size, links_per_node=3), "Barabási–Albert"


def routers(network: Topology, names: Sequence[str], stub: bool = True) -> list[int]:
    """The nodes of the given names, or else as many nodes with the most links; with `stub`, also a node
    with the fewest links."""
    by_links = np.argsort(-network.degrees, kind="stable")
    known = set(network.names)
    if all(name in known for name in names):
        nodes = [network.node(name) for name in names]
    else:
        nodes = by_links[: len(names)].tolist()
    fewest = int(np.flatnonzero(network.degrees == network.degrees.min())[0])
    return [*nodes, fewest] if stub else nodes


def isps(names: Sequence[str], is_small: bool = False) -> Iterator[tuple[str, Topology]]:
    """Rocketfuel's maps of the named networks; without the data, or with `is_small`, two generated
    ones."""
    paths = {name: _data(f"rocketfuel/{name}.r0.cch.gz") for name in names}
    if is_small or None in paths.values():
        for size in (30, 60):
            yield f"Barabási–Albert {size}", generate("barabasi-albert", size)
        return
    for name, path in paths.items():
        assert path is not None
        yield f"AS{name}", topology(path)


def _data(name: str) -> Path | None:
    folder = os.environ.get("MATCHYARD_DATA")
    path = Path(folder or "", "topology", name)
    return path if folder and path.exists() else None
