"""Work that is shielded from Ctrl-C: done once, its failure told, and nothing held at its end."""

from __future__ import annotations

import _thread
import resource
import signal
import threading
import time
import weakref
from types import SimpleNamespace

import pytest

import matchyard as my
from matchyard.threads.interrupts import shielded
from tests.threads.ctrl_c import interrupt_at, nothing_ignored
from tests.torture.arena import in_children, size_bytes


def test_work_that_is_shielded_is_done_once_wherever_ctrl_c_comes() -> None:
    n_interrupted = 0
    for step in range(1, 60):
        done, ended = [], threading.Event()

        def work(done: list[int] = done, ended: threading.Event = ended) -> int:
            done.append(1)
            ended.set()
            return 7

        with nothing_ignored():
            found, was_interrupted = interrupt_at(
                step, ("interrupts.py",), lambda work=work: shielded(work)
            )
        assert was_interrupted or found == 7
        assert not done or ended.wait(60)
        assert len(done) <= 1
        n_interrupted += was_interrupted
    assert n_interrupted > 5


def test_a_failure_that_comes_with_ctrl_c_is_told_with_it() -> None:
    def fail() -> None:
        signal.raise_signal(signal.SIGINT)
        threading.Event().wait(0.05)
        raise my.UsageError("no")

    with pytest.raises(KeyboardInterrupt) as caught:
        shielded(fail)
    assert isinstance(caught.value.__cause__, my.UsageError)


def test_work_that_is_shielded_holds_nothing_when_its_end_is_seen(monkeypatch) -> None:
    class SlowLock:
        """A lock whose release takes a while after the waiting thread has gone on."""

        def __init__(self) -> None:
            self.lock = _thread.allocate_lock()
            self.acquire = self.lock.acquire

        def release(self) -> None:
            self.lock.release()
            time.sleep(0.2)

    class Held:
        pass

    slow = SimpleNamespace(**{**vars(_thread), "allocate_lock": SlowLock})
    monkeypatch.setattr("matchyard.threads.interrupts._thread", slow)
    held = Held()
    given = weakref.ref(held)
    result = shielded(lambda held=held: Held())
    returned = weakref.ref(result)
    del held, result
    assert (given(), returned()) == (None, None)


def test_work_for_which_there_is_no_memory_fails_and_does_not_hang() -> None:
    """A thread that finds no memory for its first step ends in silence."""

    def work(_: int) -> str:
        leave_no_memory()
        try:
            return str(shielded(lambda: 7))
        except (MemoryError, RuntimeError):  # no thread, or one that could not begin
            return "no memory"

    found = [outcome for _, outcome in in_children(list(range(3)), work, patience_s=60.0)]
    assert set(found) <= {"7", "no memory"}


def leave_no_memory() -> None:
    """Let this process map nothing more, but for the stack of one thread that has ended."""
    _thread.start_new_thread(lambda: None, ())
    time.sleep(0.2)  # its stack is kept for the next thread
    resource.setrlimit(resource.RLIMIT_AS, (size_bytes(), size_bytes()))
