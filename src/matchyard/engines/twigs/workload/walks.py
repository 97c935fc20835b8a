"""Twigs that are walks over a document type definition, as XPath.

A twig begins at the root or, with `//`, at a descendant, and grows node by node: a leaf gets a child,
a node with one child becomes a split, or a split gets another child. Every node stands for an element
that the definition allows there, whether its name or `*` is written. A walk that ends before the twig
has its size starts again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.workload.documents import next_below, next_fraction, start_stream
from matchyard.engines.twigs.workload.dtd.grammar import Grammar
from matchyard.engines.twigs.workload.xpath_writer import n_tests, write_twig
from matchyard.errors import UsageError
from matchyard.kernels.hashing import mix64

_MOST_TRIES = 10_000  # walks for one twig
_CHUNK = 1 << 16  # twigs that are written at once


class Shape(NamedTuple):
    """The parameters of twigs, as in `Generated`."""

    nodes: int
    splits: int
    max_children: int
    max_depth: int
    wildcard: float
    descendant: float
    tests: float
    negations: float


class _Walk(NamedTuple):
    """A twig as it grows; nodes come after their parents."""

    element: NDArray[np.int64]
    parent: NDArray[np.int64]
    depth: NDArray[np.int64]
    n_children: NDArray[np.int64]
    is_descendant: NDArray[np.bool_]
    is_any: NDArray[np.bool_]
    is_negated: NDArray[np.bool_]
    is_tested: NDArray[np.bool_]
    label: NDArray[np.uint64]  # a hash of the node and its descendants in any order


def draw_twigs(
    grammar: Grammar, shape: Shape, seed: int, start: int, stop: int, is_distinct: bool
) -> pa.ChunkedArray:
    """Twigs `start` … `stop`-1 as Arrow columns of XPath; `start` is 0 for distinct ones."""
    n_slots = 1 << max(4, 2 * (stop - start) - 1).bit_length() if is_distinct else 0
    seen = np.zeros(n_slots, np.uint64)
    pieces = []
    for first in range(start, stop, _CHUNK):
        n_twigs = min(stop - first, _CHUNK)
        starts, text, n_done = _write_twigs(grammar, shape, seed, first, n_twigs, seen)
        if n_done < n_twigs:
            kind = "other twig" if is_distinct and first + n_done else "twig"
            raise UsageError(
                f"no {kind} with {shape.nodes} nodes and {shape.splits} splits was found after "
                f"{first + n_done:,}: {_MOST_TRIES:,} walks over the DTD ended too early or in "
                "one that there is"
            )
        buffers = [None, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(text)]
        pieces.append(pa.Array.from_buffers(pa.string(), n_twigs, buffers))
    return pa.chunked_array(pieces, pa.string())


@njit(nogil=True, cache=True)
def _step(graph, element, depth, shape, is_descendant, state):
    """An element below another, and its depth; with //, half of the time one from deeper down."""
    while True:
        first = graph.child_start[element]
        n_children = graph.child_start[element + 1] - first
        element = graph.children[first + next_below(state, n_children)]
        depth += 1
        has_children = graph.child_start[element + 1] > graph.child_start[element]
        if not is_descendant or depth >= shape.max_depth or not has_children:
            return element, depth
        if next_fraction(state) < 0.5:
            return element, depth


@njit(nogil=True, cache=True)
def _add_node(graph, shape, walk, node, parent, state):
    """Add a node below another, or below the document (-1)."""
    is_descendant = next_fraction(state) < shape.descendant
    element, depth = 0, 1
    if parent >= 0:
        element, depth = walk.element[parent], walk.depth[parent]
        element, depth = _step(graph, element, depth, shape, is_descendant, state)
        walk.n_children[parent] += 1
    elif is_descendant and graph.child_start[1] and next_fraction(state) < 0.5:
        element, depth = _step(graph, element, depth, shape, True, state)
    walk.element[node], walk.depth[node], walk.parent[node] = element, depth, parent
    walk.n_children[node], walk.is_descendant[node] = 0, is_descendant
    walk.is_any[node] = next_fraction(state) < shape.wildcard
    walk.is_negated[node] = walk.is_tested[node] = False


@njit(nogil=True, cache=True)
def _may_grow(graph, shape, walk, node, n_left, n_splits):
    """True if the node may get a child, with `n_left` nodes and `n_splits` splits still to add."""
    element, n_children = walk.element[node], walk.n_children[node]
    has_children = graph.child_start[element + 1] > graph.child_start[element]
    if not has_children or walk.depth[node] >= shape.max_depth or n_children >= shape.max_children:
        return False
    if n_children == 1:
        return n_splits > 0
    return n_left > n_splits


@njit(nogil=True, cache=True)
def _grow(graph, shape, walk, state):
    """Draw the nodes of a twig; false if the walk ended too early."""
    _add_node(graph, shape, walk, 0, -1, state)
    n_splits = shape.splits
    for node in range(1, shape.nodes):
        n_open = 0
        for other in range(node):
            n_open += _may_grow(graph, shape, walk, other, shape.nodes - node, n_splits)
        if n_open == 0:
            return False
        chosen = next_below(state, n_open)
        for other in range(node):
            if _may_grow(graph, shape, walk, other, shape.nodes - node, n_splits):
                if chosen == 0:
                    n_splits -= walk.n_children[other] == 1
                    _add_node(graph, shape, walk, node, other, state)
                    break
                chosen -= 1
    return True


@njit(nogil=True, cache=True)
def _negate(shape, walk, state):
    """Negate a node that has a sibling; false if there is none."""
    first = next_below(state, shape.nodes)
    for i in range(shape.nodes):
        node = (first + i) % shape.nodes
        if node and walk.n_children[walk.parent[node]] > 1:
            walk.is_negated[node] = True
            return True
    return False


@njit(nogil=True, cache=True)
def _test(tags, written, shape, walk, state):
    """Choose a node for a value test; false if no node has a value."""
    first = next_below(state, shape.nodes)
    for i in range(shape.nodes):
        node = (first + i) % shape.nodes
        if n_tests(tags, written, walk.element[node]):
            walk.is_tested[node] = True
            return True
    return False


@njit(nogil=True, cache=True)
def _label(shape, walk):
    """Label nodes so that equal subtrees have equal labels; false if two siblings are equal."""
    walk.label[: shape.nodes] = 0
    for node in range(shape.nodes - 1, -1, -1):
        name = 0 if walk.is_any[node] else 1 + walk.element[node]
        flags = walk.is_descendant[node] + 2 * walk.is_negated[node] + 4 * walk.is_tested[node]
        walk.label[node] = mix64(walk.label[node] + np.uint64(8 * name + flags))
        if node:
            walk.label[walk.parent[node]] += mix64(walk.label[node] ^ np.uint64(1))
    for node in range(1, shape.nodes):
        for other in range(1, node):
            if walk.parent[other] == walk.parent[node] and walk.label[other] == walk.label[node]:
                return False
    return True


@njit(nogil=True, cache=True)
def _is_new(seen, text):
    """Add a text to a set of hashes; false if its hash is there already."""
    word = np.uint64(len(text))
    for i in range(len(text)):
        word = mix64(word ^ np.uint64(text[i]))
    word |= np.uint64(1)  # 0 is a free slot
    slot = np.int64(word >> np.uint64(1)) & (len(seen) - 1)
    while seen[slot]:
        if seen[slot] == word:
            return False
        slot = (slot + 1) & (len(seen) - 1)
    seen[slot] = word
    return True


@njit(nogil=True, cache=True)
def _new_walk(n_nodes):
    return _Walk(
        np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64),
        np.empty(n_nodes, np.int64), np.empty(n_nodes, np.bool_), np.empty(n_nodes, np.bool_),
        np.empty(n_nodes, np.bool_), np.empty(n_nodes, np.bool_), np.empty(n_nodes, np.uint64),
    )  # fmt: skip


@njit(nogil=True, cache=True)
def _write_twigs(grammar, shape, seed, first, n_twigs, seen):
    """Write twigs one after the other; returns their starts, their text and how many there are. If
    `seen` has slots, all differ."""
    graph, tags, written = grammar.graph, grammar.tags, grammar.written
    starts = np.zeros(n_twigs + 1, np.int64)
    widest = grammar.widest + shape.nodes * (grammar.longest_name + 16)
    out = np.empty(n_twigs * 16 * shape.nodes + widest, np.uint8)
    walk, tasks = _new_walk(shape.nodes), np.empty(3 * shape.nodes + 4, np.int64)
    for i in range(n_twigs):
        state = start_stream(seed, first + i)
        is_negated = next_fraction(state) < shape.negations
        is_tested = next_fraction(state) < shape.tests
        if starts[i] + widest > len(out):
            out = np.concatenate((out, np.empty_like(out)))
        for _ in range(_MOST_TRIES):
            is_drawn = _grow(graph, shape, walk, state)
            is_drawn = is_drawn and (not is_negated or _negate(shape, walk, state))
            is_drawn = is_drawn and (not is_tested or _test(tags, written, shape, walk, state))
            if is_drawn and _label(shape, walk):
                end = write_twig(tags, written, shape, walk, tasks, state, out, starts[i])
                if len(seen) == 0 or _is_new(seen, out[starts[i] : end]):
                    starts[i + 1] = end
                    break
        if starts[i + 1] == 0:
            return starts, out, i
    return starts, out, n_twigs
