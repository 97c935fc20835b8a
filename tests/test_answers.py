"""The futures of a stream, which share a lock, behave as those of the standard library."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Future,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from typing import Any

import pytest

import matchyard as my
from matchyard.streaming import Answer, _answer


def answers(n: int) -> list[Answer]:
    over = threading.Condition()
    return [Answer(None, over) for _ in range(n)]


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_they_have_what_futures_have() -> None:
    (answer,) = answers(1)
    assert vars(answer).keys() - {"event", "since"} == vars(Future()).keys()
    assert isinstance(answer, Future)
    assert not answer.done()


def test_who_waits_for_one_is_not_woken_by_another() -> None:
    first, second, third = answers(3)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(one.result, 60) for one in (second, third)]
        assert first.cancel()
        _answer([third], [[3]])
        assert waiting[1].result(60) == [3]
        assert not waiting[0].done()
        _answer([second], [[2]])
        assert waiting[0].result(60) == [2]
    with pytest.raises(CancelledError):
        first.result()
    with pytest.raises(CancelledError):
        first.exception()


def test_an_answer_that_does_not_come_is_a_timeout() -> None:
    (answer,) = answers(1)
    with pytest.raises(TimeoutError):
        answer.result(0.01)
    with pytest.raises(TimeoutError):
        answer.exception(0.01)
    _answer([answer], [[1]])
    assert (answer.result(0), answer.exception(0)) == ([1], None)


def test_an_error_is_raised_and_told() -> None:
    good, bad = answers(2)
    error = my.UsageError("no")
    _answer([good, bad], [[1], error])
    assert bad.exception() is error
    with pytest.raises(my.UsageError, match="no"):
        bad.result()
    assert good.result() == [1]
    _answer([], [])


def test_callbacks_come_once_and_also_afterwards() -> None:
    (answer,) = answers(1)
    seen: list[Any] = []
    answer.add_done_callback(lambda one: seen.append(one.result()))
    _answer([answer], [[7]])
    answer.add_done_callback(lambda one: seen.append(one.result()))
    assert seen == [[7], [7]]


def test_callbacks_come_once_also_where_they_are_added_meanwhile(hasty: None) -> None:
    asked, seen = answers(5000), []

    def add() -> None:
        for number, answer in enumerate(asked):
            answer.add_done_callback(lambda _, number=number: seen.append(number))

    adding = [threading.Thread(target=add) for _ in range(2)]
    for thread in adding:
        thread.start()
    for first in range(0, len(asked), 10):
        _answer(asked[first : first + 10], [[]] * 10)
    for thread in adding:
        thread.join()
    assert sorted(seen) == sorted([*range(5000)] * 2)


def test_a_callback_that_fails_does_not_keep_others_from_theirs() -> None:
    first, second = answers(2)
    seen: list[Any] = []
    first.add_done_callback(lambda one: one.result()["no"])  # type: ignore[call-overload]
    for one in (first, second):
        one.add_done_callback(lambda one: seen.append(one.result()))
    _answer([first, second], [[1], [2]])
    assert seen == [[1], [2]]


def test_what_is_submitted_while_a_stream_closes_is_matched_or_refused(hasty: None) -> None:
    index = my.TagIndex().add("jazz", 1).consolidate()
    for max_batch in (1, 3, 100):
        taken: list[Future[list[Any]]] = []
        stream = index.stream(max_batch, max_delay_ms=1)

        def work(stream: Any = stream, taken: list[Future[list[Any]]] = taken) -> None:
            while True:
                try:
                    taken.append(stream.submit("jazz"))
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


def test_the_library_can_wait_for_them() -> None:
    with my.TagIndex().add("jazz", 1).consolidate().stream(max_delay_ms=1) as stream:
        futures = [stream.submit("jazz" if i % 2 else "rock") for i in range(50)]
        found = {future: future.result() for future in as_completed(futures, timeout=60)}
        done, left = wait(futures, timeout=60)
    assert [found[future] for future in futures] == [[1] if i % 2 else [] for i in range(50)]
    assert (len(done), len(left)) == (50, 0)
    (never,) = answers(1)
    done, left = wait([never, futures[0]], timeout=60, return_when=FIRST_COMPLETED)
    assert (done, left) == ({futures[0]}, {never})


def test_a_coroutine_can_await_them() -> None:
    async def matched(stream: Any) -> list[Any]:
        return await asyncio.gather(
            *(asyncio.wrap_future(stream.submit(event)) for event in ("jazz", "rock", "jazz"))
        )

    with my.TagIndex().add("jazz", 1).consolidate().stream(max_delay_ms=1) as stream:
        assert asyncio.run(matched(stream)) == [[1], [], [1]]
