"""Hashing against published vectors and against itself written plainly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchyard.kernels.hashing import is_equal, mix64, xxh64
from matchyard.kernels.strings import hash_names

VECTORS = {  # XXH64 with seed 42
    b"": 0x98B1582B0977E704,
    b"a": 0x88E4FE59ADF7B0CC,
    b"abc": 0x13C1D910702770E6,
    b"abcdefgh": 0x22485CF81472CABC,
    b"x" * 31: 0xE82DE6C821DF41DE,
    b"x" * 100: 0x513559782E486C7,
}
PRIMES = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
    0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
)  # fmt: skip
WORD = (1 << 64) - 1


def rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & WORD


def one_round(accumulator: int, word: int) -> int:
    return rotated((accumulator + word * PRIMES[1]) & WORD, 31) * PRIMES[0] & WORD


def naive_xxh64(data: bytes, seed: int = 42) -> int:
    one, two, three, four, five = PRIMES
    rest = data
    if len(data) >= 32:
        lanes = [seed + one + two, seed + two, seed, seed - one]
        while len(rest) >= 32:
            words = [int.from_bytes(rest[8 * i : 8 * i + 8], "little") for i in range(4)]
            lanes = [one_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            rest = rest[32:]
        code = sum(rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            code = ((code ^ one_round(0, lane)) * one + four) & WORD
    else:
        code = seed + five
    code = (code + len(data)) & WORD
    while len(rest) >= 8:
        code ^= one_round(0, int.from_bytes(rest[:8], "little"))
        code, rest = (rotated(code, 27) * one + four) & WORD, rest[8:]
    if len(rest) >= 4:
        code ^= int.from_bytes(rest[:4], "little") * one & WORD
        code, rest = (rotated(code, 23) * two + three) & WORD, rest[4:]
    for byte in rest:
        code = rotated(code ^ (byte * five & WORD), 11) * one & WORD
    code = (code ^ code >> 33) * two & WORD
    code = (code ^ code >> 29) * three & WORD
    return code ^ code >> 32


def hashed(data: bytes) -> int:
    return int(xxh64(np.frombuffer(data, np.uint8), 0, len(data)))


@pytest.mark.parametrize("data", VECTORS, ids=lambda data: f"{len(data)}-bytes")
def test_xxh64_gives_the_published_hashes(data: bytes) -> None:
    assert hashed(data) == VECTORS[data] == naive_xxh64(data)


@given(before=st.binary(max_size=9), data=st.binary(max_size=150), after=st.binary(max_size=9))
def test_xxh64_reads_its_part_of_the_bytes_and_no_more(
    before: bytes, data: bytes, after: bytes
) -> None:
    whole = np.frombuffer(before + data + after, np.uint8)
    assert xxh64(whole, len(before), len(before) + len(data)) == naive_xxh64(data)


@given(st.lists(st.text(max_size=40), max_size=10))
def test_hash_names_hashes_each_name(names: list[str]) -> None:
    words = [name.encode("utf-8", "surrogatepass") for name in names]
    start = np.cumsum([0, *map(len, words)]).astype(np.int64)
    codes = hash_names(start, np.frombuffer(b"".join(words), np.uint8))
    assert codes.tolist() == [naive_xxh64(word) for word in words]


@given(data=st.binary(min_size=1, max_size=40), flip=st.integers(0), shift=st.integers(0, 9))
def test_is_equal_sees_a_change_in_any_byte(data: bytes, flip: int, shift: int) -> None:
    changed = bytearray(data)
    changed[flip % len(data)] ^= 1
    left = np.frombuffer(data, np.uint8)
    same = np.frombuffer(b"?" * shift + data + b"!", np.uint8)
    other = np.frombuffer(b"?" * shift + bytes(changed) + b"!", np.uint8)
    assert is_equal(left, 0, same, shift, len(data))
    assert not is_equal(left, 0, other, shift, len(data))
    assert is_equal(left, 0, other, shift, 0)


def test_mix64_is_the_finaliser_of_splitmix64() -> None:
    # The first outputs of splitmix64 with seed 0 are mix64 of multiples of its increment.
    assert mix64(0) == 0xE220A8397B1DCDAF
    assert mix64(np.uint64(0x9E3779B97F4A7C15)) == 0x6E789E6AA1B965F4
    assert len({mix64(np.int64(n)) for n in range(-500, 500)}) == 1000
