"""Routing on Spark: the cost of trees and the tables of routers, DataFrames in and out.

    stretch       sources ─▶ pairs by stretch          a task takes some of the sources
    congestion    trees ─▶ load of each link           a task takes some of the trees
    placed        subscriptions of users ─▶ registrations at nodes
    rib_tables    registrations ─▶ filters of routers  a task takes some registrations and keeps the
    rib_sizes     registrations ─▶ numbers of filters  minimal ones; a task per router merges them

The results are those of `matchyard.routing`, whatever the number of partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from matchyard.errors import UsageError
from matchyard.routing import (
    COUNTS,
    LANES,
    Descriptors,
    Registrations,
    Table,
    Topology,
    Tree,
    Vocabulary,
    check_counts,
    check_tree,
    merge,
    place,
    size_row,
    stretch_from,
)
from matchyard.routing import congestion as load_of
from matchyard.spark.checks import check_subscriptions, column_of
from matchyard.spark.session import find_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator[pa.RecordBatch]
_TOGETHER = 1 << 20  # registrations that are reduced to minimal ones together
_ROWS = 10_000  # per Arrow batch
_SIZES = (
    "node string, trees int, least_filters bigint, mean_filters double, most_filters bigint, "
    "least_entries bigint, mean_entries double, most_entries bigint, most_compact_bytes bigint, "
    "most_thesis_bytes bigint"
)
_TABLES = "node string, descriptor array<string>, entries array<int>"


class _Network(NamedTuple):
    """A network with trees, and the requested routers, as it travels to the workers."""

    topology: Topology
    trees: Sequence[Tree]
    nodes: Sequence[int] = ()


def stretch(
    topology: Topology,
    trees: Sequence[Tree],
    counts: Sequence[int] = COUNTS,
    spark: SparkSession | None = None,
    partitions: int | None = None,
) -> DataFrame:
    """Count pairs of nodes by their mean stretch over the first trees: columns `trees`, `stretch` and
    `pairs`. See `matchyard.routing.stretch`."""
    from pyspark.sql import functions as F

    kept = check_counts(trees, counts)
    for tree in trees[: kept[-1]]:
        check_tree(topology, tree)
    blocks = find_session(spark).range(0, -(-topology.n_nodes // LANES), 1, partitions)
    task = partial(_stretch, _Network(topology, trees), kept)
    pairs = blocks.mapInArrow(task, "trees int, length int, total int, pairs bigint")
    value = (F.col("total") / (F.col("trees") * F.col("length"))).alias("stretch")
    return pairs.groupBy("trees", value).agg(F.sum("pairs").alias("pairs"))


def congestion(
    topology: Topology,
    trees: Sequence[Tree],
    spark: SparkSession | None = None,
    partitions: int | None = None,
) -> DataFrame:
    """The congestion of each link of a tree: columns `one`, `other` (the nodes of the link) and
    `congestion`. See `matchyard.routing.congestion`."""
    from pyspark.sql import functions as F

    if not trees:
        raise UsageError("congestion of no trees; expected at least one")
    for tree in trees:
        check_tree(topology, tree)
    numbers = find_session(spark).range(0, len(trees), 1, partitions)
    task = partial(_congestion, _Network(topology, trees))
    loads = numbers.mapInArrow(task, "one string, other string, load double")
    total = (F.sum("load") / len(trees)).alias("congestion")
    return loads.groupBy("one", "other").agg(total)


def placed(
    subscriptions: DataFrame,
    topology: Topology,
    placement: str = "zipf",
    seed: int = 1,
    user: str = "key",
) -> DataFrame:
    """Add a column `node` to subscriptions: the name of their user's node. Users are integers, as in
    `workloads.subscriptions`. See `matchyard.routing.place`."""
    from pyspark.sql import types as T

    kind = subscriptions.select(column_of(subscriptions, user, "users")).schema[0].dataType
    if not isinstance(kind, T.LongType | T.IntegerType):
        raise UsageError(
            f"column {user!r} is {kind.simpleString()}; users are int or bigint, e.g. `key` of a workload"
        )
    if "node" in subscriptions.columns:
        raise UsageError("the subscriptions have a column 'node' already; drop or rename it")
    place([0], topology, placement, seed)  # refuses unknown placements before any task runs
    schema = T.StructType([*subscriptions.schema.fields, T.StructField("node", T.StringType())])
    place_of = subscriptions.columns.index(user)
    task = partial(_place, topology, placement, seed, place_of)
    return subscriptions.mapInArrow(task, schema)


def rib_tables(
    registrations: DataFrame,
    topology: Topology,
    trees: Sequence[Tree],
    nodes: Sequence[int],
    descriptor: str = "tags",
    node: str = "node",
) -> DataFrame:
    """The filters of the routers of `nodes`: columns `node`, `descriptor` and `entries` (tree << 20 |
    interface). `registrations` has descriptors and the names of the nodes that registered them.
    Repeated nodes count once."""
    return _reduced(registrations, topology, trees, nodes, descriptor, node, _tables_of, _TABLES)


def rib_sizes(
    registrations: DataFrame,
    topology: Topology,
    trees: Sequence[Tree],
    nodes: Sequence[int],
    descriptor: str = "tags",
    node: str = "node",
) -> DataFrame:
    """Numbers of filters and entries of the routers of `nodes` with 1, 2, … trees: the columns of
    `matchyard.routing.sizes_table`."""
    return _reduced(registrations, topology, trees, nodes, descriptor, node, _sizes_of, _SIZES)


def _reduced(
    registrations: DataFrame,
    topology: Topology,
    trees: Sequence[Tree],
    nodes: Sequence[int],
    descriptor: str,
    node: str,
    reduce: Callable[[_Network, pa.Table], pa.Table],
    schema: str,
) -> DataFrame:
    check_subscriptions(registrations, descriptor, "tags")
    chosen = list(dict.fromkeys(topology.checked_node(one) for one in nodes))  # each once
    for tree in trees:
        check_tree(topology, tree)
    network = _Network(topology, trees, chosen)
    rows = registrations.select(
        column_of(registrations, descriptor, "descriptors").alias("descriptor"),
        column_of(registrations, node, "nodes").cast("string").alias("node"),
    )
    # A row without a descriptor for each router: a router without filters needs a row too.
    names = [(topology.names[one], None, None) for one in chosen]
    parts = rows.mapInArrow(partial(_minimal, network), _TABLES).unionByName(
        rows.sparkSession.createDataFrame(names, _TABLES)
    )

    def task(table: pa.Table) -> pa.Table:
        return reduce(network, table)

    return parts.groupBy("node").applyInArrow(task, schema)


# -------------------------------------------------------------------- tasks


def _stretch(network: _Network, counts: list[int], batches: Batches) -> Batches:
    totals: dict[int, Any] = {}
    for batch in batches:
        for block in batch.column(0).to_pylist():
            last = min(network.topology.n_nodes, (block + 1) * LANES)
            sources = np.arange(block * LANES, last)
            pairs_of_count = stretch_from(network.topology, network.trees, counts, sources)
            for count, pairs in pairs_of_count.items():
                totals[count] = totals.get(count, 0) + pairs
    for count, pairs in totals.items():
        length, total = np.nonzero(pairs)
        yield pa.record_batch(
            {
                "trees": np.full(len(length), count, np.int32),
                "length": length.astype(np.int32),
                "total": total.astype(np.int32),
                "pairs": pairs[length, total],
            }
        )


def _congestion(network: _Network, batches: Batches) -> Batches:
    names, ends = np.array(network.topology.names, object), network.topology.ends()
    for batch in batches:
        for number in batch.column(0).to_pylist():
            load = load_of(network.topology, [network.trees[number]])
            used = np.flatnonzero(load)
            yield pa.record_batch(
                {
                    "one": pa.array(names[ends[used, 0]], pa.string()),
                    "other": pa.array(names[ends[used, 1]], pa.string()),
                    "load": load[used],
                }
            )


def _place(topology: Topology, placement: str, seed: int, user: int, batches: Batches) -> Batches:
    names = np.array(topology.names, object)
    for batch in batches:
        users = batch.column(user)
        if users.null_count:
            raise UsageError("a subscription has no user; expected an integer")
        nodes = names[place(users.to_numpy(), topology, placement, seed)]
        yield batch.append_column("node", pa.array(nodes, pa.string()))


def _minimal(network: _Network, batches: Batches) -> Batches:
    """Reduce the registrations of a task to the minimal ones of each router."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= _TOGETHER:
            yield from _kept(network, pa.Table.from_batches(waiting))
            waiting = []
    if waiting:
        yield from _kept(network, pa.Table.from_batches(waiting))


def _kept(network: _Network, rows: pa.Table) -> Batches:
    numbers = {name: number for number, name in enumerate(network.topology.names)}
    names = rows["node"].combine_chunks().dictionary_encode()
    unknown = [name for name in names.dictionary.to_pylist() if name not in numbers]
    if unknown or names.null_count:
        name = None if names.null_count else unknown[0]
        raise UsageError(f"a registration at node {name!r}; expected a node of {network.topology}")
    of_name = np.array([numbers[name] for name in names.dictionary.to_pylist()], np.int64)
    nodes = of_name[names.indices.to_numpy()]
    registered = Registrations(rows["descriptor"], nodes)
    for node in network.nodes:
        table = registered.table(network.topology, network.trees, node)
        yield from _as_rows(network.topology.names[node], table).to_batches(_ROWS)


def _as_rows(node: str, table: Table) -> pa.Table:
    entries = pa.ListArray.from_arrays(pa.array(table.start, pa.int32()), pa.array(table.entries))
    return pa.table(
        {
            "node": pa.array([node] * table.n_filters, pa.string()),
            "descriptor": table.descriptors.to_arrow().cast(pa.list_(pa.string())),
            "entries": entries,
        }
    )


def _merged(network: _Network, rows: pa.Table) -> Table:
    """Merge the rows of all tasks into the table of a router."""
    rows = rows.filter(pc.is_valid(rows["descriptor"])).combine_chunks()
    descriptors: Descriptors = Vocabulary().encode(rows["descriptor"])
    entries = rows["entries"].combine_chunks()
    start = entries.offsets.to_numpy().astype(np.int64)
    values = entries.values.to_numpy()[start[0] : start[-1]]
    return merge([Table(descriptors, start - start[0], values, len(network.trees))])


def _tables_of(network: _Network, rows: pa.Table) -> pa.Table:
    return _as_rows(rows["node"][0].as_py(), _merged(network, rows))


def _sizes_of(network: _Network, rows: pa.Table) -> pa.Table:
    node = network.topology.node(rows["node"][0].as_py())
    sizes = _merged(network, rows).sizes()
    table = pa.Table.from_pylist([size_row(network.topology, node, one) for one in sizes])
    return table.set_column(1, "trees", table["trees"].cast(pa.int32()))
