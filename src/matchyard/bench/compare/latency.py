"""How long events take through a stream, at several shares of what it can take [TagMatch, Figure 6].

First the stream's own peak is found: threads submit as fast as they are let. Then events come at a
share of that rate, whether or not those before them are done, and their time counts from when they
were due, so that an event that had to wait to be submitted is not counted as quick.
"""

from __future__ import annotations

import gc
import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from matchyard.bench.compare import machine

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
_PAUSE_S = 0.0005  # of a thread that submits, between its events that are due


class Latency(NamedTuple):
    """Events at one rate, from when they were due to their keys."""

    share: float  # of the peak
    events_per_s: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    worst_ms: float


class _Tally:
    """When events were done, as it is said by the threads that match."""

    def __init__(self) -> None:
        self.seconds = array("d")  # a list of objects would be walked by the garbage collector
        self.failures: list[BaseException] = []

    def note(self, due: float, future: Future[Any]) -> None:
        """What an event that was due then is to call."""
        took = time.monotonic() - due
        if (failure := future.exception()) is not None:
            self.failures.append(failure)
        self.seconds.append(took)  # last: with that of the last event, all is known


def latencies(
    index: Any,
    events: Sequence[Any],
    shares: Sequence[float] = SHARES,
    seconds: float = 2.0,
    producers: int = 2,
    max_batch: int = 256,
    max_delay_ms: float = 2.0,
    workers: int = 2,
) -> Iterator[Latency]:
    """One after the other, from the lowest share to the highest. What is there before, and what is
    compiled for large and for small batches, is kept from the garbage collector, as servers do: to
    walk all of it takes a tenth of a second."""
    with index.stream(max_batch, max_delay_ms, workers) as stream:
        about, _ = _at_rate(stream, events, None, min(seconds, 0.5), producers)
        _at_rate(stream, events, min(shares) * about, min(seconds, 0.5), producers)
    with _frozen(), index.stream(max_batch, max_delay_ms, workers) as stream:
        with machine.alone():
            peak, _ = _at_rate(stream, events, None, seconds, producers)
        for share in sorted(shares):
            with machine.alone():
                rate, tally = _at_rate(stream, events, share * peak, seconds, producers)
            p50, p90, p99, worst = 1e3 * np.percentile(tally.seconds, [50, 90, 99, 100])
            yield Latency(share, rate, *map(float, (p50, p90, p99, worst)))


@contextmanager
def _frozen() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _at_rate(
    stream: Any, events: Sequence[Any], rate: float | None, seconds: float, producers: int
) -> tuple[float, _Tally]:
    """Submit at a rate, or as fast as it goes: events that were done per second, and their times."""
    tally, start = _Tally(), time.monotonic()
    sent = [0] * producers

    def produce(number: int) -> None:
        last: Future[Any] | None = None
        while (now := time.monotonic() - start) < seconds:
            due = sent[number] + 64 if rate is None else 1 + int(now * rate / producers)
            for i in range(sent[number], due):
                at = time.monotonic() if rate is None else start + i * producers / rate
                last = stream.submit(events[(i * producers + number) % len(events)])
                last.add_done_callback(partial(tally.note, at))
            sent[number] = due
            if rate is not None:
                time.sleep(_PAUSE_S)
        if last is not None:
            last.exception()  # waits for it

    def guarded(number: int) -> None:
        try:
            produce(number)
        except BaseException as failure:
            tally.failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(producers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while len(tally.seconds) < sum(sent) and not tally.failures:
        time.sleep(_PAUSE_S)
    if tally.failures:
        raise tally.failures[0]
    return sum(sent) / (time.monotonic() - start), tally
