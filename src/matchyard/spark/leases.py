"""Leases of plans: a DataFrame keeps the version of the index that it was made with."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame

from matchyard import shards


@contextmanager
def planning(path: str, at: str | int | None = None) -> Iterator[shards.Lease]:
    """Hold the current version or the given one while a plan is made; release it if that fails."""
    lease = shards.hold_current(path) if at is None else shards.hold_version(path, at)
    try:
        yield lease
    except BaseException:
        shards.release(lease)
        raise


def keeping(frame: DataFrame, lease: shards.Lease) -> DataFrame:
    """A DataFrame that holds a version as long as it exists.

    Spark has no list of the DataFrames that are derived from it. Their version stays for at least an hour after
    this one is gone, and for an hour after each task that uses it.
    """
    weakref.finalize(frame, shards.release, lease).atexit = False
    return frame
