"""Decentralised trees and labels: nodes compute them by messages to their neighbours. [Thesis 2.3.4]

Time passes in rounds. In each round, a node reads the messages that its neighbours sent in the previous
round, and may send messages to some neighbours. At first, a node knows only its own number, its links
and their weights. A step ends in the first round without messages.

    distances   every node learns its distance to all others, and so its own eccentricity
    election    the node of least eccentricity wins, as in `centres`
    tree        nodes learn their distance from the root
    children    every node picks its parent and tells it
    sizes       from the leaves up: the sizes of subtrees
    labels      from the root down: number, ranks and ends of ranks

The results equal those of `trees.grow` and `labels.label` if weights are whole numbers. Sums of fractions
are rounded in another order and may differ. This module explains the algorithm and counts its messages;
`distances` needs memory for all pairs of nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from matchyard.errors import UsageError
from matchyard.routing.centres import centre
from matchyard.routing.topology import Topology
from matchyard.routing.trees import Tree, links_of


class Cost(NamedTuple):
    """The cost of a step: rounds, and messages from a node to a neighbour."""

    step: str
    rounds: int
    messages: int


@dataclass
class Node:
    """The knowledge of one node."""

    number: int
    weights: dict[int, float]  # of its links, by neighbour
    distances: dict[int, float] = field(default_factory=dict)  # to all known nodes
    winner: tuple[float, int, int] = (0.0, 0, 0)  # eccentricity, minus its links, number
    distance: float = float("inf")  # from the root
    heard: dict[int, float] = field(default_factory=dict)  # the neighbours' distances from the root
    parent: int = -1
    sizes: dict[int, int] = field(default_factory=dict)  # of the subtrees of its children
    children: set[int] = field(default_factory=set)
    label: tuple[int, int, int] = (0, 0, 0)  # number, ranks, ends of ranks


class Built(NamedTuple):
    """A tree, the labels of its nodes (number, ranks, ends of ranks), and the costs."""

    tree: Tree
    labels: list[tuple[int, int, int]]
    costs: list[Cost]


# The next messages of a node by neighbour, from the messages that it received.
Step = Callable[[Node, Mapping[int, Any]], dict[int, Any]]


def build(topology: Topology, count: int = 1, increment: float = 1.0) -> list[Built]:
    """Build trees by the rule "LC" and their labels, only by messages.

    >>> from matchyard.routing.models import generate
    >>> [built] = build(generate("grid", 9))
    >>> built.tree.root, [(cost.step, cost.rounds) for cost in built.costs][:2]
    (4, [('distances', 5), ('election', 3)])
    """
    if count < 1 or not (increment >= 0 and math.isfinite(increment)):
        raise UsageError(f"{count} trees, increment {increment}; expected at least 1 and 0")
    centre(topology)  # refuses networks in parts or without nodes
    weights = topology.weights.copy()
    trees = []
    for _ in range(count):
        built = _build_one(topology, weights)
        weights[links_of(topology, built.tree)] += increment
        trees.append(built)
    return trees


def _build_one(topology: Topology, weights: Any) -> Built:
    nodes = []
    for number in range(topology.n_nodes):
        row = slice(topology.start[number], topology.start[number + 1])
        links = weights[topology.links[row]].tolist()
        nodes.append(Node(number, dict(zip(topology.neighbours[row].tolist(), links, strict=True))))
    costs = [
        exchange(name, nodes, first, step)
        for name, first, step in (
            ("distances", _begin_distances, _learn_distances),
            ("election", _begin_election, _elect),
            ("tree", _begin_tree, _come_nearer),
            ("children", _tell_parent, _count_child),
            ("sizes", _tell_size, _add_size),
            ("labels", _begin_labels, _take_label),
        )
    ]
    return Built(_as_tree(nodes), [node.label for node in nodes], costs)


def exchange(name: str, nodes: Sequence[Node], first: Step, step: Step) -> Cost:
    """Let all nodes send first messages, then answer until no node sends a message."""
    n_rounds = n_messages = 0
    said = {node.number: first(node, {}) for node in nodes}
    while any(said.values()):
        n_rounds += 1
        heard: dict[int, dict[int, Any]] = {}
        for sender, messages in said.items():
            n_messages += len(messages)
            for receiver, message in messages.items():
                heard.setdefault(receiver, {})[sender] = message
        said = {number: step(nodes[number], inbox) for number, inbox in heard.items()}
    return Cost(name, n_rounds, n_messages)


def _to_all(node: Node, message: Any) -> dict[int, Any]:
    return dict.fromkeys(node.weights, message)


def _begin_distances(node: Node, inbox: Mapping[int, Any]) -> dict[int, Any]:
    node.distances[node.number] = 0.0
    return _to_all(node, {node.number: 0.0})


def _learn_distances(node: Node, inbox: Mapping[int, Any]) -> dict[int, Any]:
    news: dict[int, float] = {}
    for neighbour, known in inbox.items():
        for other, distance in known.items():
            through = distance + node.weights[neighbour]
            if through < node.distances.get(other, float("inf")):
                node.distances[other] = news[other] = through
    return _to_all(node, news) if news else {}


def _begin_election(node: Node, inbox: Mapping[int, Any]) -> dict[int, Any]:
    node.winner = (max(node.distances.values()), -len(node.weights), node.number)
    return _to_all(node, node.winner)


def _elect(node: Node, inbox: Mapping[int, Any]) -> dict[int, Any]:
    best = min(inbox.values())
    if best >= node.winner:
        return {}
    node.winner = best
    return _to_all(node, best)


def _begin_tree(node: Node, inbox: Mapping[int, Any]) -> dict[int, Any]:
    if node.winner[2] != node.number:
        return {}
    node.distance = 0.0
    return _to_all(node, 0.0)


def _come_nearer(node: Node, inbox: Mapping[int, Any]) -> dict[int, Any]:
    node.heard |= inbox
    nearest = min(distance + node.weights[other] for other, distance in inbox.items())
    if nearest >= node.distance:
        return {}
    node.distance = nearest
    return _to_all(node, nearest)


def _tell_parent(node: Node, inbox: Mapping[int, Any]) -> dict[int, Any]:
    """Pick the parent: of the neighbours on a shortest path, the one with the least number."""
    near = [
        other
        for other, far in node.heard.items()
        if far < node.distance and far + node.weights[other] == node.distance
    ]
    node.parent = min(near, default=-1)
    return {node.parent: None} if near else {}


def _count_child(node: Node, inbox: Mapping[int, Any]) -> dict[int, Any]:
    node.children |= set(inbox)
    return {}


def _size(node: Node) -> int:
    return 1 + sum(node.sizes.values())


def _tell_size(node: Node, inbox: Mapping[int, Any]) -> dict[int, Any]:
    is_complete = len(node.sizes) == len(node.children)
    return {node.parent: _size(node)} if is_complete and node.parent >= 0 else {}


def _add_size(node: Node, inbox: Mapping[int, Any]) -> dict[int, Any]:
    node.sizes |= inbox
    return _tell_size(node, inbox)


def _begin_labels(node: Node, inbox: Mapping[int, Any]) -> dict[int, Any]:
    return _label_children(node) if node.parent < 0 else {}


def _take_label(node: Node, inbox: Mapping[int, Any]) -> dict[int, Any]:
    node.label = inbox[node.parent]
    return _label_children(node)


def _label_children(node: Node) -> dict[int, Any]:
    """Label the light children first, by falling size; the heavy child last, without a rank."""
    number, ranks, ends = node.label
    heavy, *light = sorted(node.sizes, key=lambda one: (-node.sizes[one], one)) or [-1]
    shift, following, labels = ends.bit_length(), number + 1, {}
    for rank, child in enumerate(light, 1):
        end = 1 << (shift + rank.bit_length() - 1)
        labels[child] = (following, ranks | rank << shift, ends | end)
        following += node.sizes[child]
    if heavy >= 0:
        labels[heavy] = (following, ranks, ends)
    return labels


def _as_tree(nodes: Sequence[Node]) -> Tree:
    distance = np.array([node.distance for node in nodes])
    order = np.argsort(distance, kind="stable").astype(np.int32)
    parent = np.array([node.parent for node in nodes], np.int32)
    depth = np.zeros(len(nodes), np.int32)
    for node in order[1:]:
        depth[node] = depth[parent[node]] + 1
    return Tree(int(order[0]), parent, depth, order)
