"""explain: why each event of a result matches its key, as text."""

from __future__ import annotations

import os
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from matchyard import shards
from matchyard.errors import UsageError
from matchyard.spark.checks import column_of, place_of
from matchyard.spark.leases import keeping
from matchyard.spark.tasks.match import explain_rows


def explain(
    pairs: DataFrame, index: str | os.PathLike[str], event: str, key: str = "key", into: str = "why"
) -> DataFrame:
    """Add a column with the reason why an event matches a key, or why it does not; null if one of them is
    null.

    >>> alerts = match(lines, "rules.index", event="line", id=["id", "line"])  # doctest: +SKIP
    >>> explain(alerts, "rules.index", event="line")  # doctest: +SKIP

    It asks the oracle in plain Python, row by row: meant for the few rows that somebody reads. The reason is
    that of the version which is current now.
    """
    if into in pairs.columns:
        raise UsageError(f"there is a column {into!r} already: name another one, into=…")
    for name, what in ((event, "events"), (key, "keys")):
        column_of(pairs, f"`{name}`", what)
    use = shards.hold_current(place_of(index))
    task = partial(
        explain_rows,
        use.path,
        use.version,
        pairs.columns.index(event),
        pairs.columns.index(key),
        into,
    )
    schema = T.StructType([*pairs.schema.fields, T.StructField(into, T.StringType())])
    return keeping(pairs.mapInArrow(task, schema), use)
