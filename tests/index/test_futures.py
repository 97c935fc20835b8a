"""The futures of a stream, which hardly ever have a lock, behave as those of the standard library."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from concurrent.futures import (
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    CancelledError,
    Future,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from typing import Any

import pytest

import matchyard as my
from matchyard.index.futures import Answer, begin, give


def answers(n: int) -> list[Answer]:
    return [Answer(None) for _ in range(n)]


def answer(batch: list[Answer], found: list[Any]) -> None:
    begun, _ = begin(batch)
    assert begun == batch
    give(batch, found)


def test_they_have_what_futures_have() -> None:
    (one,) = answers(1)
    assert all(hasattr(one, name) for name in ("_condition", *vars(Future())))
    assert isinstance(one, Future)
    assert not one.done()


def test_who_waits_for_one_is_not_woken_by_another() -> None:
    first, second, third = answers(3)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(one.result, 60) for one in (second, third)]
        assert first.cancel()
        answer([third], [[3]])
        assert waiting[1].result(60) == [3]
        assert not waiting[0].done()
        answer([second], [[2]])
        assert waiting[0].result(60) == [2]
    with pytest.raises(CancelledError):
        first.result()
    with pytest.raises(CancelledError):
        first.exception()


def test_an_answer_that_does_not_come_is_a_timeout() -> None:
    (one,) = answers(1)
    with pytest.raises(TimeoutError):
        one.result(0.01)
    with pytest.raises(TimeoutError):
        one.exception(0.01)
    answer([one], [[1]])
    assert (one.result(0), one.exception(0)) == ([1], None)


def test_an_error_is_raised_and_told() -> None:
    good, bad = answers(2)
    error = my.UsageError("no")
    answer([good, bad], [[1], error])
    assert bad.exception() is error
    with pytest.raises(my.UsageError, match="no"):
        bad.result()
    assert good.result() == [1]
    answer([], [])


def test_callbacks_come_once_and_also_afterwards() -> None:
    (one,) = answers(1)
    seen: list[Any] = []
    one.add_done_callback(lambda one: seen.append(one.result()))
    one.add_done_callback(lambda one: seen.append("second"))
    answer([one], [[7]])
    one.add_done_callback(lambda one: seen.append("late"))
    assert seen == [[7], "second", "late"]
    (one,) = answers(1)
    one.cancel()
    one.add_done_callback(lambda one: seen.append(one.cancelled()))
    assert seen[3:] == [True]


def test_callbacks_come_once_also_where_they_are_added_meanwhile(hasty: None) -> None:
    asked, seen = answers(5000), []

    def add() -> None:
        for number, one in enumerate(asked):
            one.add_done_callback(lambda _, number=number: seen.append(number))

    adding = [threading.Thread(target=add) for _ in range(2)]
    for thread in adding:
        thread.start()
    for first in range(0, len(asked), 10):
        answer(asked[first : first + 10], [[]] * 10)
    for thread in adding:
        thread.join()
    assert sorted(seen) == sorted([*range(5000)] * 2)


@pytest.mark.parametrize("failure", [ValueError, SystemExit, asyncio.CancelledError])
def test_a_callback_that_fails_does_not_keep_others_from_theirs(
    failure: type[BaseException],
) -> None:
    def fail(_: Any) -> None:
        raise failure

    first, second = answers(2)
    seen: list[Any] = []
    first.add_done_callback(fail)
    for one in (first, second):
        one.add_done_callback(lambda one: seen.append(one.result()))
    answer([first, second], [[1], [2]])
    assert seen == [[1], [2]]


def test_a_thread_calls_its_own_callback_and_no_others() -> None:
    first, second = answers(2)
    seen: list[Any] = []
    begin([first, second])
    first.add_done_callback(lambda _: second.add_done_callback(lambda _: seen.append("mine")))
    second.add_done_callback(lambda _: seen.append("theirs"))
    give([first, second], [[], []])  # of the second, nothing is called when the first calls back
    assert seen == ["mine", "theirs"]


def test_what_is_cancelled_is_not_matched_and_what_is_matched_not_cancelled(hasty: None) -> None:
    for _ in range(300):
        asked = answers(10)
        with ThreadPoolExecutor(1) as pool:
            cancelling = pool.map(Answer.cancel, asked)
            begun, events = begin(asked)
            give(begun, [[1]] * len(begun))
        cancelled = list(cancelling)
        assert len(events) == len(begun)
        assert [one not in begun for one in asked] == cancelled
        assert [one.cancelled() for one in asked] == cancelled
        assert all(one.done() for one in asked)
    (one,) = answers(1)
    assert (one.cancel(), one.cancel(), begin([one])) == (True, True, ([], []))


def test_waits_for_answers_and_others_cross_without_a_deadlock() -> None:
    asked = answers(200)
    never: Future[None] = Future()
    low = [one for one in asked if id(one) < id(never)] or asked[:100]
    high = [one for one in asked if id(one) > id(never)] or asked[100:]

    def work(some: list[Any]) -> None:
        for _ in range(200):
            wait([*some, never], timeout=0)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work, some) for some in (low, high)]:
            done.result(timeout=60)


def test_an_answer_keeps_nothing_that_it_has_not_to() -> None:
    class Thing:
        pass

    gc.disable()
    try:
        for end in (lambda one: one.cancel(), lambda one: answer([one], [[1]])):
            thing = Thing()
            one, kept = Answer(thing), weakref.ref(thing)
            del thing
            end(one)  # type: ignore[no-untyped-call]
            assert kept() is None
        (one,) = answers(1)
        answer([one], [my.UsageError("no")])
        with pytest.raises(my.UsageError):
            one.result()
        ended = weakref.ref(one)
        del one
        assert ended() is None
    finally:
        gc.enable()


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


def test_the_library_is_told_of_errors() -> None:
    never, good, bad = answers(3)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait, [never, good, bad], 60, FIRST_EXCEPTION)
        while any(not one._locks or not one._waiters for one in (never, good, bad)):
            threading.Event().wait(0.001)
        answer([good], [[1]])
        assert not waiting.done()
        answer([bad], [my.UsageError("no")])
        assert waiting.result(60) == ({good, bad}, {never})


def test_a_coroutine_can_await_them() -> None:
    async def matched(stream: Any) -> list[Any]:
        return await asyncio.gather(
            *(asyncio.wrap_future(stream.submit(event)) for event in ("jazz", "rock", "jazz"))
        )

    with my.TagIndex().add("jazz", 1).consolidate().stream(max_delay_ms=1) as stream:
        assert asyncio.run(matched(stream)) == [[1], [], [1]]


def test_one_that_is_answered_while_the_library_looks_is_counted_once() -> None:
    """Its state changes under the lock, if it has one: `wait` and `as_completed` hold that."""
    (one,) = answers(1)
    begin([one])
    told: list[Any] = []

    class Waiter:
        add_result = add_exception = told.append

    with one._condition:
        giving = threading.Thread(target=give, args=([one], [[1]]))
        giving.start()
        while not one._is_given:
            threading.Event().wait(0.001)
        counted = one._state == "FINISHED"
        one._waiters.append(Waiter())
    giving.join(30)
    assert counted + len(told) == 1
    assert (one.result(0), one.done(), one._state) == ([1], True, "FINISHED")


def test_one_without_a_lock_is_settled_when_it_gets_one() -> None:
    good, bad, gone = answers(3)
    assert gone.cancel()
    begin([good, bad])
    give([good, bad], [[1], my.UsageError("no")])
    assert not good.running()
    assert "finished" in repr(good)
    assert wait([good, bad, gone], 0).not_done == {gone}  # until its batch is begun
    assert begin([gone]) == ([], [])
    assert wait([good, bad, gone], 0).done == {good, bad, gone}


def test_all_are_completed_once_while_they_are_answered(hasty: None) -> None:
    for _ in range(60):
        asked = answers(60)

        def work(asked: list[Answer] = asked) -> None:
            for first in range(0, 60, 6):
                answer(asked[first : first + 6], [[]] * 6)

        answering = threading.Thread(target=work)
        answering.start()
        assert set(as_completed(asked, 60)) == set(asked)
        assert wait(asked, 60).not_done == set()
        answering.join()


def test_one_that_goes_may_cancel_another_whenever_it_goes() -> None:
    class Owner:
        def __init__(self, answer: Answer) -> None:
            self.answer, self.own = answer, self  # a cycle, which goes while a lock is made

        def __del__(self) -> None:
            self.answer.cancel()

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for one in answers(300):
            Owner(Answer(None))
            assert not one.running()
    finally:
        gc.set_threshold(*before)


def test_an_event_whose_cancelling_was_interrupted_is_not_waited_for() -> None:
    (one,) = answers(1)
    one._asked.pop()  # and then Ctrl-C came
    seen: list[Any] = []
    one.add_done_callback(seen.append)
    assert begin([one]) == ([], [])
    with pytest.raises(CancelledError):
        one.result(timeout=30)
    assert seen == [one]
