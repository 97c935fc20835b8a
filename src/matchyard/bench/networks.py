"""The networks that figures about routing run on: those of the data, or ones like them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from matchyard import topology
from matchyard.routing import Topology, generate

N_INTERNET = 41_203  # autonomous systems


def internet(size: int) -> tuple[Topology, str]:
    """The networks of the Internet as CAIDA has them, if `size` is their number and the data is there;
    else a scale-free network of that size. With its name."""
    path = _data("caida-as-rel-20120601.txt.gz")
    if size == N_INTERNET and path is not None:
        return topology(path), "CAIDA, June 2012"
    return generate("barabasi-albert", size, links_per_node=3), "Barabási–Albert"


def routers(network: Topology, names: Sequence[str], stub: bool = True) -> list[int]:
    """The nodes of those names, or where there are none, as many with most links; and a node with fewest
    links."""
    by_links = np.argsort(-network.degrees, kind="stable")
    known = set(network.names)
    if all(name in known for name in names):
        found = [network.node(name) for name in names]
    else:
        found = by_links[: len(names)].tolist()
    fewest = int(np.flatnonzero(network.degrees == network.degrees.min())[0])
    return [*found, fewest] if stub else found


def isps(names: Sequence[str], is_small: bool = False) -> Iterator[tuple[str, Topology]]:
    """Maps of Rocketfuel by the numbers of their networks; or where the data is not there or little is
    wanted, two made-up ones."""
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
