"""Threads that submit, match and close a stream, each at the worst moment for the others."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest

import matchyard as my
from matchyard.index.futures import Answer
from matchyard.index.stream import Stream

INDEX = my.TagIndex().add_many([["a"], ["b"]], [1, 2]).consolidate()


def test_what_is_submitted_while_a_stream_closes_is_matched_or_refused(hasty: None) -> None:
    for max_batch in (1, 3, 100):
        taken: list[Future[list[Any]]] = []
        stream = INDEX.stream(max_batch, max_delay_ms=1)

        def work(stream: Any = stream, taken: list[Future[list[Any]]] = taken) -> None:
            while True:
                try:
                    taken.append(stream.submit("a"))
                except my.UsageError:
                    return

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(taken) < 50:
            threading.Event().wait(0.001)
        stream.close()
        for thread in threads:
            thread.join(30)
        assert all(future.result(timeout=0) == [1] for future in taken)
        assert not stream._pending


class Interleaved(list[Any]):
    """What is pending, and what happens right after a step of another thread."""

    def __init__(self) -> None:
        super().__init__()
        self.after_slice: Any = None
        self.after_append: Any = None

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        if isinstance(place, slice) and place.stop > 1 and found and self.after_slice:
            then, self.after_slice = self.after_slice, None
            then()
        return found

    def append(self, answer: Any) -> None:
        super().append(answer)
        if self.after_append:
            then, self.after_append = self.after_append, None
            then()


def test_an_event_that_comes_while_a_batch_is_taken_is_in_the_next() -> None:
    later: list[Any] = []
    with INDEX.stream(max_delay_ms=0) as stream:
        stream._pending = pending = Interleaved()
        pending.after_slice = lambda: later.append(stream.submit("b"))
        assert stream.submit("a").result(timeout=30) == [1]
        assert later[0].result(timeout=30) == [2]


def test_an_event_that_was_matched_is_not_refused_though_the_stream_has_closed() -> None:
    stream = INDEX.stream(max_delay_ms=0)
    stream._pending = pending = Interleaved()
    pending.after_append = stream.close
    assert stream.submit("a").result(timeout=30) == [1]


def test_who_waits_for_room_is_told_when_the_stream_closes() -> None:
    refused, waits, go = [], threading.Event(), threading.Event()
    stream = INDEX.stream(max_batch=1, max_delay_ms=0)
    stream._pending = pending = Interleaved()
    pending.after_append = lambda: (waits.set(), go.wait())
    stream._wake.ring = lambda: None  # type: ignore[method-assign]

    def submit() -> None:
        try:
            stream.submit("a")
        except my.UsageError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=submit, daemon=True) for _ in range(2)]
    threads[0].start()
    waits.wait()  # it has come, and nobody knows of it
    threads[1].start()
    while not stream._has_room._tickets:
        threading.Event().wait(0.001)

    def late() -> None:
        go.set()
        threads[0].join(30)
        del stream._wake.ring
        stream._wake.ring()

    stream._wake.ring = late  # type: ignore[method-assign]
    stream.close()
    threads[1].join(30)
    assert not threads[1].is_alive()
    assert refused == ["the stream is closed"] * 2


def test_a_stream_goes_on_after_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    with INDEX.stream(max_delay_ms=0) as stream:
        while stream._wanted != 1:
            threading.Event().wait(0.001)
        monkeypatch.setattr(stream._wake, "ring", interrupt)
        with pytest.raises(KeyboardInterrupt):
            stream.submit("a")
        assert stream.submit("b").result(timeout=30) == [2]


def test_who_waits_for_room_wakes_a_worker_that_nobody_has_woken() -> None:
    with INDEX.stream(max_batch=1, max_delay_ms=0) as stream:
        while stream._wanted != 1:
            threading.Event().wait(0.001)
        first = Answer("a")
        stream._pending.append(first)  # and then Ctrl-C came
        assert stream.submit("b").result(timeout=30) == [2]
        assert first.result(timeout=30) == [1]


def test_a_callback_may_submit_more() -> None:
    found: list[Future[list[Any]]] = []
    with INDEX.stream(max_batch=1, max_delay_ms=0, workers=1) as stream:
        for _ in range(20):
            future = stream.submit("a")
            future.add_done_callback(lambda _: found.append(stream.submit("b")))
            future.result(timeout=30)
        while len(found) < 20:
            threading.Event().wait(0.01)
    assert [future.result() for future in found] == [[2]] * 20


@pytest.mark.parametrize("workers", [1, 2])
def test_callbacks_that_submit_do_not_wait_for_the_workers_that_they_keep(workers: int) -> None:
    over = threading.Semaphore(0)
    with INDEX.stream(max_batch=2, max_delay_ms=0, workers=workers) as stream:

        def more(left: int) -> None:
            future = stream.submit("a")
            if left:
                future.add_done_callback(lambda _: [more(0) for _ in range(left)])
            future.add_done_callback(lambda _: over.release())

        for _ in range(10):
            more(20)
        assert all(over.acquire(timeout=30) for _ in range(210))


def test_callbacks_of_two_streams_may_submit_to_each_other() -> None:
    over = threading.Semaphore(0)
    with INDEX.stream(2, 0) as first, INDEX.stream(2, 0) as second:

        def more(here: Stream, there: Stream, left: int) -> None:
            future = here.submit("a")
            if left:
                future.add_done_callback(lambda _: more(there, here, left - 1))
            future.add_done_callback(lambda _: over.release())

        for _ in range(40):
            more(first, second, 20)
        assert all(over.acquire(timeout=30) for _ in range(40 * 21))


class Late(Stream):
    """An event comes right before a worker says what it waits for."""

    @property
    def _wanted(self) -> int:  # type: ignore[override]
        return self._said

    @_wanted.setter
    def _wanted(self, wanted: int) -> None:
        if wanted == 1 and not hasattr(self, "late"):
            self.late = Answer("a")
            self._pending.append(self.late)
        self._said = wanted


def test_an_event_that_comes_before_a_worker_waits_wakes_it() -> None:
    with Late(INDEX, max_delay_ms=0) as stream:
        while not hasattr(stream, "late"):
            threading.Event().wait(0.001)
        assert stream.late.result(timeout=30) == [1]
