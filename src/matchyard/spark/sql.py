"""`match` in SQL: a table function, and a scalar function that is bound to indexes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

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

_KINDS = {"bigint": T.LongType(), "string": T.StringType()}
_ARROW = {"bigint": pa.int64(), "string": pa.string()}
_BUFFERED = 4096  # rows that are matched together before Spark 4.1
_SESSION = "spark.matchyard.session"  # a setting that tells sessions apart
_held: dict[tuple[str, str], list[shards.Held]] = {}  # by session and name of the scalar function


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
    "bigint" or "string". A query is matched with the version that is current when its first task begins; if
    workers cannot write to the index, or if it is in an object store, each batch of rows is matched with the
    version that is current then. `device` is that of `match`. `matchyard.spark.match` has more options.
    """
    check_choice("device", device, DEVICES)
    for what, kind in (("id", id), ("key", key)):
        if kind not in _KINDS:
            raise UsageError(f"{what} is {kind!r}; expected 'bigint' or 'string'")
    schema = T.StructType([T.StructField("id", _KINDS[id]), T.StructField("key", _KINDS[key])])
    rows = partial(
        match_rows, f"{shards.OF_SQL}{uuid.uuid4().hex[:16]}", id, key == "string", unique, device
    )
    if hasattr(F, "arrow_udtf"):

        class Match:
            """One per task."""

            def eval(self, events: pa.RecordBatch, index: pa.Array) -> Iterator[pa.Table]:
                yield from rows(events, index[0].as_py())

        function = F.arrow_udtf(Match, returnType=schema)
    else:

        class MatchRows:
            """One per task; Spark 4.0 hands over row by row."""

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

        function = F.udtf(MatchRows, returnType=schema)
    find_session(spark).udtf.register(name, function)


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
    layout = Layout(_job(path, version, ["id", "key"], unique, string_keys, device, False), version)
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
    bound, kinds = {}, set()
    for label, place in indexes.items():
        use = shards.hold_current(place_of(place))
        shards.release(use)  # the lease lasts until all are known to fit together
        bound[label] = (use.path, use.version)
        manifest = shards.manifest_of(use.path, use.version)
        kinds.add("string" if shards.has_string_keys(manifest) else "bigint")
    if len(kinds) != 1:
        found = "some of both" if kinds else "no index"
        raise UsageError(f"the keys of the indexes must be bigint or string, found {found}")
    session, [kind] = find_session(spark), kinds
    _keep(session, name, [shards.hold_version(*one) for one in bound.values()])
    find = partial(_keys_of, bound, kind == "string", unique, device)
    if hasattr(F, "arrow_udf"):

        def keys(names: pa.Array, events: pa.Array) -> pa.Array:
            return find(names, events)

        keys.__annotations__ = {"names": pa.Array, "events": pa.Array, "return": pa.Array}
        function: Any = F.arrow_udf(keys, f"array<{kind}>")
    else:
        import pandas as pd

        def keys_pandas(names: Any, events: Any) -> Any:
            column = pa.array(
                events.to_dict("records") if hasattr(events, "columns") else list(events)
            )
            return pd.Series(find(pa.array(names), column).to_pylist())

        keys_pandas.__annotations__ = {"names": pd.Series, "events": pd.Series, "return": pd.Series}
        function = F.pandas_udf(keys_pandas, f"array<{kind}>")
    session.udf.register(name, function)


def _keep(session: SparkSession, name: str, held: list[shards.Held]) -> None:
    """Keep the versions of a scalar function as long as it is registered. A query that runs with the
    function before has leases of its own."""
    number = getattr(session, "session_id", None)  # over Connect
    if number is None:
        number = session.conf.get(_SESSION, None) or uuid.uuid4().hex
        session.conf.set(_SESSION, number)
    function = str(number), name.lower()  # as Spark compares names
    for use in _held.pop(function, []):
        shards.release(use)
    _held[function] = held


def _keys_of(
    bound: Mapping[str, tuple[str, str]],
    string_keys: bool,
    unique: bool,
    device: str,
    names: pa.Array,
    events: pa.Array,
) -> pa.Array:
    """The keys of each event; the names are one constant."""
    labels = set(names.unique().to_pylist())
    if len(labels) > 1 or not labels <= set(bound):
        said = ", ".join(map(str, sorted(labels, key=str)))
        raise UsageError(f"the index is {said}; expected one of: {', '.join(sorted(bound))}")
    kind = pa.list_(pa.string() if string_keys else pa.int64())
    if not len(events):
        return pa.array([], kind)
    path, version = bound[labels.pop()]
    shards.renew(path, version)
    index = open_index(path, version, device)
    job = _job(path, version, ["row", "keys"], unique, string_keys, device, True)
    known = events.is_valid()
    rows = pa.array(range(len(events)), pa.int64()).filter(known)
    batches = list(matched(index, Layout(job, version), [rows], events.filter(known)))
    schema = pa.schema([("row", pa.int64()), ("keys", kind)])
    table = pa.Table.from_batches([batch.cast(schema) for batch in batches], schema)
    lists = table["keys"].combine_chunks()
    at = pa.compute.index_in(
        pa.array(range(len(events)), pa.int64()), table["row"].combine_chunks()
    )
    return lists.take(at)


def _job(
    path: str,
    version: str,
    names: list[str],
    unique: bool,
    string_keys: bool,
    device: str,
    arrays: bool,
) -> MatchJob:
    return MatchJob(
        path, version, streaming=False, follow=False, record=None, stamped=False, names=names,
        merged=False, every=arrays, unique=unique, arrays=arrays, keep_bad=False,
        with_version=False, string_keys=string_keys, device=device,
    )  # fmt: skip
