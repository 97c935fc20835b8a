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

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="matchyard-build", daemon=True)
    thread.start()
    interrupt: KeyboardInterrupt | None = None
    while thread.is_alive():
        try:
            thread.join()
        except KeyboardInterrupt as error:
            interrupt = error
    if failures:
        raise failures[0]
    if interrupt is not None:
        raise interrupt
    return results[0]
