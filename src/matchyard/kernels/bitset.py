"""Bit sets of fixed width. One instruction tests many of them for inclusion.

Bit 0 is the most significant bit of word 0. The order of the words is therefore the order of the
bit strings, and a common prefix is a common leading part [TagMatch §3.3.1].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types

from matchyard.kernels.intrinsics import intrinsic_with

WORD = 64
ONE = np.uint64(1)
ZERO = np.uint64(0)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def n_words_for(n_bits: int) -> int:
    """The number of 64-bit words of a bit set of `n_bits` bits."""
    return (n_bits + 63) // 64


@intrinsic_with(lambda word: np.int64(int(word).bit_count()))
def count_ones(typingctx: Any, word: Any) -> Any:
    """The number of one-bits in a 64-bit word."""
    return types.int64(types.uint64), lambda context, builder, call, args: builder.ctpop(args[0])


@intrinsic_with(lambda word: np.int64((int(word) & -int(word)).bit_length() - 1))
def lowest_one(typingctx: Any, word: Any) -> Any:
    """The position of the lowest one-bit, from the least significant bit; the word is not 0."""
    return types.int64(types.uint64), lambda context, builder, call, args: builder.cttz(
        args[0], ir.Constant(ir.IntType(1), 1)
    )


@intrinsic_with(lambda word: np.int64(64 - int(word).bit_length()))
def n_leading_zeros(typingctx: Any, word: Any) -> Any:
    """The number of zeros before the most significant one-bit; 64 for the word 0."""
    return types.int64(types.uint64), lambda context, builder, call, args: builder.ctlz(
        args[0], ir.Constant(ir.IntType(1), 0)
    )


def _packed(bits: Any) -> Any:
    """A word whose bit j is bits[j]."""
    return np.uint64(sum(1 << j for j in range(len(bits)) if bits[j]))


def _define_lanes(n_lanes: int) -> Any:
    """`lanes(row, at, absent)`: bit j is 1 if row[at + j] has no bit of `absent`, for j < n_lanes.

    It is vector code, because LLVM turns the equivalent loop into gathers.
    """

    def find_lanes(row: Any, at: Any, absent: Any) -> Any:
        return _packed(row[at : at + n_lanes] & absent == ZERO)

    @intrinsic_with(find_lanes)
    def lanes(typingctx: Any, row: Any, at: Any, absent: Any) -> Any:
        def generate(context: Any, builder: Any, call: Any, args: Any) -> Any:
            word, lane = ir.IntType(64), ir.IntType(32)
            vector = ir.VectorType(word, n_lanes)
            data = context.make_array(call.args[0])(context, builder, args[0]).data
            address = builder.bitcast(builder.gep(data, [args[1]]), vector.as_pointer())
            entries = builder.load(address, align=8)
            undefined = ir.Constant(vector, ir.Undefined)
            first = builder.insert_element(undefined, args[2], ir.Constant(lane, 0))
            everywhere = ir.Constant(ir.VectorType(lane, n_lanes), [0] * n_lanes)
            spread = builder.shuffle_vector(first, undefined, everywhere)
            none = ir.Constant(vector, [0] * n_lanes)
            inside = builder.icmp_unsigned("==", builder.and_(entries, spread), none)
            bits = builder.bitcast(inside, ir.IntType(n_lanes))
            return bits if n_lanes == 64 else builder.zext(bits, word)

        return types.uint64(row, types.int64, types.uint64), generate

    return lanes


_ROW = ir.VectorType(ir.IntType(64), 8)


def _row_at(context: Any, builder: Any, call: Any, args: Any, number: int, at: Any = None) -> Any:
    """The address of the eight words of an array from `at` on, by default from its start."""
    array = context.make_array(call.args[number])(context, builder, args[number])
    start = ir.Constant(ir.IntType(64), 0) if at is None else at
    return builder.bitcast(builder.gep(array.data, [start]), _ROW.as_pointer())


def _and_8_rows(result: Any, bits: Any, *starts: Any) -> Any:
    for at in starts:
        result[:8] &= bits[at : at + 8]
    return _packed(result[:8] != ZERO)


@intrinsic_with(_and_8_rows)
def and_8_rows(
    typingctx: Any, result: Any, bits: Any,
    a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any,
) -> Any:  # fmt: skip
    """AND eight rows of `bits`, of eight words each, into the row `result`. The other arguments are
    their starts. Bit j of the returned word is 1 if word j of the result is not 0."""

    def generate(context: Any, builder: Any, call: Any, args: Any) -> Any:
        target = _row_at(context, builder, call, args, 0)
        words = builder.load(target, align=8)
        for at in args[2:]:
            row = _row_at(context, builder, call, args, 1, at)
            words = builder.and_(words, builder.load(row, align=8))
        builder.store(words, target, align=8)
        is_alive = builder.icmp_unsigned("!=", words, ir.Constant(_ROW, [0] * 8))
        return builder.zext(builder.bitcast(is_alive, ir.IntType(8)), ir.IntType(64))

    return types.uint64(result, bits, *[types.int64] * 8), generate


def _define_merge(operation: str) -> Any:
    """`merge(bits, at, row)`: AND or OR a row of eight words into the row of `bits` at `at`."""

    combine = {"and_": np.bitwise_and, "or_": np.bitwise_or}[operation]

    def merge_words(bits: Any, at: Any, row: Any) -> None:
        bits[at : at + 8] = combine(bits[at : at + 8], row[:8])

    @intrinsic_with(merge_words)
    def merge(typingctx: Any, bits: Any, at: Any, row: Any) -> Any:
        def generate(context: Any, builder: Any, call: Any, args: Any) -> Any:
            target = _row_at(context, builder, call, args, 0, args[1])
            source = _row_at(context, builder, call, args, 2)
            words = builder.load(target, align=8), builder.load(source, align=8)
            builder.store(getattr(builder, operation)(*words), target, align=8)
            return context.get_dummy_value()

        return types.void(bits, types.int64, row), generate

    return merge


def _copy_row(row: Any, bits: Any, at: Any) -> None:
    row[:8] = bits[at : at + 8]


@intrinsic_with(_copy_row)
def copy_row(typingctx: Any, row: Any, bits: Any, at: Any) -> Any:
    """Copy the eight words of `bits` at `at` to `row`."""

    def generate(context: Any, builder: Any, call: Any, args: Any) -> Any:
        source = _row_at(context, builder, call, args, 1, args[2])
        target = _row_at(context, builder, call, args, 0)
        builder.store(builder.load(source, align=8), target, align=8)
        return context.get_dummy_value()

    return types.void(row, bits, types.int64), generate


def _flip(row: Any, number: Any) -> None:
    row[number >> 6] ^= ONE << np.uint64(number & 63)


@intrinsic_with(_flip)
def flip(typingctx: Any, row: Any, number: Any) -> Any:
    """Flip one bit of a row of eight words. It is vector code, because reading a vector right after
    a write to one of its words has to wait for the write."""

    def generate(context: Any, builder: Any, call: Any, args: Any) -> Any:
        word, lane = ir.IntType(64), ir.IntType(32)
        undefined, none = ir.Constant(_ROW, ir.Undefined), ir.Constant(_ROW, [0] * 8)

        def everywhere(value: Any) -> Any:
            first = builder.insert_element(undefined, value, ir.Constant(lane, 0))
            zeros = ir.Constant(ir.VectorType(lane, 8), [0] * 8)
            return builder.shuffle_vector(first, undefined, zeros)

        at = everywhere(builder.lshr(args[1], ir.Constant(word, 6)))
        low = builder.and_(args[1], ir.Constant(word, 63))
        bit = everywhere(builder.shl(ir.Constant(word, 1), low))
        is_here = builder.icmp_unsigned("==", at, ir.Constant(_ROW, list(range(8))))
        target = _row_at(context, builder, call, args, 0)
        flipped = builder.xor(builder.load(target, align=8), builder.select(is_here, bit, none))
        builder.store(flipped, target, align=8)
        return context.get_dummy_value()

    return types.void(row, types.int64), generate


and_row = _define_merge("and_")
or_row = _define_merge("or_")
lanes_64 = _define_lanes(64)
lanes_8 = _define_lanes(8)


@njit(nogil=True, cache=True)
def first_lanes(count):
    """A word with the lowest `count` >= 1 bits set; all bits if `count` is 64 or more."""
    if count >= WORD:
        return ALL
    return (ONE << np.uint64(count)) - ONE


@njit(nogil=True, cache=True)
def weights(sets):
    """The number of one-bits of each bit set."""
    counts = np.zeros(len(sets), np.int32)
    for row in range(len(sets)):
        for word in range(sets.shape[1]):
            counts[row] += count_ones(sets[row, word])
    return counts


@njit(nogil=True, cache=True)
def leftmost_one(bits):
    """The position of the first one-bit, or the width if there is none."""
    for word in range(len(bits)):
        if bits[word] != ZERO:
            return word * WORD + n_leading_zeros(bits[word])
    return WORD * len(bits)


@njit(nogil=True, cache=True)
def is_one(bits, position):
    """True if the bit at this position is set."""
    return (bits[position >> 6] << np.uint64(position & 63)) >> np.uint64(63) != ZERO


@njit(nogil=True, cache=True)
def set_one(bits, position):
    """Set the bit at this position."""
    bits[position >> 6] |= ONE << np.uint64(63 - (position & 63))


@njit(nogil=True, cache=True)
def common_prefix(first, last, prefix):
    """Set `prefix` to the ones of `first` before it differs from `last` [TagMatch Alg. 4]."""
    for word in range(len(first)):
        differ = first[word] ^ last[word]
        if differ == ZERO:
            prefix[word] = first[word]
            continue
        prefix[word] = first[word] & ~(ALL >> np.uint64(n_leading_zeros(differ)))
        prefix[word + 1 :] = ZERO
        return
