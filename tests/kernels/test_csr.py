"""Ragged rows and the key table, each kernel against a naive version of itself."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from matchyard import forwarding
from matchyard.engines.tags.algorithms.scan.scan import Table
from matchyard.kernels import csr, key_table
from matchyard.kernels.strings import freeze

LOWEST, HIGHEST = -(2**63), 2**63 - 1
keys = st.sampled_from([0, 1, -1, 7, 2**53, 2**53 + 1, LOWEST, LOWEST + 1, HIGHEST])
many_keys = st.lists(keys, max_size=30)
rows = st.lists(st.lists(keys, max_size=6), max_size=8)


def ragged(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    start = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return start, np.array([value for row in lists for value in row], np.int64)


def lists(start: np.ndarray, values: np.ndarray) -> list[list[int]]:
    return [values[a:b].tolist() for a, b in itertools.pairwise(start)]


def table_of(sets: list[list[int]], gone: list[int], gone_at: list[int]) -> Table:
    start, values = ragged(sets)
    removed = (csr.hash_set(np.array(some, np.int64)) for some in (gone, gone_at))
    # A real table, frozen as real ones are: a type of the tests' own would be remembered by name
    # in the package's cache of compiled kernels, and break whoever loads it without the tests.
    empty, none = np.zeros((1, 64), np.uint64), np.zeros(1, np.int32)
    return freeze(Table(empty, none, none, none[:0], start.astype(np.int32), values, *removed))


@given(many_keys, keys)
def test_a_hash_set_holds_what_was_put_in(values: list[int], other: int) -> None:
    table = csr.hash_set(np.array(values, np.int64))
    assert all(csr.in_hash_set(table, np.int64(value)) for value in values)
    assert csr.in_hash_set(table, np.int64(other)) == (other in values)
    held = csr.hash_set_values(table)
    assert held.dtype == np.int64
    assert sorted(held.tolist()) == sorted(set(values))


def test_a_hash_set_of_nothing_takes_no_memory() -> None:
    assert len(csr.hash_set(np.empty(0, np.int64))) == 0
    assert csr.hash_set_values(np.empty(0, np.int64)).dtype == np.int64


def test_a_large_hash_set_has_no_strangers() -> None:
    values = np.arange(-3000, 3000) * 7
    table = csr.hash_set(values)
    found = [number for number in range(-21_010, 21_010) if csr.in_hash_set(table, number)]
    assert found == values.tolist()


@given(rows)
def test_ragged_and_take_rows_follow_the_lengths(some: list[list[int]]) -> None:
    start, values = ragged(some)
    assert csr.ragged(np.diff(start)).tolist() == start.tolist()
    order = np.arange(len(some))[::-1]
    assert lists(*csr.take_rows(start, values, order)) == some[::-1]


@given(st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5), min_size=1, max_size=6))
def test_words_are_rows_by_their_upper_half(some: list[list[int]]) -> None:
    words = [row << 32 | (half & 0xFFFFFFFF) for row, halves in enumerate(some) for half in halves]
    found = lists(*csr.by_upper_half(np.array(sorted(words), np.uint64), len(some)))
    assert [sorted(row) for row in found] == [sorted(set(halves)) for halves in some]


@given(
    sets=st.lists(st.lists(keys, min_size=1, max_size=4), min_size=1, max_size=8),
    gone=st.lists(keys, max_size=2),
    gone_at=st.lists(st.integers(0, 7), max_size=3),
    hits=st.lists(st.lists(st.integers(0, 7), max_size=30), max_size=5),
)
def test_gather_copies_the_living_keys_of_every_hit(
    sets: list[list[int]], gone: list[int], gone_at: list[int], hits: list[list[int]]
) -> None:
    hits = [[hit % len(sets) for hit in some] for some in hits]
    start, values = ragged(hits)
    table = table_of(sets, gone, gone_at)
    position = table.key_start.tolist()
    alive = [
        [key for i, key in enumerate(some) if key not in gone and at + i not in gone_at]
        for at, some in zip(position, sets, strict=False)
    ]
    want = [[key for hit in some for key in alive[hit]] for some in hits]
    assert lists(*key_table.gather(table, start, values.astype(np.int32))) == want
    flat = [key for some in sets for key in some]
    assert [flat[at] for at in key_table.living(table)] == [key for some in alive for key in some]


@given(st.lists(st.tuples(many_keys, many_keys), max_size=6))
def test_interleave_joins_event_by_event(both: list[tuple[list[int], list[int]]]) -> None:
    left, right = ragged([a for a, _ in both]), ragged([b for _, b in both])
    assert lists(*csr.interleave(*left, *right)) == [a + b for a, b in both]


def test_narrow_keys_stay_narrow_and_widen_beside_wide_ones() -> None:
    start, wide = ragged([[1, -7], [], [1, 1]])
    narrow = wide.astype(np.int32)
    joined = csr.interleave(start, narrow, start, narrow)
    assert (lists(*joined), joined[1].dtype) == ([[1, -7] * 2, [], [1] * 4], np.int32)
    for left, right in ((narrow, wide + 2**40), (wide + 2**40, narrow)):
        both = lists(*csr.interleave(start, left, start, right))
        assert both == lists(*csr.interleave(start, left.astype(np.int64), start, right))
    assert lists(*csr.unique(start, narrow)) == [[1, -7], [], [1]]
    none = np.zeros(3, np.int64)
    assert lists(*forwarding.next_interfaces(start, narrow, none, none)) == [[1], [], [1]]


@given(st.lists(many_keys, max_size=6))
def test_unique_keeps_the_first_of_each_key(some: list[list[int]]) -> None:
    assert lists(*csr.unique(*ragged(some))) == [list(dict.fromkeys(keys)) for keys in some]


def test_unique_leaves_its_input_alone_and_holds_many_keys() -> None:
    some = [list(range(500)) * 2, [3, 3], list(range(40))]
    start, values = ragged(some)
    before = values.copy()
    assert lists(*csr.unique(start, values)) == [list(range(500)), [3], list(range(40))]
    assert (values == before).all()


pairs = st.tuples(st.sampled_from([0, 1, 2**31 - 1]), st.sampled_from([0, 1, 2, 2**32 - 1]))


@given(st.lists(st.tuples(st.lists(pairs, max_size=12), pairs), max_size=5))
def test_next_interfaces_stay_on_the_tree_and_do_not_go_back(events: list) -> None:
    start, values = ragged([[tree << 32 | way for tree, way in some] for some, _ in events])
    trees = np.array([tree for _, (tree, _) in events], np.int64)
    incoming = np.array([way for _, (_, way) in events], np.int64)
    want = [
        list(dict.fromkeys(way for t, way in some if t == tree and way != came))
        for some, (tree, came) in events
    ]
    assert lists(*forwarding.next_interfaces(start, values, trees, incoming)) == want
