"""Latencies are of events that were due, and of all of them."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from typer.testing import CliRunner

import matchyard as my
from matchyard.bench.compare.latency import _at_rate, latencies
from matchyard.cli import app
from matchyard.index.stream import Stream
from matchyard.matches import Matches

INDEX = my.TagIndex().add("a", 1).consolidate()


class Slow:
    """An index that takes its time, or fails."""

    def __init__(self, seconds: float = 0, failure: Exception | None = None) -> None:
        self.seconds, self.failure, self.n_events = seconds, failure, 0
        self._lock = threading.Lock()

    def stream(self, *settings: Any) -> Stream:
        return Stream(self, *settings)

    def match(self, events: Any, threads: int | None = None) -> Matches:
        time.sleep(self.seconds)
        if self.failure:
            raise self.failure
        with self._lock:
            self.n_events += len(events)
        return INDEX.match(events)


def test_the_time_of_every_event_counts_from_when_it_was_due() -> None:
    index = Slow(0.05)
    (found,) = latencies(index, ["a", "b"], [0.5], seconds=0.4, max_batch=64)
    assert found.p50_ms <= found.p90_ms <= found.p99_ms <= found.worst_ms
    assert found.p50_ms >= 50  # no event is done before its batch is
    assert found.events_per_s > 0
    assert index.n_events > 0


def test_an_event_is_submitted_when_it_is_due_and_not_a_period_later() -> None:
    with INDEX.stream() as stream:
        _, tally = _at_rate(stream, ["a"], rate=2, seconds=0.5, producers=2)
    assert len(tally.seconds) == 2  # the first of each thread is due at once, the second after 1 s


def test_shares_come_in_order_and_a_higher_one_is_a_higher_rate() -> None:
    found = list(latencies(INDEX, ["a"], [0.5, 0.1], seconds=0.3))
    assert [one.share for one in found] == [0.1, 0.5]
    assert found[0].events_per_s < found[1].events_per_s


def test_an_event_that_fails_is_no_latency() -> None:
    with pytest.raises(my.DeviceError, match="gone"):
        list(latencies(Slow(failure=my.DeviceError("gone")), ["a"], [0.5], seconds=0.1))


def test_the_command_prints_a_line_per_share() -> None:
    given = ["latency", "tags", "--size", "200", "--events", "50", "--seconds", "0.1"]
    shown = CliRunner().invoke(app, given)
    assert shown.exit_code == 0, shown.output
    assert "rarest on the cpu" in shown.output
    assert len(shown.output.strip().splitlines()) == 7
    lines = CliRunner().invoke(app, [*given, "--json"]).output.strip().splitlines()
    assert [json.loads(line)["share"] for line in lines] == [0.1, 0.25, 0.5, 0.75, 0.9]
    refused = CliRunner().invoke(app, ["latency", "tags", "--size", "200", "--events", "0"])
    assert isinstance(refused.exception, my.UsageError)


def test_a_stream_that_takes_no_more_is_no_latency() -> None:
    class Closed(Slow):
        def stream(self, *settings: Any) -> Stream:
            stream = super().stream(*settings)
            stream.close()
            return stream

    with pytest.raises(my.UsageError, match="closed"):
        list(latencies(Closed(), ["a"], [0.5], seconds=0.1))
