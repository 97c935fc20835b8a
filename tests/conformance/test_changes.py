"""Adding, removing, consolidating, saving and opening in any order, against a plain list."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import matchyard as my
from matchyard.engine import find_engine
from tests.cases import (
    ONE_EACH,
    Case,
    counted,
    empty,
    events,
    expected,
    int_keys,
    str_keys,
    subscriptions,
)


class Changing(RuleBasedStateMachine):
    """An index beside the list of what is in it; one subclass per setting under test."""

    case: Case
    live: bool
    keys: st.SearchStrategy[Any]
    subscriptions: st.SearchStrategy[Any] = subscriptions
    events: st.SearchStrategy[Any] = events

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.parse = find_engine(self.case.engine).language.parse
        self.rows: list[tuple[Any, Any]] = []  # all changes made
        self.visible: list[tuple[Any, Any]] = []  # those that matching sees

    @initialize(shard_size=st.sampled_from([1000, 3]))
    def start(self, shard_size: int) -> None:
        algorithm, options, _, engine = self.case
        self.index = empty(engine, algorithm, options, live=self.live, shard_size=shard_size)

    def changed(self) -> None:
        if self.live:
            self.visible = list(self.rows)

    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        row, key = data.draw(self.subscriptions), data.draw(self.keys)
        self.index.add(row, key)
        self.rows.append((self.parse(row), key))
        self.changed()

    @rule(data=st.data())
    def add_many(self, data: st.DataObject) -> None:
        rows = data.draw(st.lists(self.subscriptions, max_size=12))
        keys = data.draw(st.lists(self.keys, min_size=len(rows), max_size=len(rows)))
        self.index.add_many(rows, keys)
        self.rows += zip(map(self.parse, rows), keys, strict=True)
        self.changed()

    @rule(data=st.data())
    def remove_key(self, data: st.DataObject) -> None:
        gone = data.draw(self.keys)
        self.index.remove(gone)
        self.rows = [row for row in self.rows if row[1] != gone]
        self.changed()

    @rule(data=st.data())
    def remove_subscription(self, data: st.DataObject) -> None:
        stored = st.sampled_from(self.rows) if self.rows else st.nothing()
        gone = data.draw(stored | st.tuples(self.subscriptions.map(self.parse), self.keys))
        self.index.remove(gone[1], gone[0])
        self.rows = [row for row in self.rows if row != gone]
        self.changed()

    @rule()
    def consolidate(self) -> None:
        self.index.consolidate()
        self.visible = list(self.rows)

    @rule()
    def save_and_open(self) -> None:
        path = Path(self.folder.name, "an.index")
        self.index.save(path)
        self.index = my.open(path, verify=True, live=self.live, device=self.index.device)
        self.visible = list(self.rows)

    @rule(data=st.data(), unique=st.booleans())
    def match(self, data: st.DataObject, unique: bool) -> None:
        self.check(data.draw(st.lists(self.events, max_size=4)), unique)

    @rule(data=st.data())
    def match_one(self, data: st.DataObject) -> None:
        event = data.draw(self.events)
        rows, keys = [row for row, _ in self.visible], [key for _, key in self.visible]
        (want,) = expected(rows, keys, [event], self.case.engine)
        assert Counter(self.index.match_one(event)) == want

    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        row, key = data.draw(self.subscriptions), data.draw(self.keys)
        self.index.replace(key, row)
        self.rows = [one for one in self.rows if one[1] != key] + [(self.parse(row), key)]
        self.changed()

    @rule()
    def list_all(self) -> None:
        assert Counter((key, row) for key, row in self.index.items()) == Counter(
            (key, row) for row, key in self.visible
        )

    def check(self, asked: list[Any], unique: bool) -> None:
        rows, keys = [row for row, _ in self.visible], [key for _, key in self.visible]
        want = expected(rows, keys, asked, self.case.engine)
        if unique:
            assert counted(self.index.match_unique(asked)) == [Counter(set(keys)) for keys in want]
        else:
            assert counted(self.index.match(asked)) == want

    @invariant()
    def has_as_many_as_the_list(self) -> None:
        assert len(self.index) == len(self.visible)

    def teardown(self) -> None:
        self.index._state.builds.wait()
        self.index.match([])  # raises what went wrong there
        self.folder.cleanup()


every_key = pytest.mark.parametrize("keys", [int_keys, str_keys], ids=["int", "str"])
every_way = pytest.mark.parametrize("live", ["staged", "live", "background"])


def run(live: str, monkeypatch: pytest.MonkeyPatch, **chosen: Any) -> None:
    """Some orders of changes, with what is chosen about them."""
    if live == "background":  # little room for recent additions, merge and fold after a few changes
        monkeypatch.setattr("matchyard.index.state.MOST", 3)
        monkeypatch.setattr("matchyard.index.builds._MERGE_AT", 2)
        monkeypatch.setattr("matchyard.index.builds._SIDE_LEAST", 3)
        monkeypatch.setattr("matchyard.index.state._MAX_SIDES", 2)
    kind = type("Machine", (Changing,), {"live": live != "staged", **chosen})
    run_state_machine_as_test(kind, settings=settings(max_examples=8, stateful_step_count=16))


@every_key
@every_way
@pytest.mark.parametrize("case", ONE_EACH, ids=lambda case: case.algorithm)
def test_any_order_of_changes_leaves_what_a_list_would_hold(
    case: Case,
    live: str,
    keys: st.SearchStrategy[Any],
    monkeypatch: pytest.MonkeyPatch,
    quick_saves: None,
) -> None:
    run(live, monkeypatch, case=case, keys=keys)
