"""Matches as hits: every way to read them, with keys that are written at once or later, in small steps or large ones."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import matchyard as my
from matchyard import matches as module
from matchyard import parts
from matchyard.forwarding import interface_key
from matchyard.matches import Hits, Matches, Part

TAGS = "abcd"
ROOMS = {  # keys per row from which on they are written later, keys of a step, keys for several threads
    "roomy": (16, 1 << 20, 1 << 16),
    "cramped": (0, 3, 1),
    "at once": (1 << 60, 3, 1),
}
KEYS = {
    "narrow": lambda number: number % 7 - 3,
    "wide": lambda number: (number % 7 - 3) << 40,
    "names": lambda number: f'näme "{number % 7}"',
}


@pytest.fixture(params=ROOMS)
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    later, step, much = ROOMS[request.param]
    monkeypatch.setattr(parts, "WRITTEN_LATER", later)
    monkeypatch.setattr(parts, "STEP", step)
    monkeypatch.setattr(parts, "_LARGE", 16)
    monkeypatch.setattr(module, "STEP", step)
    monkeypatch.setattr(module, "_MUCH", much)
    return str(request.param)


def sets_and_keys(n_sets: int, key: str) -> tuple[list[set[str]], list[Any]]:
    some = np.random.default_rng(n_sets).integers(0, 16, n_sets)
    sets = [{tag for bit, tag in enumerate(TAGS) if number >> bit & 1} for number in some]
    return sets, [KEYS[key](number) for number in range(n_sets)]


EVENTS = [set(), {"a"}, {"a", "b"}, set("abcd"), {"x"}, {"b", "c", "d"}] * 50


def wanted(sets: list[set[str]], keys: list[Any]) -> list[list[Any]]:
    """What the definition of a match says."""
    return [
        sorted(key for tags, key in zip(sets, keys, strict=True) if tags <= event)
        for event in EVENTS
    ]


def check(matches: Matches, want: list[list[Any]]) -> None:
    """Read matches in every way."""
    assert [sorted(keys) for keys in matches] == want
    assert [sorted(keys) for keys in matches.to_lists()] == want
    assert [sorted(matches[number]) for number in range(-len(want), 0)] == want
    assert [sorted(keys) for keys in matches[5:9]] == want[5:9]
    assert matches.counts().tolist() == list(map(len, want))
    assert matches.counts(unique=True).tolist() == [len(set(keys)) for keys in want]
    assert matches.total == matches.work.matches == len(matches.keys) == sum(map(len, want))
    assert matches.event_start.tolist() == np.cumsum([0, *map(len, want)]).tolist()
    numbers = matches.keys
    if matches.key_names is not None:
        numbers = np.array(matches.key_names.to_pylist())[numbers]
    start = matches.event_start
    assert [sorted(numbers[low:high].tolist()) for low, high in pairwise(start)] == want
    pairs = Counter((event, key) for event, keys in enumerate(want) for key in keys)
    assert Counter(map(tuple, matches.to_pandas().itertuples(index=False))) == pairs
    table = matches.to_arrow()
    assert Counter(zip(*table.to_pydict().values(), strict=True)) == pairs
    batches = [batch.to_pydict() for batch in matches.batches(module.STEP, first_event=7)]
    found = Counter(
        (event - 7, key)
        for one in batches
        for event, key in zip(one["event"], one["key"], strict=True)
    )
    assert found == pairs
    assert [sorted(keys) for keys in matches.to_arrays().to_pylist()] == want
    lists = [keys for lists in matches.array_batches(module.STEP) for keys in lists.to_pylist()]
    assert list(map(sorted, lists)) == want
    assert [sorted(keys) for keys in matches.to_arrays(narrow=True).to_pylist()] == want
    narrow = matches.to_arrow(narrow=True)
    assert Counter(zip(*narrow.to_pydict().values(), strict=True)) == pairs
    if matches.key_names is None:
        assert table.schema.field("key").type == pa.int64()
        assert narrow.schema.field("key").type == pa.from_numpy_dtype(matches.keys.dtype)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("threads", [1, 2])
def test_every_way_to_read_gives_the_same_keys(room: str, key: str, threads: int) -> None:
    sets, keys = sets_and_keys(400, key)
    index = my.TagIndex(threads=threads).add_many(sets, keys).consolidate()
    matches, want = index.match(EVENTS), wanted(sets, keys)
    assert any(isinstance(part.found, Hits) for part in matches.parts) == (room != "at once")
    check(matches, want)
    once = [sorted(set(keys)) for keys in want]
    check(index.match_unique(EVENTS), once)
    assert matches.keys.dtype == (np.int64 if key == "wide" else np.int32)
    batched = [sorted(keys) for matches in index.match_batches(iter(EVENTS), 7) for keys in matches]
    assert batched == want
    batched = [
        sorted(keys)
        for some in index.match_batches(
            pa.array([list(event) for event in EVENTS]), 41, unique=True
        )
        for keys in some
    ]
    assert batched == once


@pytest.mark.parametrize("key", KEYS)
def test_several_tables_segments_and_removals_are_read_alike(room: str, key: str) -> None:
    sets, keys = sets_and_keys(300, key)
    index = my.TagIndex(live=True, shard_size=60, threads=2).add_many(sets, keys).consolidate()
    check(index.match(EVENTS), wanted(sets, keys))
    more, more_keys = sets_and_keys(90, key)
    before = index.match(EVENTS)
    index.add_many(more, more_keys)
    check(index.match(EVENTS), wanted([*sets, *more], [*keys, *more_keys]))
    gone = keys[2]
    index.remove(gone).remove(keys[3], sets[3])
    left = [
        (tags, one)
        for tags, one in zip([*sets, *more], [*keys, *more_keys], strict=True)
        if one != gone and (one, tags) != (keys[3], sets[3])
    ]
    want = wanted([tags for tags, _ in left], [one for _, one in left])
    check(index.match(EVENTS), want)
    check(index.match_unique(EVENTS), [sorted(set(keys)) for keys in want])
    check(before, wanted(sets, keys))  # the old state, also if it is read now
    check(index.consolidate().match(EVENTS), want)


@pytest.mark.parametrize(
    ("engine", "rules", "events"),
    [
        ("predicates", ["x > 1", "x > 1", "x > 2", "y = 1"], [{"x": 2}, {"x": 3, "y": 1}, {}]),
        ("twigs", ["//a", "//a", "//b", "/c"], ["<a/>", "<c><a/><b/></c>", "<d/>"]),
    ],
)
def test_other_engines_keep_hits_too(
    room: str, engine: str, rules: list[str], events: list[Any]
) -> None:
    for algorithm in my.algorithms(engine):
        index = my.create(engine, algorithm)
        if not all(_is_taken(index, rule) for rule in rules):
            continue
        for key in range(200):
            index.add(rules[key % 4], key % 50)
        index.consolidate()
        want = [index.match([event]).to_lists()[0] for event in events]
        matches = index.match(events)
        assert list(map(sorted, matches)) == list(map(sorted, want))
        assert matches.counts().tolist() == list(map(len, want))
        once = [sorted(set(keys)) for keys in want]
        assert list(map(sorted, index.match_unique(events))) == once
        assert matches.counts(unique=True).tolist() == list(map(len, once))


def _is_taken(index: my.Index, rule: str) -> bool:
    try:
        index.add(rule, key=0).remove(0)
    except my.UsageError:
        return False
    return True


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5), min_size=1, max_size=30),
    st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=5),
)
@settings(max_examples=60)
def test_keys_of_any_size_are_unique_and_counted(keys: list[int], rows: list[list[int]]) -> None:
    index = my.TagIndex().add_many([["a"]] * len(keys), keys).add("b", keys[0]).consolidate()
    events = [" ".join({"abcd"[number] for number in row}) or "x" for row in rows]
    matches = index.match(events * 3)
    for event, found, n_keys in zip(
        events * 3, index.match_unique(events * 3), matches.counts(unique=True), strict=True
    ):
        want = set(keys) if "a" in event else {keys[0]} if "b" in event else set()
        assert (set(found), len(found), n_keys) == (want, len(want), len(want))


def test_forwarding_reads_hits_of_many_interfaces(room: str) -> None:
    index = my.TagIndex()
    for tree in range(3):
        for interface in range(40):
            index.add("a", interface_key(tree, interface))
            index.add("b", interface_key(tree, interface // 2))
    index.consolidate()
    found = index.forward(["a", "a b", "b", "c"], trees=[0, 1, 2, 0], interfaces=[3, 39, 0, 0])
    assert [sorted(one) for one in found] == [
        [one for one in range(40) if one != 3], list(range(39)), list(range(1, 20)), [],
    ]  # fmt: skip


def test_matches_keep_the_tables_alive_and_no_longer() -> None:
    index = my.TagIndex().add_many([["a"]] * 1000, range(1000)).consolidate()
    owner = index.segments()[0].tables[0].keys
    while owner.base is not None:  # arrays may be views
        owner = owner.base
    matches, keys = index.match(["a"] * 3 + ["b"]), weakref.ref(owner)
    del index, owner
    gc.collect()
    assert keys() is not None
    assert sorted(matches[2]) == list(range(1000))
    del matches
    gc.collect()
    assert keys() is None


def test_parts_of_several_tables_are_written_in_steps() -> None:
    one = Part(np.array([0, 2, 3]), np.array([1, 2, 3], np.int32))
    other = Part(np.array([0, 0, 2]), np.array([1 << 40, 9]))
    both = parts.join([one, other], 2)
    assert both.event_start.tolist() == [0, 2, 5]
    assert both.written(1, 2).tolist() == [3, 1 << 40, 9]
    assert both.keys.tolist() == [1, 2, 3, 1 << 40, 9]
    assert both.key_type is np.int64


def test_each_calls_back_with_bounded_batches(room: str) -> None:
    index = my.TagIndex().add_many([["a"]] * 5, range(5)).consolidate()
    seen: list[pa.RecordBatch] = []
    work = index.each(["a", "b", "a"], seen.append, size=1)
    assert work == my.Work(2, 10)
    pairs = [pair for batch in seen for pair in zip(*batch.to_pydict().values(), strict=True)]
    assert sorted(pairs) == [(event, key) for event in (0, 2) for key in range(5)]
    assert max(map(len, seen)) <= 5
    with pytest.raises(my.UsageError, match="size must be at least 1"):
        index.match_batches([], 0)
