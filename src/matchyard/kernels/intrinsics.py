"""Instructions that Numba has no name for, each beside a plain twin that says what it does.

Numba calls an intrinsic from compiled code only. Where `NUMBA_DISABLE_JIT` is set, kernels are plain
Python and call the twins in place of the intrinsics, so that a debugger steps through them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import config
from numba.extending import intrinsic


def intrinsic_with(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Define an intrinsic that gives what `plain` gives, in the same types; it is kept as `.plain`."""

    def define(generate: Callable[..., Any]) -> Any:
        chosen: Any = plain if config.DISABLE_JIT else intrinsic(generate)
        chosen.plain = plain
        return chosen

    return define
