"""A network of domains, with trees within each domain and trees between domains. [Thesis 2.3.5]

        domain north                  domain south
      oslo ── bergen ─── exterior ─── rome ── bari      trees of domains:  north ── south
        north has a tree                  only gateways (bergen, rome) know these
        for each of its routers

Here, links and routers do not fail or join, and applications do not move. A flat `Network` supports these changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from matchyard.errors import UsageError
from matchyard.network.domain_router import Border, Exit
from matchyard.network.domains import Domain, Domains
from matchyard.network.packet import Packet, Scope
from matchyard.network.router import Router
from matchyard.network.service import Flight, Service
from matchyard.network.tables import checked_tags
from matchyard.network.trace import Trace, trace_domains
from matchyard.routing import Memory, Topology, Vocabulary
from matchyard.routing.applications import Key


class Hierarchy(Service):
    """Domains, each a connected network of routers, with one link between each pair of neighbouring domains.

    `topology` has a node for each domain and a link for each such pair; `domains` has the network of each domain. The
    name of a router is domain/name. `gateways` names the two routers of a link; unnamed gateways are random. `trees`
    and `rule` are for the trees between domains. A domain has `local_trees` trees, by default one for each router, and
    at least one for each gateway.

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
        links = self._links = _links(topology, domains, dict(gateways or {}), seed)
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
            self._connect(domain)

    def __repr__(self) -> str:
        n_routers = sum(len(domain.nodes) for domain in self.domains.values())
        return f"<Hierarchy: {len(self.domains)} domains, {n_routers} routers>"

    def _connect(self, domain: Domain) -> None:
        """Give the routers of a domain their knowledge of other domains."""
        plan, plane = self.outer.plan(domain.name), self.outer.router(domain.name).plane
        exits = list[Exit]()
        for other in plane.part.neighbours[:-1]:
            gateway, node = self.gateway(domain.name, other), plan.topology.node(other)
            beyond = self.gateway(other, domain.name)
            exits.append(Exit(node, gateway, domain.locator(gateway), beyond))
        locators = tuple(plane.part.locator(tree, level=1) for tree in range(len(plan.trees)))
        domain.meet(locators, Border(plane, plane.ports[0], exits) if exits else None)

    def gateway(self, domain: str, neighbour: str) -> str:
        """The router of a domain at the link to a neighbouring domain."""
        pair = frozenset((domain, neighbour))
        if pair not in self._links:
            raise UsageError(f"no link between {domain} and {neighbour}; expected neighbours")
        return self._links[pair][domain]

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
        """The router with a name such as north/oslo."""
        return self.domain(node).router(node)

    def is_up(self, node: object, neighbour: object) -> bool:
        """Always True: links of a hierarchy do not fail."""
        return True

    def memory(self, node: object) -> tuple[Memory, Memory | None]:
        """The memory of a router for its own domain, and for other domains (None unless it is a gateway).
        All gateways of a domain store the same for other domains."""
        router, domain = self.router(node), self.domain(node)
        beyond = self.outer.router(domain.name).plane.rib.memory()
        is_gateway = router.name in domain.gateways
        return router.plane.rib.memory(), beyond if is_gateway else None

    # ---------------------------------------------------------------- calls of applications

    def register(self, tags: Any, at: object, key: Key) -> None:
        """Register an application at a router for notifications and requests with these tags."""
        self.domain(at).register(tags, at, key)
        self._pass_on(self.domain(at))

    def withdraw(self, tags: Any, at: object, key: Key) -> None:
        """Withdraw a registration; an unknown one is an error."""
        self.domain(at).withdraw(tags, at, key)
        self._pass_on(self.domain(at))

    def _pass_on(self, domain: Domain) -> None:
        told, domain.told = domain.told, []
        self.outer.pass_on(domain.name, told)

    def register_many(
        self, descriptors: Sequence[Any], at: Sequence[object], keys: Sequence[Key]
    ) -> None:
        """Make many registrations at once; the tables are the same as after single ones."""
        rows = defaultdict[str, list[tuple[Any, object, Key]]](list)
        for row in zip(descriptors, at, keys, strict=True):
            rows[self.domain(row[1]).name].append(row)
        for name, some in rows.items():
            tags, nodes, owners = zip(*some, strict=True)
            self.domains[name].register_many(tags, nodes, owners)
        if len(self.domains) > 1:
            self.outer.fill({name: domain.wanted() for name, domain in self.domains.items()})

    def send(self, packet: Packet, at: object, tree: int | None = None) -> Flight:
        """Start a packet at a router; `step` or `run` of the flight move it. `tree` is a tree between domains."""
        router = self.router(at)
        if tree is not None:
            plan = self.outer.plan(self.domain(at).name)
            tree = plan.checked_tree(tree)
            if len(self.domains) > 1 and not packet.stack:
                packet = packet._replace(version=plan.version, tree=tree, scope=Scope.GLOBAL)
        return Flight(self, packet, router.name)

    def trace(self, tags: Any, at: object, key: Key, tree: int = 0) -> Trace:
        """Explain where a notification for an application would go and stop: router by router within a domain,
        and domain by domain on a tree between them."""
        return trace_domains(self, checked_tags(tags), self.router(at).name, key, tree)


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
    random, links = np.random.default_rng(seed), dict[frozenset[str], dict[str, str]]()
    for a, b in topology.ends().tolist():
        pair = topology.names[a], topology.names[b]
        drawn = {name: int(random.integers(domains[name].n_nodes)) for name in pair}
        if pair[::-1] in gateways:
            pair = pair[::-1]
        for name, router in zip(pair, gateways.pop(pair, ()), strict=False):
            drawn[name] = domains[name].node(router)
        links[frozenset(pair)] = {
            name: f"{name}/{domains[name].names[node]}" for name, node in drawn.items()
        }
    if gateways:
        a, b = next(iter(gateways))
        raise UsageError(f"gateways of {a} and {b}, which have no link; expected neighbours")
    return links
