"""A RIB in plain Python, which is the definition of what `Rib` does: sets of frozensets, and updates
that are the difference between what neighbours should know before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

Filter = frozenset
Told = tuple[set[Filter], set[Filter]]  # additions, removals


def minimal(filters: Iterable[Filter]) -> set[Filter]:
    """Those without a strict subset among them."""
    found = set(filters)
    return {one for one in found if not any(other < one for other in found)}


class PlainRib:
    def __init__(self, links: list[list[int]]) -> None:
        self.links = links
        self.stored: dict[tuple[int, int], Counter[Filter]] = {}

    def wanted(self, tree: int, interface: int) -> Counter[Filter]:
        return self.stored.setdefault((tree, interface), Counter())

    def told(self, tree: int, neighbour: int) -> set[Filter]:
        others = [0, *(one for one in self.links[tree] if one != neighbour)]
        return minimal(one for other in others for one in self.wanted(tree, other))

    def apply(
        self, additions: Iterable[Filter], removals: Iterable[Filter], tree: int, interface: int
    ) -> dict[int, Told]:
        before = {one: self.told(tree, one) for one in self.links[tree] if one != interface}
        stored = self.wanted(tree, interface)
        for one in removals:
            if stored[one]:
                stored[one] -= 1
        for one in additions:
            stored[one] += 1
        stored += Counter()  # drops what is there no more
        if interface:
            kept = minimal(stored)
            self.stored[tree, interface] = Counter(kept)
        found = {}
        for neighbour, old in before.items():
            new = self.told(tree, neighbour)
            came = new - old
            gone = {one for one in old - new if not any(other < one for other in came)}
            if came or gone:
                found[neighbour] = (came, gone)
        return found
