"""The task of `changes`: net a feed of changes, for `DataFrame.mapInArrow`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import matchyard as my
from matchyard import shards
from matchyard.errors import ParseError
from matchyard.spark.tasks.notes import noted

Batches = Iterator[pa.RecordBatch]
DELETE, REPLACE, INSERT = range(3)  # of one moment, in this order


def net_changes(plan: shards.Plan, names: list[str], batches: Batches) -> Batches:
    """The removals and additions that a feed comes to: subscription, key, change, under these names.

    The rows are (key, subscription, operation), all rows of a key one after the other, in the order in which
    they were made.
    """
    index = my.create(plan.engine, plan.algorithm, plan.options)
    waiting: pa.Table | None = None
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        waiting = rows if waiting is None else pa.concat_tables([waiting, rows])
        n_whole = _first_of_last_key(waiting.column(0))
        if n_whole:
            yield from _netted(index, waiting.slice(0, n_whole), names)
            waiting = waiting.slice(n_whole)
    if waiting is not None and len(waiting):
        yield from _netted(index, waiting, names)


def _first_of_last_key(keys: pa.ChunkedArray) -> int:
    """The first row of the last key, which may go on in the next batch."""
    if not len(keys):
        return 0
    is_last = pc.equal(keys, keys[-1]).combine_chunks()
    return len(keys) - int(pc.sum(is_last).as_py() or 0)


def _netted(index: Any, rows: pa.Table, names: list[str]) -> Batches:
    keys, subscriptions, operations = (column.combine_chunks() for column in rows.columns)
    operation = np.asarray(operations)
    codes = np.asarray(keys.dictionary_encode().indices)
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    lengths = np.diff(np.r_[starts, len(codes)])
    first_of_single = starts[lengths == 1]
    removed, wiped, added = [], [], []
    alone = operation[first_of_single]
    removed.append(first_of_single[alone == DELETE])  # without a subscription: all of the key
    wiped.append(first_of_single[alone == REPLACE])
    added.append(first_of_single[alone != DELETE])
    several = starts[lengths > 1]
    for start, length in zip(several.tolist(), lengths[lengths > 1].tolist(), strict=True):
        some = range(start, start + length)
        for to, numbers in zip(
            (removed, wiped, added),
            _of_key(index, keys, subscriptions, operation, some),
            strict=True,
        ):
            to.append(np.array(numbers, np.int64))
    remove, wipe, add = (np.concatenate(parts) for parts in (removed, wiped, added))
    nothing = pa.nulls(len(keys), subscriptions.type)
    for column, chosen, change in (
        (subscriptions, remove, "remove"),
        (nothing, wipe, "remove"),
        (subscriptions, add, "add"),
    ):
        at = pa.array(chosen, pa.int64())
        columns = [column.take(at), keys.take(at), pa.repeat(change, len(at))]
        yield pa.RecordBatch.from_arrays(columns, names)


def _of_key(
    index: Any, keys: pa.Array, subscriptions: pa.Array, operation: Any, rows: range
) -> tuple[list[int], list[int], list[int]]:
    """Rows of one key: subscriptions to remove, one row if all are to be removed, and rows to add."""
    removed: dict[Any, int] = {}
    wiped: list[int] = []
    added: dict[Any, list[int]] = {}
    for row in rows:
        value = _value(index, keys, subscriptions, row)
        if operation[row] == REPLACE or value is None:
            removed, wiped, added = {}, [row], {}
        elif operation[row] == DELETE:
            removed[value] = row
            added.pop(value, None)
        if operation[row] != DELETE:
            added.setdefault(value, []).append(row)
    return list(removed.values()), wiped, [row for some in added.values() for row in some]


def _value(index: Any, keys: pa.Array, subscriptions: pa.Array, row: int) -> Any:
    """The meaning of a subscription, however it is written; None if there is none."""
    if not subscriptions[row].is_valid:
        return None
    try:
        return index.parse_column(subscriptions.slice(row, 1))[0]
    except ParseError as error:
        reason = str(error).removeprefix("row 0")
        if not reason.startswith((" ", ":")):
            reason = f": {reason}"
        raise noted(error.saying(f"a subscription of key {keys[row].as_py()!r}{reason}")) from None
