"""lazy_dfa, the build: the requirements of all twigs, in an order that is fast to examine.

Matching needs no classes: a requirement has the symbol and the conditions of its class.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.algorithms.lazy_dfa.subtree_classes import Classes, classes
from matchyard.engines.twigs.encoder.layout import ANY
from matchyard.engines.twigs.language.model import Axis
from matchyard.kernels.csr import ragged, take_rows

N_OTHERS = 3  # conditions beside the lead that are examined without a branch


class Requirements(NamedTuple):
    """The requirements of all twigs. A condition is 2 * requirement, plus 1 if it must not be met.

    A requirement with conditions that must be met has a *lead*: the one that is probably met least
    often. It is examined if its lead is met. Requirements are numbered by symbol. Those with the
    same lead are neighbours, because they are met together: sets of them take few words. One more
    number, NEVER, stands for a requirement that is never met.
    """

    tag_start: NDArray[np.int32]  # [n_symbols + 2] requirements by symbol (a "tag"), `*` first
    lead: NDArray[np.uint32]  # [n_requirements + 1] NEVER if there is none
    others: NDArray[np.uint32]  # [n_requirements + 1, 3] conditions, filled up with the lead
    more_start: NDArray[np.int32]  # [n_requirements + 2]
    more: NDArray[np.int32]  # further conditions; all conditions if there is no lead
    has_more: NDArray[np.uint64]  # [n_words] bits
    is_free: NDArray[np.uint64]  # [n_words] bits: it has no lead
    is_deep: NDArray[np.uint64]  # [n_words] bits: any descendant may meet it, not only a child
    led_start: NDArray[np.int32]  # [n_requirements + 2] requirements by their leads
    led: NDArray[np.int32]
    tops: NDArray[np.int32]  # requirements of the document, ascending
    tree_start: NDArray[np.int32]  # [n_trees + 1] into the conditions of trees
    tree_conditions: NDArray[np.int32]
    asked_start: NDArray[np.int32]  # [64 * n_words + 1] by requirement of the document:
    asked: NDArray[
        np.int32
    ]  # a row, which then matches; or -1 - tree, which may have more conditions
    free_trees: NDArray[np.int32]  # trees without such a requirement, which are always examined
    tree_row: NDArray[np.int32]  # [n_trees]


def requirements(twigs: Any) -> Requirements:
    """The requirements of all trees."""
    subtrees = classes(twigs)
    n_uses = np.bincount(subtrees.conditions >> 1, minlength=len(subtrees.requirement_class))
    lead = _leads(subtrees, n_uses)
    order = _order(subtrees, lead, n_uses)
    never = len(order)
    number = np.append(np.empty(never, np.int32), np.int32(never))  # number[-1]: no lead
    number[order] = np.arange(never, dtype=np.int32)
    starts, conditions = take_rows(
        subtrees.condition_start,
        _renumbered(subtrees.conditions, number),
        subtrees.requirement_class[order],
    )
    leads = np.append(number[lead[subtrees.requirement_class[order]]], np.int32(never))
    others, more_start, more = _split(starts, conditions, leads)
    symbols = subtrees.class_symbol[subtrees.requirement_class[order]]
    n_symbols = int(symbols.max(initial=0)) + 1
    is_deep = _bits(np.append(subtrees.requirement_axis[order] == Axis.DESCENDANT, False))
    return Requirements(
        ragged(np.bincount(symbols + 1, minlength=n_symbols + 1)).astype(np.int32),
        leads.astype(np.uint32),
        others,
        more_start.astype(np.int32),
        more,
        _bits(np.diff(more_start) > 0),
        _bits(leads == never),
        is_deep,
        ragged(np.bincount(leads[:-1], minlength=never + 1)).astype(np.int32),
        np.argsort(leads[:-1], kind="stable").astype(np.int32),
        *_trees(
            twigs, subtrees.tree_start, _renumbered(subtrees.tree_conditions, number), len(is_deep)
        ),
    )


def _order(
    subtrees: Classes, lead: NDArray[np.int64], n_uses: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Requirements by symbol: first those without a lead, then by falling use of the lead."""
    own = subtrees.requirement_class
    leads = lead[own]
    popular = np.append(n_uses, len(subtrees.conditions) + 1)[leads]  # the last where there is none
    return np.lexsort((subtrees.requirement_axis, leads, -popular, subtrees.class_symbol[own]))


def _renumbered(conditions: NDArray[np.int32], number: NDArray[np.int32]) -> NDArray[np.int32]:
    return (2 * number[conditions >> 1] + (conditions & 1)).astype(np.int32)


def _bits(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pack flags, 64 to a word."""
    padded = np.zeros(-(-len(flags) // 64) * 64, np.bool_)
    padded[: len(flags)] = flags
    return np.packbits(padded, bitorder="little").view(np.uint64)


def _trees(
    twigs: Any,
    tree_start: NDArray[np.int32],
    conditions: NDArray[np.int32],
    n_words: int,
) -> tuple[NDArray[np.int32], ...]:
    """The conditions of trees on the document, and the rows or trees to examine by requirement."""
    first = _first_asked(tree_start, conditions)
    asked = np.flatnonzero(first >= 0)
    asked = asked[np.argsort(first[asked], kind="stable")]
    n_trees = np.diff(twigs.row_start)
    rows = np.repeat(np.arange(twigs.n_rows, dtype=np.int32), n_trees)
    is_sure = (np.diff(tree_start) == 1) & (n_trees[rows] == 1)
    return (
        np.unique(conditions >> 1),
        tree_start,
        conditions,
        ragged(np.bincount(first[asked], minlength=64 * n_words)).astype(np.int32),
        np.where(is_sure, rows, -1 - np.arange(len(rows), dtype=np.int32))[asked],
        np.flatnonzero(first < 0).astype(np.int32),
        rows,
    )


@njit(nogil=True, cache=True)
def _first_asked(tree_start, tree_conditions):
    """Per tree the last requirement that must be met; -1 for none."""
    first = np.full(len(tree_start) - 1, -1, np.int64)
    for tree in range(len(first)):
        for i in range(tree_start[tree], tree_start[tree + 1]):
            if tree_conditions[i] & 1 == 0:
                first[tree] = tree_conditions[i] >> 1
    return first


@njit(nogil=True, cache=True)
def _leads(subtrees, n_uses):
    """Per class the requirement that is probably met least often: it has the most names and, among
    equals, the fewest uses; -1 for none."""
    condition_start, conditions, class_symbol = (
        subtrees.condition_start,
        subtrees.conditions,
        subtrees.class_symbol,
    )
    leads = np.full(len(class_symbol), -1, np.int64)
    n_names = np.zeros(len(class_symbol), np.int64)  # known where needed: subtrees are found first
    for number in range(len(class_symbol)):
        n_names[number] = class_symbol[number] != ANY
        for c in range(condition_start[number], condition_start[number + 1]):
            if conditions[c] & 1:
                continue
            requirement, lead = conditions[c] >> 1, leads[number]
            own = n_names[subtrees.requirement_class[requirement]]
            n_names[number] += own
            most = n_names[subtrees.requirement_class[lead]] if lead >= 0 else -1
            if own > most or (own == most and n_uses[requirement] < n_uses[lead]):
                leads[number] = requirement
    return leads


@njit(nogil=True, cache=True)
def _split(start, conditions, leads):
    """Split the conditions of each requirement: (others, start of the rest, the rest)."""
    never = len(leads) - 1
    others = np.empty((len(leads), N_OTHERS), np.uint32)
    more_start = np.zeros(len(leads) + 1, np.int64)
    more, n_more = np.empty(len(conditions), np.int32), 0
    for number in range(len(leads)):
        others[number] = 2 * leads[number]
        n_others = 0 if leads[number] < never else N_OTHERS
        for c in range(start[number], start[number + 1]) if number < never else range(0):
            if conditions[c] == 2 * leads[number]:
                continue
            if n_others < N_OTHERS:
                others[number, n_others] = conditions[c]
                n_others += 1
            else:
                more[n_more] = conditions[c]
                n_more += 1
        more_start[number + 1] = n_more
    return others, more_start, more[:n_more].copy()
