"""Many notifications at once: both ways take the same links, and deliver what a flat list of registrations says."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import matchyard as my
from matchyard.errors import UsageError
from matchyard.network import (
    Links,
    Network,
    Notifications,
    Run,
    collectors,
    draw_notifications,
    simulate_by_hops,
    simulate_by_subtree,
)
from matchyard.routing import Registrations, Topology, Vocabulary, from_links, generate, place
from tests.network.plain_network import PlainNetwork

TAGS = st.frozensets(st.sampled_from("abcdef"), max_size=3)
PACKETS = st.frozensets(st.sampled_from("abcdefg"), max_size=6)
LINE = from_links([(0, 1), (1, 2), (2, 3)], names="abcd")


@st.composite
def networks(draw: Any) -> Topology:
    n_nodes = draw(st.integers(1, 9))
    extra = draw(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=6))
    links = [(node, node // 2) for node in range(1, n_nodes)]
    links += [(a % n_nodes, b % n_nodes) for a, b in extra]
    return from_links(links, n_nodes=n_nodes)


def taken(run: Run) -> list[tuple[int, int, int]]:
    """All copies: of which notification, over which link, after how many hops."""
    assert run.copies is not None
    rows = zip(run.copies.notification, run.copies.place, run.copies.hops, strict=True)
    return sorted((int(one), int(place), int(hops)) for one, place, hops in rows)


def assert_equal(one: Run, other: Run) -> None:
    assert taken(one) == taken(other)
    assert one.deliveries is not None
    assert other.deliveries is not None
    for name in ("load", "taken", "delivered", "paths"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for column, same in zip(one.deliveries, other.deliveries, strict=True):
        np.testing.assert_array_equal(column, same)
    assert collectors.losses(one).sort_by("time").num_rows == len(other.losses.place)


def made(
    topology: Topology, wanted: list[tuple[frozenset[str], int]], descriptors: str, trees: int
) -> tuple[Network, Registrations, Registrations | None]:
    """A network with registrations, and the same registrations without routers."""
    net = Network(topology, trees, "L", descriptors=descriptors)
    tags, nodes = [one for one, _ in wanted], [at % topology.n_nodes for _, at in wanted]
    net.register_many(tags, [topology.names[node] for node in nodes], range(len(tags)))
    filters = Registrations(tags, nodes, Vocabulary("bloom")) if descriptors == "bloom" else None
    return net, Registrations(tags, nodes), filters


@pytest.mark.parametrize("descriptors", ["tags", "bloom"])
@settings(max_examples=40, deadline=None)
@given(
    topology=networks(),
    wanted=st.lists(st.tuples(TAGS, st.integers(0, 8)), max_size=12),
    sent=st.lists(st.tuples(PACKETS, st.integers(0, 8)), max_size=8),
    trees=st.integers(1, 3),
    n_more=st.sampled_from([0, 40]),
    links=st.sampled_from([None, Links(), Links(0.5, 2.0, 0.3, 1, queue=3)]),
)
def test_both_ways_take_the_same_links_and_deliver_everything(
    descriptors: str,
    topology: Topology,
    wanted: list[tuple[frozenset[str], int]],
    sent: list[tuple[frozenset[str], int]],
    trees: int,
    n_more: int,
    links: Links | None,
) -> None:
    net, registered, filters = made(topology, wanted, descriptors, trees)
    plan = net.plan(topology.names[0])
    more = frozenset(f"more{number}" for number in range(n_more))  # fills Bloom filters
    tags, sources = [one | more for one, _ in sent], [at % topology.n_nodes for _, at in sent]
    some = draw_notifications(tags, topology, len(plan.trees), sources=sources, interval=0.25)
    run = simulate_by_hops(net, some, links)
    assert_equal(
        run, simulate_by_subtree(topology, plan.trees, registered, some, links, filters=filters)
    )
    plain = PlainNetwork(topology)
    plain.registered = [
        (topology.names[at % topology.n_nodes], number, one)
        for number, (one, at) in enumerate(wanted)
    ]
    table = collectors.deliveries(run).to_pylist()
    got = {(row["notification"], row["node"]) for row in table}
    due = {
        (number, node)
        for number, (one, at) in enumerate(zip(tags, sources, strict=True))
        for node, _ in plain.interested(topology.names[at], one)
    }
    assert len(got) == len(table)
    assert got <= due
    assert len(due) - len(got) == run.losses.n_missed.sum()
    assert links is not None or got == due


def test_flights_of_a_network_take_the_same_links() -> None:
    topology = generate("barabasi-albert", 60)
    work = my.workload("tags", "icn", 400, 1)
    tags, users = work.subscriptions(0, 400)
    at = [topology.names[node] for node in place(users, topology)]
    for descriptors in ("tags", "bloom"):
        net = Network(topology, 2, "L", descriptors=descriptors)
        net.register_many(tags.to_pylist(), at, users.tolist())
        net.fail(*_a_link(topology))  # interfaces are no longer those of the plan
        plan = net.plan("0")
        some = draw_notifications(work.events(50), plan.topology, 2)
        run = simulate_by_hops(net, some)
        flown = {
            (number, *link)
            for number, (event, source, tree) in enumerate(
                zip(some.tags.to_pylist(), some.sources.tolist(), some.trees.tolist(), strict=True)
            )
            for link in net.notify(event, plan.topology.names[source], tree=tree).links
        }
        start, end = collectors.ends_of_places(plan.topology)
        names = plan.topology.names
        assert flown == {
            (number, names[start[link]], names[end[link]]) for number, link, _ in taken(run)
        }


@pytest.mark.slow
@pytest.mark.parametrize("descriptors", ["tags", "bloom"])
def test_both_ways_agree_on_a_thousand_nodes(descriptors: str) -> None:
    topology = generate("barabasi-albert", 1000)
    work = my.workload("tags", "icn", 3000, 1)
    tags, users = work.subscriptions(0, 3000)
    wanted = list(
        zip(map(frozenset, tags.to_pylist()), place(users, topology).tolist(), strict=True)
    )
    net, registered, filters = made(topology, wanted, descriptors, 2)
    some = draw_notifications(work.events(20_000), topology, 2)
    for links in (None, Links(0.7, 3.0, 0.1, 1, queue=20)):
        run = simulate_by_hops(net, some, links)
        trees = net.plan("0").trees
        assert_equal(
            run, simulate_by_subtree(topology, trees, registered, some, links, filters=filters)
        )


def _a_link(topology: Topology) -> tuple[str, str]:
    """One that is not the only way to some node."""
    for low, high in topology.ends().tolist():
        if min(topology.degrees[[low, high]]) > 2:
            return topology.names[low], topology.names[high]
    raise AssertionError("all links are needed")


# -------------------------------------------------------------------- the clock, by hand


def clocked(links: Links, sources: list[int], interval: float = 0.0) -> Run:
    """Notifications along the line a - b - c - d, to d."""
    registered = Registrations(["x"], [3])
    net = Network(LINE, 1)
    some = draw_notifications(["x"] * len(sources), LINE, 1, sources=sources, interval=interval)
    return simulate_by_subtree(LINE, net.plan("a").trees, registered, some, links)


def times(run: Run) -> list[float]:
    assert run.deliveries is not None
    return run.deliveries.time.tolist()


def test_delays_add_up_along_a_path() -> None:
    assert times(clocked(Links(), [0, 2, 3])) == [3, 1, 0]
    assert times(clocked(Links(delay=[1, 10, 100]), [0, 1, 3], interval=0.5)) == [111, 110.5, 1]


def test_copies_wait_for_those_before_them() -> None:
    # A link takes 1 for a copy, and 1 of delay. At c, two from b and one of its own ask for the last link.
    assert times(clocked(Links(rate=1), [0])) == [6]
    assert times(clocked(Links(rate=1), [0, 0, 0])) == [6, 7, 8]
    assert times(clocked(Links(rate=[1, 1, 0.25]), [1, 2])) == [2 + 2 + 1 + 4, 5]
    assert times(clocked(Links(rate=1), [0, 0], interval=5)) == [6, 11]


def test_a_queue_without_room_loses_copies() -> None:
    run = clocked(Links(rate=1, queue=1), [0, 0, 0, 0])
    assert times(run) == [6, 7]
    lost = collectors.losses(run).to_pylist()
    assert [(one["notification"], one["from"], one["to"]) for one in lost] == [
        (2, "a", "b"), (3, "a", "b")
    ]  # fmt: skip
    assert {(one["reason"], one["missed"], one["time"]) for one in lost} == {
        ("no room in the queue", 1, 0.0)
    }
    assert run.load.sum() == 6


def test_lost_copies_are_sent_again_and_then_counted() -> None:
    run = clocked(Links(loss=[0, 1, 0], resends=2), [0])
    assert times(run) == []
    [lost] = collectors.losses(run).to_pylist()
    # At b at 1; sent at 1, 3 and 5, of which the last would be there at 6.
    assert lost == {"notification": 0, "from": "b", "to": "c", "time": 6.0,
                    "reason": "lost after 3 transmissions", "missed": 1}  # fmt: skip
    assert run.load.sum() == 4
    assert run.taken.tolist() == [2]
    run = clocked(Links(loss=0.5, resends=60, resend_after=10), [0] * 200)
    assert len(times(run)) == 200
    assert all((time - 3) % 10 == 0 for time in times(run))
    assert run.load.sum() == pytest.approx(1200, rel=0.1)
    again = clocked(Links(loss=0.5, resends=60, resend_after=10), [0] * 200)
    assert times(run) == times(again)
    assert times(run) != times(clocked(Links(loss=0.5, resends=60, seed=2), [0] * 200))


# -------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("links", "what"),
    [
        (Links(delay=-1), "delay of -1"),
        (Links(delay=float("inf")), "infinite delay"),
        (Links(delay=[1, 2]), r"shape \(2,\)"),
        (Links(delay="far"), "delay 'far'"),
        (Links(rate=0), "rate of 0"),
        (Links(loss=1.5), "loss of 1.5"),
        (Links(loss=float("nan")), "loss of nan"),
        (Links(resends=-1), "-1 resends"),
        (Links(queue=-1), "queue of -1"),
    ],
)
def test_links_that_cannot_be_are_refused(links: Links, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        clocked(links, [0])


def test_notifications_of_other_networks_are_refused() -> None:
    with pytest.raises(UsageError, match="node 4; expected 0 to 3"):
        draw_notifications(["x"], LINE, 1, sources=[4])
    with pytest.raises(UsageError, match="interval of -1"):
        draw_notifications(["x"], LINE, 1, interval=-1)
    with pytest.raises(UsageError, match="0 trees"):
        draw_notifications(["x"], LINE, 0)
    net = Network(LINE, 1)
    odd = draw_notifications(["x"] * 50, LINE, 9)
    with pytest.raises(UsageError, match="tree"):
        simulate_by_hops(net, odd)
    with pytest.raises(UsageError, match="columns of equal length"):
        simulate_by_hops(net, Notifications(["x", "y"], odd.sources, odd.trees, odd.times))
    with pytest.raises(UsageError, match="node 9 of 4"):
        simulate_by_subtree(LINE, net.plan("a").trees, Registrations(["x"], [9]), odd)
    net.fail("d")
    with pytest.raises(UsageError, match="3 of 4 nodes are up"):
        simulate_by_hops(net, odd)
