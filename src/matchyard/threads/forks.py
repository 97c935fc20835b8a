"""Make locks usable in forked child processes.

A lock that another thread holds during a fork stays locked in the child for ever. Two remedies: a
fork waits for the locks of work that must not be abandoned (`wait_for`), and objects of this
package replace their own locks in the child (`start_fresh_in_child`).
"""

from __future__ import annotations

import _thread
import concurrent.futures.thread
import logging
import os
import threading
import time
import weakref
from itertools import compress
from typing import Any

# Python runs the handlers before a fork in the reverse order of their registration. These two
# modules take their own locks over a fork, and a thread that compiles a kernel may need them. They
# must be registered first, so that a fork takes the locks below before theirs.
_REGISTERED_FIRST = (concurrent.futures.thread, logging)
_REDELIVERY_S = 0.01  # time for the fork's handlers to end; they would swallow an interrupt

# Import modules under this lock if several threads may import them: Python's own lock of a module
# does not survive a fork either.
loading = threading.RLock()

_awaited: list[Any] = []  # outermost first, in the order in which threads take them
_taken: dict[int, list[Any]] = {}  # the locks of each thread that is forking
_interrupts: list[BaseException] = []  # raised while a fork waited for a lock
_fresh: set[weakref.ref[Any]] = set()


def wait_for(lock: Any) -> None:
    """Make every fork take this `RLock`, after the locks of earlier calls."""
    if lock not in _awaited:
        _awaited.append(lock)


def start_fresh_in_child(owner: Any) -> None:
    """Call `owner._start_fresh()` in every process that is forked from now on.

    If the owner has a `_fork_lock` (an `RLock`), a fork takes it, so the child gets consistent
    data. `set.discard` is C code; the Python code of a `WeakSet` could lose a Ctrl-C.
    """
    _fresh.add(weakref.ref(owner, _fresh.discard))


def _before() -> None:
    taken = _taken[_thread.get_ident()] = []
    _take(loading, taken)
    owned = (getattr(owner, "_fork_lock", None) for owner in _owners())
    for lock in [*(lock for lock in owned if lock is not None), *_awaited]:
        _take(lock, taken)


def _take(lock: Any, taken: list[Any]) -> None:
    n_taken = len(taken)
    while len(taken) == n_taken:
        try:
            # One call of C code: Ctrl-C comes either before the lock is taken or after it is listed.
            # An exception would not stop the fork: it would go on without the lock.
            taken.extend(compress((lock,), map(lock.acquire, (True,))))
        except BaseException as error:
            _interrupts.append(error)


def _release() -> None:
    taken = _taken.pop(_thread.get_ident(), [])
    while taken:
        taken.pop().release()


def _owners() -> list[Any]:
    return [owner for reference in list(_fresh) if (owner := reference()) is not None]


def _after_in_parent() -> None:
    interrupted = bool(_interrupts)
    _interrupts.clear()
    _release()
    if interrupted:
        _thread.start_new_thread(_interrupt_again, ())


def _interrupt_again() -> None:
    time.sleep(_REDELIVERY_S)
    _thread.interrupt_main()


def _after_in_child() -> None:
    _interrupts.clear()
    _release()
    _taken.clear()  # other threads of the parent may have been forking
    for owner in _owners():
        owner._start_fresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
