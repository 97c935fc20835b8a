"""What is removed leaves nothing behind: no names, no texts, no constants, no patterns."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import matchyard as my
from matchyard.engine import find_engine
from matchyard.engines.predicates.encoder import decode
from tests.cases import Case, build, int_keys, str_keys
from tests.predicate_cases import ONE_EACH, subscriptions


def stored_in(index: Any) -> tuple[list[Any], list[int]]:
    """All subscriptions and the numbers of their keys, in the order in which tables have them."""
    rows, numbers = [], []
    for segment in index.segments():
        batch, vocabulary, keys = segment.living()
        rows += [decode(batch, row, vocabulary) for row in range(len(keys))]
        numbers += keys.tolist()
    return rows, numbers


def assert_same_arrays(left: Any, right: Any, at: str = "") -> None:
    """Byte for byte, whatever is within each other."""
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype, at
        assert left.tobytes() == right.tobytes(), at
        return
    assert len(left) == len(right)
    names = getattr(left, "_fields", range(len(left)))
    for name, one, other in zip(names, left, right, strict=True):
        assert_same_arrays(one, other, f"{at}.{name}")


class Removing(RuleBasedStateMachine):
    """After each consolidation the index is that of a new one with the same subscriptions."""

    case: Case
    keys: st.SearchStrategy[Any]
    live: bool

    def __init__(self) -> None:
        super().__init__()
        self.index: Any = build([], [], *self.case[:2], "predicates", live=self.live)
        self.start = self.index.info()
        self.living: list[Any] = []

    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        row, key = data.draw(subscriptions(self.case)), data.draw(self.keys)
        self.index.add(row, key)
        self.living.append(key)

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.living) if self.living else self.keys)
        self.index.remove(key)
        self.living = [other for other in self.living if other != key]

    @rule()
    def remove_all(self) -> None:
        for key in self.living:
            self.index.remove(key)
        self.living = []

    @rule()
    def save_and_open(self) -> None:
        with TemporaryDirectory() as folder:
            self.index.save(Path(folder, "an.index"))
            self.index = my.open(Path(folder, "an.index"), live=self.live)
        assert len(self.index.key_names() or ()) <= len(set(self.living))

    @invariant()
    def is_as_good_as_new(self) -> None:
        self.index.consolidate()
        rows, numbers = stored_in(self.index)
        assert len(rows) == len(self.living)
        fresh = build(rows, numbers, *self.case[:2], "predicates")
        for one, other in zip(self.index.segments(), fresh.segments(), strict=True):
            assert_same_arrays(one.vocabulary, other.vocabulary)
            assert_same_arrays(one.tables, other.tables)
        if not self.living:
            for size in ("names", "index_bytes", "key_bytes", "distinct", "subscriptions"):
                assert self.index.info()[size] == self.start[size]


@pytest.mark.parametrize("live", [False, True], ids=["staged", "live"])
@pytest.mark.parametrize("case", ONE_EACH, ids=lambda case: case.algorithm)
def test_an_index_from_which_was_removed_is_as_good_as_new(
    case: Case, live: bool, quick_saves: None
) -> None:
    keys = str_keys if live else int_keys
    kind = type("Machine", (Removing,), {"case": case, "keys": keys, "live": live})
    run_state_machine_as_test(kind, settings=settings(max_examples=6, stateful_step_count=10))


@pytest.mark.parametrize("algorithm", find_engine("predicates").algorithms)
def test_keys_that_saving_numbers_anew_make_the_table_of_a_new_index(
    algorithm: str, tmp_path: Path
) -> None:
    index = build(["x > 1", "x > 2"], ["ada", "bob"], algorithm, engine="predicates", live=True)
    index.add("x > 3", "bob").remove("ada").add("x > 1", "ada").save(tmp_path / "an.index")
    opened = my.open(tmp_path / "an.index", verify=True)
    rows, numbers = stored_in(opened)
    (one,), (other,) = (
        found.segments() for found in (opened, build(rows, numbers, algorithm, engine="predicates"))
    )
    assert_same_arrays(one.tables, other.tables)


@pytest.mark.parametrize("algorithm", find_engine("predicates").algorithms)
def test_nothing_of_a_removed_predicate_is_found_in_memory(algorithm: str) -> None:
    index = build(["x > 1"], [1], algorithm, engine="predicates")
    before = index.info()
    index.add("secret in [0.125, 9007199254740993]", 2).consolidate()
    assert index.info()["names"] == 2
    index.remove(2).consolidate()
    assert index.info() == before
    index.add("secret < 3", 3).remove(3).consolidate()  # and none that was only staged
    assert index.info() == before
