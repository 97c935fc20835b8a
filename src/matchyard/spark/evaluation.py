"""evaluate and explain: what an index makes of events, as DataFrames and as one page; and why.

matched, unmatched and bad events · matches per event and per key · subscriptions that match nothing or nearly
everything · comparison with a table of truth · comparison of two versions
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from matchyard import shards
from matchyard.errors import UsageError
from matchyard.spark.build import subscriptions
from matchyard.spark.checks import place_of, plain_errors
from matchyard.spark.leases import keeping, planning
from matchyard.spark.match import match
from matchyard.spark.tasks.match import explain_rows

_QUANTILES = (0.5, 0.9, 0.99, 1.0)
_SHOWN = 20  # rows of a table on the page


@dataclass(frozen=True)
class Evaluation:
    """The answers of an index to some events. `matched` is persisted: call `close` at the end."""

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

    def close(self) -> None:
        """Free the memory of the matches."""
        self.matched.unpersist()

    def page(self, path: str | os.PathLike[str]) -> Path:
        """Write everything on one HTML page."""
        place = Path(path)
        place.write_text(_page(self), "utf-8")
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
    place = place_of(index)
    version = shards.current_version(place)
    matched = _matched(events, place, event, id, version).persist()
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
    held = subscriptions(place, version, events.sparkSession).groupBy("key")
    silent = held.agg(F.count("*").alias("subscriptions")).join(per_key, "key", "left_anti")
    scores, differences = (None, None) if truth is None else _compared(pairs, truth, id)
    changed = None
    if before is not None:
        earlier = _pairs(_matched(events, place, event, id, before))
        changed = _differences(pairs, earlier.select("id", "key"), "new", "gone")
    return Evaluation(
        place, version, n_events, matched, counts,
        matched.where("reason is not null").select("id", "reason"), per_key,
        silent.orderBy("key"), per_key.where(F.col("share") >= nearly), scores, differences, changed,
    )  # fmt: skip


def _matched(events: DataFrame, place: str, event: Any, id: str, version: str) -> DataFrame:
    found = match(events, place, event, id, output="arrays", bad="keep", unique=True, at=version)
    return found.withColumnsRenamed({id: "id"})


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


def _compared(pairs: DataFrame, truth: DataFrame, id: str) -> tuple[dict[str, float], DataFrame]:
    missing = {"id", "key"} - {name.replace(id, "id") for name in truth.columns}
    if missing:
        raise UsageError(
            f"the truth has no column {min(missing)!r}; found: {', '.join(truth.columns)}"
        )
    right = truth.withColumnsRenamed({id: "id"}).select("id", "key").distinct()
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
        "precision": n_right / max(1, n_right + n_extra),
        "recall": n_right / max(1, n_true),
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


# -------------------------------------------------------------------- the page

_STYLE = """body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 0.5rem 0 1.5rem; }
td, th { text-align: left; padding: 0.2rem 1rem 0.2rem 0; border-bottom: 1px solid #ddd; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }"""


def _page(found: Evaluation) -> str:
    title = f"{Path(found.index.partition('?')[0]).name}, version {int(found.version)}: {found.events:,} events"
    parts = [f"<h1>{escape(title)}</h1>", _table(["", ""], found.summary.items())]
    if found.scores is not None:
        parts += ["<h2>Against the truth</h2>", _table(["", ""], found.scores.items())]
    for head, text, frame in (
        (
            "Differences from the truth",
            "missing: ought to match; extra: ought not to",
            found.differences,
        ),
        (
            "Differences from the older version",
            "new: matches now; gone: matched before",
            found.changed,
        ),
        ("Keys with the most events", "", found.per_key),
        ("Keys that match nearly everything", "", found.loud),
        ("Keys that match nothing", "", found.silent),
        ("Bad events", "", found.bad),
    ):
        if frame is None:
            continue
        n_rows, rows = frame.count(), frame.limit(_SHOWN).collect()
        parts.append(f"<h2>{head}: {n_rows:,}</h2>{f'<p>{text}</p>' if text else ''}")
        if rows:
            parts.append(_table(frame.columns, rows))
        if n_rows > len(rows):
            parts.append(f"<p>and {n_rows - len(rows):,} more</p>")
    return (
        f"<!doctype html><meta charset='utf-8'><title>{escape(title)}</title><style>{_STYLE}</style>"
        + "\n".join(parts)
    )


def _table(columns: Sequence[str], rows: Any) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"<td class='number'>{value:,.3f}</td>"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"<td class='number'>{value:,}</td>"
    return f"<td>{escape(str(value))}</td>"
