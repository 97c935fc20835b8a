"""Packets per second through the FIB of AS3257: on the CPU with one thread, and on a GPU if there is one.

    MATCHYARD_DATA=… python -m benchmarks.scale.fib [FILTERS] [THREADS]

Interfaces from the GPU are compared with those from the CPU. Appends lines to
benchmarks/results/rib.jsonl.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
from benchmarks.shared.networks import N_INTERNET, internet
from benchmarks.shared.rib_source import RibSource

from matchyard import DeviceError
from matchyard.bench.compare import machine
from matchyard.gpu import devices
from matchyard.routing import Fib, grow, links_at

RESULTS = Path(__file__).parent.parent / "results" / "rib.jsonl"
PACKETS = 1 << 17


def has_gpu() -> bool:
    try:
        devices.card_state()
    except DeviceError:
        return False
    return True


def main(size: int, threads: int) -> None:
    network, name = internet(N_INTERNET)
    node = network.node("3257") if "3257" in network.names else int(network.degrees.argmax())
    source = RibSource(size, 1)
    rib = source._table.rib(links_at(network, grow(network, "L", 1), node))
    packets = source.events(PACKETS)
    incoming = np.random.default_rng(1).choice([0, *rib.links[0]], len(packets))
    cases = [("cpu", "rarest", 1), ("cpu", "tagmatch", 1)]
    if has_gpu():
        cases += [("gpu", "rarest", threads), ("gpu", "tagmatch", threads)]
    wanted = None
    for where, algorithm, count in cases:
        fib = Fib(rib, algorithm, device=where)
        matches = fib.forward(packets, 0, incoming, count)
        pairs = [np.sort(row) for row in matches.to_lists()[:2_000]]
        wanted = pairs if wanted is None else wanted
        assert all(np.array_equal(a, b) for a, b in zip(pairs, wanted, strict=True)), algorithm
        rates = []
        for _ in range(5):
            start = time.perf_counter() if where == "gpu" else time.process_time()
            fib.forward(packets, 0, incoming, count)
            end = time.perf_counter() if where == "gpu" else time.process_time()
            rates.append(len(packets) / (end - start))
        line = {"kind": "fib", "network": name, "filters": len(rib), "device": where, "algorithm": algorithm,
                "threads": count, "packets_per_s": statistics.median(rates),
                "interfaces_per_packet": matches.work.matches / len(packets),
                "machine": machine.describe()}  # fmt: skip
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(
            json.dumps({key: value for key, value in line.items() if key != "machine"}), flush=True
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("filters", type=int, nargs="?", default=500_000)
    parser.add_argument("threads", type=int, nargs="?", default=1, help="on the GPU")
    given = parser.parse_args()
    main(given.filters, given.threads)
