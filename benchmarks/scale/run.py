"""The paper's database: 212 million subscriptions on one machine.

    python -m benchmarks.scale.run [SIZE] [FOLDER]

Builds `twitter` at SIZE (generated in chunks, never held as text), measures matching in memory, saves
the index and opens it again in a new process. There it measures the time to the first answer, and the
memory that matching needs besides index and result. Appends JSON lines to
benchmarks/results/scale.jsonl.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import matchyard as my
from matchyard.bench.compare import harness, machine

RESULTS = Path(__file__).parents[1] / "results" / "scale.jsonl"
# Anonymous memory is private to the process; the index is mapped from files and shared.
FOOTPRINT = """
import sys
import matchyard as my
def own():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))
source = my.workload("tags", "twitter-popular", int(sys.argv[2]))
events = source.events(20_000)
index = my.open(sys.argv[1], threads=2)
index.match(events[:10])
before = own()
matches = index.match(events)
result = sum(part.keys.nbytes + part.event_start.nbytes for part in matches.parts)
print(own() - before - result, result)
"""
FIRST_ANSWER = """
import sys, time
import matchyard as my
event = my.workload("tags", "twitter-popular", int(sys.argv[2])).events(1)
start = time.perf_counter()
index = my.open(sys.argv[1])
matches = index.match(event)
print(time.perf_counter() - start, matches.work.matches)
"""


def record(kind: str, values: dict) -> None:
    line = {"kind": kind, **values, "machine": machine.describe()}
    print(json.dumps(line), flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(line) + "\n")


def main(size: int, folder: str) -> None:
    index = my.TagIndex(threads=2)
    source = my.workload("tags", "twitter", size)
    harness.warm_up(index, source, threads=2)
    print("estimate", index.estimate(size, name_share=0.2), flush=True)
    build_s = harness.build(index, source)
    info = index.info()
    record("build", {"size": size, "build_s": build_s, "peak_bytes": machine.peak_bytes(), **info})
    for workload in ("twitter", "twitter-popular"):
        source = my.workload("tags", workload, size)
        result = harness.measure(index, source, "rarest", build_s, 2, "cpu", None, 5)
        record("match", result._asdict())
    shutil.rmtree(folder, ignore_errors=True)
    start = time.perf_counter()
    index.save(folder)
    files = [path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()]
    without_keys = (sum(files) - info["key_bytes"]) / size
    record(
        "save",
        {"size": size, "save_s": time.perf_counter() - start, "disk_bytes": sum(files),
         "disk_bytes_per_subscription_without_keys": without_keys},
    )  # fmt: skip
    del index
    for _ in range(3):
        answer = in_new_process(FIRST_ANSWER, folder, size)
        record("first answer", {"size": size, "open_to_answer_s": answer[0], "matches": answer[1]})
    extra, result = in_new_process(FOOTPRINT, folder, size)
    record("footprint", {"size": size, "bytes_beyond_index_and_result": extra, "result": result})


def in_new_process(code: str, folder: str, size: int) -> list[float]:
    command = [sys.executable, "-c", code, folder, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("size", type=int, nargs="?", default=212_000_000)
    parser.add_argument("folder", nargs="?", default="/tmp/scale.index")
    given = parser.parse_args()
    main(given.size, given.folder)
