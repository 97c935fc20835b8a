"""An evaluation as one HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from matchyard.spark.evaluation.evaluation import Evaluation

_STYLE = """body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 0.5rem 0 1.5rem; }
td, th { text-align: left; padding: 0.2rem 1.5rem 0.2rem 0; border-bottom: 1px solid #ddd; vertical-align: top; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.bar { display: flex; height: 1.5rem; margin: 1rem 0 0.25rem; background: #eee; }
.bar > * { min-width: 2px; } .matched { background: #2a7f62; } .unmatched { background: #b8c4c0; } .bad { background: #c4452d; }
.about { color: #666; }
.key { display: inline-block; width: 0.8rem; height: 0.8rem; margin: 0 0.3rem 0 1rem; }"""
_WORDS = (
    "A pair is an event and a key that matches it, once. Half of the readable events have at most p50 matches, 90 of a "
    "hundred at most p90, 99 at most p99; likewise the events of keys that match at least one."
)
_SHOWN = 10  # rows of a table
_LONGEST = 200  # characters of a cell
_OUTCOMES = ("matched", "unmatched", "bad")


def write_page(found: Evaluation) -> str:
    """Everything that an evaluation found, as HTML."""
    name = Path(found.index.partition("?")[0]).name
    title = f"{name}, version {int(found.version)}: {found.events:,} events"
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    about = f"<p class='about'>{escape(found.index)} · evaluated {made}</p>"
    parts = [f"<h1>{escape(title)}</h1>", about, _bar(found.summary)]
    parts.append(_table([], [(told.replace("_", " "), n) for told, n in found.summary.items()]))
    parts.append(f"<p class='about'>{_WORDS}</p>")
    if found.scores is not None:
        parts += ["<h2>Against the truth</h2>", _table([], found.scores.items())]
    older = f"version {int(found.before or 0)}"
    sections = [
        ("Pairs of the truth that were not found", _only(found.differences, "missing")),
        ("Pairs that the truth does not have", _only(found.differences, "extra")),
        (f"Pairs that {older} did not find", _only(found.changed, "new")),
        (f"Pairs that only {older} found", _only(found.changed, "gone")),
        ("Events by their matches", found.per_event),
        ("Keys by their events", found.per_key),
        (f"Keys that at least {found.nearly:.0%} of the events match", found.loud),
        ("Keys that no event matches", found.silent),
        ("Reasons of bad events", _by_reason(found.bad)),
    ]
    for head, frame in sections:
        if frame is None:
            continue
        n_rows, rows = frame.count(), frame.limit(_SHOWN).collect()
        parts.append(f"<h2>{head}: {n_rows:,}</h2>")
        if rows:
            parts.append(_table(frame.columns, rows))
        if n_rows > len(rows):
            parts.append(f"<p>and {n_rows - len(rows):,} more</p>")
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style>" + "\n".join(parts)
    )


def _by_reason(bad: DataFrame) -> DataFrame:
    """The reasons, most frequent first, each with one of its events."""
    counted = bad.groupBy("reason").agg(
        F.count("*").alias("events"), F.min("id").alias("one of them")
    )
    return counted.orderBy(F.desc("events"), "reason")


def _only(pairs: DataFrame | None, difference: str) -> DataFrame | None:
    """The pairs of one difference: few of one kind are seen beside many of the other."""
    if pairs is None:
        return None
    return pairs.where(pairs["difference"] == difference).drop("difference")


def _bar(summary: Mapping[str, float]) -> str:
    """The events as one bar: matched, unmatched, bad."""
    counts = [(name, summary[name]) for name in _OUTCOMES if summary[name]]
    boxes = "".join(f"<span class='{name}' style='flex: {count}'></span>" for name, count in counts)
    total = max(1, summary["events"])
    texts = (f"<span class='key {name}'></span>{name} {n / total:.1%}" for name, n in counts)
    return f"<div class='bar'>{boxes}</div><p>{''.join(texts)}</p>"


def _table(columns: Sequence[str], rows: Any) -> str:
    """A table; without columns, one of names and their values."""
    rows = [tuple(row) for row in rows]
    names = columns or ("", "value")
    head = "".join(
        f"<th{_class(name, rows[0][at] if rows else None)}>{escape(name)}</th>"
        for at, name in enumerate(columns)
    )
    body = "".join(f"<tr>{''.join(map(_cell, names, row))}</tr>" for row in rows)
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"


def _class(name: str, value: Any) -> str:
    """Counts are to the right. Ids and keys are names, even if they are numbers."""
    is_count = isinstance(value, int | float) and not isinstance(value, bool)
    return " class='number'" if is_count and name not in ("id", "key") else ""


def _shortened(text: str) -> str:
    """A text, cut off if it is a long one, such as a whole event."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _cell(name: str, value: Any) -> str:
    kind = _class(name, value)
    if name == "share":
        text = f"{value:.1%}"
    elif kind:
        text = f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"
    else:
        text = escape(_shortened(str(value)))
    return f"<td{kind}>{text}</td>"
