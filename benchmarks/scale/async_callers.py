"""A thousand tasks of asyncio, each of which matches one event after the other.

    python -m benchmarks.scale.async_callers [CALLERS] [SECONDS]

Prints the events per second, and how long a task waits for its keys: through a stream, through a stream
with `asyncio.wrap_future`, and by `match_one` within the event loop. Every answer is compared with `match`.
"""

import argparse
import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

import matchyard as my

Ask = Callable[[Any], Awaitable[list[Any]]]


async def load(ask: Ask, events: list[Any], keys: list[Any], n_callers: int, seconds: float) -> str:
    """Let callers ask until the time is over; a line about it."""
    numbers, waited, wrong = itertools.count(), [], 0
    until = time.perf_counter() + seconds

    async def call() -> None:
        nonlocal wrong
        while True:
            number = next(numbers) % len(events)
            start = time.perf_counter()
            found = await ask(events[number])
            now = time.perf_counter()
            waited.append(now - start)
            wrong += sorted(found) != keys[number]
            if now > until:
                return

    start = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(n_callers)))
    rate = len(waited) / (time.perf_counter() - start)
    p50, p99 = np.quantile(waited, [0.5, 0.99]) * 1e3
    return f"{rate:12,.0f}{p50:10.2f}{p99:10.2f}{wrong:8}"


async def measure(index: my.Index, events: list[Any], n_callers: int, seconds: float) -> None:
    keys = [sorted(found) for found in index.match(events)]
    print(f"{'':24}{'events/s':>12}{'p50, ms':>10}{'p99, ms':>10}{'wrong':>8}")
    async with index.stream() as stream:
        print(
            "await stream.match".ljust(24)
            + await load(stream.match, events, keys, n_callers, seconds)
        )

    async def wrapped(event: Any) -> list[Any]:
        return await asyncio.wrap_future(stream.submit(event))

    async with index.stream(max_batch=4 * n_callers) as stream:  # `submit` must not block the loop
        print(
            "wrap_future(submit)".ljust(24) + await load(wrapped, events, keys, n_callers, seconds)
        )

    async def at_once(event: Any) -> list[Any]:
        await asyncio.sleep(0)  # a turn for the others
        return index.match_one(event)

    print("match_one in the loop".ljust(24) + await load(at_once, events, keys, n_callers, seconds))


def main(n_callers: int, seconds: float) -> None:
    source = my.workload("tags", "twitter", 1_000_000)
    index = my.TagIndex()
    for tags, keys in source.chunks():
        index.add_many(tags, keys)
    events = [set(event) for event in source.events(20_000).to_pylist()]
    asyncio.run(measure(index.consolidate(), events, n_callers, seconds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("callers", type=int, nargs="?", default=1_000)
    parser.add_argument("seconds", type=float, nargs="?", default=5.0)
    given = parser.parse_args()
    main(given.callers, given.seconds)
