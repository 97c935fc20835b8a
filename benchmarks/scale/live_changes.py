"""A live index in one thread: ten events, one addition, one removal, and so on.

    python -m benchmarks.scale.live_changes [CASE …] [--sizes 1000 10000 100000] [--steps 20000]

A step is one event. Prints the median and the 99th percentile of each call in microseconds, and
compares the memory of the process with that of another one that has only begun. The answers of some
steps, spread over the run, are compared with those of the oracle; steps/s includes that. `--names`
gives rules string keys.
"""

import argparse
import ctypes
import gc
import json
import random
import subprocess
import sys
import time
from array import array
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import psutil
from benchmarks.scale.one_event import mixed_rules

import matchyard as my
from matchyard.engine import find_engine

WARM = 3_000  # steps


class Source(NamedTuple):
    """A kind of index, with rules and events that are drawn for it."""

    engine: str
    rule: Callable[[], Any]
    events: list[Any]


def tags(seed: int = 1) -> Source:
    """Tag sets and tweets of `twitter`."""
    source, random_state = my.workload("tags", "twitter", 200_000), random.Random(seed)
    sets = [tags for chunk, _ in source.chunks() for tags in chunk.to_pylist()]
    events = [" ".join(event) for event in source.events(20_000).to_pylist()]
    return Source("tags", lambda: " ".join(random_state.choice(sets)), events)


def equal(seed: int = 1, n_words: int = 50) -> Source:
    """Three of 20 attributes equal one of 50 words: JSON patterns and JSON text."""
    random_state = random.Random(seed)

    def rule() -> str:
        names = random_state.sample(range(20), 3)
        return json.dumps({f"a{i}": [f"v{random_state.randrange(n_words)}"] for i in names})

    def event() -> str:
        return json.dumps({f"a{i}": f"v{random_state.randrange(n_words)}" for i in range(20)})

    return Source("predicates", rule, [event() for _ in range(20_000)])


def mixed(seed: int = 1) -> Source:
    """All kinds of operators: see `one_event`."""
    rules, event = mixed_rules(50_000, seed)
    random_state = random.Random(seed)
    events = [json.dumps(event()) for _ in range(20_000)]
    return Source("predicates", lambda: random_state.choice(rules), events)


def twigs(seed: int = 1) -> Source:
    """Twigs and documents of `dblp`, of about 1 kB."""
    random_state = random.Random(seed)
    parameters = {"document_bytes": 700, "record_bytes": 500}
    source = my.workload("twigs", "dblp", 20_000, parameters=parameters)
    all_twigs = [twig for chunk, _ in source.chunks() for twig in chunk.to_pylist()]
    events = source.events(5_000).to_pylist()
    return Source("twigs", lambda: random_state.choice(all_twigs), events)


CASES = {"tags": tags, "equal": equal, "mixed": mixed, "twigs": twigs}


def shown(times: Any) -> str:
    """The median, the 99th percentile and the largest of some times."""
    some = np.quantile(np.array(times), [0.5, 0.99, 1])
    return f"{some[0] / 1e3:9.1f}{some[1] / 1e3:9.1f}{some[2] / 1e3:9.0f}"


def resident() -> int:
    """Bytes of this process in memory, without free ones that `malloc` keeps: these vary by a tenth."""
    gc.unfreeze()
    gc.collect()
    with suppress(OSError):  # not everywhere is glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(psutil.Process().memory_info().rss)


class Run:
    """An index that is changed step by step, beside the rules that it should hold."""

    def __init__(self, name: str, size: int, has_names: bool) -> None:
        self.source, self._has_names = CASES[name](), has_names
        self.index = my.create(self.source.engine, live=True)
        self.rules = {
            self._key(number): self.index.parse(self.source.rule()) for number in range(size)
        }
        self._keys, self._n_keys = deque(self.rules), size
        self.index.add_many(list(self.rules.values()), list(self.rules))
        gc.collect()
        gc.freeze()  # docs/streams.md: the collector would look at all rules every now and then
        self.n_checked = 0

    def _key(self, number: int) -> Any:
        return f"user-{number}" if self._has_names else number

    def steps(self, steps: int, every: int) -> tuple[Any, Any, Any]:
        """Take steps, and compare the answer of each `every`-th one with the oracle's. Returns the
        nanoseconds of all matches, additions and removals."""
        index, source, clock = self.index, self.source, time.perf_counter_ns
        match, add, remove = array("q"), array("q"), array("q")
        for step in range(steps):
            event = source.events[step % len(source.events)]
            start = clock()
            found = index.match_one(event)
            match.append(clock() - start)
            if step % every == 0:
                self.check(event, found)
            if step % 10 == 4:
                key, rule = self._key(self._n_keys), source.rule()
                start = clock()
                index.add(rule, key)
                add.append(clock() - start)
                self.rules[key] = index.parse(rule)
                self._keys.append(key)
                self._n_keys += 1
            elif step % 10 == 9:
                gone = self._keys.popleft()
                start = clock()
                index.remove(gone)
                remove.append(clock() - start)
                del self.rules[gone]
        return match, add, remove

    def check(self, event: Any, found: list[Any]) -> None:
        """Compare an answer with that of the definition of a match."""
        rooms = find_engine(self.source.engine)
        seen = rooms.encoder.read_event(event, rooms.encoder.Options())
        want = [key for key, rule in self.rules.items() if rooms.oracle.is_match(rule, seen)]
        if sorted(found) != sorted(want):
            raise SystemExit(f"found {sorted(found)}, expected {sorted(want)} for {event}")
        self.n_checked += 1


def measure(name: str, size: int, steps: int, checks: int, has_names: bool) -> str:
    """A line of the table."""
    run = Run(name, size, has_names)
    run.steps(WARM, WARM)
    begin = time.perf_counter()
    times = run.steps(steps, max(100, steps * size // checks))
    seconds = time.perf_counter() - begin
    run.index._state.builds.wait()
    assert len(run.index) == size
    line = f"{name:8}{size:8}{''.join(map(shown, times))}{steps / seconds:9.0f}{run.n_checked:9}"
    del times
    ours = resident()
    command = [sys.executable, "-m", "benchmarks.scale.live_changes", name, "--sizes", str(size)]
    command += ["--fresh", *(["--names"] if has_names else [])]
    other = int(subprocess.run(command, check=True, capture_output=True).stdout)
    return f"{line}{ours / 2**20:9.0f}{other / 2**20:9.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--sizes", nargs="*", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument(
        "--checks",
        type=int,
        default=4_000_000,
        help="comparisons of a rule with an event by the oracle",
    )
    parser.add_argument("--names", action="store_true", help="string keys")
    parser.add_argument("--fresh", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.fresh:  # the memory of a process that has only begun
        run = Run(asked.cases[0], asked.sizes[0], asked.names)
        run.steps(WARM, WARM)
        run.index._state.builds.wait()
        print(resident())
        return
    print(
        f"{'':16}{'match, µs':>27}{'add, µs':>27}{'remove, µs':>27}{'':9}{'answers':>9}{'memory, MiB':>18}"
    )
    print(f"{'case':8}{'rules':>8}" + f"{'p50':>9}{'p99':>9}{'worst':>9}" * 3
          + f"{'steps/s':>9}{'checked':>9}{'at end':>9}{'fresh':>9}")  # fmt: skip
    for name in asked.cases or CASES:
        for size in asked.sizes:
            print(measure(name, size, asked.steps, asked.checks, asked.names), flush=True)


if __name__ == "__main__":
    main()
