"""Domains that are connected: trees within each, and trees between them. [Thesis 2.3.5]

        domain north                  domain south
      oslo ── bergen ─── exterior ─── rome ── bari      trees of domains:  north ── south
        routers have trees of north,      only gateways (bergen, rome) know these
        a tree for each of them

A domain is a `Network` whose first gateway has a door: a neighbour that is told what the domain wants, as a router
would be. The domains are nodes of another `Network`, and there the door is the neighbour that wants it. So tables of
both levels are made by the same updates.

Links and routers do not fail or join here, and applications do not move; a flat `Network` can do that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from matchyard.errors import UsageError
from matchyard.network.domain_router import Border, DomainRouter, Exit
from matchyard.network.network import Network, joined
from matchyard.network.packet import Locator, Packet, Scope
from matchyard.network.plan import Part, Plan
from matchyard.network.router import Router, TreeUpdate
from matchyard.network.service import Flight, Service
from matchyard.routing import Descriptors, Memory, Registrations, Topology, Tree, Vocabulary
from matchyard.routing.applications import Key

DOOR = "/"  # the name of the neighbour on the other level


class Level(Network):
    """A connected network with nodes that have a door to another level. `told` has what doors were told."""

    def __init__(self, topology: Topology, **options: Any) -> None:
        self.told: list[TreeUpdate] = []
        n_parts, _ = connected_components(topology.matrix(), directed=False)
        if n_parts != 1:
            raise UsageError(
                f"a network in {n_parts} parts; expected one whose nodes all reach each other"
            )
        super().__init__(topology, **options)

    def doors(self, node: str, n_trees: int) -> Sequence[int]:
        """The trees on which a node has a door."""
        raise NotImplementedError

    def _part(self, plan: Plan, node: str) -> Part:
        part = super()._part(plan, node)
        doors = self.doors(node, len(plan.trees))
        if not doors:
            return part
        door = len(part.neighbours) + 1
        links = [
            [*links, door] if tree in doors else links for tree, links in enumerate(part.links)
        ]
        return part._replace(neighbours=(*part.neighbours, DOOR), links=links)

    def _inside(
        self, router: Router, told: list[tuple[int, TreeUpdate]]
    ) -> list[tuple[int, TreeUpdate]]:
        door = router.interfaces.get(DOOR)
        self.told += [update for interface, update in told if interface == door]
        return [(interface, update) for interface, update in told if interface != door]


class Domain(Level):
    """The routers of one domain, and their trees: shortest paths from each router, those from gateways first.

    Of limited trees, the others start at routers that are drawn. A router without a tree of its own takes that
    with the nearest root.
    """

    _router_type = DomainRouter

    def __init__(
        self,
        name: str,
        topology: Topology,
        gateways: Sequence[str],
        n_trees: int | None,
        seed: int,
        **options: Any,
    ) -> None:
        self.name, self.gateways = name, gateways
        first = [topology.node(gateway) for gateway in gateways]
        others = np.setdiff1d(np.arange(topology.n_nodes), first)
        if n_trees is not None:
            others = np.random.default_rng(seed).permutation(others)
        roots = [*first, *map(int, others)][: max(len(first), n_trees or topology.n_nodes)]
        super().__init__(
            topology, trees=len(roots), rule=_roots_in_order(roots), seed=seed, **options
        )

    def doors(self, node: str, n_trees: int) -> Sequence[int]:
        """The first gateway has one, on its own tree: what it knows there is all that the domain wants."""
        return [0] if node in self.gateways[:1] else []

    @property
    def routers(self) -> list[DomainRouter]:
        """All of them."""
        return [router for router in self._nodes.values() if isinstance(router, DomainRouter)]

    def wanted(self) -> Descriptors:
        """What the domain wants, as little as says it all."""
        first = self.router(self.gateways[0])
        return first.plane.rib.told(0, first.interfaces[DOOR])

    def locator(self, gateway: str) -> Locator:
        """Where a gateway is on its own tree."""
        plan = self.plan(gateway)
        return plan.part(plan.topology.node(gateway)).locator(self.gateways.index(gateway))

    def meet(self, locators: tuple[Locator, ...], border: Border | None) -> None:
        """Tell routers where their domain is on trees of domains, and gateways what is beyond the border."""
        plan = self._plans[self.nodes[0]]
        depths = np.array([tree.depth for tree in plan.trees])  # [n_trees, n_nodes]
        ways_out = [self.locator(gateway) for gateway in self.gateways]
        for node, router in enumerate(self.routers):
            way_out = ways_out[depths[: len(ways_out), node].argmin()] if ways_out else None
            is_gateway = router.name in self.gateways
            own_tree = int(depths[:, node].argmin())
            router.join(own_tree, locators, way_out, border if is_gateway else None)


class Domains(Level):
    """The network whose nodes are domains. Its tables are those of gateways; a door leads into the domain."""

    def __init__(self, topology: Topology, **options: Any) -> None:
        super().__init__(topology, **options)
        for name in topology.names:
            router = self.router(name)
            router.plane.ports[0] = router.interfaces[
                DOOR
            ]  # what is for the node is for its domain

    def doors(self, node: str, n_trees: int) -> Sequence[int]:
        """Every node has one, on all trees."""
        return range(n_trees)

    def pass_on(self, domain: str, told: list[TreeUpdate]) -> None:
        """Tell others what a domain has told its door."""
        router, version = self.router(domain), self.plan(domain).version
        for update in joined(told):
            for tree in range(len(self.plan(domain).trees)):
                change = TreeUpdate(version, tree, update.update)
                self._settle(router, router.apply(change, router.interfaces[DOOR]))
        self.told.clear()  # domains do not want to know who wants what outside

    def fill(self, wanted: Mapping[str, Descriptors]) -> None:
        """Give all nodes the tables that belong to what domains want."""
        plan = self.plan(self.nodes[0])
        together = self.router(self.nodes[0]).filters.encode([])
        for name in plan.topology.names:
            together = together.with_more(together.vocabulary.encode(wanted[name]))
        counts = [len(wanted[name]) for name in plan.topology.names]
        registered = Registrations(together, np.repeat(np.arange(len(counts)), counts))
        tables = registered.tables(plan.topology, plan.trees, range(len(counts)))
        for name, table in zip(plan.topology.names, tables, strict=True):
            self.router(name).fill(table, plan.version)


class Hierarchy(Service):
    """Domains, each a connected network of routers, with one link between each pair of neighbouring domains.

    `topology` has a node for each domain and a link for each such pair; `domains` has their routers. A router goes by
    its domain and its name there. `gateways` names the two routers of a link; those that are not named
    are drawn. `trees` and `rule` are those between domains. A domain has a tree for each router, or
    `local_trees` of them, but at least one for each gateway.

    >>> from matchyard.routing import from_links
    >>> north = from_links([(0, 1)], names=["oslo", "bergen"])
    >>> south = from_links([(0, 1)], names=["rome", "bari"])
    >>> both = from_links([(0, 1)], names=["north", "south"])
    >>> net = Hierarchy(both, {"north": north, "south": south}, {("north", "south"): ("bergen", "rome")})
    >>> net.register({"jazz", "live"}, at="south/bari", key="ada")
    >>> flight = net.notify({"jazz", "live", "tonight"}, at="north/oslo")
    >>> flight.keys, flight.links[1]
    (['ada'], ('north/bergen', 'south/rome'))
    """

    def __init__(
        self,
        topology: Topology,
        domains: Mapping[str, Topology],
        gateways: Mapping[tuple[str, str], tuple[str, str]] | None = None,
        trees: int = 8,
        rule: Any = "LC",
        seed: int = 1,
        local_trees: int | None = None,
        descriptors: str = "tags",
        cache: int = 256,
    ) -> None:
        _check_names(topology, domains)
        if local_trees is not None and local_trees < 1:
            raise UsageError(f"{local_trees} local trees; expected 1 or more, or None for all")
        options = {"descriptors": descriptors, "vocabulary": Vocabulary(), "cache": cache}
        links = _links(topology, domains, dict(gateways or {}), seed)
        self.outer = Domains(topology, trees=trees, rule=rule, seed=seed, **options)
        self.domains = {
            name: Domain(
                name,
                replace(domains[name], names=tuple(f"{name}/{one}" for one in domains[name].names)),
                sorted({ends[name] for ends in links.values() if name in ends}),
                local_trees,
                seed,
                **options,
            )
            for name in topology.names
        }
        for domain in self.domains.values():
            self._connect(domain, links)

    def __repr__(self) -> str:
        n_routers = sum(len(domain.nodes) for domain in self.domains.values())
        return f"<Hierarchy: {len(self.domains)} domains, {n_routers} routers>"

    def _connect(self, domain: Domain, links: Mapping[frozenset[str], Mapping[str, str]]) -> None:
        """Tell the routers of a domain what they have to know of others."""
        plan, plane = self.outer.plan(domain.name), self.outer.router(domain.name).plane
        exits = list[Exit]()
        for other in plane.part.neighbours[:-1]:
            ends = links[frozenset((domain.name, other))]
            gateway, node = ends[domain.name], plan.topology.node(other)
            exits.append(Exit(node, gateway, domain.locator(gateway), ends[other]))
        locators = tuple(plane.part.locator(tree, level=1) for tree in range(len(plan.trees)))
        domain.meet(locators, Border(plane, plane.ports[0], exits) if exits else None)

    def domain(self, node: object) -> Domain:
        """The domain of a router."""
        name = str(node).partition("/")[0]
        if name not in self.domains:
            known = ", ".join(list(self.domains)[:3])
            raise UsageError(
                f"no domain of {str(node)!r} among {len(self.domains)}; expected a router such as "
                f"{next(iter(self.domains.values())).nodes[0]}, in one of {known}"
            )
        return self.domains[name]

    def router(self, node: object) -> Router:
        """The router of a name such as north/oslo."""
        return self.domain(node).router(node)

    def is_up(self, node: object, neighbour: object) -> bool:
        """Links do not fail here."""
        return True

    def memory(self, node: object) -> tuple[Memory, Memory | None]:
        """What a router stores of its domain, and as a gateway of the others; all gateways of a domain
        store the same of others."""
        router, domain = self.router(node), self.domain(node)
        beyond = self.outer.router(domain.name).plane.rib.memory()
        is_gateway = router.name in domain.gateways
        return router.plane.rib.memory(), beyond if is_gateway else None

    # ---------------------------------------------------------------- what applications do

    def register(self, tags: Any, at: object, key: Key) -> None:
        """An application at a router asks for packets that have these tags, or offers to answer them."""
        self.domain(at).register(tags, at, key)
        self._pass_on(self.domain(at))

    def withdraw(self, tags: Any, at: object, key: Key) -> None:
        """An application takes a registration back; one that it did not make is an error."""
        self.domain(at).withdraw(tags, at, key)
        self._pass_on(self.domain(at))

    def _pass_on(self, domain: Domain) -> None:
        told, domain.told = domain.told, []
        self.outer.pass_on(domain.name, told)

    def register_many(
        self, descriptors: Sequence[Any], at: Sequence[object], keys: Sequence[Key]
    ) -> None:
        """Many registrations at once. Routers get the tables that updates would have left them with."""
        rows = defaultdict[str, list[tuple[Any, object, Key]]](list)
        for row in zip(descriptors, at, keys, strict=True):
            rows[self.domain(row[1]).name].append(row)
        for name, some in rows.items():
            tags, nodes, owners = zip(*some, strict=True)
            self.domains[name].register_many(tags, nodes, owners)
        if len(self.domains) > 1:
            self.outer.fill({name: domain.wanted() for name, domain in self.domains.items()})

    def send(self, packet: Packet, at: object, tree: int | None = None) -> Flight:
        """Put a packet on its way at a router; it moves when the flight is told to. `tree` is one of the
        trees between domains."""
        router = self.router(at)
        if tree is not None:
            plan = self.outer.plan(self.domain(at).name)
            tree = plan.checked_tree(tree)
            if len(self.domains) > 1 and not packet.stack:
                packet = packet._replace(version=plan.version, tree=tree, scope=Scope.GLOBAL)
        return Flight(self, packet, router.name)


def _roots_in_order(roots: Sequence[int]) -> Any:
    def root_of_next(topology: Topology, trees: Sequence[Tree], random: Any) -> int:
        return roots[len(trees)]

    return root_of_next


def _check_names(topology: Topology, domains: Mapping[str, Topology]) -> None:
    odd = sorted(set(topology.names) ^ set(domains))
    if odd:
        where = "the network of domains" if odd[0] in domains else "the domains"
        raise UsageError(f"domain {odd[0]!r} is not in {where}; expected the same names in both")
    if not domains:
        raise UsageError("no domains; expected at least one")
    for name in domains:
        if not name or "/" in name:
            raise UsageError(f"a domain {name!r}; expected a name without a slash")
        if not domains[name].n_nodes:
            raise UsageError(f"domain {name!r} has no routers; expected at least one")


def _links(
    topology: Topology,
    domains: Mapping[str, Topology],
    gateways: dict[tuple[str, str], tuple[str, str]],
    seed: int,
) -> dict[frozenset[str], dict[str, str]]:
    """For each pair of neighbouring domains, the gateway of each."""
    random, found = np.random.default_rng(seed), dict[frozenset[str], dict[str, str]]()
    for a, b in topology.ends().tolist():
        pair = topology.names[a], topology.names[b]
        drawn = {name: int(random.integers(domains[name].n_nodes)) for name in pair}
        if pair[::-1] in gateways:
            pair = pair[::-1]
        for name, router in zip(pair, gateways.pop(pair, ()), strict=False):
            drawn[name] = domains[name].node(router)
        found[frozenset(pair)] = {
            name: f"{name}/{domains[name].names[node]}" for name, node in drawn.items()
        }
    if gateways:
        a, b = next(iter(gateways))
        raise UsageError(f"gateways of {a} and {b}, which have no link; expected neighbours")
    return found
