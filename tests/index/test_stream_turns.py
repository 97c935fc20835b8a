"""What a stream's workers take and when: events, whole batches, and what callbacks do to them."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

import matchyard as my
from matchyard.index.futures import Answer
from matchyard.index.stream import Stream

INDEX = my.TagIndex().add_many([["a"], ["b"]], [1, 2]).consolidate()


@pytest.mark.parametrize("workers", [1, 2])
def test_whole_batches_and_events_take_turns(workers: int) -> None:
    with INDEX.stream(max_batch=1, max_delay_ms=0, workers=workers) as stream:
        found = []
        for _ in range(50):
            found += [stream.submit_many(["a", "b"]), stream.submit("b")]
        assert all(one.result(timeout=30).to_lists() == [[1], [2]] for one in found[::2])  # type: ignore[attr-defined]
        assert all(one.result(timeout=30) == [2] for one in found[1::2])
        late = stream.submit_many(["a"])
    assert late.result(timeout=0).to_lists() == [[1]]


class Blocked:
    """An index that says what it is asked, and answers when it is let."""

    def __init__(self, n_at_once: int = 1) -> None:
        self.asked: list[int] = []
        self.may_match = threading.Event()
        self.all_match = threading.Barrier(n_at_once)
        self.failure: BaseException | None = None

    def match(self, events: Any, threads: int | None = None) -> Any:
        self.asked.append(len(events))
        self.may_match.wait(30)
        self.all_match.wait(30)
        if self.failure is not None:
            raise self.failure
        return INDEX.match(events, threads)


def test_workers_match_at_the_same_time() -> None:
    index = Blocked(n_at_once=2)
    index.may_match.set()
    with Stream(index, max_batch=1) as stream:
        futures = [stream.submit(event) for event in "ab"]
        assert [one.result(timeout=60) for one in futures] == [[1], [2]]


def test_events_that_came_first_are_matched_before_whole_batches() -> None:
    index = Blocked()
    with Stream(index, max_delay_ms=0, workers=1) as stream:
        stream.submit_many(["a"] * 5)
        while not index.asked:
            threading.Event().wait(0.001)
        stream.submit("a")
        threading.Event().wait(0.01)
        stream.submit_many(["a"] * 3)
        index.may_match.set()
    assert index.asked == [5, 1, 3]


def test_a_whole_batch_does_not_wait_for_events_that_wait_for_others() -> None:
    with INDEX.stream(max_delay_ms=float("inf"), workers=1) as stream:
        event = stream.submit("a")
        threading.Event().wait(0.05)
        assert stream.submit_many(["b"]).result(timeout=30).to_lists() == [[2]]
        assert event.result(timeout=30) == [1]


def test_a_whole_batch_is_matched_though_the_event_before_it_is_refused() -> None:
    index = Blocked()
    stream = Stream(index, max_delay_ms=0, workers=1)
    stream.submit_many(["a"])
    while not index.asked:
        threading.Event().wait(0.001)
    pending = stream._pending
    pending.append(Answer("a"))
    whole = stream.submit_many(["b"])
    wait_for = stream._wait_for

    def late(n_events: int, until: float | None) -> None:
        if until is not None:  # the event has been seen
            pending.clear()
        wait_for(n_events, until)

    stream._wait_for = late  # type: ignore[method-assign]
    index.may_match.set()
    stream.close()
    assert whole.result(timeout=0).to_lists() == [[2]]


@pytest.mark.parametrize("submit", ["submit", "submit_many"])
@pytest.mark.parametrize("failure", [SystemExit, KeyboardInterrupt])
def test_a_callback_that_wants_to_end_the_program_does_not_end_the_stream(
    submit: str, failure: type[BaseException]
) -> None:
    def fail(_: Any) -> None:
        raise failure

    with INDEX.stream(max_delay_ms=0) as stream:
        future = getattr(stream, submit)("a" if submit == "submit" else ["a"])
        future.add_done_callback(fail)
        future.result(timeout=30)
        for _ in range(5):
            assert stream.submit("b").result(timeout=30) == [2]


def test_a_callback_cannot_close_its_stream() -> None:
    said: list[str] = []

    def close(future: Any) -> None:
        try:
            stream.close()
        except my.UsageError as error:
            said.append(str(error))

    with INDEX.stream(max_delay_ms=0) as stream:
        stream.submit("a").add_done_callback(close)
        assert stream.submit("b").result(timeout=30) == [2]
    assert len(said) == 1
    assert "close" in said[0]


def test_an_error_that_is_kept_keeps_no_events() -> None:
    class Event(set[str]):
        """Can be referred to weakly."""

    events = [Event({"a"}) for _ in range(3)]
    with INDEX.stream(max_batch=4, max_delay_ms=60_000) as stream:
        futures = [stream.submit(event) for event in (*events, 17)]
        error = futures[3].exception(timeout=30)
    kept = [weakref.ref(event) for event in events]
    del events, futures, stream
    gc.collect()
    assert isinstance(error, my.MatchyardError)
    assert [one() for one in kept] == [None] * 3


def test_a_whole_batch_may_be_cancelled_and_may_fail() -> None:
    index = Blocked()
    with Stream(index, workers=1) as stream:
        first, second = stream.submit_many(["a"]), stream.submit_many(["b"])
        while not first.running():
            threading.Event().wait(0.001)
        assert second.cancel()
        assert not first.cancel()
        index.may_match.set()
        assert first.result(timeout=30).to_lists() == [[1]]
        index.failure = SystemExit("no more")
        with pytest.raises(SystemExit, match="no more"):
            stream.submit_many(["a"]).result(timeout=30)
        index.failure = None
        assert stream.submit("a").result(timeout=30) == [1]
    assert index.asked == [1, 1, 1]
