"""Nine providers of the Internet as domains: their routers by Rocketfuel, the links between them by CAIDA."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import matchyard as my
from matchyard.network import Delivery
from matchyard.routing import from_links
from tests.network.watched_hierarchy import WatchedFlight, WatchedHierarchy

DATA = Path(os.environ.get("MATCHYARD_DATA", ""), "topology")
# Not in the graph of 2012, or without neighbours among the nine: links that are made up.
MADE_UP = [("1221", "1239"), ("1755", "1239"), ("1755", "2914"), ("3967", "3356"), ("3967", "7018")]
N_ROWS, N_EVENTS = 2000, 40


def providers() -> WatchedHierarchy:
    files = sorted((DATA / "rocketfuel").glob("*.r0.cch.gz"))
    domains = {file.name.partition(".")[0]: my.topology(file) for file in files}
    caida, names = my.topology(DATA / "caida-as-rel-20120601.txt.gz"), list(domains)
    links = [(caida.names[a], caida.names[b]) for a, b in caida.ends().tolist()]
    among = [(a, b) for a, b in links if a in domains and b in domains] + MADE_UP
    numbered = [(names.index(a), names.index(b)) for a, b in among]
    outer = from_links(numbered, names=names)
    return WatchedHierarchy(outer, domains, trees=4, local_trees=8)


def checked(flight: object) -> list[Delivery]:
    assert isinstance(flight, WatchedFlight)
    flight.check()
    return flight.deliveries


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="MATCHYARD_DATA has no networks")
def test_nine_providers_deliver_exactly_and_answer() -> None:
    net, random = providers(), np.random.default_rng(1)
    assert len(net.nodes) == 3932
    tags, users = my.workload("tags", "icn", N_ROWS).subscriptions(0, N_ROWS)
    wanted = [frozenset(one) for one in tags.to_pylist()]
    at = [net.nodes[node] for node in random.integers(len(net.nodes), size=N_ROWS)]
    keys = [int(user) for user in users]
    net.register_many(wanted, at, keys)
    for row in range(0, 30, 10):
        net.withdraw(wanted[row], at[row], keys[row])
    hosts = [
        one for row, one in enumerate(zip(wanted, at, keys, strict=True)) if row not in (0, 10, 20)
    ]
    n_domains = 0
    for rows in random.integers(N_ROWS, size=(N_EVENTS, 3)).tolist():
        event, node = wanted[rows[0]] | wanted[rows[1]], at[rows[2]]
        flight = net.notify(event, node)
        expected = {(there, key) for one, there, key in hosts if one <= event}
        got = Counter((one.node, one.key) for one in checked(flight))
        assert got == Counter(expected)
        n_domains = max(n_domains, len({there.partition("/")[0] for there, _ in expected}))
        one = checked(net.notify(event, node, fan_out="one"))
        assert len(one) == min(1, len(expected))
        assert {(single.node, single.key) for single in one} <= expected
    assert n_domains > 2
    deepest = [ask_again_and_again(net, at[row], at[-row]) for row in range(1, 5)]
    assert max(deepest) == 3


def ask_again_and_again(net: WatchedHierarchy, asks: str, offers: str) -> int:
    """A request, its reply, a request by the locator in it, and one that a cache answers: the deepest stack."""
    content = f"{asks} {offers}"
    net.register({content}, offers, "shop")
    flights = [net.request({content}, asks, "eve", identifier=content.encode())]
    [request] = checked(flights[-1])
    flights.append(net.reply(request, b"first"))
    [reply] = checked(flights[-1])
    assert (request.node, reply.node, reply.packet.payload) == (offers, asks, b"first")
    for to in reply.packet.origin:
        flights.append(net.request(None, asks, "eve", to=to, addressee="shop"))
        [follow_up] = checked(flights[-1])
        assert follow_up.node == offers
    flights.append(net.request({content}, asks, "bob", identifier=content.encode()))
    [answer] = checked(flights[-1])
    assert (answer.key, answer.packet.payload, flights[-1].links) == ("bob", b"first", [])
    net.withdraw({content}, offers, "shop")
    return max(flight.n_locators for flight in flights if isinstance(flight, WatchedFlight))
