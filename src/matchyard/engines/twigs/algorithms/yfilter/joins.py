"""Join the paths of a section of a document into twigs [YFilter].

Trees that the document can have are selected, then verified node by node from the leaves up. A node
holds at the elements where its path ends and where each child holds on the axis of the child. A
negated child must not hold there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.algorithms.yfilter.sections import add_around, carry
from matchyard.engines.twigs.language.model import DOCUMENT
from matchyard.kernels.bitset import ALL, ONE, ZERO
from matchyard.kernels.csr import count_values, ragged

# Flags of a node; the bits above them are its parent.
_IS_DESCENDANT = 1
_IS_NEGATED = 2
_IS_LEAF = 4
_IS_WANTED = 8  # neither the node nor an ancestor is negated
_IS_TOP = 16  # its parent is the document
_N_BITS = 5


class Trees(NamedTuple):
    """The nodes of trees, prepared for joining."""

    nodes: NDArray[np.int32]  # [n_nodes, 2] the state, and the parent with the flags
    wanted_start: NDArray[np.int32]  # [n_trees + 1]
    wanted: NDArray[np.int32]  # states of the paths that a tree needs, the rarest first
    is_final: NDArray[np.bool_]  # [n_trees] a tree that holds in a section holds in the document


class Joining(NamedTuple):
    """Arrays that joining changes. Sets of elements have a bit per element."""

    asked: NDArray[np.uint64]  # [most nodes of a tree, n_words] elements that have all children
    around: NDArray[np.uint64]  # [n_words] the parents or ancestors of the elements of a node
    carried: NDArray[np.uint64]  # [n_nodes, n_words] `around` of the sections before
    is_held: NDArray[np.uint8]  # [n_trees] the document has the tree
    selected: NDArray[np.int32]  # [n_trees] trees to join


def prepare(stored: Any, state_of: NDArray[np.int32]) -> Trees:
    """Prepare trees for joining, from the twigs and the states of their nodes."""
    bits = _node_bits(stored)
    n_trees = len(stored.tree_start) - 1
    trees = np.repeat(np.arange(n_trees), np.diff(stored.tree_start))
    is_final = np.ones(n_trees, bool)
    is_final[trees[(stored.parent == DOCUMENT) & stored.is_negated]] = False
    is_path = _IS_LEAF | _IS_WANTED
    paths = np.flatnonzero(bits & is_path == is_path)
    states = state_of[paths]
    n_uses = count_values(states, int(state_of.max(initial=0)) + 1)
    order = np.lexsort((n_uses[states], trees[paths]))
    return Trees(
        np.stack([state_of, bits | stored.parent << _N_BITS], axis=1),
        ragged(count_values(trees[paths], n_trees)).astype(np.int32),
        states[order],
        is_final,
    )


def make(tree_start: NDArray[np.int32], n_words: int, carries: bool) -> Joining:
    """Memory to join trees over sets of `n_words` words; `carries` if documents have sections."""
    n_trees, n_nodes = len(tree_start) - 1, int(tree_start[-1])
    return Joining(
        np.empty((int(np.diff(tree_start).max(initial=0)), n_words), np.uint64),
        np.empty(n_words, np.uint64),
        np.empty((n_nodes if carries else 0, n_words), np.uint64),
        np.empty(n_trees, np.uint8),
        np.empty(n_trees, np.int32),
    )


@njit(nogil=True, cache=True)
def _node_bits(stored):
    bits = np.empty(len(stored.parent), np.int32)
    for tree in range(len(stored.tree_start) - 1):
        first = stored.tree_start[tree]
        for node in range(first, stored.tree_start[tree + 1]):
            bits[node] = _IS_LEAF | (_IS_DESCENDANT if stored.axis[node] else 0)
            bits[node] |= _IS_NEGATED if stored.is_negated[node] else _IS_WANTED
            if stored.parent[node] == DOCUMENT:
                bits[node] |= _IS_TOP
            else:
                above = first + stored.parent[node]
                bits[above] &= ~_IS_LEAF
                if not bits[above] & _IS_WANTED:
                    bits[node] &= ~_IS_WANTED
    return bits


@njit(nogil=True, cache=True)
def select_undecided(is_held, selected):
    """Select the trees that did not hold so far; returns how many."""
    n_selected = 0
    for tree in range(len(is_held)):
        selected[n_selected] = tree
        n_selected += is_held[tree] == 0
    return n_selected


@njit(nogil=True, cache=True)
def select_found(wanted_start, wanted, is_touched, selected):
    """Select the trees whose needed paths were all found; returns how many."""
    n_selected = 0
    for tree in range(len(selected)):
        selected[n_selected] = tree
        i, end = wanted_start[tree], wanted_start[tree + 1]
        while i < end and is_touched[wanted[i]]:
            i += 1
        n_selected += i == end
    return n_selected


@njit(nogil=True, cache=True)
def verify_whole(nodes, tree_start, n_selected, section, joining):
    """Verify the selected trees in a document that is one section. Arrays are taken out of their
    tuples, because passing tuples on costs more than joining a node."""
    reached, closed, parent = section.reached, section.closed, section.parent
    around_of, asked, around = section.around, joining.asked, joining.around
    selected, is_held = joining.selected, joining.is_held
    for tree in selected[:n_selected]:
        first, last = tree_start[tree], tree_start[tree + 1]
        _ask_nothing(asked, last - first)
        is_in, node = True, last
        while is_in and node > first:
            node -= 1
            state, bits = nodes[node, 0], nodes[node, 1]
            if bits & _IS_LEAF:
                _copy(around_of, state, around)
            else:
                _hold(reached, state, closed, asked, node - first)
                _look(parent, bits, asked, node - first, around)
            is_in = _ask(bits, around, asked) or not bits & (_IS_WANTED | _IS_TOP)
        is_held[tree] = is_in


@njit(nogil=True, cache=True)
def verify_part(
    nodes, tree_start, n_selected, section, joining, level, is_first, is_last, is_final
):
    """Verify the selected trees in the closed elements of a section. Results within elements that
    are still open are carried on to the next section."""
    reached, closed, parent = section.reached, section.closed, section.parent
    around_of, asked, around = section.around, joining.asked, joining.around
    selected, is_held = joining.selected, joining.is_held
    carried, bit_at = joining.carried, section.bit_at
    for tree in selected[:n_selected]:
        first, last = tree_start[tree], tree_start[tree + 1]
        _ask_nothing(asked, last - first)
        is_in = True
        for node in range(last - 1, first - 1, -1):
            state, bits = nodes[node, 0], nodes[node, 1]
            if bits & _IS_LEAF:
                _copy(around_of, state, around)
            else:
                _hold(reached, state, closed, asked, node - first)
                _look(parent, bits, asked, node - first, around)
            if not is_first:
                _add(carried, node, around)
            if not is_last:
                carry(bit_at, level, around, carried, node)
            is_in &= _ask(bits, around, asked) or not bits & _IS_TOP
        is_held[tree] = is_in and (is_last or is_final[tree])


@njit(nogil=True, cache=True)
def _ask_nothing(asked, n_nodes):
    for node in range(n_nodes):
        for word in range(asked.shape[1]):
            asked[node, word] = ALL


@njit(nogil=True, cache=True)
def _copy(sets, row, around):
    for word in range(len(around)):
        around[word] = sets[row, word]


@njit(nogil=True, cache=True)
def _add(sets, row, around):
    for word in range(len(around)):
        around[word] |= sets[row, word]


@njit(nogil=True, cache=True)
def _hold(reached, state, closed, asked, node):
    """Keep the elements at which the node holds, among those that have all its children."""
    for word in range(len(closed)):
        asked[node, word] &= reached[state, word] & closed[word]


@njit(nogil=True, cache=True)
def _look(parent, bits, held, node, around):
    """Write the parents or ancestors of the elements at which a node holds. A top node has only the
    document around it, by `/` if the node holds at the root, whose bit follows the document's."""
    for word in range(len(around)):
        around[word] = ZERO
    if not bits & _IS_TOP:
        for word in range(len(around)):
            add_around(parent, held[node, word], word, bits & _IS_DESCENDANT, around)
    elif bits & _IS_DESCENDANT:
        for word in range(len(around)):
            around[0] |= ONE if held[node, word] else ZERO
    else:
        around[0] = held[node, 0] >> ONE & ONE


@njit(nogil=True, cache=True)
def _ask(bits, around, asked):
    """Restrict the parent of a node to `around`, or to the rest if the node is negated; true if an
    element of the section remains. The parent of a top node is the document."""
    flip = ALL if bits & _IS_NEGATED else ZERO
    parent = bits >> _N_BITS
    if bits & _IS_TOP:
        return (around[0] ^ flip) & ONE != ZERO
    any_bit = ZERO
    for word in range(len(around)):
        asked[parent, word] &= around[word] ^ flip
        any_bit |= asked[parent, word]
    return any_bit != ZERO
