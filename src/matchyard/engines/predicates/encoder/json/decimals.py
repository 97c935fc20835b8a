"""Decimal numbers as doubles, correctly rounded: the Eisel-Lemire algorithm.

[Lemire, Number Parsing at a Gigabyte per Second, 2021]. It cannot decide a few inputs, which
Python's `float` reads.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types

from matchyard.engines.predicates.encoder.json.faults import ENDS, NO_FAULT, NO_VALUE
from matchyard.engines.predicates.encoder.layout import NUMBER, SLOW
from matchyard.kernels.bits import bits_of, float_of
from matchyard.kernels.bitset import n_leading_zeros
from matchyard.kernels.hashing import is_equal
from matchyard.kernels.intrinsics import intrinsic_with

INFINITY = np.frombuffer(b"Infinity", np.uint8)
_MINUS = np.uint8(45)
_TWO_63 = np.uint64(1 << 63)
_LEAST, _MOST = -300, 290  # powers of ten; Python reads numbers beyond them, which are rare
_EXACT = 1 << 53  # mantissas up to this size are doubles, and so are powers of ten up to 22
_ALL = np.uint64((1 << 64) - 1)
_LOW_9 = np.uint64((1 << 9) - 1)  # the bits of a word below 55 bits of precision


def _powers_of_five() -> np.ndarray:
    """5^q as 128 bits from the highest that is set: halves [n, 2]; rounded up where q < 0."""
    words = np.empty((_MOST - _LEAST + 1, 2), np.uint64)
    for q in range(_LEAST, _MOST + 1):
        power = 5 ** abs(q)
        n_bits = (power - 1).bit_length()
        if q >= 0:
            power = (power << 128) >> power.bit_length()
        elif q >= -27:
            power = (1 << (n_bits + 127)) // power + 1
        else:
            power = (1 << (2 * n_bits + 128)) // power + 1
            power >>= power.bit_length() - 128
        words[q - _LEAST] = power >> 64, power & ((1 << 64) - 1)
    return words


_FIVES = _powers_of_five()
_TENS = 10.0 ** np.arange(23)


@intrinsic_with(lambda left, right: np.uint64((int(left) * int(right)) >> 64))
def _high_product(typingctx, left, right):
    """The upper half of a product of two words."""

    def generate(context, builder, call, args):
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@njit(nogil=True, cache=True)
def decimal(digits, power):
    """digits · 10^power as the nearest double, and whether that could be decided."""
    if digits == np.uint64(0):
        return 0.0, True
    if digits <= np.uint64(_EXACT) and -22 <= power <= 22:
        number = np.float64(np.int64(digits))
        return (number / _TENS[-power] if power < 0 else number * _TENS[power]), True
    if power < _LEAST or power > _MOST:
        return 0.0, False
    shift = np.uint64(n_leading_zeros(digits))
    word = digits << shift
    high_five, low_five = _FIVES[power - _LEAST, 0], _FIVES[power - _LEAST, 1]
    high, low = _high_product(word, high_five), word * high_five
    if high & _LOW_9 == _LOW_9:
        more = _high_product(word, low_five)
        low += more
        if more > low:
            high += np.uint64(1)
    if low == _ALL and not -27 <= power <= 55:
        return 0.0, False
    upper = high >> np.uint64(63)
    drop = upper + np.uint64(9)
    mantissa = high >> drop
    exponent = ((217706 * power) >> 16) + 63 + np.int64(upper) - np.int64(shift) + 1023
    if exponent <= 0:
        return 0.0, False
    is_half = low <= np.uint64(1) and -4 <= power <= 23 and mantissa & np.uint64(3) == np.uint64(1)
    if is_half and mantissa << drop == high:
        mantissa &= ~np.uint64(1)  # a tie goes to the even one
    mantissa = (mantissa + (mantissa & np.uint64(1))) >> np.uint64(1)
    if mantissa >= np.uint64(1 << 53):
        mantissa = np.uint64(1 << 52)
        exponent += 1
    if exponent >= 2047:
        return 0.0, False
    fraction = np.int64(mantissa & np.uint64((1 << 52) - 1))
    return float_of(fraction | (np.int64(exponent) << 52)), True


@njit(nogil=True, cache=True)
def is_word(text, position, end, word):
    """True if the word stands at `position`."""
    return position + len(word) <= end and is_equal(text, position, word, 0, len(word))


@njit(nogil=True, cache=True)
def read_number(text, position, end):
    """(fault, position after it, type, value, size) of a number."""
    start = position
    is_negative = text[position] == _MINUS
    if is_negative:
        position += 1
        if is_word(text, position, end, INFINITY):
            return NO_FAULT, position + 8, NUMBER, bits_of(-np.inf), 0
    if position == end:
        return ENDS, position, NUMBER, 0, 0
    digits = np.uint64(0)
    first = position
    while position < end and 48 <= text[position] <= 57:
        if position - first < 19:
            digits = digits * np.uint64(10) + np.uint64(text[position] - 48)
        position += 1
        if position == first + 1 and text[first] == 48:
            break
    n_digits = position - first
    if n_digits == 0:
        return NO_VALUE, position, NUMBER, 0, 0
    if position == end or (text[position] | 32) not in (np.uint8(46), np.uint8(101)):
        if n_digits > 19:  # the twentieth digit may still fit
            last = np.uint64(text[first + 19] - 48)
            top = np.uint64(1844674407370955161)
            if n_digits > 20 or digits > top or (digits == top and last > np.uint64(5)):
                return NO_FAULT, position, SLOW, start, position - start
            digits = digits * np.uint64(10) + last
        if is_negative and digits > _TWO_63:  # beyond 64 bits: the nearest double
            return NO_FAULT, position, SLOW, start, position - start
        value, rest = split_integer(digits, is_negative)
        return NO_FAULT, position, NUMBER, value, rest
    power, n_significant = 0, n_digits if digits > np.uint64(0) else 0
    if n_digits > 19:
        n_significant = 20
    if text[position] == 46:
        position += 1
        first = position
        while position < end and 48 <= text[position] <= 57:
            if n_significant < 19:
                digits = digits * np.uint64(10) + np.uint64(text[position] - 48)
            n_significant += digits > np.uint64(0)
            position += 1
        if position == first:
            return (ENDS if position == end else NO_VALUE), position, NUMBER, 0, 0
        power = first - position
    if position < end and text[position] | 32 == 101:
        position += 1
        is_small = position < end and text[position] == _MINUS
        if position < end and text[position] in (_MINUS, np.uint8(43)):
            position += 1
        first, given = position, 0
        while position < end and 48 <= text[position] <= 57:
            given = min(100_000, 10 * given + np.int64(text[position] - 48))
            position += 1
        if position == first:
            return (ENDS if position == end else NO_VALUE), position, NUMBER, 0, 0
        power += -given if is_small else given
    if n_significant <= 19:
        number, is_decided = decimal(digits, power)
        if is_decided:
            return NO_FAULT, position, NUMBER, bits_of(-number if is_negative else number), 0
    return NO_FAULT, position, SLOW, start, position - start


@njit(nogil=True, cache=True)
def split_integer(digits, is_negative):
    """The bits of the double that is not above an integer, and the rest."""
    if digits <= np.uint64(1 << 53):
        number = np.float64(np.int64(digits))
        if is_negative and digits > np.uint64(0):
            number = -number
        return bits_of(number), 0
    n_low = 0
    while digits >> np.uint64(n_low + 53) > np.uint64(0):
        n_low += 1
    rest = np.int64(digits & ((np.uint64(1) << np.uint64(n_low)) - np.uint64(1)))
    high = np.float64(np.int64(digits >> np.uint64(n_low)))
    if not is_negative:
        return bits_of(high * np.float64(1 << n_low)), rest
    if rest > 0:
        high += 1.0
        rest = (1 << n_low) - rest
    return bits_of(-high * np.float64(1 << n_low)), rest


@njit(nogil=True, cache=True)
def split_integers(integers):
    """The bits of the doubles that are not above many integers, and the rests."""
    values, rests = np.empty(len(integers), np.int64), np.empty(len(integers), np.int64)
    for i in range(len(integers)):
        is_negative = integers[i] < 0
        digits = np.uint64(integers[i])
        values[i], rests[i] = split_integer(
            ~digits + np.uint64(1) if is_negative else digits, is_negative
        )
    return values, rests
