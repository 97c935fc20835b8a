"""A plan: the trees and labels of a connected network under one version, and what each router gets of it.

A packet names the version of its tree. When the network changes, a new plan is made; routers keep the one
before for packets that are still on their way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.network.packet import Locator, PacketError
from matchyard.routing import Labels, Topology, Tree, grow, label, next_hop
from matchyard.routing.whole_numbers import whole_number


class Part(NamedTuple):
    """What one router has of a plan. Interfaces are those of the plan: the place of a neighbour, from 1 on."""

    version: int
    node: int
    neighbours: tuple[str, ...]  # by interface - 1
    links: list[list[int]]  # the interfaces on each tree
    labels: Sequence[Labels]

    def locator(self, tree: int, level: int = 0) -> Locator:
        """Where this router is on a tree."""
        return Locator(self.version, tree, int(self.labels[tree].labels[self.node]), level)

    def next_hop(self, locator: Locator) -> int:
        """The interface towards a locator, or 0 where it is this router."""
        if not 0 <= locator.tree < len(self.labels):
            raise PacketError(
                f"a locator on tree {locator.tree}; expected 0 to {len(self.labels) - 1}"
            )
        try:
            found: int = next_hop(self.labels[locator.tree], self.node, locator.label)
        except ValueError as error:
            raise PacketError(str(error)) from None
        return found


class Plan:
    """Trees and labels of a connected network.

    >>> from matchyard.routing import from_links
    >>> plan = Plan(from_links([(0, 1), (1, 2)], names="abc"), trees=1)
    >>> plan.part(1).links, plan.part(1).neighbours
    ([[1, 2]], ('a', 'c'))
    """

    def __init__(
        self,
        topology: Topology,
        trees: int | Sequence[Tree] = 8,
        rule: Any = "LC",
        seed: int = 1,
        salt: str = "",
    ) -> None:
        """`salt` tells plans of one network apart that were made one after the other."""
        if isinstance(trees, int):
            most = topology.n_nodes if rule in ("L", "H3", "degree") else trees
            trees = grow(topology, rule, min(trees, most), seed)
        self.topology, self.trees = topology, list(trees)
        self.labels = [label(topology, tree, number) for number, tree in enumerate(self.trees)]
        self.salt = salt
        self.version = _version(topology, self.trees, salt)

    def __repr__(self) -> str:
        return f"<Plan {self.version:016x}: {len(self.trees)} trees of {self.topology!r}>"

    def checked_tree(self, tree: int) -> int:
        """The number of a tree, if there is such a tree."""
        number = whole_number(tree, "tree")
        if not 0 <= number < len(self.trees):
            raise UsageError(f"tree {number}; expected a number from 0 to {len(self.trees) - 1}")
        return number

    def part(self, node: int) -> Part:
        """What the router of a node gets."""
        low, high = self.topology.start[node], self.topology.start[node + 1]
        near = self.topology.neighbours[low:high].tolist()
        return Part(
            self.version,
            node,
            tuple(self.topology.names[one] for one in near),
            [(np.flatnonzero(is_on[low:high]) + 1).tolist() for is_on in self._are_on],
            self.labels,
        )

    @cached_property
    def _are_on(self) -> list[NDArray[np.bool_]]:
        """For each tree, the interfaces of all nodes that are on it, in the order of the topology."""
        near = self.topology.neighbours
        nodes = np.repeat(np.arange(self.topology.n_nodes), self.topology.degrees)
        return [(tree.parent[near] == nodes) | (tree.parent[nodes] == near) for tree in self.trees]


def _version(topology: Topology, trees: Sequence[Tree], salt: str) -> int:
    """64 bits that differ for other networks, trees or salts; never 0, which is no version."""
    digest = hashlib.sha256(salt.encode())
    digest.update("\0".join(topology.names).encode())
    digest.update(topology.neighbours.tobytes())
    for tree in trees:
        digest.update(tree.parent.tobytes())
    return int.from_bytes(digest.digest()[:8], "big") or 1
