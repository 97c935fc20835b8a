"""Stream: events one by one from many threads, matched in batches.

    submit ──▶ pending ──batcher: full, or old enough──▶ workers: index.match ──▶ a future each

Two workers take turns, so that one encodes while the other matches; on a GPU each has a stream of its
own, and copies overlap with kernels.

A thread that submits takes no lock unless it has to wait or to wake the batcher: threads that queue up
for a lock hand over the interpreter with it, and to hand it over takes longer than all the rest. What
takes its place is the order of two steps: whoever adds something looks afterwards whether somebody
waits for it, and whoever waits says so and looks again before. Steps of the interpreter are whole only
where it has a lock of its own: a build without it ("free-threaded") is not supported.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from numbers import Integral
from time import monotonic
from types import TracebackType
from typing import Any, Protocol

from matchyard.answers import Answer, begin, give
from matchyard.errors import DeviceError, EventError, MatchyardError, UsageError
from matchyard.matches import Matches

_NONE = 1 << 62  # as many events are never pending
_CLOSED = "the stream is closed"
_thread = threading.local()


class Matching(Protocol):
    """What a stream needs of an index."""

    def match(self, events: Any, threads: int | None = None) -> Matches:
        """The keys per event."""


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
        if not all(isinstance(number, Integral) and number >= 1 for number in (max_batch, workers)):
            raise UsageError("max_batch and workers must be whole numbers, at least 1")
        if not max_delay_ms >= 0:
            raise UsageError("max_delay_ms must be at least 0")
        self._index, self._max_batch, self._max_delay_s = index, max_batch, max_delay_ms / 1e3
        self._pending: list[Answer] = []  # only the batcher takes from it, and what was refused
        self._wanted = _NONE  # how many have to be pending for the batcher to be woken
        self._is_closed = False
        self._make_locks()
        self._free = threading.Semaphore(workers)
        self._workers = _started(workers)
        self._batcher = threading.Thread(
            target=self._run, name="matchyard-stream-batcher", daemon=True
        )
        try:
            self._batcher.start()
        except BaseException:
            self._workers.shutdown()
            raise
        _streams.add(self)

    def submit(self, event: Any) -> Future[list[Any]]:
        """The keys of an event, when its batch is matched. It waits where a whole batch does."""
        if len(self._pending) >= self._max_batch:
            self._wait_for_room()
        if self._is_closed:
            raise UsageError(_CLOSED)
        answer = Answer(event)
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
        with self._lock:
            self._has_room.notify_all()
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

    def _make_locks(self) -> None:
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)  # the batcher
        self._has_room = threading.Condition(self._lock)  # for whoever submits

    def _after_fork(self) -> None:
        """A process that was forked has none of the threads, and takes nothing."""
        self._is_closed = True
        self._pending = []
        self._make_locks()  # somebody may have had them
        self._workers = ThreadPoolExecutor(1)  # and those of the other

    def _wait_for_room(self) -> None:
        if getattr(_thread, "is_worker", False):  # a callback would keep a worker, and wait for it
            return
        with self._has_room:
            while len(self._pending) >= self._max_batch and not self._is_closed:
                self._has_room.wait()

    def _wake_batcher(self) -> None:
        with self._wake:
            self._wake.notify()
            self._wanted = _NONE  # once is enough; not before, since Ctrl-C may come in between

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
                batch = []  # while nothing comes, nothing is kept
        except BaseException as error:  # nobody would match what is pending
            self._is_closed = True
            batch, _ = begin(batch + self._taken(len(self._pending)))
            give(batch, [error] * len(batch))

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
            del self._pending[: len(taken)]  # others may have come since
            self._has_room.notify_all()
        return taken

    def _match(self, batch: list[Answer]) -> None:
        batch, events = begin(batch)
        try:
            found = self._found(events)
            if len(found) != len(batch):
                raise UsageError(f"{len(found)} results for {len(batch)} events")
        except BaseException as error:  # whatever it is, somebody waits for it
            found = [error] * len(batch)
        finally:
            self._free.release()  # before events are answered, since whoever waits may submit more
        give(batch, found)

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


def _started(n_workers: int) -> ThreadPoolExecutor:
    """A pool whose threads all run: one that cannot start a thread later would still keep the batch."""
    pool = ThreadPoolExecutor(
        n_workers, "matchyard-stream", lambda: setattr(_thread, "is_worker", True)
    )
    all_run = threading.Barrier(n_workers)
    try:
        for _ in range(n_workers):
            pool.submit(all_run.wait)
    except BaseException:
        all_run.abort()
        pool.shutdown()
        raise
    return pool


def _forked() -> None:
    for stream in list(_streams):
        stream._after_fork()


_streams: weakref.WeakSet[Stream] = weakref.WeakSet()  # that are in use
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _is_of_one_event(error: Exception) -> bool:
    """May it be that one event was refused, and it was not said which?"""
    return isinstance(error, MatchyardError) and not isinstance(error, DeviceError)
