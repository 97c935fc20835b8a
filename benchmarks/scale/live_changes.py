"""A live index in one thread: ten events, one addition, one removal, and so on.

    python -m benchmarks.scale.live_changes [CASE …] [--sizes 1000 10000 100000] [--steps 20000]

A step is one event. Prints the median and the 99th percentile of each call in microseconds, the steps
per second, and the memory of the process at the end against that of a fresh index of the same
rules. The answers of some events are compared with those of a fresh index of the same rules.
"""

import argparse
import json
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

from benchmarks.scale.one_event import mixed_rules

import matchyard as my


def tags(seed: int = 1) -> tuple[my.Index, Callable[[], Any], Iterator[Any]]:
    source = my.workload("tags", "twitter", 200_000)
    sets = [tags for chunk, _ in source.chunks() for tags in chunk.to_pylist()]
    events = [" ".join(event) for event in source.events(20_000).to_pylist()]
    random_state = random.Random(seed)
    return my.TagIndex(live=True), lambda: " ".join(random_state.choice(sets)), cycle(events)


def equal(seed: int = 1) -> tuple[my.Index, Callable[[], Any], Iterator[Any]]:
    """Three of 20 attributes equal one of 50 words."""
    random_state = random.Random(seed)

    def rule() -> str:
        names = random_state.sample(range(20), 3)
        return json.dumps({f"a{i}": [f"v{random_state.randrange(50)}"] for i in names})

    def event() -> str:
        return json.dumps({f"a{i}": f"v{random_state.randrange(50)}" for i in range(20)})

    return my.PredicateIndex(live=True), rule, cycle([event() for _ in range(20_000)])


def mixed(seed: int = 1) -> tuple[my.Index, Callable[[], Any], Iterator[Any]]:
    rules, event = mixed_rules(50_000, seed)
    random_state = random.Random(seed)
    events = [json.dumps(event()) for _ in range(20_000)]
    return my.PredicateIndex(live=True), lambda: random_state.choice(rules), cycle(events)


def twigs(seed: int = 1) -> tuple[my.Index, Callable[[], Any], Iterator[Any]]:
    source = my.workload("twigs", "dblp", 20_000)
    twigs = [twig for chunk, _ in source.chunks() for twig in chunk.to_pylist()]
    random_state = random.Random(seed)
    source = my.workload(
        "twigs", "dblp", 1000, parameters={"document_bytes": 700, "record_bytes": 500}
    )
    return (
        my.TwigIndex(live=True),
        lambda: random_state.choice(twigs),
        cycle(source.events(2000).to_pylist()),
    )


CASES = {"tags": tags, "equal": equal, "mixed": mixed, "twigs": twigs}


def shown(times: list[int]) -> str:
    times.sort()
    return f"{times[len(times) // 2] / 1e3:9.1f}{times[int(0.99 * len(times))] / 1e3:9.1f}{times[-1] / 1e3:9.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--sizes", nargs="*", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--steps", type=int, default=20_000)
    asked = parser.parse_args()
    print(f"{'':16}{'match, µs':>27}{'add, µs':>27}{'remove, µs':>27}")
    print(f"{'case':8}{'rules':>8}" + f"{'p50':>9}{'p99':>9}{'worst':>9}" * 3 + f"{'steps/s':>9}")
    for name in asked.cases or CASES:
        for size in asked.sizes:
            index, rule, events = CASES[name]()
            keys = deque(range(size))
            index.add_many([rule() for _ in range(size)], list(keys))
            for _ in range(20):
                index.match_one(next(events))
            match, add, remove = [], [], []
            clock = time.perf_counter_ns
            begin, next_key = clock(), size
            for step in range(asked.steps):
                event = next(events)
                start = clock()
                index.match_one(event)
                match.append(clock() - start)
                if step % 10 == 4:
                    new = rule()
                    start = clock()
                    index.add(new, next_key)
                    add.append(clock() - start)
                    keys.append(next_key)
                    next_key += 1
                elif step % 10 == 9:
                    gone = keys.popleft()
                    start = clock()
                    index.remove(gone)
                    remove.append(clock() - start)
            rate = asked.steps / (clock() - begin) * 1e9
            print(
                f"{name:8}{size:8}{shown(match)}{shown(add)}{shown(remove)}{rate:9.0f}", flush=True
            )


if __name__ == "__main__":
    main()
