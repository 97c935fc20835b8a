"""What a RIB forwards against its definition: the interfaces on a packet's tree that want something within it."""

from __future__ import annotations

import tempfile

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from matchyard.routing import Rib, Update, Vocabulary
from matchyard.routing.lookups import Lookups

TAGS = [f"t{number}" for number in range(12)]
SETS = st.frozensets(st.sampled_from(TAGS), max_size=3)
# Few interfaces, many (more than masks have bits), and some with numbers far apart.
LINKS = st.sampled_from(
    [
        [[1]],
        [[1, 2, 3], [2, 4]],
        [[], [1, 40, 700]],
        [list(range(1, 71)), list(range(3, 90, 2)), [5]],
        [[1 + tree % 3, 5] for tree in range(9)],
    ]
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[int]], list[tuple]]:
    links = draw(LINKS)
    steps = []
    for _ in range(draw(st.integers(1, 30))):
        tree = draw(st.integers(0, len(links) - 1))
        interface = draw(st.sampled_from([0, *links[tree]]))
        change = (draw(st.lists(SETS, max_size=6)), draw(st.lists(SETS, max_size=4)))
        steps.append((*change, tree, interface))
    return links, steps


@settings(max_examples=120, deadline=None)
@given(histories(), st.lists(st.frozensets(st.sampled_from(TAGS), max_size=9), max_size=8))
@example(([[1, 2]], [([frozenset()], [], 0, 2), ([], [frozenset()], 0, 2)]), [frozenset()])
def test_forwarding_is_that_of_the_definition(
    history: tuple[list[list[int]], list[tuple]], packets: list[frozenset[str]]
) -> None:
    links, steps = history
    rib = Rib(links)
    for additions, removals, tree, interface in steps:
        rib.apply(Update(additions, removals), tree, interface)
    assert_forwards(rib, packets)
    with tempfile.TemporaryDirectory() as folder:
        opened = Rib.open(rib.save(folder) and folder)
    assert_forwards(opened, packets)
    for additions, removals, tree, interface in steps[::-1]:  # what is loaded changes as well
        opened.apply(Update(removals, additions), tree, interface)
    assert_forwards(opened, packets)


def test_forwarding_after_growth_and_after_what_is_gone_was_dropped() -> None:
    random = np.random.default_rng(1)
    links = [list(range(1, 51)), [1, 2, 3]]
    rib, words = Rib(links), [f"w{number}" for number in range(60)]
    packets = [frozenset(random.choice(words, 12, replace=False)) for _ in range(40)]
    n_filters = list[int]()
    for n_tags in (1, 3, 2, 3):
        for tree, some in enumerate(links):
            for interface in (0, *some):
                came = [random.choice(words, n_tags, replace=False) for _ in range(12)]
                gone = rib.wanted(tree, interface)
                rib.apply(Update([" ".join(one) for one in came], gone), tree, interface)
        assert_forwards(rib, packets)
        n_filters.append(len(rib))
    assert min(n_filters) < max(n_filters) // 4


def test_packets_from_elsewhere_are_sent_to_all_and_those_on_no_tree_to_nobody() -> None:
    rib = Rib([[1, 2], [4]])
    for interface in (0, 1, 2):
        rib.apply(Update(["a"]), 0, interface)
    packets = rib.vocabulary.encode(["a"] * 5)
    trees, interfaces = np.array([0, 0, 0, 2, -1]), np.array([4, 3, 900, 0, 0])
    start, found = rib.forward(packets, trees, interfaces)
    assert (start.tolist(), found.tolist()) == ([0, 3, 6, 9, 9, 9], [0, 1, 2] * 3)


def assert_forwards(rib: Rib, packets: list[frozenset[str]]) -> None:
    """Each packet on each tree, from each interface of some."""
    wanted = {
        (tree, one): set(rib.wanted(tree, one))
        for tree, links in enumerate(rib.links)
        for one in (0, *links)
    }
    cases = [
        (packet, tree, came_from)
        for packet in packets
        for tree, links in enumerate(rib.links)
        for came_from in (0, *links[:2], *links[-1:])
    ]
    start, found = rib.forward(
        rib.vocabulary.find([packet for packet, _, _ in cases])[0],
        np.array([tree for _, tree, _ in cases], np.int64),
        np.array([came_from for _, _, came_from in cases], np.int64),
    )
    for row, (packet, tree, came_from) in enumerate(cases):
        expected = [
            one
            for one in (0, *rib.links[tree])
            if (one == 0 or one != came_from)
            and any(descriptor <= packet for descriptor in wanted[tree, one])
        ]
        assert found[start[row] : start[row + 1]].tolist() == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(histories(), min_size=1, max_size=5), st.data())
def test_many_routers_at_once_forward_as_one_by_one(histories: list, data: st.DataObject) -> None:
    words = Vocabulary()
    ribs = [Rib(links, vocabulary=words) for links, _ in histories]
    for rib, (_, steps) in zip(ribs, histories, strict=True):
        for additions, removals, tree, interface in steps:
            rib.apply(Update(additions, removals), tree, interface)
    packets = words.encode(data.draw(st.lists(SETS, min_size=1, max_size=5)))
    row, router = st.integers(0, len(packets) - 1), st.integers(0, len(ribs) - 1)
    query = st.tuples(router, row, st.integers(0, 2), st.integers(0, 6))
    cases = np.array(data.draw(st.lists(query, max_size=20)), np.int64).reshape(-1, 4)
    found = Lookups(ribs).find(cases[:, 0], packets, *cases[:, 1:].T)
    assert sorted(found.order.tolist()) == list(range(len(cases)))
    for place, number in enumerate(found.order.tolist()):
        at, one, tree, interface = cases[number].tolist()
        _, expected = ribs[at].forward(
            packets.take(np.array([one])), np.array([tree]), np.array([interface])
        )
        interfaces = found.interfaces[found.start[place] : found.start[place + 1]]
        assert interfaces.tolist() == expected.tolist()
