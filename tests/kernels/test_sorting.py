"""Sorting and growing within kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchyard.kernels.growing import put, with_room, with_rows
from matchyard.kernels.sorting import sort_numbers


@given(st.lists(st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1), max_size=200), st.data())
def test_a_part_is_sorted_and_the_rest_stays(numbers: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(numbers)))
    end = data.draw(st.integers(start, len(numbers)))
    array = np.array(numbers, np.int64)
    sort_numbers(array, start, end)
    assert array.tolist() == [*numbers[:start], *sorted(numbers[start:end]), *numbers[end:]]


@pytest.mark.parametrize("n_needed", [3, 4, 5, 100])
def test_buffers_keep_what_is_used(n_needed: int) -> None:
    array, table = np.arange(4, dtype=np.int32), np.arange(8, dtype=np.int32).reshape(4, 2)
    grown, more = with_room(array, 3, n_needed), with_rows(table, 3, n_needed)
    assert grown[:3].tolist() == [0, 1, 2]
    assert more[:3].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert len(grown) == len(more) == (4 if n_needed <= 4 else max(8, n_needed))
    assert (grown is array) == (more is table) == (n_needed <= 4)


def test_bytes_are_put_where_they_belong() -> None:
    target = np.zeros(6, np.uint8)
    put(target, 2, np.array([7, 8, 9, 10], np.uint8), 1, 3)
    assert target.tolist() == [0, 0, 8, 9, 0, 0]
