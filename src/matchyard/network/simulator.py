"""Simulation of many notifications: their links, deliveries, times and losses.

    notifications ──▶ paths (by hops, or by subtree) ──▶ clock: delays, queues, losses ──▶ Run

Tables do not change during a run. With the default links, which take one unit of time and lose nothing, times
count hops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from matchyard.errors import UsageError
from matchyard.kernels.network import clock
from matchyard.kernels.network.subtrees import sums_below
from matchyard.kernels.routing.stretch import LANES, links_between
from matchyard.network.network import Network
from matchyard.network.paths import (
    Arrivals,
    ByHops,
    BySubtree,
    Copies,
    Notifications,
    Ways,
    check_notifications,
    joined,
    joined_copies,
)
from matchyard.routing import Registrations, Topology, Tree
from matchyard.routing.whole_numbers import whole_number

_AT_ONCE = 1 << 24  # the most nodes times notifications per batch
Progress = Callable[[int], object]


class Links(NamedTuple):
    """The properties of links: one number for all links, or one per link, in the order of `Topology.weights`.

    Each direction of a link has a queue. A copy waits for the earlier copies, occupies the link for 1 / `rate`, and
    arrives after `delay`. A lost copy is sent again, at most `resends` times, each time after `resend_after`, by
    default twice the delay of the link. At most `queue` copies wait; further copies are lost.
    """

    delay: ArrayLike = 1.0
    rate: ArrayLike = np.inf  # copies per unit of time
    loss: ArrayLike = 0.0  # probability of each transmission
    resends: int = 0
    resend_after: ArrayLike | None = None
    queue: float = np.inf
    seed: int = 1

    def columns(self, topology: Topology) -> NDArray[np.float64]:
        """Delay, 1 / rate, loss, and time until a resend, for each element of `Topology.neighbours`."""
        delay = _for_each(self.delay, "delay", topology, 0.0, np.inf)
        rate = _for_each(self.rate, "rate", topology, 0.0, np.inf)
        if not (rate > 0).all():
            raise UsageError("a rate of 0; expected copies per unit of time, above 0")
        if not np.isfinite(delay).all():
            raise UsageError("an infinite delay; expected finite numbers")
        loss = _for_each(self.loss, "loss", topology, 0.0, 1.0)
        after = 2 * delay if self.resend_after is None else self.resend_after
        again = _for_each(after, "resend_after", topology, 0.0, np.inf)
        return np.stack([delay, 1 / rate, loss, again], axis=1)[topology.links]


def _for_each(
    value: Any, name: str, topology: Topology, least: float, most: float
) -> NDArray[np.float64]:
    """A number for each link."""
    try:
        numbers = np.asarray(value, np.float64)
    except (ValueError, TypeError):
        raise UsageError(f"{name} {value!r}; expected a number, or one for each link") from None
    if numbers.shape not in ((), (topology.n_links,)):
        raise UsageError(
            f"{name} of shape {numbers.shape}; expected a number, or {topology.n_links}, one for each link"
        )
    if not ((numbers >= least) & (numbers <= most)).all():
        odd = numbers[~((numbers >= least) & (numbers <= most))].flat[0]
        to = f"from {least:g} to {most:g}" if np.isfinite(most) else f"from {least:g} on"
        raise UsageError(f"{name} of {odd}; expected numbers {to}")
    return np.broadcast_to(numbers, topology.n_links)


class Deliveries(NamedTuple):
    """Deliveries of notifications to nodes with applications that want them, each node once."""

    notification: NDArray[np.int32]
    node: NDArray[np.int32]
    hops: NDArray[np.int32]
    fewest: NDArray[np.int32]  # hops on a shortest path
    time: NDArray[np.float64]  # of arrival


class Losses(NamedTuple):
    """Lost copies, and the number of deliveries that each loss prevented."""

    notification: NDArray[np.int32]
    place: NDArray[np.int32]
    time: NDArray[np.float64]
    fate: NDArray[np.int8]  # `clock.LOST` or `clock.NO_ROOM`
    n_sent: NDArray[np.int32]
    n_missed: NDArray[np.int64]


class Run(NamedTuple):
    """The results of a simulation; `collectors` makes tables of them."""

    topology: Topology
    n_notifications: int
    load: NDArray[np.int64]  # copies on each link, by element of `Topology.neighbours`
    taken: NDArray[np.int64]  # the number of links per notification
    delivered: NDArray[np.int64]  # the number of deliveries per notification
    paths: NDArray[np.int64]  # deliveries by fewest hops and hops
    losses: Losses
    deliveries: Deliveries | None  # None: not kept
    copies: Copies | None

    def __repr__(self) -> str:
        return (
            f"<Run: {self.n_notifications} notifications, {self.load.sum()} copies, "
            f"{self.delivered.sum()} deliveries, {len(self.losses.place)} losses>"
        )


def simulate_by_hops(
    network: Network,
    notifications: Notifications,
    links: Links | None = None,
    keep: bool = True,
    progress: Progress | None = None,
) -> Run:
    """Let the routers of a network forward notifications, with their present tables.

    Routers forward all copies of equal hop count together. With `links`, a clock computes times and losses
    afterwards. Without `keep`, a run has only sums and no rows of deliveries and copies, so that any number of
    notifications fits into memory.

    >>> from matchyard.network.paths import draw_notifications
    >>> from matchyard.routing import from_links
    >>> line = from_links([(0, 1), (1, 2)], names=["oslo", "rome", "wien"])
    >>> net = Network(line, trees=1)
    >>> net.register({"jazz"}, at="wien", key="ada")
    >>> simulate_by_hops(net, draw_notifications([{"jazz", "live"}], line, 1, sources=[0]))
    <Run: 1 notifications, 2 copies, 1 deliveries, 0 losses>
    """
    return _simulate(ByHops(network), notifications, links, keep, progress)


def simulate_by_subtree(
    topology: Topology,
    trees: Sequence[Tree],
    registrations: Registrations,
    notifications: Notifications,
    links: Links | None = None,
    keep: bool = True,
    filters: Registrations | None = None,
    progress: Progress | None = None,
) -> Run:
    """Simulate without routers: match each notification once against all registrations.

    `filters` are the registrations as Bloom filters; they simulate routers with `descriptors="bloom"`.
    """
    ways = BySubtree(topology, trees, registrations, filters)
    return _simulate(ways, notifications, links, keep, progress)


def _simulate(
    ways: Ways,
    notifications: Notifications,
    links: Links | None,
    keep: bool,
    progress: Progress | None,
) -> Run:
    given = check_notifications(notifications, ways.topology, len(ways.trees))
    batches = _batches(ways, given, progress)
    sums = _Sums(ways, given, keep)
    if links is None:
        for copies, arrivals in batches:
            sums.add(copies, arrivals, given.times[arrivals.notification] + arrivals.hops)
        return sums.run()
    return _timed(sums, joined_copies(list(batches)), links)


def _batches(
    ways: Ways, given: Notifications, progress: Progress | None
) -> Iterator[tuple[Copies, Arrivals]]:
    """The paths of notifications, batch by batch, sorted by source."""
    step = max(64, _AT_ONCE // max(1, ways.topology.n_nodes))
    order = np.argsort(given.sources, kind="stable")
    for low in range(0, len(order), step):
        numbers = order[low : low + step]
        tags = _taken(given.tags, numbers)
        copies, arrivals = ways.find(
            Notifications._make([tags, *(one[numbers] for one in given[1:])])
        )
        names = numbers.astype(np.int32)
        yield (
            copies._replace(notification=names[copies.notification]),
            arrivals._replace(notification=names[arrivals.notification]),
        )
        if progress is not None:
            progress(len(numbers))


def _taken(tags: Any, numbers: NDArray[np.int64]) -> Any:
    if isinstance(tags, pa.Array | pa.ChunkedArray):
        return tags.take(pa.array(numbers))
    return [tags[number] for number in numbers.tolist()]


def _timed(sums: _Sums, whole: tuple[Copies, Arrivals], links: Links) -> Run:
    """Run the clock over the copies; sum up deliveries and losses."""
    (copies, arrivals), given, topology = whole, sums.given, sums.topology
    resends, seed = whole_number(links.resends, "resends"), whole_number(links.seed, "seed")
    if resends < 0 or not links.queue >= 0:
        raise UsageError(f"{resends} resends, a queue of {links.queue}; expected numbers from 0 on")
    columns = links.columns(topology)
    fates, times, n_sent = clock.cross_links(
        *copies[:3], given.times, columns, resends, links.queue, seed
    )
    is_there = np.append(fates, clock.ARRIVED)[arrivals.copy] == clock.ARRIVED  # -1: the source
    n_here = np.bincount(arrivals.copy[arrivals.copy >= 0], minlength=len(fates))
    n_missed = sums_below(copies.before, n_here)
    lost = np.flatnonzero(fates >= clock.LOST)
    losses = Losses(
        copies.notification[lost],
        copies.place[lost],
        times[lost],
        fates[lost],
        n_sent[lost],
        n_missed[lost],
    )
    came = Arrivals._make(column[is_there] for column in arrivals)
    when = np.append(times, np.nan)[came.copy]
    when = np.where(came.copy < 0, given.times[came.notification], when)
    sums.add(copies, came, when, n_sent)
    return sums.run(losses)


class _Sums:
    """The sums of a run, batch by batch."""

    def __init__(self, ways: Ways, given: Notifications, keep: bool) -> None:
        self.topology, self.given, self.keep = ways.topology, given, keep
        deepest = 2 * max((int(tree.depth.max(initial=0)) for tree in ways.trees), default=0)
        self._width = np.uint8 if deepest < 256 else np.uint16
        self._load = np.zeros(len(self.topology.neighbours), np.int64)
        self._taken = np.zeros(given.n, np.int64)
        self._delivered = np.zeros(given.n, np.int64)
        self._paths = np.zeros((deepest + 1, deepest + 1), np.int64)
        self._kept = list[tuple[Copies, Arrivals]]()
        self._deliveries = list[Deliveries]()

    def add(
        self,
        copies: Copies,
        came: Arrivals,
        times: NDArray[np.float64],
        n_sent: NDArray[np.int32] | None = None,
    ) -> None:
        """Add copies, each as often as it was sent, and deliveries with their times."""
        n_places, n_given = len(self._load), len(self._taken)
        fewest = self._fewest(came)
        self._load += _counted(copies.place, n_places, n_sent)
        self._taken += _counted(
            copies.notification, n_given, None if n_sent is None else n_sent > 0
        )
        self._delivered += _counted(came.notification, n_given)
        width = len(self._paths)
        self._paths += _counted(fewest * width + came.hops, width * width).reshape(width, width)
        if self.keep:
            self._kept.append((copies, came))
            self._deliveries.append(
                Deliveries(came.notification, came.node, came.hops, fewest, times)
            )

    def _fewest(self, came: Arrivals) -> NDArray[np.int32]:
        """The length of a shortest path from source to node, computed for 64 sources at a time."""
        sources, lanes = np.unique(self.given.sources[came.notification], return_inverse=True)
        lengths = np.empty(len(lanes), np.int32)
        room = np.empty((self.topology.n_nodes, LANES), self._width)
        order = np.argsort(lanes // LANES, kind="stable")
        bounds = np.searchsorted(lanes[order] // LANES, np.arange(len(sources) // LANES + 2))
        for number, low in enumerate(range(0, len(sources), LANES)):
            some = order[bounds[number] : bounds[number + 1]]
            links_between(
                self.topology.start, self.topology.neighbours, sources[low : low + LANES], room
            )
            lengths[some] = room[came.node[some], lanes[some] - low]
        return lengths

    def run(self, losses: Losses | None = None) -> Run:
        """The results so far."""
        return Run(
            self.topology,
            self.given.n,
            self._load,
            self._taken,
            self._delivered,
            self._paths,
            losses or Losses._make(np.empty(0, one) for one in _LOSS_TYPES),
            _by_notification(joined(Deliveries, self._deliveries)) if self.keep else None,
            joined_copies(self._kept)[0] if self.keep else None,
        )


_LOSS_TYPES = (np.int32, np.int32, np.float64, np.int8, np.int32, np.int64)


def _counted(
    numbers: NDArray[Any], n_numbers: int, weights: NDArray[Any] | None = None
) -> NDArray[np.int64]:
    return np.bincount(numbers, weights, minlength=n_numbers).astype(np.int64)


def _by_notification(rows: Deliveries) -> Deliveries:
    order = np.lexsort((rows.node, rows.notification))
    return Deliveries._make(column[order] for column in rows)
