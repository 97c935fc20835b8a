"""Where much matches: counting, reading batch by batch, and keeping all keys, in one run.

    python -m benchmarks.scale.dense
    python -m benchmarks.scale.dense --workload peers --events 200k --algorithms rarest,tagmatch

All algorithms and all ways to read have to find the same pairs. Times include the encoding of events, which
are Arrow lists of strings. *read* writes the keys of each batch and drops them; *arrow* does the same with
`to_arrays`, *narrow* with `to_arrays(narrow=True)`; *kept* has all keys of the run in memory at the end.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import matchyard as my
from matchyard.cli.arguments import read_count


def counted(index: my.Index, events: Any, batch: int, threads: int) -> int:
    """Count the keys of each event."""
    return sum(
        int(matches.counts().sum()) for matches in index.match_batches(events, batch, threads)
    )


def read(index: my.Index, events: Any, batch: int, threads: int) -> int:
    """Write the keys of each batch, and drop them."""
    return sum(len(matches.keys) for matches in index.match_batches(events, batch, threads))


def arrow(index: my.Index, events: Any, batch: int, threads: int) -> int:
    """Write the keys of each batch as an Arrow column of lists, and drop it."""
    total = 0
    for matches in index.match_batches(events, batch, threads):
        total += sum(len(chunk.values) for chunk in matches.to_arrays().chunks)
    return total


def narrow(index: my.Index, events: Any, batch: int, threads: int) -> int:
    """The same with keys of 32 bits if they fit."""
    total = 0
    for matches in index.match_batches(events, batch, threads):
        total += sum(len(chunk.values) for chunk in matches.to_arrays(narrow=True).chunks)
    return total


def kept(index: my.Index, events: Any, batch: int, threads: int) -> int:
    """Keep all keys in memory."""
    matches = index.match(events, threads)
    return len(matches.keys)


WAYS: dict[str, Callable[[my.Index, Any, int, int], int]] = {
    "counted": counted, "read": read, "arrow": arrow, "narrow": narrow, "kept": kept,
}  # fmt: skip


def checksum(index: my.Index, events: Any, threads: int) -> int:
    """The same for equal pairs in any order."""
    total = 0
    for number, keys in enumerate(index.match(events, threads)):
        total += sum(keys) * (2 * number + 1)
    return total


def fast(device: str) -> list[str]:
    """The algorithms to compare on a device; `scan` would take hours."""
    return [name for name in my.algorithms("tags", device) if name != "scan"]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workload", default="dense")
    parser.add_argument("--size", default="1M")
    parser.add_argument("--events", default="50k")
    parser.add_argument("--batch", default="4k")
    parser.add_argument("--algorithms", help="by default the fast ones that the device has")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    source = my.workload("tags", asked.workload, read_count(asked.size))
    events, batch = source.events(read_count(asked.events)), read_count(asked.batch)
    print(f"{asked.workload} {asked.size}, {asked.threads} threads, batches of {batch}")
    print(
        f"{'algorithm':12}{'way':9}{'events/s':>12}{'G pairs/s':>11}{'spread':>8}  pairs, checksum"
    )
    sums = set()
    for algorithm in asked.algorithms.split(",") if asked.algorithms else fast(asked.device):
        index = my.TagIndex(algorithm, device=asked.device)
        for tags, keys in source.chunks():
            index.add_many(tags, keys)
        index.consolidate()
        some = checksum(index, events[:500], asked.threads)
        for name, way in WAYS.items():
            seconds, total = [], 0
            for _ in range(asked.passes + 1):  # the first one warms up
                begin = time.perf_counter()
                total = way(index, events, batch, asked.threads)
                seconds.append(time.perf_counter() - begin)
            middle = statistics.median(seconds[1:])
            spread = (max(seconds[1:]) - min(seconds[1:])) / middle
            print(
                f"{algorithm:12}{name:9}{len(events) / middle:12,.0f}{total / middle / 1e9:11.2f}"
                f"{spread:8.0%}  {total:,}, {some}",
                flush=True,
            )
            sums.add((total, some))
    assert len(sums) == 1, "the algorithms do not agree"


if __name__ == "__main__":
    main()
