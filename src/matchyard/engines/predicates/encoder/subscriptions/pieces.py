"""Pieces before they are coded: constraints with their constants as values.

Codes depend on everything else that a vocabulary holds, so whatever is staged or joined is kept
like this: both ends of a piece are 64-bit words, and a form says how each is to be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.kernels.csr import concatenated
from matchyard.kernels.strings import freeze


class Form(IntEnum):
    """The meaning of the word of an end."""

    NONE = 0  # there is no bound
    INTEGER = 1  # a whole number
    UNSIGNED = 2  # a whole number from 2^63 on
    FLOAT = 3  # the bits of a double
    TEXT = 4  # the id of a text
    CODE = 5  # a code as it is
    PATTERN = 6  # the id of a text << 2 | flags of `pattern_index`
    END = 7  # past every text


OPEN = 8  # added to the form of an end that is not included
HIGH = 4  # bits below the form of the high end


class Pieces(NamedTuple):
    """Subscriptions over names and texts that have ids, in any order."""

    row_start: NDArray[np.int64]  # offsets as in `Filters`, and so the next three
    filter_start: NDArray[np.int64]
    piece_start: NDArray[np.int64]
    groups: NDArray[np.int16]
    names: NDArray[np.int32]  # [n_pieces] attribute names
    kinds: NDArray[np.uint8]  # [n_pieces] `Kind`
    forms: NDArray[np.uint8]  # [n_pieces] `Form` of both ends
    low: NDArray[np.int64]  # [n_pieces] words
    high: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """The number of predicates."""
        return len(self.row_start) - 1


def no_pieces() -> Pieces:
    """No subscriptions at all."""
    start, words = np.zeros(1, np.int64), np.empty(0, np.int64)
    none = np.empty(0, np.uint8)
    return Pieces(
        start, start, start, np.empty(0, np.int16), np.empty(0, np.int32), none, none, words, words
    )


def join(parts: Sequence[Pieces]) -> Pieces:
    """All subscriptions of several parts over the same names and texts, in order."""
    return concatenated(parts, 3) if parts else no_pieces()


def renumber(pieces: Pieces, names: NDArray[np.int32], texts: NDArray[np.int32]) -> Pieces:
    """The same with the new id of each name and text."""
    if not (names == np.arange(len(names))).all():
        pieces = pieces._replace(names=names[pieces.names])
    if (texts == np.arange(len(texts))).all():  # no id changes: no copy
        return pieces
    low, high = np.empty_like(pieces.low), np.empty_like(pieces.high)
    _renumber_ends(pieces.forms, 0, pieces.low, texts, low)
    _renumber_ends(pieces.forms, HIGH, pieces.high, texts, high)
    return pieces._replace(low=low, high=high)


def used(pieces: Pieces, n_names: int, n_texts: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of pieces per name, and of ends per text."""
    names, texts = np.zeros(n_names, np.int64), np.zeros(n_texts, np.int64)
    _count_uses(freeze(pieces), names, texts)
    return names, texts


_FORMS = 7
_TEXT, _PATTERN = int(Form.TEXT), int(Form.PATTERN)


@njit(nogil=True, cache=True)
def _renumber_ends(forms, shift, words, texts, result):
    for i in range(len(words)):
        form = (forms[i] >> shift) & _FORMS
        if form == _TEXT:
            result[i] = texts[words[i]]
        elif form == _PATTERN:
            result[i] = (np.int64(texts[words[i] >> 2]) << 2) | (words[i] & 3)
        else:
            result[i] = words[i]


@njit(nogil=True, cache=True)
def _count_uses(pieces, names, texts):
    for i in range(len(pieces.names)):
        names[pieces.names[i]] += 1
        for shift in (0, HIGH):
            word = pieces.high[i] if shift else pieces.low[i]
            form = (pieces.forms[i] >> shift) & _FORMS
            if form == _TEXT:
                texts[word] += 1
            elif form == _PATTERN:
                texts[word >> 2] += 1
