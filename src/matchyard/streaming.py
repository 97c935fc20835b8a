"""Stream: events one by one from many threads, matched in batches.

    submit ──▶ pending ──batcher: full, or old enough──▶ workers: index.match ──▶ a future each

Two workers take turns, so that one encodes while the other matches; on a GPU each has a stream of its
own, and copies overlap with kernels.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, PENDING
from time import monotonic
from types import TracebackType
from typing import Any, Protocol

from matchyard.errors import DeviceError, EventError, MatchyardError, UsageError
from matchyard.matches import Matches

_AHEAD = 4  # batches that may wait before `submit` does, too


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
        return self._state in (CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED)

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
        one._invoke_callbacks()  # type: ignore[attr-defined]


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
        self, index: Matching, max_batch: int = 4096, max_delay_ms: float = 2.0, workers: int = 2
    ) -> None:
        if max_batch < 1 or workers < 1 or not max_delay_ms >= 0:
            raise UsageError("max_batch and workers must be at least 1, max_delay_ms at least 0")
        self._index, self._max_batch, self._max_delay_s = index, max_batch, max_delay_ms / 1e3
        self._pending: list[Answer] = []
        self._is_closed = False
        self._changed = threading.Condition()
        self._over = threading.Condition()  # an event, or several
        self._free = threading.Semaphore(workers)
        self._workers = ThreadPoolExecutor(workers, thread_name_prefix="matchyard-stream")
        self._batcher = threading.Thread(
            target=self._run, name="matchyard-stream-batcher", daemon=True
        )
        self._batcher.start()

    def submit(self, event: Any) -> Future[list[Any]]:
        """The keys of an event, when its batch is matched. It waits where too many events do."""
        answer = Answer(event, self._over)
        with self._changed:
            while len(self._pending) >= _AHEAD * self._max_batch and not self._is_closed:
                self._changed.wait()
            self._refuse_if_closed()
            self._pending.append(answer)
            if len(self._pending) in (1, self._max_batch):
                self._changed.notify_all()
        return answer

    def submit_many(self, events: Any) -> Future[Matches]:
        """The matches of events that are a batch already: all that `Index.match` takes."""
        with self._changed:
            self._refuse_if_closed()
            return self._workers.submit(self._index.match, events, 1)

    def close(self) -> None:
        """Match what is pending, and end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
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

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise UsageError("the stream is closed")

    def _run(self) -> None:
        """Hand over batches until the stream is closed and nothing is pending."""
        batch: list[Answer] = []
        try:
            while batch := self._next_batch():
                self._workers.submit(self._match, batch)
        except BaseException as error:  # nobody would match what is pending
            with self._changed:
                self._is_closed = True
                batch, self._pending = batch + self._pending, []
                self._changed.notify_all()
            batch = self._begun(batch)
            _answer(batch, [error] * len(batch))

    def _next_batch(self) -> list[Answer]:
        """Wait for a batch and for a worker; none when the stream has ended."""
        with self._changed:
            while not self._pending and not self._is_closed:
                self._changed.wait()
            if not self._pending:
                return []
            while len(self._pending) < self._max_batch and not self._is_closed:
                left = self._pending[0].since + self._max_delay_s - monotonic()
                if left <= 0:
                    break
                self._changed.wait(min(left, threading.TIMEOUT_MAX))
        self._free.acquire()  # what comes while all workers are busy goes with the same batch
        with self._changed:
            batch = self._pending[: self._max_batch]
            del self._pending[: self._max_batch]
            self._changed.notify_all()
        return batch

    def _begun(self, batch: list[Answer]) -> list[Answer]:
        """Those that were not cancelled, which they cannot be from now on."""
        with self._over:
            return [one for one in batch if one.set_running_or_notify_cancel()]

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
