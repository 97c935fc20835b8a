"""`match` in SQL: a table function, and a scalar function that is bound to indexes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from matchyard import shards
from matchyard.errors import StorageError, UsageError
from matchyard.spark.checks import check_choice, place_of
from matchyard.spark.devices import DEVICES
from matchyard.spark.session import find_session
from matchyard.spark.tasks.job import MatchJob, open_index
from matchyard.spark.tasks.match import matched
from matchyard.spark.tasks.rows import Layout

Rows = Callable[[pa.RecordBatch, Any], Iterator[pa.Table]]  # of events and the path of an index
Find = Callable[[pa.Array, pa.Array], pa.Array]  # of names of indexes and events
_KINDS = {"bigint": T.LongType(), "string": T.StringType()}
_ARROW = {"bigint": pa.int64(), "string": pa.string()}
_BUFFERED = 4096  # rows that are matched together before Spark 4.1
_SESSION = "spark.matchyard.session"  # a setting that tells sessions apart
_held: dict[tuple[str, str], list[shards.Lease]] = {}  # by session and name of the scalar function


def register(
    spark: SparkSession | None = None,
    name: str = "matchyard_match",
    id: str = "bigint",
    key: str = "bigint",
    unique: bool = False,
    device: str = "auto",
) -> None:
    """Make `match` a table function of this session:

        SELECT * FROM matchyard_match(TABLE(SELECT id, tags FROM events), '/data/music.index')

    The path is absolute, since workers run in other folders. The table's first column names the
    event, the second is the event; the result has `id` and `key`. SQL needs their types beforehand:
    "bigint" or "string". A query is matched with the version that is current when its first task begins. Each batch
    of rows is matched with the version that is current then, if workers cannot write to the index, if it is in an
    object store, and in what Spark does not count as a query: `.rdd`, `foreach` and `foreachPartition`. `device` is that of `match`. `matchyard.spark.match` has more options.
    """
    check_choice("device", device, DEVICES)
    for what, kind in (("id", id), ("key", key)):
        if kind not in _KINDS:
            raise UsageError(f"{what} is {kind!r}; expected 'bigint' or 'string'")
    schema = T.StructType([T.StructField("id", _KINDS[id]), T.StructField("key", _KINDS[key])])
    rows = partial(
        match_rows, f"{shards.OF_SQL}{uuid.uuid4().hex[:16]}", id, key == "string", unique, device
    )
    function = (
        _arrow_table_function(rows, schema)
        if hasattr(F, "arrow_udtf")
        else _row_table_function(rows, schema)
    )
    find_session(spark).udtf.register(name, function)


def _arrow_table_function(rows: Rows, schema: T.StructType) -> Any:
    class Match:
        """One per task."""

        def eval(self, events: pa.RecordBatch, index: pa.Array) -> Iterator[pa.Table]:
            yield from rows(events, index[0].as_py())

    return F.arrow_udtf(Match, returnType=schema)


def _row_table_function(rows: Rows, schema: T.StructType) -> Any:
    """For Spark 4.0, which hands over row by row."""

    class Match:
        """One per task."""

        def __init__(self) -> None:
            self._rows: list[Any] = []
            self._path: Any = None

        def eval(self, row: Any, index: str) -> Iterator[tuple[Any, Any]]:
            self._path = index
            self._rows.append(row)
            if len(self._rows) >= _BUFFERED:
                yield from self.terminate()

        def terminate(self) -> Iterator[tuple[Any, Any]]:
            if not self._rows:
                return
            columns = zip(*(map(_plain, row) for row in self._rows), strict=True)
            names = self._rows[0].__fields__
            batch = pa.RecordBatch.from_arrays([pa.array(list(c)) for c in columns], names)
            self._rows = []
            for table in rows(batch, self._path):
                yield from zip(*table.to_pydict().values(), strict=True)

    return F.udtf(Match, returnType=schema)


def _plain(value: Any) -> Any:
    """A struct as a dictionary, as Arrow reads it."""
    return value.asDict(recursive=True) if isinstance(value, Row) else value


def match_rows(
    query: str,
    id: str,
    string_keys: bool,
    unique: bool,
    device: str,
    events: pa.RecordBatch,
    path: Any,
) -> Iterator[pa.Table]:
    """The pairs of one batch of (id, event)."""
    if events.num_columns != 2:
        raise UsageError(
            f"the table has columns {', '.join(events.schema.names)}; expected two, the name of the "
            "event and the event"
        )
    if path is None:
        raise UsageError("the path of the index is null")
    version = _version_of(query, path)
    index = open_index(path, version, device)
    found_strings = index.key_names() is not None
    if len(index) and found_strings != string_keys:
        kind = "string" if found_strings else "bigint"
        raise UsageError(f"the keys of {path} are {kind}: register(…, key={kind!r})")
    wanted = _ARROW[id]
    try:
        ids = events.column(0).cast(wanted)
    except pa.ArrowException as error:
        raise UsageError(f"ids are not {wanted}: {error}; see register(…, id=…)") from None
    job = MatchJob(path, version, ["id", "key"], string_keys, unique=unique, device=device)
    layout = Layout(job, version)
    for batch in matched(index, layout, [ids], events.column(1)):
        yield pa.Table.from_batches([batch])


def _version_of(query: str, path: str) -> str:
    """The version for all tasks of a query, which is recorded as those of micro-batches are."""
    context = TaskContext.get()
    execution = None if context is None else context.getLocalProperty("spark.sql.execution.id")
    if execution is None:
        return shards.current_version(path)
    try:
        return shards.version_of_batch(path, query, int(execution))
    except (OSError, StorageError):
        return shards.current_version(path)


def register_function(
    indexes: Mapping[str, str | os.PathLike[str]],
    spark: SparkSession | None = None,
    name: str = "matches",
    unique: bool = False,
    device: str = "auto",
) -> None:
    """Make a scalar function of this session that returns the keys of an event as an array:

        SELECT id, matches('music', tags) FROM events

    `indexes` are the names that its first argument may have, with their paths. The function is bound to the
    versions that are current now, and keeps them. All indexes have keys of one type. A null event has a null
    array; any other event that cannot be read ends the query. An event is one column: tags, JSON, a struct, a map
    or XML.
    """
    check_choice("device", device, DEVICES)
    if (
        not isinstance(indexes, Mapping)
        or not indexes
        or not all(isinstance(label, str) for label in indexes)
    ):
        raise UsageError(
            f"indexes are names with paths, e.g. {{'music': 'music.index'}}, not {indexes!r:.100}"
        )
    with ExitStack() as undo:
        bound: dict[str, shards.Lease] = {}
        for label, place in indexes.items():
            bound[label] = shards.hold_current(place_of(place))
            undo.callback(shards.release, bound[label])
        are_strings = {
            shards.has_string_keys(shards.manifest_of(lease.path, lease.version))
            for lease in bound.values()
        }
        if len(are_strings) > 1:
            raise UsageError("the keys of all indexes must be bigint, or all string")
        session, [is_string] = find_session(spark), are_strings
        find = partial(_keys_of, bound, is_string, unique, device)
        make = _arrow_function if hasattr(F, "arrow_udf") else _pandas_function
        session.udf.register(name, make(find, f"array<{'string' if is_string else 'bigint'}>"))
        _keep(session, name, list(bound.values()))
        undo.pop_all()


def _arrow_function(find: Find, kind: str) -> Any:
    def keys(names: pa.Array, events: pa.Array) -> pa.Array:
        return find(names, events)

    keys.__annotations__ = {"names": pa.Array, "events": pa.Array, "return": pa.Array}
    return F.arrow_udf(keys, kind)


def _pandas_function(find: Find, kind: str) -> Any:
    """For Spark 4.0."""
    import pandas as pd

    def keys(names: Any, events: Any) -> Any:
        column = pa.array(events.to_dict("records") if hasattr(events, "columns") else list(events))
        return pd.Series(find(pa.array(names), column).to_pylist())

    keys.__annotations__ = {"names": pd.Series, "events": pd.Series, "return": pd.Series}
    return F.pandas_udf(keys, kind)


def _keep(session: SparkSession, name: str, leases: list[shards.Lease]) -> None:
    """Keep the versions of a scalar function as long as it is registered. A query that runs with the
    function before has leases of its own."""
    number = getattr(session, "session_id", None)  # over Connect
    if number is None:
        number = session.conf.get(_SESSION, None) or uuid.uuid4().hex
        session.conf.set(_SESSION, number)
    function = str(number), name.lower()  # as Spark compares names
    for lease in _held.pop(function, []):
        shards.release(lease)
    _held[function] = leases


def _keys_of(
    bound: Mapping[str, shards.Lease],
    string_keys: bool,
    unique: bool,
    device: str,
    names: pa.Array,
    events: pa.Array,
) -> pa.Array:
    """The keys of each event, null for null; the names are one constant."""
    labels = set(names.unique().to_pylist())
    if len(labels) > 1:
        raise UsageError("the name of the index is another one in each row; expected a constant")
    if not labels <= set(bound):
        [said] = labels
        raise UsageError(f"the index is {said}; expected one of: {', '.join(sorted(bound))}")
    kind = pa.list_(pa.string() if string_keys else pa.int64())
    if not len(events):
        return pa.array([], kind)
    lease = bound[labels.pop()]
    shards.renew(lease)
    path, version = lease.path, lease.version
    job = MatchJob(path, version, ["keys"], string_keys, arrays=True, unique=unique, device=device)
    is_event = np.asarray(events.is_valid())
    some = events.filter(pa.array(is_event))
    found = matched(open_index(path, version, device), Layout(job, version), [], some)
    lists = pa.chunked_array([batch.column(0).cast(kind) for batch in found], kind)
    at = pa.array(np.cumsum(is_event) - 1, mask=~is_event)
    return lists.combine_chunks().take(at)
