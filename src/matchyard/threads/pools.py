"""Pools of threads that match: one pool per number of threads, shared by all callers."""

from __future__ import annotations

import _thread
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

from matchyard.threads.interrupts import shielded

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Job:
    """One function and many items, shared by the threads of a pool."""

    def __init__(self, work: Callable[[Any], Any], items: Sequence[Any]) -> None:
        self._work = work
        self._todo = deque(enumerate(items))
        self._left = list(range(len(items)))  # the thread that pops the 0 has done the last item
        self._results: list[Any] = [None] * len(items)
        self.failures: dict[int, BaseException] = {}
        self.is_running = _thread.allocate_lock()
        self.is_running.acquire()

    def run(self) -> None:
        """Do items until none is left, or one fails."""
        while self._todo:
            try:
                number, item = self._todo.popleft()
            except IndexError:  # another thread has just taken the last one
                return
            try:
                self._results[number] = self._work(item)
            except BaseException as error:
                self.failures[number] = error
                self._drop()
            self._count()

    def _drop(self) -> None:
        """Drop the items that no thread has begun; all items before the failed one were begun."""
        while self._todo:
            try:
                self._todo.popleft()
            except IndexError:
                return
            self._count()

    def _count(self) -> None:
        if self._left.pop() == 0:
            self.is_running.release()

    def stop(self) -> None:
        """Let no thread begin another item; do not wait for the begun ones."""
        self._todo.clear()

    def results(self) -> list[Any]:
        """The results in the order of the items; raises the failure of the first failed item."""
        if self.failures:
            failure = self.failures[min(self.failures)]
            self.failures.clear()  # their frames refer to this job
            raise failure
        return self._results


class Pool:
    """Daemon threads that share a queue of jobs."""

    def __init__(self, threads: int) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._n_threads = threads
        for number in range(threads):
            name = f"matchyard_{number}"
            threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while True:
            self._jobs.get().run()

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """The result of `work` for each item.

        The first failure, or Ctrl-C, ends the call; threads finish their current items later.
        """
        if not items:
            return []
        job = _Job(work, items)
        try:
            for _ in range(min(self._n_threads, len(items))):
                self._jobs.put(job)
            job.is_running.acquire()
        except BaseException:
            job.stop()
            raise
        return job.results()


_pools: dict[int, Pool] = {}
_pools_lock = threading.Lock()


def pool(threads: int) -> Pool:
    """The shared pool of that many threads. A forked child makes its own: threads do not fork."""
    return _pools.get(threads) or shielded(lambda: _made(threads))


def _made(threads: int) -> Pool:
    with _pools_lock:
        if threads not in _pools:
            _pools[threads] = Pool(threads)
        return _pools[threads]


def _after_fork() -> None:
    global _pools, _pools_lock
    _pools, _pools_lock = {}, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
