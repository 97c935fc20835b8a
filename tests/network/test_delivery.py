"""Delivery is exact: a network with everything that can happen to it, against a flat list of registrations."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from matchyard.network import Flight, Kind, Network, Packet
from matchyard.routing import from_links
from tests.network.plain_network import PlainNetwork

TAGS = st.frozensets(st.sampled_from("abcdef"), max_size=3)
PACKETS = st.frozensets(st.sampled_from("abcdefg"), max_size=6)
KEYS = st.sampled_from(["ada", "bob", "eve", 7])


class Networks(RuleBasedStateMachine):
    descriptors = "tags"

    @initialize(
        n_nodes=st.integers(1, 8),
        extra=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=6),
        trees=st.integers(1, 3),
        rule=st.sampled_from(["L", "LC"]),
    )
    def start(self, n_nodes: int, extra: list[tuple[int, int]], trees: int, rule: str) -> None:
        links = [(node, node // 2) for node in range(1, n_nodes)]
        links += [(a % n_nodes, b % n_nodes) for a, b in extra]
        topology = from_links(links, n_nodes=n_nodes)
        self.net = Network(topology, trees, rule, descriptors=self.descriptors)
        self.plain = PlainNetwork(topology)
        self.flights: list[Flight] = []

    def node(self, number: int) -> str:
        living = [name for name in self.net.nodes if name not in self.plain.down]
        return living[number % len(living)]

    @rule(tags=TAGS, number=st.integers(0, 99), key=KEYS)
    def register(self, tags: frozenset[str], number: int, key: str | int) -> None:
        node = self.node(number)
        self.net.register(tags, node, key)
        self.plain.registered.append((node, key, tags))

    @precondition(lambda self: self.plain.living())
    @rule(number=st.integers(0, 99))
    def withdraw(self, number: int) -> None:
        living = self.plain.living()
        node, key, tags = living[number % len(living)]
        self.net.withdraw(tags, node, key)
        self.plain.registered.remove((node, key, tags))

    @rule(a=st.integers(0, 99), is_link=st.booleans())
    def fail(self, a: int, is_link: bool) -> None:
        links = self.plain.living_links()
        if is_link and links:
            one = links[a % len(links)]
            self.net.fail(*one)
            self.plain.down.add(one)
        elif not is_link and len(self.net.nodes) - len(self.plain.down_nodes()) > 1:
            node = self.node(a)
            self.net.fail(node)
            self.plain.down.add(node)

    @precondition(lambda self: self.plain.down)
    @rule(a=st.integers(0, 99))
    def restore(self, a: int) -> None:
        things = sorted(self.plain.down, key=str)
        thing = things[a % len(things)]
        self.net.restore(*([thing] if isinstance(thing, str) else thing))
        self.plain.down.discard(thing)

    @rule(a=st.integers(0, 99), forget=st.booleans())
    def restart(self, a: int, forget: bool) -> None:
        node = self.node(a)
        self.net.restart(node, forget)
        if forget:
            self.plain.registered = [one for one in self.plain.registered if one[0] != node]

    @rule(number=st.integers(0, 99), other=st.integers(0, 99))
    def join(self, number: int, other: int) -> None:
        if len(self.net.nodes) >= 10:
            return
        name, near = f"new{len(self.net.nodes)}", {self.node(number), self.node(other)}
        self.net.join(name, near)
        self.plain.add(name, near)

    @rule(tags=PACKETS, number=st.integers(0, 99), n_more=st.integers(0, 60))
    def notify(self, tags: frozenset[str], number: int, n_more: int) -> None:
        node, tags = self.node(number), self.with_more(tags, n_more)
        flight = self.net.notify(tags, node)
        assert Counter((one.node, one.key) for one in flight.deliveries) == Counter(
            self.plain.interested(node, tags)
        )
        visited = [there for _, there in flight.links]
        assert len({node, *visited}) == len(visited) + 1
        assert not flight.errors
        assert self.descriptors == "bloom" or not flight.stops or not flight.links

    @rule(
        tags=PACKETS,
        number=st.integers(0, 99),
        limit=st.integers(1, 4),
        most=st.booleans(),
        n_more=st.integers(0, 60),
    )
    def notify_some(
        self, tags: frozenset[str], number: int, limit: int, most: bool, n_more: int
    ) -> None:
        node, before, tags = self.node(number), self.n_lost(), self.with_more(tags, n_more)
        fan_out = f"at {'most' if most else 'least'} {limit}"
        flight = self.net.notify(tags, node, fan_out=fan_out)
        wanted = self.plain.interested(node, tags)
        got = [(one.node, one.key) for one in flight.deliveries]
        assert len(got) == len(set(got) & wanted)
        assert not flight.errors
        n_lost = self.n_lost() - before
        assert self.descriptors == "bloom" or n_lost == 0
        if most:
            assert len(got) <= limit
            assert got or not wanted or n_lost
        else:
            assert len(got) >= min(limit, len(wanted)) or n_lost

    def with_more(self, tags: frozenset[str], n_more: int) -> frozenset[str]:
        """Tags that nobody asks for: with many of them, most bits of a Bloom filter are set."""
        return tags | {f"more{number}" for number in range(n_more)}

    def n_lost(self) -> int:
        return sum(self.net.router(node).counts.lost for node in self.net.nodes)

    @rule(tags=PACKETS, number=st.integers(0, 99), steps=st.integers(0, 3))
    def depart(self, tags: frozenset[str], number: int, steps: int) -> None:
        node = self.node(number)
        flight = self.net.send(Packet(Kind.NOTIFICATION, tags), node)
        for _ in range(steps):
            flight.step()
        self.flights.append(flight)

    @precondition(lambda self: self.flights)
    @rule()
    def arrive(self) -> None:
        """What was on its way while the network changed reaches nobody twice."""
        flight = self.flights.pop()
        flight.run()
        got = [(one.node, one.key) for one in flight.deliveries]
        assert len(got) == len(set(got))
        visited = [there for _, there in flight.links]
        assert len(visited) == len(set(visited))

    @invariant()
    def routers_count_what_they_do(self) -> None:
        if hasattr(self, "net"):
            for node in self.net.nodes:
                counts = self.net.router(node).counts
                assert counts.lost == 0 or self.descriptors == "bloom"


class BloomNetworks(Networks):
    descriptors = "bloom"


TestNetworks = Networks.TestCase
TestNetworks.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestBloomNetworks = BloomNetworks.TestCase
TestBloomNetworks.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
