"""Intermediate points: each edge of a tree makes a detour through a random point [thesis §4.5, §4.7.1].

T60   the angles at both ends are uniform up to 60°; T45 and T30 likewise. The path through the point
      is at most 1 / cos(bound) times as long: 2, 1.414, 1.155
C1    the point is uniform on an arc round the sender, at 1 times the distance; the arc extends
      `arc` degrees to both sides of the straight line. C0.5, C1.5, C2 likewise
C0    no intermediate point
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.geo.mesh import Region
from matchyard.geo.path import choose
from matchyard.kernels.geo import trees as geo_trees

RULES = ("T60", "T45", "T30", "C0", "C0.5", "C1", "C1.5", "C2")  # the rules of the thesis
OUTSIDE = {
    "nearest": geo_trees.NEAREST,  # take the node nearest to the point outside
    "clamp": geo_trees.CLAMP,  # move the point to the border of the region
    "redraw": geo_trees.REDRAW,  # draw again until a point is inside
}


class Rule(NamedTuple):
    """A rule for drawing intermediate points: `Rule("T60")`, `Rule("C1", arc=90)`."""

    name: str
    arc: float = 60.0  # degrees to both sides; the thesis shows it only in a figure
    outside: str = "nearest"  # the treatment of points outside the region: see `OUTSIDE`

    @property
    def is_straight(self) -> bool:
        """True if there are no intermediate points."""
        return self.codes()[0] == geo_trees.STRAIGHT

    def codes(self) -> tuple[int, float, float]:
        """The kind of the rule, its number and the arc, with angles in radians.

        >>> Rule("T90").codes()
        Traceback (most recent call last):
        matchyard.errors.UsageError: rule 'T90'; expected T and degrees above 0 and below 90, or C and 0 to 2, \
e.g. T60 or C0.5
        """
        choose(self.outside, OUTSIDE, "outside")
        if not 0 < self.arc <= 180:
            raise UsageError(f"arc {self.arc}; expected degrees above 0, at most 180")
        written = re.fullmatch(r"([TC])(\d{1,3}(?:\.\d{1,9})?)", self.name)
        kind, value = (written[1], float(written[2])) if written else ("", 0.0)
        arc = math.radians(self.arc)
        if kind == "T" and 0 < value < 90:
            return geo_trees.ANGLES, math.radians(value), arc
        if kind == "C" and value <= 2:
            return (geo_trees.ARC if value else geo_trees.STRAIGHT), value, arc
        raise UsageError(
            f"rule {self.name!r}; expected T and degrees above 0 and below 90, or C and 0 to 2, e.g. T60 or C0.5"
        )


def read_rule(rule: Rule | str) -> Rule:
    """Convert a name to a rule; a rule stays."""
    return rule if isinstance(rule, Rule) else Rule(str(rule))


def draw(
    rule: Rule | str,
    sources: NDArray[np.float64],
    targets: NDArray[np.float64],
    keys: NDArray[np.uint64],
    region: Region,
) -> NDArray[np.float64]:
    """Draw a point for each pair of points; `keys` are the seeds of the pairs."""
    chosen = read_rule(rule)
    n = len(sources)
    points = np.concatenate([sources, targets]).astype(np.float64)
    points.flags.writeable = False  # same array type as the points of a mesh: one compiled kernel
    drawn: NDArray[np.float64] = geo_trees.draw_points(
        points, np.arange(n), np.arange(n, 2 * n), keys, chosen.codes(), region, OUTSIDE[chosen.outside],
    )  # fmt: skip
    return drawn
