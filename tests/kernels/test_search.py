"""Binary search in part of an array, and buffers that grow."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from matchyard.kernels.growing import with_room
from matchyard.kernels.search import first_above, first_at_least


@given(st.lists(st.integers(-9, 9)).map(sorted), st.integers(-10, 10), st.data())
def test_a_search_finds_what_bisect_finds(
    numbers: list[int], wanted: int, data: st.DataObject
) -> None:
    low = data.draw(st.integers(0, len(numbers)))
    high = data.draw(st.integers(low, len(numbers)))
    values = np.array(numbers, np.int64)
    assert first_at_least(values, low, high, wanted) == bisect_left(numbers, wanted, low, high)
    assert first_above(values, low, high, wanted) == bisect_right(numbers, wanted, low, high)


def test_an_array_with_room_stays_and_a_full_one_doubles_at_least() -> None:
    array = np.arange(4, dtype=np.int32)
    assert with_room(array, 3, 4).ctypes.data == array.ctypes.data
    for n_needed, n_given in ((5, 8), (8, 8), (9, 9)):
        larger = with_room(array, 3, n_needed)
        assert (len(larger), larger.dtype) == (n_given, np.int32)
        assert larger[:3].tolist() == [0, 1, 2]
