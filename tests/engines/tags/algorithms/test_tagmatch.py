"""What only tagmatch has: partitions, search space, bare signatures, and forwarding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import matchyard as my
from matchyard.engines.tags.algorithms.tagmatch import tagmatch
from matchyard.engines.tags.algorithms.tagmatch.partition import partition
from matchyard.engines.tags.encoder import Batch
from tests.cases import CRAMPED_TAGMATCH, PIVOTS, SIGNED, Case, build

every_pivot = pytest.mark.parametrize("pivot", PIVOTS)
BARE = [case for case in SIGNED if case.options.get("n_bits") is None]
words = st.sampled_from([0, 1, 2, 3, 2**63, 2**63 + 1, 2**62, 2**64 - 1])
signatures = st.lists(st.tuples(words, words, words), max_size=30, unique=True).map(sorted)


def table_of(index: my.TagIndex) -> Any:
    return index._state.snapshot.segments[0].tables[0]


@every_pivot
@given(signatures, st.integers(1, 4))
def test_partitions_tile_the_rows_and_share_their_mask(
    pivot: str, rows: list[tuple[int, ...]], max_partition: int
) -> None:
    before = np.array(rows, np.uint64).reshape(len(rows), 3)
    after = before.copy()
    bounds, masks, source = partition(after, max_partition, pivot)
    assert sorted(source.tolist()) == list(range(len(rows)))
    assert (after == before[source]).all()
    covered = sorted(row for start, stop in bounds for row in range(start, stop))
    assert covered == list(range(len(rows)))
    for (start, stop), mask in zip(bounds, masks, strict=True):
        part = after[start:stop]
        assert ((part & mask) == mask).all()
        assert stop - start <= max_partition  # rows differ, so some bit always splits them
        assert mask.any() or not part.any()
        assert list(map(tuple, part.tolist())) == sorted(map(tuple, part.tolist()))


@every_pivot
def test_only_the_zero_signature_has_an_empty_mask_and_size_is_bounded(pivot: str) -> None:
    random = np.random.default_rng(8)
    rows = [
        [f"t{n}" for n in random.integers(0, 300, size)] for size in random.integers(0, 6, 2000)
    ]
    table = table_of(build(rows, None, "tagmatch", {"pivot": pivot, "max_partition": 20}))
    n_partitions = len(table.block_start) - 1
    sizes = np.diff(table.slot_start[table.block_start])
    masks = table.masks[:, :n_partitions].T
    assert sizes.max() <= 20
    assert sizes.sum() == table.words.shape[1] - tagmatch.LANES
    empty = np.flatnonzero(~masks.any(axis=1))
    assert len(empty) == 1
    first, last = table.slot_start[table.block_start[empty[0] : empty[0] + 2]]
    assert last - first == 1
    assert not table.words[:, first].any()


@every_pivot
def test_the_search_space_is_the_size_of_the_partitions_forwarded_to(pivot: str) -> None:
    random = np.random.default_rng(9)
    rows = [[f"t{n}" for n in random.integers(0, 60, size)] for size in random.integers(0, 4, 300)]
    index = build(rows, None, "tagmatch", {"pivot": pivot, "max_partition": 9, "block": 4})
    table, segment = table_of(index), index._state.snapshot.segments[0]
    asked = segment.encode(
        segment.settings.engine.encoder.column(rows[:80], segment.settings.input_options)
    )
    sizes = np.diff(table.slot_start[table.block_start])
    masks = table.masks[:, : len(sizes)].T
    want = [int(sizes[~(masks & ~row).any(axis=1)].sum()) for row in asked.signatures]
    assert tagmatch.search_space(table, asked).tolist() == want
    assert max(want) < len(rows)


def test_without_prefixes_more_sets_are_looked_at_and_the_same_are_found() -> None:
    """What Table 3.4 of the thesis compares: prefixes only ever save work."""
    random = np.random.default_rng(10)
    rows = [[f"t{n}" for n in random.integers(0, 60, size)] for size in random.integers(0, 5, 900)]
    index = build(rows, None, "tagmatch", {"max_partition": 400, "block": 4})
    (segment,), settings = index.segments(), index.segments()[0].settings
    (table,) = segment.tables
    column = settings.engine.encoder.column(
        [[*row, "t1", "t2"] for row in rows], settings.input_options
    )
    batch, none = segment.encode(column), np.zeros_like(table.prefixes)
    none.flags.writeable = False
    (start, slots, candidates), (same_start, same_slots, more) = (
        tagmatch.find(its, batch, tagmatch.workspace(its, settings.options), settings.options)
        for its in (table, table._replace(prefixes=none))
    )
    assert candidates < more == tagmatch.search_space(table, batch).sum()
    assert (start == same_start).all()
    assert (slots == same_slots).all()


def test_the_default_signature_is_that_of_the_paper() -> None:
    assert tagmatch.Options()[:3] == (192, 7, "balanced")
    assert tagmatch.signature_bits(tagmatch.Options()) == (192, 7, False)
    assert table_of(build(["a"], None, "tagmatch")).words.shape[0] == 3
    ones = np.unpackbits(table_of(build(["a"], None, "tagmatch")).words.view(np.uint8)).sum()
    assert 1 <= ones <= 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pivot": "best"}, "no pivot 'best'; expected one of: balanced, frequent, prefix"),
        ({"max_partition": 0}, "max_partition"),
        ({"block": 0}, "block"),
        ({"batch": 257}, "1 to 256, not 257"),
        ({"n_bits": 0}, "0 bits"),
        ({"n_hashes": 0}, "0 hashes"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(my.UsageError, match=message):
        build(["a"], None, "tagmatch", options)


def random_signatures(n_rows: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    draws = [random.integers(0, 2**64, (n_rows, 3), np.uint64) for _ in range(4)]
    rows = draws[0] & draws[1] & draws[2] & draws[3]
    rows[0] = 0
    return np.concatenate([rows, rows[:10]])


@pytest.mark.parametrize("case", BARE, ids=lambda case: case.name)
def test_bare_signatures_are_matched_bit_by_bit(case: Case, tmp_path: Path) -> None:
    rows, asked = random_signatures(300, 1), random_signatures(40, 2) | random_signatures(40, 3)
    index = build(rows, None, case.algorithm, {**case.options, "exact": False})
    want = [np.flatnonzero(~(rows & ~event).any(axis=1)).tolist() for event in asked]
    assert [sorted(keys) for keys in index.match(asked)] == want
    assert sum(map(len, want)) > len(asked) + 20
    index.remove(0).remove(5).add_many(rows[5:6], [1005]).consolidate().save(
        tmp_path / "bare.index"
    )
    want = [
        sorted([key for key in keys if key not in (0, 5)] + [1005] * (5 in keys)) for keys in want
    ]
    for changed in (index, my.open(tmp_path / "bare.index", verify=True)):
        assert [sorted(keys) for keys in changed.match(asked)] == want


def test_tags_and_their_signatures_find_the_same_subscriptions() -> None:
    index = build([["a", "b"], ["c"], []], None, "tagmatch", {"exact": False})
    segment = index._state.snapshot.segments[0]
    asked = [["a", "b", "z"], ["c"], []]
    batch: Batch = segment.encode(
        segment.settings.engine.encoder.column(asked, segment.settings.input_options)
    )
    assert index.match(batch.signatures).to_lists() == index.match(asked).to_lists()


def test_bare_signatures_are_refused_where_tags_are_needed() -> None:
    rows, loose = random_signatures(20, 1), {"exact": False}
    with pytest.raises(my.UsageError, match='"exact" set to False'):
        build(rows, None, "tagmatch")
    with pytest.raises(my.UsageError, match="need an algorithm over signatures"):
        build(rows, None, "rarest")
    with pytest.raises(my.UsageError, match="2 words of 64 bits; this index compares 3"):
        build(rows[:, :2], None, "tagmatch", loose)
    with pytest.raises(my.UsageError, match="cannot be added to"):
        my.TagIndex("tagmatch", loose).add("a", 1).add_many(rows[:1], [2]).consolidate()
    with pytest.raises(my.UsageError, match="2 words of 64 bits; this index compares 3"):
        build(rows, None, "tagmatch", loose).match(rows[:, :2])
    with pytest.raises(my.UsageError, match="need an algorithm over signatures"):
        build(["a"], None, "rarest").match(rows)
    with pytest.raises(my.UsageError, match="can be removed by key"):
        build(rows, None, "tagmatch", loose).remove(1, "a").consolidate()


links = st.tuples(st.integers(0, 2), st.integers(0, 3))
tags = st.sets(st.sampled_from("abcd"), max_size=3)


@given(
    routes=st.lists(st.tuples(tags, links), max_size=20),
    packets=st.lists(st.tuples(tags, links), max_size=10),
)
def test_forwarding_stays_on_the_tree_and_never_goes_back(routes: list, packets: list) -> None:
    keys = [my.interface_key(*link) for _, link in routes]
    index = build(
        [row for row, _ in routes], np.array(keys, np.int64), "tagmatch", CRAMPED_TAGMATCH
    )
    trees, incoming = [link[0] for _, link in packets], [link[1] for _, link in packets]
    found = index.forward([row for row, _ in packets], trees, incoming)
    for (event, (tree, came)), ways in zip(packets, found, strict=True):
        want = {way for row, (on, way) in routes if row <= event and on == tree and way != came}
        assert sorted(ways) == sorted(want)


def test_forwarding_crosses_chunks_with_the_right_trees(small_chunks: int) -> None:
    ways = np.arange(8)
    index = build(["a"] * 8, my.interface_key(ways, ways + 100), "tagmatch")
    found = index.forward(["a"] * 8, ways, np.zeros(8, int), threads=2)
    assert found.to_lists() == [[way + 100] for way in range(8)]


def test_forwarding_needs_a_tree_and_an_interface_for_each_event() -> None:
    with pytest.raises(my.UsageError, match="2 events need one tree and one interface each"):
        build(["a"]).forward(["a", "b"], [1, 2], [1])


@pytest.mark.parametrize(("tree", "way"), [(-1, 0), (0, -1), (0, 2**32), (2**31, 0)])
def test_an_interface_key_that_does_not_fit_is_refused(tree: int, way: int) -> None:
    for link in ((tree, way), (np.array([tree]), np.array([way]))):
        with pytest.raises(my.UsageError, match="are 0 to"):
            my.interface_key(*link)
    assert my.interface_key(2**31 - 1, 2**32 - 1) == 2**63 - 1
