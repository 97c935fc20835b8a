"""How many events are matched at once, and that nobody sees it."""

from __future__ import annotations

import numpy as np
import pytest

import matchyard as my
from matchyard.engine import configure
from matchyard.index import segment, snapshot


@pytest.fixture
def few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are of 32 events, as if for a GPU, or 16 at first, or find a hundred keys."""
    for name, value in (("LEAST", 2), ("CHUNK", 16)):
        monkeypatch.setattr(segment, name, value)
        monkeypatch.setattr(snapshot, name, value)
    monkeypatch.setattr(segment, "_LEAST_ON_CARD", 2)
    monkeypatch.setattr(segment, "_MOST_KEYS", 100)
    for engine in ("tags", "twigs"):
        monkeypatch.setattr(configure(engine, None, {}).algorithm, "LAUNCH", 32, raising=False)


def sizes(found: my.Matches) -> list[int]:
    return [len(part.event_start) - 1 for part in found.parts]


@pytest.mark.parametrize("threads", [1, 2])
def test_events_that_find_many_keys_are_matched_fewer_at_a_time(
    threads: int, few_keys: None
) -> None:
    index = my.TagIndex().add_many([["jazz"]] * 30, my.interface_key(0, np.arange(30)))
    events = [["jazz"]] * 20
    assert index.consolidate().match([], threads).to_lists() == []
    before = index.match(events, threads)  # nothing is known of them yet
    after = index.match(events, threads)
    for found in (before, after):
        assert [sorted(row) for row in found] == [list(range(30))] * 20
        assert found.work.matches == 600
    assert sizes(after) == ([3, 3, 3, 3, 3, 3, 2] if threads == 1 else [3, 2] * 4)
    assert threads > 1 or sizes(before) == [16, 3, 1]
    wanted = [[key for key in range(30) if key != i] for i in range(20)]
    assert [sorted(row) for row in index.forward(events, [0] * 20, range(20), threads)] == wanted


def test_a_bad_event_is_named_wherever_events_are_cut(few_keys: None) -> None:
    index = my.TwigIndex().add_many(["//a"] * 30, range(30))
    assert sizes(index.consolidate().match(["<a/>"] * 20)) == [16, 3, 1]
    with pytest.raises(my.ParseError, match="document 29"):
        index.match(["<a/>"] * 29 + ["<a>"] * 2)


def test_where_tables_take_turns_a_step_is_larger(
    few_keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = my.TagIndex().add_many([["jazz"]] * 30, range(30)).consolidate().segments()
    column = one.settings.engine.encoder.column([["jazz"]], one.settings.input_options)
    found = []
    for _ in range(2):
        with monkeypatch.context() as on_small_cards:
            on_small_cards.setattr(one.workspaces, "in_turns", True)
            found.append(one.at_once(1000))
        one.match(column)
    assert found == [segment.IN_TURNS * 16, segment.IN_TURNS * 100 // 30]


def test_on_the_cpu_work_does_not_depend_on_what_came_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(segment, "_MOST_KEYS", 100)
    index = my.PredicateIndex("tiles").add_many([f"x > {i}" for i in range(50)], range(50))
    events = [{"x": i % 70} for i in range(3000)]
    first = index.consolidate().match(events)
    assert first.work == index.match(events).work
    assert sizes(first) == sizes(index.match(events)) == [3000]
