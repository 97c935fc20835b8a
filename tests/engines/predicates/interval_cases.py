"""Encoded intervals and events at random, the matches by brute force, and HEM's own workload."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchyard.engines.predicates.algorithms.shared import exact_check, stored_filters
from matchyard.engines.predicates.encoder.layout import HIGHEST, LOWEST, Batch, Filters
from matchyard.kernels.strings import freeze
from matchyard.matches import Part

Interval = tuple[int, int, int]  # slot, low, high


def filters(subscriptions: Sequence[Iterable[Interval]]) -> Filters:
    """One filter per subscription, one piece per constraint."""
    rows = [sorted(each) for each in subscriptions]
    start = np.cumsum([0, *map(len, rows)])
    pieces = np.array([piece for row in rows for piece in row], np.int64).reshape(-1, 3)
    return Filters(
        np.arange(len(rows) + 1),
        start,
        np.arange(len(pieces) + 1),
        np.zeros(len(pieces), np.int16),
        pieces[:, 0].astype(np.int32),
        pieces[:, 1].copy(),
        pieces[:, 2].copy(),
    )


def batch(events: Sequence[Iterable[tuple[int, int]]]) -> Batch:
    """Events of (slot, code)."""
    rows = [sorted(each) for each in events]
    entries = np.array([entry for row in rows for entry in row], np.int64).reshape(-1, 2)
    none = np.zeros(1, np.int32)
    return Batch(
        np.cumsum([0, *map(len, rows)]),
        entries[:, 0].astype(np.int32),
        entries[:, 1].copy(),
        np.zeros(len(entries), np.int32),
        none,
        none,
    )


def random_subscriptions(
    rng: np.random.Generator, n_rows: int, n_slots: int, size: int
) -> list[list[Interval]]:
    """Intervals with codes up to that size: some equal, some unbounded, some without values."""
    subscriptions = []
    for _ in range(n_rows):
        slots = rng.choice(n_slots, rng.integers(0, n_slots + 1), replace=False)
        row = []
        for slot in slots:
            low, high = (int(code) for code in np.sort(rng.integers(-size, size, 2)))
            kind = rng.integers(0, 8)
            if kind == 0:
                low = LOWEST
            elif kind == 1:
                high = HIGHEST
            elif kind == 2:
                low = high
            elif kind == 3 and rng.random() < 0.2:
                low, high = high, low
            row.append((int(slot), low, high))
        subscriptions.append(row)
    return subscriptions


def random_events(
    rng: np.random.Generator, n_events: int, n_slots: int, size: int
) -> list[list[tuple[int, int]]]:
    """Events with some of the slots, and others that no subscription knows."""
    events = []
    for _ in range(n_events):
        n_present = n_slots if rng.random() < 0.5 else rng.integers(0, n_slots + 1)
        slots = rng.choice(n_slots + 2, n_present, replace=False)
        edge = size + size // 4
        events.append([(int(slot), int(rng.integers(-edge, edge))) for slot in slots])
    return events


def brute_force(subscriptions: Filters, keys: NDArray[np.int64], events: Batch) -> list[list[int]]:
    """The keys per event, from the exact check of every filter."""
    found = stored_filters.Distinct(subscriptions, np.arange(len(keys) + 1), keys)
    table = stored_filters.store(found)
    seen = stored_filters.narrowed(table, events)
    first = exact_check.no_slots(
        int(max(table.slots.max(initial=0), seen.slots.max(initial=0))) + 1
    )
    matches = []
    for event in range(events.n_rows):
        has_elements = exact_check.enter(seen, event, first)
        matches.append(
            [
                int(key)
                for row, key in enumerate(keys)
                if exact_check.filter_holds(table, row, seen, event, first, has_elements)
            ]
        )
        exact_check.leave(seen, event, first)
    return matches


def keys_of(part: Part) -> list[list[int]]:
    """The keys per event, in order."""
    ends = part.event_start
    return [sorted(part.keys[ends[i] : ends[i + 1]].tolist()) for i in range(len(ends) - 1)]


def matches_of(algorithm: Any, table: Any, events: Batch, options: Any) -> list[list[int]]:
    """What an algorithm finds; as an index has it, the table is frozen."""
    table = freeze(table)
    space = algorithm.workspace(table, options)
    return keys_of(algorithm.match(table, events, space, options))


def hem_workload(
    n_rows: int,
    n_events: int,
    n_slots: int = 20,
    n_constraints: int = 10,
    width: float = 0.3,
    event_size: int = 20,
) -> tuple[Filters, NDArray[np.int64], Batch]:
    """Uniform intervals within 1 … 1 M [HEM Table 2]; the code of x is 2 x."""
    rng = np.random.default_rng(1)
    domain = 1_000_000
    order = np.argsort(rng.random((n_rows, n_slots)), axis=1)
    slots = np.sort(order[:, :n_constraints], axis=1).reshape(-1).astype(np.int32)
    low = rng.integers(1, round((1 - width) * domain) + 1, len(slots))
    rows = np.arange(n_rows + 1)
    subscriptions = Filters(
        rows,
        rows * n_constraints,
        np.arange(len(slots) + 1),
        np.zeros(len(slots), np.int16),
        slots,
        2 * low,
        2 * (low + round(width * domain)),
    )
    present = np.argsort(rng.random((n_events, n_slots)), axis=1)[:, :event_size]
    codes = 2 * rng.integers(1, domain + 1, n_events * event_size)
    none = np.zeros(1, np.int32)
    events = Batch(
        np.arange(n_events + 1) * event_size,
        np.sort(present, axis=1).reshape(-1).astype(np.int32),
        codes,
        np.zeros(len(codes), np.int32),
        none,
        none,
    )
    return subscriptions, np.arange(n_rows), events
