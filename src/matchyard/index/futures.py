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
from time import monotonic
from typing import Any

from matchyard.errors import UsageError
from matchyard.threads.waiting import Bell

_WAS_CANCELLED = frozenset({CANCELLED, CANCELLED_AND_NOTIFIED})


class _Lock(_thread.RLock):  # type: ignore[misc]
    """That of an answer, for the library, with those who are to be told of it. It is left by C code,
    so that Ctrl-C does not leave it taken; whoever waits for the answer waits for its bell."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def notify_all(self) -> None:
        """As a condition has it, for which nobody waits."""


class Answer(Future[Any]):
    """A future that is made, set and called back without a lock, where nobody waits for it."""

    # What `Future` sets for each: most answers never have another state while somebody looks.
    _state = PENDING
    _result: Any = None
    _exception: Any = None
    _is_given = False  # there is a result or an error, though the state may not say so yet
    _bell: Bell | None = None  # of those who wait

    def __init__(self, event: Any) -> None:
        self._asked = [event]  # who takes it has the answer to give, or has cancelled it
        self._done_callbacks: list[Any] = []
        self._locks: list[_Lock] = []  # of several that are made at once, the first counts
        self.since = monotonic()

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        """What the library locks before it looks at the state or at those who wait."""
        self._is_left_behind()
        if not self._locks:
            self._locks.append(_Lock())
        lock = self._locks[0]
        if self._is_given and self._state != FINISHED:
            self._settle(lock)
        return lock  # type: ignore[return-value]

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
        return self._is_given or self._state in _WAS_CANCELLED or self._is_left_behind()

    def _is_left_behind(self) -> bool:
        """Was this process forked while the event waited? Then only the parent gets the answer, and
        whoever waits here is told so."""
        if self.since >= _forked_at or self._is_given or self._state in _WAS_CANCELLED:
            return False
        self._locks, self._bell = [], None  # which a thread of the parent may have
        self._exception = UsageError(
            "this process was forked while the event waited for its batch: only the parent gets the "
            "answer; expected a stream of this process, e.g. index.stream()"
        )
        self._is_given = True
        return True

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
        self._ring()
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
        if self.done():
            return
        until = None if timeout is None else monotonic() + timeout
        bell = self.__dict__.setdefault("_bell", Bell())  # the first counts
        while True:
            ticket = bell.ticket()
            if self.done():
                return
            if not bell.wait(ticket, None if until is None else until - monotonic()):
                raise TimeoutError

    def _ring(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    def _finish(self, found: Any) -> None:
        if isinstance(found, BaseException):
            self._exception = found
        else:
            self._result = found
        self._is_given = True
        if self._bell is not None:
            self._bell.ring()
        if self._locks:
            self._settle(self._locks[0])

    def _settle(self, lock: _Lock) -> None:
        """Change the state and tell those who wait, unless that was done."""
        with lock:
            if self._state != FINISHED:
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


_forked_at = 0.0  # when this process was; answers from before are given in its parent


def _after_fork() -> None:
    global _forked_at
    _forked_at = monotonic()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


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
