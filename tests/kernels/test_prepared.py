"""Arrays that a kernel gets by address: the same values, types and changes as arrays of its arguments."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numba import njit, typeof

from matchyard.kernels.prepared import Prepared, bytes_array, opened

KINDS = st.sampled_from(["uint8", "int16", "int32", "int64", "uint64", "float64", "bool"])
some = KINDS.flatmap(lambda kind: arrays(kind, st.integers(0, 5)))
tables = KINDS.flatmap(lambda kind: arrays(kind, st.tuples(st.integers(0, 4), st.integers(0, 4))))


class Pair(NamedTuple):
    left: Any
    right: Any


@njit
def total(pair, table):
    """A number that every element and every length has a part in."""
    sum_ = 0.0
    for i in range(len(pair.left)):
        sum_ += (i + 1) * pair.left[i]
    for i in range(len(pair.right)):
        sum_ += 3 * (i + 1) * pair.right[i]
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            sum_ += (7 * i + j + 1) * table[i, j]
    return sum_ + 100 * len(pair.left) + 1000 * len(pair.right) + 10000 * table.size


@njit
def total_of_opened(prepared):
    pair, table = opened(prepared)
    return total(pair, table)


@given(left=some, right=some, table=tables, is_frozen=st.booleans())
def test_a_kernel_sees_the_arrays_as_if_they_were_arguments(
    left: Any, right: Any, table: Any, is_frozen: bool
) -> None:
    right.flags.writeable = not is_frozen
    prepared = Prepared((Pair(left, right), table))
    assert prepared._numba_type_.content == typeof(prepared.arrays)
    assert opened.plain(prepared) is prepared.arrays
    same = (total_of_opened(prepared), total(Pair(left, right), table))
    assert np.isnan(same).all() or same[0] == same[1]


def test_arrays_of_equal_types_need_no_look_up() -> None:
    first = Prepared((Pair(np.arange(3), np.ones(2)), np.zeros((1, 2))))
    second = Prepared((Pair(np.arange(5), np.ones(1)), np.ones((2, 2))), like=first)
    assert second._numba_type_ is first._numba_type_
    assert total_of_opened(second) == total(*second.arrays)


def test_every_other_element_is_no_array_in_one_piece() -> None:
    prepared = Prepared(
        (Pair(np.arange(10)[::2], np.ones(1)), np.arange(12.0).reshape(3, 4)[:, ::2])
    )
    assert total_of_opened(prepared) == total(*prepared.arrays)


@njit
def count_up(prepared):
    opened(prepared)[0][0] += 1


def test_a_kernel_changes_the_arrays_themselves() -> None:
    numbers = np.zeros(1, np.int64)
    prepared = Prepared((numbers,))
    for _ in range(3):
        count_up(prepared)
    assert numbers[0] == 3


@njit
def last_byte(data):
    array = bytes_array(data)
    return len(array), array[-1] if len(array) else -1


@pytest.mark.parametrize("data", [b"", b"a", b"abc\xff"])
def test_bytes_are_an_array(data: bytes) -> None:
    assert last_byte(data) == (len(data), data[-1] if data else -1)
    plain = bytes_array.plain(data)
    assert plain.tobytes() == data
    assert not plain.flags.writeable
