"""Feeds of changes: net what was inserted, updated and deleted, and keep an index up with a stream of it."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from matchyard import shards
from matchyard.errors import ConflictError, UsageError
from matchyard.spark.build import append, applied, compact
from matchyard.spark.checks import (
    check_frame,
    check_subscriptions,
    column_of,
    has_order,
    key_type,
    names_of,
    place_of,
    plain_errors,
    quoted,
    refuse_equal_names,
)
from matchyard.spark.tasks.changes import DELETE, INSERT, REMOVE, REPLACE, net_changes

_log = logging.getLogger("matchyard")
_PAUSES_S = (
    1,
    2,
    4,
    8,
    16,
)  # before a batch is applied again, if another writer of the index was faster
# Words of Delta's and Iceberg's change feeds, of Debezium (c, u, d, and r for a snapshot) and of people.
_OPERATIONS = {
    INSERT: ("insert", "create", "add", "c", "r", "i", "update_postimage", "update_after"),
    REPLACE: ("update", "replace", "upsert", "u"),
    DELETE: ("delete", "d", "update_preimage", "update_before"),
    REMOVE: ("remove",),
}
_WHOLE_ROWS = ("update_preimage", "update_before")  # null in them is a null of the table


def changes(
    feed: DataFrame,
    path: str | os.PathLike[str],
    subscription: str = "tags",
    key: str = "key",
    op: str = "op",
    order: str | Sequence[str] = "order",
) -> DataFrame:
    """The net effect of a feed of changes on each key, for `append`: the columns of subscriptions and of keys under
    their own names, and `change`.

    The column `op` has the operations; all words may be written in capitals, too:

    * insert (also c, r, update_postimage): the key gets the subscription.
    * delete (also d, update_preimage): it loses one copy of it. A delete without a subscription (null) takes all that
      the key has.
    * remove: it loses every copy of it.
    * update (also u, upsert): it has this subscription and no other.

    The columns `order` have the moments of the changes, such as the numbers of their commits. Changes of a key count
    in this order, however the rows lie, and those of one moment in the order remove, delete,
    update, insert. `path` is the
    index, whose language defines when two subscriptions are the same.
    """
    check_frame(feed, "changes")
    place = place_of(path)
    plan = shards.plan_of(shards.manifest_of(place, shards.current_version(place)))
    check_subscriptions(feed, subscription, plan.engine)
    names = names_of(order, "order of changes")
    moments = [column_of(feed, name, "order of changes") for name in names]
    if not moments:
        raise UsageError("changes need an order: name the column with the number of their commit")
    for name, field in zip(names, feed.select(*moments).schema, strict=True):
        if not has_order(field.dataType):
            raise UsageError(
                f"column {name!r} is {field.dataType.simpleString()}, whose values have no order"
            )
    keys = key_type(feed, key)
    subscribed, named = feed.select(F.col(subscription), F.col(key)).schema
    word = _word(feed, op)
    is_told = F.col(key).isNotNull()  # a row without key or order is an error, whatever it is
    for moment in moments:
        is_told = is_told & moment.isNotNull()
    is_null_row = is_told & word.isin(*_WHOLE_ROWS) & F.col(subscription).isNull()
    rows = feed.where(~F.coalesce(is_null_row, F.lit(False))).select(
        F.col(key).cast(keys).alias("key"),
        F.col(subscription).alias("subscription"),
        _operation(word, subscription, key, moments).alias("operation"),
        *(moment.alias(f"_moment{number}") for number, moment in enumerate(moments)),
    )
    in_order = ["key", *(f"_moment{number}" for number in range(len(moments))), "operation"]
    sorted_rows = rows.repartition("key").sortWithinPartitions(*in_order)
    schema = T.StructType(
        [
            T.StructField(subscribed.name, subscribed.dataType),
            T.StructField(named.name, keys),
            T.StructField("change", T.StringType()),
        ]
    )
    refuse_equal_names(schema)
    selected = sorted_rows.select("key", "subscription", "operation")
    return selected.mapInArrow(partial(net_changes, plan, schema.names), schema)


def _word(feed: DataFrame, op: str) -> Column:
    return F.lower(column_of(feed, op, "operations").cast("string"))


def _operation(word: Column, subscription: str, key: str, moments: Sequence[Column]) -> Column:
    """The number of an operation; an error if it is unknown, or if a change lacks what it needs."""
    number = F.lit(None).cast("int")
    for code, words in _OPERATIONS.items():
        number = F.when(word.isin(*words), F.lit(code)).otherwise(number)
    known = ", ".join(words[0] for words in _OPERATIONS.values())
    text = F.coalesce(F.col(key).cast("string"), F.lit("null"))
    is_unordered = moments[0].isNull()
    for moment in moments[1:]:
        is_unordered = is_unordered | moment.isNull()
    failed = (
        F.when(F.col(key).isNull(), F.lit("a change has no key"))
        .when(is_unordered, F.concat(F.lit("a change of key "), text, F.lit(" has no order")))
        .when(
            number.isNull(),
            F.concat(
                F.lit("unknown operation "), F.coalesce(word, F.lit("null")), F.lit(" of key "), text,
                F.lit(f"; expected one of: {known}"),
            ),
        )
        .when(
            number.isin(INSERT, REPLACE) & F.col(subscription).isNull(),
            F.concat(
                F.lit("an insert of key "), text, F.lit(" has no subscription: leave out the rows of the table in "
                "which it is null, with their deletions"),
            ),
        )
    )  # fmt: skip
    said = F.concat(F.lit("matchyard.errors.UsageError: "), failed)
    return F.when(failed.isNotNull(), F.raise_error(said).cast("int")).otherwise(number)


def follow_changes(
    stream: DataFrame,
    path: str | os.PathLike[str],
    checkpoint: str | os.PathLike[str],
    subscription: str = "tags",
    key: str = "key",
    op: str = "op",
    order: str | Sequence[str] = "order",
    segments: int = 16,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Any:
    """Keep an index up with a stream of changes; returns the running query.

    Each micro-batch becomes a version, once: if the driver dies after it was published, the batch that runs
    again changes nothing. The columns are those of `changes`. An index of more than `segments` segments
    is compacted, so that matching has at most one more than that to visit. `checkpoint` is
    Spark's folder for the state of the stream; `trigger` is for Spark, such as `{"availableNow": True}`. With a new
    checkpoint all changes of the stream count again: begin with a new build then. A change that cannot be
    read stops the stream.
    """
    place = place_of(path)
    if segments < 1:
        raise UsageError(f"segments must be at least 1, not {segments}")
    asked: dict[str, Any] = {"subscription": subscription, "key": key, "op": op, "order": order}
    check_frame(stream, "changes")
    if not stream.isStreaming:
        raise UsageError(
            "follow_changes takes a stream, such as spark.readStream…; of other DataFrames, append what "
            "changes(…) returns"
        )
    changes(stream, place, **asked)  # refuses a missing index or column before anything runs
    state = os.fspath(checkpoint)
    if not shards.is_remote(state) and not state.startswith("file:"):
        state = os.path.abspath(state)  # Spark understands addresses itself

    def apply(batch: DataFrame, number: int) -> None:
        apply_changes(batch, place, (_query_of(batch, state), number), segments, asked)

    writer = stream.writeStream.foreachBatch(apply).option("checkpointLocation", state)
    if name is not None:
        writer = writer.queryName(name)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    return writer.start()


def apply_changes(
    batch: DataFrame,
    path: str,
    transaction: tuple[str, int],
    segments: int,
    columns: Mapping[str, Any],
) -> None:
    """Apply one micro-batch of changes, unless it is applied already; compact if there are many segments."""
    with plain_errors():
        for pause in (*_PAUSES_S, None):
            _refuse_gap(path, transaction)
            netted = changes(batch, path, **columns)
            subscription, key, _ = map(quoted, netted.columns)
            try:
                made = append(netted, path, subscription, key, transaction=transaction)
                break
            except ConflictError as conflict:
                if pause is None:
                    raise
                _log.info("%s: batch %d is applied again: %s", path, transaction[1], conflict)
                time.sleep(pause)
        counts = shards.manifest_of(path, made.version)["segments"]
        if len(counts) <= segments:
            return
        try:
            compact(path, spark=batch.sparkSession)
            _log.info("%s: %d segments became one", path, len(counts))
        except ConflictError as conflict:  # the next batch compacts
            _log.info("%s: %d segments stay for now: %s", path, len(counts), conflict)


def _refuse_gap(path: str, transaction: tuple[str, int]) -> None:
    """Refuse a micro-batch if the index lacks the one before it."""
    source, number = transaction
    last = applied(path).get(source, -1)
    if last < number - 1:
        seen = f"batches of this stream up to {last}" if last >= 0 else "no batch of this stream"
        raise UsageError(
            f"{path} has {seen}, and the next batch is {number}: changes between them would be missing. The index "
            "was built anew or restored, or this checkpoint belongs to another index. Build it from the table, with "
            f"transaction=({source!r}, {number - 1}) if the table has these changes; else start with a new checkpoint"
        )


def _query_of(batch: DataFrame, checkpoint: str) -> str:
    """The id of the streaming query that a micro-batch belongs to; it survives restarts."""
    try:
        name = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if name is not None:
            return str(name)
    except (PySparkException, AttributeError):  # over Connect
        pass
    with shards.opened(f"{checkpoint}/metadata") as file:  # Spark writes it before the first batch
        return str(json.loads(file.read())["id"])
