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
from tests.cases import (
    ONE_EACH,
    Case,
    counted,
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

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.rows: list[tuple[frozenset[str], Any]] = []  # all changes made
        self.visible: list[tuple[frozenset[str], Any]] = []  # those that matching sees

    @initialize(shard_size=st.sampled_from([1000, 3]))
    def start(self, shard_size: int) -> None:
        self.index = my.TagIndex(*self.case[:2], live=self.live, shard_size=shard_size)

    def changed(self) -> None:
        if self.live:
            self.visible = list(self.rows)

    @rule(tags=subscriptions, data=st.data())
    def add(self, tags: list[str], data: st.DataObject) -> None:
        key = data.draw(self.keys)
        self.index.add(tags, key)
        self.rows.append((frozenset(tags), key))
        self.changed()

    @rule(rows=st.lists(subscriptions, max_size=12), data=st.data())
    def add_many(self, rows: list[list[str]], data: st.DataObject) -> None:
        keys = data.draw(st.lists(self.keys, min_size=len(rows), max_size=len(rows)))
        self.index.add_many(rows, keys)
        self.rows += zip(map(frozenset, rows), keys, strict=True)
        self.changed()

    @rule(data=st.data())
    def remove_key(self, data: st.DataObject) -> None:
        gone = data.draw(self.keys)
        self.index.remove(gone)
        self.rows = [(tags, key) for tags, key in self.rows if key != gone]
        self.changed()

    @rule(data=st.data())
    def remove_subscription(self, data: st.DataObject) -> None:
        stored = st.sampled_from(self.rows) if self.rows else st.nothing()
        gone = data.draw(stored | st.tuples(subscriptions.map(frozenset), self.keys))
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
        self.index = my.open(path, live=self.live)
        self.visible = list(self.rows)

    @rule(asked=st.lists(events, max_size=4), unique=st.booleans())
    def match(self, asked: list[list[str]], unique: bool) -> None:
        want = expected([row for row, _ in self.visible], [key for _, key in self.visible], asked)
        if unique:
            assert counted(self.index.match_unique(asked)) == [Counter(set(keys)) for keys in want]
        else:
            assert counted(self.index.match(asked)) == want

    @invariant()
    def has_as_many_as_the_list(self) -> None:
        assert len(self.index) == len(self.visible)

    def teardown(self) -> None:
        if self.index._background is not None:
            self.index._background.join()
            self.match([["a", "b", "c", "d", "e", "é"]], False)  # raises what went wrong there
        self.folder.cleanup()


@pytest.mark.parametrize("keys", [int_keys, str_keys], ids=["int", "str"])
@pytest.mark.parametrize("live", ["staged", "live", "background"])
@pytest.mark.parametrize("case", ONE_EACH, ids=lambda case: case.algorithm)
def test_any_order_of_changes_leaves_what_a_list_would_hold(
    case: Case,
    live: str,
    keys: st.SearchStrategy[Any],
    monkeypatch: pytest.MonkeyPatch,
    quick_saves: None,
) -> None:
    if live == "background":  # consolidate after nearly every change, and fold sides early
        monkeypatch.setattr("matchyard.consolidation._SIDE_LEAST", 1)
        monkeypatch.setattr("matchyard.consolidation._MAX_SIDES", 2)
    kind = type("Machine", (Changing,), {"case": case, "live": live != "staged", "keys": keys})
    run_state_machine_as_test(kind, settings=settings(max_examples=8, stateful_step_count=16))
