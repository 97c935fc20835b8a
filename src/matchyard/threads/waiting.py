"""Waiting for other threads such that Ctrl-C, which comes between any two steps, leaves nothing locked.

`threading.Condition` and all that rests on it (events, semaphores, futures, executors) is Python code:
an interrupt inside of it can leave its lock taken for ever, or release one that another thread has.
Every step here is one call of C code.
"""

from __future__ import annotations

import _thread
import threading
from collections import deque
from contextlib import suppress


class Bell:
    """Wakes all who wait for it.

    Whoever waits takes a ticket, then looks whether there is something to wait for, then waits.
    Whoever has changed something rings. So nobody misses a ring.

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
        """Wait for the next ring since the ticket was taken; False where it does not come in time."""
        left = -1.0 if timeout_s is None else min(max(timeout_s, 0.0), threading.TIMEOUT_MAX)
        if ticket.acquire(True, left):
            return True
        with suppress(ValueError):  # it has just rung
            self._tickets.remove(ticket)
        return False

    def ring(self) -> None:
        """Wake all who have a ticket."""
        if not self._tickets:
            return
        try:
            # Nobody is taken from the list and then not woken. The last `pop` raises.
            deque(map(_thread.LockType.release, iter(self._tickets.pop, None)), 0)
        except IndexError:
            return
