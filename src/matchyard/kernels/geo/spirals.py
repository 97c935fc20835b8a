"""Look-ups of names that ask the nodes at the corners of ever larger tiles: see `geo.location`."""

import numpy as np
from numba import njit

from matchyard.kernels.geo.disks import square_between


@njit(nogil=True, cache=True)
def search_spirals(points, sources, rows, corners, holders, is_fresh, tiles):
    """Ask nodes for names until one knows the name: (start, nodes, levels, walks).

    `corners` [n, level, 4] has for each look-up the nodes at the corners of the tiles that contain the source,
    the largest tile first. `holders` [name, level, 4] has the nodes that store each name. `tiles` [name, level, 2]
    has the tile of each name at each level. The nodes of each look-up begin with the source. `levels` has the
    level of the last entry found, -1 for none. `walks` has the summed straight-line distances between the nodes.
    """
    n_levels = corners.shape[1]
    start = np.zeros(len(sources) + 1, np.int64)
    nodes = np.empty(len(sources) * (5 * n_levels + 1), np.int32)
    levels, walks = np.full(len(sources), -1, np.int64), np.zeros(len(sources))
    for number in range(len(sources)):
        row, n = rows[number], start[number]
        nodes[n] = sources[number]
        n += 1
        level = _level_known(holders, row, sources[number])
        for size in range(n_levels - 1, -1, -1):
            # A stale entry of a larger tile leads far away: ask on while the asked tiles are smaller.
            while level < 0 or (level < size and not is_fresh[row, level]):
                other = _nearest_unasked(
                    points, corners[number, size], nodes[start[number] : n], nodes[n - 1]
                )
                if other < 0:
                    break
                nodes[n] = other
                n += 1
                level = max(level, _level_known(holders, row, other))
        # A stale entry tells the tile of the name: a holder of the next smaller level is at the middle
        # of that tile.
        while level >= 0 and level < n_levels - 1 and not is_fresh[row, level]:
            across = 1 - (tiles[row, level + 1, 0] - 2 * tiles[row, level, 0])
            up = 1 - (tiles[row, level + 1, 1] - 2 * tiles[row, level, 1])
            level += 1
            nodes[n] = holders[row, level, 2 * across + up]
            n += 1
        levels[number] = level
        start[number + 1] = n
        for position in range(start[number], n - 1):
            walks[number] += np.sqrt(square_between(points, nodes[position], nodes[position + 1]))
    return start, nodes[: start[len(sources)]].copy(), levels, walks


@njit(nogil=True, cache=True)
def _level_known(holders, row, node):
    """The level of the smallest tile whose entry a node stores; -1 for none."""
    for level in range(holders.shape[1] - 1, -1, -1):
        for corner in range(4):
            if holders[row, level, corner] == node:
                return level
    return -1


@njit(nogil=True, cache=True)
def _nearest_unasked(points, corners, asked, here):
    least, nearest = np.inf, np.int64(-1)
    for corner in corners:
        is_asked = False
        for node in asked:
            is_asked = is_asked or node == corner
        square = square_between(points, here, corner)
        if not is_asked and square < least:
            least, nearest = square, np.int64(corner)
    return nearest
