"""Forwarding as a router: a key is an interface on a tree [TagMatch, thesis §3.4.5].

An event arrives on a tree, through an interface. Its next interfaces are the interfaces of its
matches on that tree, once each, without the incoming one. `routing.fib` builds on this.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from matchyard.errors import UsageError
from matchyard.kernels.csr import unique
from matchyard.kernels.growing import with_room
from matchyard.kernels.key_table import is_removed, key_at
from matchyard.matches import Hits, Part


class Way(NamedTuple):
    """How events arrive at a router [thesis §3.4.5]: a tree and an incoming interface each."""

    trees: NDArray[np.int64]
    incoming: NDArray[np.int64]

    def rows(self, start: int, stop: int) -> Way:
        """The way of the events from `start` to `stop`."""
        return Way(self.trees[start:stop], self.incoming[start:stop])


def interface_key(tree: Any, interface: Any) -> Any:
    """The key of an interface on a tree, for `TagIndex.forward`; numbers or arrays of them.

    >>> interface_key(2, 5)
    8589934597
    """
    for what, numbers, limit in (("trees", tree, 1 << 31), ("interfaces", interface, 1 << 32)):
        if np.size(numbers) and not (np.min(numbers) >= 0 and np.max(numbers) < limit):
            raise UsageError(f"{what} are 0 to {limit - 1}")
    if isinstance(tree, int) and isinstance(interface, int):
        return tree << 32 | interface
    both: NDArray[np.int64] = np.asarray(tree, np.int64) << 32 | np.asarray(interface, np.int64)
    return both


def next_interfaces(
    event_start: NDArray[np.int64],
    keys: NDArray[Any],
    trees: NDArray[np.int64],
    incoming: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """ICN forwarding [thesis §3.4.5]: keys are tree << 32 | interface. Keep each interface on the
    event's own tree once, except the incoming one."""
    start, kept = np.empty_like(event_start), np.empty(len(keys), np.int64)
    n_kept = _on_tree(event_start, keys, trees, incoming, start, kept)
    return unique(start, kept[:n_kept])


@njit(nogil=True, cache=True)
def _on_tree(event_start, keys, trees, incoming, start, kept):
    end = 0
    for event in range(len(event_start) - 1):
        start[event] = end
        for i in range(event_start[event], event_start[event + 1]):
            key = np.int64(keys[i])
            interface = key & 0xFFFFFFFF
            if key >> 32 == trees[event] and interface != incoming[event]:
                kept[end] = interface
                end += 1
    start[len(event_start) - 1] = end
    return end


@njit(nogil=True, cache=True)
def _hits_on_tree(table, hit_start, hits, trees, incoming, start):
    """As `_on_tree`, from the rows that match: the keys of other trees are not written."""
    key_start = table.key_start
    kept, end = np.empty(256, np.int64), 0
    for event in range(len(hit_start) - 1):
        start[event] = end
        for i in range(hit_start[event], hit_start[event + 1]):
            low, high = key_start[hits[i]], key_start[hits[i] + 1]
            kept = with_room(kept, end, end + high - low)
            for position in range(low, high):
                key = key_at(table, position)
                interface = key & 0xFFFFFFFF
                is_next = key >> 32 == trees[event] and interface != incoming[event]
                if is_next and not is_removed(table, position):
                    kept[end] = interface
                    end += 1
    start[len(hit_start) - 1] = end
    return kept[:end]


def next_interfaces_of(part: Part, way: Way) -> Part:
    """Replace the keys of each event by its next interfaces."""
    found = part.found
    if isinstance(found, Hits):
        start = np.empty_like(found.start)
        kept = _hits_on_tree(found.table, found.start, found.rows, way.trees, way.incoming, start)
        event_start, keys = unique(start, kept)
    else:
        event_start, keys = next_interfaces(part.event_start, part.keys, way.trees, way.incoming)
    return part._replace(event_start=event_start, found=keys)
