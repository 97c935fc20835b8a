"""Twigs and documents in numbers at random, and whether they match by the plain definition."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.engines.twigs.encoder.layout import ANY, CLOSE, Batch, Twigs
from matchyard.engines.twigs.language.model import DOCUMENT, Axis
from matchyard.kernels.strings import freeze

Node = tuple[int, int, bool, int]  # parent, axis, is it negated, symbol
Row = list[list[Node]]  # the trees of a subscription


class Shape(NamedTuple):
    """How random twigs and documents are made."""

    n_names: int = 4
    n_tests: int = 3
    n_nodes: int = 7  # per tree, at most
    n_trees: int = 3  # per twig, at most
    negated: float = 0.15  # probabilities: of nodes…
    any_name: float = 0.3
    descendant: float = 0.4
    test: float = 0.2
    top: float = 0.15  # …that stand below the document, beside the first
    n_elements: int = 20  # per document, at most
    deeper: float = 0.5  # the probability that an element has one within it next
    unknown: float = 0.1


class Element:
    """An element of a document, or a leaf of a test."""

    def __init__(self, symbol: int, is_leaf: bool = False) -> None:
        self.symbol = symbol
        self.is_leaf = is_leaf
        self.children: list[Element] = []

    def descendants(self) -> list[Element]:
        """Everything within it."""
        return [each for child in self.children for each in (child, *child.descendants())]


def twigs(rows: Sequence[Row]) -> Twigs:
    """Rows in numbers."""
    trees = [tree for row in rows for tree in row]
    nodes = np.array([node for tree in trees for node in tree], np.int64).reshape(-1, 4)
    return Twigs(
        np.cumsum([0, *map(len, rows)]),
        np.cumsum([0, *map(len, trees)]),
        nodes[:, 0].astype(np.int32),
        nodes[:, 1].astype(np.uint8),
        nodes[:, 2].astype(bool),
        nodes[:, 3].astype(np.int32),
    )


def rows_of(numbers: Twigs) -> list[Row]:
    """The inverse of `twigs`."""
    columns = (column.tolist() for column in numbers[2:])
    nodes = list(zip(*columns, strict=True))
    trees = [nodes[start:stop] for start, stop in pairwise(numbers.tree_start)]
    return [trees[start:stop] for start, stop in pairwise(numbers.row_start)]


def random_rows(rng: np.random.Generator, n_rows: int, shape: Shape) -> list[Row]:
    """Twigs of any form; a few have no tree at all, or a tree without nodes."""
    rows = []
    for _ in range(n_rows):
        n_trees = 1 if rng.random() < 0.6 else int(rng.integers(0, shape.n_trees + 1))
        rows.append([_random_tree(rng, shape) for _ in range(n_trees)])
    return rows


def _random_tree(rng: np.random.Generator, shape: Shape) -> list[Node]:
    n_nodes = 0 if rng.random() < 0.01 else int(rng.integers(1, shape.n_nodes + 1))
    nodes: list[Node] = []
    while len(nodes) < n_nodes:
        inner = [i for i, node in enumerate(nodes) if node[3] <= shape.n_names]
        is_top = not inner or rng.random() < shape.top
        parent = DOCUMENT if is_top else int(rng.choice(inner[-3:]))
        axis, symbol = int(rng.random() < shape.descendant), int(rng.integers(1, shape.n_names + 1))
        if rng.random() < shape.any_name:
            symbol = ANY
        if not is_top and shape.n_tests and rng.random() < shape.test:
            axis, symbol = int(Axis.CHILD), shape.n_names + 1 + int(rng.integers(shape.n_tests))
        nodes.append((parent, axis, bool(rng.random() < shape.negated), symbol))
    return nodes


def random_document(rng: np.random.Generator, shape: Shape) -> Element:
    """A root element with others within it, in which symbols come back, and leaves of tests."""
    n_elements = int(rng.integers(1, shape.n_elements + 1))
    path = [Element(_random_symbol(rng, shape))]
    for _ in range(n_elements - 1):
        while len(path) > 1 and rng.random() > shape.deeper:
            path.pop()
        element = Element(_random_symbol(rng, shape))
        path[-1].children.append(element)
        path.append(element)
    root = path[0]
    for element in (root, *root.descendants()):
        while shape.n_tests and rng.random() < 0.4:
            symbol = shape.n_names + 1 + int(rng.integers(shape.n_tests))
            place = int(rng.integers(len(element.children) + 1))
            element.children.insert(place, Element(symbol, is_leaf=True))
    return root


def _random_symbol(rng: np.random.Generator, shape: Shape) -> int:
    return 0 if rng.random() < shape.unknown else int(rng.integers(1, shape.n_names + 1))


def batch(documents: Sequence[Element]) -> Batch:
    """Documents in numbers."""
    signals = [_signals(root) for root in documents]
    return Batch(
        np.cumsum([0, *map(len, signals)]),
        np.array([signal for each in signals for signal in each], np.int32),
        np.array([_depth(root) for root in documents], np.int32),
    )


def _signals(element: Element) -> list[int]:
    if element.is_leaf:
        return [-2 - element.symbol]
    within = [signal for child in element.children for signal in _signals(child)]
    return [element.symbol, *within, CLOSE]


def _depth(element: Element) -> int:
    """Elements within each other; leaves do not count."""
    return 1 + max((_depth(child) for child in element.children if not child.is_leaf), default=0)


def holds(row: Row, root: Element) -> bool:
    """Is one of the trees in the document? The definition, word by word."""
    document = Element(0)
    document.children = [root]
    return any(_has_all(tree, DOCUMENT, document) for tree in row)


def _has_all(tree: list[Node], parent: int, element: Element) -> bool:
    """Has the element what each child of that node asks for?"""
    return all(
        _has(tree, node, element) != tree[node][2]
        for node in range(len(tree))
        if tree[node][0] == parent
    )


def _has(tree: list[Node], node: int, element: Element) -> bool:
    _, axis, _, symbol = tree[node]
    places = element.children if axis == Axis.CHILD else element.descendants()
    return any(
        (place.symbol == symbol or (symbol == ANY and not place.is_leaf))
        and _has_all(tree, node, place)
        for place in places
    )


def expected(rows: Sequence[Row], documents: Sequence[Element]) -> list[list[int]]:
    """Per document the numbers of the rows that it satisfies."""
    return [[i for i, row in enumerate(rows) if holds(row, root)] for root in documents]


def table_of(algorithm: Any, subscriptions: Twigs, options: Any) -> Any:
    """A table as an index has it, whose keys are the numbers of the rows: frozen, since all of an
    algorithm would be compiled again for another type of arrays."""
    keys: NDArray[np.int64] = np.arange(subscriptions.n_rows)
    return freeze(algorithm.compile(subscriptions, keys, None, options))


def matches_of(
    algorithm: Any, subscriptions: Twigs, documents: Batch, options: Any
) -> list[list[int]]:
    """Per document the numbers of the rows that an algorithm finds, sorted."""
    table = table_of(algorithm, subscriptions, options)
    workspace = algorithm.workspace(table, options)
    part = algorithm.match(table, documents, workspace, options)
    return [sorted(part.keys[a:b].tolist()) for a, b in pairwise(part.event_start)]


def element(symbol: int, *children: Element) -> Element:
    """An element written by hand."""
    made = Element(symbol)
    made.children = list(children)
    return made


A, B, C, D, E = range(1, 6)
FIGURE_4_TWIGS: list[Row] = [  # /a//c[//d]/e, /a//c//d, /a//c/e
    [[(DOCUMENT, 0, False, A), (0, 1, False, C), (1, 1, False, D), (1, 0, False, E)]],
    [[(DOCUMENT, 0, False, A), (0, 1, False, C), (1, 1, False, D)]],
    [[(DOCUMENT, 0, False, A), (0, 1, False, C), (1, 0, False, E)]],
]
FIGURE_4 = element(A, element(C, element(B, element(D))), element(C, element(E)))

SHAPES = [
    Shape(),
    Shape(n_names=1, n_tests=0, descendant=0.7, n_elements=12),
    Shape(n_names=2, n_tests=1, negated=0.5, n_nodes=5, top=0.3),
    Shape(n_names=2, any_name=0.8, descendant=0.2, n_nodes=12, n_trees=1),
    Shape(n_names=3, negated=0.0, deeper=0.95, n_elements=40, n_nodes=9),
    Shape(n_names=12, test=0.5, n_elements=40, deeper=0.3),
]
