"""Answer: the future of an event of a stream.

To make a `Future` and to set it takes several times as long as to match an event, most of it for the
lock that each one has. An answer gets one when somebody waits for it, and else does without: a step of
the interpreter is whole, so that of two who pop from a list of one only one gets it, and the order of
steps does the rest. Who sets an answer looks afterwards for those who wait; who waits has made the lock
before he looks whether there is something to wait for. The library, which looks at the state under the
lock and then leaves word where it wants to be told, finds the state of an answer with a lock changed
under it, once.
"""

from __future__ import annotations

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
from time import monotonic
from typing import Any

_WAS_CANCELLED = frozenset({CANCELLED, CANCELLED_AND_NOTIFIED})


class _Lock(threading.Condition):
    """That of an answer, with those who are to be told of it."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Any] = []


class Answer(Future[Any]):
    """A future that is made, set and called back without a lock, where nobody waits for it."""

    # What `Future` sets for each: most answers never have another state while somebody looks.
    _state = PENDING
    _result: Any = None
    _exception: Any = None
    _is_given = False  # there is a result or an error, though the state may not say so yet

    def __init__(self, event: Any) -> None:
        self._asked = [event]  # who takes it has the answer to give, or has cancelled it
        self._done_callbacks: list[Any] = []
        self._locks: list[_Lock] = []  # of several that are made at once, the first counts
        self.since = monotonic()

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        """What the library locks before it looks at the state or at those who wait."""
        if not self._locks:
            self._locks.append(_Lock())
        lock = self._locks[0]
        if self._is_given and self._state != FINISHED:
            self._settle(lock)
        return lock

    @property
    def _waiters(self) -> list[Any]:  # type: ignore[override]
        """Where the library leaves word under the lock."""
        return self._locks[0].told

    def result(self, timeout: float | None = None) -> Any:
        """What was found for the event, when it is there."""
        self._wait(timeout)
        if self._is_given and self._exception is None:
            return self._result
        try:
            return super().result(0)
        finally:
            del self  # which the error that is raised has a way to, otherwise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What went wrong with the event, when that is known."""
        self._wait(timeout)
        return self._exception if self._is_given else super().exception(0)

    def done(self) -> bool:
        """Is it answered or cancelled?"""
        return self._is_given or self._state in _WAS_CANCELLED

    def cancelled(self) -> bool:
        """Was it cancelled?"""
        return self._state in _WAS_CANCELLED

    def cancel(self) -> bool:
        """Take the event back, unless it is being matched already."""
        with self._condition:
            try:
                self._asked.pop()
            except IndexError:
                return self._state in _WAS_CANCELLED
            self._state = CANCELLED
            self._condition.notify_all()
        self._invoke_callbacks()
        return True

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """Call this with the future when it is over; at once where it is."""
        self._done_callbacks.append(fn)
        if self._is_given or self._state in _WAS_CANCELLED:  # as `done` says, without a call of it
            try:
                self._done_callbacks.remove(fn)
            except ValueError:  # it is being called already
                return
            self._call_back(fn)

    def _wait(self, timeout: float | None) -> None:
        if not self.done():
            condition = self._condition
            with condition:
                if not condition.wait_for(self.done, timeout):
                    raise TimeoutError

    def _finish(self, found: Any) -> None:
        if isinstance(found, BaseException):
            self._exception = found
        else:
            self._result = found
        self._is_given = True
        if self._locks:
            self._settle(self._locks[0])

    def _settle(self, lock: _Lock) -> None:
        """Change the state and tell those who wait, unless that was done."""
        with lock:
            if self._state != FINISHED:
                lock.notify_all()  # first, since Ctrl-C may come in between
                self._state = FINISHED
                for waiter in lock.told:
                    told = waiter.add_result if self._exception is None else waiter.add_exception
                    told(self)

    def _invoke_callbacks(self) -> None:
        """Call those that nobody has called yet."""
        while self._done_callbacks:
            try:
                callback = self._done_callbacks.pop(0)
            except IndexError:  # another thread has just taken the last one
                return
            self._call_back(callback)

    def _call_back(self, callback: Callable[[Future[Any]], object]) -> None:
        try:
            callback(self)
        except BaseException as error:  # those of other events are still to be called
            if isinstance(error, KeyboardInterrupt) and _may_be_interrupted():
                raise
            LOGGER.exception("exception calling callback for %r", self)


def _may_be_interrupted() -> bool:
    """Does Ctrl-C come to this thread?"""
    return threading.current_thread() is threading.main_thread()


def begin(batch: Iterable[Answer]) -> tuple[list[Answer], list[Any]]:
    """Those that were not cancelled, which they cannot be from now on, and their events."""
    begun, events = [], []
    for one in batch:
        try:
            events.append(one._asked.pop())
        except IndexError:
            if one.set_running_or_notify_cancel():  # who cancelled it was interrupted
                give([one], [CancelledError()])
            continue
        one._state = RUNNING
        begun.append(one)
    return begun, events


def give(batch: Sequence[Answer], found: Iterable[Any]) -> None:
    """Give each event its keys, or its error, and then call back."""
    for one, keys in zip(batch, found):
        one._finish(keys)
    for one in batch:
        if one._done_callbacks:
            one._invoke_callbacks()
