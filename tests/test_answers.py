"""The futures of a stream, which share a lock, behave as those of the standard library."""

from __future__ import annotations

import asyncio
import threading
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
