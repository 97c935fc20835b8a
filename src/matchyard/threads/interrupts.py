"""Ctrl-C: a KeyboardInterrupt, always, and never in the middle of work that must not be half done."""

from __future__ import annotations

import _thread
import threading
import weakref
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

Result = TypeVar("Result")
Kind = TypeVar("Kind", bound=type)
_LOOK_S = 1.0  # between looks whether the thread that is waited for is still there


class _Life:
    """Ends with the thread that was started with it."""

    __slots__ = ("__weakref__",)


class _Work:
    """Something that runs once, in a thread where no interrupt arrives."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self.results: list[Any] = []
        self.failures: list[BaseException] = []
        self.threads: list[int] = []  # one where it was started
        self.is_running = _thread.allocate_lock()

    def start(self) -> None:
        """Begin, or raise."""
        self.is_running.acquire()
        life = _Life()
        self._life = weakref.ref(life)
        # One call of C code: Ctrl-C comes before the thread is started, or after it is remembered.
        # `threading.Thread.start` is Python code, which Ctrl-C leaves half way.
        self.threads.extend(map(_thread.start_new_thread, (self._run,), ((life,),)))

    def _run(self, life: _Life) -> None:
        try:
            self.results.append(self._work())
        except BaseException as error:
            self.failures.append(error)
        finally:
            self.is_running.release()

    def wait(self) -> None:
        """Wait for the end. A thread that finds no memory ends before its first step, in silence."""
        while not self.is_running.acquire(True, _LOOK_S):
            if self._life() is None and not (self.results or self.failures):
                raise MemoryError("no memory for a thread")


def shielded(work: Callable[[], Result]) -> Result:
    """Run to the end, then raise the interrupt that came meanwhile.

    Python delivers Ctrl-C to the main thread only, and there between any two steps; so the work
    gets a thread of its own. It takes and leaves all locks there: where interrupts come so quickly
    that one of them ends the wait, the work still runs to its end.

    >>> shielded(lambda: 7)
    7
    """
    if _thread.get_ident() != threading.main_thread().ident:
        return work()
    running = _Work(work)
    interrupt: BaseException | None = None
    try:
        running.start()
        running.wait()
    except MemoryError:
        raise
    except BaseException as error:
        if not running.threads:  # nothing has begun
            raise
        interrupt = error
    while interrupt is not None and not (running.results or running.failures):
        try:
            running.wait()
        except MemoryError:
            break
        except BaseException as error:
            interrupt = error
    failure = running.failures[0] if running.failures else None
    if interrupt is not None:
        raise interrupt from failure
    if failure is not None:
        raise failure
    found: Result = running.results[0]
    return found


def interruptible(kind: Kind) -> Kind:
    """Let all public functions of a class raise what a signal has raised, e.g. KeyboardInterrupt.

    Where a program has used Numba before this package was imported (see `kernels.compiler`), what is
    raised while a kernel hands back its result is hidden behind a SystemError.
    """
    for name, verb in list(vars(kind).items()):
        if isinstance(verb, FunctionType) and not name.startswith("_"):
            setattr(kind, name, told_plainly(verb))
    return kind


def told_plainly(verb: Callable[..., Result]) -> Callable[..., Result]:
    """The same function, which raises what a signal has raised: see `interruptible`."""

    @wraps(verb)
    def run(*given: Any, **named: Any) -> Result:
        try:
            return verb(*given, **named)
        except SystemError as error:
            raised = raised_behind(error)
            if raised is error:
                raise
            raise raised from None

    return run


def raised_behind(error: BaseException) -> BaseException:
    """What a signal has raised where compiled code went on regardless; any other error as it is.

    >>> raised_behind(SystemError("unknown opcode"))
    SystemError('unknown opcode')
    """
    found = error
    while isinstance(found, SystemError) and str(found).endswith("with an exception set"):
        behind = found.__cause__ or found.__context__
        if behind is None:
            return error
        found = behind
    return found
