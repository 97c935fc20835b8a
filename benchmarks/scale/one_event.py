"""One event at a time: Python strings to Python keys, at 1 M subscriptions.

    python -m benchmarks.scale.one_event [SIZE]

Prints the median and the 99th percentile over events with fewer than 20 matches.
"""

import statistics
import sys
import time

import matchyard as my


def main(size: int) -> None:
    source = my.workload("tags", "twitter", size)
    index = my.TagIndex()
    for tags, keys in source.chunks():
        index.add_many(tags, keys)
    index.consolidate()
    events = [set(event) for event in source.events(20_000).to_pylist()]
    for event in events[:2000]:
        index.match([event])
    times = []
    for event in events:
        start = time.perf_counter()
        keys = index.match([event])[0]
        seconds = time.perf_counter() - start
        if len(keys) < 20:
            times.append(1e6 * seconds)
    times.sort()
    p99 = times[int(0.99 * len(times))]
    print(f"{size:,} subscriptions, {len(times):,} events: "
          f"median {statistics.median(times):.1f} µs, 99 % {p99:.1f} µs")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
