"""What a service asks of an index: its keys, their subscriptions, and changes of one key in one step."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import pytest

import matchyard as my

TEXTS = {
    "tags": ["jazz live", "rock"],
    "predicates": ["temp > 30", 'area = "north"'],
    "twigs": ["/a/b", "//c[@d]"],
}


def index_of(engine: str, keys: list[Any], live: bool = False) -> Any:
    index = my.create(engine, live=live)
    for key, text in zip(keys, TEXTS[engine]):
        index.add(text, key)
    return index if live else index.consolidate()


@pytest.mark.parametrize("engine", my.ENGINES)
@pytest.mark.parametrize("keys", [[1, 2], ["ada", "bob"]], ids=["int", "str"])
@pytest.mark.parametrize("live", [False, True])
def test_an_index_tells_what_it_holds(engine: str, keys: list[Any], live: bool) -> None:
    index = index_of(engine, keys, live)
    first, second = (index.parse(text) for text in TEXTS[engine])
    assert index[keys[0]] == index.subscriptions(keys[0]) == [first]
    assert [index.parse(text) for text in index.subscriptions(keys[1], text=True)] == [second]
    assert sorted(index.items(), key=repr) == sorted(zip(keys, [first, second]), key=repr)
    assert keys[0] in index
    index.remove(keys[0]).consolidate()
    assert keys[0] not in index
    assert index.subscriptions(keys[0]) == []
    assert list(index.items()) == [(keys[1], second)]
    with pytest.raises(KeyError):
        index[keys[0]]


def test_keys_of_the_other_kind_are_absent() -> None:
    index = index_of("tags", [1, 2])
    assert "ada" not in index
    assert index.subscriptions("ada") == []
    with pytest.raises(TypeError):
        iter(index)


@pytest.mark.parametrize("live", [False, True])
def test_a_key_is_replaced_in_one_step(live: bool) -> None:
    index = index_of("tags", [1, 1], live)
    assert len(index[1]) == 2
    index.replace(1, "folk").replace(2, "soul")
    if not live:
        assert len(index[1]) == 2
        index.consolidate()
    assert index[1] == [frozenset({"folk"})]
    assert index.match(["jazz live", "rock", "folk", "soul"]).to_lists() == [[], [], [1], [2]]
    assert len(index) == 2
    with pytest.raises(my.ParseError):
        index.replace(1, 7)
    assert index[1] == [frozenset({"folk"})]


def test_readers_never_see_a_key_without_its_subscription() -> None:
    index = my.TagIndex(live=True).add("a", key=1)
    seen: set[tuple[int, ...]] = set()
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            seen.add(tuple(index.match(["a b"])[0]))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(200):
        index.replace(1, "b" if number % 2 else "a")
    is_over.set()
    reader.join()
    assert seen <= {(1,)}


def test_going_through_an_index_is_not_disturbed_by_changes() -> None:
    index = my.TagIndex(live=True).add_many([["a"]] * 10_000, list(range(10_000)))
    going = index.items()
    first = next(going)
    index.remove(5).replace(6, "b").consolidate()
    assert len({key for key, _ in [first, *going]}) == 10_000
    assert len(list(index.items())) == 9_999


def test_bare_signatures_cannot_be_read_back() -> None:
    index = my.TagIndex("tagmatch", {"exact": False})
    index.add_many(index.sign([["jazz"]]), [1]).consolidate()
    with pytest.raises(my.UsageError, match="cannot be read back"):
        index.items()


def test_staged_changes_are_told() -> None:
    index = my.TagIndex().add("jazz", key=1)
    assert repr(index) == "<TagIndex: 0 subscriptions, 1 staged changes, algorithm rarest>"
    assert (len(index), index.info()["staged"]) == (0, 1)


def test_a_match_after_an_addition_that_it_does_not_see_warns_once() -> None:
    index = my.TagIndex().add("jazz", key=1)
    with pytest.warns(my.StagedWarning, match=r"1 staged additions: call consolidate\(\)") as told:
        assert index.match(["jazz"])[0] == []
    assert told[0].filename == __file__
    assert index.match(["jazz"])[0] == []  # told once
    assert index.consolidate().match(["jazz"])[0] == [1]
    index.add("rock", key=2)
    with pytest.warns(my.StagedWarning) as told:
        index.match_one("rock")
    assert told[0].filename == __file__


def test_other_threads_and_live_indexes_are_not_warned() -> None:
    index = my.TagIndex()
    adding = threading.Thread(target=lambda: index.add("jazz", key=1))
    adding.start()
    adding.join()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert index.match(["jazz"])[0] == []
        assert my.TagIndex(live=True).add("jazz", key=1).match(["jazz"])[0] == [1]
