"""explain: why each event of a result matches its key, as text."""

from __future__ import annotations

import os
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from matchyard.errors import UsageError
from matchyard.spark.checks import place_of
from matchyard.spark.leases import keeping, planning
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
    of_event, of_key = _number_of(pairs, event, "events"), _number_of(pairs, key, "keys")
    with planning(place_of(index)) as use:
        task = partial(explain_rows, use.path, use.version, of_event, of_key, into)
        schema = T.StructType([*pairs.schema.fields, T.StructField(into, T.StringType())])
        plain = pairs.toDF(*(f"_{number}" for number in range(len(pairs.columns))))
        return keeping(plain.mapInArrow(task, schema), use)


def _number_of(pairs: DataFrame, name: str, what: str) -> int:
    names = [one for one in pairs.columns if one.lower() == name.lower()]
    if len(names) != 1:
        raise UsageError(f"no column {name!r} for the {what}; found: {', '.join(pairs.columns)}")
    return int(pairs.columns.index(names[0]))
