"""One automaton for the paths of all twigs [YFilter]: equal prefixes are the same states.

A state is a path of steps from the document to a node. Elements where that path ends reach the
state. Steps by name are in one hash table, steps by `*` are stored with the state. A state with a
step by `//` is a loop: it stays active for all descendants of its element. At run time a stack has
the states of each open element; a closing element removes its states [YFilter].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.encoder.layout import ANY
from matchyard.engines.twigs.language.model import Axis

_ODD = np.uint64(0x9E3779B97F4A7C15)
_CHILD, _DESCENDANT = int(Axis.CHILD), int(Axis.DESCENDANT)
_IS_LOOP, _HAS_CHILD_NAMES, _HAS_DESCENDANT_NAMES = np.uint8(1), np.uint8(2), np.uint8(4)
START = 0  # the state of the document


class Paths(NamedTuple):
    """The automaton."""

    state_of: NDArray[np.int32]  # [n_nodes] the states of the nodes of twigs
    state_axis: NDArray[np.uint8]  # [n_states] the axis of the last step
    state_kind: NDArray[np.uint8]  # [n_states] bits: see _IS_LOOP and the next two
    any_child: NDArray[np.int32]  # [n_states] where `/*` leads, or -1
    any_descendant: NDArray[np.int32]  # [n_states] where `//*` leads, or -1
    step_keys: NDArray[np.int64]  # a hash table of steps by name: `_key`, or -1
    step_states: NDArray[np.int32]  # where the steps lead


class Active(NamedTuple):
    """The run-time stack without the states themselves."""

    start: NDArray[np.int64]  # [n_levels + 2] of each level in the stack of states
    loops: NDArray[np.int32]  # the active loops, in the order in which they began
    loop_end: NDArray[np.int64]  # [n_levels + 1] the end of the loops of each level
    is_active: NDArray[np.uint8]  # [n_states] the state is among the loops


def build(stored: Any) -> Paths:
    """The automaton of all trees."""
    state_of, source, axis, symbol = _number(stored)
    n_states = len(source)
    kind = np.zeros(n_states, np.uint8)
    any_of = np.full((2, n_states), -1, np.int32)
    is_name = symbol != ANY
    is_step = np.arange(n_states) != START
    for way, bit in ((_CHILD, _HAS_CHILD_NAMES), (_DESCENDANT, _HAS_DESCENDANT_NAMES)):
        states = np.flatnonzero(is_step & ~is_name & (axis == way))
        any_of[way, source[states]] = states
        kind[source[is_step & is_name & (axis == way)]] |= bit
    kind[source[is_step & (axis == _DESCENDANT)]] |= _IS_LOOP
    named = np.flatnonzero(is_step & is_name)
    steps = _fill(named, source, axis, symbol)
    return Paths(state_of, axis, kind, any_of[_CHILD], any_of[_DESCENDANT], *steps)


def activate(paths: Paths, n_levels: int) -> Active:
    """A run-time stack for `n_levels` nested elements."""
    n_states = len(paths.state_kind)
    return Active(
        np.zeros(n_levels + 2, np.int64),
        np.empty(n_states, np.int32),
        np.zeros(n_levels + 1, np.int64),
        np.zeros(n_states, np.uint8),
    )


@njit(nogil=True, cache=True)
def _key(state, axis, symbol):
    return ((np.int64(state) * 2 + axis) << 32) | (np.int64(symbol) + 1)


@njit(nogil=True, cache=True)
def _slot(keys, key):
    """The slot of a key in a hash table, or the free slot for it."""
    mask = np.uint64(len(keys) - 1)
    slot = (np.uint64(key) * _ODD) >> np.uint64(29) & mask
    while keys[slot] != key and keys[slot] >= 0:
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit(nogil=True, cache=True)
def _empty_keys(n_keys):
    size = 16
    while size < 2 * n_keys:
        size *= 2
    return np.full(size, -1, np.int64)


@njit(nogil=True, cache=True)
def _number(stored):
    """The state of every node; and of every state the source, axis and symbol of its last step."""
    tree_start, parent = stored.tree_start, stored.parent
    n_nodes = len(parent)
    keys = _empty_keys(n_nodes)
    states = np.empty(len(keys), np.int32)
    state_of = np.empty(n_nodes, np.int32)
    source, symbol = np.zeros(n_nodes + 1, np.int32), np.zeros(n_nodes + 1, np.int32)
    axis = np.zeros(n_nodes + 1, np.uint8)
    n_states = 1
    for tree in range(len(tree_start) - 1):
        first = tree_start[tree]
        for node in range(first, tree_start[tree + 1]):
            above = state_of[first + parent[node]] if parent[node] >= 0 else START
            key = _key(above, stored.axis[node], stored.tag[node])
            slot = _slot(keys, key)
            if keys[slot] < 0:
                keys[slot], states[slot] = key, n_states
                source[n_states], axis[n_states] = above, stored.axis[node]
                symbol[n_states] = stored.tag[node]
                n_states += 1
            state_of[node] = states[slot]
    return state_of, source[:n_states], axis[:n_states], symbol[:n_states]


@njit(nogil=True, cache=True)
def _fill(states, source, axis, symbol):
    keys = _empty_keys(len(states))
    step_states = np.full(len(keys), -1, np.int32)
    for state in states:
        key = _key(source[state], axis[state], symbol[state])
        slot = _slot(keys, key)
        keys[slot], step_states[slot] = key, state
    return keys, step_states


@njit(nogil=True, cache=True)
def begin(paths, active, here):
    """Start a document: only its own state is active."""
    for i in range(active.loop_end[0]):
        active.is_active[active.loops[i]] = 0
    here[0] = START
    active.start[0], active.start[1] = 0, 1
    active.loop_end[0] = 0
    _begin_loops(paths, active, 0, here)


@njit(nogil=True, cache=True)
def room(paths, active, level, here):
    """The stack of states, with room for all states that the next element may reach."""
    if active.start[level + 1] + len(paths.state_kind) > len(here):
        return np.append(here, np.empty(len(here) + len(paths.state_kind), np.int32))
    return here


@njit(nogil=True, cache=True)
def enter(paths, active, level, symbol, here):
    """Push the states that an opening element reaches, as the states of `level`."""
    active.start[level + 1] = reach(paths, active, level - 1, symbol, True, here)
    active.loop_end[level] = active.loop_end[level - 1]
    _begin_loops(paths, active, level, here)


@njit(nogil=True, cache=True)
def leave(active, level):
    """End the loops of a closing element."""
    for i in range(active.loop_end[level - 1], active.loop_end[level]):
        active.is_active[active.loops[i]] = 0


@njit(nogil=True, cache=True)
def reach(paths, active, level, symbol, is_element, here):
    """Write the states that an element or leaf below the element of `level` reaches to the top of
    the stack; returns their end."""
    kinds, start = paths.state_kind, active.start
    end = start[level + 1]
    for i in range(start[level], start[level + 1]):
        state = here[i]
        if is_element and paths.any_child[state] >= 0:
            here[end] = paths.any_child[state]
            end += 1
        if kinds[state] & _HAS_CHILD_NAMES:
            end = _follow(paths, _key(state, _CHILD, symbol), here, end)
    for i in range(active.loop_end[level]):
        state = active.loops[i]
        if is_element and paths.any_descendant[state] >= 0:
            here[end] = paths.any_descendant[state]
            end += 1
        if kinds[state] & _HAS_DESCENDANT_NAMES:
            end = _follow(paths, _key(state, _DESCENDANT, symbol), here, end)
    return end


@njit(nogil=True, cache=True)
def _follow(paths, key, here, end):
    slot = _slot(paths.step_keys, key)
    if paths.step_keys[slot] < 0:
        return end
    here[end] = paths.step_states[slot]
    return end + 1


@njit(nogil=True, cache=True)
def _begin_loops(paths, active, level, here):
    """Make the loops among the states of a level active, each once."""
    end = active.loop_end[level]
    for i in range(active.start[level], active.start[level + 1]):
        state = here[i]
        if paths.state_kind[state] & _IS_LOOP and not active.is_active[state]:
            active.is_active[state] = 1
            active.loops[end] = state
            end += 1
    active.loop_end[level] = end
