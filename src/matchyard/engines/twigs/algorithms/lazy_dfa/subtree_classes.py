"""lazy_dfa, the build: equal subtrees of all twigs are one *class*.

Whether an element satisfies a class depends on the element alone, not on the twig that asks. A
*requirement* is that there be such an element, as a child or anywhere below. A class has a symbol and
asks for requirements, and so does a tree of the document.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.hashing import mix64


class Classes(NamedTuple):
    """A condition is 2 * requirement, and 1 more where it must not be met."""

    class_symbol: NDArray[np.int32]
    condition_start: NDArray[np.int32]
    conditions: NDArray[np.int32]  # all of a class, ascending
    requirement_class: NDArray[np.int32]
    requirement_axis: NDArray[np.uint8]
    class_requirement: NDArray[np.int32]
    tree_start: NDArray[np.int32]
    tree_conditions: NDArray[np.int32]


def classes(twigs: Any) -> Classes:
    """The classes of all trees, and what they ask for."""
    n_nodes, n_trees = len(twigs.symbol), len(twigs.tree_start) - 1
    found = Classes(
        np.empty(n_nodes, np.int32),
        np.zeros(n_nodes + 1, np.int32),
        np.empty(n_nodes, np.int32),
        np.empty(n_nodes, np.int32),
        np.empty(n_nodes, np.uint8),
        np.full((n_nodes, 2), -1, np.int32),
        np.zeros(n_trees + 1, np.int32),
        np.empty(n_nodes, np.int32),
    )
    n_classes, n_conditions, n_requirements = _find(twigs, found)
    return Classes(
        found.class_symbol[:n_classes],
        found.condition_start[: n_classes + 1],
        found.conditions[:n_conditions],
        found.requirement_class[:n_requirements],
        found.requirement_axis[:n_requirements],
        found.class_requirement[:n_classes],
        found.tree_start,
        found.tree_conditions[: found.tree_start[-1]],
    )


@njit(nogil=True, cache=True)
def _find(twigs, found):
    """Number the classes from the leaves up: (classes, conditions, requirements)."""
    parent, axis, is_negated, symbol = twigs.parent, twigs.axis, twigs.is_negated, twigs.symbol
    size = 16
    while size < 2 * len(symbol):
        size *= 2
    places = np.full(size, -1, np.int32)
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
                found, places, symbol[node], chosen[:n_chosen], n_classes, n_conditions
            )
            if number == n_classes:
                n_classes += 1
                n_conditions += n_chosen
            if found.class_requirement[number, axis[node]] < 0:
                found.class_requirement[number, axis[node]] = n_requirements
                found.requirement_class[n_requirements] = number
                found.requirement_axis[n_requirements] = axis[node]
                n_requirements += 1
            requirement = found.class_requirement[number, axis[node]]
            code[here] = 2 * requirement + is_negated[node]
            following[here] = head[parent[node] + 1]
            head[parent[node] + 1] = here
        n_chosen = _sorted_codes(head[0], following, code, chosen)
        for i in range(n_chosen):
            found.tree_conditions[n_tops + i] = chosen[i]
        n_tops += n_chosen
        found.tree_start[tree + 1] = n_tops
    return n_classes, n_conditions, n_requirements


@njit(nogil=True, cache=True)
def _sorted_codes(node, following, code, chosen):
    """The codes of a node and those that follow it, ascending and each once."""
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
def _intern(found, places, symbol, conditions, n_classes, n_conditions):
    """The class with that symbol and those conditions; `n_classes` where it is new."""
    hashed = np.uint64(symbol)
    for condition in conditions:
        hashed = mix64(hashed ^ np.uint64(condition))
    hashed = mix64(hashed ^ np.uint64(len(conditions)))
    place = np.int64(hashed & np.uint64(len(places) - 1))
    while places[place] >= 0:
        number = places[place]
        start, end = found.condition_start[number], found.condition_start[number + 1]
        is_same = found.class_symbol[number] == symbol and end - start == len(conditions)
        for i in range(len(conditions)):
            is_same = is_same and found.conditions[start + i] == conditions[i]
        if is_same:
            return number
        place = (place + 1) & (len(places) - 1)
    places[place] = n_classes
    found.class_symbol[n_classes] = symbol
    found.condition_start[n_classes] = n_conditions
    found.conditions[n_conditions : n_conditions + len(conditions)] = conditions
    found.condition_start[n_classes + 1] = n_conditions + len(conditions)
    return n_classes
