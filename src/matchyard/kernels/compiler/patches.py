"""Patches with which Numba survives forks, and Ctrl-C while a kernel is compiled or returns its result."""

from __future__ import annotations

import functools
from typing import Any

from llvmlite.binding import ffi
from numba.core import serialize
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from matchyard.kernels.compiler.linking import is_ours
from matchyard.threads.forks import wait_for
from matchyard.threads.interrupts import shielded


def wait_for_compilers() -> None:
    """Let a fork wait while another thread compiles or loads a kernel.

    The child could not continue: the thread that holds the lock is not in it, and the state of LLVM and
    Numba is incomplete. LLVM has a lock of its own, which finalizers take without Numba's lock.
    """
    for owner in (global_compiler_lock, getattr(ffi.lib, "_lock", None)):
        lock = getattr(owner, "_lock", None)
        if lock is not None:
            wait_for(lock)


def box_without_python() -> None:
    """Let kernels box their results without running Python code.

    For each array that a kernel returns, Numba looks up the type of the array by a Python function.
    Ctrl-C may be raised in this function, but the compiled code does not check for an exception: the
    call ends in a SystemError, or in a crash if the result is a named tuple. `lru_cache` is written in
    C and returns the same types, without a point at which Ctrl-C can be raised.
    """
    look_up: Any = getattr(serialize, "_numba_unpickle", None)
    if look_up is not None and not hasattr(look_up, "cache_info"):
        serialize._numba_unpickle = functools.lru_cache(maxsize=None)(look_up)


def compile_without_interrupts() -> None:
    """Shield the compilation and loading of this package's kernels from Ctrl-C.

    Numba keeps its pending registrations in generators. Ctrl-C in a generator ends it, and this process
    can compile or load no kernel from then on.
    """
    kind: Any = Dispatcher
    compile_for = kind._compile_for_args

    @functools.wraps(compile_for)
    def compile_shielded(kernel: Any, *given: Any, **named: Any) -> Any:
        if not is_ours(kernel):
            return compile_for(kernel, *given, **named)
        return shielded(lambda: compile_for(kernel, *given, **named))

    kind._compile_for_args = compile_shielded
