"""`match_one`: the same keys and the same errors as a batch of one event, also beside changes."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import matchyard as my
from matchyard.warming import SAMPLES

TAG = st.sampled_from(["a", "b", "c", "é", "日本", "A", ""])
PLAIN = st.lists(TAG, max_size=6)
EVENT = st.one_of(
    PLAIN,
    PLAIN.map(tuple),
    PLAIN.map(set),
    PLAIN.map(frozenset),
    PLAIN.map(" ".join),
    st.sampled_from(
        [None, 7, b"a", {"a": 1}, ["a", 7], ["a", None], [["a"]], "a\u2003b", "\ud800"]
    ),
)


def same(index: Any, event: Any) -> None:
    """Ask both verbs: equal keys, or equal errors."""
    outcomes = []
    for ask in (lambda: index.match([event])[0], lambda: index.match_one(event)):
        try:
            outcomes.append(sorted(ask()))
        except Exception as error:
            outcomes.append((type(error), str(error)))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("options", [{}, {"casefold": True}, {"max_tags": 3}], ids=str)
@settings(max_examples=30, deadline=None)
@given(subscriptions=st.lists(PLAIN.map(lambda tags: tags[:3]), max_size=8), events=st.lists(EVENT))
def test_tags_match_alike(
    live: bool, options: dict[str, Any], subscriptions: list[list[str]], events: list[Any]
) -> None:
    index = my.TagIndex(options=options, live=live)
    for number, tags in enumerate(subscriptions):
        index.add(tags, key=f"k{number % 4}")
        if number == 5:
            index.remove("k0")
    if not live:
        index.consolidate()
    for event in events:
        same(index, event)


@pytest.mark.parametrize("engine", my.ENGINES)
@pytest.mark.parametrize("live", [False, True])
def test_every_engine_matches_alike(engine: str, live: bool) -> None:
    sample = SAMPLES[engine]()
    events = [event for form in sample.forms if isinstance(form, list) for event in form]
    index = my.create(engine, live=live)
    for event in [*events, 7]:
        same(index, event)
        same(my.create(engine).consolidate(), event)
    index.add_many(sample.subscriptions, list(range(len(sample.subscriptions))))
    index = index if live else index.consolidate()
    for event in [*events, None, 7, "\ud800"]:
        same(index, event)


def test_many_keys_are_all_found() -> None:
    index = my.TagIndex().add_many([["a"]] * 1000, range(1000)).consolidate()
    assert sorted(index.match_one("a b")) == list(range(1000))
    named = my.TagIndex().add_many([["a"]] * 100, [f"k{i}" for i in range(100)]).consolidate()
    assert sorted(named.match_one("a")) == sorted(f"k{i}" for i in range(100))


def test_threads_match_one_event_each_beside_a_writer() -> None:
    """Every answer is that of a state of the index: key 1 is always there, 2 comes and goes."""
    index = my.TagIndex(live=True).add("a", key=1)
    seen: set[tuple[int, ...]] = set()
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            seen.add(tuple(sorted(index.match_one("a b"))))

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    for _ in range(200):
        index.add("b", key=2)
        assert sorted(index.match_one("a b")) == [1, 2]
        index.remove(2)
        assert index.match_one("a b") == [1]
    is_over.set()
    for reader in readers:
        reader.join()
    assert seen <= {(1,), (1, 2)}
