"""Whole numbers that users give: of nodes, trees and interfaces."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import UsageError


def whole_number(value: Any, what: str) -> int:
    """An integer of any kind as Python has it, which does not wrap around.

    >>> whole_number(np.int8(3), "node")
    3
    """
    if isinstance(value, bool | np.bool_):
        raise UsageError(f"{what} {value}; expected a whole number")
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(f"{what} {value!r}; expected a whole number") from None


def whole_numbers(values: Any, what: str, n_dimensions: int | None = 1) -> NDArray[np.int64]:
    """An array of 64-bit integers, of anything that holds such."""
    try:
        found = np.asarray(values)
        if found.size and (found.dtype.kind not in "iu" or found.max() >= 1 << 63):
            raise ValueError(f"{found.dtype} of shape {found.shape}")
        if n_dimensions is not None and found.ndim != n_dimensions:
            raise ValueError(f"{found.ndim} dimensions")
        return found.astype(np.int64)
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"{what}: {error}; expected whole numbers") from None
