"""The task of `changes`: net a feed of changes, for `DataFrame.mapInArrow`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import matchyard as my
from matchyard import shards
from matchyard.errors import ParseError
from matchyard.spark.tasks.notes import noted

Batches = Iterator[pa.RecordBatch]
REMOVE, DELETE, REPLACE, INSERT = range(4)  # of one moment, in this order


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
    """The net changes of whole keys."""
    keys, subscriptions, operations = (column.combine_chunks() for column in rows.columns)
    operation = np.asarray(operations)
    codes = np.asarray(keys.dictionary_encode().indices)
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    lengths = np.diff(np.r_[starts, len(codes)])
    alone = starts[lengths == 1]
    of_one = _OfKeys(
        removed=alone[operation[alone] == REMOVE],
        deleted=alone[operation[alone] == DELETE],
        wiped=alone[operation[alone] == REPLACE],
        added=alone[operation[alone] >= REPLACE],
    )
    several = np.flatnonzero(np.repeat(lengths > 1, lengths))
    values = _values(index, keys.take(pa.array(several)), subscriptions.take(pa.array(several)))
    of_several = _OfKeys([], [], [], [])
    first = 0
    for length in lengths[lengths > 1].tolist():
        some = range(first, first + length)
        _net_key(
            [several[row] for row in some], [values[row] for row in some], operation, of_several
        )
        first += length
    nothing = pa.nulls(len(keys), subscriptions.type)
    for column, number, change in (
        (subscriptions, 0, "remove"),
        (subscriptions, 1, "delete"),
        (nothing, 2, "remove"),
        (subscriptions, 3, "add"),
    ):
        at = pa.array(np.concatenate([of_one[number], np.array(of_several[number], np.int64)]))
        columns = [column.take(at), keys.take(at), pa.repeat(change, len(at))]
        yield pa.RecordBatch.from_arrays(columns, names)


class _OfKeys(NamedTuple):
    """Rows of a feed whose subscriptions are removed, deleted once or added, or whose keys lose all."""

    removed: Any
    deleted: Any
    wiped: Any
    added: Any


def _net_key(rows: list[int], values: list[Any], operation: Any, net: _OfKeys) -> None:
    """The net changes of one key. A deletion takes back an addition, if there is one before it."""
    removed: dict[Any, int] = {}
    deleted: list[int] = []
    wiped: list[int] = []
    added: dict[Any, list[int]] = {}
    is_new = False  # nothing that the key had before is left
    for row, value in zip(rows, values, strict=True):
        what = operation[row]
        if what == REPLACE or value is None:
            removed, deleted, wiped, added, is_new = {}, [], [row], {}, True
        elif what == REMOVE:
            added.pop(value, None)
            removed.setdefault(value, row)
        elif what == DELETE:
            if added.get(value):
                added[value].pop()
            elif not is_new and value not in removed:
                deleted.append(row)
        if what >= REPLACE:
            added.setdefault(value, []).append(row)
    net.removed.extend(() if is_new else removed.values())
    net.deleted.extend(deleted)
    net.wiped.extend(wiped)
    net.added.extend(row for some in added.values() for row in some)


def _values(index: Any, keys: pa.Array, subscriptions: pa.Array) -> list[Any]:
    """The meanings of subscriptions, however they are written; None where there is none."""
    there = subscriptions.is_valid()
    try:
        parsed = shards.parsed(index, subscriptions.filter(there), keys.filter(there))
    except ParseError as error:
        raise noted(error) from None
    values = iter(parsed)
    return [next(values) if is_there else None for is_there in there.to_pylist()]
