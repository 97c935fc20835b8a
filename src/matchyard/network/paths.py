"""The links that copies of many notifications take: two algorithms with the same result.

by hops     routers forward all copies of equal hop count together
by subtree  one index search finds the nodes that want a notification; its copies take the subtree that
            joins these nodes and the source

Routers keep no state for packets, so they may forward copies in any order. A clock computes the times
afterwards: see `simulator`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from matchyard.errors import UsageError
from matchyard.kernels.network.subtrees import backs_of, places_of, spanned
from matchyard.kernels.random import choose_each
from matchyard.network.network import Network
from matchyard.routing import (
    Interest,
    Registrations,
    Topology,
    Tree,
    check_tree,
    place,
)
from matchyard.routing.lookups import Lookups
from matchyard.routing.whole_numbers import whole_number, whole_numbers

_TREE = 0x7472  # separates the random numbers of trees from others
_SENDERS = 1 << 40  # separates senders from the users of a workload


class Notifications(NamedTuple):
    """Notifications as columns: tags, source, tree and start time."""

    tags: Any  # sets of tags in any form that an index accepts
    sources: NDArray[np.int64]  # the numbers of nodes
    trees: NDArray[np.int64]
    times: NDArray[np.float64]

    @property
    def n(self) -> int:
        """The number of notifications."""
        return len(self.sources)


def draw_notifications(
    tags: Any,
    topology: Topology,
    n_trees: int,
    seed: int = 1,
    placement: str = "uniform",
    interval: float = 0.0,
    sources: ArrayLike | None = None,
) -> Notifications:
    """Draw a source and a tree for each set of tags; one notification starts every `interval` of time.

    A placement draws the sources, unless `sources` has them. All trees are equally likely. Equal seeds give
    equal results.

    >>> from matchyard.routing import generate
    >>> draw_notifications(["jazz", "rock"], generate("grid", 9), 2, interval=0.5).times.tolist()
    [0.0, 0.5]
    """
    values = tags if isinstance(tags, pa.Array | pa.ChunkedArray) else list(tags)
    numbers, seed = np.arange(len(values)), whole_number(seed, "seed")
    if not (interval >= 0 and np.isfinite(interval)):
        raise UsageError(f"an interval of {interval}; expected a number from 0 on")
    if sources is None:
        nodes = place(_SENDERS + numbers, topology, placement, seed).astype(np.int64)
    else:
        nodes = whole_numbers(sources, "sources").astype(np.int64)
    if whole_number(n_trees, "n_trees") < 1:
        raise UsageError(f"{n_trees} trees; expected at least one")
    shares = np.arange(1, n_trees + 1) / n_trees
    trees = choose_each(shares, numbers, seed ^ _TREE).astype(np.int64)
    return check_notifications(
        Notifications(values, nodes, trees, np.asarray(interval * numbers, np.float64)),
        topology,
        n_trees,
    )


def check_notifications(
    notifications: Notifications, topology: Topology, n_trees: int
) -> Notifications:
    """Check the columns and return them: kernels do not check them."""
    n_rows = {len(column) for column in notifications}
    if len(n_rows) != 1:
        raise UsageError(
            f"columns of {sorted(n_rows)} notifications; expected columns of equal length"
        )
    for what, values, limit in (
        ("node", notifications.sources, topology.n_nodes),
        ("tree", notifications.trees, n_trees),
    ):
        odd = values[(values < 0) | (values >= limit)]
        if len(odd):
            raise UsageError(f"a notification of {what} {odd[0]}; expected 0 to {limit - 1}")
    if not np.isfinite(notifications.times).all():
        raise UsageError("a notification without a finite time; expected finite numbers")
    return notifications


class Copies(NamedTuple):
    """Copies of notifications, each over one link; a copy comes after the one it was made from."""

    notification: NDArray[np.int32]
    place: NDArray[np.int32]  # the position of the link in `Topology.neighbours`
    before: NDArray[np.int32]  # the previous copy; -1 at the source
    hops: NDArray[np.int32]  # the number of links, including this one


class Arrivals(NamedTuple):
    """Arrivals of notifications at nodes with applications that want them."""

    notification: NDArray[np.int32]
    node: NDArray[np.int32]
    copy: NDArray[np.int32]  # the copy that arrived; -1 at the source
    hops: NDArray[np.int32]


class Ways(Protocol):
    """An algorithm that finds the paths of notifications."""

    topology: Topology

    @property
    def trees(self) -> Sequence[Tree]:
        """The trees that notifications may take."""

    def find(self, some: Notifications) -> tuple[Copies, Arrivals]:
        """The copies and arrivals of some notifications, numbered from 0 in the given order."""


class BySubtree:
    """Paths without routers. With `filters`, the registrations as Bloom filters, copies follow these."""

    def __init__(
        self,
        topology: Topology,
        trees: Sequence[Tree],
        registrations: Registrations,
        filters: Registrations | None = None,
    ) -> None:
        for tree in trees:
            check_tree(topology, tree)
        for one in (registrations, filters):
            if one is not None and one.last_node >= topology.n_nodes:
                raise UsageError(
                    f"a registration at node {one.last_node} of {topology.n_nodes}; expected a node of this "
                    "network"
                )
        self.topology, self.trees = topology, trees
        self._wanted = Interest(registrations)
        self._leading = None if filters is None else Interest(filters)
        ways = [places_of(topology.start, topology.neighbours, tree.parent) for tree in trees]
        self._parents = np.array([tree.parent for tree in trees])
        self._ups = np.array([up for up, _ in ways])
        self._downs = np.array([down for _, down in ways])

    def find(self, some: Notifications) -> tuple[Copies, Arrivals]:
        """The subtrees of some notifications."""
        start, nodes = _targets(self._wanted, some.tags)
        exact = _pairs(start, nodes, self.topology.n_nodes)
        if self._leading is not None:
            start, nodes = _targets(self._leading, some.tags)
        *copies, copy, hops = spanned(
            self._parents, self._ups, self._downs, some.trees, some.sources, start, nodes
        )
        rows = np.repeat(np.arange(some.n, dtype=np.int32), np.diff(start))
        arrivals = Arrivals(rows, nodes, copy, hops)
        if self._leading is not None:
            is_wanted = np.isin(_pairs(start, nodes, self.topology.n_nodes), exact)
            arrivals = Arrivals(*(column[is_wanted] for column in arrivals))
        return Copies(*copies), arrivals


def _targets(interest: Interest, tags: Any) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    return interest.nodes(interest.vocabulary.find(tags)[0])


def _pairs(start: NDArray[np.int64], nodes: NDArray[np.int32], n_nodes: int) -> NDArray[np.int64]:
    """A unique number for each pair of notification and node."""
    rows = np.repeat(np.arange(len(start) - 1), np.diff(start))
    return rows * n_nodes + nodes


class _Present(NamedTuple):
    """The copies that are at routers now."""

    row: NDArray[np.int64]
    node: NDArray[np.int64]
    interface: NDArray[np.int64]  # by which it came; 0 at the source
    copy: NDArray[np.int64]


class ByHops:
    """Paths by the routers of a network, with their present tables."""

    def __init__(self, network: Network) -> None:
        names = network.nodes
        plan = network.plan(names[0])
        if plan.topology.n_nodes != len(names):
            raise UsageError(
                f"{plan.topology.n_nodes} of {len(names)} nodes are up and reach each other; expected all"
            )
        self.topology, self.trees = plan.topology, plan.trees
        self._routers = [network.router(name) for name in self.topology.names]
        ports = [np.array(router.planes[plan.version].ports) for router in self._routers]
        self._ribs = [router.planes[plan.version].rib for router in self._routers]
        # After changes of links, the interfaces of routers differ from those of the plan.
        widths = [int(some.max(initial=0)) + 1 for some in ports]
        self._first = np.append(0, np.cumsum(widths))[:-1]
        self._place_by = np.full(sum(widths), -1, np.int64)
        for node, some in enumerate(ports):
            places = self.topology.start[node] + np.arange(len(some) - 1)
            self._place_by[self._first[node] + some[1:]] = places
        backs = backs_of(self.topology.start, self.topology.neighbours)
        port_start = np.append(0, np.cumsum([len(some) for some in ports]))
        self._entering = np.concatenate(ports)[port_start[self.topology.neighbours] + backs]

    def find(self, some: Notifications) -> tuple[Copies, Arrivals]:
        """Let routers forward some notifications to the end, while all tables are locked."""
        with ExitStack() as locks:
            for rib in self._ribs:
                locks.enter_context(rib.locked())
            return self._forwarded(some)

    def _forwarded(self, some: Notifications) -> tuple[Copies, Arrivals]:
        router, lookups = self._routers[0], Lookups(self._ribs)
        packets = router.filters.find(some.tags)[0]
        undeceived = self._undeceived(some) if router.is_bloom else None
        rows, none = np.arange(some.n), np.full(some.n, -1)
        present = _Present(rows, some.sources, np.zeros_like(rows), none)
        copies, arrivals, n_copies, n_hops = list[Copies](), list[Arrivals](), 0, 0
        while len(present.row):
            row, node, entered, _ = present
            leaving = lookups.find(node, packets, row, some.trees[row], entered)
            at, interface = np.repeat(leaving.order, np.diff(leaving.start)), leaving.interfaces
            is_here = interface == 0
            here, on = at[is_here], at[~is_here]
            if undeceived is not None:
                here = here[undeceived(row[here], node[here])]
            arrivals.append(_arrivals(present, here, n_hops))
            n_hops += 1
            places = self._place_by[self._first[node[on]] + interface[~is_here]]
            copies.append(_copies(present, on, places, n_hops))
            numbers = n_copies + np.arange(len(on))
            n_copies += len(on)
            present = _Present(
                row[on],
                self.topology.neighbours[places].astype(np.int64),
                self._entering[places],
                numbers,
            )
        return joined(Copies, copies), joined(Arrivals, arrivals)

    def _undeceived(
        self, some: Notifications
    ) -> Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]:
        """A function that is True for notifications that an application of a node wants, by exact tags."""
        exact = self._routers[0].vocabulary.find(some.tags)[0]
        lookups = Lookups([router.applications for router in self._routers])

        def are_wanted(rows: NDArray[np.int64], nodes: NDArray[np.int64]) -> NDArray[np.bool_]:
            none = np.zeros_like(rows)
            takers = lookups.find(nodes, exact, rows, none, none)
            is_wanted = np.empty(len(rows), np.bool_)
            is_wanted[takers.order] = np.diff(takers.start) > 0
            return is_wanted

        return are_wanted


def _arrivals(present: _Present, here: NDArray[np.int64], n_hops: int) -> Arrivals:
    columns = (
        present.row[here],
        present.node[here],
        present.copy[here],
        np.full(len(here), n_hops),
    )
    return Arrivals(*(column.astype(np.int32) for column in columns))


def _copies(
    present: _Present, on: NDArray[np.int64], places: NDArray[np.int64], n_hops: int
) -> Copies:
    columns = (present.row[on], places, present.copy[on], np.full(len(on), n_hops))
    return Copies(*(column.astype(np.int32) for column in columns))


def joined(kind: Any, parts: Sequence[Any]) -> Any:
    """Concatenate the rows of several parts."""
    if not parts:
        return kind(*(np.empty(0, np.int32) for _ in kind._fields))
    return kind(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def joined_copies(parts: Sequence[tuple[Copies, Arrivals]]) -> tuple[Copies, Arrivals]:
    """Concatenate copies and arrivals, and renumber the copies."""
    first, copies, arrivals = 0, list[Copies](), list[Arrivals]()
    for some, came in parts:
        before = np.where(some.before < 0, -1, some.before + first).astype(np.int32)
        copy = np.where(came.copy < 0, -1, came.copy + first).astype(np.int32)
        copies.append(some._replace(before=before))
        arrivals.append(came._replace(copy=copy))
        first += len(before)
    return joined(Copies, copies), joined(Arrivals, arrivals)
