"""Hash names and numbers, and prefetch memory.

`xxh64` is the standard XXH64, so other programs compute the same hashes (Spark's `xxhash64` is
XXH64 with seed 42).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils

from matchyard.kernels.intrinsics import intrinsic_with

SEED = np.uint64(42)

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)


@intrinsic_with(lambda array, position: None)
def prefetch(typingctx: Any, array: Any, position: Any) -> Any:
    """Tell the CPU to load `array[position]` into the cache; safe even past the end."""
    signature = types.void(array, types.intp)

    def generate(context: Any, builder: Any, call: Any, args: Any) -> Any:
        data = context.make_array(call.args[0])(context, builder, args[0]).data
        address = builder.gep(data, [args[1]])
        pointer = builder.bitcast(address, cgutils.voidptr_t)
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, word(0), word(3), word(1)])  # read, keep, data cache
        return context.get_dummy_value()

    return signature, generate


def _define_read(n_bytes: int) -> Any:
    """`read(data, position)`: the little-endian word of `n_bytes` bytes there, in one load."""

    def read_bytes(data: Any, position: Any) -> Any:
        return np.uint64(int.from_bytes(data[position : position + n_bytes].tobytes(), "little"))

    @intrinsic_with(read_bytes)
    def read(typingctx: Any, data: Any, position: Any) -> Any:
        def generate(context: Any, builder: Any, call: Any, args: Any) -> Any:
            start = context.make_array(call.args[0])(context, builder, args[0]).data
            word = ir.IntType(8 * n_bytes)
            address = builder.bitcast(builder.gep(start, [args[1]]), word.as_pointer())
            loaded = builder.load(address, align=1)
            return loaded if n_bytes == 8 else builder.zext(loaded, ir.IntType(64))

        return types.uint64(data, types.int64), generate

    return read


read_8 = _define_read(8)
read_4 = _define_read(4)


@njit(nogil=True, cache=True)
def is_equal(left, left_start, right, right_start, length):
    """True if `length` bytes of two arrays are equal. The last words overlap, to leave no bytes."""
    if length >= 8:
        for i in range(0, length - 8, 8):
            if read_8(left, left_start + i) != read_8(right, right_start + i):
                return False
        last = length - 8
        return read_8(left, left_start + last) == read_8(right, right_start + last)
    if length >= 4:
        last = length - 4
        return read_4(left, left_start) == read_4(right, right_start) and read_4(
            left, left_start + last
        ) == read_4(right, right_start + last)
    for i in range(length):
        if left[left_start + i] != right[right_start + i]:
            return False
    return True


@njit(nogil=True, cache=True)
def mix64(value):
    """A bijection on 64-bit words that scatters every input bit (the splitmix64 finaliser)."""
    word = np.uint64(value) + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@njit(nogil=True, cache=True)
def _rotate(word, bits):
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@njit(nogil=True, cache=True)
def _round(accumulator, word):
    return _rotate(accumulator + word * _PRIME_2, 31) * _PRIME_1


@njit(nogil=True, cache=True)
def xxh64(data, start, end):
    """XXH64 of the bytes `data[start:end]` with the seed of this package."""
    length = end - start
    position = start
    if length >= 32:
        first = SEED + _PRIME_1 + _PRIME_2
        second = SEED + _PRIME_2
        third = SEED
        fourth = SEED - _PRIME_1
        while position + 32 <= end:
            first = _round(first, read_8(data, position))
            second = _round(second, read_8(data, position + 8))
            third = _round(third, read_8(data, position + 16))
            fourth = _round(fourth, read_8(data, position + 24))
            position += 32
        code = _rotate(first, 1) + _rotate(second, 7) + _rotate(third, 12) + _rotate(fourth, 18)
        for lane in (first, second, third, fourth):
            code = (code ^ _round(np.uint64(0), lane)) * _PRIME_1 + _PRIME_4
    else:
        code = SEED + _PRIME_5
    code += np.uint64(length)
    while position + 8 <= end:
        code ^= _round(np.uint64(0), read_8(data, position))
        code = _rotate(code, 27) * _PRIME_1 + _PRIME_4
        position += 8
    if position + 4 <= end:
        code ^= read_4(data, position) * _PRIME_1
        code = _rotate(code, 23) * _PRIME_2 + _PRIME_3
        position += 4
    while position < end:
        code ^= np.uint64(data[position]) * _PRIME_5
        code = _rotate(code, 11) * _PRIME_1
        position += 1
    code = (code ^ (code >> np.uint64(33))) * _PRIME_2
    code = (code ^ (code >> np.uint64(29))) * _PRIME_3
    return code ^ (code >> np.uint64(32))


@njit(nogil=True, cache=True)
def hash_blocks(data, n_bytes, sums):
    """Write the XXH64 of each block of so many bytes."""
    for block in range(len(sums)):
        start = block * n_bytes
        sums[block] = xxh64(data, start, min(start + n_bytes, len(data)))


@njit(nogil=True, cache=True)
def mark_blocks(starts, ends, n_bytes, is_marked):
    """Mark the blocks that have a byte from a start to the end that belongs to it."""
    for i in range(len(starts)):
        if ends[i] > starts[i]:
            for block in range(starts[i] // n_bytes, (ends[i] - 1) // n_bytes + 1):
                is_marked[block] = True


@njit(nogil=True, cache=True)
def first_bad(data, n_bytes, sums, is_checked, blocks):
    """Check blocks and mark them; return the first one whose checksum is another one, or -1."""
    for block in blocks:
        if not is_checked[block]:  # another thread may have checked it meanwhile
            start = block * n_bytes
            if xxh64(data, start, min(start + n_bytes, len(data))) != sums[block]:
                return block
            is_checked[block] = True
    return -1
