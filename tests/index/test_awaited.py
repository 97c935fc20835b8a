"""`await stream.match(event)`: the keys or errors of `match`, for many tasks, with cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import matchyard as my
from matchyard.index.stream import Stream


@pytest.fixture
def index() -> my.Index:
    return my.TagIndex().add("a", 1).add("a b", 2).consolidate()


class Gate:
    """An index whose matches wait until they may go on, and that notes the events it has seen."""

    def __init__(self, index: my.Index) -> None:
        self._index, self.seen = index, []
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def match(self, events: Any, threads: int | None = None) -> my.Matches:
        self.seen += events
        self.has_begun.set()
        assert self.may_end.wait(30)
        return self._index.match(events)


def test_a_thousand_tasks_get_their_keys(index: my.Index) -> None:
    async def ask() -> list[list[int]]:
        async with index.stream(max_batch=64) as stream:
            return await asyncio.gather(
                *(stream.match("a b" if i % 3 else "a") for i in range(1000))
            )

    assert [sorted(keys) for keys in asyncio.run(ask())] == [
        [1, 2] if i % 3 else [1] for i in range(1000)
    ]


def test_a_bad_event_fails_alone(index: my.Index) -> None:
    async def ask() -> list[Any]:
        async with index.stream() as stream:
            tasks = (stream.match(event) for event in ("a", 7, "a b", None))
            return await asyncio.gather(*tasks, return_exceptions=True)

    first, second, third, fourth = asyncio.run(ask())
    assert (first, sorted(third)) == ([1], [1, 2])
    assert isinstance(second, my.ParseError)
    assert isinstance(fourth, my.ParseError)
    with pytest.raises(my.ParseError) as same:
        index.match([7])
    assert str(second) == str(same.value)


def test_a_cancelled_event_is_not_matched_and_the_others_are(index: my.Index) -> None:
    gate = Gate(index)

    async def ask() -> list[Any]:
        stream = Stream(gate, max_batch=1, max_delay_ms=0, workers=1)
        async with stream:
            first = asyncio.create_task(stream.match("a"))
            await asyncio.to_thread(gate.has_begun.wait, 30)
            waiting = [asyncio.create_task(stream.match(f"a x{i}")) for i in range(4)]
            await asyncio.sleep(0)
            waiting[1].cancel()
            waiting[2].cancel()
            await asyncio.sleep(0)
            gate.may_end.set()
            return await asyncio.gather(first, *waiting, return_exceptions=True)

    answers = asyncio.run(ask())
    assert [answers[0], answers[1], answers[4]] == [[1]] * 3
    assert all(isinstance(one, asyncio.CancelledError) for one in answers[2:4])
    assert gate.seen == ["a", "a x0", "a x3"]


def test_a_task_may_be_cancelled_while_its_event_is_matched(index: my.Index) -> None:
    gate = Gate(index)

    async def ask() -> list[int]:
        async with Stream(gate, max_batch=1, max_delay_ms=0, workers=1) as stream:
            task = asyncio.create_task(stream.match("a"))
            await asyncio.to_thread(gate.has_begun.wait, 30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            gate.may_end.set()
            return await stream.match("a b")

    assert sorted(asyncio.run(ask())) == [1, 2]


def test_a_timeout_cancels(index: my.Index) -> None:
    gate = Gate(index)

    async def ask() -> None:
        async with Stream(gate, max_batch=1, max_delay_ms=0, workers=1) as stream:
            try:
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(stream.match("a"), 0.05)
            finally:
                gate.may_end.set()

    asyncio.run(ask())


def test_loops_of_several_threads_share_a_stream(index: my.Index) -> None:
    answers: list[list[int]] = []

    async def ask(stream: Any) -> list[list[int]]:
        return [await stream.match("a") for _ in range(50)]

    with index.stream(max_delay_ms=0.1) as stream:
        loops = [
            threading.Thread(target=lambda: answers.extend(asyncio.run(ask(stream))))
            for _ in range(4)
        ]
        for loop in loops:
            loop.start()
        for loop in loops:
            loop.join()
    assert answers == [[1]] * 200


def test_an_answer_for_a_loop_that_is_closed_harms_nobody(index: my.Index) -> None:
    gate = Gate(index)

    async def leave(stream: Any) -> None:
        task = asyncio.ensure_future(stream.match("a"))
        await asyncio.to_thread(gate.has_begun.wait, 30)
        task.cancel()

    with Stream(gate, max_batch=1, max_delay_ms=0, workers=1) as stream:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(leave(stream))
        loop.close()
        gate.may_end.set()
        assert stream.submit("a").result(30) == [1]


def test_a_closed_stream_refuses(index: my.Index) -> None:
    stream = index.stream()
    stream.close()

    async def ask() -> None:
        with pytest.raises(my.UsageError, match="closed"):
            await stream.match("a")

    asyncio.run(ask())


@pytest.fixture(autouse=True)
def no_threads_are_left() -> Iterator[None]:
    yield
    assert not [one for one in threading.enumerate() if one.name.startswith("matchyard-stream")]
