"""What routers of the Internet of 2012 store of `icn`, pinned."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import matchyard as my
from matchyard.routing import (
    grow,
    register_workload,
)

CAIDA = Path(os.environ.get("MATCHYARD_DATA", ""), "topology/caida-as-rel-20120601.txt.gz")


NAMED = ("3356", "7018", "1239", "2914", "3257", "1221", "6461", "2")  # the last one is a stub


# icn, 240 000 rows, seed 1, users by zipf: filters and entries of 8 trees; the least of one tree.
PINNED = {
    "L": [(153145, 926479, 103039), (105056, 811358, 100336), (103960, 832456, 102937),
          (105498, 822910, 101339), (139020, 848559, 99712), (99727, 796639, 99452),
          (121379, 824273, 99580), (99106, 792848, 99106)],
    "LC": [(177201, 913773, 99506), (165846, 886874, 99802), (175276, 965743, 99217),
           (118864, 831137, 99166), (111684, 814102, 99876), (99757, 796510, 99435),
           (107598, 809221, 99778), (99106, 792848, 99106)],
}  # fmt: skip


# The same of 2.4 million rows, which take some seconds each.
PINNED_LARGE = {
    "L": [(1224519, 6892236, 731220), (752752, 5766078, 707775), (731349, 5868145, 720525),
          (759127, 5877957, 714349), (1067196, 6099836, 698116), (694705, 5544926, 691658),
          (890711, 5824695, 695099), (689365, 5514920, 689365)],
    "LC": [(1476362, 6782850, 697260), (1295340, 6467499, 700883), (1400025, 7178092, 691105),
           (892266, 5952828, 691295), (837466, 5784868, 699292), (694169, 5537272, 690782),
           (769835, 5692618, 697153), (689365, 5514920, 689365)],
}  # fmt: skip


def counts_of(rows: int) -> dict[str, list[tuple[int, int, int]]]:
    network = my.topology(CAIDA)
    registered = register_workload(my.workload("tags", "icn", rows), network)
    found: dict[str, list[tuple[int, int, int]]] = {}
    for rule in ("L", "LC"):
        trees = grow(network, rule, 8)
        for name in NAMED:
            sizes = registered.table(network, trees, network.node(name)).sizes()
            assert (
                sizes[7].memory().compact_bytes
                == 32 * sizes[7].filters[2] + 2 * sizes[7].entries[2]
            )
            assert sizes[7].memory().thesis_bytes == 60 * sizes[7].filters[2]
            found.setdefault(rule, []).append(
                (sizes[7].filters[2], sizes[7].entries[2], sizes[0].filters[0])
            )
    return found


@pytest.mark.data
@pytest.mark.skipif(not CAIDA.exists(), reason="needs the AS graph of CAIDA in MATCHYARD_DATA")
def test_tables_of_the_internet_are_as_they_were() -> None:
    assert counts_of(240_000) == PINNED


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(not CAIDA.exists(), reason="needs the AS graph of CAIDA in MATCHYARD_DATA")
def test_large_tables_of_the_internet_are_as_they_were() -> None:
    assert counts_of(2_400_000) == PINNED_LARGE
