"""Measures of paths (padding, stretch, sparsity), and the requests that a rectangle cuts."""

import math

import numpy as np
from numba import njit

from matchyard.kernels.geo.disks import square_between


@njit(nogil=True, cache=True)
def padding_of(points, start, nodes):
    """The largest distance of a node of each path from the segment between the path's ends."""
    paddings = np.zeros(len(start) - 1)
    for number in range(len(paddings)):
        first, last = nodes[start[number]], nodes[start[number + 1] - 1]
        across, up = points[last, 0] - points[first, 0], points[last, 1] - points[first, 1]
        square = across * across + up * up
        for position in range(start[number], start[number + 1]):
            x = points[nodes[position], 0] - points[first, 0]
            y = points[nodes[position], 1] - points[first, 1]
            share = (x * across + y * up) / square if square > 0.0 else 0.0
            share = min(max(share, 0.0), 1.0)
            away = math.hypot(x - share * across, y - share * up)
            paddings[number] = max(paddings[number], away)
    return paddings


@njit(nogil=True, cache=True)
def stretch_of(points, start, nodes):
    """The length of each path divided by the distance between its ends; 1 if that is 0."""
    stretches = np.ones(len(start) - 1)
    for number in range(len(stretches)):
        straight = square_between(points, nodes[start[number]], nodes[start[number + 1] - 1])
        length = 0.0
        for position in range(start[number], start[number + 1] - 1):
            length += math.sqrt(square_between(points, nodes[position], nodes[position + 1]))
        if straight > 0.0:
            stretches[number] = length / math.sqrt(straight)
    return stretches


@njit(nogil=True, cache=True)
def sparsity_of(points, start, nodes, diameter):
    """The most nodes of each path in any disk of this diameter.

    A fullest disk can be moved until two of its nodes are on the rim, or all its nodes are at one point.
    """
    sparsities = np.ones(len(start) - 1, np.int64)
    for number in range(len(sparsities)):
        path = nodes[start[number] : start[number + 1]]
        for i in range(len(path)):
            n_here = 0
            for j in range(len(path)):
                n_here += square_between(points, path[i], path[j]) == 0.0
            sparsities[number] = max(sparsities[number], n_here)
            for j in range(len(path)):
                square = square_between(points, path[i], path[j])
                if 0.0 < square <= diameter * diameter:
                    sparsities[number] = max(
                        sparsities[number], _most_on_rim(points, path, i, j, diameter)
                    )
    return sparsities


@njit(nogil=True, cache=True)
def _most_on_rim(points, path, i, j, diameter):
    """The number of nodes in the disk with nodes i and j on its rim and its centre left of the line i to j."""
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
        # `limit` has slack for rounding; a node counts only if both rim nodes are within the diameter.
        count += (
            square_between(points, node, path[i]) <= far
            and square_between(points, node, path[j]) <= far
        )
    return count


@njit(nogil=True, cache=True)
def busiest_rectangles(columns, rows, owners, n_points, xs, ys, r_i):
    """Search all rectangles with sides on the lines `xs` and `ys` for the largest load and the largest bound.

    Returns (largest load, (left, right, low, high line) of its rectangle, the number of requests that it cuts, largest
    bound). `columns`, `rows` and `owners` are the cell and the request of each point, sorted by row. `n_points` has
    the number of points of each request.
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
                    for position in range(row_start[high], row_start[high + 1]):
                        if left <= columns[position] <= right:
                            owner = owners[position]
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
    """load(R) [thesis (4.2)], and the bound with its constant: see `congestion.lower_bound`."""
    left, right, low, high = sides
    width, height = xs[right] - xs[left], ys[high] - ys[low]
    load = n_cut * min(1.0, r_i / (width + height)) if width + height > 0.0 else float(n_cut)
    n_upright = (left > 0) + (right < len(xs) - 1)  # sides of the rectangle inside the region
    n_level = (low > 0) + (high < len(ys) - 1)
    rim = n_upright * height + n_level * width
    n_pieces = 2 if n_upright * n_level == 0 and n_upright + n_level == 2 else 1
    area = 3 * rim * r_i + 2.25 * math.pi * r_i * r_i * n_pieces
    return load, n_cut * (math.pi * r_i * r_i / 4) / area
