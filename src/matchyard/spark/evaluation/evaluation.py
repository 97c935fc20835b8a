"""evaluate and explain: what an index makes of events, as DataFrames and as one page; and why.

matched, unmatched and bad events · matches per event and per key · subscriptions that match nothing or nearly
everything · comparison with a table of truth · comparison of two versions
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from matchyard import shards
from matchyard.errors import UsageError
from matchyard.spark.build import subscriptions
from matchyard.spark.checks import column_of, place_of, plain_errors, quoted
from matchyard.spark.evaluation.page import write_page
from matchyard.spark.leases import keeping, planning
from matchyard.spark.match import match
from matchyard.spark.tasks.match import explain_rows

_QUANTILES = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class Evaluation:
    """The answers of an index to some events. `matched` is persisted, and the versions are leased: call
    `close` at the end."""

    index: str
    version: str
    events: int
    matched: DataFrame  # id, keys, reason: a row per event
    summary: Mapping[str, float]  # counts, and quantiles of matches per event
    bad: DataFrame  # id, reason
    per_key: DataFrame  # key, events (that match it), share; most first
    silent: DataFrame  # key, subscriptions: of keys that no event matches
    loud: DataFrame  # the rows of `per_key` with nearly all events
    scores: Mapping[str, float] | None = None  # precision, recall and counts, if there is a truth
    differences: DataFrame | None = None  # id, key, difference: missing or extra
    changed: DataFrame | None = None  # id, key, difference: between the two versions
    held: Sequence[shards.Held] = ()  # the leases of the versions

    def close(self) -> None:
        """Free the memory of the matches, and the versions."""
        self.matched.unpersist()
        for use in self.held:
            shards.release(use)

    def page(self, path: str | os.PathLike[str]) -> Path:
        """Write everything on one HTML page."""
        place = Path(path)
        place.write_text(write_page(self), "utf-8")
        return place


def evaluate(
    events: DataFrame,
    index: str | os.PathLike[str],
    event: str | Sequence[str] | None = "tags",
    id: str = "id",
    truth: DataFrame | None = None,
    before: str | None = None,
    nearly: float = 0.5,
) -> Evaluation:
    """Match events, and say what came out: see `Evaluation`.

    `truth` has columns `id` and `key`, the pairs that ought to match: the scores compare sets of pairs. `before` is
    the number of an older version, whose pairs are compared with those of the current one. A key is loud if at
    least the share `nearly` of the events match it.
    """
    if not 0 < nearly <= 1:
        raise UsageError(f"nearly is a share of the events, above 0 and at most 1, not {nearly}")
    if not isinstance(id, str):
        raise UsageError(f"events are evaluated by one column of ids, not {id!r}")
    place = place_of(index)
    held = [shards.hold_current(place)]
    matched = None
    try:
        if before is not None:
            held.append(shards.hold_version(place, before))
        version = held[0].version
        matched = _matched(events, place, event, id, version)
        right = None if truth is None else _right(truth, events, id, matched.schema)
        matched = matched.persist()
        with plain_errors():
            counts = _summary(matched)
        n_events = int(counts["events"])
        pairs = _pairs(matched)
        per_key = (
            pairs.groupBy("key")
            .agg(F.countDistinct("row").alias("events"))
            .withColumn("share", F.col("events") / max(1, n_events))
            .orderBy(F.desc("events"), "key")
        )
        subscribed = subscriptions(place, version, events.sparkSession).groupBy("key")
        silent = subscribed.agg(F.count("*").alias("subscriptions")).join(
            per_key, "key", "left_anti"
        )
        scores, differences = (None, None) if right is None else _compared(pairs, right)
        changed = None
        if before is not None:
            earlier = _pairs(_matched(events, place, event, id, before))
            changed = _differences(pairs, earlier.select("id", "key"), "new", "gone")
    except BaseException:
        for use in held:
            shards.release(use)
        if matched is not None:
            matched.unpersist()
        raise
    found = Evaluation(
        place, version, n_events, matched, counts,
        matched.where("reason is not null").select("id", "reason"), per_key,
        silent.orderBy("key"), per_key.where(F.col("share") >= nearly), scores, differences, changed,
        held,
    )  # fmt: skip
    for use in held:
        weakref.finalize(found, shards.release, use).atexit = False
    return found


def _matched(events: DataFrame, place: str, event: Any, id: str, version: str) -> DataFrame:
    found = match(events, place, event, id, output="arrays", bad="keep", unique=True, at=version)
    return found.toDF("id", "keys", "reason")


def _pairs(matched: DataFrame) -> DataFrame:
    """A row per event and key; `row` tells events of one id apart."""
    numbered = matched.withColumn("row", F.monotonically_increasing_id())
    return numbered.select("row", "id", F.explode("keys").alias("key"))


def _summary(matched: DataFrame) -> dict[str, float]:
    n_keys = F.when(F.col("reason").isNull(), F.size("keys"))
    quantiles = F.percentile_approx(n_keys, list(_QUANTILES), 10_000)
    row = matched.agg(
        F.count("*").alias("events"),
        F.count(F.when(n_keys > 0, 1)).alias("matched"),
        F.count(F.when(n_keys == 0, 1)).alias("unmatched"),
        F.count("reason").alias("bad"),
        F.coalesce(F.sum(n_keys), F.lit(0)).alias("pairs"),
        quantiles.alias("quantiles"),
    ).first()
    assert row is not None
    found: dict[str, float] = {
        name: row[name] for name in ("events", "matched", "unmatched", "bad", "pairs")
    }
    for share, value in zip(_QUANTILES, row["quantiles"] or (0,) * len(_QUANTILES), strict=True):
        name = "most matches of an event" if share == 1 else f"matches per event, {share:.0%}"
        found[name] = value
    return found


def _right(truth: DataFrame, events: DataFrame, id: str, matched: T.StructType) -> DataFrame:
    """The pairs that ought to match, as columns `id` and `key` of the types of the matches."""
    name = events.select(column_of(events, id, "names of events")).columns[0]
    name = name if name in truth.columns else "id"
    missing = {name, "key"} - set(truth.columns)
    if missing:
        raise UsageError(
            f"the truth has no column {min(missing)!r}; found: {', '.join(truth.columns)}"
        )
    kinds = {name: matched["id"].dataType, "key": matched["keys"].dataType.elementType}
    columns = []
    for column, kind in kinds.items():
        found = truth.schema[column].dataType
        if type(found) is not type(kind) and not (
            isinstance(found, T.IntegralType) and isinstance(kind, T.IntegralType)
        ):
            raise UsageError(
                f"column {column!r} of the truth is {found.simpleString()}; that of the matches is "
                f"{kind.simpleString()}: cast it"
            )
        columns.append(F.col(quoted(column)).cast(kind).alias("key" if column == "key" else "id"))
    return truth.select(*columns).distinct()


def _compared(pairs: DataFrame, right: DataFrame) -> tuple[dict[str, float], DataFrame]:
    """Precision and recall, 1 if there is nothing that could be wrong; and the differences."""
    differences = _differences(pairs, right, "extra", "missing")
    counted = {
        row["difference"]: row["count"]
        for row in differences.groupBy("difference").count().collect()
    }
    n_true, n_missing, n_extra = right.count(), counted.get("missing", 0), counted.get("extra", 0)
    n_right = n_true - n_missing
    return {
        "right": n_right,
        "missing": n_missing,
        "extra": n_extra,
        "precision": n_right / (n_right + n_extra) if n_right + n_extra else 1.0,
        "recall": n_right / n_true if n_true else 1.0,
    }, differences


def _differences(pairs: DataFrame, others: DataFrame, here: str, there: str) -> DataFrame:
    """The pairs of only one side, and which."""
    left = pairs.select("id", "key").distinct().withColumn("_left", F.lit(True))
    right = others.distinct().withColumn("_right", F.lit(True))
    same = F.col("l.id").eqNullSafe(F.col("r.id")) & (F.col("l.key") == F.col("r.key"))
    joined = left.alias("l").join(right.alias("r"), same, "full")
    which = F.when(F.col("_right").isNull(), here).when(F.col("_left").isNull(), there)
    columns = [F.coalesce(f"l.{name}", f"r.{name}").alias(name) for name in ("id", "key")]
    found = joined.select(*columns, which.alias("difference")).where("difference is not null")
    return found.orderBy("difference", "id", "key")


# -------------------------------------------------------------------- reasons


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
