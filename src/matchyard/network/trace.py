"""An explanation in words of the path of a notification to one application, hop by hop."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from matchyard.routing.applications import Key, Tags

if TYPE_CHECKING:
    from matchyard.network.domains import Domain
    from matchyard.network.hierarchy import Hierarchy
    from matchyard.network.network import Network
    from matchyard.network.router import Router
    from matchyard.routing import Tree


class Hop(NamedTuple):
    """A node on the path, and the event there."""

    node: str
    what: str


class Trace(NamedTuple):
    """The hops of a packet up to its end; `str` gives a readable form."""

    arrives: bool
    hops: list[Hop]

    def __str__(self) -> str:
        width = max(len(hop.node) for hop in self.hops)
        lines = [
            f"{number:>3}  {hop.node:<{width}}  {hop.what}" for number, hop in enumerate(self.hops)
        ]
        return "\n".join(lines)


def trace(network: Network, tags: Tags, at: str, key: Key, tree: int) -> Trace:
    """See `Network.trace`."""
    homes = [name for name in network.nodes if key in network.router(name).attached]
    if not homes:
        return Trace(False, [Hop(at, f"{key!r} is at no node: it has not registered anything")])
    plan = network.plan(at)
    reachable = [home for home in homes if home in plan.topology.names]
    if not reachable:
        what = f"{key!r} is at {homes[0]}, which cannot be reached: links or nodes between are down"
        return Trace(False, [Hop(at, what)])
    tree = plan.checked_tree(tree)
    traces = [_to(network, tags, at, key, home, tree) for home in reachable]
    return next((one for one in traces if one.arrives), traces[0])


def _to(network: Network, tags: Tags, at: str, key: Key, home: str, tree: int) -> Trace:
    is_there, hops = _way(network, tags, at, home, tree)
    if not is_there:
        return Trace(False, hops)
    arrives, what = _taken(network.router(home), tags, key)
    return Trace(arrives, [*hops, Hop(home, what)])


def _way(network: Network, tags: Tags, at: str, home: str, tree: int) -> tuple[bool, list[Hop]]:
    """True if a packet gets from one node to another on a tree; and the hops before the other."""
    topology = network.plan(at).topology
    path = _path(network.plan(at).trees[tree], topology.node(at), topology.node(home))
    names = [topology.names[node] for node in path]
    hops, came_from = list[Hop](), 0
    for name, following in pairwise(names):
        router = network.router(name)
        interface = router.interfaces[following]
        rib = router.plane.rib
        packet = router.filters.find([tags])[0]
        _, leaving = rib.forward(packet, np.array([tree]), np.array([came_from]))
        if interface not in leaving:
            wanted = [frozenset(one) for one in rib.wanted(tree, interface)]
            why = "" if router.is_bloom else _nearest(wanted, tags)
            what = f"stops: of {_counted(len(wanted))} wanted beyond {following} on tree {tree}, none matches{why}"
            return False, [*hops, Hop(name, what)]
        start = "goes" if hops else f"enters on tree {tree}, goes"
        hops.append(Hop(name, f"{start} to {following} by interface {interface}"))
        came_from = network.router(following).interfaces[name]
    return True, hops


def trace_domains(hierarchy: Hierarchy, tags: Tags, at: str, key: Key, tree: int) -> Trace:
    """See `Hierarchy.trace`."""
    here = hierarchy.domain(at)
    homes = [
        domain
        for domain in hierarchy.domains.values()
        if any(key in router.attached for router in domain.routers)
    ]
    if not homes:
        return Trace(False, [Hop(at, f"{key!r} is at no router: it has not registered anything")])
    tree = hierarchy.outer.plan(here.name).checked_tree(tree)
    traces = [
        trace(here, tags, at, key, here.own_tree(at))
        if home is here
        else _beyond(hierarchy, tags, at, key, home, tree)
        for home in homes
    ]
    return next((one for one in traces if one.arrives), traces[0])


def _beyond(hierarchy: Hierarchy, tags: Tags, at: str, key: Key, home: Domain, tree: int) -> Trace:
    """Trace a packet into another domain: to a gateway, from domain to domain, then within the last one."""
    outer, here = hierarchy.outer, hierarchy.domain(at)
    is_there, hops = _way(outer, tags, here.name, home.name, tree)
    hops = [Hop(at, "goes to a gateway"), *hops]
    if not is_there:
        return Trace(False, hops)
    plan = outer.plan(home.name)
    start, end = plan.topology.node(here.name), plan.topology.node(home.name)
    last = plan.topology.names[_path(plan.trees[tree], start, end)[-2]]
    entrance = hierarchy.gateway(home.name, last)
    inside = trace(home, tags, entrance, key, home.own_tree(entrance))
    return Trace(inside.arrives, hops + inside.hops)


def _taken(router: Router, tags: Tags, key: Key) -> tuple[bool, str]:
    wanted = router.applications.of(key)
    match = next((one for one in wanted if one <= tags), None)
    if match is not None:
        return True, f"arrives: {key!r} wants {_shown(match)}"
    if not wanted:
        return False, f"stops: {key!r} has registered nothing here"
    return False, f"stops: {key!r} does not want it{_nearest(wanted, tags)}"


def _nearest(wanted: list[Tags], tags: Tags) -> str:
    """Describe the descriptor with the fewest missing tags."""
    if not wanted:
        return ""
    best = min(wanted, key=lambda one: (len(one - tags), sorted(one)))
    missing = sorted(best - tags)
    return f"; the nearest is {_shown(best)}, missing tag{'s' * (len(missing) > 1)}: {', '.join(missing)}"


def _path(tree: Tree, at: int, home: int) -> list[int]:
    """The nodes on the path between two nodes of a tree."""
    up, down = [at], [home]
    while up[-1] != down[-1]:
        deeper = up if tree.depth[up[-1]] >= tree.depth[down[-1]] else down
        deeper.append(int(tree.parent[deeper[-1]]))
    return up + down[-2::-1]


def _counted(count: int) -> str:
    return f"{count:,} descriptor{'s' * (count != 1)}"


def _shown(tags: Tags) -> str:
    return "{" + ", ".join(sorted(tags)) + "}"
