"""Answer: the future of an event of a stream.

Making and setting a `Future` takes several times as long as matching an event, mostly because of
its lock. An answer therefore makes a lock only when a thread waits for it. Without a lock, two
rules keep it correct. A step of the interpreter is atomic: if two threads pop from a list of one
element, only one gets it. And the order of steps is fixed: the thread that sets an answer checks
for waiting threads afterwards; a waiting thread makes the lock or bell before it checks the state.
`concurrent.futures.wait` reads our state under `_condition`; we therefore change it under the same
lock, once.
"""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future, TimeoutError
from concurrent.futures._base import (
    CANCELLED,
    CANCELLED_AND_NOTIFIED,
    FINISHED,
    LOGGER,
    PENDING,
    RUNNING,
)
from contextlib import suppress
from time import monotonic
from typing import Any

from matchyard.errors import UsageError
from matchyard.threads.waiting import Bell

_WAS_CANCELLED = frozenset({CANCELLED, CANCELLED_AND_NOTIFIED})


class _Lock(_thread.RLock):  # type: ignore[misc]
    """The lock of an answer for `concurrent.futures`, with that library's waiters. C code releases
    it, so that Ctrl-C cannot leave it locked. Threads wait for the answer's bell instead."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def notify_all(self) -> None:
        """Do nothing: the library calls it as on a condition, but no thread waits for this lock."""


class Answer(Future[Any]):
    """A future that needs no lock as long as no thread waits for it."""

    # `Future` sets these in each instance; here most answers share the values of the class.
    _state = PENDING
    _result: Any = None
    _exception: Any = None
    _is_given = False  # True: has a result or an error, even if `_state` is not FINISHED yet
    _bell: Bell | None = None  # wakes the waiting threads
    loop: Any = None  # the event loop of `awaited`

    def __init__(self, event: Any) -> None:
        self._asked = [event]  # the thread that pops the event must answer it, or has cancelled it
        self._done_callbacks: list[Any] = []
        self._locks: list[_Lock] = []  # if several threads append one, the first counts
        self.since = monotonic()

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        """The lock that `concurrent.futures` takes before it reads the state or the waiters."""
        self._is_left_behind()
        if not self._locks:
            self._locks.append(_Lock())
        lock = self._locks[0]
        if self._is_given and self._state != FINISHED:
            self._settle(lock)
        return lock  # type: ignore[return-value]

    @property
    def _waiters(self) -> list[Any]:  # type: ignore[override]
        """The list to which `concurrent.futures` adds its waiters, under the lock."""
        return self._locks[0].told

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the event's keys, and return them."""
        self._wait(timeout)
        if self._is_given and self._exception is None:
            return self._result
        try:
            return super().result(0)
        finally:
            del self  # the frames of the raised error would keep it alive

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the answer, and return its error, or None."""
        self._wait(timeout)
        return self._exception if self._is_given else super().exception(0)

    def done(self) -> bool:
        """True if the event is answered or cancelled."""
        return self._is_given or self._state in _WAS_CANCELLED or self._is_left_behind()

    def _is_left_behind(self) -> bool:
        """True if this process was forked while the event waited. Only the parent gets the answer
        then, so the answer here becomes an error."""
        if self.since >= _forked_at or self._is_given or self._state in _WAS_CANCELLED:
            return False
        self._locks, self._bell = [], None  # a thread of the parent may hold the old ones
        self._exception = UsageError(
            "this process was forked while the event waited for its batch: only the parent gets the "
            "answer; expected a stream of this process, e.g. index.stream()"
        )
        self._is_given = True
        return True

    def cancelled(self) -> bool:
        """True if the event was cancelled."""
        return self._state in _WAS_CANCELLED

    def cancel(self) -> bool:
        """Cancel the event unless a worker has begun to match it; True if it is cancelled."""
        with self._condition:
            try:
                self._asked.pop()
            except IndexError:
                return self._state in _WAS_CANCELLED
            self._state = CANCELLED
        self._ring()
        self._invoke_callbacks()
        return True

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """Call `fn` with the future when it is answered or cancelled; at once if it already is."""
        self._done_callbacks.append(fn)
        if self._is_given or self._state in _WAS_CANCELLED:  # `done` inlined, to save the call
            try:
                self._done_callbacks.remove(fn)
            except ValueError:  # another thread has taken the callback and calls it
                return
            self._call_back(fn)

    def _wait(self, timeout: float | None) -> None:
        if self.done():
            return
        until = None if timeout is None else monotonic() + timeout
        bell = self.__dict__.setdefault("_bell", Bell())  # all threads share the first bell
        while True:
            ticket = bell.ticket()
            if self.done():
                return
            if not bell.wait(ticket, None if until is None else until - monotonic()):
                raise TimeoutError

    def _ring(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    def _finish(self, result: Any) -> None:
        if isinstance(result, BaseException):
            self._exception = result
        else:
            self._result = result
        self._is_given = True
        if self._bell is not None:
            self._bell.ring()
        if self._locks:
            self._settle(self._locks[0])

    def _settle(self, lock: _Lock) -> None:
        """Set the state to FINISHED and tell the waiters of `concurrent.futures`, once."""
        with lock:
            if self._state != FINISHED:
                self._state = FINISHED
                for waiter in lock.told:
                    told = waiter.add_result if self._exception is None else waiter.add_exception
                    told(self)

    def _invoke_callbacks(self) -> None:
        """Call the callbacks that no thread has called yet."""
        while self._done_callbacks:
            try:
                callback = self._done_callbacks.pop(0)
            except IndexError:  # another thread has just taken the last one
                return
            self._call_back(callback)

    def _call_back(self, callback: Callable[[Future[Any]], object]) -> None:
        try:
            callback(self)
        except BaseException as error:  # the callbacks of other events must still run
            if isinstance(error, KeyboardInterrupt) and _may_be_interrupted():
                raise
            LOGGER.exception("exception calling callback for %r", self)


_forked_at = 0.0  # time of the fork of this process; its parent has the answers from before


def _after_fork() -> None:
    global _forked_at
    _forked_at = monotonic()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _may_be_interrupted() -> bool:
    """True if this thread gets Ctrl-C."""
    return threading.current_thread() is threading.main_thread()


def begin(batch: Iterable[Answer]) -> tuple[list[Answer], list[Any]]:
    """The answers that were not cancelled, and their events. They cannot be cancelled any more."""
    begun, events = [], []
    for one in batch:
        try:
            events.append(one._asked.pop())
        except IndexError:
            if one.set_running_or_notify_cancel():  # an interrupt stopped the thread that cancelled
                give([one], [CancelledError()])
            continue
        one._state = RUNNING
        begun.append(one)
    return begun, events


def give(batch: Sequence[Answer], results: Iterable[Any]) -> None:
    """Set the keys or the error of each event, then call the callbacks."""
    loops: dict[Any, list[Answer]] = {}
    for one, result in zip(batch, results):
        one._finish(result)
        if one.loop is not None:
            loops.setdefault(one.loop, []).append(one)
    for loop, awaited in loops.items():  # in one call: waking a loop costs more than a match
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            loop.call_soon_threadsafe(_wake, awaited)
    for one in batch:
        if one._done_callbacks:
            one._invoke_callbacks()


def _wake(awaited: Iterable[Any]) -> None:
    for answer in awaited:
        answer.wake()
