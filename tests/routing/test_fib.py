"""Packets are forwarded as the RIB says, after every change of it."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matchyard.errors import UsageError
from matchyard.routing import Fib, Rib, Update

TAGS = "abcdef"
FILTERS = st.frozensets(st.sampled_from(TAGS), min_size=1, max_size=3)
LINKS = [[1, 2, 3], [2, 3]]


def wanted_by(rib: Rib, packet: frozenset, tree: int, incoming: int) -> set[int]:
    leaving = {one for one in LINKS[tree] if one != incoming} | {0}
    return {one for one in leaving if any(filt <= packet for filt in rib.wanted(tree, one))}


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_packets_leave_by_the_interfaces_that_want_them(data: st.DataObject) -> None:
    rib = Rib(LINKS)
    fib = Fib(rib)
    many = data.draw(st.lists(FILTERS, max_size=30))
    rib.apply(Update(many), 0, 1)
    for _ in range(data.draw(st.integers(1, 6))):
        tree = data.draw(st.integers(0, 1))
        interface = data.draw(st.sampled_from([0, *LINKS[tree]]))
        there = sorted(set(rib.wanted(tree, interface)), key=sorted)
        gone = data.draw(st.lists(st.sampled_from(there), unique=True, max_size=2)) if there else []
        rib.apply(Update(data.draw(st.lists(FILTERS, max_size=2)), gone), tree, interface)
        packets = data.draw(st.lists(st.frozensets(st.sampled_from(TAGS)), max_size=4))
        incoming = data.draw(st.sampled_from([0, *LINKS[tree]]))
        found = fib.forward(packets, tree, incoming).to_lists()
        assert [set(one) for one in found] == [
            wanted_by(rib, packet, tree, incoming) for packet in packets
        ]
        assert all(len(set(one)) == len(one) for one in found)


def test_packets_of_one_batch_have_their_own_trees_and_interfaces() -> None:
    rib = Rib(LINKS)
    rib.apply(Update(["a"]), 0, 1)
    rib.apply(Update(["a"]), 1, 2)
    rib.apply(Update(["a", "a"]), 0, 0)
    fib = Fib(rib)
    found = fib.forward(["a b"] * 4, [0, 0, 1, 1], [1, 0, 3, 2])
    assert [sorted(one) for one in found.to_lists()] == [[0], [0, 1], [2], []]
    assert len(fib.index) == 3  # copies of an application count once


def test_bloom_filters_forward_signatures() -> None:
    rib = Rib(LINKS, descriptors="bloom")
    fib = Fib(rib)
    rib.apply(Update(["jazz", "rock live"]), 0, 2)
    packets = rib.vocabulary.encode(["jazz oslo", "rock"]).signatures()
    assert fib.forward(packets, 0, 1).to_lists() == [[2], []]
    rib.apply(Update(removals=["jazz"]), 0, 2)
    assert fib.forward(packets, 0, 1).to_lists() == [[], []]


def test_few_changes_do_not_build_the_index_anew() -> None:
    rib = Rib(LINKS)
    rib.apply(Update([f"t{number} u" for number in range(200)]), 0, 1)
    fib = Fib(rib)
    index = fib.index
    rib.apply(Update(["x"], ["t3 u"]), 0, 1)
    assert fib.forward(["x", "t3 u", "t4 u"], 0, 2).to_lists() == [[1], [], [1]]
    assert fib.index is index
    rib.apply(Update(["u"]), 0, 1)  # takes the place of all others
    assert fib.forward(["t9 u"], 0, 2).to_lists() == [[1]]
    assert fib.index is not index


def test_who_no_longer_follows_is_forgotten() -> None:
    rib = Rib(LINKS)
    fib, other = Fib(rib), Fib(rib)
    del other
    rib.apply(Update(["a"]), 0, 1)
    assert sum(one() is not None for one in rib._journals) == 1
    rib.apply(Update([f"t{number}" for number in range(100)]), 0, 2)
    assert fib._journal.is_incomplete  # and keeps nothing
    assert not fib._journal.changes
    assert sorted(fib.forward(["a t7"], 0, 3)[0]) == [1, 2]


def test_threads_follow_one_after_the_other() -> None:
    rib = Rib([[1, 2]])
    rib.apply(Update([f"x{k}" for k in range(2_000)]), 0, 1)
    fib = Fib(rib)
    for k in range(20):
        rib.apply(Update([f"y{k}"]), 0, 1)
    for k in range(20):
        rib.apply(Update(removals=[f"y{k}"]), 0, 1)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=fib.forward, args=(["q"], 0, 2)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert fib.forward([{f"y{k}"} for k in range(20)], 0, 2).to_lists() == [[]] * 20


def test_an_update_that_is_interrupted_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rib = Rib(LINKS)
    rib.apply(Update([f"x{k}" for k in range(100)]), 0, 1)
    fib = Fib(rib)

    def interrupt(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rib, "_write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            rib.apply(Update(["y"]), 0, 1)
    assert fib.forward(["y"], 0, 2).to_lists() == [[1]]


@pytest.mark.parametrize(
    ("trees", "interfaces", "reason"),
    [(0.9, 1, "expected whole numbers"), (-1, 1, "expected numbers from 0 to 1"),
     (2, 1, "expected numbers from 0 to 1"), (0, 7, "from interface 7, which is not on tree 0"),
     (1, 1, "from interface 1, which is not on tree 1"), (0, -1, "from interface -1"),
     (0, None, "expected whole numbers"), ([0, 0], 1, "expected one each"), (0, 2**64, "expected whole")],
)  # fmt: skip
def test_packets_from_nowhere_are_refused(trees: Any, interfaces: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Fib(Rib(LINKS)).forward(["a"], trees, interfaces)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="expected a Rib"):
        Fib(None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="rarest needs tags"):
        Fib(Rib(LINKS, descriptors="bloom"), "rarest")
