"""Tell the user on a terminal that kernels are being compiled, since it takes seconds; and no more than that."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LINE = "\r\033[K"  # move to the beginning of the line and clear it
_log = logging.getLogger("matchyard.kernels")
_numba = logging.getLogger("numba")


class _Progress:
    """The kernels that this process has compiled."""

    number = 0
    seconds = 0.0
    begun = 0.0


def compiling(function: Any) -> None:
    """Say that a kernel is being compiled."""
    _Progress.begun = time.monotonic()
    name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
    _log.info("compiling kernel %s", name)
    _print(
        f"compiling kernels, once per machine: {_Progress.number} done in "
        f"{_Progress.seconds:.0f} s, now {name}"
    )


def compiled() -> None:
    """Say that the kernel is compiled."""
    _Progress.number += 1
    _Progress.seconds += time.monotonic() - _Progress.begun
    _print("")


@contextmanager
def without_details() -> Iterator[None]:
    """Keep back Numba's lines of level DEBUG, 10 MB for a first match, unless the user has given its logger a level.

    Only the thread that holds Numba's compiler lock does this: nothing else is compiled meanwhile.
    """
    if _numba.level != logging.NOTSET:
        yield
        return
    _numba.setLevel(logging.INFO)
    try:
        yield
    finally:
        _numba.setLevel(logging.NOTSET)


def n_compiled() -> int:
    """How many kernels this process has compiled."""
    return _Progress.number


def _print(text: str) -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"{_LINE}{text}", end="", file=sys.stderr, flush=True)
