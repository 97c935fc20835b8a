"""Keep an index up with a Delta table of subscriptions, by the change feed of the table; no jar is needed.

    python examples/delta_changes.py subscribers/ music.index --key user

The first run builds the index from the table. Every later run applies the changes since the run before. Each change
counts once, even if the program is killed: the index has the number of the last commit. The table needs the property
`delta.enableChangeDataFeed`. The driver reads the table, and later the changes, with the package `deltalake`. For tables
that do not fit into its memory take Delta's own connector for Spark and `follow_changes` (docs/spark.md).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from matchyard.spark import append, applied, build, changes, session


def synchronise(spark: Any, table_path: str, index: str, subscription: str, key: str) -> int:
    """Bring the index up to the newest commit of the table; returns how many commits it was behind."""
    table = DeltaTable(table_path)
    if table.metadata().configuration.get("delta.enableChangeDataFeed") != "true":
        raise SystemExit(f"{table_path} has no change feed: set delta.enableChangeDataFeed to true")
    names = [field.name for field in table.schema().fields]
    missing = sorted({subscription, key} - set(names))
    if missing:
        raise SystemExit(f"{table_path} has no column {missing[0]!r}; found: {', '.join(names)}")
    source, newest = str(table.metadata().id), table.version()
    if not Path(index, "CURRENT").exists():
        rows = subscribed(table.to_pyarrow_table(columns=[subscription, key]), subscription)
        build(
            spark.createDataFrame(rows),
            index,
            subscription=subscription,
            key=key,
            transaction=(source, newest),
        )
        return newest + 1
    last = applied(index).get(source)
    if last is None:
        raise SystemExit(f"{index} was not built from {table_path}")
    if last < newest:
        feed = pa.table(table.load_cdf(starting_version=last + 1, ending_version=newest).read_all())
        columns = [subscription, key, "_change_type", "_commit_version"]
        rows = subscribed(feed.select(columns), subscription)
        netted = changes(
            spark.createDataFrame(rows), index, subscription, key,
            op="_change_type", order="_commit_version",
        )  # fmt: skip
        append(netted, index, subscription, key, transaction=(source, newest))
    return newest - last


def subscribed(rows: pa.Table, subscription: str) -> pa.Table:
    """The rows that have a subscription: one of null is none, also before and after a change."""
    known = plain(rows)
    return known.filter(known[subscription].is_valid())


def plain(rows: pa.Table) -> pa.Table:
    """Rows without the types of Arrow that Spark does not take. A column without rows has one empty chunk."""
    schema = pa.schema([(field.name, plain_type(field.type)) for field in rows.schema])
    if not rows.num_rows:
        return pa.table([pa.array([], field.type) for field in schema], schema)
    return rows.cast(schema)


def plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_uint64(kind):
        return pa.int64()
    if pa.types.is_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(plain_type(kind.value_type))
    return kind


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", help="folder of a Delta table")
    parser.add_argument("index", help="folder of the index")
    parser.add_argument("--subscription", default="tags", help="column of subscriptions")
    parser.add_argument("--key", default="key", help="column of keys")
    given = parser.parse_args()
    spark = session(name="delta-changes")
    n_commits = synchronise(spark, given.table, given.index, given.subscription, given.key)
    print(f"{given.index}: {n_commits:,} commit{'s' * (n_commits != 1)} applied")
    spark.stop()


if __name__ == "__main__":
    main()
