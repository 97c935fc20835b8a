"""How straight paths are, how full their surroundings, and how many requests a rectangle cuts."""

import math

import numpy as np
from numba import njit

from matchyard.kernels.geo.disks import square_between


@njit(nogil=True, cache=True)
def padding_of(points, start, nodes):
    """The largest distance of a node of each path from the segment between the path's ends."""
    found = np.zeros(len(start) - 1)
    for number in range(len(found)):
        first, last = nodes[start[number]], nodes[start[number + 1] - 1]
        across, up = points[last, 0] - points[first, 0], points[last, 1] - points[first, 1]
        square = across * across + up * up
        for place in range(start[number], start[number + 1]):
            x = points[nodes[place], 0] - points[first, 0]
            y = points[nodes[place], 1] - points[first, 1]
            share = (x * across + y * up) / square if square > 0.0 else 0.0
            share = min(max(share, 0.0), 1.0)
            away = math.hypot(x - share * across, y - share * up)
            found[number] = max(found[number], away)
    return found


@njit(nogil=True, cache=True)
def stretch_of(points, start, nodes):
    """The length of each path over the distance between its ends."""
    found = np.ones(len(start) - 1)
    for number in range(len(found)):
        straight = square_between(points, nodes[start[number]], nodes[start[number + 1] - 1])
        length = 0.0
        for place in range(start[number], start[number + 1] - 1):
            length += math.sqrt(square_between(points, nodes[place], nodes[place + 1]))
        if straight > 0.0:
            found[number] = length / math.sqrt(straight)
    return found


@njit(nogil=True, cache=True)
def sparsity_of(points, start, nodes, diameter):
    """The most nodes of each path that a disk of this diameter holds.

    A fullest disk can be moved until two of its nodes are on the rim, or it holds one place only.
    """
    found = np.ones(len(start) - 1, np.int64)
    for number in range(len(found)):
        path = nodes[start[number] : start[number + 1]]
        for i in range(len(path)):
            n_here = 0
            for j in range(len(path)):
                n_here += square_between(points, path[i], path[j]) == 0.0
            found[number] = max(found[number], n_here)
            for j in range(len(path)):
                square = square_between(points, path[i], path[j])
                if 0.0 < square <= diameter * diameter:
                    found[number] = max(found[number], _most_on_rim(points, path, i, j, diameter))
    return found


@njit(nogil=True, cache=True)
def _most_on_rim(points, path, i, j, diameter):
    """How many nodes the disk holds that has two of them on its rim, the first on the left."""
    x, y = points[path[i], 0], points[path[i], 1]
    across, up = points[path[j], 0] - x, points[path[j], 1] - y
    square, radius = across * across + up * up, diameter / 2
    off = math.sqrt(max(0.0, radius * radius / square - 0.25))
    middle_x, middle_y = x + across / 2 - off * up, y + up / 2 + off * across
    limit, count = radius * radius * (1 + 1e-9), 0
    far = diameter * diameter
    for node in path:
        x, y = points[node, 0] - middle_x, points[node, 1] - middle_y
        if x * x + y * y > limit:
            continue
        # The slack for rounding lets no node in that is out of range of one on the rim.
        count += (
            square_between(points, node, path[i]) <= far
            and square_between(points, node, path[j]) <= far
        )
    return count


@njit(nogil=True, cache=True)
def busiest_rectangles(columns, rows, owners, n_points, xs, ys, r_i):
    """Of all rectangles with sides on the lines `xs` and `ys`: (largest load, its left, right, low and high line,
    the requests that it cuts, and the largest bound of any rectangle).

    `columns`, `rows` and `owners` say of each point its cell and its request, points in the order of their
    rows. `n_points` has the number of points of each request.
    """
    row_start = np.searchsorted(rows, np.arange(len(ys)))
    n_inside = np.zeros(len(n_points), np.int32)
    best_load, best_bound, best, most = 0.0, 0.0, (0, 0, 0, 0), 0
    for left in range(len(xs) - 1):
        for right in range(left, len(xs) - 1):
            for low in range(len(ys) - 1):
                n_inside[:] = 0
                n_cut = 0
                for high in range(low, len(ys) - 1):
                    for place in range(row_start[high], row_start[high + 1]):
                        if left <= columns[place] <= right:
                            owner = owners[place]
                            n_inside[owner] += 1
                            n_cut += n_inside[owner] == 1
                            n_cut -= n_inside[owner] == n_points[owner]
                    sides = (left, right + 1, low, high + 1)
                    load, bound = _bounds(n_cut, sides, xs, ys, r_i)
                    best_bound = max(best_bound, bound)
                    if load > best_load:
                        best_load, best, most = load, sides, n_cut
    return best_load, best, most, best_bound


@njit(nogil=True, cache=True)
def _bounds(n_cut, sides, xs, ys, r_i):
    """load(R) [thesis (4.2)], and the bound with its constant: see `lower_bound`."""
    left, right, low, high = sides
    width, height = xs[right] - xs[left], ys[high] - ys[low]
    load = n_cut * min(1.0, r_i / (width + height)) if width + height > 0.0 else float(n_cut)
    n_upright = (left > 0) + (right < len(xs) - 1)  # sides of the rectangle inside the region
    n_level = (low > 0) + (high < len(ys) - 1)
    rim = n_upright * height + n_level * width
    n_pieces = 2 if n_upright * n_level == 0 and n_upright + n_level == 2 else 1
    area = 3 * rim * r_i + 2.25 * math.pi * r_i * r_i * n_pieces
    return load, n_cut * (math.pi * r_i * r_i / 4) / area
