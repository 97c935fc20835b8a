"""The RIB of AS3257 on one L tree by number of users, merged from minimal sets of parts [thesis, Figure
2.11].

    MATCHYARD_DATA=… python -m benchmarks.scale.rib [USERS …]

Appends a line for each number of users to benchmarks/results/rib.jsonl.
"""

import argparse
import json
import time
from pathlib import Path

from benchmarks.shared.networks import N_INTERNET, internet

import matchyard as my
from matchyard.bench.compare import machine
from matchyard.routing import grow, table_by_parts

ROWS_PER_USER = 41.7  # of icn
RESULTS = Path(__file__).parent.parent / "results" / "rib.jsonl"


def main(users: int) -> None:
    network, name = internet(N_INTERNET)
    rows = round(users * ROWS_PER_USER)
    start, cpu = time.perf_counter(), time.process_time()
    done = 0

    def show(n_more: int) -> None:
        nonlocal done
        done += n_more
        print(f"{done:,} of {rows:,} rows, {time.perf_counter() - start:.0f} s", flush=True)

    table = table_by_parts(
        my.workload("tags", "icn", rows), network, grow(network, "L", 1), network.node("3257"), progress=show
    )  # fmt: skip
    memory = table.memory()._asdict()
    line = {
        "kind": "rib growth", "network": name, "users": users, "rows": rows, **memory,
        "seconds": time.perf_counter() - start, "cpu_s": time.process_time() - cpu,
        "peak_bytes": machine.peak_bytes(), "machine": machine.describe(),
    }  # fmt: skip
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    print(json.dumps({name: value for name, value in line.items() if name != "machine"}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("[")[0].strip())
    parser.add_argument("users", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    for count in parser.parse_args().users:
        main(count)
