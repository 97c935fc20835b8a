"""The elements where paths end in a section of a document: a bit per element for each state.

A section has bits for the elements that were open when it began, from the document downwards, then
for those that opened since. A set of elements is thus a few words. The ancestors of a set are found
by going up from its bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.twigs.language.model import Axis
from matchyard.kernels.bitset import ONE, WORD, ZERO, lowest_one

_DESCENDANT = int(Axis.DESCENDANT)
_N_BITS, _N_KEPT, _N_TOUCHED = 0, 1, 2


class Section(NamedTuple):
    """Matches of paths, by state and element."""

    reached: NDArray[np.uint64]  # [n_states, n_words] the elements where a path ends
    around: NDArray[np.uint64]  # [n_states, n_words] their parents, or ancestors for `//`
    touched: NDArray[np.int32]  # [n_states] states with bits in `reached` or `around`
    is_touched: NDArray[np.uint8]  # [n_states]
    parent: NDArray[np.int32]  # [n_words * 64] the bit of the parent of each element
    closed: NDArray[np.uint64]  # [n_words] elements that have closed
    bit_at: NDArray[np.int32]  # [n_levels + 1] bits of the open elements
    counts: NDArray[np.int64]  # [3] elements, those open at the start, states touched


def make(n_states: int, n_elements: int, n_levels: int) -> Section:
    """Memory for `n_elements` elements beside those open at the start."""
    n_words = -(-(n_elements + n_levels + 1) // WORD)
    return Section(
        np.zeros((n_states, n_words), np.uint64),
        np.zeros((n_states, n_words), np.uint64),
        np.empty(n_states, np.int32),
        np.zeros(n_states, np.uint8),
        np.empty(n_words * WORD, np.int32),
        np.empty(n_words, np.uint64),
        np.empty(n_levels + 1, np.int32),
        np.zeros(3, np.int64),
    )


@njit(nogil=True, cache=True)
def begin(section, level):
    """Start a section in which the elements up to `level` are open; level 0 is the document."""
    for i in range(section.counts[_N_TOUCHED]):
        state = section.touched[i]
        section.reached[state] = ZERO
        section.around[state] = ZERO
        section.is_touched[state] = 0
    section.closed[:] = ZERO
    for bit in range(level + 1):
        section.bit_at[bit] = bit
        section.parent[bit] = bit - 1
    section.counts[_N_BITS] = section.counts[_N_KEPT] = level + 1
    section.counts[_N_TOUCHED] = 0


@njit(nogil=True, cache=True)
def n_new(section):
    """How many elements opened in the section."""
    return section.counts[_N_BITS] - section.counts[_N_KEPT]


@njit(nogil=True, cache=True)
def open_element(section, level):
    """Give an opening element a bit; returns the bit."""
    bit = section.counts[_N_BITS]
    section.counts[_N_BITS] = bit + 1
    section.bit_at[level] = bit
    section.parent[bit] = section.bit_at[level - 1]
    return bit


@njit(nogil=True, cache=True)
def close_element(section, level):
    """Mark the element of a level as closed."""
    bit = section.bit_at[level]
    section.closed[bit // WORD] |= ONE << np.uint64(bit % WORD)


@njit(nogil=True, cache=True)
def record(section, state, bit):
    """Record that a path ends at an element."""
    _touch(section, state)
    section.reached[state, bit // WORD] |= ONE << np.uint64(bit % WORD)


@njit(nogil=True, cache=True)
def record_test(section, state, axis, bit):
    """Record that a path ends at a value test that an element satisfies."""
    _touch(section, state)
    _set_around(section.parent, bit, axis, section.around[state])


@njit(nogil=True, cache=True)
def _touch(section, state):
    if not section.is_touched[state]:
        section.is_touched[state] = 1
        section.touched[section.counts[_N_TOUCHED]] = state
        section.counts[_N_TOUCHED] += 1


@njit(nogil=True, cache=True)
def surround(section, state_axis):
    """For every path, add the parents or ancestors of the closed elements where it ends."""
    for i in range(section.counts[_N_TOUCHED]):
        state = section.touched[i]
        for word in range(len(section.closed)):
            elements = section.reached[state, word] & section.closed[word]
            add_around(section.parent, elements, word, state_axis[state], section.around[state])


@njit(nogil=True, cache=True)
def add_around(parent, elements, word, axis, around):
    """Add the parents of a word of elements, or for `//` all their ancestors, to a set."""
    while elements != ZERO:
        bit = np.uint64(word * WORD + lowest_one(elements))
        elements &= elements - ONE
        _set_around(parent, parent[bit], axis, around)


@njit(nogil=True, cache=True)
def _set_around(parent, bit, axis, around):
    """Set a bit; for `//` also those of its ancestors, up to the first that is already set."""
    while bit >= 0:
        number = np.uint64(bit)
        mask = ONE << (number & np.uint64(63))
        is_set = around[number >> np.uint64(6)] & mask != ZERO
        around[number >> np.uint64(6)] |= mask
        if is_set or axis != _DESCENDANT:
            return
        bit = parent[number]


@njit(nogil=True, cache=True)
def carry(bit_at, level, elements, carried, row):
    """Translate the open elements of a set to their bits in the next section."""
    for word in range(len(elements)):
        carried[row, word] = ZERO
    for above in range(level + 1):
        bit = bit_at[above]
        if (elements[bit // WORD] >> np.uint64(bit % WORD)) & ONE:
            carried[row, above // WORD] |= ONE << np.uint64(above % WORD)
