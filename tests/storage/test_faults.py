"""Kills, threads and forks: what is on disk stays whole, and readers see one state at a time."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

import matchyard as my
from matchyard.gpu.resident import kept
from tests.cases import ONE_EACH, Case, build

ROWS = [[f"t{number % 7}", f"u{number % 5}"] for number in range(300)]
EVENTS = [["t1", "u1", "u2"], ["t1", "t2", "u3"], ["new"], []]
N_KILLS = 40


def answers(index: my.TagIndex) -> list[list[str]]:
    return [sorted(keys) for keys in index.match(EVENTS)]


def old_and_new() -> tuple[my.TagIndex, my.TagIndex]:
    """Two states that differ in most answers: `new` has other keys and one more subscription."""
    old = build(ROWS, [f"old {number}" for number in range(300)])
    new = build([*ROWS, ["new"]], [f"new {number}" for number in range(301)])
    return old, new


def in_child(work: Callable[[], object]) -> int:
    """Run in a fork, which has every kernel compiled already; exit code 0 means True."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is the point
        child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return child


def exit_code(child: int) -> int:
    for _ in range(600):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


def kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def save_state(index: my.TagIndex, state: str, path: Path) -> None:
    """Consolidate to the old state or the new one, and save it."""
    for number in range(301):
        index.remove(f"old {number}").remove(f"new {number}")
    rows = [*ROWS, ["new"]] if state == "new" else ROWS
    index.add_many(rows, [f"{state} {number}" for number in range(len(rows))])
    index.save(path)


def save_for_ever(path: Path) -> NoReturn:
    index = my.open(path)
    while True:
        save_state(index, "new", path)
        save_state(index, "old", path)


def test_a_kill_at_any_moment_leaves_the_old_index_or_the_new(tmp_path: Path) -> None:
    path, moment = tmp_path / "a.index", random.Random(1)
    old, new = old_and_new()
    states = [answers(old.save(path)), answers(new)]
    save_state(my.open(path), "new", tmp_path / "warm.index")  # compiles what the children need
    seen, n_interrupted = set(), 0
    for number in range(10 * N_KILLS):
        if number >= N_KILLS and n_interrupted and seen == {0, 1}:
            break
        child = in_child(lambda: save_for_ever(path))
        # Later ones have more time, in which a machine that is busy gets somewhere.
        time.sleep(moment.uniform(0.01, 0.2) * max(1, number / N_KILLS))
        kill(child)
        n_interrupted += any((path / "versions").glob(".writing-*"))
        found = answers(my.open(path, verify=True))
        assert found in states
        seen.add(states.index(found))
    assert seen == {0, 1}
    assert n_interrupted > 0
    new.save(path)  # and the next writer tidies up
    assert answers(my.open(path, verify=True)) == states[1]
    assert not list((path / "versions").glob(".writing-*"))
    assert len(list((path / "versions").iterdir())) == 2


def test_a_kill_during_the_first_save_leaves_nothing_or_all_of_it(tmp_path: Path) -> None:
    moment = random.Random(2)
    index = old_and_new()[0]
    for number in range(12):
        path = tmp_path / f"{number}.index"
        child = in_child(lambda path=path: index.save(path) and time.sleep(30))
        time.sleep(moment.uniform(0.0, 0.05))
        kill(child)
        if (path / "CURRENT").exists():
            assert answers(my.open(path, verify=True)) == answers(index)
        else:
            with pytest.raises(my.StorageError, match="has no file CURRENT"):
                my.open(path)
        index.save(path)
        assert answers(my.open(path, verify=True)) == answers(index)


@pytest.mark.parametrize("case", ONE_EACH, ids=lambda case: case.algorithm)
def test_threads_that_match_during_consolidations_never_see_a_mixture(case: Case) -> None:
    index = build(ROWS, [0] * 300, *case[:2])
    rows = {0: ROWS, 1: [*ROWS, ["new"]]}
    states = [[sorted(keys) for keys in build(rows[n], [n] * len(rows[n]), *case[:2]).match(EVENTS)]
              for n in rows]  # fmt: skip
    done, wrong, seen = threading.Event(), [], set()

    def read() -> None:
        while not done.is_set() and not wrong:
            found = [sorted(keys) for keys in index.match(EVENTS)]
            if found in states:
                seen.add(states.index(found))
            else:
                wrong.append(found)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    try:
        for turn in range(50):
            state = 1 - turn % 2
            index.remove(1 - state).add_many(rows[state], [state] * len(rows[state])).consolidate()
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert wrong == []
    assert seen == {0, 1}


def test_two_threads_may_consolidate_and_change_at_once() -> None:
    index = my.TagIndex(live=True)

    def work(writer: int) -> None:
        for number in range(40):
            index.add(["t", f"w{writer}"], 1000 * writer + number)
            if number % 3 == 0:
                index.remove(1000 * writer + number - 1)
            if number % 7 == 0:
                index.consolidate()

    writers = [threading.Thread(target=work, args=[writer]) for writer in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    want = {1000 * w + n for w in range(4) for n in range(40) if n % 3 != 2 or n == 39}
    assert set(index.match([["t", "w0", "w1", "w2", "w3"]])[0]) == want
    assert len(index) == len(want)


def test_a_forked_child_matches_with_threads_of_its_own(small_chunks: int) -> None:
    index = build(ROWS, None)
    events = EVENTS * 5
    before = index.match(events, threads=2).to_lists()  # starts the pool that does not fork

    def match_again() -> bool:
        changed = build(ROWS, None).remove(1).consolidate()
        return index.match(events, threads=2).to_lists() == before and len(changed) == 299

    assert exit_code(in_child(match_again)) == 0
    assert index.match(events, threads=2).to_lists() == before


def test_a_forked_child_waits_for_nothing_that_another_thread_was_at() -> None:
    index = build(ROWS, None)
    (segment,) = index.segments()

    def match_and_forget() -> bool:
        kept.forget(segment.tables[0])
        return answers(index) == answers(build(ROWS, None))

    has_begun, is_over = threading.Event(), threading.Event()

    def copy_to_a_card() -> None:
        with segment.workspaces._turn, kept._lock:
            has_begun.set()
            is_over.wait(60)

    other = threading.Thread(target=copy_to_a_card)
    other.start()
    assert has_begun.wait(60)
    child = in_child(match_and_forget)
    is_over.set()
    other.join()
    assert exit_code(child) == 0
