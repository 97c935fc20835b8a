"""Decode twigs from numbers to values of the language."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import numpy as np

from matchyard.engines.twigs.encoder.layout import ANY as ANY_SYMBOL
from matchyard.engines.twigs.encoder.layout import Twigs, Vocabulary
from matchyard.engines.twigs.encoder.subscriptions.terms import label_of
from matchyard.engines.twigs.language.model import ANY, DOCUMENT, Axis, Node, Test, Twig

_CHUNK = 4096  # rows that are Python lists at the same time
_AXES = tuple(Axis)


def decode_rows(twigs: Twigs, start: int, stop: int, vocabulary: Vocabulary) -> Iterator[Twig]:
    """The twigs of the rows from `start` to `stop`."""

    @cache
    def label(symbol: int) -> str | Test:
        return ANY if symbol == ANY_SYMBOL else label_of(vocabulary, symbol)

    for first in range(start, stop, _CHUNK):
        some = twigs.take(np.arange(first, min(first + _CHUNK, stop)))
        row_start, tree_start, *columns = (column.tolist() for column in some)
        nodes = [
            (parent, _AXES[axis], is_negated, label(symbol))
            for parent, axis, is_negated, symbol in zip(*columns, strict=True)
        ]
        trees = [_tree(nodes[begin:end]) for begin, end in pairwise(tree_start)]
        for begin, end in pairwise(row_start):
            yield Twig(tuple(trees[begin:end]))


def _tree(nodes: list[tuple[int, Axis, bool, str | Test]]) -> tuple[Node, ...]:
    """The top nodes of a tree. Nodes come after their parents, so the last node is made first."""
    below: dict[int, list[Node]] = {}
    for number in range(len(nodes) - 1, -1, -1):
        parent, axis, is_negated, name = nodes[number]
        children = tuple(reversed(below.pop(number, ())))
        below.setdefault(parent, []).append(Node(axis, name, is_negated, children))
    return tuple(reversed(below.get(DOCUMENT, ())))
