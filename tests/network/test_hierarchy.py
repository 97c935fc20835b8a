"""A hierarchy of domains delivers what a flat list of registrations says, with packets looked at on every link."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from matchyard.errors import UsageError
from matchyard.network import Delivery, Hierarchy
from matchyard.routing import Topology, from_links
from tests.network.watched_hierarchy import WatchedFlight, WatchedHierarchy, hierarchies

TAGS = st.frozensets(st.sampled_from("abcdef"), max_size=3)
PACKETS = st.frozensets(st.sampled_from("abcdefg"), max_size=6)
KEYS = st.sampled_from(["ada", "bob", "eve", 7])
NUMBERS = st.integers(0, 99)


class Hierarchies(RuleBasedStateMachine):
    descriptors = "tags"

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.net: WatchedHierarchy = data.draw(hierarchies(self.descriptors))
        self.registered: list[tuple[str, str | int, frozenset[str]]] = []

    def node(self, number: int) -> str:
        return self.net.nodes[number % len(self.net.nodes)]

    def interested(self, tags: frozenset[str]) -> set[tuple[str, str | int]]:
        return {(node, key) for node, key, wanted in self.registered if wanted <= tags}

    def n_lost(self) -> int:
        return sum(self.net.router(node).counts.lost for node in self.net.nodes)

    def send(self, tags: frozenset[str], number: int, fan_out: str) -> list[tuple[str, str | int]]:
        flight = self.net.notify(tags, self.node(number), fan_out=fan_out)
        assert isinstance(flight, WatchedFlight)
        flight.check()
        return [(one.node, one.key) for one in flight.deliveries]

    @rule(tags=TAGS, number=NUMBERS, key=KEYS)
    def register(self, tags: frozenset[str], number: int, key: str | int) -> None:
        self.net.register(tags, self.node(number), key)
        self.registered.append((self.node(number), key, tags))

    @rule(many=st.lists(st.tuples(TAGS, NUMBERS, KEYS), min_size=1, max_size=6))
    def register_many(self, many: list[tuple[frozenset[str], int, str | int]]) -> None:
        tags, numbers, keys = zip(*many, strict=True)
        nodes = [self.node(number) for number in numbers]
        self.net.register_many(tags, nodes, keys)
        self.registered += zip(nodes, keys, tags, strict=True)

    @precondition(lambda self: self.registered)
    @rule(number=NUMBERS)
    def withdraw(self, number: int) -> None:
        node, key, tags = self.registered.pop(number % len(self.registered))
        self.net.withdraw(tags, node, key)

    @rule(tags=PACKETS, number=NUMBERS, n_more=st.integers(0, 60))
    def notify_all(self, tags: frozenset[str], number: int, n_more: int) -> None:
        """Tags that nobody asks for fill the Bloom filter of a packet."""
        more = tags | {f"more{one}" for one in range(n_more)}
        assert Counter(self.send(more, number, "all")) == Counter(self.interested(tags))

    @rule(tags=PACKETS, number=NUMBERS, limit=st.integers(1, 4), most=st.booleans())
    def notify_some(self, tags: frozenset[str], number: int, limit: int, most: bool) -> None:
        wanted, before = self.interested(tags), self.n_lost()
        got = self.send(tags, number, f"at {'most' if most else 'least'} {limit}")
        assert len(got) == len(set(got) & wanted)
        is_lost = self.n_lost() > before
        assert self.descriptors == "bloom" or not is_lost
        if most:
            assert len(got) <= limit
            assert got or not wanted or is_lost
        else:
            assert len(got) >= min(limit, len(wanted)) or is_lost


class BloomHierarchies(Hierarchies):
    descriptors = "bloom"


TestHierarchies = Hierarchies.TestCase
TestHierarchies.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestBloomHierarchies = BloomHierarchies.TestCase
TestBloomHierarchies.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)


def checked(flight: object) -> list[Delivery]:
    assert isinstance(flight, WatchedFlight)
    flight.check()
    return flight.deliveries


@given(hierarchies(), NUMBERS, NUMBERS, NUMBERS, st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_a_request_is_answered_and_the_next_one_goes_by_locator(
    net: WatchedHierarchy, a: int, b: int, c: int, way: int
) -> None:
    asks, offers, later = (net.nodes[number % len(net.nodes)] for number in (a, b, c))
    net.register({"video"}, offers, "shop")
    [request] = checked(net.request({"video", "block1"}, asks, "ada", identifier=b"1"))
    assert (request.key, request.node) == ("shop", offers)
    [reply] = checked(net.reply(request, b"first"))
    assert (reply.key, reply.node, reply.packet.payload) == ("ada", asks, b"first")
    to = reply.packet.origin[way % len(reply.packet.origin)]
    assert len(to) == 2
    [request] = checked(net.request(None, asks, "ada", b"2", to=to, addressee="shop"))
    assert request.node == offers
    [reply] = checked(net.reply(request, b"second"))
    assert reply.packet.payload == b"second"
    # A cache answers who asks for the same later: that of the router itself, at the latest.
    [again] = checked(net.request({"video", "block1"}, asks, "eve", identifier=b"1"))
    assert (again.key, again.packet.payload) == ("eve", b"first")
    got = checked(net.request({"video", "block2"}, later, "bob", identifier=b"2"))
    assert [one.key for one in got] in (["bob"], ["shop"])


@given(
    hierarchies(),
    st.lists(st.tuples(TAGS, NUMBERS), min_size=1, max_size=12),
    st.data(),
)
@settings(max_examples=40, deadline=None)
def test_tables_are_the_same_by_updates_and_at_once(
    net: WatchedHierarchy, rows: list[tuple[frozenset[str], int]], data: st.DataObject
) -> None:
    nodes = [net.nodes[number % len(net.nodes)] for _, number in rows]
    for (tags, _), node in zip(rows, nodes, strict=True):
        net.register(tags, node, "ada")
    gone = data.draw(st.sets(st.integers(0, len(rows) - 1)))
    for row in gone:
        net.withdraw(rows[row][0], nodes[row], "ada")
    by_updates = tables_of(net)
    for row in range(len(rows)):
        if row not in gone:
            net.withdraw(rows[row][0], nodes[row], "ada")
    assert not any(map(len, tables_of(net).values()))
    stays = [row for row in range(len(rows)) if row not in gone]
    net.register_many(
        [rows[row][0] for row in stays], [nodes[row] for row in stays], ["ada"] * len(stays)
    )
    assert tables_of(net) == by_updates


def tables_of(net: WatchedHierarchy) -> dict[str, Counter[Any]]:
    routers = [net.router(node) for node in net.nodes]
    routers += [net.outer.router(name) for name in net.domains]
    found = dict[str, Counter[Any]]()
    for router in routers:
        sets, trees, interfaces = router.plane.rib.pairs()
        found[router.name] = Counter(zip(sets, trees.tolist(), interfaces.tolist(), strict=True))
    return found


def line(names: str) -> Topology:
    return from_links([(one, one + 1) for one in range(len(names) - 1)], names=names)


def three_domains() -> WatchedHierarchy:
    """A line of domains; the one in the middle is crossed from one end to the other."""
    gateways = {("A", "B"): ("c", "a"), ("C", "B"): ("a", "c")}
    return WatchedHierarchy(line("ABC"), dict.fromkeys("ABC", line("abc")), gateways, trees=2)


def test_a_packet_crosses_a_domain_from_gateway_to_gateway() -> None:
    net = three_domains()
    net.register({"jazz"}, "C/c", "ada")
    flight = net.notify({"jazz", "live"}, "A/a")
    path = ["A/a", "A/b", "A/c", "B/a", "B/b", "B/c", "C/a", "C/b", "C/c"]
    assert flight.links == list(pairwise(path))
    assert checked(flight)[0].hops == 8
    net.withdraw({"jazz"}, "C/c", "ada")
    assert net.notify({"jazz", "live"}, "A/a").stops == [
        ("A/c", "A/c knows of no other domain that wants it")
    ]


def test_one_is_found_in_the_domain_before_others_are_asked() -> None:
    net = three_domains()
    net.register({"jazz"}, "C/c", "far")
    net.register({"jazz"}, "A/c", "near")
    assert [net.notify({"jazz"}, "A/a", fan_out="one").keys for _ in range(5)] == [["near"]] * 5
    assert sorted(net.notify({"jazz"}, "A/a", fan_out="at most 2").keys) == ["far", "near"]
    net.withdraw({"jazz"}, "A/c", "near")
    assert net.notify({"jazz"}, "A/a", fan_out="one").keys == ["far"]


def test_packets_take_the_shortest_paths_of_a_domain() -> None:
    ring = from_links([(node, (node + 1) % 7) for node in range(7)])
    net = WatchedHierarchy(line("AB"), dict.fromkeys("AB", ring), {("A", "B"): ("0", "0")})
    for node in range(7):
        net.register({"jazz"}, f"A/{node}", node)
        net.register({"jazz"}, f"B/{node}", node)
    hops = {one.node: one.hops for one in checked(net.notify({"jazz"}, "A/3"))}
    assert [hops[f"A/{node}"] for node in range(7)] == [3, 2, 1, 0, 1, 2, 3]
    assert [hops[f"B/{node}"] for node in range(7)] == [4, 5, 6, 7, 7, 6, 5]


def test_every_neighbour_has_its_turn_when_one_is_wanted() -> None:
    net = three_domains()
    for node in ("B/a", "B/c", "A/c", "C/a"):
        net.register({"jazz"}, node, node)
    found = {net.notify({"jazz"}, "B/b", fan_out="one").keys[0] for _ in range(4)}
    assert found == {"B/a", "B/c"}
    net.withdraw({"jazz"}, "B/a", "B/a")
    net.withdraw({"jazz"}, "B/c", "B/c")
    found = {net.notify({"jazz"}, "B/b", fan_out="one").keys[0] for _ in range(4)}
    assert found == {"A/c", "C/a"}


def test_a_cache_in_another_domain_answers_the_second_request() -> None:
    net = three_domains()
    net.register({"video"}, "C/c", "shop")
    [request] = checked(net.request({"video"}, "A/a", "ada", identifier=b"1"))
    net.reply(request, b"content")
    flight = net.request({"video"}, "B/b", "bob", identifier=b"1")
    assert checked(flight)[0].packet.payload == b"content"
    assert flight.stops == [("B/b", "answered by the cache of B/b")]
    assert not flight.links


def test_only_gateways_store_what_other_domains_want() -> None:
    net = three_domains()
    net.register_many([{"jazz"}, {"jazz", "live"}, {"rock"}], ["C/c", "C/a", "B/b"], [1, 2, 3])
    inside, beyond = net.memory("A/c")
    assert inside.filters == 0
    assert beyond is not None
    assert beyond.filters == 2  # jazz covers the other
    assert net.memory("A/a") == (net.memory("A/b")[0], None)
    assert net.memory("B/a")[1] == net.memory("B/c")[1]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((line("AB"), {"A": line("ab")}), "domain 'B' is not in the domains"),
        ((line("A"), {"A": line("ab"), "B": line("b")}), "'B' is not in the network of domains"),
        ((from_links([], names=["x/y"]), {"x/y": line("a")}), "without a slash"),
        (
            (line("AB"), {"A": line("a"), "B": from_links([], names="ab")}),
            "2 parts; expected a connected network",
        ),
        (
            (from_links([], names="AB"), dict.fromkeys("AB", line("a"))),
            "2 parts; expected a connected network",
        ),
        ((line("AB"), dict.fromkeys("AB", line("a")), {("A", "C"): ("a", "a")}), "have no link"),
        ((line("AB"), dict.fromkeys("AB", line("a")), {("A", "B"): ("a", "x")}), "no node 'x'"),
        ((line("AB"), dict.fromkeys("AB", line("a")), {}, 8, "LC", 1, 0), "expected 1 or more"),
    ],
)
def test_what_is_no_hierarchy_is_refused_in_words(arguments: tuple[object, ...], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        Hierarchy(*arguments)  # type: ignore[arg-type]


def test_a_router_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="expected a router such as A/a, in one of A, B, C"):
        three_domains().register({"jazz"}, "D/a", "ada")
    with pytest.raises(UsageError, match="no node 'A/x'"):
        three_domains().notify({"jazz"}, "A/x")
