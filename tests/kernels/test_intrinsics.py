"""Every intrinsic, compiled, against its plain twin: the same result, type and changes of arrays."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numba import njit, typeof

import matchyard
from matchyard.engines.predicates.encoder.json import decimals
from matchyard.engines.twigs.encoder.scanner import vector_blocks
from matchyard.kernels import bits, bitset, growing, hashing

ROOM = 80  # entries of an array; the widest intrinsic reads 64 of them
EDGES = [0, 1, 2, 3, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
words = (st.sampled_from(EDGES) | st.integers(0, 2**64 - 1)).map(np.uint64)
some_words = words.filter(bool)
longs = words.map(lambda word: word.view(np.int64))
doubles = st.floats().map(np.float64)
places = st.integers(0, ROOM - 65)
rows = arrays(np.uint64, ROOM, elements=words)
signs = st.sampled_from(b"<>/&]\"'-?.:_azAZ09 \t\n\x00\x1f\x7f\x80\xc1\xff")
texts = arrays(np.uint8, ROOM, elements=signs | st.integers(0, 255))

ARGUMENTS = {
    "bits.bits_of": (doubles,),
    "bits.float_of": (longs,),
    "bitset.and_8_rows": (rows, rows, *[places] * 8),
    "bitset.and_row": (rows, places, rows),
    "bitset.copy_row": (rows, rows, places),
    "bitset.count_ones": (words,),
    "bitset.flip": (rows, st.integers(0, 511)),
    "bitset.lanes_64": (rows, places, words),
    "bitset.lanes_8": (rows, places, words),
    "bitset.lowest_one": (some_words,),
    "bitset.n_leading_zeros": (words,),
    "bitset.or_row": (rows, places, rows),
    "growing.copy_run": (rows, places, rows, places, places),
    "hashing.prefetch": (rows, st.integers(0, 2 * ROOM)),
    "hashing.read_4": (texts, places),
    "hashing.read_8": (texts, places),
    "decimals._high_product": (words, words),
    "vector_blocks.copy_block": (texts, places, texts, places),
    "vector_blocks.count_block": (texts, places),
    "vector_blocks.markup_run": (texts, places),
    "vector_blocks.name_run": (texts, places),
    "vector_blocks.text_run": (texts, places),
    "vector_blocks.value_run": (texts, places),
}
MODULES = (bits, bitset, growing, hashing, decimals, vector_blocks)
INTRINSICS = {
    f"{module.__name__.split('.')[-1]}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if hasattr(value, "plain")
}


def called(intrinsic: Any) -> Any:
    """A kernel that calls an intrinsic, and nothing else."""

    @njit
    def call(*given: Any) -> Any:
        return intrinsic(*given)

    return call


KERNELS = {name: called(INTRINSICS[name]) for name in ARGUMENTS}


def as_bytes(value: Any, like: Any) -> bytes:
    """Bits rather than values, since one NaN is not equal to another."""
    return b"" if value is like is None else np.asarray(value, np.asarray(like).dtype).tobytes()


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
@given(data=st.data())
def test_a_plain_twin_does_what_its_intrinsic_does(name: str, data: st.DataObject) -> None:
    plain = INTRINSICS[name].plain
    drawn = data.draw(st.tuples(*ARGUMENTS[name]))
    ours, theirs = ([np.copy(one)[()] for one in drawn] for _ in range(2))
    want, found = plain(*ours), KERNELS[name](*theirs)
    (signature,) = KERNELS[name].nopython_signatures
    assert typeof(want) == signature.return_type
    assert as_bytes(found, want) == as_bytes(want, want)
    assert [as_bytes(one, one) for one in theirs] == [as_bytes(one, one) for one in ours]


BLOCKS = [name for name, given in ARGUMENTS.items() if given == (texts, places)]


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("lane", [0, 1, 30, 31, 32])
def test_every_byte_is_read_alike_in_the_first_and_last_lanes(name: str, lane: int) -> None:
    text = np.full(ROOM, ord("a"), np.uint8)
    for byte in range(256):
        text[lane : lane + 2] = byte, ord(">")
        assert KERNELS[name](text, np.int64(0)) == INTRINSICS[name].plain(text, 0)


def test_no_intrinsic_is_without_a_twin_or_a_test() -> None:
    assert {*INTRINSICS.values()} == {INTRINSICS[name] for name in ARGUMENTS}
    modules = set()
    for path in Path(matchyard.__file__).parent.rglob("*.py"):
        text = path.read_text("utf-8")
        assert not re.search(r"^ *@intrinsic\b(?!_with)", text, re.MULTILINE), path
        if re.search(r"^ *@intrinsic_with\(", text, re.MULTILINE):
            modules.add(path.stem)
    modules.remove("prepared")  # its intrinsics take no plain values: see `test_prepared`
    assert modules == {module.__name__.split(".")[-1] for module in MODULES}
