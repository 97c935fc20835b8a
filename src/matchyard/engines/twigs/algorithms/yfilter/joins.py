"""Paths that were found in a section of a document are joined into twigs.

First the trees are selected that can be in the document, then each is verified: node by node from
the leaves up, the elements at which a node holds are those where its path ends and that have, at
the elements within them, what each child asks for [YFilter]. Negated children ask for the
opposite.
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

# What is said of a node beside its state; the bits above are its parent.
_IS_DESCENDANT = 1
_IS_NEGATED = 2
_IS_LEAF = 4
_IS_WANTED = 8  # neither it nor a node above it is negated
_IS_TOP = 16  # its parent is the document
_N_BITS = 5


class Trees(NamedTuple):
    """What joining reads."""

    nodes: NDArray[np.int32]  # [n_nodes, 2] the state, and the parent with the bits above
    wanted_start: NDArray[np.int32]  # [n_trees + 1]
    wanted: NDArray[np.int32]  # states of paths without which a tree cannot be, the rarest first
    is_final: NDArray[np.bool_]  # [n_trees] does it hold for good once it holds?


class Joining(NamedTuple):
    """What joining mutates."""

    asked: NDArray[np.uint64]  # [most nodes of a tree, n_words] elements with what children ask for
    around: NDArray[np.uint64]  # [n_words] what the elements of a node are seen from
    carried: NDArray[np.uint64]  # [n_nodes, n_words] `around` of the sections before
    is_held: NDArray[np.uint8]  # [n_trees] is it in the document for good?
    selected: NDArray[np.int32]  # [n_trees] trees that are to be joined


def prepare(stored: Any, state_of: NDArray[np.int32]) -> Trees:
    """What joining reads, from the twigs and the states of their nodes."""
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
    """Room to join trees over sets of so many words, with what is carried on from section to
    section if that is needed."""
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
    """The trees that are not yet known to be in the document; returns how many."""
    n_selected = 0
    for tree in range(len(is_held)):
        selected[n_selected] = tree
        n_selected += is_held[tree] == 0
    return n_selected


@njit(nogil=True, cache=True)
def select_found(wanted_start, wanted, is_touched, selected):
    """The trees all of whose paths were found, as far as they must be; returns how many."""
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
    """Which of the selected trees are in the document, all of which is in the section? Arrays are
    taken out of their tuples, since handing these on costs more than joining a node."""
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
    """Which of the selected trees are in the document, as far as its elements have ended? What is
    found within those that are still open is carried on to the next section."""
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
    """Of the elements with what the children of a node ask for, those at which it holds."""
    for word in range(len(closed)):
        asked[node, word] &= reached[state, word] & closed[word]


@njit(nogil=True, cache=True)
def _look(parent, bits, held, node, around):
    """What the elements at which a node holds are seen from. A node below the document is seen from
    there only, by `/` if it holds at the root, whose bit follows that of the document."""
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
    """A node asks for itself: its parent may hold only where it is seen from, or is not if it is
    negated. Is there such an element in the section? For a node below the document it is that."""
    flip = ALL if bits & _IS_NEGATED else ZERO
    parent = bits >> _N_BITS
    if bits & _IS_TOP:
        return (around[0] ^ flip) & ONE != ZERO
    any_bit = ZERO
    for word in range(len(around)):
        asked[parent, word] &= around[word] ^ flip
        any_bit |= asked[parent, word]
    return any_bit != ZERO
