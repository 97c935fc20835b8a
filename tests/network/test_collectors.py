"""What a run tells: deliveries, load, losses, false forwards, table sizes and updates, on networks that can be
looked through by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from matchyard.errors import UsageError
from matchyard.network import (
    Links,
    Network,
    Run,
    collectors,
    draw_notifications,
    simulate_by_hops,
    simulate_by_subtree,
)
from matchyard.routing import Registrations, Vocabulary, from_links, generate, grow, shortest_paths

RING = from_links([(0, 1), (1, 2), (2, 3), (3, 0)], names="abcd")
TREE = shortest_paths(RING, 0)  # b and d below a, c below b
WANTED = Registrations(["x", "x", "y"], [3, 2, 2])


def around(links: Links | None = None, keep: bool = True) -> Run:
    """From c: x to c itself and, the long way round, to d; y to c; z to nobody."""
    some = draw_notifications(["x", "y", "z"], RING, 1, sources=[2, 2, 1])
    return simulate_by_subtree(RING, [TREE], WANTED, some, links, keep)


def test_deliveries_have_hops_and_stretch() -> None:
    assert collectors.deliveries(around()).to_pylist() == [
        {"notification": 0, "node": "c", "hops": 0, "fewest": 0, "stretch": 1.0, "time": 0.0},
        {"notification": 0, "node": "d", "hops": 3, "fewest": 1, "stretch": 3.0, "time": 3.0},
        {"notification": 1, "node": "c", "hops": 0, "fewest": 0, "stretch": 1.0, "time": 0.0},
    ]


def test_load_is_told_for_each_direction() -> None:
    table = collectors.link_load(around()).to_pylist()
    assert len(table) == 8
    assert [(row["from"], row["to"]) for row in table if row["packets"]] == [
        ("a", "d"), ("b", "a"), ("c", "b")
    ]  # fmt: skip


def test_a_summary_has_sums_and_quantiles() -> None:
    found = collectors.summary(around())
    assert found[:6] == (3, 2, 3, 3, 0, 0)
    assert (found.stretch.n, found.stretch.mean) == (1, 3.0)
    assert found.hops.values.tolist() == [0, 3]
    assert (found.links_used, found.last_time) == (3 / 8, 3.0)
    row = found.to_row()
    assert (row["hops, max"], row["load, median"], row["deliveries"]) == (3.0, 1.0, 3)


def test_sums_are_the_same_without_rows() -> None:
    kept, sums = around(), around(keep=False)
    for name in ("load", "taken", "delivered", "paths"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(sums, name))
    assert np.isnan(collectors.summary(sums).last_time)
    with pytest.raises(UsageError, match="keep=True"):
        collectors.deliveries(sums)


def test_losses_are_named_and_counted() -> None:
    run = around(Links(loss=1.0))
    [row] = collectors.losses(run).to_pylist()
    assert row == {"notification": 0, "from": "c", "to": "b", "time": 1.0,
                   "reason": "lost after 1 transmission", "missed": 1}  # fmt: skip
    found = collectors.summary(run)
    assert (found.copies, found.deliveries, found.lost, found.missed) == (1, 2, 1, 1)


def test_false_forwards_are_what_exact_tables_do_not_have() -> None:
    topology, random = generate("grid", 25), np.random.default_rng(1)
    tags = [[f"t{one}" for one in random.integers(0, 90, 2)] for _ in range(80)]
    nodes = random.integers(0, 25, 80)
    many = [[f"t{one}" for one in random.integers(0, 90, 25)] for _ in range(40)]
    net = Network(topology, 2, "L", descriptors="bloom")
    net.register_many(tags, nodes.tolist(), range(80))
    some = draw_notifications(many, topology, 2)
    trees, exact_tables = net.plan("0").trees, Registrations(tags, nodes)
    exact = simulate_by_subtree(topology, trees, exact_tables, some)
    run = simulate_by_hops(net, some)
    table = collectors.false_forwards(run, exact)
    assert sum(table["packets"].to_pylist()) == run.load.sum() - exact.load.sum() > 0
    np.testing.assert_array_equal(run.delivered, exact.delivered)
    filters = Registrations(tags, nodes, Vocabulary("bloom"))
    same = simulate_by_subtree(topology, trees, exact_tables, some, filters=filters)
    assert collectors.false_forwards(run, same).num_rows == 0
    with pytest.raises(UsageError, match="same notifications"):
        collectors.false_forwards(run, around())
    with pytest.raises(UsageError, match="only the exact run"):
        collectors.false_forwards(exact, run)


def test_tables_and_updates_are_told_at_moments() -> None:
    net = Network(RING, 1)
    moments = [collectors.table_sizes(net, ["a", "c"], 0.0)]
    told = [collectors.update_traffic(net, 0.0)]
    net.register({"jazz", "live"}, at="c", key="ada")
    moments.append(collectors.table_sizes(net, ["a", "c"], 1.0))
    told.append(collectors.update_traffic(net, 1.0))
    net.withdraw({"jazz", "live"}, at="c", key="ada")
    told.append(collectors.update_traffic(net, 2.0))
    sizes = pa.concat_tables(moments).to_pylist()
    assert [(row["moment"], row["node"], row["filters"], row["bytes"]) for row in sizes] == [
        (0.0, "a", 0, 0), (0.0, "c", 0, 0), (1.0, "a", 1, 34), (1.0, "c", 1, 34)
    ]  # fmt: skip
    traffic = pa.concat_tables(told).to_pylist()
    assert [row["messages"] for row in traffic] == [0, 3, 6]
    assert [(row["additions"], row["removals"]) for row in traffic] == [(0, 0), (3, 0), (3, 3)]
    assert [row["bytes"] for row in traffic] == [0, 3 * 34, 6 * 34]
    assert collectors.table_sizes(net).num_rows == 4


def test_bloom_filters_take_24_bytes_each() -> None:
    net = Network(RING, 1, descriptors="bloom")
    net.register({"jazz", "live"}, at="c", key="ada")
    assert net.traffic.bytes == 3 * (20 + 24)


def test_a_network_of_one_node_has_a_run() -> None:
    alone = from_links([], n_nodes=1)
    some = draw_notifications(["x"], alone, 1)
    run = simulate_by_subtree(alone, grow(alone), Registrations(["x"], [0]), some)
    found = collectors.summary(run)
    assert (found.deliveries, found.copies, found.links_used) == (1, 0, 0.0)
    assert np.isnan(found.stretch.mean)
