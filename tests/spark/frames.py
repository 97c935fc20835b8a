"""Small DataFrames, and what the embedded index says to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import matchyard as my

ROWS = [
    ["jazz"], ["jazz", "live"], ["live", "jazz", "live"], [], ["oslo"], ["jazz", "oslo"], ["jazz"],
    ["日本", "🦉"], [""], ["two words"], ["a" * 300], ["rock"], ["live"], ["oslo", "rock", "jazz"],
]  # fmt: skip
EVENTS = [
    ["jazz", "oslo"], ["rock", "live", "jazz", "oslo"], ["unheard"], [], ["日本", "🦉", "", "x"],
    ["two words", "a" * 300], ["jazz", "jazz"], ["jazz", "oslo"],
]  # fmt: skip
TAGS = pa.list_(pa.string())


def subscriptions(spark: Any, rows: Sequence[Any] = ROWS, keys: Sequence[Any] | None = None) -> Any:
    """A DataFrame of (tags, key); keys are the numbers of the rows by default."""
    keys = range(len(rows)) if keys is None else keys
    return spark.createDataFrame(pa.table({"tags": pa.array(rows, TAGS), "key": pa.array(keys)}))


def events(spark: Any, rows: Sequence[Any] = EVENTS, ids: Sequence[Any] | None = None) -> Any:
    """A DataFrame of (id, tags)."""
    ids = range(len(rows)) if ids is None else ids
    return spark.createDataFrame(pa.table({"id": pa.array(ids), "tags": pa.array(rows, TAGS)}))


def changes(spark: Any, rows: Sequence[tuple[str, Any, Any]]) -> Any:
    """A DataFrame of (change, key, tags)."""
    names = ("change", "key", "tags")
    columns = {name: pa.array([row[n] for row in rows]) for n, name in enumerate(names[:2])}
    return spark.createDataFrame(
        pa.table({**columns, "tags": pa.array([r[2] for r in rows], TAGS)})
    )


def found(frame: Any) -> Counter[Any]:
    """The pairs of a result, of rows or of arrays, however they are ordered."""
    table = frame.toArrow()
    ids = table["id"].to_pylist()
    if "key" in table.column_names:
        return Counter(zip(ids, table["key"].to_pylist(), strict=True))
    keys = table["keys"].to_pylist()
    return Counter((id, key) for id, some in zip(ids, keys, strict=True) for key in some)


def wanted(
    rows: Sequence[Any] = ROWS,
    asked: Sequence[Any] = EVENTS,
    keys: Sequence[Any] | None = None,
    unique: bool = False,
) -> Counter[Any]:
    """What one embedded index over all rows answers; ids are the numbers of the events."""
    index = my.TagIndex().add_many(rows, range(len(rows)) if keys is None else keys).consolidate()
    matches = (index.match_unique if unique else index.match)(asked)
    return Counter((event, key) for event, some in enumerate(matches) for key in some)
