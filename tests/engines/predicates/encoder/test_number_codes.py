"""Codes of numbers: their order is that of the numbers, exactly."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import assume, example, given
from hypothesis import strategies as st

from matchyard.engines.predicates.encoder.layout import Mode
from tests.engines.predicates.number_pairs import (
    choose_mode,
    join,
    number_codes,
    number_of,
    split,
)

EDGES = [
    sign * (2**power + step)
    for power in (0, 1, 52, 53, 54, 60, 61, 62, 63)
    for step in (-2, -1, 0, 1, 2)
    for sign in (-1, 1)
]
INTEGERS = st.one_of(
    st.integers(-20, 20),
    st.sampled_from([edge for edge in EDGES if edge >= -(2**63)]),
    st.integers(-(2**63), 2**64 - 1),
)
FLOATS = st.one_of(
    st.floats(allow_nan=False),
    st.sampled_from([-0.0, 0.5, -0.5, 5e-324, math.inf, -math.inf, 1e300, 2.0**53 + 2]),
    st.integers(-(2**63), 2**64 - 1).map(float),
)
NUMBERS = st.one_of(INTEGERS, FLOATS)


def compare(left: float, right: float) -> int:
    """-1, 0 or 1, without rounding."""
    if isinstance(left, float) and isinstance(right, float):
        return (left > right) - (left < right)
    for sign, one, other in ((1, left, right), (-1, right, left)):
        if isinstance(one, float) and math.isinf(one):
            return sign * (1 if one > 0 else -1) if one != other else 0
    exact = Fraction(left) - Fraction(right)
    return (exact > 0) - (exact < 0)


def pairs(numbers: list[float]) -> tuple[np.ndarray, np.ndarray]:
    found = [split(number) for number in numbers]
    return np.array([n for n, _ in found], float), np.array([r for _, r in found], np.int64)


def domain_of(constants: list[float]) -> tuple[np.ndarray, np.ndarray]:
    number, rest = pairs(constants)
    both = sorted(set(zip(number.tolist(), rest.tolist())))
    return np.array([n for n, _ in both], float), np.array([r for _, r in both], np.int64)


@given(NUMBERS)
def test_a_number_is_its_pair(value: float) -> None:
    number, rest = split(value)
    assert rest >= 0
    assert compare(join(number, rest), value) == 0
    if not math.isinf(number):
        assert Fraction(number) + rest == Fraction(value)


@given(st.lists(NUMBERS, min_size=1, max_size=6), st.lists(NUMBERS, max_size=10))
@example([2**61, -(2**61)], [2**61 + 1, -(2**61) - 1])  # just past what the modes hold
@example([0.5, 2**53, -(2**53)], [2**53 + 1, -(2**53) - 1])
@example([0.5, 0.0], [-0.0])
def test_codes_compare_with_constants_as_the_numbers_do(
    constants: list[float], values: list[float]
) -> None:
    values = [*values, *constants]
    assume(not any(isinstance(value, float) and math.isnan(value) for value in values))
    domain = domain_of(constants)
    mode = choose_mode(*domain)
    assert choose_mode(*pairs(constants)) is mode
    codes = number_codes(mode, *pairs(constants), *domain)
    others = number_codes(mode, *pairs(values), *domain)
    for constant, code in zip(constants, codes.tolist()):
        assert compare(number_of(mode, code, *domain), constant) == 0
        for value, other in zip(values, others.tolist()):
            assert (other > code) - (other < code) == compare(value, constant), (mode, value)


@given(st.lists(st.integers(-(2**61), 2**61)), st.sampled_from([math.inf, -math.inf, 3]))
def test_whole_constants_are_coded_without_a_domain(integers: list[int], other: float) -> None:
    assert choose_mode(*pairs([*integers, other])) is Mode.INTEGER


def test_the_mode_is_the_plainest_that_holds_the_constants() -> None:
    assert choose_mode(*pairs([])) is Mode.INTEGER
    assert choose_mode(*pairs([0.5, 2**53, -math.inf])) is Mode.FLOAT
    assert choose_mode(*pairs([0.5, 2**53 + 1])) is Mode.RANKED
    assert choose_mode(*pairs([2**62])) is Mode.RANKED
    assert choose_mode(*pairs([1e300])) is Mode.RANKED
