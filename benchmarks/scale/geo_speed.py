"""The CPU time of meshes, paths, sending and look-ups, with one thread.

    python -m benchmarks.scale.geo_speed

Meshes of 80 000 and 320 000 nodes with neighbours; 50 runs of 1 000 uniform requests of 16 nodes by T60 and Grd;
one path of each routing; look-ups among 80 000 names. Kernels are compiled before the clock starts. Appends a
line to benchmarks/results/geo.jsonl.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from matchyard import geo
from matchyard.bench.compare import machine

RESULTS = Path(__file__).parent.parent / "results" / "geo.jsonl"
PAIRS = 1_000


def cpu_seconds(act: Callable[[], Any], repeats: int = 3) -> float:
    """The least CPU time of some repeats."""
    taken = []
    for _ in range(repeats):
        begin = time.process_time()
        act()
        taken.append(time.process_time() - begin)
    return round(min(taken), 4)


def make(n: int, side: float) -> geo.Mesh:
    mesh = geo.uniform(n, side, r_c=1, seed=1)
    assert len(mesh.disks.start) == n + 1  # neighbours are computed on first access
    return mesh


def main() -> None:
    make(1_000, 10)
    row: dict[str, Any] = {
        "mesh of 80k, s": cpu_seconds(lambda: make(80_000, 100)),
        "mesh of 320k, s": cpu_seconds(lambda: make(320_000, 200)),
    }
    mesh = make(80_000, 100)
    requests = geo.workload.uniform(mesh, 1_000, 16, seed=1)
    geo.send(mesh, requests, runs=1)
    row["50 runs of M16 T60 Grd, s"] = cpu_seconds(lambda: geo.send(mesh, requests, runs=50), 1)
    sources, targets = np.random.default_rng(1).integers(0, len(mesh), (2, PAIRS))
    for routing in geo.ROUTINGS:
        geo.route(mesh, sources[:2], targets[:2], routing)
        taken = cpu_seconds(lambda name=routing: geo.route(mesh, sources, targets, name))
        row[f"path by {routing}, µs"] = round(1e6 * taken / PAIRS, 1)
    directory = geo.Directory(mesh)
    names = targets.tolist()
    row["publish 80k names, s"] = cpu_seconds(
        lambda: directory.publish_many(range(len(mesh)), mesh.points), 1
    )
    directory.look_up_many(sources, names)
    taken = cpu_seconds(lambda: directory.look_up_many(sources, names))
    row["look-up, µs"] = round(1e6 * taken / PAIRS, 1)
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"kind": "speed", **row, "machine": machine.describe()}) + "\n")
    for name, value in row.items():
        print(f"{name:>28}  {value:,}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    main()
