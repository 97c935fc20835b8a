"""What every index promises beside matching: changes, explanations, sizes, and clear refusals."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import matchyard as my
from matchyard.index import held_subscriptions
from matchyard.index.segment import Segment
from tests.cases import build


def test_removing_one_key_of_64_bits_leaves_its_neighbour() -> None:
    index = build(["a", "a"], [2**53, 2**53 + 1])
    assert index.remove(2**53 + 1).consolidate().match(["a"])[0] == [2**53]


def test_an_addition_after_a_removal_stays() -> None:
    index = my.TagIndex().add("a", 1).remove(1).add("b", 1).remove(1, "a").consolidate()
    assert index.match(["a b"])[0] == [1]
    assert index.explain("a", 1) == "missing tag: b"


def test_changes_are_seen_from_consolidate_on_or_at_once_when_live() -> None:
    staged, live = my.TagIndex().add("a", 1), my.TagIndex(live=True).add("a", 1)
    assert (staged.match(["a"])[0], live.match(["a"])[0]) == ([], [1])
    assert (len(staged), len(live)) == (0, 1)
    assert staged.consolidate().match(["a"])[0] == [1]
    assert live.remove(1).match(["a"])[0] == []


def pause_in_compile(
    monkeypatch: pytest.MonkeyPatch, only_folds: bool = True
) -> tuple[threading.Event, threading.Event]:
    """Consolidations stop when they have begun to compile, until the second event is set."""
    begun, may_end = threading.Event(), threading.Event()
    compile_at_once = Segment.compile.__func__

    def compile_slowly(cls: Any, settings: Any, parts: Any, *more: Any) -> Segment:
        if not only_folds or threading.current_thread().name == "matchyard-fold":
            begun.set()
            assert may_end.wait(30)
        return compile_at_once(cls, settings, parts, *more)

    monkeypatch.setattr(Segment, "compile", classmethod(compile_slowly))
    return begun, may_end


def test_a_live_index_shows_every_change_while_it_consolidates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("matchyard.index.builds._SIDE_LEAST", 1)
    index = my.TagIndex(live=True).add_many(["a"] * 3, [1, 2, 3]).consolidate()
    begun, may_end = pause_in_compile(monkeypatch)
    with index._state.builds.fold_lock:  # the consolidation waits until more is staged
        index.add_many(["a", "a"], [4, 5])
        assert sorted(index.match(["a"])[0]) == [1, 2, 3, 4, 5]
        index.add("a", 6).remove(1).remove(4, "a")
    assert begun.wait(30)
    assert sorted(index.match(["a"])[0]) == [2, 3, 5, 6]
    index.remove(2).add("a", 7)
    assert sorted(index.match(["a"])[0]) == [3, 5, 6, 7]
    may_end.set()
    assert "fold" in index._state.builds.background
    index._state.builds.wait()
    assert sorted(index.match(["a"])[0]) == [3, 5, 6, 7]


def test_a_consolidation_that_fails_in_the_background_is_raised_by_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("matchyard.index.builds._SIDE_LEAST", 1)
    index = my.TagIndex(live=True).add("a", 1).consolidate()
    monkeypatch.setattr(Segment, "living", lambda segment: 1 / 0)
    index.add_many(["a"] * 5, range(5)).match(["a"])
    assert "fold" in index._state.builds.background
    index._state.builds.wait()
    monkeypatch.undo()
    with pytest.raises(ZeroDivisionError):
        index.match(["a"])
    assert sorted(index.match(["a"])[0]) == [0, 1, 1, 2, 3, 4]


def test_a_refused_subscription_takes_no_other_with_it() -> None:
    index = my.TagIndex(options={"max_tags": 2}).add("a", 1)
    for bad in ({"a", "b", "c"}, {"\ud800"}, [["a"]], {"a": 1}, 5, None, b"a"):
        with pytest.raises(my.ParseError):
            index.add(bad, 2)
    assert index.consolidate().match([{"a"}])[0] == [1]


@pytest.mark.parametrize(
    "key", [1.5, None, True, 2**63, -(2**63) - 1, b"a", "\ud800", (1,)], ids=repr
)
def test_a_key_is_a_64_bit_integer_or_a_string(key: Any) -> None:
    for call in (my.TagIndex().add, lambda row, key: my.TagIndex().add_many([row], [key])):
        with pytest.raises(my.UsageError, match="expected 64-bit integers or strings"):
            call("a", key)
    with pytest.raises(my.UsageError, match="expected 64-bit integers or strings"):
        my.TagIndex().remove(key)


def test_keys_of_two_kinds_do_not_mix() -> None:
    with pytest.raises(my.UsageError, match="'b' in an index with int keys"):
        my.TagIndex().add("a", 1).add("a", "b")
    with pytest.raises(my.UsageError, match="2 in an index with str keys"):
        my.TagIndex().add("a", "b").add_many(["a"], [2])
    assert len(my.TagIndex().add("a", "b").remove(7).consolidate()) == 1


@pytest.mark.parametrize(
    "keys",
    [
        np.array([7, 8], np.uint8), np.array(["7", "8"]), pa.array([7, 8], pa.int16()),
        pa.chunked_array([["7"], ["8"]]), pa.array(["7", "8"]).dictionary_encode(), (7, 8),
    ],
    ids=lambda keys: f"{type(keys).__name__}-{getattr(keys, 'type', '')}",
)  # fmt: skip
def test_keys_come_in_any_column(keys: Any) -> None:
    assert [
        int(key) for key in build(["a", "b"], keys).match(["b", "a"]).to_arrow()["key"].to_pylist()
    ] == [8, 7]


@pytest.mark.parametrize("keys", [5, [1], [1, 2, 3], [1, None], [1, "b"], [1.0, 2.0]], ids=repr)
def test_keys_that_do_not_fit_their_subscriptions_are_refused(keys: Any) -> None:
    with pytest.raises(my.UsageError, match="keys"):
        my.TagIndex().add_many(["a", "b"], keys)


def test_explain_names_every_subscription_of_the_key() -> None:
    index = build([["a", "b"], ["c"], []], ["k", "k", "e"])
    assert index.explain({"c"}, "k") == "a b: missing tags: a, b\nc: match: has c"
    assert index.explain({"c"}, "e") == "match: the empty subscription matches every event"
    assert index.explain({"c"}, "nobody") == "key 'nobody' has no subscription"


def test_explain_looks_at_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subscription that comes while a live index explains makes no false positive of the match."""
    index = my.TagIndex(live=True).add("a b", "k").consolidate()
    looked = held_subscriptions.check_values

    def late(*arguments: Any) -> None:
        index.add("c", "k").match_one("c")
        looked(*arguments)

    monkeypatch.setattr(held_subscriptions, "check_values", late)
    assert index.explain({"c"}, "k") == "missing tags: a, b"
    monkeypatch.undo()
    assert index.explain({"c"}, "k") == "a b: missing tags: a, b\nc: match: has c"


def test_matches_convert_to_lists_tables_and_columns() -> None:
    found = build([["a"], ["b"], []], ["k", "l", "m"]).match([["a"], [], ["a", "b"]])
    assert [sorted(keys) for keys in found.to_lists()] == [["k", "m"], ["m"], ["k", "l", "m"]]
    assert found[-1] == found[2] == found[0:][2]
    assert found.to_arrow()["event"].to_pylist() == [0, 0, 1, 2, 2, 2]
    assert found.to_arrow()["key"].to_pylist() == [key for keys in found for key in keys]
    assert found.to_arrays().to_pylist() == found.to_lists()
    assert found.to_pandas()["key"].tolist() == [key for keys in found for key in keys]
    with pytest.raises(IndexError):
        found[3]


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"algorithm": "magic"}, "no algorithm 'magic'.*rarest"),
        ({"options": {"leafs": 1}}, "no option 'leafs'.*leaf"),
        ({"options": {"leaf": "1"}}, "'leaf' takes int"),
        ({"options": {"leaf": True}}, "'leaf' takes int"),
        ({"options": {"casefold": 1}}, "'casefold' takes bool"),
        ({"threads": 0}, "threads"),
        ({"shard_size": 0}, "shard_size"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_would_be_right(settings: Any, found: str) -> None:
    with pytest.raises(my.UsageError, match=found):
        my.TagIndex(**settings)


@pytest.mark.parametrize(
    ("kind", "subscription", "events", "found"),
    [
        (my.TagIndex, "jazz", np.ones((3, 3), np.uint64), "bare signatures"),
        (my.PredicateIndex, "price < 3", ['{"price": 1}', "{}", '{"price"'], "event 2"),
        (my.TwigIndex, "//item", ["<item/>", "<a/>", "<item>"], "document 2"),
    ],
)
def test_bad_events_are_refused_also_where_there_is_no_subscription(
    kind: Any, subscription: str, events: Any, found: str
) -> None:
    filled = kind().add(subscription, 1).consolidate()
    refusals = []
    for index in (kind(), kind(live=True), kind().consolidate(), filled):
        for refuse in (index.match, index.match_unique, index.check):
            with pytest.raises((my.UsageError, my.ParseError), match=found) as caught:
                refuse(events)
            refusals.append(str(caught.value))
    assert len(set(refusals)) == 1


def test_good_events_match_nothing_where_there_is_no_subscription(small_chunks: int) -> None:
    found = my.TwigIndex().match(["<a/>"] * (small_chunks + 1), threads=2)
    assert found.to_lists() == [[]] * (small_chunks + 1)
    with pytest.raises(my.ParseError, match="document 3"):
        my.TwigIndex().match(["<a/>"] * small_chunks + ["<a>"])


def test_no_threads_cannot_match() -> None:
    with pytest.raises(my.UsageError, match="at least 1, not 0"):
        build(["a"]).match(["a"], threads=0)


def test_an_estimate_is_near_what_the_index_takes() -> None:
    random = np.random.default_rng(3)
    rows = [[f"t{n}" for n in random.integers(0, 10_000, 5)] for _ in range(20_000)]
    index = my.TagIndex().add_many(rows, range(20_000))
    estimate = index.estimate()
    taken = index.consolidate().info()["index_bytes"]
    assert estimate.subscriptions == 20_000
    assert 0.7 * taken < estimate.index_bytes < 1.5 * taken
    assert estimate.build_bytes > estimate.index_bytes


def test_a_mixture_is_refused_when_it_is_added_and_costs_nothing_staged() -> None:
    index = my.TagIndex("tagmatch", {"exact": False}).add("jazz", 1)
    with pytest.raises(my.UsageError, match="bare signatures of 3 words cannot be added to"):
        index.add_many(np.ones((1, 3), np.uint64), [2])
    assert index.consolidate().match(["jazz"])[0] == [1]


def test_bad_options_are_refused_when_the_index_is_made() -> None:
    for algorithm, options in [
        ("rarest", {"leaf": 0}),
        ("rarest", {"normalize": "nfc"}),
        ("tagmatch", {"pivot": "any"}),
        ("tagmatch", {"batch": 257}),
        ("prefix_tree", {"n_bits": 0}),
        ("scan", {"stripe": 0}),
    ]:
        with pytest.raises(my.UsageError):
            my.TagIndex(algorithm, options)


def test_refused_keys_leave_the_index_as_it_was() -> None:
    index = my.TagIndex()
    with pytest.raises(my.UsageError, match="2 subscriptions, but 1 keys"):
        index.add_many([{"a"}, {"b"}], ["one"])
    assert index.add("a", 1).consolidate().match(["a"])[0] == [1]


def test_forwarding_needs_integer_keys() -> None:
    index = my.TagIndex().add("a", "ada").consolidate()
    with pytest.raises(my.UsageError, match="interface_key"):
        index.forward([{"a"}], [0], [0])


def test_threads_are_checked_by_open_too(tmp_path: Path) -> None:
    my.TagIndex().add("a", 1).save(tmp_path / "a.index")
    with pytest.raises(my.UsageError, match="threads"):
        my.open(tmp_path / "a.index", threads=0)
