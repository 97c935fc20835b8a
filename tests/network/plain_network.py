"""What a network should deliver: a list of registrations, and a search for who can be reached."""

from __future__ import annotations

from matchyard.routing import Topology


class PlainNetwork:
    def __init__(self, topology: Topology) -> None:
        names = topology.names
        self.nodes = set(names)
        self.links = {tuple(sorted((names[a], names[b]))) for a, b in topology.ends().tolist()}
        self.down: set[str | tuple[str, ...]] = set()
        self.registered: list[tuple[str, str | int, frozenset[str]]] = []

    def add(self, name: str, near: set[str]) -> None:
        self.nodes.add(name)
        self.links |= {tuple(sorted((name, one))) for one in near}

    def down_nodes(self) -> set[str]:
        return {one for one in self.down if isinstance(one, str)}

    def living_links(self) -> list[tuple[str, ...]]:
        return sorted(one for one in self.links if not self.down & {one, *one})

    def living(self) -> list[tuple[str, str | int, frozenset[str]]]:
        return [one for one in self.registered if one[0] not in self.down]

    def reachable(self, node: str) -> set[str]:
        found, waiting = {node}, [node]
        links = self.living_links()
        while waiting:
            one = waiting.pop()
            for a, b in links:
                for here, there in ((a, b), (b, a)):
                    if here == one and there not in found:
                        found.add(there)
                        waiting.append(there)
        return found

    def interested(self, node: str, tags: frozenset[str]) -> set[tuple[str, str | int]]:
        """The hosts (node and key) that a notification from a node has to reach."""
        there = self.reachable(node)
        return {(at, key) for at, key, wanted in self.living() if at in there and wanted <= tags}
