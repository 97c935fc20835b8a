"""Results that are larger than memory: `match_batches` takes the same events as `match`, with the same errors."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import matchyard as my
from matchyard.matches import Hits, Matches, Part

GOOD = {"tags": "a", "predicates": '{"a": 1}', "twigs": "<a/>"}
RULES = {"tags": "a", "predicates": "a = 1", "twigs": "//a"}
BAD = {"tags": None, "predicates": '{"a": ', "twigs": "<a"}


@pytest.mark.parametrize("engine", my.ENGINES)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_bad_event_of_a_later_batch_is_placed(engine: str, threads: int) -> None:
    index = my.create(engine).add(RULES[engine], 1).consolidate()
    events = [GOOD[engine]] * 700 + [BAD[engine]] + [GOOD[engine]] * 99
    with pytest.raises(my.ParseError) as whole:
        index.match(events, threads)
    with pytest.raises(my.ParseError) as later:
        list(index.match_batches(events, 600, threads))
    assert str(later.value) == str(whole.value)
    with pytest.raises(my.ParseError, match=r"events counted from 600: |\b700\b"):
        list(index.match_batches(iter(events), 600, threads))


@pytest.mark.parametrize("odd", ["a b", {"a", "b"}, {"a": 1}, None, pd.DataFrame({"x": ["a"]})])
def test_events_that_match_refuses_are_refused(odd: Any) -> None:
    index = my.TagIndex().add_many([["a"], ["b"]], [1, 2]).consolidate()
    with pytest.raises((my.MatchyardError, TypeError)) as whole:
        index.match(odd)
    with pytest.raises(type(whole.value)) as some:
        list(index.match_batches(odd, 2))
    assert str(some.value) == str(whole.value)


@pytest.mark.parametrize(
    "events",
    [
        pd.DataFrame({"x": [1, 2, 3]}),
        pa.table({"x": [1, 2, 3]}),
        [{"x": 1}, {"x": 2}, {"x": 3}],
        ({"x": 1}, {"x": 2}, {"x": 3}),
        np.array([{"x": 1}, {"x": 2}, {"x": 3}]),
    ],
)
def test_columns_of_all_forms_are_cut_into_batches(events: Any) -> None:
    index = my.PredicateIndex().add("x > 1", 1).consolidate()
    found = [matches.to_lists() for matches in index.match_batches(events, 2)]
    assert found == [[[], [1]], [[1]]]


def test_staged_additions_are_warned_of_at_the_caller() -> None:
    for ask in (
        lambda index: list(index.match_batches(["a"], 1)),
        lambda index: index.each(["a"], print),
    ):
        index = my.TagIndex().add("a", 1)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            ask(index)
        assert [(one.category, one.filename) for one in said] == [(my.StagedWarning, __file__)]


def test_parts_that_are_the_same_object_are_numbered_apart() -> None:
    one = Part(np.array([0, 2]), np.array([7, 9]))
    batches = Matches([one, one]).batches()
    assert [batch["event"].to_pylist() for batch in batches] == [[0, 0], [1, 1]]


def test_pickled_matches_have_their_keys_and_not_the_index() -> None:
    index = my.TagIndex().add_many([["a"]] * 50_000 + [["b"]] * 50, range(50_050)).consolidate()
    matches = index.match(["b", "c"])
    assert isinstance(matches.parts[0].found, Hits)
    data = pickle.dumps(matches)
    assert len(data) < 2_000
    assert sorted(pickle.loads(data)[0]) == list(range(50_000, 50_050))


def test_a_forked_child_reads_while_its_parent_writes_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    index = my.TagIndex().add_many([["a"]] * 100, range(100)).consolidate()
    slow, other = index.match(["a"] * 2), index.match(["a", "b"])
    begun, may_end = threading.Event(), threading.Event()
    write = Part.write

    def write_slowly(part: Part, *given: Any) -> None:
        begun.set()
        assert may_end.wait(30)
        write(part, *given)

    monkeypatch.setattr(Part, "write", write_slowly)
    writer = threading.Thread(target=lambda: slow.keys)
    writer.start()
    assert begun.wait(30)
    monkeypatch.setattr(Part, "write", write)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if len(other.keys) == 100 else 1)
    assert os.waitpid(child, 0)[1] == 0
    may_end.set()
    writer.join()
    assert len(slow.keys) == 200
