"""The subscriptions that a snapshot holds: those of a key, all of them in turn, and why a key gets an
event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from matchyard.engine import Configured
from matchyard.errors import StorageError, UsageError
from matchyard.index.snapshot import Snapshot
from matchyard.kernels import key_table

_STEP = 4096  # subscriptions that are decoded at a time


def check_values(snapshot: Snapshot, settings: Configured, what: str) -> None:
    """Refuse to read back subscriptions that have no values, e.g. bare signatures of tags."""
    if snapshot.kind() not in (None, settings.engine.encoder.VALUES):
        raise UsageError(f"{snapshot.kind()} cannot be {what}: they have no text")


def of_key(snapshot: Snapshot, number: int | None) -> list[Any]:
    """The subscriptions of the key with this number, as values."""
    if number is None:
        return []
    values = [value for segment in snapshot.segments for value in segment.find(number)]
    return values + [value for value, key in snapshot.recent_rows() if key == number]


def has_key(snapshot: Snapshot, number: int | None) -> bool:
    """True if the key with this number has a subscription."""
    if number is None:
        return False
    is_recent = any(key == number for _, key in snapshot.recent_rows())
    return is_recent or any(segment.has(number) for segment in snapshot.segments)


def items(snapshot: Snapshot) -> Iterator[tuple[Any, Any]]:
    """Each (key, subscription) of a snapshot, decoded some at a time."""
    for segment in snapshot.segments:
        for table in segment.tables:
            for first in range(0, len(table.keys), _STEP):
                positions = segment.positions(table, first, first + _STEP)
                rows, place = np.unique(
                    key_table.rows_at(table.key_start, positions), return_inverse=True
                )
                values = segment.decoded(table, rows)
                keys = snapshot.named(table.keys[positions])
                for key, at in zip(keys, place.tolist(), strict=True):
                    yield key, values[at]
    for value, number in snapshot.recent_rows():
        yield snapshot.named(np.array([number]))[0], value


def explain(
    settings: Configured, subscriptions: list[Any], event: Any, key: Any
) -> tuple[str, bool]:
    """Why the event matches each subscription of a key or not, and whether it matches one of them."""
    engine = settings.engine
    try:
        is_match = any(engine.oracle.is_match(one, event) for one in subscriptions)
        if len(subscriptions) == 1:
            return str(engine.oracle.explain(subscriptions[0], event)), is_match
        lines = [
            f"{engine.language.format(one)}: {engine.oracle.explain(one, event)}"
            for one in sorted(subscriptions, key=engine.language.format)
        ]
    except RecursionError:
        raise StorageError(f"a subscription of key {key!r} is nested too deeply") from None
    return "\n".join(lines), is_match
