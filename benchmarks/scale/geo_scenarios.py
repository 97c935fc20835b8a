"""The thesis' scenarios of multicast in meshes as one job on local Spark.

    python -m benchmarks.scale.geo_scenarios [--routings grd,gsp] [--runs 50] [--cores 2] [-o OUTCOMES]

All five routings are 320 scenarios of 80 000 nodes and 1 000 requests; each routing is 64 of them. A task
simulates one scenario. `-o` writes the outcomes to a Parquet file. Appends a line with wall and processor
time, and the cores that other processes kept busy, to benchmarks/results/geo.jsonl.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from benchmarks.scale.spark import processor_s

from matchyard.bench.compare import machine
from matchyard.cli import terminal
from matchyard.geo import ROUTINGS, scenario
from matchyard.spark import geo, session

RESULTS = Path(__file__).parents[1] / "results" / "geo.jsonl"


def main(routings: list[str], runs: int, cores: int, output: Path | None) -> None:
    rows = scenario.of_thesis(runs, routings)
    spark = session(cores=cores)
    start, before, others = time.perf_counter(), processor_s(), machine.Others()
    frame = geo.simulate(geo.scenarios(rows, spark))
    table = geo.collect(frame, partial(terminal.bar, "scenarios"))
    wall_s = time.perf_counter() - start
    spent = {"jvm": 0.0, "python": 0.0}
    for process, used in processor_s().items():
        spent[process[0]] += used - before.get(process, 0.0)
    busy = others.cores() - sum(spent.values()) / wall_s
    spark.stop()
    terminal.clear()
    if output is not None:
        pq.write_table(table, output)
    write({
        "kind": "scenarios", "scenarios": len(table), "routings": routings, "runs": runs, "cores": cores,
        "wall_s": wall_s, "python_cpu_s": spent["python"], "jvm_cpu_s": spent["jvm"],
        "other_cores": max(0.0, busy), "transmissions": pc.sum(table["transmissions"]).as_py(),
    })  # fmt: skip


def write(line: dict) -> None:
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line | {"machine": machine.describe()}) + "\n")
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--routings", default=",".join(ROUTINGS), help="some of %(default)s")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--cores", type=int, default=machine.cores())
    parser.add_argument("-o", "--output", type=Path, help="a Parquet file for the outcomes")
    given = parser.parse_args()
    main(given.routings.split(","), given.runs, given.cores, given.output)
