"""What applications do with a network: ask, answer, move, and find out why nothing came."""

from __future__ import annotations

import numpy as np
import pytest

import matchyard as my
from matchyard.errors import UsageError
from matchyard.network import (
    DO_NOT_ANSWER,
    DO_NOT_STORE,
    KEEP,
    Kind,
    Locator,
    Network,
    Packet,
    PacketError,
    TreeUpdate,
)
from matchyard.routing import Topology, Update, from_links, generate

LINE = from_links([(0, 1), (1, 2), (2, 3)], names=["a", "b", "c", "d"])
RING = from_links([(0, 1), (1, 2), (2, 3), (3, 0)], names=["a", "b", "c", "d"])


def network(topology: Topology = LINE, trees: int = 2) -> Network:
    return Network(topology, trees)


def test_a_request_finds_who_offers_and_the_reply_its_way_back() -> None:
    net = network()
    net.register("paper icn14", at="d", key="library")
    asked = net.request("paper icn14 routing", at="a", key="ada", identifier=b"n32")
    assert asked.keys == ["library"]
    answered = net.reply(asked[0], b"the paper")
    assert [(one.key, one.node, one.hops) for one in answered.deliveries] == [("ada", "a", 3)]
    reply = answered[0].packet
    assert (reply.kind, reply.payload, reply.identifier) == (Kind.REPLY, b"the paper", b"n32")


def test_follow_up_requests_go_by_the_locator_that_a_reply_carries() -> None:
    net = network()
    net.register("paper", at="d", key="library")
    first = net.request("paper", at="a", key="ada", identifier=b"1")
    origin = net.reply(first[0], b"one")[0].packet.origin
    assert len(origin) == 2  # one for each tree
    for stack in origin:
        again = net.request(None, at="a", key="ada", identifier=b"2", to=stack, addressee="library")
        assert again.keys == ["library"]
        assert not again.stops
    assert net.reply(again[0], b"two").keys == ["ada"]


def test_a_cache_on_the_way_answers_the_second_request() -> None:
    net = network()
    net.register("paper", at="d", key="library")
    net.reply(net.request("paper", at="a", key="ada", identifier=b"1")[0], b"one")
    second = net.request("paper", at="b", key="bob", identifier=b"1")
    assert [(one.key, one.hops, one.packet.payload) for one in second.deliveries] == [
        ("bob", 0, b"one")
    ]
    assert second[0].packet.sender == "library"
    assert "answered by the cache of b" in second.stops[0]
    fresh = net.request("paper", at="b", key="bob", identifier=b"1", cache_control=DO_NOT_ANSWER)
    assert fresh.keys == ["library"]


def test_caches_keep_what_they_may_and_no_more_than_they_can() -> None:
    net = Network(LINE, 1, cache=2)
    net.register("paper", at="d", key="library")
    for number in (b"1", b"2", b"3"):
        net.reply(net.request("paper", at="a", key="ada", identifier=number)[0], number)
    assert len(net.router("b").cache) == 2
    assert net.request("paper", at="b", key="bob", identifier=b"1").keys == ["library"]
    asked = net.request("paper", at="a", key="ada", identifier=b"4")
    net.reply(asked[0], b"secret", cache_control=DO_NOT_STORE)
    assert net.request("paper", at="b", key="bob", identifier=b"4").keys == ["library"]


def test_a_notification_that_asks_for_it_is_kept_for_who_missed_it() -> None:
    net = network()
    net.register("jazz", at="d", key="ada")
    net.notify("jazz live", at="a", payload=b"tonight", identifier=b"n1", cache_control=KEEP)
    missed = net.request("jazz", at="c", key="bob", identifier=b"n1")
    assert (missed.keys, missed[0].packet.payload) == (["bob"], b"tonight")


def test_a_consumer_that_moves_misses_nothing() -> None:
    net = network()
    net.register("jazz", at="a", key="ada")
    net.register("paper", at="d", key="library")
    asked = net.request("paper", at="a", key="ada", identifier=b"1")
    net.move("ada", to="c")
    assert [(one.key, one.node) for one in net.notify("jazz", at="d").deliveries] == [("ada", "c")]
    late = net.reply(asked[0], b"one")  # to her old locator
    assert [(one.key, one.node) for one in late.deliveries] == [("ada", "c")]
    again = net.request("paper", at="c", key="ada", identifier=b"2")
    assert net.reply(again[0], b"two")[0].node == "c"
    net.move("ada", to="a")
    assert net.reply(again[0], b"two")[0].node == "a"
    with pytest.raises(UsageError, match="nowhere; expected it at one node"):
        net.move("eve", to="a")


def test_a_trace_says_which_hop_stops_a_packet_and_why() -> None:
    net = network(trees=1)
    net.register("jazz live", at="d", key="ada")
    assert net.trace("jazz live oslo", at="a", key="ada").arrives
    stopped = net.trace("jazz", at="a", key="ada")
    assert not stopped.arrives
    assert "of 1 descriptor wanted beyond b on tree 0, none matches" in str(stopped)
    assert "missing tag: live" in str(stopped)
    net.register("jazz", at="c", key="bob")
    farther = net.trace("jazz", at="a", key="ada")
    assert [hop.node for hop in farther.hops] == ["a", "b", "c"]
    net.register("jazz", at="d", key="eve")
    last = net.trace("jazz", at="a", key="ada")
    assert [hop.node for hop in last.hops] == ["a", "b", "c", "d"]
    assert "'ada' does not want it" in last.hops[-1].what
    assert "at no node" in str(net.trace("jazz", at="a", key="tom"))
    net.fail("c", "d")
    assert "cannot be reached" in str(net.trace("jazz live", at="a", key="ada"))


def test_packets_of_the_old_trees_still_arrive_after_a_change() -> None:
    net = network(RING)
    net.register("jazz", at="c", key="ada")
    flight = net.send(Packet(Kind.NOTIFICATION, frozenset({"jazz"})), "a")
    flight.step()
    way = flight.links[0][1]
    other = "d" if way == "b" else "b"
    net.fail("a", other)  # not where the packet is
    assert flight.run().keys == ["ada"]
    assert net.notify("jazz", at="a").keys == ["ada"]
    lost = net.send(Packet(Kind.NOTIFICATION, frozenset({"jazz"})), "a", tree=0)
    net.fail("a", way)
    assert lost.run().keys == []
    assert "is down" in lost.stops[0][1]


def test_packets_of_a_version_that_is_gone_are_refused_in_words() -> None:
    net = network(RING)
    net.register("jazz", at="c", key="ada")
    flight = net.send(Packet(Kind.NOTIFICATION, frozenset({"jazz"})), "a", tree=0)
    for _ in range(2):  # routers keep two versions
        net.fail("a", "b")
        net.restore("a", "b")
    flight.run()
    assert flight.keys == []
    assert "version" in str(flight.errors[0])
    assert net.notify("jazz", at="a").keys == ["ada"]


@pytest.mark.parametrize(
    ("packet", "what"),
    [
        (Packet(Kind.NOTIFICATION, frozenset("x"), version=99), "of version 0000000000000063"),
        (Packet(Kind.NOTIFICATION), "without tags and without a locator"),
        (Packet(Kind.NOTIFICATION, frozenset("x"), hops=255), "after 255 hops"),
        (Packet(Kind.REPLY, None, (Locator(99, 0, 0),)), "a locator of version"),
    ],
)
def test_packets_that_make_no_sense_are_refused_in_words(packet: Packet, what: str) -> None:
    net = network()
    net.register("x", at="a", key="ada")
    router = net.router("b")
    with pytest.raises(PacketError, match=what):
        router.receive(packet, 1)
    good = packet._replace(tags=frozenset("x"), stack=(), version=router.plane.part.version, hops=0)
    found = router.receive_all([packet, good, packet], [2, 2, 2])
    assert [stop.number for stop in found.stops if stop.is_error] == [0, 2]
    assert len(found.out) == 1


def test_labels_of_another_tree_and_places_that_are_none_are_refused() -> None:
    net = network()
    router = net.router("b")
    part = router.plane.part
    own = part.locator(0)
    for locator, what in (
        (own._replace(tree=1), "another tree"),
        (own._replace(tree=7), "expected 0 to 1"),
        (own._replace(label=(1 << 64) - 1), "another tree"),
    ):
        with pytest.raises(PacketError, match=what):
            router.receive(Packet(Kind.REPLY, None, (locator,)), 1)
    packet = Packet(Kind.NOTIFICATION, frozenset("x"), version=part.version)
    with pytest.raises(PacketError, match="not on tree"):
        router.receive(packet, 9)
    with pytest.raises(PacketError, match="expected 0 to 1"):
        router.receive(packet._replace(tree=2), 1)
    with pytest.raises(PacketError, match="an update of version"):
        router.apply(TreeUpdate(5, 0, Update(["x"])), 1)
    with pytest.raises(PacketError, match="who is not at b"):
        router.receive(Packet(Kind.REPLY, None, (own,), addressee="eve"), 1)


def test_unknown_nodes_and_keys_are_refused_in_words() -> None:
    net = network()
    for call in (
        lambda: net.register("x", at="nowhere", key="ada"),
        lambda: net.notify("x", at=17),
        lambda: net.fail("a", "c"),
        lambda: net.join("e", ["nowhere"]),
        lambda: net.join("a", ["a"]),
        lambda: net.register("x", at="a", key=1.5),  # type: ignore[arg-type]
        lambda: net.register([1, 2], at="a", key="ada"),
        lambda: net.notify("x", at="a", tree=2),
        lambda: net.withdraw("x", at="a", key="ada"),
        lambda: net.notify("x", at="a", fan_out="some"),
    ):
        with pytest.raises(UsageError, match="expected"):
            call()
    net.fail("b")
    with pytest.raises(UsageError, match="b is down"):
        net.notify("x", at="b")


def test_a_packet_that_is_refused_is_not_kept() -> None:
    net = network()
    net.register("paper", at="d", key="library")
    evil = Packet(Kind.REPLY, None, (Locator(99, 0, 0),), identifier=b"1", payload=b"evil")
    with pytest.raises(PacketError):
        net.router("b").receive(evil, 1)
    assert net.request("paper", at="b", key="bob", identifier=b"1").keys == ["library"]


def test_what_is_refused_leaves_the_network_as_it_was() -> None:
    net = network(RING)
    with pytest.raises(UsageError, match="above 0"):
        net.join("e", ["a"], weight=-1)
    assert "e" not in net.nodes
    net.register("jazz", at="b", key="ada")
    net.fail("b")
    for _ in range(3):
        net.fail("a", "d")
        net.restore("a", "d")
    net.move("ada", to="c")
    assert net.notify("jazz", at="a").keys == ["ada"]


def test_many_registrations_at_once_are_the_same_as_one_by_one() -> None:
    topology = generate("barabasi-albert", 30, seed=3)
    chance = np.random.default_rng(1)
    wanted = [frozenset(chance.choice(list("abcdefgh"), 2)) for _ in range(100)]
    nodes = chance.integers(0, 30, 100).astype(str).tolist()
    keys = [f"user{number}" for number in range(100)]
    one_by_one, at_once = my.Network(topology, trees=3), my.Network(topology, trees=3)
    for tags, node, key in zip(wanted, nodes, keys, strict=True):
        one_by_one.register(tags, node, key)
    at_once.register_many(wanted, nodes, keys)
    for node in one_by_one.nodes:
        apart, together = one_by_one.router(node).plane.rib, at_once.router(node).plane.rib
        for tree, links in enumerate(apart.links):
            for interface in (0, *links):
                assert sorted(map(sorted, apart.wanted(tree, interface))) == sorted(
                    map(sorted, together.wanted(tree, interface))
                )
    for net in (one_by_one, at_once):
        net.withdraw(wanted[0], nodes[0], keys[0])
    got = [sorted(net.notify(set("abcd"), at=0).keys) for net in (one_by_one, at_once)]
    assert got[0] == got[1] != []
