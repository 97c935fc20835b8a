"""lazy_dfa, the build: equal subtrees of all twigs are one *class*.

Whether an element satisfies a class depends on the element alone, not on the twig that asks. What a
class asks of the elements below is a list of *requirements*: some class, at a child or anywhere
below. A tree asks the same of the document.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.csr import ragged
from matchyard.kernels.hashing import mix64


class Classes(NamedTuple):
    """What twigs ask for. A condition is 2 * requirement, and 1 more where it must not be met."""

    class_tag: NDArray[np.int32]  # [n_classes]
    condition_start: NDArray[np.int32]  # [n_classes + 1]
    conditions: NDArray[np.int32]  # within a class, what fewest ask for first: it is met least
    requirement_class: NDArray[np.int32]  # [n_requirements]
    requirement_axis: NDArray[np.uint8]
    class_requirement: NDArray[np.int32]  # [n_classes, 2] by axis, -1 where nobody asks
    tree_start: NDArray[np.int32]  # [n_trees + 1] into the conditions of trees
    tree_conditions: NDArray[np.int32]
    asked_start: NDArray[np.int32]  # [n_requirements + 1] trees that are looked at when it is met
    asked_trees: NDArray[np.int32]
    free_trees: NDArray[np.int32]  # trees that ask for nothing, so that all are looked at
    tree_row: NDArray[np.int32]  # [n_trees]


def classes(twigs: Any) -> Classes:
    """The classes of all trees."""
    n_nodes, n_trees = len(twigs.tag), len(twigs.tree_start) - 1
    found = _Found(
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
    _rarest_first(found.condition_start[: n_classes + 1], found.conditions, n_requirements)
    tree_conditions = found.tree_conditions[: found.tree_start[-1]].copy()
    first = _first_asked(found.tree_start, tree_conditions)
    asked = np.flatnonzero(first >= 0).astype(np.int32)
    order = np.argsort(first[asked], kind="stable")
    counts = np.bincount(first[asked], minlength=n_requirements)
    rows = np.repeat(np.arange(twigs.n_rows, dtype=np.int32), np.diff(twigs.row_start))
    return Classes(
        found.class_tag[:n_classes].copy(),
        found.condition_start[: n_classes + 1].copy(),
        found.conditions[:n_conditions].copy(),
        found.requirement_class[:n_requirements].copy(),
        found.requirement_axis[:n_requirements].copy(),
        found.class_requirement[:n_classes].copy(),
        found.tree_start,
        tree_conditions,
        ragged(counts).astype(np.int32),
        asked[order],
        np.flatnonzero(first < 0).astype(np.int32),
        rows,
    )


class _Found(NamedTuple):
    """As in `Classes`, with room for more."""

    class_tag: NDArray[np.int32]
    condition_start: NDArray[np.int32]
    conditions: NDArray[np.int32]
    requirement_class: NDArray[np.int32]
    requirement_axis: NDArray[np.uint8]
    class_requirement: NDArray[np.int32]
    tree_start: NDArray[np.int32]
    tree_conditions: NDArray[np.int32]


@njit(nogil=True, cache=True)
def _find(twigs, found):
    """Number the classes from the leaves up: (classes, conditions, requirements)."""
    parent, axis, is_negated, tag = twigs.parent, twigs.axis, twigs.is_negated, twigs.tag
    size = 16
    while size < 2 * len(tag):
        size *= 2
    places = np.full(size, -1, np.int32)
    most = 1
    for tree in range(len(twigs.tree_start) - 1):
        most = max(most, twigs.tree_start[tree + 1] - twigs.tree_start[tree])
    head, following = np.empty(most + 1, np.int32), np.empty(most, np.int32)
    code = np.empty(most, np.int32)
    chosen = np.empty(most, np.int32)
    n_classes, n_conditions, n_requirements, n_tops = 0, 0, 0, 0
    for tree in range(len(twigs.tree_start) - 1):
        first, last = twigs.tree_start[tree], twigs.tree_start[tree + 1]
        head[: last - first + 1] = -1
        for node in range(last - 1, first - 1, -1):
            here = node - first
            n_chosen = _sorted_codes(head[here + 1], following, code, chosen)
            number = _intern(found, places, tag[node], chosen[:n_chosen], n_classes, n_conditions)
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
def _intern(found, places, tag, conditions, n_classes, n_conditions):
    """The class with that tag and those conditions; `n_classes` where it is new."""
    hashed = np.uint64(tag)
    for condition in conditions:
        hashed = mix64(hashed ^ np.uint64(condition))
    hashed = mix64(hashed ^ np.uint64(len(conditions)))
    place = np.int64(hashed & np.uint64(len(places) - 1))
    while places[place] >= 0:
        number = places[place]
        start, end = found.condition_start[number], found.condition_start[number + 1]
        is_same = found.class_tag[number] == tag and end - start == len(conditions)
        for i in range(len(conditions)):
            is_same = is_same and found.conditions[start + i] == conditions[i]
        if is_same:
            return number
        place = (place + 1) & (len(places) - 1)
    places[place] = n_classes
    found.class_tag[n_classes] = tag
    found.condition_start[n_classes] = n_conditions
    found.conditions[n_conditions : n_conditions + len(conditions)] = conditions
    found.condition_start[n_classes + 1] = n_conditions + len(conditions)
    return n_classes


@njit(nogil=True, cache=True)
def _first_asked(tree_start, tree_conditions):
    """Per tree a requirement without which it cannot hold, the last; -1 for none."""
    first = np.full(len(tree_start) - 1, -1, np.int64)
    for tree in range(len(first)):
        for i in range(tree_start[tree], tree_start[tree + 1]):
            if tree_conditions[i] & 1 == 0:
                first[tree] = tree_conditions[i] >> 1
    return first


@njit(nogil=True, cache=True)
def _rarest_first(condition_start, conditions, n_requirements):
    """Order the conditions of each class by how many ask for the same, so that a class which does
    not hold fails at the first as a rule."""
    n_uses = np.zeros(n_requirements, np.int64)
    for c in range(condition_start[-1]):
        n_uses[conditions[c] >> 1] += 1
    for number in range(len(condition_start) - 1):
        first = condition_start[number]
        for c in range(first + 1, condition_start[number + 1]):
            condition, at = conditions[c], c
            while at > first and n_uses[conditions[at - 1] >> 1] > n_uses[condition >> 1]:
                conditions[at] = conditions[at - 1]
                at -= 1
            conditions[at] = condition
