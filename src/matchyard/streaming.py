"""Stream: events one by one from many threads, matched in batches.

    submit ──▶ pending ──batcher: full, or old enough──▶ workers: index.match ──▶ a future each

Two workers take turns, so that one encodes while the other matches; on a GPU each has a stream of its
own, and copies overlap with kernels.

A thread that submits takes no lock unless it has to wait or to wake the batcher: threads that queue up
for a lock hand over the interpreter with it, and to hand it over takes longer than all the rest. What
takes its place is the order of two steps: whoever adds something looks afterwards whether somebody
waits for it, and whoever waits says so and looks again before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from concurrent.futures._base import (
    CANCELLED,
    CANCELLED_AND_NOTIFIED,
    FINISHED,
    LOGGER,
    PENDING,
    RUNNING,
)
from time import monotonic
from types import TracebackType
from typing import Any, Protocol

from matchyard.errors import DeviceError, EventError, MatchyardError, UsageError
from matchyard.matches import Matches

_NONE = 1 << 62  # as many events are never pending
_CLOSED = "the stream is closed"
_OVER = frozenset({CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED})


class Matching(Protocol):
    """What a stream needs of an index."""

    def match(self, events: Any, threads: int | None = None) -> Matches:
        """The keys per event."""


class Answer(Future[list[Any]]):
    """The future of an event. All of a stream have one lock: with one of its own each, to make and to
    set them would take several times as long as to match the events."""

    def __init__(self, event: Any, over: threading.Condition) -> None:
        # What `Future` would set, but for the lock.
        self._condition, self._state = over, PENDING
        self._result: Any = None
        self._exception: Any = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []
        self.event, self.since = event, monotonic()

    def result(self, timeout: float | None = None) -> list[Any]:
        """The keys of the event, when they are there."""
        if self._state != FINISHED:
            self._wait(timeout)
        is_plain = self._state == FINISHED and self._exception is None
        return self._result if is_plain else super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What went wrong with the event, when that is known."""
        if self._state != FINISHED:
            self._wait(timeout)
        return super().exception(0) if self._state != FINISHED else self._exception

    def _wait(self, timeout: float | None) -> None:
        with self._condition:
            if not self._condition.wait_for(self._is_over, timeout):
                raise TimeoutError

    def _is_over(self) -> bool:
        return self._state in _OVER

    def add_done_callback(self, fn: Callable[[Future[list[Any]]], object]) -> None:
        """Call this with the future when it is over; at once where it is."""
        self._done_callbacks.append(fn)
        if self._state in _OVER:
            self._invoke_callbacks()

    def _invoke_callbacks(self) -> None:
        """Call those that nobody has called yet: who takes one from the list does."""
        while self._done_callbacks:
            try:
                callback = self._done_callbacks.pop(0)
            except IndexError:  # another thread has just taken the last one
                return
            try:
                callback(self)
            except Exception:
                LOGGER.exception("exception calling callback for %r", self)

    def _finish(self, found: Any) -> None:
        """Note the keys, or the error. Whoever calls it has the lock, and tells those who wait."""
        if isinstance(found, BaseException):
            self._exception = found
        else:
            self._result = found
        self._state = FINISHED
        for waiter in self._waiters:
            (waiter.add_result if self._exception is None else waiter.add_exception)(self)


def _answer(batch: Sequence[Answer], found: Sequence[Any]) -> None:
    """Give all events of a batch their keys, or errors, and call back."""
    if not batch:
        return
    with batch[0]._condition:
        for one, keys in zip(batch, found, strict=True):
            one._finish(keys)
        batch[0]._condition.notify_all()
    for one in batch:
        if one._done_callbacks:
            one._invoke_callbacks()


class Stream:
    """Made by `Index.stream`. Use it in a `with` statement, or `close` it: what was submitted is
    matched before it ends. A callback of a future may `submit`, but not `close`.

    >>> import matchyard as my
    >>> index = my.TagIndex().add("jazz", key=1).consolidate()
    >>> with index.stream() as stream:
    ...     futures = [stream.submit(event) for event in ("jazz oslo", "rock")]
    >>> [future.result() for future in futures]
    [[1], []]
    """

    def __init__(
        self, index: Matching, max_batch: int = 256, max_delay_ms: float = 2.0, workers: int = 2
    ) -> None:
        if max_batch < 1 or workers < 1 or not max_delay_ms >= 0:
            raise UsageError("max_batch and workers must be at least 1, max_delay_ms at least 0")
        self._index, self._max_batch, self._max_delay_s = index, max_batch, max_delay_ms / 1e3
        self._pending: list[Answer] = []  # only the batcher takes from it, and what was refused
        self._wanted = _NONE  # how many have to be pending for the batcher to be woken
        self._is_closed = False
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)  # the batcher
        self._has_room = threading.Condition(self._lock)  # for whoever submits
        self._over = threading.Condition()  # an event, or several
        self._free = threading.Semaphore(workers)
        self._worker_ids: set[int] = set()
        self._workers = ThreadPoolExecutor(
            workers, "matchyard-stream", lambda: self._worker_ids.add(threading.get_ident())
        )
        self._batcher = threading.Thread(
            target=self._run, name="matchyard-stream-batcher", daemon=True
        )
        self._batcher.start()

    def submit(self, event: Any) -> Future[list[Any]]:
        """The keys of an event, when its batch is matched. It waits where a whole batch does."""
        if len(self._pending) >= self._max_batch:
            self._wait_for_room()
        answer = Answer(event, self._over)
        self._pending.append(answer)
        if self._is_closed:
            self._refuse(answer)
        elif len(self._pending) >= self._wanted:
            self._wake_batcher()
        return answer

    def submit_many(self, events: Any) -> Future[Matches]:
        """The matches of events that are a batch already: all that `Index.match` takes."""
        with self._lock:
            if self._is_closed:
                raise UsageError(_CLOSED)
            return self._workers.submit(self._index.match, events, 1)

    def close(self) -> None:
        """Match what is pending, and end."""
        self._is_closed = True
        self._wake_batcher()
        self._batcher.join()
        self._workers.shutdown()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _wait_for_room(self) -> None:
        if threading.get_ident() in self._worker_ids:  # a callback would wait for its own thread
            return
        with self._has_room:
            while len(self._pending) >= self._max_batch and not self._is_closed:
                self._has_room.wait()

    def _wake_batcher(self) -> None:
        with self._wake:
            self._wanted = _NONE  # once is enough
            self._wake.notify()

    def _refuse(self, answer: Answer) -> None:
        """Take back what came after the stream was closed, unless the batcher has it already."""
        with self._lock:
            if answer in self._pending:
                self._pending.remove(answer)
                raise UsageError(_CLOSED)

    def _run(self) -> None:
        """Hand over batches until the stream is closed and nothing is pending."""
        batch: list[Answer] = []
        try:
            while batch := self._next_batch():
                self._workers.submit(self._match, batch)
        except BaseException as error:  # nobody would match what is pending
            self._is_closed = True
            batch = self._begun(batch + self._taken(len(self._pending)))
            _answer(batch, [error] * len(batch))

    def _next_batch(self) -> list[Answer]:
        """Wait for a batch and for a worker; none when the stream has ended."""
        self._wait_for(1, None)
        first = self._pending[:1]  # none also where it was just refused
        if not first:
            return []
        self._wait_for(self._max_batch, first[0].since + self._max_delay_s)
        self._free.acquire()  # what comes while all workers are busy goes with the same batch
        return self._taken(self._max_batch)

    def _wait_for(self, n_events: int, until: float | None) -> None:
        """Wait until so many are pending, or until a moment, or until the stream is closed."""
        with self._wake:
            while len(self._pending) < n_events and not self._is_closed:
                left = None if until is None else until - monotonic()
                if left is not None and left <= 0:
                    break
                self._wanted = n_events
                if len(self._pending) < n_events and not self._is_closed:
                    self._wake.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
            self._wanted = _NONE

    def _taken(self, n_events: int) -> list[Answer]:
        """The first of what is pending, which is not from now on."""
        with self._lock:
            taken = self._pending[:n_events]
            del self._pending[:n_events]
            self._has_room.notify_all()
        return taken

    def _begun(self, batch: list[Answer]) -> list[Answer]:
        """Those that were not cancelled, which they cannot be from now on."""
        with self._over:
            for one in batch:
                if one._state == PENDING:
                    one._state = RUNNING
                else:
                    one.set_running_or_notify_cancel()
        return [one for one in batch if one._state == RUNNING]

    def _match(self, batch: list[Answer]) -> None:
        try:
            batch = self._begun(batch)
            found = self._found([one.event for one in batch])
        finally:
            self._free.release()  # before events are answered, since whoever waits may submit more
        for one in batch:
            one.event = None  # whoever keeps an answer need not keep the event
        _answer(batch, found)

    def _found(self, events: Sequence[Any]) -> list[Any]:
        """The keys of each event, or the error; an event that is refused fails alone."""
        found: list[Any] = [None] * len(events)
        left = [(0, len(events))]
        while left:
            start, stop = left.pop()
            if start == stop:
                continue
            try:
                found[start:stop] = self._index.match(events[start:stop], 1).to_lists()
            except EventError as error:
                bad = start + error.event
                found[bad] = error.counted_from(-error.event)
                middle = (bad + 1 + stop) // 2  # halves, since where one is bad many may be
                left += [(start, bad), (bad + 1, middle), (middle, stop)]
            except Exception as error:
                if stop - start > 1 and _is_of_one_event(error):
                    middle = (start + stop) // 2
                    left += [(start, middle), (middle, stop)]
                else:
                    found[start:stop] = [error] * (stop - start)
        return found


def _is_of_one_event(error: Exception) -> bool:
    """May it be that one event was refused, and it was not said which?"""
    return isinstance(error, MatchyardError) and not isinstance(error, DeviceError)
