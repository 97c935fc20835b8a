"""Numbers as codes that compare as the numbers do, exactly; see `Mode`.

A number is a pair: the largest double that is not above it, and the rest, a whole number. The rest
is 0 for every double and for integers up to 2^53. Pairs compare as the numbers do, so doubles and
64-bit integers have one order.

    INTEGER  constants: integers up to 2^61 in size, and the infinities
             2 x, or 2 floor(x) + 1 between integers; ±(2^62 + 1) for finite numbers past ±2^61,
             ±(2^62 + 2) for the infinities
    FLOAT    constants: doubles up to 2^53 in size, and the infinities
             the bits of the double, put in order; finite numbers past ±2^53 count as the double
             next to ±2^53
    RANKED   2 i + 1 for the i-th constant, 2 i for a number just before it
"""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.engines.predicates.encoder.layout import Mode
from matchyard.kernels.bits import bits_of

_WHOLE = float(1 << 61)  # the largest constant of INTEGER…
_PAST_WHOLE = (1 << 62) + 1  # …the code of larger numbers…
_INFINITE = (1 << 62) + 2  # …and of the infinities
_EXACT = float(1 << 53)  # the largest constant of FLOAT
_PAST_EXACT = float((1 << 53) + 2)
_SIGNLESS = (1 << 63) - 1
_INTEGER, _FLOAT = int(Mode.INTEGER), int(Mode.FLOAT)
_WHOLE_CODE = 1 << 62


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
