"""The way of a notification through domains, in words; and what routers refuse."""

from __future__ import annotations

from contextlib import suppress

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from matchyard.errors import UsageError
from matchyard.network import FanOut, Hierarchy, Kind, Locator, Packet, PacketError
from matchyard.network.fan_out import Mode
from matchyard.network.packet import Scope
from matchyard.routing import from_links
from tests.network.test_packet import FAN_OUTS

LINE = from_links([(0, 1), (1, 2)], names="abc")


def three_domains() -> Hierarchy:
    gateways = {("a", "b"): ("c", "a"), ("b", "c"): ("c", "a")}
    return Hierarchy(LINE, dict.fromkeys("abc", LINE), gateways, trees=1)


def test_a_trace_follows_a_packet_through_domains() -> None:
    net = three_domains()
    net.register({"jazz", "live"}, "c/c", "ada")
    found = net.trace({"jazz", "live"}, "a/a", "ada")
    assert found.arrives
    assert [hop.node for hop in found.hops] == ["a/a", "a", "b", "c/a", "c/b", "c/c"]
    assert found.hops[-1].what == "arrives: 'ada' wants {jazz, live}"
    assert net.notify({"jazz", "live"}, "a/a").keys == ["ada"]


def test_a_trace_says_which_domain_a_packet_does_not_leave() -> None:
    net = three_domains()
    net.register({"jazz", "live"}, "c/c", "ada")
    found = net.trace({"jazz"}, "a/a", "ada")
    assert not found.arrives
    assert [hop.node for hop in found.hops] == ["a/a", "a"]
    assert "the nearest is {jazz, live}, missing tag: live" in str(found)
    assert not net.trace({"jazz"}, "a/a", "eve").arrives
    assert net.trace({"jazz"}, "c/a", "ada").hops[0].node == "c/a"


def test_a_hierarchy_stays_as_it_is_made() -> None:
    net = three_domains()
    with pytest.raises(UsageError, match="a hierarchy cannot change"):
        net.domains["a"].fail("a/a", "a/b")
    assert net.domains["a"].is_up("a/a", "a/b")
    with pytest.raises(UsageError, match="no link between a and c"):
        net.gateway("a", "c")


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_strange_packets_are_forwarded_or_refused(data: st.DataObject) -> None:
    net = Hierarchy(LINE, dict.fromkeys("abc", LINE), trees=2)
    if data.draw(st.booleans()):
        net = Hierarchy(from_links([], names="c"), {"c": LINE})
    net.register({"jazz"}, "c/c", "ada")
    nodes = [node for domain in net.domains.values() for node in domain.nodes]
    versions = {net.router(node).plane.part.version for node in nodes}
    version = st.sampled_from([1, net.outer.plan("c").version, *versions])
    known = [one for node in nodes for stack in net.router(node).locators() for one in stack]
    locators = st.sampled_from(known) | st.builds(
        Locator, version, st.integers(0, 4), st.integers(0, 9), st.integers(0, 2)
    )
    packets = st.builds(
        Packet,
        st.sampled_from(Kind),
        st.sampled_from([None, frozenset({"jazz"}), frozenset({"rock"})]),
        st.lists(locators, max_size=3).map(tuple),
        version,
        st.integers(0, 4),
        fan_out=FAN_OUTS | st.builds(FanOut, st.sampled_from(Mode), st.integers(-1, 2)),
        scope=st.sampled_from(Scope),
        tries=st.integers(0, 3),
        addressee=st.sampled_from([None, "ada"]),
    )
    router = net.router(data.draw(st.sampled_from(nodes)))
    interface = data.draw(st.integers(0, len(router.interfaces)))
    with suppress(PacketError):
        for leaving, _ in router.receive(data.draw(packets), interface):
            assert 0 <= leaving <= len(router.interfaces)
