"""Numbers as codes that compare as the numbers do, exactly; see `Mode`.

A number is a pair: the largest double that is not above it, and what is left, a whole number. The
rest is 0 for every double and for integers up to 2^53, so that doubles and 64-bit integers meet in
one order. Pairs compare as the numbers do.

    INTEGER  constants: integers up to 2^61 in size, and the infinities
             2 x, or 2 floor(x) + 1 between integers; ±(2^62 + 1) for finite numbers past ±2^61,
             ±(2^62 + 2) for the infinities
    FLOAT    constants: doubles up to 2^53 in size, and the infinities
             the bits of the double, put in order; finite numbers past ±2^53 count as the double
             next to ±2^53
    RANKED   2 i + 1 for the i-th constant, 2 i for what falls just before it
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.layout import Mode
from matchyard.kernels.intrinsics import intrinsic_with

LEAST_INTEGER, MOST_INTEGER = -(1 << 63), (1 << 64) - 1  # what fits in 64 bits, signed or not

_WHOLE = float(1 << 61)  # the largest constant of INTEGER…
_PAST_WHOLE = (1 << 62) + 1  # …the code of what lies past it…
_INFINITE = (1 << 62) + 2  # …and of the infinities
_EXACT = float(1 << 53)  # the largest constant of FLOAT
_PAST_EXACT = float((1 << 53) + 2)
_SIGNLESS = (1 << 63) - 1
_INTEGER, _FLOAT = int(Mode.INTEGER), int(Mode.FLOAT)
_WHOLE_CODE = 1 << 62


def split(value: float) -> tuple[float, int]:
    """A number as a pair.

    >>> split(2**53 + 1), split(2.5)
    ((9007199254740992.0, 1), (2.5, 0))
    """
    if isinstance(value, float):
        return value + 0.0, 0  # no negative zero
    number = float(value)
    if int(number) > value:  # rounded up
        number = math.nextafter(number, -math.inf)
    return number, value - int(number)


def join(number: float, rest: int) -> int | float:
    """The number that a pair stands for; whole numbers within 64 bits are integers.

    >>> join(2.0**53, 1), join(2.5, 0), join(-0.0, 0)
    (9007199254740993, 2.5, 0)
    """
    if rest == 0 and not (number.is_integer() and LEAST_INTEGER <= number <= MOST_INTEGER):
        return float(number)
    return int(number) + int(rest)


def choose_mode(number: NDArray[np.float64], rest: NDArray[np.int64]) -> Mode:
    """The first mode that can hold these constants."""
    infinite = np.isinf(number)
    is_small = (np.abs(number) < _WHOLE) | (number == -_WHOLE) | ((number == _WHOLE) & (rest == 0))
    if bool(np.all(infinite | is_small & (number == np.floor(number)))):
        return Mode.INTEGER
    if bool(np.all(infinite | (np.abs(number) <= _EXACT) & (rest == 0))):
        return Mode.FLOAT
    return Mode.RANKED


def number_codes(
    mode: int,
    number: NDArray[np.float64],
    rest: NDArray[np.int64],
    domain: NDArray[np.float64],
    domain_rest: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The codes of many numbers, none of them NaN; `domain` holds a RANKED slot's constants."""
    codes = np.empty(len(number), np.int64)
    _code_all(int(mode), number, rest, domain, domain_rest, codes)
    return codes


def number_of(
    mode: int, code: int, domain: NDArray[np.float64], domain_rest: NDArray[np.int64]
) -> int | float:
    """The constant that has this code."""
    code = int(code)
    if mode == Mode.INTEGER:
        return code // 2 if abs(code) < _INFINITE else math.copysign(math.inf, code)
    if mode == Mode.FLOAT:
        bits = np.int64(code if code >= 0 else code ^ _SIGNLESS)
        return join(float(bits.view(np.float64)), 0)
    return join(float(domain[code // 2]), int(domain_rest[code // 2]))


@intrinsic_with(lambda number: np.float64(number).view(np.int64))
def bits_of(typingctx, number):
    """The bits of a double, as an integer."""

    def generate(context, builder, call, args):
        return builder.bitcast(args[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


@njit(nogil=True, cache=True)
def number_code(mode, number, rest, domain, domain_rest, start, end):
    """The code of one number that is not NaN; a RANKED slot's constants are domain[start:end]."""
    if mode == _INTEGER:
        if abs(number) < _WHOLE:
            below = np.floor(number)
            return 2 * (np.int64(below) + rest) + (number != below)
        if number == _WHOLE and rest == 0:
            return np.int64(_WHOLE_CODE)
        if number == -_WHOLE:
            return np.int64(-_WHOLE_CODE) + 2 * rest
        code = np.int64(_INFINITE if np.isinf(number) else _PAST_WHOLE)
        return code if number > 0 else -code
    if mode == _FLOAT:
        if number == 0.0:
            return np.int64(0)  # whatever its sign
        if not np.isinf(number):
            if number > _EXACT or (number == _EXACT and rest > 0):
                number = _PAST_EXACT
            elif number < -_EXACT:
                number = -_PAST_EXACT
        bits = bits_of(number)
        return bits if bits >= 0 else bits ^ np.int64(_SIGNLESS)
    low, high = start, end
    while low < high:
        middle = (low + high) >> 1
        if domain[middle] < number or (domain[middle] == number and domain_rest[middle] < rest):
            low = middle + 1
        else:
            high = middle
    is_constant = low < end and domain[low] == number and domain_rest[low] == rest
    return np.int64(2 * (low - start) + is_constant)


@njit(nogil=True, cache=True)
def _code_all(mode, number, rest, domain, domain_rest, codes):
    for i in range(len(number)):
        codes[i] = number_code(mode, number[i], rest[i], domain, domain_rest, 0, len(domain))
