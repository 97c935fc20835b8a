"""Threads that match single events of a live index while another thread changes it.

    python -m benchmarks.scale.live_threads [--rules 10000] [--threads 1 2 16] [--changes 0 200 2000]
        [--seconds 5]

Prints the events per second of all readers and the changes per second of the writer, of which it makes no
more than it is told. An event has ten keys. One in 20 answers of each reader is kept and compared with the
oracle's: it must be the answer of a state of the index between the beginning and the end of the call.
"""

import argparse
import random
import threading
import time
from bisect import bisect_right
from collections import deque
from itertools import product
from typing import Any

from benchmarks.scale.live_changes import equal

import matchyard as my
from matchyard.engine import find_engine

N_EVENTS, N_RULES = 40, 20_000  # for which the oracle is asked


class Expected:
    """The answers to each event by the oracle, state after state.

    A set of keys is kept as the sum of a random number for each key: a state costs no more than a change.
    """

    def __init__(self, engine: str, rules: list[Any], events: list[Any]) -> None:
        rooms = find_engine(engine)
        seen = [rooms.encoder.read_event(event, rooms.encoder.Options()) for event in events]
        self._is_match = [
            [event for event, one in enumerate(seen) if rooms.oracle.is_match(rule, one)]
            for rule in rules
        ]
        self._states: list[list[tuple[int, int]]] = [[(0, 0)] for _ in events]

    def replay(self, changes: list[tuple[int, int, int, int]]) -> None:
        """Go through all changes: the version that shows one, its rule, its key, and +1 or -1."""
        for version, rule, key, sign in changes:
            for event in self._is_match[rule]:
                states = self._states[event]
                states.append((version, states[-1][1] + sign * _number(key)))

    def has(self, event: int, first: int, last: int, keys: list[int]) -> bool:
        """True if this was the answer in one of the versions from `first` to `last`."""
        states, answer = self._states[event], sum(map(_number, keys))
        at = bisect_right(states, first, key=lambda state: state[0]) - 1
        return any(state == answer for version, state in states[at:] if version <= last)


def _number(key: int) -> int:
    return random.Random(key).getrandbits(64)


def run(n_rules: int, n_threads: int, rate: int, seconds: float) -> str:
    source, chance = equal(n_words=10), random.Random(1)
    index = my.create(source.engine, live=True)
    rules = [index.parse(source.rule()) for _ in range(N_RULES)]
    events = source.events[:N_EVENTS]
    expected = Expected(source.engine, rules, events)
    live = deque((key, key % N_RULES) for key in range(n_rules))
    index.add_many([rules[rule] for _, rule in live], [key for key, _ in live])
    index.consolidate().match_one(events[0])
    changes = [(1, rule, key, 1) for key, rule in live]
    is_over, counts = threading.Event(), [0] * n_threads
    kept: list[list[tuple[int, int, int, list[int]]]] = [[] for _ in range(n_threads)]
    version = 1

    def read(number: int) -> None:
        own = random.Random(number)
        while not is_over.is_set():
            event = own.randrange(N_EVENTS)
            first = version
            answer = index.match_one(events[event])
            counts[number] += 1
            if counts[number] % 20 == 0:  # a change may be seen before it is counted
                kept[number].append((event, first, version + 1, answer))

    threads = [threading.Thread(target=read, args=(number,)) for number in range(n_threads)]
    for thread in threads:
        thread.start()
    start = time.perf_counter()
    while (now := time.perf_counter() - start) < seconds:
        if version - 1 >= now * rate:
            time.sleep(0.001)
            continue
        key, rule = n_rules + version, chance.randrange(N_RULES)
        index.add(rules[rule], key).match_one(events[0])
        version += 1
        changes.append((version, rule, key, 1))
        live.append((key, rule))
        key, rule = live.popleft()
        index.remove(key).match_one(events[0])
        version += 1
        changes.append((version, rule, key, -1))
    elapsed = time.perf_counter() - start
    is_over.set()
    for thread in threads:
        thread.join()
    expected.replay(changes)
    answers = [answer for some in kept for answer in some]
    n_wrong = sum(not expected.has(*answer) for answer in answers)
    rates = f"{sum(counts) / elapsed:12,.0f}{(version - 1) / elapsed:12,.0f}"
    return f"{n_threads:8}{rates}{sum(len(keys) for *_, keys in answers) / len(answers):8.1f}{len(answers):10,}{n_wrong:8}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=int, default=10_000)
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2, 16])
    parser.add_argument("--changes", nargs="*", type=int, default=[0, 200, 2000])
    parser.add_argument("--seconds", type=float, default=5.0)
    asked = parser.parse_args()
    print(f"{'readers':>8}{'events/s':>12}{'changes/s':>12}{'keys':>8}{'checked':>10}{'wrong':>8}")
    for n_threads, rate in product(asked.threads, asked.changes):
        print(run(asked.rules, n_threads, rate, asked.seconds), flush=True)


if __name__ == "__main__":
    main()
