"""Leases of plans: a DataFrame keeps the version of the index that it was made with."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.sql import DataFrame

from matchyard import shards

_seen: set[int] = set()  # the jobs that ran when leases were last renewed


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
    this one is gone, as long as a job runs that began in this time, and for an hour after each task that uses it.
    """
    shards.while_busy(has_long_jobs)
    weakref.finalize(frame, shards.let_go, lease).atexit = False
    return frame


def has_long_jobs() -> bool:
    """True if a job of Spark runs that ran when this function was called before. Jobs do not say which versions they
    will need, and a short one is done before a lease runs out."""
    context = SparkContext._active_spark_context
    if context is None or context._jsc is None:  # over Connect, or stopped
        return False
    running = set(context.statusTracker().getActiveJobsIds())
    is_long = bool(running & _seen)
    _seen.clear()
    _seen.update(running)
    return is_long
