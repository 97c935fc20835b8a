"""A network in memory: routers, the links between them, and the calls of applications.

    register ──▶ updates, router by router, until all routers are up to date
    notify   ──▶ copies of a packet, hop by hop, until all of them have arrived

Trees are made for the whole network, and each router gets its part. After each change of links or nodes, trees and
labels are made anew under a new version. Parts that cannot reach each other have separate trees.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from matchyard.errors import UsageError
from matchyard.network.packet import Packet
from matchyard.network.plan import Part, Plan
from matchyard.network.router import Router
from matchyard.network.service import Flight, Service, checked_key
from matchyard.network.tables import TreeUpdate, bytes_on_wire, checked_interest, checked_tags
from matchyard.network.trace import Trace, trace
from matchyard.routing import Registrations, Topology, Update, Vocabulary, from_links
from matchyard.routing.applications import Key


class Traffic(NamedTuple):
    """The sums of all updates between routers so far."""

    messages: int
    additions: int
    removals: int
    bytes: int  # of all messages, in their form on the wire


class Network(Service):
    """Routers at all nodes of a network.

    Nodes are identified by name. With `descriptors="bloom"`, routers compare Bloom filters, as in the thesis;
    the deliveries to applications stay exact. Each router keeps `versions` versions of the trees and `cache`
    packets. Networks may share a vocabulary.

    >>> from matchyard.routing import from_links
    >>> net = Network(from_links([(0, 1), (1, 2)], names=["oslo", "rome", "wien"]), trees=2)
    >>> net.register({"jazz", "live"}, at="wien", key="ada")
    >>> net.notify({"jazz", "live", "tonight"}, at="oslo").keys
    ['ada']
    """

    _router_type = Router

    def __init__(
        self,
        topology: Topology,
        trees: int = 8,
        rule: Any = "LC",
        seed: int = 1,
        descriptors: str = "tags",
        cache: int = 256,
        versions: int = 2,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        self.rule, self.n_trees, self.seed = rule, trees, seed
        self._options = (descriptors, vocabulary or Vocabulary(), cache, versions)
        self._nodes: dict[str, Router] = {}
        self._weights: dict[tuple[str, str], float] = {}
        self._down: set[str | tuple[str, str]] = set()
        self._plans: dict[str, Plan] = {}
        self._n_plans = 0
        self._sums = [0, 0, 0, 0]
        for name in topology.names:
            self._add(name)
        for (low, high), weight in zip(
            topology.ends().tolist(), topology.weights.tolist(), strict=True
        ):
            self._weights[_link(topology.names[low], topology.names[high])] = weight
        self._renew()

    def __repr__(self) -> str:
        return (
            f"<Network: {len(self._nodes)} nodes, {len(self._weights)} links, {self.n_trees} trees>"
        )

    @property
    def traffic(self) -> Traffic:
        """The sums of all updates between routers so far."""
        return Traffic(*self._sums)

    @property
    def nodes(self) -> list[str]:
        """The names of all nodes, including those that are down."""
        return list(self._nodes)

    def router(self, node: object) -> Router:
        """The router of a node."""
        try:
            return self._nodes[str(node)]
        except KeyError:
            some = ", ".join(list(self._nodes)[:3])
            raise UsageError(
                f"no node {str(node)!r} among {len(self._nodes)}; expected a name such as {some}"
            ) from None

    def plan(self, node: object) -> Plan:
        """The trees and labels of the connected part that contains a node."""
        name = self.router(node).name
        if name not in self._plans:
            raise UsageError(f"node {name} is down; expected one that is up")
        return self._plans[name]

    def is_up(self, node: object, neighbour: object) -> bool:
        """True if both nodes and the link between them are up."""
        a, b = str(node), str(neighbour)
        return not ({a, b, _link(a, b)} & self._down) and _link(a, b) in self._weights

    # ---------------------------------------------------------------- calls of applications

    def register(self, tags: Any, at: object, key: Key) -> None:
        """Register an application at a node for notifications and requests with these tags."""
        router = self._living(at)
        self._settle(router, router.register(checked_key(key), [tags]))

    def withdraw(self, tags: Any, at: object, key: Key) -> None:
        """Withdraw a registration; an unknown one is an error."""
        router, wanted = self._living(at), checked_interest(tags)
        if wanted not in router.applications.of(key):
            raise UsageError(
                f"{key!r} has not registered {_shown(wanted)} at {router.name}; expected one of "
                + (", ".join(map(_shown, router.applications.of(key)[:3])) or "its registrations")
            )
        self._settle(router, router.withdraw(key, [wanted]))

    def register_many(
        self, descriptors: Sequence[Any], at: Sequence[object], keys: Sequence[Key]
    ) -> None:
        """Make many registrations at once; the tables are the same as after single ones."""
        by_node = defaultdict[str, list[tuple[Key, Any]]](list)
        for tags, node, key in zip(descriptors, at, keys, strict=True):
            by_node[self._living(node).name].append((checked_key(key), checked_interest(tags)))
        for node, some in by_node.items():
            router = self._nodes[node]
            for key, tags in some:
                router.attach(key)
                router.applications.add(key, [tags])
        for plan in {id(plan): plan for plan in self._plans.values()}.values():
            self._fill(plan)

    def _fill(self, plan: Plan) -> None:
        """Fill the tables of all routers of a plan from the registrations."""
        names = plan.topology.names
        wanted = [
            (tags, node)
            for node, name in enumerate(names)
            for _, tags in self._nodes[name].applications
        ]
        filters = self._nodes[names[0]].filters
        registered = Registrations(
            [tags for tags, _ in wanted], [node for _, node in wanted], filters
        )
        tables = registered.tables(plan.topology, plan.trees, range(len(names)))
        for name, table in zip(names, tables, strict=True):
            self._nodes[name].fill(table, plan.version)

    def send(self, packet: Packet, at: object, tree: int | None = None) -> Flight:
        """Start a packet at a node; `step` or `run` of the flight move it."""
        router = self._living(at)
        if tree is not None:
            tree = self.plan(router.name).checked_tree(tree)
            packet = packet._replace(tree=tree, version=router.plane.part.version)
        return Flight(self, packet, router.name)

    def move(self, key: Key, to: object) -> None:
        """Move an application to another node with its registrations.
        It is registered at the new node before it is withdrawn from the old one. The old router redirects
        packets that are addressed to it."""
        old, new = self._where(key), self._living(to)
        if old is new:
            return
        new.attach(key)
        self._settle(new, new.register(key, old.applications.of(key)))
        told = old.detach(key, moved_to=new.locators())
        if old.name not in self._down:
            self._settle(old, told)

    def _where(self, key: Key) -> Router:
        routers = [router for router in self._nodes.values() if key in router.attached]
        if len(routers) != 1:
            places = ", ".join(router.name for router in routers) or "nowhere"
            raise UsageError(f"{key!r} is {places}; expected it at one node")
        return routers[0]

    def trace(self, tags: Any, at: object, key: Key, tree: int = 0) -> Trace:
        """Explain, hop by hop, where a notification for an application would go, stop, and why."""
        return trace(self, checked_tags(tags), self._living(at).name, key, tree)

    # ---------------------------------------------------------------- changes of the network

    def join(self, node: object, neighbours: Iterable[object], weight: float = 1.0) -> None:
        """Add a node with links, or links to a node."""
        name, near = str(node), [self.router(one).name for one in neighbours]
        if name in near:
            raise UsageError(f"a link from {name} to itself; expected another node")
        if not (isinstance(weight, int | float) and 0 < weight < math.inf):
            raise UsageError(f"a link of weight {weight}; expected a finite number above 0")
        if name not in self._nodes:
            self._add(name)
        for one in near:
            self._weights[_link(name, one)] = weight
            self._down.discard(_link(name, one))
        self._renew()

    def fail(self, node: object, neighbour: object | None = None) -> None:
        """Let a node fail, or the link between two nodes."""
        self._down.add(self._thing(node, neighbour))
        self._renew()

    def restore(self, node: object, neighbour: object | None = None) -> None:
        """Restore a failed node or link; the registrations of a node survive."""
        self._down.discard(self._thing(node, neighbour))
        self._renew()

    def restart(self, node: object, forget: bool = False) -> None:
        """Restart a router without tables and cache; its neighbours send the tables again.
        Its applications register again, or with `forget`, are gone."""
        old = self._living(node)
        router = self._add(old.name)
        for neighbour in old.interfaces:  # packets in flight refer to interfaces by number
            router.connect(neighbour)
        plan = self._plans[old.name]
        waiting = router.install(self._part(plan, old.name))
        for key in () if forget else old.attached:
            router.attach(key)
            waiting += router.register(key, old.applications.of(key))
        self._settle(router, waiting)
        for interface, neighbour in self._near(router):
            there = self._nodes[neighbour]
            for told in there.whole(there.interfaces[router.name]):
                if told.version in router.planes:
                    self._settle(router, router.apply(told, interface))
        for interface, _ in self._near(router):
            self._settle(router, [(interface, told) for told in router.whole(interface)])

    def _near(self, router: Router) -> list[tuple[int, str]]:
        return [
            (interface, neighbour)
            for neighbour, interface in router.interfaces.items()
            if self.is_up(router.name, neighbour)
        ]

    def _thing(self, node: object, neighbour: object | None) -> str | tuple[str, str]:
        name = self.router(node).name
        if neighbour is None:
            return name
        link = _link(name, self.router(neighbour).name)
        if link not in self._weights:
            raise UsageError(f"no link from {name} to {neighbour}; expected two neighbours")
        return link

    def _add(self, name: str) -> Router:
        router = self._router_type(name, *self._options)
        self._nodes[name] = router
        return router

    def _living(self, node: object) -> Router:
        router = self.router(node)
        if router.name in self._down:
            raise UsageError(f"node {router.name} is down; expected one that is up")
        return router

    def _renew(self) -> None:
        """Make trees and labels of the nodes and links that are up, and fill the new tables by updates."""
        self._n_plans += 1
        names = [name for name in self._nodes if name not in self._down]
        number = {name: position for position, name in enumerate(names)}
        links = [link for link in self._weights if self.is_up(*link)]
        ends = np.array([[number[a], number[b]] for a, b in links], np.int64).reshape(-1, 2)
        weights = np.array([self._weights[link] for link in links])
        whole = from_links(ends, weights, names)
        _, part = connected_components(whole.matrix(), directed=False)
        self._plans = {}
        for one in range(int(part.max(initial=-1)) + 1):
            inside = np.flatnonzero(part == one)
            position = np.cumsum(part == one) - 1
            is_in = part[ends[:, 0]] == one
            topology = from_links(
                position[ends[is_in]], weights[is_in], [names[node] for node in inside]
            )
            plan = Plan(topology, self.n_trees, self.rule, self.seed, str(self._n_plans))
            self._plans.update(dict.fromkeys(topology.names, plan))
        waiting = []
        for name, plan in self._plans.items():
            router = self._nodes[name]
            told = router.install(self._part(plan, name))
            waiting.append((router, told))
        self._settle_all(waiting)

    def _part(self, plan: Plan, node: str) -> Part:
        """The part of a plan for the router of a node."""
        return plan.part(plan.topology.node(node))

    # ---------------------------------------------------------------- updates

    def _settle(self, router: Router, told: list[tuple[int, TreeUpdate]]) -> None:
        self._settle_all([(router, told)])

    def _settle_all(self, told: list[tuple[Router, list[tuple[int, TreeUpdate]]]]) -> None:
        """Deliver updates to neighbours, round by round, until there are no more updates."""
        while told:
            arriving = defaultdict[tuple[str, str], list[TreeUpdate]](list)
            for router, some in told:
                for interface, update in self._inside(router, some):
                    arriving[router.neighbour(interface), router.name].append(update)
            told = []
            for (node, sender), updates in arriving.items():
                router = self._nodes[node]
                for update in joined(updates):
                    self._count(update)
                    more = router.apply(update, router.interfaces[sender])
                    if more:
                        told.append((router, more))

    def _inside(
        self, router: Router, told: list[tuple[int, TreeUpdate]]
    ) -> list[tuple[int, TreeUpdate]]:
        """The updates for neighbours in this network; a subclass removes those for other networks."""
        return told

    def _count(self, update: TreeUpdate) -> None:
        self._sums[0] += 1
        self._sums[1] += len(update.update.additions)
        self._sums[2] += len(update.update.removals)
        self._sums[3] += bytes_on_wire(update)


def joined(updates: list[TreeUpdate]) -> list[TreeUpdate]:
    """Merge adjacent updates that only add, to the same tree."""
    merged = list[TreeUpdate]()
    for update in updates:
        last = merged[-1] if merged else None
        is_more = (
            last is not None
            and last[:2] == update[:2]
            and not (last.is_whole or update.is_whole)
            and not (len(last.update.removals) or len(update.update.removals))
        )
        if last is not None and is_more:
            both = last.update.additions.with_more(update.update.additions)
            merged[-1] = last._replace(update=Update(both, last.update.removals))
        else:
            merged.append(update)
    return merged


def _link(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a < b else (b, a)


def _shown(tags: Iterable[str]) -> str:
    return "{" + ", ".join(sorted(tags)) + "}"
