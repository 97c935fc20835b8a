"""Leases of plans: a DataFrame keeps the version of the index that it was made with."""

from __future__ import annotations

import weakref

from pyspark.sql import DataFrame

from matchyard import shards


def keeping(frame: DataFrame, use: shards.Held) -> DataFrame:
    """A DataFrame that holds a version as long as it exists.

    Spark has no list of the DataFrames that are derived from it. Their version stays for an hour after this
    one is gone, and for an hour after each task that uses it.
    """
    weakref.finalize(frame, shards.release, use).atexit = False
    return frame
