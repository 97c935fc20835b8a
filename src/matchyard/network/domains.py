"""The two levels of a hierarchy, each a `Network`, and the doors between them. [Thesis 2.3.5]

A door is a virtual neighbour. The first gateway of a domain has a door; like a neighbouring router, the door receives
updates about the interests of the domain. The domains are nodes of another `Network`. There, each node has a door that
sends these updates. So the same updates fill the tables of both levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from matchyard.errors import UsageError
from matchyard.network.domain_router import Border, DomainRouter
from matchyard.network.network import Network, joined
from matchyard.network.packet import Locator
from matchyard.network.plan import Part, Plan
from matchyard.network.router import Router
from matchyard.network.tables import TreeUpdate
from matchyard.routing import Descriptors, Registrations, Topology, Tree

DOOR = "/"  # the name of the virtual neighbour, which stands for the other level


class Level(Network):
    """A connected network whose nodes may have doors. `told` collects the updates for doors."""

    def __init__(self, topology: Topology, **options: Any) -> None:
        self.told: list[TreeUpdate] = []
        n_parts, _ = connected_components(topology.matrix(), directed=False)
        if n_parts != 1:
            raise UsageError(f"a network in {n_parts} parts; expected a connected network")
        super().__init__(topology, **options)

    def _refuse(self, *_arguments: Any, **_options: Any) -> None:
        raise UsageError("a hierarchy cannot change; expected a flat network for changes")

    join = fail = restore = restart = move = _refuse

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
    """The routers of one domain, and their trees: shortest paths from each router, gateways first.

    With fewer trees than routers, the roots besides gateways are random. A router without a tree of its own
    uses the tree with the nearest root.
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
        """The first gateway has a door on its own tree: there it knows all interests of the domain."""
        return [0] if node in self.gateways[:1] else []

    @property
    def routers(self) -> list[DomainRouter]:
        """All routers of the domain."""
        return [router for router in self._nodes.values() if isinstance(router, DomainRouter)]

    def own_tree(self, node: str) -> int:
        """The tree for packets that enter the domain at a router."""
        router = self.router(node)
        return router.own_tree if isinstance(router, DomainRouter) else 0

    def wanted(self) -> Descriptors:
        """The minimal filters that cover all interests of the domain."""
        first = self.router(self.gateways[0])
        return first.plane.rib.told(0, first.interfaces[DOOR])

    def locator(self, gateway: str) -> Locator:
        """The locator of a gateway on its own tree."""
        plan = self.plan(gateway)
        return plan.part(plan.topology.node(gateway)).locator(self.gateways.index(gateway))

    def meet(self, locators: tuple[Locator, ...], border: Border | None) -> None:
        """Give all routers the locators of the domain, and gateways the border."""
        plan = self._plans[self.nodes[0]]
        depths = np.array([tree.depth for tree in plan.trees])  # [n_trees, n_nodes]
        ways_out = [self.locator(gateway) for gateway in self.gateways]
        for node, router in enumerate(self.routers):
            way_out = ways_out[depths[: len(ways_out), node].argmin()] if ways_out else None
            is_gateway = router.name in self.gateways
            own_tree = int(depths[:, node].argmin())
            router.join(own_tree, locators, way_out, border if is_gateway else None)


class Domains(Level):
    """The network whose nodes are domains. Gateways use its tables; the door of a node leads into its domain."""

    def __init__(self, topology: Topology, **options: Any) -> None:
        super().__init__(topology, **options)
        for name in topology.names:
            router = self.router(name)
            # A packet for the node itself is for its domain.
            router.plane.ports[0] = router.interfaces[DOOR]

    def doors(self, node: str, n_trees: int) -> Sequence[int]:
        """Every node has a door on all trees."""
        return range(n_trees)

    def pass_on(self, domain: str, told: list[TreeUpdate]) -> None:
        """Send the updates of a domain's door to other domains."""
        router, version = self.router(domain), self.plan(domain).version
        for update in joined(told):
            for tree in range(len(self.plan(domain).trees)):
                change = TreeUpdate(version, tree, update.update)
                self._settle(router, router.apply(change, router.interfaces[DOOR]))
        self.told.clear()  # routers within domains do not store interests of other domains

    def fill(self, wanted: Mapping[str, Descriptors]) -> None:
        """Fill the tables of all nodes from the interests of domains."""
        plan = self.plan(self.nodes[0])
        together = self.router(self.nodes[0]).filters.encode([])
        for name in plan.topology.names:
            together = together.with_more(together.vocabulary.encode(wanted[name]))
        counts = [len(wanted[name]) for name in plan.topology.names]
        registered = Registrations(together, np.repeat(np.arange(len(counts)), counts))
        tables = registered.tables(plan.topology, plan.trees, range(len(counts)))
        for name, table in zip(plan.topology.names, tables, strict=True):
            self.router(name).fill(table, plan.version)


def _roots_in_order(roots: Sequence[int]) -> Any:
    def root_of_next(topology: Topology, trees: Sequence[Tree], random: Any) -> int:
        return roots[len(trees)]

    return root_of_next
