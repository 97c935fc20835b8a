"""Buffers that grow while a kernel fills them."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def with_room(array, n_used, n_needed):
    """The array, or a copy of its used part that has room for `n_needed` and twice as much as before."""
    if n_needed <= len(array):
        return array
    larger = np.empty(max(2 * len(array), n_needed), array.dtype)
    larger[:n_used] = array[:n_used]
    return larger
