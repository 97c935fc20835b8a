"""The latency of events in a stream, at several shares of its peak rate [TagMatch, Figure 6].

First, threads submit as fast as the stream accepts, which gives the peak rate. Then events are due at
a share of that rate, whether or not earlier events are done. The latency counts from the due time, so
it includes the wait before the submission.
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
_PAUSE_S = 0.0005  # of a submitting thread, between two looks for due events


class Latency(NamedTuple):
    """Latencies at one rate, from the due time of an event to its keys."""

    share: float  # of the peak
    events_per_s: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    worst_ms: float


class _Tally:
    """The latencies of events, recorded by the matching threads."""

    def __init__(self) -> None:
        self.seconds = array("d")  # the garbage collector would walk a list of objects
        self.failures: list[BaseException] = []

    def note(self, due: float, future: Future[Any]) -> None:
        """Record the latency of an event; the callback of its future."""
        took = time.monotonic() - due
        if (failure := future.exception()) is not None:
            self.failures.append(failure)
        self.seconds.append(took)  # last: its length tells when all events are done


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
    """Measure each share, from the lowest to the highest. Objects that exist before are frozen for the
    garbage collector, as servers do: to walk all of them takes a tenth of a second."""
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
    """Submit at a rate, or as fast as possible: events done per second, and their latencies."""
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
            last.exception()  # waits for the last event

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
