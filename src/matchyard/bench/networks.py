"""The network that figures about routing run on: the Internet of June 2012, or one like it."""

from __future__ import annotations

import os
from pathlib import Path

from matchyard import topology
from matchyard.routing import Topology, generate

N_INTERNET = 41_203  # autonomous systems


def internet(size: int) -> tuple[Topology, str]:
    """The networks of the Internet as CAIDA has them, if `size` is their number and the data is there;
    else a scale-free network of that size. With its name."""
    folder = os.environ.get("MATCHYARD_DATA")
    path = Path(folder or "", "topology", "caida-as-rel-20120601.txt.gz")
    if folder and size == N_INTERNET and path.exists():
        return topology(path), "CAIDA, June 2012"
    return generate("barabasi-albert", size, links_per_node=3), "Barabási–Albert"
