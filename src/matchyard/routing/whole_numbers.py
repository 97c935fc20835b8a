"""Checks of whole numbers from users: nodes, trees and interfaces."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import UsageError


def whole_number(value: Any, what: str) -> int:
    """Convert an integer of any type to a Python `int`, which does not wrap around.

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
    """Convert anything that holds integers to an array of 64-bit integers."""
    try:
        numbers = np.asarray(values)
        if numbers.size and (numbers.dtype.kind not in "iu" or numbers.max() >= 1 << 63):
            raise ValueError(f"{numbers.dtype} of shape {numbers.shape}")
        if n_dimensions is not None and numbers.ndim != n_dimensions:
            raise ValueError(f"{numbers.ndim} dimensions")
        return numbers.astype(np.int64)
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"{what}: {error}; expected whole numbers") from None
