"""Forks at the worst moment: a child never waits for a thread that only its parent has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from llvmlite.binding import ffi
from numba.core.compiler_lock import global_compiler_lock

import matchyard as my
from matchyard.threads import forks
from tests.storage.test_faults import exit_code, in_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
LOCKS = {
    "numba": lambda: global_compiler_lock._lock,
    "llvm": lambda: ffi.lib._lock._lock,
    "imports": lambda: forks.loading,
}


def fork_while_another_has(
    lock: Any, work: Callable[[], object], end: Callable[[], object] = bool
) -> int:
    """Fork while a thread has the lock, which it leaves only when the fork has begun to wait."""
    has_it = threading.Event()

    def hold() -> None:
        with lock:
            has_it.set()
            time.sleep(0.2)
            end()

    other = threading.Thread(target=hold)
    other.start()
    assert has_it.wait(60)
    child = in_child(work)
    other.join()
    assert not forks._taken
    return child


@pytest.mark.parametrize("name", LOCKS)
def test_a_fork_waits_for_the_locks_of_threads_that_compile(name: str) -> None:
    lock = LOCKS[name]()
    child = fork_while_another_has(lock, lambda: lock.acquire(timeout=5))
    assert exit_code(child) == 0
    assert lock.acquire(blocking=False)  # and the parent has left it
    lock.release()


def test_a_thread_that_compiles_may_fork() -> None:
    with global_compiler_lock:
        child = in_child(global_compiler_lock._lock._is_owned)
        assert exit_code(child) == 0
    assert not global_compiler_lock._lock._is_owned()


def test_locks_are_taken_in_the_order_in_which_threads_take_them() -> None:
    assert forks._awaited == [LOCKS["numba"](), LOCKS["llvm"]()]


def test_ctrl_c_while_a_fork_waits_comes_after_it() -> None:
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        child = fork_while_another_has(forks.loading, lambda: forks.loading.acquire(timeout=5))
        assert exit_code(child) == 0
        time.sleep(60)
    assert not forks._taken
    assert not forks._interrupts


def test_a_fork_waits_until_a_change_is_whole() -> None:
    index = my.TagIndex().add("a", 1)
    child = fork_while_another_has(
        index._state.lock,
        lambda: sorted(index.consolidate().match(["a"])[0]) == [1, 2],
        lambda: index.add("a", 2),
    )
    assert exit_code(child) == 0
    assert sorted(index.consolidate().match(["a"])[0]) == [1, 2]


def test_a_child_is_told_that_it_lacks_what_a_thread_of_its_parent_consolidates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = my.TagIndex().add("a", 1).consolidate().add("a", 2)
    compile_now = index._settings.algorithm.compile
    has_begun, go_on = threading.Event(), threading.Event()

    def compile_late(*arguments: Any) -> Any:
        has_begun.set()
        go_on.wait(60)
        return compile_now(*arguments)

    def is_told() -> bool:
        monkeypatch.undo()
        with pytest.raises(my.UsageError, match="forked while another thread consolidated"):
            index.add("a", 3).consolidate()
        return sorted(index.consolidate().match(["a"])[0]) == [1, 3]

    monkeypatch.setattr(index._settings.algorithm, "compile", compile_late)
    builder = threading.Thread(target=index.consolidate)
    builder.start()
    assert has_begun.wait(60)
    child = in_child(is_told)
    go_on.set()
    builder.join()
    assert exit_code(child) == 0
    assert sorted(index.match(["a"])[0]) == [1, 2]


COLD = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore")
import matchyard as my
from numba.core.compiler_lock import global_compiler_lock

ENGINES = {
    "tags": (["jazz", "oslo"], [["jazz", "oslo", "live"]]),
    "predicates": ("temp > 30 and area = 'north'", [{"temp": 31, "area": "north"}]),
    "twigs": ("//article[author]/title", ["<article><author/><title/></article>"]),
}
subscription, events = ENGINES[sys.argv[1]]

def answer():
    return my.create(sys.argv[1]).add(subscription, 7).consolidate().match(events).to_lists()

def compiles():
    return global_compiler_lock._lock.acquire(blocking=False) is False or global_compiler_lock._lock.release()

found = []
first = threading.Thread(target=lambda: found.append(answer()))
first.start()
children = []
while first.is_alive() and len(children) < 3:
    while first.is_alive() and compiles() is not True:
        time.sleep(0.001)
    child = os.fork()
    if child == 0:
        os._exit(0 if answer() == [[7]] else 1)
    children.append(child)
first.join()
assert found == [[[7]]], found
assert children
for child in children:
    assert os.waitpid(child, 0)[1] == 0
print("all answered")
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["tags", "predicates", "twigs"])
def test_children_of_a_process_that_compiles_for_the_first_time_match(
    engine: str, tmp_path: Any
) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", COLD, engine]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=1200, env=environment
    )
    assert (done.stdout, done.returncode) == ("all answered\n", 0), done.stderr
