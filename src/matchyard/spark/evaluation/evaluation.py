"""evaluate and explain: counts, scores and reasons of the matches of an index, as DataFrames and as one page.

matched, unmatched and bad events · matches per event and per key · subscriptions that match nothing or nearly
everything · comparison with a table of truth · comparison of two versions
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from matchyard import shards
from matchyard.errors import UsageError
from matchyard.spark.build import subscriptions
from matchyard.spark.checks import (
    check_frame,
    column_of,
    has_order,
    place_of,
    plain_errors,
    quoted,
    type_of,
)
from matchyard.spark.evaluation.page import write_page
from matchyard.spark.leases import keeping, planning
from matchyard.spark.match import match
from matchyard.spark.tasks.match import explain_rows

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`. It persists what it found and holds leases on the versions: call `close` at the
    end."""

    index: str
    version: str
    before: str | None  # the older version that is compared
    nearly: float
    events: int
    matched: DataFrame  # id, keys, reason: a row per event
    summary: Mapping[
        str, float
    ]  # counts, and quantiles: matches of readable events, events of keys that match
    bad: DataFrame  # id, reason
    per_event: DataFrame  # id, matches; most first
    per_key: DataFrame  # key, events (that match it), share (of readable events); keys that match, most first
    silent: DataFrame  # key, subscriptions: of keys that no event matches
    loud: DataFrame  # the rows of `per_key` whose share is at least `nearly`
    scores: Mapping[str, float] | None  # precision, recall and counts, if there is a truth
    differences: DataFrame | None  # id, key, difference: missing or extra
    changed: DataFrame | None  # id, key, difference: new or gone since the older version
    persisted: Sequence[DataFrame]
    leases: Sequence[shards.Lease]

    def close(self) -> None:
        """Free the memory of what was found, and the versions."""
        for frame in self.persisted:
            frame.unpersist()
        for lease in self.leases:
            shards.release(lease)

    def page(self, path: str | os.PathLike[str]) -> str:
        """Write everything on one HTML page, to a path or an address; returns it."""
        place = place_of(path)
        with shards.created(place) as file:
            file.write(write_page(self).encode())
        return place


def evaluate(
    events: DataFrame,
    index: str | os.PathLike[str],
    event: str | Sequence[str] | None = "tags",
    id: str = "id",
    truth: DataFrame | None = None,
    before: str | int | None = None,
    nearly: float = 0.5,
) -> Evaluation:
    """Match events, and count, score and compare the matches: see `Evaluation`.

    `truth` lists the expected pairs, in a column `key` and a column of ids that is named as in the events, or
    `id`; the scores compare sets of pairs. `before` is an older version, whose pairs are compared with those of the
    current one, on the same reading of the events. A key is loud if at least the share `nearly` of the readable
    events match it.
    """
    check_frame(events, "events")
    if isinstance(nearly, bool) or not hasattr(nearly, "__float__") or not 0 < nearly <= 1:
        raise UsageError(f"nearly is a share of the events, above 0 and at most 1, not {nearly!r}")
    if not isinstance(id, str):
        raise UsageError(f"events are evaluated by one column of ids, not {id!r}")
    if events.isStreaming:
        raise UsageError("a stream is not evaluated as a whole: evaluate its micro-batches")
    place = place_of(index)
    kind = type_of(events, id, "ids of events")
    if not has_order(kind):
        raise UsageError(f"column {id!r} is {kind.simpleString()}, whose values have no order")
    persisted: list[DataFrame] = []
    with ExitStack() as undo:

        def kept(frame: DataFrame) -> DataFrame:
            if frame.storageLevel == StorageLevel.NONE:  # else somebody else frees it
                persisted.append(frame)
                undo.callback(frame.persist().unpersist)
            return frame

        leases = [shards.hold_current(place)]
        undo.callback(shards.release, leases[0])
        if before is not None:
            leases.append(shards.hold_version(place, before))
            undo.callback(shards.release, leases[1])
            _check_keys(place, *(lease.version for lease in leases))
            events = kept(
                events
            )  # both versions match the same rows, also if they differ each time
        version, *older = (lease.version for lease in leases)
        matched = kept(_matched(events, place, event, id, version))
        expected = None if truth is None else kept(_expected(truth, events, id, matched.schema))
        n_keys = F.when(F.col("reason").isNull(), F.size("keys"))
        pairs = _pairs(matched)
        counted = pairs.groupBy("key").agg(F.countDistinct("row").alias("events"))
        with plain_errors():
            summary = _summary(matched, n_keys) | _quantiles(
                counted, F.col("events"), "events_per_matching_key"
            )
        n_readable = int(summary["events"] - summary["bad"])
        per_key = counted.withColumn("share", F.col("events") / max(1, n_readable))
        per_event = matched.select("id", n_keys.alias("matches")).where("matches is not null")
        subscribed = subscriptions(place, version, events.sparkSession).groupBy("key")
        silent = subscribed.agg(F.count("*").alias("subscriptions")).join(
            counted, "key", "left_anti"
        )
        scores = differences = changed = None
        if expected is not None:
            differences = kept(_differences(pairs, expected, "extra", "missing"))
            with plain_errors():
                scores = _scores(differences, expected)
        if older:
            earlier = _pairs(_matched(events, place, event, id, older[0]))
            changed = kept(_differences(pairs, earlier.select("id", "key"), "new", "gone"))
        per_key = per_key.orderBy(F.desc("events"), "key")
        found = Evaluation(
            index=place,
            version=version,
            before=older[0] if older else None,
            nearly=float(nearly),
            events=int(summary["events"]),
            matched=matched,
            summary=summary,
            bad=matched.where("reason is not null").select("id", "reason"),
            per_event=per_event.orderBy(F.desc("matches"), "id"),
            per_key=per_key,
            silent=silent.orderBy("key"),
            loud=per_key.where(F.col("share") >= float(nearly)),
            scores=scores,
            differences=differences,
            changed=changed,
            persisted=persisted,
            leases=leases,
        )
        undo.pop_all()
    for lease in leases:
        weakref.finalize(found, shards.release, lease).atexit = False
    return found


def _check_keys(place: str, version: str, before: str) -> None:
    """Refuse to compare versions whose keys have different types."""
    is_string, was_string = (
        shards.has_string_keys(shards.manifest_of(place, one)) for one in (version, before)
    )
    if is_string != was_string:
        raise UsageError(
            f"the keys of versions {version} and {before} have different types: they cannot be compared"
        )


def _matched(events: DataFrame, place: str, event: Any, id: str, version: str) -> DataFrame:
    found = match(events, place, event, id, output="arrays", bad="keep", unique=True, at=version)
    return found.toDF("id", "keys", "reason")


def _pairs(matched: DataFrame) -> DataFrame:
    """A row per event and key; `row` tells events of one id apart."""
    numbered = matched.withColumn("row", F.monotonically_increasing_id())
    return numbered.select("row", "id", F.explode("keys").alias("key"))


def _summary(matched: DataFrame, n_keys: Column) -> dict[str, float]:
    row = matched.agg(
        F.count("*").alias("events"),
        F.count(F.when(n_keys > 0, 1)).alias("matched"),
        F.count(F.when(n_keys == 0, 1)).alias("unmatched"),
        F.count("reason").alias("bad"),
        F.coalesce(F.sum(n_keys), F.lit(0)).alias("pairs"),
    ).first()
    assert row is not None
    return {**row.asDict(), **_quantiles(matched, n_keys, "matches_per_event")}


def _quantiles(rows: DataFrame, number: Column, name: str) -> dict[str, float]:
    """Quantiles of a number, as `name_p50` and so on; 0 without rows."""
    shares = list(_QUANTILES.values())
    row = rows.agg(F.percentile_approx(number, shares, 10_000).alias("values")).first()
    values = (row and row["values"]) or [0] * len(shares)
    return {f"{name}_{share}": value for share, value in zip(_QUANTILES, values, strict=True)}


def _expected(truth: DataFrame, events: DataFrame, id: str, matched: T.StructType) -> DataFrame:
    """The pairs of the truth, as columns `id` and `key` of the types of the matches. A null key is no pair."""
    check_frame(truth, "pairs of the truth")
    name = events.select(column_of(events, id, "ids of events")).columns[0]
    of_key = _named(truth, "key")
    of_id = [one for one in _named(truth, name) if one not in of_key] or _named(truth, "id")
    missing = [asked for asked, found in ((name, of_id), ("key", of_key)) if not found]
    if missing:
        raise UsageError(
            f"the truth has no column {missing[0]!r}; found: {', '.join(truth.columns)}"
        )
    key = matched["keys"].dataType.elementType
    columns = []
    for column, kind, alias in ((of_id[0], matched["id"].dataType, "id"), (of_key[0], key, "key")):
        found = truth.schema[column].dataType
        # Integers of any width are compared as what they are, so the truth is not cast to fewer bits.
        are_integers = isinstance(found, T.IntegralType) and isinstance(kind, T.IntegralType)
        if found.simpleString() != kind.simpleString() and not are_integers:
            raise UsageError(
                f"column {column!r} of the truth is {found.simpleString()}; that of the matches is "
                f"{kind.simpleString()}: cast it"
            )
        columns.append(F.col(quoted(column)).alias(alias))
    return truth.select(*columns).where("key is not null").distinct()


def _named(frame: DataFrame, name: str) -> list[str]:
    """The columns of a name, as Spark compares names."""
    return [column for column in frame.columns if column.lower() == name.lower()]


def _scores(differences: DataFrame, expected: DataFrame) -> dict[str, float]:
    """Precision and recall, 1 if there is nothing that could be wrong."""
    counted = {
        row["difference"]: row["count"]
        for row in differences.groupBy("difference").count().collect()
    }
    n_expected, n_missing, n_extra = (
        expected.count(),
        counted.get("missing", 0),
        counted.get("extra", 0),
    )
    n_right = n_expected - n_missing
    return {
        "right": n_right,
        "missing": n_missing,
        "extra": n_extra,
        "precision": n_right / (n_right + n_extra) if n_right + n_extra else 1.0,
        "recall": n_right / n_expected if n_expected else 1.0,
    }


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
    pairs: DataFrame,
    index: str | os.PathLike[str],
    event: str,
    key: str = "key",
    into: str = "why",
    at: str | int | None = None,
) -> DataFrame:
    """Add a column with the reason why an event matches a key, or why it does not; null if one of them is
    null.

    >>> alerts = match(lines, "rules.index", event="line", id=["id", "line"])  # doctest: +SKIP
    >>> explain(alerts, "rules.index", event="line")  # doctest: +SKIP

    It asks the oracle in plain Python, row by row: meant for the few rows that somebody reads. The reason is
    that of the version which is current now, or of the version `at`.
    """
    check_frame(pairs, "pairs")
    if _named(pairs, into):
        raise UsageError(f"there is a column {into!r} already: name another one, into=…")
    of_event, of_key = _number_of(pairs, event, "events"), _number_of(pairs, key, "keys")
    with planning(place_of(index), at) as lease:
        task = partial(explain_rows, lease, of_event, of_key, into)
        schema = T.StructType([*pairs.schema.fields, T.StructField(into, T.StringType())])
        plain = pairs.toDF(*(f"_{number}" for number in range(len(pairs.columns))))
        return keeping(plain.mapInArrow(task, schema), lease)


def _number_of(pairs: DataFrame, name: str, what: str) -> int:
    if not isinstance(name, str):
        raise UsageError(f"the {what} are one column, such as one with JSON, not {name!r:.100}")
    names = _named(pairs, name)
    if len(names) != 1:
        raise UsageError(f"no column {name!r} for the {what}; found: {', '.join(pairs.columns)}")
    return int(pairs.columns.index(names[0]))
