"""The results of a run, as Arrow tables and as a summary: deliveries, load of links, losses, sizes of tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.kernels.network.clock import NO_ROOM
from matchyard.network.network import Network
from matchyard.network.simulator import Run
from matchyard.routing import Distribution, Topology, distribution
from matchyard.routing.rib import Memory

_SHARES = {"median": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


# -------------------------------------------------------------------- tables


def deliveries(run: Run) -> pa.Table:
    """The deliveries, a row for each notification and node with an application that wants it.

    Columns: notification, node, hops, fewest (hops on a shortest path), stretch, time. At the source,
    the stretch is 1.
    """
    if run.deliveries is None:
        raise UsageError("a run that kept only sums; expected a run with keep=True")
    rows = run.deliveries
    return pa.table(
        {
            "notification": rows.notification,
            "node": _names(run.topology, rows.node),
            "hops": rows.hops,
            "fewest": rows.fewest,
            "stretch": np.where(rows.fewest == 0, 1.0, rows.hops / np.maximum(rows.fewest, 1)),
            "time": rows.time,
        }
    )


def link_load(run: Run) -> pa.Table:
    """The number of copies on each link, including resends; a row for each direction.
    Columns: from, to, packets."""
    start, end = ends_of_places(run.topology)
    return pa.table(
        {
            "from": _names(run.topology, start),
            "to": _names(run.topology, end),
            "packets": run.load,
        }
    )


def losses(run: Run) -> pa.Table:
    """The lost copies, a row for each.
    Columns: notification, from, to, time, reason, missed (the nodes that therefore did not get it)."""
    rows, (start, end) = run.losses, ends_of_places(run.topology)
    return pa.table(
        {
            "notification": rows.notification,
            "from": _names(run.topology, start[rows.place]),
            "to": _names(run.topology, end[rows.place]),
            "time": rows.time,
            "reason": pa.array(map(_reason, rows.fate.tolist(), rows.n_sent.tolist()), pa.string()),
            "missed": rows.n_missed,
        }
    )


def _reason(fate: int, n_sent: int) -> str:
    if fate == NO_ROOM:
        return "no room in the queue"
    return f"lost after {n_sent} transmission{'s' * (n_sent > 1)}"


def false_forwards(run: Run, exact: Run) -> pa.Table:
    """The links with copies that only Bloom filters caused; `exact` is the same run with exact tables.
    Columns: from, to, packets."""
    if run.topology.n_links != exact.topology.n_links or len(run.taken) != len(exact.taken):
        raise UsageError(f"{run} and {exact}; expected the same notifications on one network")
    more = run.load - exact.load
    if (more < 0).any():
        raise UsageError("a link that only the exact run uses; expected runs without losses")
    start, end = ends_of_places(run.topology)
    used = np.flatnonzero(more)
    return pa.table(
        {
            "from": _names(run.topology, start[used]),
            "to": _names(run.topology, end[used]),
            "packets": more[used],
        }
    )


def table_sizes(
    network: Network, at: Iterable[object] | None = None, moment: float = 0.0
) -> pa.Table:
    """The present sizes of routing tables, of some nodes or all. `pyarrow.concat_tables` joins several moments.
    Columns: moment, node, filters, entries, bytes (32 per filter and 2 per entry)."""
    names = network.nodes if at is None else [str(node) for node in at]
    sizes = [network.router(name).plane.rib.memory() for name in names]
    return sizes_as_table(names, sizes, moment)


def sizes_as_table(names: list[str], sizes: list[Memory], moment: float = 0.0) -> pa.Table:
    """The table of `table_sizes` from known sizes."""
    return pa.table(
        {
            "moment": pa.array([moment] * len(names), pa.float64()),
            "node": pa.array(names, pa.string()),
            "filters": pa.array([size.filters for size in sizes], pa.int64()),
            "entries": pa.array([size.entries for size in sizes], pa.int64()),
            "bytes": pa.array([size.compact_bytes for size in sizes], pa.int64()),
        }
    )


def update_traffic(network: Network, moment: float = 0.0) -> pa.Table:
    """The updates between routers so far. Columns: moment, messages, additions, removals, bytes."""
    return pa.Table.from_pylist([{"moment": moment, **network.traffic._asdict()}])


def ends_of_places(topology: Topology) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The two nodes of each element of `Topology.neighbours`: (from, to)."""
    start = np.repeat(np.arange(topology.n_nodes, dtype=np.int32), topology.degrees)
    return start, topology.neighbours


def _names(topology: Topology, nodes: NDArray[Any]) -> pa.Array:
    return pa.array(topology.names, pa.string()).take(pa.array(nodes))


# -------------------------------------------------------------------- in short


class Summary(NamedTuple):
    """The summary of a run. A link has two directions, which count separately."""

    notifications: int
    wanted: int  # notifications with at least one delivery
    copies: int
    deliveries: int
    lost: int  # copies
    missed: int  # deliveries that losses prevented
    stretch: Distribution  # of deliveries at other nodes than the source
    hops: Distribution  # of deliveries
    load: Distribution  # of links in use
    links_used: float  # the share of links in use
    last_time: float  # the time of the last delivery; NaN if deliveries were not kept

    def to_row(self) -> dict[str, Any]:
        """The summary as a row of a table, with quantiles of distributions."""
        row = {
            name: value
            for name, value in self._asdict().items()
            if not isinstance(value, Distribution)
        }
        for name in ("hops", "stretch", "load"):
            spread: Distribution = getattr(self, name)
            row[f"{name}, mean"] = spread.mean
            row |= {f"{name}, {what}": spread.quantile(share) for what, share in _SHARES.items()}
        return row


def summary(run: Run) -> Summary:
    """Summarise a run.

    >>> from matchyard.network import draw_notifications, simulate_by_subtree
    >>> from matchyard.routing import Registrations, from_links, grow
    >>> ring = from_links([(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> given = draw_notifications(["jazz"], ring, 1, sources=[2])
    >>> run = simulate_by_subtree(ring, grow(ring), Registrations(["jazz"], [1]), given)
    >>> summary(run).stretch.mean, summary(run).copies
    (1.0, 1)
    """
    used = run.load[run.load > 0]
    times = run.deliveries.time if run.deliveries is not None else np.empty(0)
    return Summary(
        notifications=run.n_notifications,
        wanted=int((run.delivered > 0).sum()),
        copies=int(run.load.sum()),
        deliveries=int(run.delivered.sum()),
        lost=len(run.losses.place),
        missed=int(run.losses.n_missed.sum()),
        stretch=stretch_of(run),
        hops=_distribution(np.arange(run.paths.shape[1]), run.paths.sum(axis=0)),
        load=distribution(used),
        links_used=len(used) / max(1, len(run.load)),
        last_time=float(times.max()) if len(times) else float("nan"),
    )


def stretch_of(run: Run) -> Distribution:
    """The stretch of deliveries: hops divided by the hops of a shortest path, without the source itself."""
    fewest, hops = np.nonzero(run.paths[1:])
    counts = run.paths[1:][fewest, hops]
    values, position = np.unique(hops / (fewest + 1), return_inverse=True)
    return Distribution(
        values, np.bincount(position, counts, minlength=len(values)).astype(np.int64)
    )


def _distribution(values: NDArray[Any], counts: NDArray[np.int64]) -> Distribution:
    used = np.flatnonzero(counts)
    return Distribution(values[used].astype(np.float64), counts[used])
