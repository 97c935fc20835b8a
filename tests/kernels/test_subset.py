"""The subset index against a list of sets, with leaves so small that everything is split."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchyard.kernels.subset import select
from matchyard.kernels.subset_build import Built, build, sort_sets

N_IDS = 9
sets = st.lists(st.lists(st.integers(0, N_IDS - 1), max_size=6), max_size=40)
queries = st.lists(st.sets(st.integers(0, N_IDS - 1)), max_size=6)
leaves = st.sampled_from([1, 2, 3, 4, 64])


def built_from(some: list[list[int]], leaf: int, n_ids: int = N_IDS) -> Built:
    start = np.cumsum([0, *map(len, some)]).astype(np.int64)
    ids = np.array([number for row in some for number in row], np.int32)
    return build([start, ids], n_ids, leaf)


def stored(built: Built) -> list[frozenset[int]]:
    """The set of each row, read from the index."""
    index = built.subset_index
    rarest = np.searchsorted(index.posting_start, np.arange(len(index.signatures)), "right") - 1
    return [
        frozenset([*index.ids[index.id_start[row] : index.id_start[row + 1]].tolist()])
        | (frozenset([int(rarest[row])]) if rarest[row] >= 0 else frozenset())
        for row in range(len(index.signatures))
    ]


def found(built: Built, asked: list[set[int]], leaf: int) -> tuple[list[list[int]], int]:
    start = np.cumsum([0, *map(len, asked)]).astype(np.int64)
    ids = np.array([number for query in asked for number in sorted(query)], np.int32)
    buffer = np.empty(1, np.int32)  # too small on purpose
    hit_start = np.empty(len(asked) + 1, np.int64)
    hits, candidates = select(built.subset_index, start, ids, leaf, buffer, hit_start)
    return [hits[a:b].tolist() for a, b in itertools.pairwise(hit_start)], candidates


@given(some=sets, leaf=leaves)
def test_every_distinct_set_is_one_row_with_its_members(some: list[list[int]], leaf: int) -> None:
    built = built_from(some, leaf)
    rows = stored(built)
    assert len(set(rows)) == len(rows)
    assert set(rows) == set(map(frozenset, some))
    assert sorted(built.order.tolist()) == list(range(len(some)))
    for row, members in enumerate(
        zip(built.member_start[:-1], built.member_start[1:], strict=True)
    ):
        assert members[0] < members[1]
        assert all(frozenset(some[at]) == rows[row] for at in built.order[slice(*members)])


@given(some=sets, asked=queries, leaf=leaves)
def test_select_finds_each_contained_set_once(
    some: list[list[int]], asked: list[set[int]], leaf: int
) -> None:
    built = built_from(some, leaf)
    rows = stored(built)
    hits, candidates = found(built, asked, leaf)
    for query, got in zip(asked, hits, strict=True):
        assert sorted(got) == [row for row, ids in enumerate(rows) if ids <= query]
    assert sum(map(len, hits)) <= candidates <= len(asked) * len(rows)


@given(some=sets, leaf=leaves)
def test_no_leaf_is_longer_than_asked_for(some: list[list[int]], leaf: int) -> None:
    index = built_from(some, leaf).subset_index
    is_leaf = index.run_node < 0
    assert (index.run_end[is_leaf] - index.run_row[is_leaf] <= leaf).all()
    long = np.flatnonzero(np.diff(index.posting_start) > leaf)
    assert index.split_ids.tolist() == long.tolist()


@given(sets)
def test_sort_sets_sorts_and_drops_repeats(some: list[list[int]]) -> None:
    some = [*some, list(range(50)) * 2]  # one that takes the other way of sorting
    start = np.cumsum([0, *map(len, some)]).astype(np.int64)
    ids = np.array([number for row in some for number in row], np.int32)
    lengths = sort_sets(start, ids)
    kept = [ids[at : at + n].tolist() for at, n in zip(start[:-1], lengths, strict=True)]
    assert kept == [sorted(set(row), reverse=True) for row in some]


@pytest.mark.parametrize("n_ids", [40, 130, 300, 1000])
def test_a_long_query_visits_as_many_nodes_as_it_takes(n_ids: int) -> None:
    last = n_ids - 1
    some = [[last, number, *rest] for number in range(1, last) for rest in ([], [0])]
    built = built_from(some, leaf=1, n_ids=n_ids)
    hits, _ = found(built, [set(range(n_ids)), {last, 1}], leaf=1)
    assert len(hits[0]) == len(some)
    assert [stored(built)[row] for row in hits[1]] == [{last, 1}]


@pytest.mark.parametrize("leaf", [1, 4, 64])
def test_a_query_that_has_every_signature_bit_still_needs_every_id(leaf: int) -> None:
    random = np.random.default_rng(7)
    some = [random.integers(0, 300, size).tolist() for size in random.integers(1, 5, 3000)]
    built = built_from(some, leaf, n_ids=300)
    asked = [set(random.choice(300, 150, replace=False).tolist()) for _ in range(5)]
    hits, _ = found(built, asked, leaf)
    rows = stored(built)
    for query, got in zip(asked, hits, strict=True):
        assert sorted(got) == [row for row, ids in enumerate(rows) if ids <= query]


def test_a_long_posting_costs_the_logarithm_not_its_length() -> None:
    """All sets share their rarest id; a query that has it looks at few of them."""
    looked_at = []
    for n_sets in (1000, 8000):
        random = np.random.default_rng(2)
        n_ids = 400
        some = [[n_ids - 1, *random.integers(0, n_ids - 1, 4)] for _ in range(n_sets)]
        built = built_from(some, leaf=16, n_ids=n_ids)
        asked = [{n_ids - 1, *random.integers(0, n_ids - 1, 5).tolist()} for _ in range(50)]
        looked_at.append(found(built, asked, leaf=16)[1] / 50)
    assert looked_at[1] < 0.05 * 8000
    assert looked_at[1] < 4 * looked_at[0]
