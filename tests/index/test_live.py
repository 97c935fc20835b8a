"""A live index: recent additions, tombstones with versions, and what joins them in the background."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import weakref
from collections import Counter
from typing import Any

import pytest

import matchyard as my
from matchyard.engine import find_engine
from matchyard.index.segment import Segment
from tests.threads.test_interrupts import interrupt_at

EVENTS = {
    "tags": ["a b", "c"],
    "predicates": [{"x": 1}, {"x": 7}],
    "twigs": [b"<a><b/></a>", b"<c/>"],
}
RULES = {
    "tags": ["a", "a b", "c", "z"],
    "predicates": ["x = 1", "x > 0", "x in [5, 9]", 'y = "z"'],
    "twigs": ["/a", "//b", "/c", "//z"],
}


def found(index: Any, event: Any) -> list[Any]:
    """The keys of an event, which must be the same by both ways."""
    one = sorted(index.match_one(event))
    assert one == sorted(index.match([event, event])[1])
    return one


@pytest.mark.parametrize("engine", my.ENGINES)
def test_few_additions_are_recent_and_removals_are_seen_everywhere(engine: str) -> None:
    rules, (event, other) = RULES[engine], EVENTS[engine]
    index = my.create(engine, live=True)
    assert found(index, event) == []
    for key, rule in enumerate(rules):
        index.add(rule, key)
    assert (found(index, event), found(index, other)) == ([0, 1], found(index, other))
    assert (index.info()["recent"], index.info()["segments"]) == (4, 0)
    assert index.remove(0, rules[0]).subscriptions(1, text=True)
    assert (found(index, event), len(index)) == ([1], 3)
    assert Counter(key for key, _ in index.items()) == Counter([1, 2, 3])
    index.consolidate()
    assert (index.info()["recent"], index.info()["segments"]) == (0, 1)
    assert found(index.add(rules[0], 9).remove(1), event) == [9]
    assert 1 not in index
    assert 9 in index
    assert index.explain(event, 9) != "key 9 has no subscription"


def test_a_snapshot_keeps_what_later_calls_remove_and_add() -> None:
    index = my.TagIndex(live=True).add_many(["a"] * 5, range(5)).consolidate()
    index.add("a", 5).match_one("a")
    before = index._state.visible()
    index.remove(1).remove(5).add("a", 6)
    after = index._state.visible()
    column = index._column(["a", "b"])
    assert sorted(before.match(column, 1)[0]) == [0, 1, 2, 3, 4, 5]
    assert sorted(after.match(column, 1)[0]) == [0, 2, 3, 4, 6]
    assert sorted(index.add("a", 1).match_one("a")) == [0, 1, 2, 3, 4, 6]
    assert sorted(before.match_unique(column, 1)[0]) == [0, 1, 2, 3, 4, 5]
    assert (before.n_living(), after.n_living()) == (6, 5)


@pytest.mark.parametrize("engine", my.ENGINES)
def test_changes_are_joined_in_the_background_and_nothing_is_lost(
    engine: str, cramped: None
) -> None:
    random_state, index, rows = random.Random(3), my.create(engine, live=True), {}
    rooms = find_engine(engine)
    for number in range(400):
        key, rule = f"k{number}", random_state.choice(RULES[engine])
        index.add(rule, key)
        rows[key] = rooms.language.parse(rule)
        if len(rows) > 20:
            gone = random_state.choice(list(rows))
            index.remove(gone)
            del rows[gone]
        if number % 3 == 0:
            event = random_state.choice(EVENTS[engine])
            seen = rooms.encoder.read_event(event, rooms.encoder.Options())
            want = sorted(key for key, one in rows.items() if rooms.oracle.is_match(one, seen))
            assert found(index, event) == want
        if number % 50 == 0:
            some = random_state.choice(list(rows))
            assert index.subscriptions(some) == [rows[some]]
            assert len(index) == len(rows)
    index._state.builds.wait()
    assert {"merge", "fold"} <= set(index._state.builds.background)
    assert index._state.keys.n_names < 400  # keys that are gone are forgotten
    assert sum(segment.n_keys for segment in index.segments()) < 100
    assert dict(index.items()) == rows


def test_a_failed_merge_is_raised_once_and_loses_nothing(
    cramped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = my.TagIndex(live=True).add_many(["a"], [0]).consolidate()
    with monkeypatch.context() as broken:
        broken.setattr(Segment, "compile", classmethod(lambda *_: 1 / 0))
        for key in range(1, 5):
            index.add("a", key)
        assert sorted(index.match_one("a")) == [0, 1, 2, 3, 4]
        index._state.builds.wait()
        with pytest.raises(ZeroDivisionError):
            index.match_one("a")
    assert sorted(index.remove(2).match_one("a")) == [0, 1, 3, 4]
    index._state.builds.wait()
    assert sorted(index.consolidate().match_one("a")) == [0, 1, 3, 4]


@pytest.mark.parametrize("engine", my.ENGINES)
def test_ctrl_c_at_any_step_shows_a_change_once_or_not_yet(engine: str) -> None:
    files = (
        "state.py",
        "recent.py",
        "staged.py",
        "segment.py",
        "tombstones.py",
        "builds.py",
        "keys.py",
    )
    index = my.create(engine, live=True).add_many(RULES[engine], [f"k{i}" for i in range(4)])
    event = EVENTS[engine][0]
    index.consolidate().match_one(event)
    index.add(RULES[engine][0], "always").match_one(event)
    was_there = True
    step = 0
    while was_there:
        step += 1
        index.add(RULES[engine][0], f"new{step}").remove(f"new{step - 1}")
        _, was_there = interrupt_at(step, files, lambda: index.match_one(event))
        assert found(index, event) == sorted(["always", "k0", "k1", f"new{step}"])
    assert step > 20
    assert sorted(key for key, _ in index.items()) == sorted(
        [*(f"k{i}" for i in range(4)), "always", f"new{step}"]
    )


def test_a_process_may_end_while_its_index_is_being_joined() -> None:
    script = """
import matchyard as my
index = my.PredicateIndex(live=True)
index.add_many([f"x = {i}" for i in range(2_000)], range(2_000))
for i in range(100_000):
    index.add(f"x = {i}", key=i).match_one({"x": i})
    if any(one.is_alive() for one in index._state.builds.background.values()):
        break
else:
    raise AssertionError("nothing was joined")
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert (done.returncode, done.stderr.decode()) == (0, "")


@pytest.mark.parametrize("engine", my.ENGINES)
def test_the_memory_of_an_index_is_free_when_it_is_dropped(engine: str, cramped: None) -> None:
    rules, (event, _) = RULES[engine], EVENTS[engine]
    index = my.create(engine, live=True)
    for number in range(30):
        found(index.add(rules[number % 4], number), event)
        found(index.remove(number // 2), event)
    index.consolidate()
    index._state.builds.wait()
    state = weakref.ref(index._state)
    gc.disable()
    try:
        del index
        assert state() is None
    finally:
        gc.enable()


def test_an_estimate_counts_recent_additions() -> None:
    index = my.TagIndex(live=True).add("a", 1)
    before = index.estimate()
    index.match_one("a")
    assert index.estimate() == before
    assert before.subscriptions == 1
