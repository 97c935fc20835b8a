"""Instructions that Numba does not offer, each with a plain twin: a Python function of the same effect.

Only compiled code can call an intrinsic. With `NUMBA_DISABLE_JIT`, kernels are plain Python and call the
twins instead, so that a debugger can step through them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import config
from numba.extending import intrinsic


def intrinsic_with(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Define an intrinsic with the results and types of `plain`, which it stores as `.plain`."""

    def define(generate: Callable[..., Any]) -> Any:
        chosen: Any = plain if config.DISABLE_JIT else intrinsic(generate)
        chosen.plain = plain
        return chosen

    return define
