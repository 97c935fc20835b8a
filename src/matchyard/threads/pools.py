"""Threads that match, kept for all who ask for as many."""

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
    """One function of many items, shared by the threads of a pool."""

    def __init__(self, work: Callable[[Any], Any], items: Sequence[Any]) -> None:
        self._work = work
        self._todo = deque(enumerate(items))
        self._left = list(range(len(items)))  # whoever takes the 0 has done the last item
        self.found: list[Any] = [None] * len(items)
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
                self.found[number] = self._work(item)
            except BaseException as error:
                self.failures[number] = error
                self._drop()
            self._count()

    def _drop(self) -> None:
        """Leave out what nobody has begun; items before the one that failed were begun before it."""
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
        """Let threads begin no other item, though nobody waits for the end."""
        self._todo.clear()

    def results(self) -> list[Any]:
        """What was found, or the failure of the first item that failed."""
        if self.failures:
            failure = self.failures[min(self.failures)]
            self.failures.clear()  # whose frames have this job
            raise failure
        return self.found


class Pool:
    """So many threads."""

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
        """What the function says of each item. The first failure ends it, and so does Ctrl-C: what
        threads are at they do to the end, and nobody waits for that."""
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
    """A pool of that many threads, the same for everyone who asks for as many.

    A forked child starts with none, since threads do not fork.
    """
    found = _pools.get(threads)
    return found or shielded(lambda: _made(threads))


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
