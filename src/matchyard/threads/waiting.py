"""Wait for other threads, without a lock that Ctrl-C could leave locked.

`threading.Condition` and its users (events, semaphores, futures, executors) are Python code: an
interrupt inside can leave a lock taken for ever, or release a lock of another thread. Every step
here is one call of C code.
"""

from __future__ import annotations

import _thread
import threading
from collections import deque
from contextlib import suppress


class Bell:
    """Wakes all waiting threads.

    A waiting thread takes a ticket, then checks the state, then waits. A thread that has changed
    the state rings. So no thread misses a ring.

    >>> bell = Bell()
    >>> ticket = bell.ticket()
    >>> bell.ring()
    >>> bell.wait(ticket, 1)
    True
    """

    def __init__(self) -> None:
        self._tickets: list[_thread.LockType] = []

    def ticket(self) -> _thread.LockType:
        """A lock that `wait` can take after the next ring."""
        ticket = _thread.allocate_lock()
        ticket.acquire()
        self._tickets.append(ticket)
        return ticket

    def wait(self, ticket: _thread.LockType, timeout_s: float | None = None) -> bool:
        """Wait for a ring after `ticket` was taken; False if it does not come in time."""
        left = -1.0 if timeout_s is None else min(max(timeout_s, 0.0), threading.TIMEOUT_MAX)
        if ticket.acquire(True, left):
            return True
        with suppress(ValueError):  # the bell has just rung
            self._tickets.remove(ticket)
        return False

    def ring(self) -> None:
        """Wake all threads with a ticket."""
        if not self._tickets:
            return
        try:
            # One call of C code: every popped ticket is also released. The last `pop` raises.
            deque(map(_thread.LockType.release, iter(self._tickets.pop, None)), 0)
        except IndexError:
            return
