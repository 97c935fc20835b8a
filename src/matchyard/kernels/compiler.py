"""Numba, as this package needs it: it survives forks, other processes that compile the same kernels,
and Ctrl-C while a kernel is compiled or hands back its result.

Imported by the package of the kernels, so before the first of them is compiled.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

from llvmlite.binding import ffi
from numba.core import serialize
from numba.core.caching import IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from matchyard.threads.forks import wait_for
from matchyard.threads.interrupts import shielded


def _wait_for_compilers() -> None:
    """Let a fork wait while another thread compiles or loads a kernel.

    The child cannot take over: the thread that has the lock is not there, and LLVM's and Numba's
    state is half done. LLVM has a lock of its own, which finalizers take without Numba's.
    """
    for owner in (global_compiler_lock, getattr(ffi.lib, "_lock", None)):
        lock = getattr(owner, "_lock", None)
        if lock is not None:
            wait_for(lock)


def _box_without_python() -> None:
    """Let kernels box their results without a step of the interpreter.

    For each array that a kernel returns, Numba looks up the type of the array by a function that is
    written in Python. Ctrl-C is raised in there, and the code that Numba has compiled does not look
    whether it was: the call ends in a SystemError, or in a crash where the result is a named tuple.
    A cache that is written in C gives the same types, and has no step at which Ctrl-C is raised.
    """
    look_up: Any = getattr(serialize, "_numba_unpickle", None)
    if look_up is not None and not hasattr(look_up, "cache_info"):
        serialize._numba_unpickle = functools.lru_cache(maxsize=None)(look_up)


def _compile_without_interrupts() -> None:
    """Let kernels of this package be compiled and loaded where no Ctrl-C arrives.

    Numba keeps what it has still to register in generators. Ctrl-C in one of them ends it, and no
    kernel can be compiled or loaded in this process from then on.
    """
    kind: Any = Dispatcher
    compile_for = kind._compile_for_args

    @functools.wraps(compile_for)
    def compile_shielded(kernel: Any, *given: Any, **named: Any) -> Any:
        if not str(kernel.py_func.__module__).startswith("matchyard."):
            return compile_for(kernel, *given, **named)
        return shielded(lambda: compile_for(kernel, *given, **named))

    kind._compile_for_args = compile_shielded


def _cache_each_signature_apart() -> None:
    """Let a file of Numba's cache hold one signature of one version of the source, for ever.

    Numba numbers these files. Two processes that compile two signatures of one kernel at a time can
    take the same number, and a process that is killed can leave a number in the index whose file
    is of another signature or of older source. Whoever loads that file calls a kernel with
    arguments of other types. Here the name is a hash of what the file is for, and the file is
    there before the index names it; at worst, an entry of the index is lost and compiled again.
    """
    kind: Any = IndexDataCacheFile

    def save(file: Any, key: Any, data: Any) -> None:
        purpose = file._dump((file._version, file._source_stamp, key))
        number = int.from_bytes(hashlib.sha256(purpose).digest()[:8])
        name = file._data_name(number)
        file._save_data(name, data)
        file._save_index({**file._load_index(), key: name})

    kind.save = save


_wait_for_compilers()
_cache_each_signature_apart()
_box_without_python()
_compile_without_interrupts()
