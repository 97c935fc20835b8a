"""The way of a notification to one application, hop by hop, in words: does it arrive, and if not, why?"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from matchyard.routing.applications import Key, Tags

if TYPE_CHECKING:
    from matchyard.network.network import Network
    from matchyard.network.router import Router
    from matchyard.routing import Tree


class Hop(NamedTuple):
    """A node on the way, and what happens there."""

    node: str
    what: str


class Trace(NamedTuple):
    """The hops of a packet as far as it gets; print it to read it."""

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
    found = [_to(network, tags, at, key, home, tree) for home in reachable]
    return next((one for one in found if one.arrives), found[0])


def _to(network: Network, tags: Tags, at: str, key: Key, home: str, tree: int) -> Trace:
    topology = network.plan(at).topology
    path = _path(network.plan(at).trees[tree], topology.node(at), topology.node(home))
    names = [topology.names[node] for node in path]
    hops, came_from = list[Hop](), 0
    for place, (name, following) in enumerate(zip(names, [*names[1:], None], strict=True)):
        router = network.router(name)
        if following is None:
            arrives, what = _taken(router, tags, key)
            return Trace(arrives, [*hops, Hop(name, what)])
        interface = router.interfaces[following]
        rib = router.plane.rib
        packet = router.filters.find([tags])[0]
        _, leaving = rib.forward(packet, np.array([tree]), np.array([came_from]))
        if interface not in leaving:
            wanted = [frozenset(one) for one in rib.wanted(tree, interface)]
            why = "" if router.is_bloom else _nearest(wanted, tags)
            what = f"stops: nobody beyond {following} wants it on tree {tree}; {len(wanted):,} descriptors are wanted there{why}"
            return Trace(False, [*hops, Hop(name, what)])
        start = f"enters on tree {tree}, goes" if place == 0 else "goes"
        hops.append(Hop(name, f"{start} to {following} by interface {interface}"))
        came_from = network.router(following).interfaces[name]
    raise AssertionError("a path ends at its home")


def _taken(router: Router, tags: Tags, key: Key) -> tuple[bool, str]:
    wanted = router.applications.of(key)
    match = next((one for one in wanted if one <= tags), None)
    if match is not None:
        return True, f"arrives: {key!r} wants {_shown(match)}"
    if not wanted:
        return False, f"stops: {key!r} has registered nothing here"
    return False, f"stops: {key!r} does not want it{_nearest(wanted, tags)}"


def _nearest(wanted: list[Tags], tags: Tags) -> str:
    """Of what is wanted, that which lacks least."""
    if not wanted:
        return ""
    best = min(wanted, key=lambda one: (len(one - tags), sorted(one)))
    missing = sorted(best - tags)
    return f"; the nearest is {_shown(best)}, missing tag{'s' * (len(missing) > 1)}: {', '.join(missing)}"


def _path(tree: Tree, at: int, home: int) -> list[int]:
    """The nodes from one to another on a tree."""
    up, down = [at], [home]
    while up[-1] != down[-1]:
        deeper = up if tree.depth[up[-1]] >= tree.depth[down[-1]] else down
        deeper.append(int(tree.parent[deeper[-1]]))
    return up + down[-2::-1]


def _shown(tags: Tags) -> str:
    return "{" + ", ".join(sorted(tags)) + "}"
