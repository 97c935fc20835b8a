"""Simulation of copies that cross links in the order of time: delays, queues, losses and resends."""

from heapq import heapify, heappop, heappush

import numpy as np
from numba import njit

from matchyard.kernels.network.subtrees import by_number
from matchyard.kernels.random import draw, fraction

NEVER_SENT, ARRIVED, LOST, NO_ROOM = 0, 1, 2, 3  # the fate of a copy


@njit(nogil=True, cache=True)
def cross_links(of, place, before, begins, links, resends, most_waiting, seed):
    """Let copies cross links: (fate of each, time of its arrival or loss, number of its transmissions).

    `begins` has the start time of each notification. `links` has for each place (see `subtrees`): delay, time on the
    link, probability of loss, and the time after which a lost copy is sent again. Copies that are ready at the same
    time go by notification, then by place, so that the result does not depend on their order in the list.
    """
    n_copies, n_places = len(of), len(links)
    fates, times = np.zeros(n_copies, np.int8), np.full(n_copies, np.nan)
    n_sent = np.zeros(n_copies, np.int32)
    child_start, children = by_number(before + 1, n_copies + 1)
    free_at = np.full(n_places, -np.inf)
    waiting = [(0.0, np.int64(0), np.int64(0)) for _ in range(0)]
    for i in range(child_start[1]):
        copy = children[i]
        waiting.append((begins[of[copy]], _rank(of, place, copy, n_places), copy))
    heapify(waiting)
    while len(waiting) > 0:
        time, rank, copy = heappop(waiting)
        delay, on_link, loss, again = links[place[copy]]
        ready = max(time, free_at[place[copy]])
        if on_link > 0.0 and np.ceil((ready - time) / on_link - 1e-9) > most_waiting:
            fates[copy], times[copy] = NO_ROOM, time
            continue
        done = ready + on_link
        free_at[place[copy]] = done
        n_sent[copy] += 1
        if fraction(draw(seed, rank, n_sent[copy])) < loss:
            if n_sent[copy] <= resends:
                heappush(waiting, (done + again, rank, copy))
            else:
                fates[copy], times[copy] = LOST, done + delay
            continue
        fates[copy], times[copy] = ARRIVED, done + delay
        for i in range(child_start[copy + 1], child_start[copy + 2]):
            child = children[i]
            heappush(waiting, (done + delay, _rank(of, place, child, n_places), child))
    return fates, times, n_sent


@njit(nogil=True, cache=True)
def _rank(of, place, copy, n_places):
    return np.int64(of[copy]) * n_places + place[copy]
