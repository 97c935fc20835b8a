"""Intermediate points: the geometry of triangles and arcs, and of points that fall outside the region."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given
from numpy.typing import NDArray

from matchyard import geo
from matchyard.geo.mesh import Region
from matchyard.kernels.geo import trees

FRACTIONS = st.floats(0, 1, exclude_max=True)
COORDINATES = st.floats(-1e3, 1e3)
PLACES = st.tuples(COORDINATES, COORDINATES).map(np.array)
PLANE = (-1e9, -1e9, 1e9, 1e9)


def turn(
    rule: str, here: NDArray[np.float64], there: NDArray[np.float64], *fractions: float
) -> tuple[NDArray[np.float64], float, float]:
    x, y, alpha, beta = trees.turn(here, there, *geo.Rule(rule).codes(), *fractions)
    return np.array([x, y]), alpha, beta


def angle_between(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Signed, counterclockwise from the first."""
    cross = one[0] * other[1] - one[1] * other[0]
    return math.atan2(cross, float(one @ other))


@pytest.mark.parametrize("rule", ["T60", "T45", "T30"])
@given(here=PLACES, there=PLACES, first=FRACTIONS, second=FRACTIONS, third=FRACTIONS)
def test_a_triangle_has_the_angles_that_were_drawn(
    rule: str,
    here: NDArray[np.float64],
    there: NDArray[np.float64],
    first: float,
    second: float,
    third: float,
) -> None:
    away = math.dist(here, there)
    assume(away > 1e-3 and min(first, second) > 1e-6)  # else rounding hides the angles
    point, alpha, beta = turn(rule, here, there, first, second, third)
    bound = math.radians(float(rule[1:]))
    assert (alpha, beta) == (bound * first, bound * second)
    side = 1 if third < 0.5 else -1
    slack = 1e-9 + 1e-11 * 1e3 / away / min(first, second)
    assert angle_between(there - here, point - here) == pytest.approx(side * alpha, abs=slack)
    assert angle_between(point - there, here - there) == pytest.approx(side * beta, abs=slack)
    legs = math.dist(here, point), math.dist(point, there)
    assert sum(legs) <= away * (1 / math.cos(bound) + 1e-9)
    assert max(legs) <= away * (1 + 1e-9)


@pytest.mark.parametrize("rule", ["T60", "T45", "T30"])
def test_angles_of_unit_triangles_are_right_to_nine_digits(rule: str) -> None:
    here, there = np.array([0.25, 0.5]), np.array([1.25, 0.5])
    for first, second, third in np.random.default_rng(3).random((500, 3)):
        point, alpha, beta = turn(rule, here, there, first, second, third)
        side = 1 if third < 0.5 else -1
        assert abs(angle_between(there - here, point - here) - side * alpha) < 1e-9
        assert abs(angle_between(point - there, here - there) - side * beta) < 1e-9


@pytest.mark.parametrize("rule", ["C0", "C0.5", "C1", "C1.5", "C2"])
@given(here=PLACES, there=PLACES, first=FRACTIONS)
def test_a_point_of_an_arc_is_at_its_distance_and_within_it(
    rule: str, here: NDArray[np.float64], there: NDArray[np.float64], first: float
) -> None:
    away, share = math.dist(here, there), float(rule[1:])
    assume(away > 1e-3)
    point, alpha, _ = turn(rule, here, there, first, 0.5, 0.5)
    assert math.dist(here, point) == pytest.approx(share * away, rel=1e-9, abs=1e-9)
    assert abs(alpha) <= math.radians(60)
    if share:
        assert angle_between(there - here, point - here) == pytest.approx(alpha, abs=1e-8)


def test_two_angles_of_zero_give_the_midpoint() -> None:
    point, alpha, beta = turn("T60", np.array([1.0, 2.0]), np.array([4.0, 6.0]), 0.0, 0.0, 0.7)
    assert (point.tolist(), alpha, beta) == ([2.5, 4.0], 0.0, 0.0)


def drawn(rule: geo.Rule | str, region: Region, n: int = 2000) -> NDArray[np.float64]:
    """Points for the same edge from (1, 0) to (4, 4), with a key each."""
    here, there = np.tile([1.0, 0.0], (n, 1)), np.tile([4.0, 4.0], (n, 1))
    return geo.draw(rule, here, there, np.arange(n, dtype=np.uint64) * 7919, region)


@pytest.mark.parametrize(("rule", "most"), [("T60", 2.0), ("T45", 1.4143), ("T30", 1.1548)])
def test_drawn_triangles_fill_their_bounds_on_both_sides(rule: str, most: float) -> None:
    points = drawn(rule, PLANE)
    first, second = np.hypot(*(points - [1, 0]).T), np.hypot(*(points - [4, 4]).T)
    detours = (first + second) / 5
    assert detours.min() >= 1 - 1e-12
    assert most * 0.9 < detours.max() <= most
    assert max(first.max(), second.max()) <= 5 * (1 + 1e-12) or rule != "T60"
    is_left = (points - [1, 0]) @ [-4, 3] > 0
    assert 900 < is_left.sum() < 1100
    angles = np.degrees(np.arccos(((points - [1, 0]) @ [3, 4]) / (5 * first)))
    shares = np.histogram(angles, 4, (0, float(rule[1:])))[0]
    assert shares.sum() == 2000
    assert (abs(shares - 500) < 100).all()


def test_drawn_points_of_an_arc_have_equal_chances() -> None:
    points = drawn(geo.Rule("C1.5", arc=90), PLANE)
    np.testing.assert_allclose(np.hypot(*(points - [1, 0]).T), 7.5, rtol=1e-9)
    across, up = (points - [1, 0]) @ [3, 4] / 5, (points - [1, 0]) @ [-4, 3] / 5
    shares = np.histogram(np.degrees(np.arctan2(up, across)), 6, (-90, 90))[0]
    assert shares.sum() == 2000
    assert (abs(shares - 333) < 80).all()


def test_points_outside_the_region_are_kept_moved_or_drawn_again() -> None:
    region = (0.0, 0.0, 5.0, 5.0)
    free = drawn(geo.Rule("C1"), PLANE)
    kept = drawn(geo.Rule("C1"), region)
    np.testing.assert_array_equal(kept, free)
    is_inside = ((free >= 0) & (free <= 5)).all(axis=1)
    assert 0.2 < is_inside.mean() < 0.8
    moved = drawn(geo.Rule("C1", outside="clamp"), region)
    np.testing.assert_array_equal(moved, np.clip(free, 0, 5))
    again = drawn(geo.Rule("C1", outside="redraw"), region)
    assert ((again >= 0) & (again <= 5)).all()
    np.testing.assert_array_equal(again[is_inside], free[is_inside])
    np.testing.assert_allclose(np.hypot(*(again - [1, 0]).T), 5, rtol=1e-9)


def test_a_point_that_never_falls_inside_is_moved_there() -> None:
    points = drawn(geo.Rule("C2", arc=10, outside="redraw"), (0, 0, 4, 4), n=20)
    assert ((points >= 0) & (points <= 4)).all()
    assert (points == 4).any(axis=1).all()
