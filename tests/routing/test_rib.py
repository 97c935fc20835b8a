"""A RIB against its definition in plain Python, update by update."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import matchyard as my
from matchyard.kernels.routing.filters import ENTRIES
from matchyard.routing import (
    Rib,
    Update,
    from_links,
    grow,
    links_at,
)
from tests.routing.plain_rib import PlainRib, minimal

TAGS = "abcdef"
FILTERS = st.frozensets(st.sampled_from(TAGS), max_size=4)


def shown(told: dict[int, Update]) -> dict[int, tuple[set, set]]:
    for update in told.values():
        for part in update:
            assert len(set(part)) == len(part)
    return {one: (set(update.additions), set(update.removals)) for one, update in told.items()}


def assert_same(rib: Rib, plain: PlainRib) -> None:
    for tree, links in enumerate(plain.links):
        for one in (0, *links):
            assert Counter(rib.wanted(tree, one)) == +plain.wanted(tree, one)
            if one:
                assert set(rib.told(tree, one)) == plain.told(tree, one)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[int]], list[tuple]]:
    links = draw(
        st.lists(st.sampled_from([[1], [1, 2], [1, 2, 3], [2, 5]]), min_size=1, max_size=2)
    )
    steps = []
    for _ in range(draw(st.integers(1, 25))):
        tree = draw(st.integers(0, len(links) - 1))
        steps.append(
            (
                draw(st.lists(FILTERS, max_size=4)),
                draw(st.lists(FILTERS, max_size=4)),
                tree,
                draw(st.sampled_from([0, *links[tree]])),
            )
        )
    return links, steps


@settings(max_examples=150, deadline=None)
@given(histories())
def test_updates_are_those_of_the_definition(history: tuple[list[list[int]], list[tuple]]) -> None:
    links, steps = history
    rib, plain = Rib(links), PlainRib(links)
    for additions, removals, tree, interface in steps:
        told = rib.apply(Update(additions, removals), tree, interface)
        assert shown(told) == plain.apply(additions, removals, tree, interface)
    assert_same(rib, plain)


def test_removals_uncover_what_they_hid() -> None:
    rib = Rib([[1, 2, 3]])
    rib.apply(Update(["a b", "a c"]), 0, 1)
    assert shown(rib.apply(Update(["a"]), 0, 2)) == {
        1: ({frozenset("a")}, set()),
        3: ({frozenset("a")}, set()),
    }
    assert shown(rib.apply(Update(removals=["a"]), 0, 2)) == {
        1: (set(), {frozenset("a")}),
        3: ({frozenset("ab"), frozenset("ac")}, {frozenset("a")}),
    }


def test_local_applications_keep_everything_as_often_as_it_is_registered() -> None:
    rib = Rib([[1]])
    rib.apply(Update(["a", "a", "a b"]), 0, 0)
    assert Counter(rib.wanted(0, 0)) == {frozenset("a"): 2, frozenset("ab"): 1}
    assert rib.apply(Update(removals=["a"]), 0, 0) == {}
    told = shown(rib.apply(Update(removals=["a"]), 0, 0))
    assert told == {1: ({frozenset("ab")}, {frozenset("a")})}


def test_an_update_that_is_replaced_in_one_step_says_only_what_changes() -> None:
    rib = Rib([[1, 2]])
    rib.apply(Update(["a b c", "d"]), 0, 1)
    told = shown(rib.apply(Update(["a b", "d", "e"], ["a b c", "d"]), 0, 1))
    assert told == {2: ({frozenset("ab"), frozenset("e")}, set())}  # a b c goes with a b


def test_the_empty_descriptor_covers_all() -> None:
    rib = Rib([[1, 2]])
    rib.apply(Update(["a", [], "b"]), 0, 1)
    assert set(rib.wanted(0, 1)) == {frozenset()}
    assert rib.covers(["a", "z"], 0, 1).all()
    assert shown(rib.apply(Update(["a"], [[]]), 0, 1)) == {2: ({frozenset("a")}, {frozenset()})}


def random_updates(n_updates: int, n_rows: int) -> None:
    """Random updates at one interface in batches, against minimal sets built anew."""
    rows, _ = my.workload("tags", "icn", n_rows, 1).subscriptions(0, n_rows)
    rib, random, batch = Rib([[1, 2]]), np.random.default_rng(1), 5_000
    everything = rib.vocabulary.encode(rows)
    registered = Rib([[1, 2]], vocabulary=rib.vocabulary)  # as a neighbour that keeps all
    for _ in range(n_updates // batch):
        chosen = everything.take(random.integers(0, n_rows, batch))
        change = Update(
            chosen.take(np.arange(batch // 2)), chosen.take(np.arange(batch // 2, batch))
        )
        told = registered.apply(change, 0, 0).get(1)
        if told is not None:
            rib.apply(told, 0, 1)
    rebuilt = Rib([[1, 2]], vocabulary=rib.vocabulary)
    rebuilt.apply(Update(registered.wanted(0, 0)), 0, 1)
    assert len(rib) == len(rebuilt) > n_rows // 20
    same = minimal_numbers(registered.wanted(0, 0))
    assert minimal_numbers(rib.wanted(0, 1)) == minimal_numbers(rebuilt.wanted(0, 1)) == same


def minimal_numbers(descriptors) -> set:
    """Sets without a strict subset, by all subsets of each: a way of its own."""
    from itertools import combinations

    sets = {
        tuple(descriptors.ids[low:high].tolist())
        for low, high in zip(descriptors.start[:-1], descriptors.start[1:], strict=True)
    }
    return {
        one
        for one in sets
        if not any(part in sets for size in range(len(one)) for part in combinations(one, size))
    }


def test_many_random_updates_leave_what_building_anew_gives() -> None:
    random_updates(40_000, 6_000)


@pytest.mark.slow
def test_a_million_random_updates_leave_what_building_anew_gives() -> None:
    random_updates(1_000_000, 200_000)


def test_bloom_filters_cover_what_tags_do() -> None:
    exact, bloom = Rib([[1, 2]]), Rib([[1, 2]], descriptors="bloom")
    rows, _ = my.workload("tags", "icn", 2_000, 1).subscriptions(0, 2_000)
    for rib in (exact, bloom):
        rib.apply(Update(rows), 0, 1)
    assert not (exact.covers(rows, 0, 1) & ~bloom.covers(rows, 0, 1)).any()
    assert 0.9 * len(exact) < len(bloom) <= len(exact)
    signed = my.TagIndex("tagmatch", {"exact": False}).sign(rows)
    bare = Rib([[1, 2]], descriptors="bloom")
    bare.apply(Update(signed), 0, 1)
    assert set(bare.wanted(0, 1)) == set(bloom.wanted(0, 1))
    assert np.array_equal(bare.vocabulary.encode(signed).signatures(), signed)


def test_routers_without_a_common_vocabulary_understand_each_other() -> None:
    one, other = Rib([[1, 2]]), Rib([[1, 2]])
    other.apply(Update(["z y x"]), 0, 2)
    told = one.apply(Update(["a b", "c"]), 0, 1)
    other.apply(told[2], 0, 1)
    assert set(other.wanted(0, 1)) == {frozenset("ab"), frozenset("c")}


def test_memory_counts_filters_and_entries() -> None:
    rib = Rib([[1, 2], [1]])
    rib.apply(Update(["a", "b"]), 0, 1)
    rib.apply(Update(["a"]), 1, 1)
    found = rib.memory()
    assert (found.filters, found.entries) == (2, 3)
    assert (found.thesis_bytes, found.compact_bytes) == (120, 70)
    assert rib.entries().num_rows == 3


def test_what_is_gone_is_forgotten() -> None:
    rib = Rib([[1]])
    for number in range(50):
        rows = [f"t{number} u{row}" for row in range(100)]
        rib.apply(Update(rows), 0, 1)
        rib.apply(Update(removals=rows), 0, 1)
    assert len(rib) == 0
    assert len(rib._filters.rows) < 1_000


def test_links_are_those_of_trees() -> None:
    network = from_links([(0, 1), (1, 2), (2, 0), (2, 3)])
    trees = grow(network, "H3")
    for node in range(4):
        near = network.neighbours[network.start[node] : network.start[node + 1]]
        for tree, links in zip(trees, links_at(network, trees, node), strict=True):
            reached = {int(near[one - 1]) for one in links}
            children = {other for other in range(4) if tree.parent[other] == node}
            assert reached == children | ({int(tree.parent[node])} - {-1})


def test_minimal_is_what_it_says() -> None:
    assert minimal([frozenset("ab"), frozenset("a"), frozenset("c")]) == {
        frozenset("a"),
        frozenset("c"),
    }


@pytest.mark.parametrize("n_copies", [3, 65, 1_000])
def test_copies_of_one_registration_have_room(n_copies: int, tmp_path: Path) -> None:
    rib = Rib([[1]])
    rib.apply(Update(["a"] * n_copies), 0, 0)
    assert rib._filters.counts[ENTRIES] <= len(rib._filters.entries)
    rib = Rib.open(rib.save(tmp_path / "a.rib") and tmp_path / "a.rib")
    rib.apply(Update(["a"] * n_copies), 0, 0)
    rib.apply(Update(["a b"] * n_copies), 0, 0)
    assert rib._filters.counts[ENTRIES] <= len(rib._filters.entries) < 20 * n_copies
    assert Counter(rib.wanted(0, 0)) == {frozenset("a"): 2 * n_copies, frozenset("ab"): n_copies}


def test_questions_and_removals_bring_no_new_tags() -> None:
    rib = Rib([[1]])
    rib.apply(Update(["a b"]), 0, 1)
    assert rib.covers(["a b c", "a c", "c"], 0, 1).tolist() == [True, False, False]
    rib.apply(Update(removals=["a b c", "d"]), 0, 1)
    assert rib.vocabulary.n_ids == 2
    assert set(rib.wanted(0, 1)) == {frozenset("ab")}
