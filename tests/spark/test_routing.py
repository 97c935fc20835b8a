"""Routing on Spark gives what it gives embedded, whatever the number of partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyspark.errors import PythonException

import matchyard as my
from matchyard.errors import UsageError
from matchyard.routing import (
    Registrations,
    congestion,
    generate,
    grow,
    place,
    register_workload,
    sizes_table,
    stretch,
)
from matchyard.spark import routing, workloads

NETWORK = generate("barabasi-albert", 300, seed=2)
TREES = grow(NETWORK, "LC", 3)
SIZE = 2_400


@pytest.mark.parametrize("partitions", [1, 7, 32])
def test_stretch_is_that_of_the_embedded_one(spark: Any, partitions: int) -> None:
    found = routing.stretch(NETWORK, TREES, [1, 2, 3], spark, partitions).collect()
    for count, wanted in stretch(NETWORK, TREES, [1, 2, 3]).items():
        rows = sorted((row.stretch, row.pairs) for row in found if row.trees == count)
        assert rows == list(zip(wanted.values.tolist(), wanted.counts.tolist(), strict=True))


@pytest.mark.parametrize("partitions", [1, 7])
def test_congestion_is_that_of_the_embedded_one(spark: Any, partitions: int) -> None:
    rows = routing.congestion(NETWORK, TREES, spark, partitions).collect()
    wanted = congestion(NETWORK, TREES)
    ends = NETWORK.ends()
    used = {
        (str(ends[link, 0]), str(ends[link, 1])): wanted[link] for link in np.flatnonzero(wanted)
    }
    assert {(row.one, row.other): pytest.approx(row.congestion) for row in rows} == used


@pytest.mark.parametrize("partitions", [1, 7, 32])
def test_tables_are_those_of_the_embedded_ones(spark: Any, partitions: int) -> None:
    users = workloads.subscriptions("icn", SIZE, spark=spark, partitions=partitions)
    registered = register_workload(my.workload("tags", "icn", SIZE), NETWORK)
    nodes = [0, 7, 250]
    frame = routing.placed(users, NETWORK)
    sizes = routing.rib_sizes(frame, NETWORK, TREES, nodes).orderBy("node", "trees").toArrow()
    wanted = sizes_table(NETWORK, TREES, registered, nodes)
    by_place = [("node", "ascending"), ("trees", "ascending")]
    assert sizes.to_pylist() == wanted.sort_by(by_place).to_pylist()
    if partitions == 7:
        rows = routing.rib_tables(frame, NETWORK, TREES, [7]).collect()
        table = registered.table(NETWORK, TREES, 7)
        found = sorted((sorted(row.descriptor), row.entries) for row in rows)
        entries = np.split(table.entries, table.start[1:-1])
        assert found == sorted(
            (sorted(one), some.tolist())
            for one, some in zip(table.descriptors, entries, strict=True)
        )


def test_users_are_placed_as_embedded(spark: Any) -> None:
    frame = workloads.subscriptions("video", 500, spark=spark, partitions=3)
    rows = routing.placed(frame, NETWORK, "degree", 5).select("key", "node").collect()
    nodes = place([row.key for row in rows], NETWORK, "degree", 5)
    assert [row.node for row in rows] == [NETWORK.names[node] for node in nodes]


def test_what_is_wrong_is_said_before_a_task_runs(spark: Any) -> None:
    frame = spark.createDataFrame([(["a"], "0", 1)], "tags array<string>, node string, key bigint")
    with pytest.raises(UsageError, match="no column 'place' for the nodes"):
        routing.rib_sizes(frame, NETWORK, TREES, [0], node="place")
    with pytest.raises(UsageError, match="no node 300"):
        routing.rib_sizes(frame, NETWORK, TREES, [0, 300])
    with pytest.raises(UsageError, match="users are int or bigint"):
        routing.placed(frame, NETWORK, user="node")
    with pytest.raises(UsageError, match="no placement 'near'"):
        routing.placed(frame.drop("node"), NETWORK, "near")
    with pytest.raises(UsageError, match="no trees"):
        routing.congestion(NETWORK, [], spark)
    other = grow(generate("grid", 9), "LC", 1)
    for act in (
        lambda: routing.stretch(NETWORK, other, [1], spark),
        lambda: routing.congestion(NETWORK, other, spark),
        lambda: routing.rib_sizes(frame, NETWORK, other, [0]),
    ):
        with pytest.raises(UsageError, match="another network"):
            act()
    with pytest.raises(UsageError, match="expected a whole number"):
        routing.rib_sizes(frame, NETWORK, TREES, ["0"])
    with pytest.raises(UsageError, match="a column 'node' already"):
        routing.placed(frame, NETWORK)
    unknown = spark.createDataFrame([(["a"], "oslo")], "tags array<string>, node string")
    with pytest.raises(PythonException, match="a registration at node 'oslo'"):
        routing.rib_sizes(unknown, NETWORK, TREES, [0]).collect()


def test_routers_without_registrations_and_named_twice(spark: Any) -> None:
    frame = spark.createDataFrame([(["a"], "4"), (["a"], "4")], "tags array<string>, node string")
    wanted = sizes_table(NETWORK, TREES, Registrations([["a"], ["a"]], [4, 4]), [4]).to_pylist()
    sizes = routing.rib_sizes(frame, NETWORK, TREES, np.array([4, 4])).orderBy("trees").toArrow()
    assert sizes.to_pylist() == wanted
    none = routing.rib_sizes(frame.limit(0), NETWORK, TREES, [4]).orderBy("trees").toArrow()
    nothing = sizes_table(NETWORK, TREES, Registrations([], np.empty(0, int)), [4])
    assert none.to_pylist() == nothing.to_pylist()
