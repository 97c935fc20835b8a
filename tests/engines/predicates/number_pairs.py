"""Numbers as pairs (see `number_codes`), modes and codes as plain Python defines them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from matchyard.engines.predicates.encoder.layout import Mode
from matchyard.engines.predicates.encoder.number_codes import number_code

_WHOLE, _EXACT = 2.0**61, 2.0**53  # the largest constants of INTEGER and FLOAT
_INFINITE = (1 << 62) + 2


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
    if rest == 0 and not (number.is_integer() and -(2**63) <= number <= 2**64 - 1):
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
    listed = (domain, domain_rest, 0, len(domain))
    codes = [number_code(int(mode), n, r, *listed) for n, r in zip(number, rest)]
    return np.array(codes, np.int64)


def number_of(
    mode: int, code: int, domain: NDArray[np.float64], domain_rest: NDArray[np.int64]
) -> int | float:
    """The constant that has this code."""
    code = int(code)
    if mode == Mode.INTEGER:
        return code // 2 if abs(code) < _INFINITE else math.copysign(math.inf, code)
    if mode == Mode.FLOAT:
        bits = np.int64(code if code >= 0 else code ^ (2**63 - 1))
        return join(float(bits.view(np.float64)), 0)
    return join(float(domain[code // 2]), int(domain_rest[code // 2]))
