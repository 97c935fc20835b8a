"""A text as a slot reads it: an address, or the text case-folded, backwards, or both.

Kernels fold the case of ASCII. `case_folds` folds other texts in Python, and `rewrite` looks them up.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.events.addresses import address
from matchyard.engines.predicates.encoder.layout import VALUE, WHAT, Column, Kind
from matchyard.kernels.search import first_at_least

_REVERSED, _FOLDED, _FOLDED_REVERSED = (
    int(Kind.REVERSED),
    int(Kind.FOLDED),
    int(Kind.FOLDED_REVERSED),
)
_ADDRESS, _FOLDED_PATTERN = int(Kind.ADDRESS), int(Kind.FOLDED_PATTERN)
NOT_IN_SLOT, NOT_FOLDED = -1, -2  # instead of the length of a rewritten text


def case_folds(
    column: Column, attributes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The case-folded texts of some attributes: pairs of an attribute and its text's end, and bytes."""
    parts, ends = [], []
    for start, what in column.attributes[attributes][:, [VALUE, WHAT]].tolist():
        text = bytes(column.text[start : start + (what >> 8)]).decode()
        parts.append(text.casefold().encode())
        ends.append(len(parts[-1]))
    folds = np.stack([attributes, np.cumsum(ends)], axis=1)
    return folds, np.frombuffer(b"".join(parts), np.uint8).copy()


@njit(nogil=True, cache=True)
def _copy(data, start, end, out):
    """Copy a text; true where all of it is ASCII."""
    bits = np.uint8(0)
    for i in range(end - start):
        byte = data[start + i]
        out[i] = byte
        bits |= byte
    return bits < 128


@njit(nogil=True, cache=True)
def _lower(out, length):
    for i in range(length):
        if 65 <= out[i] <= 90:
            out[i] |= 32


@njit(nogil=True, cache=True)
def _reverse(out, length):
    """Turn a text round by code points: all bytes, and then those of each code point back."""
    for i in range(length // 2):
        out[i], out[length - 1 - i] = out[length - 1 - i], out[i]
    i = 0
    while i < length:
        j = i
        while out[j] & 0xC0 == 0x80:  # its lead byte comes last now
            j += 1
        for k in range((j - i + 1) // 2):
            out[i + k], out[j - k] = out[j - k], out[i + k]
        i = j + 1


@njit(nogil=True, cache=True)
def _find_fold(folds, attribute):
    at = first_at_least(folds[:, 0], 0, len(folds), attribute)
    return at if at < len(folds) and folds[at, 0] == attribute else -1


@njit(nogil=True, cache=True)
def is_folded(kind):
    """True if slots of this kind read case-folded text."""
    return kind in (_FOLDED, _FOLDED_REVERSED, _FOLDED_PATTERN)


@njit(nogil=True, cache=True, forceinline=True)
def rewrite(kind, text, start, size, attribute, folds, fold_text, out):
    """(out, length) of a text as the kind of slot reads it; `out` is replaced if it is too short.

    Instead of a length: NOT_IN_SLOT for a text that is no address, NOT_FOLDED without its fold.
    """
    if kind == _ADDRESS:
        length = address(text, start, start + size, out)
        return out, length if length > 0 else np.int64(NOT_IN_SLOT)
    if 2 * size > len(out):
        out = np.empty(2 * size, np.uint8)
    is_ascii = _copy(text, start, start + size, out)
    if is_folded(kind):
        if is_ascii:
            _lower(out, size)
        else:
            fold = _find_fold(folds, attribute)
            if fold < 0:
                return out, np.int64(NOT_FOLDED)
            begin = folds[fold - 1, 1] if fold > 0 else np.int64(0)
            size = folds[fold, 1] - begin
            if size > len(out):
                out = np.empty(2 * size, np.uint8)
            _copy(fold_text, begin, begin + size, out)
    if kind in (_REVERSED, _FOLDED_REVERSED):
        _reverse(out, size)
    return out, size
