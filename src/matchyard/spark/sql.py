"""matchyard_match: `match` as a table function in SQL."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as T
from pyspark.sql.functions import arrow_udtf

from matchyard import shards
from matchyard.errors import UsageError
from matchyard.spark.checks import check_choice
from matchyard.spark.devices import DEVICES
from matchyard.spark.session import find_session
from matchyard.spark.tasks.job import MatchJob, open_index
from matchyard.spark.tasks.match import matched
from matchyard.spark.tasks.rows import Layout

_KINDS = {"bigint": T.LongType(), "string": T.StringType()}


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
    "bigint" or "string". Each batch of rows is matched with the version that is current then.
    `device` is that of `match`. `matchyard.spark.match` has more options.
    """
    check_choice("device", device, DEVICES)
    for what, kind in (("id", id), ("key", key)):
        if kind not in _KINDS:
            raise UsageError(f"{what} is {kind!r}; expected 'bigint' or 'string'")
    schema = T.StructType([T.StructField("id", _KINDS[id]), T.StructField("key", _KINDS[key])])
    string_keys = key == "string"

    class Match:
        """One per task."""

        def eval(self, events: pa.RecordBatch, index: pa.Array) -> Iterator[pa.Table]:
            yield from match_rows(events, index[0].as_py(), schema, unique, string_keys, device)

    find_session(spark).udtf.register(name, arrow_udtf(Match, returnType=schema))


_ARROW = {"bigint": pa.int64(), "string": pa.string()}


def match_rows(
    events: pa.RecordBatch,
    path: str,
    schema: T.StructType,
    unique: bool,
    string_keys: bool,
    device: str = "auto",
) -> Iterator[pa.Table]:
    """The pairs of one batch of (id, event)."""
    if events.num_columns != 2:
        raise UsageError(
            f"the table has columns {', '.join(events.schema.names)}; expected two, the name of the "
            "event and the event"
        )
    if path is None:
        raise UsageError("the path of the index is null")
    version = shards.current_version(path)
    index = open_index(path, version, device)
    found_strings = index.key_names() is not None
    if len(index) and found_strings != string_keys:
        kind = "string" if found_strings else "bigint"
        raise UsageError(f"the keys of {path} are {kind}: register(…, key={kind!r})")
    wanted = _ARROW[schema[0].dataType.simpleString()]
    try:
        ids = events.column(0).cast(wanted)
    except pa.ArrowException as error:
        raise UsageError(f"ids are not {wanted}: {error}; see register(…, id=…)") from None
    job = MatchJob(
        path, version, streaming=False, follow=False, record=None, stamped=False,
        names=["id", "key"], merged=False, every=False, unique=unique, arrays=False, keep_bad=False,
        with_version=False, string_keys=string_keys, device=device,
    )  # fmt: skip
    for batch in matched(index, Layout(job, version), [ids], events.column(1)):
        yield pa.Table.from_batches([batch])
