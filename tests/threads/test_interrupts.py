"""Ctrl-C at every step: it is a KeyboardInterrupt, nothing is lost, and no lock stays taken."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from numba.core import serialize

import matchyard as my
from matchyard.index.futures import Answer, begin, give
from matchyard.threads.interrupts import raised_behind, shielded
from matchyard.threads.pools import pool
from tests.threads.ctrl_c import interrupt_at, nothing_ignored

WORDS = "CPUDispatcher(<function _select>) returned a result with an exception set"


def test_no_interrupt_of_a_save_is_ignored(
    tmp_path: Path, quick_saves: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first Ctrl-C comes into the code of `with`, the second while its folder is removed."""
    index = my.TagIndex().add("a", 1)
    index.save(tmp_path / "an.index")
    ignored: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: ignored.append(repr(told.exc_value)))
    n_interrupted = 0
    for step in range(1, 40):
        with monkeypatch.context() as once:
            once.setattr("shutil.rmtree", interrupted)
            n_interrupted += interrupt_at(
                step, ("contextlib.py",), lambda: index.save(tmp_path / "an.index")
            )[1]
    assert [one for one in ignored if "ResourceWarning" not in one] == []
    assert n_interrupted > 5
    assert my.open(tmp_path / "an.index").match(["a"])[0] == [1]


def interrupted(*given: object, **named: object) -> None:
    raise KeyboardInterrupt


def test_a_live_index_has_all_changes_wherever_ctrl_c_comes() -> None:
    files = ("interrupts.py", "state.py", "verbs.py")
    n_interrupted = 0
    for step in range(1, 80):
        index = my.TagIndex(live=True).add("a", 1)
        index.match(["a"])
        index.add("a", 2)
        with nothing_ignored():
            n_interrupted += interrupt_at(step, files, lambda index=index: index.match(["a"]))[1]
        assert sorted(index.add("a", 3).match(["a b"])[0]) == [1, 2, 3]
        assert sorted(index.consolidate().match(["a"])[0]) == [1, 2, 3]
    assert n_interrupted > 10


def test_signals_in_quick_succession_lose_nothing() -> None:
    n_left, moment, n_raised = [0], random.Random(3), 0

    def raise_it(number: int, frame: FrameType | None) -> None:
        n_left[0] -= 1
        if n_left[0] <= 0:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if n_left[0] >= 0:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, raise_it)
    index = my.TagIndex(live=True).add_many([["a"], ["a", "b"]], [1, 2])
    try:
        with nothing_ignored():
            for number in range(60):
                n_left[0] = 1 + number % 2
                index.add("a", 10 + number)
                try:
                    signal.setitimer(signal.ITIMER_REAL, moment.uniform(1e-5, 2e-3), 5e-5)
                    index.match(["a b"] * 300, threads=1 + number % 2)
                    index.match_unique(["a b"])
                except KeyboardInterrupt:
                    n_raised += 1
                n_left[0] = 0
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert n_raised > 0
    want = [1, 2, *range(10, 70)]
    assert sorted(index.match(["a b"])[0]) == want
    assert sorted(index.consolidate().match(["a b"])[0]) == want


def test_kernels_box_their_results_without_a_step_of_the_interpreter() -> None:
    look_up: Any = serialize._numba_unpickle
    index = my.TagIndex().add("a", 1).consolidate()
    index.match(["a", "b"])
    before = look_up.cache_info()
    index.match(["a", "b"])
    after = look_up.cache_info()
    assert after.hits > before.hits
    assert after.misses == before.misses


@pytest.mark.parametrize("n_deep", [1, 2])
@pytest.mark.parametrize("raised", [KeyboardInterrupt(), SystemExit(3), TimeoutError()])
def test_what_a_signal_raises_in_a_kernel_is_what_a_verb_raises(
    monkeypatch: pytest.MonkeyPatch, raised: BaseException, n_deep: int
) -> None:
    index = my.TagIndex().add("a", 1).consolidate()

    def fail(*arguments: Any) -> None:
        error = raised
        for _ in range(n_deep):
            try:
                raise SystemError(WORDS) from error
            except SystemError as found:
                error = found
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(index._settings.algorithm, "match", fail)
        with pytest.raises(type(raised)) as caught:
            index.match(["a", "b"])
    assert caught.value is raised
    assert index.match(["a"])[0] == [1]
    other = SystemError("unknown opcode")
    assert raised_behind(other) is other


def test_an_answer_comes_though_ctrl_c_ended_a_wait_for_it_at_any_step() -> None:
    files = ("futures.py", "waiting.py", "threading.py")
    for step in range(1, 40):
        one = Answer("a")
        begin([one])
        waits = threading.Timer(0.01, give, ([one], [[1]]))
        waits.start()
        interrupt_at(step, files, lambda one=one: one.result(60))
        waits.join(30)
        assert not waits.is_alive()
        assert one.result(30) == [1]


def test_a_stream_goes_on_though_ctrl_c_ended_a_submit_at_any_step() -> None:
    index = my.TagIndex().add("a", 1).consolidate()
    with index.stream(max_batch=1, max_delay_ms=0) as stream:
        for step in range(1, 30):
            interrupt_at(
                step,
                ("stream.py", "waiting.py", "threading.py"),
                lambda: [stream.submit("a") for _ in range(3)],
            )
            assert stream.submit("a").result(30) == [1]


def test_threads_that_match_are_there_though_ctrl_c_ended_a_wait_for_them() -> None:
    for step in range(1, 40):
        interrupt_at(step, ("pools.py", "threading.py"), lambda: pool(2).map(abs, range(-4, 0)))
        assert pool(2).map(abs, range(-4, 0)) == [4, 3, 2, 1]


def test_of_several_failures_the_first_item_is_told() -> None:
    def fail(number: int) -> int:
        if number == 1:
            threading.Event().wait(0.05)
        if number:
            raise my.UsageError(str(number))
        return number

    for _ in range(5):
        with pytest.raises(my.UsageError, match=r"^1$"):
            pool(2).map(fail, range(30))
    assert pool(2).map(fail, []) == []
    assert shielded(lambda: pool(2).map(abs, [-1])) == [1]


def test_ctrl_c_while_kernels_are_loaded_leaves_numba_whole() -> None:
    """It ended a generator of Numba's, and no kernel could be compiled in that process any more."""
    script = """
import random, signal
import matchyard as my
signal.signal(signal.SIGALRM, signal.default_int_handler)
random.seed(1)
def tried():
    signal.setitimer(signal.ITIMER_REAL, 0.03 * random.random() + 1e-4)
    try:
        return my.TagIndex().add("jazz", 1).consolidate().match(["jazz"])[0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
for _ in range(30):
    try:
        tried()
    except KeyboardInterrupt:
        pass
assert my.TagIndex().add("jazz", 1).consolidate().match(["jazz"])[0] == [1]
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, timeout=300
    )
    assert done.returncode == 0, done.stderr.decode()
