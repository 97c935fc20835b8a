"""Rows with the same hash, and the keys of equal ones together."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from matchyard.kernels.equal_rows import first_alike, grouped_keys

few_codes = st.lists(st.sampled_from([0, 1, 16, 32, 2**63, 2**64 - 1]), max_size=40)


@given(few_codes | st.lists(st.integers(0, 2**64 - 1), max_size=40))
def test_each_row_gets_the_first_with_its_hash(codes: list[int]) -> None:
    assert first_alike(np.array(codes, np.uint64)).tolist() == [codes.index(code) for code in codes]


@given(few_codes)
def test_the_keys_of_equal_rows_stand_side_by_side_in_order(codes: list[int]) -> None:
    first_of = np.array([codes.index(code) for code in codes], np.int64)
    keys = np.arange(len(codes)) * 7
    first, key_start, found = grouped_keys(first_of, keys)
    assert first.tolist() == sorted(set(first_of.tolist()))
    rows = [found[a:b].tolist() for a, b in itertools.pairwise(key_start)]
    assert rows == [keys[first_of == row].tolist() for row in first]
