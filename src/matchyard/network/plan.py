"""A plan: the trees and labels of a connected network under one version, and the part for each router.

A packet names the version of its tree. A change of the network makes a new plan; routers keep the previous one
for packets that are still in flight.
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
from matchyard.routing import Labels, Topology, Tree, first_equal, grow, label, next_hop
from matchyard.routing.whole_numbers import whole_number


class Part(NamedTuple):
    """The part of a plan for one router. Interface i of the plan leads to neighbours[i - 1]."""

    version: int
    node: int
    neighbours: tuple[str, ...]  # by interface - 1
    links: list[list[int]]  # the interfaces on each tree
    labels: Sequence[Labels]

    def locator(self, tree: int, level: int = 0) -> Locator:
        """The locator of this router on a tree."""
        return Locator(self.version, tree, int(self.labels[tree].labels[self.node]), level)

    def next_hop(self, locator: Locator) -> int:
        """The interface towards a locator; 0 if it is the locator of this router."""
        if not 0 <= locator.tree < len(self.labels):
            raise PacketError(
                f"a locator on tree {locator.tree}; expected 0 to {len(self.labels) - 1}"
            )
        try:
            interface: int = next_hop(self.labels[locator.tree], self.node, locator.label)
        except ValueError as error:
            raise PacketError(str(error)) from None
        return interface


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
        """`salt` gives successive plans of one network different versions."""
        if isinstance(trees, int):
            most = topology.n_nodes if rule in ("L", "H3", "degree") else trees
            trees = grow(topology, rule, min(trees, most), seed)
        self.topology, self.trees = topology, list(trees)
        self.first_equal = first_equal(self.trees)
        self.labels = list[Labels]()
        for number, (tree, first) in enumerate(zip(self.trees, self.first_equal, strict=True)):
            # A packet names its tree, so that equal trees keep their numbers and labels.
            is_new = first == number
            self.labels.append(
                label(topology, tree, number) if is_new else self.labels[first].of_tree(number)
            )
        self.salt = salt
        self.version = _version(topology, self.trees, salt)

    def __repr__(self) -> str:
        return (
            f"<Plan {self.version:016x}: {len(self.trees)} trees of {self.topology!r}; "
            f"{self.n_different} are different>"
        )

    @property
    def n_different(self) -> int:
        """The number of different trees."""
        return len(set(self.first_equal))

    def checked_tree(self, tree: int) -> int:
        """Check the number of a tree and return it."""
        number = whole_number(tree, "tree")
        if not 0 <= number < len(self.trees):
            raise UsageError(f"tree {number}; expected a number from 0 to {len(self.trees) - 1}")
        return number

    def part(self, node: int) -> Part:
        """The part for the router of a node."""
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
        """For each tree, True for the elements of `Topology.neighbours` whose links are on it."""
        near = self.topology.neighbours
        nodes = np.repeat(np.arange(self.topology.n_nodes), self.topology.degrees)
        are_on = {
            first: (tree.parent[near] == nodes) | (tree.parent[nodes] == near)
            for first, tree in zip(self.first_equal, self.trees, strict=True)
        }
        return [are_on[first] for first in self.first_equal]


def _version(topology: Topology, trees: Sequence[Tree], salt: str) -> int:
    """A 64-bit hash of network, trees and salt; never 0, which means no version."""
    digest = hashlib.sha256(salt.encode())
    digest.update("\0".join(topology.names).encode())
    digest.update(topology.neighbours.tobytes())
    for tree in trees:
        digest.update(tree.parent.tobytes())
    return int.from_bytes(digest.digest()[:8], "big") or 1
