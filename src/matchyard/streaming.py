"""Stream: events one by one from many threads, matched in batches.

    submit ──▶ pending ──batcher: full, or old enough──▶ workers: index.match ──▶ a future each

Two workers take turns, so that one encodes while the other matches; on a GPU each has a stream of its
own, and copies overlap with kernels.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from matchyard.errors import DeviceError, EventError, MatchyardError, UsageError
from matchyard.matches import Matches

_AHEAD = 4  # batches that may wait before `submit` does, too


class Matching(Protocol):
    """What a stream needs of an index."""

    def match(self, events: Any, threads: int | None = None) -> Matches:
        """The keys per event."""


class _Waiting(NamedTuple):
    event: Any
    future: Future[list[Any]]


class Stream:
    """Made by `Index.stream`. Use it in a `with` statement, or `close` it: what was submitted is
    matched before it ends.

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
        self._pending: list[_Waiting] = []
        self._oldest = 0.0  # when the first that is pending came
        self._is_closed = False
        self._changed = threading.Condition()
        self._free = threading.Semaphore(workers)
        self._workers = ThreadPoolExecutor(workers, thread_name_prefix="matchyard-stream")
        self._batcher = threading.Thread(
            target=self._run, name="matchyard-stream-batcher", daemon=True
        )
        self._batcher.start()

    def submit(self, event: Any) -> Future[list[Any]]:
        """The keys of an event, when its batch is matched. It waits where too many events do."""
        waiting = _Waiting(event, Future())
        with self._changed:
            while len(self._pending) >= _AHEAD * self._max_batch and not self._is_closed:
                self._changed.wait()
            self._refuse_if_closed()
            self._pending.append(waiting)
            if len(self._pending) == 1:
                self._oldest = monotonic()
                self._changed.notify_all()
            elif len(self._pending) == self._max_batch:
                self._changed.notify_all()
        return waiting.future

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
        while True:
            with self._changed:
                while not self._pending and not self._is_closed:
                    self._changed.wait()
                if not self._pending:
                    return
                while len(self._pending) < self._max_batch and not self._is_closed:
                    left = self._oldest + self._max_delay_s - monotonic()
                    if left <= 0 or not self._changed.wait(left):
                        break
            self._free.acquire()  # what comes while all workers are busy goes with the same batch
            with self._changed:
                batch = self._pending[: self._max_batch]
                del self._pending[: self._max_batch]
                self._oldest = monotonic()
                self._changed.notify_all()
            self._workers.submit(self._match, batch)

    def _match(self, batch: list[_Waiting]) -> None:
        try:
            self._resolve([one for one in batch if one.future.set_running_or_notify_cancel()])
        finally:
            self._free.release()

    def _resolve(self, batch: Sequence[_Waiting]) -> None:
        """Match a batch; an event that is refused fails alone."""
        if not batch:
            return
        try:
            found = self._index.match([one.event for one in batch], 1)
        except EventError as error:
            self._resolve(batch[: error.event])
            batch[error.event].future.set_exception(error.counted_from(-error.event))
            self._resolve(batch[error.event + 1 :])
        except MatchyardError as error:
            if len(batch) == 1 or isinstance(error, DeviceError):
                self._fail(batch, error)
                return
            half = len(batch) // 2  # which of them it is was not said
            self._resolve(batch[:half])
            self._resolve(batch[half:])
        except BaseException as error:
            self._fail(batch, error)
        else:
            for one, keys in zip(batch, found, strict=True):
                one.future.set_result(keys)

    @staticmethod
    def _fail(batch: Sequence[_Waiting], error: BaseException) -> None:
        for one in batch:
            one.future.set_exception(error)
