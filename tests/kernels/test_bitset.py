"""Signatures against strings of zeros and ones, bit 0 being the first character."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from matchyard.engines.tags.encoder.signatures import sign_sets
from matchyard.kernels import bitset

words = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1])
signatures = st.lists(words, min_size=3, max_size=3)


def bits(signature: list[int]) -> str:
    return "".join(f"{word:064b}" for word in signature)


def array(signature: list[int]) -> np.ndarray:
    return np.array(signature, np.uint64)


@njit
def first_64(row, at, absent):
    return bitset.lanes_64(row, at, absent)


@njit
def first_8(row, at, absent):
    return bitset.lanes_8(row, at, absent)


@njit
def counts_of(word):
    return bitset.count_ones(word), bitset.n_leading_zeros(word)


@njit
def lowest_of(word):
    return bitset.lowest_one(word)


@given(st.lists(words, min_size=64, max_size=64), words, st.integers(0, 5))
def test_lanes_say_which_entries_have_no_absent_bit(row: list[int], absent: int, at: int) -> None:
    padded = array(row + [0] * 8)
    inside = [padded[at + j] & np.uint64(absent) == 0 for j in range(64)]
    want = sum(1 << j for j in range(64) if inside[j])
    assert first_64(padded, at, np.uint64(absent)) == want
    assert first_8(padded, at, np.uint64(absent)) == want & 0xFF


@given(words)
def test_counting_agrees_with_the_digits(word: int) -> None:
    ones, leading = counts_of(np.uint64(word))
    assert (ones, leading) == (word.bit_count(), 64 - word.bit_length())
    if word:
        assert lowest_of(np.uint64(word)) == (word & -word).bit_length() - 1


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 1000])
def test_first_lanes_has_so_many_ones_and_never_more_than_64(count: int) -> None:
    assert int(bitset.first_lanes(count)) == (1 << min(count, 64)) - 1


@given(signatures)
def test_weight_and_leftmost_one_agree_with_the_digits(signature: list[int]) -> None:
    digits = bits(signature)
    assert bitset.weights(array(signature)[None])[0] == digits.count("1")
    leftmost = digits.find("1") if "1" in digits else 192
    assert bitset.leftmost_one(array(signature)) == leftmost


@given(signatures, st.integers(0, 191))
def test_one_bit_is_read_and_set_at_its_place(signature: list[int], place: int) -> None:
    packed, digits = array(signature), bits(signature)
    assert bitset.is_one(packed, place) == (digits[place] == "1")
    bitset.set_one(packed, place)
    assert bits(packed.tolist()) == digits[:place] + "1" + digits[place + 1 :]


@given(signatures, signatures, st.integers(0, 192))
def test_common_prefix_keeps_the_ones_before_the_first_difference(
    first: list[int], other: list[int], shared: int
) -> None:
    digits = bits(first)[:shared] + bits(other)[shared:]
    last = [int(digits[64 * word : 64 * word + 64], 2) for word in range(3)]
    prefix = array([7, 7, 7])  # whatever was there before
    bitset.common_prefix(array(first), array(last), prefix)
    end = next((i for i in range(192) if bits(first)[i] != digits[i]), 192)
    assert bits(prefix.tolist()) == bits(first)[:end].ljust(192, "0")


@pytest.mark.parametrize("n_bits", [1, 6, 64, 65, 192])
def test_names_set_so_many_bits_and_none_past_the_width(n_bits: int) -> None:
    codes = np.random.default_rng(5).integers(0, 2**64, 300, np.uint64)
    n_words = bitset.n_words_for(n_bits)
    start = np.arange(301)
    signed = sign_sets(start, np.arange(300), codes, n_bits, 7, n_words)
    digits = [bits(row.tolist()) for row in signed]
    assert all("1" not in row[n_bits:] for row in digits)
    assert all(1 <= row.count("1") <= min(7, n_bits) for row in digits)
    for place in range(n_bits):  # every bit is used
        assert any(row[place] == "1" for row in digits)


def test_the_signature_of_a_set_is_the_union_of_its_names() -> None:
    codes = np.random.default_rng(6).integers(0, 2**64, 9, np.uint64)
    each = sign_sets(np.arange(10), np.arange(9), codes, 192, 7, 3)
    together = sign_sets(np.array([0, 4, 4, 9]), np.arange(9), codes, 192, 7, 3)
    assert (together[0] == np.bitwise_or.reduce(each[:4])).all()
    assert not together[1].any()
    assert (together[2] == np.bitwise_or.reduce(each[4:])).all()
