"""Ctrl-C, kept away from work that must not be left half done."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def shielded(work: Callable[[], Result]) -> Result:
    """Run to the end, then raise the interrupt that came meanwhile.

    Python delivers Ctrl-C to the main thread only, and there between any two steps; so the work
    gets a thread of its own.

    >>> shielded(lambda: 7)
    7
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[Result] = []
    failures: list[BaseException] = []
    once, ended = threading.Lock(), threading.Event()

    def run() -> None:
        if not once.acquire(blocking=False):  # started twice: see below
            return
        try:
            results.append(work())
        except BaseException as error:
            failures.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=run, name="matchyard-build", daemon=True)
    interrupt: KeyboardInterrupt | None = None
    while not ended.is_set():
        try:
            # An interrupt inside of `start` leaves open whether it has started.
            if not once.locked() and not thread.is_alive():
                thread.start()
            ended.wait()
        except KeyboardInterrupt as error:
            interrupt = error
        except RuntimeError:
            if not once.locked() and not thread.is_alive():
                raise
    if failures:
        raise failures[0]
    if interrupt is not None:
        raise interrupt
    return results[0]
