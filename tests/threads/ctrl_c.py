"""Ctrl-C at a chosen step, and a watch for errors that nobody sees."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tests.torture.arena import without_collector_callbacks


def interrupt_at(step: int, files: tuple[str, ...], work: Callable[[], Any]) -> tuple[Any, bool]:
    """Run with Ctrl-C at one of the steps at which Python looks for signals, as they are passed in
    these files: where a function begins, and after a call of C code. Was there such a step?"""
    left = [step]

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename.endswith(files):
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        return work(), False
    except KeyboardInterrupt:
        return None, True
    finally:
        sys.setprofile(before)


@contextmanager
def nothing_ignored() -> Iterator[None]:
    """No error may end where nobody sees it."""
    seen: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, seen.append
    try:
        with without_collector_callbacks():
            yield
    finally:
        sys.unraisablehook = before
    assert seen == []
