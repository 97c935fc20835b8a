"""Turn every Ctrl-C into a KeyboardInterrupt, but never inside work that must run to its end."""

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
_LOOK_S = 1.0  # interval of the checks that the awaited thread still exists


class _Life:
    """Owned by one thread: a weak reference to it dies with the thread."""

    __slots__ = ("__weakref__",)


class _Work:
    """A function that runs once, in a thread that gets no interrupts."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self.results: list[Any] = []
        self.failures: list[BaseException] = []
        self.threads: list[int] = []  # the id of the thread, once it is started
        self.is_running = _thread.allocate_lock()

    def start(self) -> None:
        """Start the thread, or raise."""
        self.is_running.acquire()
        life = _Life()
        self._life = weakref.ref(life)
        # One call of C code: Ctrl-C comes before the thread starts, or after its id is stored.
        # `threading.Thread.start` is Python code: Ctrl-C can stop it half way.
        self.threads.extend(map(_thread.start_new_thread, (self._run,), ((life,),)))

    def _run(self, life: _Life) -> None:
        try:
            self.results.append(self._work())
        except BaseException as error:
            self.failures.append(error)
        finally:
            # Whoever waits may drop an object and expect its memory back: hold none from here on.
            del self._work
            self.is_running.release()

    def wait(self) -> None:
        """Wait for the end. A thread without memory ends silently before its first step."""
        while not self.is_running.acquire(True, _LOOK_S):
            if self._life() is None and not (self.results or self.failures):
                raise MemoryError("no memory for a thread")


def shielded(work: Callable[[], Result]) -> Result:
    """Run work to its end, then raise an interrupt that came meanwhile.

    Python delivers Ctrl-C only to the main thread, between any two steps. The work therefore runs
    in its own thread and takes and releases all locks there. It runs to its end even if another
    interrupt ends the wait for it.

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
        if not running.threads:  # the work has not begun
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
    result: Result = running.results.pop()  # the thread may live a moment longer
    return result


def interruptible(kind: Kind) -> Kind:
    """Make all public functions of a class raise the exception of a signal, e.g. KeyboardInterrupt.

    If a program used Numba before it imported this package (see `kernels.compiler`), Numba hides an
    exception that is raised while a kernel returns behind a SystemError.
    """
    for name, verb in list(vars(kind).items()):
        if isinstance(verb, FunctionType) and not name.startswith("_"):
            setattr(kind, name, told_plainly(verb))
    return kind


def told_plainly(verb: Callable[..., Result]) -> Callable[..., Result]:
    """Wrap a function so that it raises the exception of a signal: see `interruptible`."""

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
    """The exception of a signal behind a SystemError of compiled code; any other error unchanged.

    >>> raised_behind(SystemError("unknown opcode"))
    SystemError('unknown opcode')
    """
    raised = error
    while isinstance(raised, SystemError) and str(raised).endswith("with an exception set"):
        behind = raised.__cause__ or raised.__context__
        if behind is None:
            return error
        raised = behind
    return raised
