"""lazy_dfa, the build: equal subtrees of all twigs are one *class*.

An element satisfies a class whichever twig the class is from. A *requirement* is the demand for an
element of a class, as a child or as any descendant. A class has a symbol and conditions: requirements
that must be met or must not be met. A tree has such conditions for the document.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.growing import put
from matchyard.kernels.hashing import mix64


class Classes(NamedTuple):
    """A condition is 2 * requirement, plus 1 if it must not be met."""

    class_symbol: NDArray[np.int32]
    condition_start: NDArray[np.int32]
    conditions: NDArray[np.int32]  # all of a class, ascending
    requirement_class: NDArray[np.int32]
    requirement_axis: NDArray[np.uint8]
    tree_start: NDArray[np.int32]
    tree_conditions: NDArray[np.int32]


def classes(twigs: Any) -> Classes:
    """The classes of all trees, and their conditions."""
    n_nodes, n_trees = len(twigs.symbol), len(twigs.tree_start) - 1
    subtrees = Classes(
        np.empty(n_nodes, np.int32),
        np.zeros(n_nodes + 1, np.int32),
        np.empty(n_nodes, np.int32),
        np.empty(n_nodes, np.int32),
        np.empty(n_nodes, np.uint8),
        np.zeros(n_trees + 1, np.int32),
        np.empty(n_nodes, np.int32),
    )
    n_classes, n_conditions, n_requirements = _find(twigs, subtrees)
    return Classes(
        subtrees.class_symbol[:n_classes],
        subtrees.condition_start[: n_classes + 1],
        subtrees.conditions[:n_conditions],
        subtrees.requirement_class[:n_requirements],
        subtrees.requirement_axis[:n_requirements],
        subtrees.tree_start,
        subtrees.tree_conditions[: subtrees.tree_start[-1]],
    )


@njit(nogil=True, cache=True)
def _find(twigs, subtrees):
    """Number the classes from the leaves up; returns the counts of classes, conditions and
    requirements."""
    parent, axis, is_negated, symbol = twigs.parent, twigs.axis, twigs.is_negated, twigs.symbol
    size = 16
    while size < 2 * len(symbol):
        size *= 2
    slots = np.full(size, -1, np.int32)
    class_requirement = np.full((len(symbol), 2), -1, np.int32)  # by axis
    most = 1
    for tree in range(len(twigs.tree_start) - 1):
        most = max(most, twigs.tree_start[tree + 1] - twigs.tree_start[tree])
    head, following = np.empty(most + 1, np.int32), np.empty(most, np.int32)
    code = np.empty(most, np.int32)
    chosen = np.empty(most, np.int32)
    n_classes, n_conditions = np.int64(0), np.int64(0)
    n_requirements, n_tops = 0, 0
    for tree in range(len(twigs.tree_start) - 1):
        first, last = twigs.tree_start[tree], twigs.tree_start[tree + 1]
        head[: last - first + 1] = -1
        for node in range(last - 1, first - 1, -1):
            here = node - first
            n_chosen = _sorted_codes(head[here + 1], following, code, chosen)
            number = _intern(
                subtrees, slots, symbol[node], chosen[:n_chosen], n_classes, n_conditions
            )
            if number == n_classes:
                n_classes += 1
                n_conditions += n_chosen
            if class_requirement[number, axis[node]] < 0:
                class_requirement[number, axis[node]] = n_requirements
                subtrees.requirement_class[n_requirements] = number
                subtrees.requirement_axis[n_requirements] = axis[node]
                n_requirements += 1
            requirement = class_requirement[number, axis[node]]
            code[here] = 2 * requirement + is_negated[node]
            following[here] = head[parent[node] + 1]
            head[parent[node] + 1] = here
        n_chosen = _sorted_codes(head[0], following, code, chosen)
        for i in range(n_chosen):
            subtrees.tree_conditions[n_tops + i] = chosen[i]
        n_tops += n_chosen
        subtrees.tree_start[tree + 1] = n_tops
    return n_classes, n_conditions, n_requirements


@njit(nogil=True, cache=True)
def _sorted_codes(node, following, code, chosen):
    """Write the codes of a node and its siblings to `chosen`, ascending and without duplicates."""
    n_chosen = 0
    while node >= 0:
        at = n_chosen
        while at > 0 and chosen[at - 1] > code[node]:
            at -= 1
        if at == 0 or chosen[at - 1] != code[node]:
            for i in range(n_chosen, at, -1):
                chosen[i] = chosen[i - 1]
            chosen[at] = code[node]
            n_chosen += 1
        node = following[node]
    return n_chosen


@njit(nogil=True, cache=True)
def _intern(subtrees, slots, symbol, conditions, n_classes, n_conditions):
    """The class with the given symbol and conditions; `n_classes` if it is new."""
    hashed = np.uint64(symbol)
    for condition in conditions:
        hashed = mix64(hashed ^ np.uint64(condition))
    hashed = mix64(hashed ^ np.uint64(len(conditions)))
    slot = np.int64(hashed & np.uint64(len(slots) - 1))
    while slots[slot] >= 0:
        number = slots[slot]
        start, end = subtrees.condition_start[number], subtrees.condition_start[number + 1]
        is_same = subtrees.class_symbol[number] == symbol and end - start == len(conditions)
        for i in range(len(conditions)):
            is_same = is_same and subtrees.conditions[start + i] == conditions[i]
        if is_same:
            return number
        slot = (slot + 1) & (len(slots) - 1)
    slots[slot] = n_classes
    subtrees.class_symbol[n_classes] = symbol
    subtrees.condition_start[n_classes] = n_conditions
    put(subtrees.conditions, n_conditions, conditions, 0, len(conditions))
    subtrees.condition_start[n_classes + 1] = n_conditions + len(conditions)
    return n_classes
