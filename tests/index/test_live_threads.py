"""A live index beside other threads and Ctrl-C: what they see of a change, and when."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import matchyard as my
from matchyard.engine import find_engine
from matchyard.index import removals
from matchyard.index.recent import MOST
from tests.index.test_index import pause_in_compile
from tests.index.test_live import EVENTS, RULES, found


@pytest.mark.parametrize("engine", my.ENGINES)
def test_threads_see_states_of_the_index_beside_a_writer(engine: str, cramped: None) -> None:
    """Each answer is that of a state between the beginning and the end of its call."""
    rules, event = RULES[engine], EVENTS[engine][0]
    index, random_state = my.create(engine, live=True), random.Random(5)
    index.add_many(rules, range(4))
    rooms = find_engine(engine)
    seen = rooms.encoder.read_event(event, rooms.encoder.Options())
    matching = [rooms.oracle.is_match(rooms.language.parse(rule), seen) for rule in rules]
    rows: dict[int, int] = {number: number for number in range(4)}  # key: rule
    states = [[key for key, rule in rows.items() if matching[rule]]]
    is_over, failures = threading.Event(), []

    def read() -> None:
        while not is_over.is_set():
            first = len(states) - 1
            answer = sorted(index.match_one(event))
            last = len(states) + 1  # a change may be seen before it is noted
            if not is_over.is_set() and answer not in map(sorted, states[first:last]):
                is_noted.wait(5)
                if answer not in map(sorted, states[first : last + 1]):
                    failures.append((first, last, answer))

    is_noted = threading.Event()
    readers = [threading.Thread(target=read) for _ in range(16)]
    for reader in readers:
        reader.start()
    for number in range(4, 250):
        is_noted.clear()
        key, rule = number, random_state.randrange(4)
        if number % 3 == 0:
            gone = random_state.choice(list(rows))
            index.remove(gone)
            del rows[gone]
        else:
            index.add(rules[rule], key)
            rows[key] = rule
        states.append([key for key, rule in rows.items() if matching[rule]])
        is_noted.set()
        assert sorted(index.match_one(event)) == sorted(states[-1])
    is_over.set()
    for reader in readers:
        reader.join()
    assert not failures


@pytest.mark.parametrize(
    "ask", [lambda index: index.match_one("a"), lambda index: index.match(["a"])[0]]
)
def test_a_change_is_seen_also_while_another_thread_shows_it(
    ask: Callable[[Any], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = pause_in_compile(monkeypatch, only_folds=False)
    index = my.TagIndex(live=True)
    index.add_many(["a"] * (MOST + 1), range(MOST + 1))  # too many to be recent: they are compiled
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, index)
        assert begun.wait(30)
        second = pool.submit(ask, index)  # the change is neither staged nor shown
        with pytest.raises(TimeoutError):
            second.result(0.05)
        may_end.set()
        assert len(first.result()) == len(second.result()) == MOST + 1


def test_a_saved_live_index_is_the_state_of_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = my.TagIndex(live=True)
    for key in range(5):
        index.add("a", key)
    begun, may_end = pause_in_compile(monkeypatch, only_folds=False)
    with ThreadPoolExecutor(1) as pool:
        saved = pool.submit(index.save, tmp_path / "a.index")
        assert begun.wait(30)
        assert found(index.replace(3, "a b"), "a") == [0, 1, 2, 4]
        assert found(index.remove(4).add("a", 5), "a b") == [0, 1, 2, 3, 5]
        may_end.set()
        saved.result()
    assert sorted(my.open(tmp_path / "a.index").match_one("a")) == [0, 1, 2, 3, 4]
    assert found(index, "a b") == [0, 1, 2, 3, 5]


def test_ctrl_c_after_a_removal_is_noted_does_not_lose_it(monkeypatch: pytest.MonkeyPatch) -> None:
    index = my.TagIndex(live=True).add_many(["a", "a"], [1, 2]).consolidate().remove(1)
    insert = removals.insert

    def interrupted(*given: Any) -> int:
        monkeypatch.setattr(removals, "insert", insert)
        insert(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(removals, "insert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        index.match_one("a")
    assert (found(index, "a"), len(index), 1 in index) == ([2], 1, False)


def test_a_change_is_seen_also_while_another_thread_stages_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = my.TagIndex(live=True).add("a", 1)
    begun, may_end = threading.Event(), threading.Event()
    kind = find_engine("tags").encoder.Staging
    add = kind.add

    def add_slowly(staging: Any, *given: Any) -> None:
        begun.set()
        assert may_end.wait(30)
        add(staging, *given)

    monkeypatch.setattr(kind, "add", add_slowly)
    with ThreadPoolExecutor(2) as pool:
        pool.submit(index.add_many, ["b"], [2])
        assert begun.wait(30)
        answer = pool.submit(index.match_one, "a")
        may_end.set()
        assert answer.result() == [1]
