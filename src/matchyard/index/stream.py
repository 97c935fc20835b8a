"""Stream: match events in batches that many threads submit one by one.

    submit ──▶ pending ──full, or old enough──▶ a worker: index.match ──▶ a future each

Two workers take turns: one waits for a batch and then matches it, while the other waits for the
next. One can encode while the other matches. On a card each has its own CUDA stream, and copies
overlap with kernels.

A thread that submits takes no lock unless it has to wait or to wake a worker: threads that wait for
a lock switch the interpreter between them, which takes longer than everything else. The order of
two steps replaces the lock: a thread that adds an event checks afterwards whether a worker waits
for it; a worker announces that it waits and then checks again for events. This needs atomic steps
of the interpreter: a Python without the global interpreter lock ("free-threaded") is not supported.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from numbers import Integral, Real
from time import monotonic
from types import TracebackType
from typing import Any, Protocol

from matchyard.errors import DeviceError, EventError, MatchyardError, UsageError
from matchyard.index.futures import Answer, begin, give
from matchyard.matches import Matches
from matchyard.threads.forks import start_fresh_in_child
from matchyard.threads.interrupts import shielded
from matchyard.threads.waiting import Bell

_NONE = 1 << 62  # more events than can ever be pending
_CLOSED = "the stream is closed"
_thread = threading.local()


def _is_number(value: Any) -> bool:
    """True if the value is a real number of Python or NumPy."""
    return isinstance(value, Real)


class Matching(Protocol):
    """The part of an index that a stream needs."""

    def match(self, events: Any, threads: int | None = None) -> Matches:
        """The keys per event."""


class Stream:
    """Made by `Index.stream`. Use it in a `with` statement, or `close` it: all submitted events are
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
        if not (_is_number(max_delay_ms) and max_delay_ms >= 0):
            raise UsageError("max_delay_ms must be a number, at least 0")
        self._index, self._max_batch, self._max_delay_s = index, max_batch, max_delay_ms / 1e3
        self._pending: list[Answer] = []  # only workers and `_refuse` remove answers
        self._whole: deque[Answer] = deque()  # batches of `submit_many`
        self._wanted = _NONE  # `submit` wakes the worker when so many events are pending
        self._is_closed = False
        self._workers: list[threading.Thread] = []
        self._make_locks()
        _streams.add(weakref.ref(self, _streams.discard))
        start_fresh_in_child(self)
        try:
            shielded(lambda: self._start_workers(workers))
        except BaseException:
            self.close()
            raise

    def _start_workers(self, workers: int) -> None:
        for number in range(workers):
            name = f"matchyard-stream-{number}"
            worker = threading.Thread(target=self._run, name=name, daemon=True)
            worker.start()
            self._workers.append(worker)

    def submit(self, event: Any) -> Future[list[Any]]:
        """Submit an event; the future gets its keys. Waits while a full batch is pending."""
        if len(self._pending) >= self._max_batch:
            self._wait_for_room()
        answer = Answer(event)
        self._put(answer)
        return answer

    def _put(self, answer: Answer) -> None:
        if self._is_closed:
            raise UsageError(_CLOSED)
        self._pending.append(answer)
        if self._is_closed:
            self._refuse(answer, self._pending)
        elif len(self._pending) >= self._wanted:
            self._wake.ring()

    async def match(self, event: Any) -> list[Any]:
        """The keys of an event, for a task of asyncio. It does not block the event loop: any number of tasks
        may wait. If the task is cancelled, the event is not matched, unless a worker has begun.

        >>> import asyncio
        >>> import matchyard as my
        >>> index = my.TagIndex().add("jazz", key=1).consolidate()
        >>> async def keys():
        ...     async with index.stream() as stream:
        ...         return await stream.match("jazz oslo")
        >>> asyncio.run(keys())
        [1]
        """
        from matchyard.index.awaited import Awaited

        answer = Awaited(event)
        self._put(answer)
        return await answer.keys()

    def submit_many(self, events: Any) -> Future[Matches]:
        """Submit a batch of events in any form of `Index.match`; the future gets its matches. It
        never waits."""
        if self._is_closed:
            raise UsageError(_CLOSED)
        whole = Answer(events)
        self._whole.append(whole)
        if self._is_closed:  # the workers may have ended before they saw the batch
            self._refuse(whole, self._whole)
        self._wake.ring()
        return whole

    def close(self) -> None:
        """Match the pending events, then end the workers."""
        if threading.current_thread() in self._workers:
            raise UsageError("a callback cannot close its stream, which waits for callbacks")
        self._close()
        for worker in self._workers:
            worker.join()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        from asyncio import to_thread

        await to_thread(self.close)

    def _close(self) -> None:
        self._is_closed = True
        self._has_room.ring()
        self._wake.ring()

    def _make_locks(self) -> None:
        self._turn = threading.Lock()  # held by the worker that waits for a batch
        self._lock = threading.Lock()  # held while answers are removed from the pending ones
        self._wake = Bell()  # wakes the worker that waits for a batch
        self._has_room = Bell()  # wakes threads that wait in `submit`

    def _start_fresh(self) -> None:
        """Close the stream in a forked process, which has none of its threads."""
        self._is_closed = True
        self._pending, self._whole, self._workers = [], deque(), []
        self._make_locks()  # a thread of the parent may have held the old ones

    def _wait_for_room(self) -> None:
        if getattr(_thread, "is_worker", False):  # a callback would wait for its own worker
            return
        while len(self._pending) >= self._max_batch and not self._is_closed:
            ticket = self._has_room.ticket()
            if len(self._pending) >= self._max_batch and not self._is_closed:
                self._wake.ring()  # an interrupt may have stopped the thread that had to ring
                self._has_room.wait(ticket)

    def _refuse(self, answer: Answer, where: list[Answer] | deque[Answer]) -> None:
        """Refuse an answer that came after the close, unless a worker has already taken it."""
        with self._lock:
            try:
                where.remove(answer)
            except ValueError:
                return
        raise UsageError(_CLOSED)

    def _run(self) -> None:
        """Match batches until the stream is closed and nothing is pending."""
        _thread.is_worker = True
        try:
            while True:
                with self._turn:
                    batch = self._next_batch()
                if isinstance(batch, Answer):
                    self._match_whole(batch)
                elif batch:
                    self._match(batch)
                elif self._is_closed and not self._pending and not self._whole:
                    return
                del batch  # keeps no events alive while the worker waits
        except BaseException as error:  # no worker would match the pending events
            self._close()
            left = self._taken(len(self._pending))
            with suppress(IndexError):
                while True:  # another worker may take some meanwhile
                    left.append(self._whole.popleft())
            left, _ = begin(left)
            give(left, [error] * len(left))

    def _next_batch(self) -> list[Answer] | Answer:
        """Wait for a batch; it is empty if the stream may have ended."""
        self._wait_for(1, None)
        first = self._pending[:1]  # empty if the only answer was just refused
        with self._lock:
            if self._whole and not (first and first[0].since < self._whole[0].since):
                return self._whole.popleft()
        if first:
            self._wait_for(self._max_batch, first[0].since + self._max_delay_s)
        return self._taken(self._max_batch)

    def _wait_for(self, n_events: int, until: float | None) -> None:
        """Wait for `n_events` pending events, a batch of `submit_many`, `until`, or the close."""
        while not self._has(n_events):
            left = None if until is None else until - monotonic()
            if left is not None and left <= 0:
                break
            ticket = self._wake.ticket()
            self._wanted = n_events
            if not self._has(n_events):
                self._wake.wait(ticket, left)
        self._wanted = _NONE

    def _has(self, n_events: int) -> bool:
        """True if `n_events` or a batch of `submit_many` are pending, or the stream is closed."""
        return len(self._pending) >= n_events or bool(self._whole) or self._is_closed

    def _taken(self, n_events: int) -> list[Answer]:
        """Pop the oldest pending answers, at most `n_events`."""
        with self._lock:
            taken = self._pending[:n_events]
            del self._pending[: len(taken)]  # other threads may have appended meanwhile
        self._has_room.ring()
        return taken

    def _match(self, batch: list[Answer]) -> None:
        batch, events = begin(batch)
        try:
            results = self._found(events)
            if len(results) != len(batch):
                raise UsageError(f"{len(results)} results for {len(batch)} events")
        except BaseException as error:  # of any kind: the futures must get an error
            results = [_without_frames(error)] * len(batch)
        give(batch, results)

    def _match_whole(self, whole: Answer) -> None:
        batch, events = begin([whole])
        try:
            results: list[Any] = [self._index.match(one, 1) for one in events]
        except BaseException as error:
            results = [_without_frames(error)]
        give(batch, results)

    def _found(self, events: Sequence[Any]) -> list[Any]:
        """The keys or the error of each event; a refused event does not fail the others."""
        results: list[Any] = [None] * len(events)
        left = [(0, len(events))]
        while left:
            start, stop = left.pop()
            if start == stop:
                continue
            try:
                results[start:stop] = self._index.match(events[start:stop], 1).to_lists()
            except EventError as error:
                bad = start + error.event
                results[bad] = _without_frames(error.counted_from(-error.event))
                middle = (bad + 1 + stop) // 2  # halves, since more events may be bad
                left += [(start, bad), (bad + 1, middle), (middle, stop)]
            except Exception as error:
                if stop - start > 1 and _is_of_one_event(error):
                    middle = (start + stop) // 2
                    left += [(start, middle), (middle, stop)]
                else:
                    results[start:stop] = [_without_frames(error)] * (stop - start)
        return results


def _ended() -> None:
    streams = [stream for reference in list(_streams) if (stream := reference())]
    for stream in streams:
        stream._close()
    for stream in streams:
        stream.close()


_streams: set[weakref.ref[Stream]] = set()
atexit.register(_ended)  # submitted events are matched even if the stream was not closed


def _without_frames(error: BaseException) -> BaseException:
    """Remove the tracebacks of our own errors: their frames would keep the events alive."""
    chain: list[BaseException] = []
    one: BaseException | None = error if isinstance(error, MatchyardError) else None
    while one is not None and one not in chain:
        chain.append(one)
        one = one.with_traceback(None).__cause__ or one.__context__
    return error


def _is_of_one_event(error: Exception) -> bool:
    """True if a single event of the batch may have caused the error."""
    return isinstance(error, MatchyardError) and not isinstance(error, DeviceError)
