"""Subset matching in Spark: `matchyard.spark` compared with plain queries, in one run.

    matchyard         `build`, then `match`: a row per pair
    matchyard_arrays  the same with a row per event ("all" leaves it out)
    explode_join      both sides exploded, joined on the tag, met tags counted per pair
    forall_join       every pair, with `forall(wanted, tag -> array_contains(given, tag))`
    duckdb            DuckDB's counting join, over the same Parquet files
    postgres          PostgreSQL's GIN index, loaded from the same files; left out where there is none

The clock covers the whole job, from Parquet files on disk to rows that are dropped. `matchyard` gets
all events; the other ways get the first few events. All ways are checked on these, pair by pair: a key
occurs once for each of its matching subscriptions. No join finds sets without tags, and no generated
workload has them.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import matchyard as my
from matchyard.bench.compare.harness import Result, checksum_of_pairs
from matchyard.bench.rivals.postgres import missing
from matchyard.bench.rivals.subsets import Gin, connect
from matchyard.errors import UsageError
from matchyard.spark import build, match, session
from matchyard.spark.session import find_session

ALL = ("matchyard", "explode_join", "forall_join", "duckdb", "postgres")
FILE_ROWS = 250_000  # the most rows of a file; half of a large workload's generation chunk
# Spark packs files into tasks of up to 128 MB: with few large tasks, cores would wait for the last.
CONFIG = {"spark.sql.files.maxPartitionBytes": "32m"}
LONG_S = 60.0  # no further pass of a way begins after this time


class Inputs(NamedTuple):
    """Folders of Parquet files."""

    subscriptions: str  # row, tags, key
    events: str  # id, tags
    common: str  # the first events, for all ways


class Way(Protocol):
    """One way to do the job; `events` is a folder."""

    def run(self, events: str) -> None:
        """Find all pairs and drop them."""

    def count(self, events: str) -> int:
        """How many pairs there are."""

    def collect(self, events: str) -> pa.Table:
        """The pairs: id and key."""


class InSpark:
    """A DataFrame of pairs, or of events with their keys, made from a DataFrame of events."""

    def __init__(self, spark: SparkSession, matched: Callable[[DataFrame], DataFrame]) -> None:
        self._spark, self._matched = spark, matched

    def run(self, events: str) -> None:
        """Compute the result and drop it."""
        self._frame(events).write.format("noop").mode("overwrite").save()

    def count(self, events: str) -> int:
        """How many pairs there are."""
        frame = self._frame(events)
        n_pairs = F.sum(F.size("keys")) if "keys" in frame.columns else F.count("key")
        return int(frame.agg(n_pairs).collect()[0][0] or 0)

    def collect(self, events: str) -> pa.Table:
        """The pairs: id and key."""
        frame = self._frame(events)
        if "keys" in frame.columns:
            frame = frame.select("id", F.explode("keys").alias("key"))
        return frame.select("id", "key").toArrow()

    def _frame(self, events: str) -> DataFrame:
        return self._matched(self._spark.read.parquet(events))


def explode_join(subscriptions: DataFrame, events: DataFrame) -> DataFrame:
    """Count met tags per pair: a subscription matches if the event has all of its tags."""
    wanted = subscriptions.select("row", "key", F.array_distinct("tags").alias("tags"))
    wanted = wanted.select(
        "row", "key", F.size("tags").alias("n_tags"), F.explode("tags").alias("tag")
    )
    given = events.select("id", F.explode(F.array_distinct("tags")).alias("tag"))
    # Keys and sizes are aggregated, not grouped by: the fastest form on 100 k subscriptions.
    counts = F.count("*").alias("n_met"), F.first("key").alias("key"), F.first("n_tags").alias("n")
    met = given.join(wanted, "tag").groupBy("id", "row").agg(*counts)
    return met.where("n_met = n").select("id", "key")


def forall_join(subscriptions: DataFrame, events: DataFrame) -> DataFrame:
    """Test every pair of an event and a subscription."""
    wanted = F.broadcast(subscriptions.select("key", F.col("tags").alias("wanted")))
    is_match = F.forall("wanted", lambda tag: F.array_contains("tags", tag))
    return events.join(wanted, is_match, "inner").select("id", "key")


class InDuckDB:
    """The counting join, the faster of the two forms in `rivals`, directly over the files."""

    _PAIRS = """
        with given as (select id, unnest(list_distinct(tags)) as tag from '{events}/*.parquet'),
        sets as (select row, key, list_distinct(tags) as tags from '{subscriptions}/*.parquet'),
        wanted as (select row, unnest(tags) as tag from sets),
        met as (select id, row, count(*) as n_met from given join wanted using (tag) group by id, row)
        select id, key from met join sets using (row) where n_met = len(tags)
    """

    def __init__(self, subscriptions: str, threads: int) -> None:
        self._subscriptions, self._database = subscriptions, connect(threads)

    def run(self, events: str) -> None:
        """Read the result batch by batch."""
        for _ in self._ask(events).to_arrow_reader():
            pass

    def count(self, events: str) -> int:
        """How many pairs there are."""
        return sum(len(batch) for batch in self._ask(events).to_arrow_reader())

    def collect(self, events: str) -> pa.Table:
        """The pairs: id and key."""
        return self._ask(events).to_arrow_reader().read_all()

    def _ask(self, events: str) -> Any:
        query = self._PAIRS.format(events=events, subscriptions=self._subscriptions)
        return self._database.sql(query)


class InPostgres:
    """`text[]` with a GIN index; the events are read from their files and sent to the server."""

    def __init__(self, subscriptions: str, threads: int) -> None:
        stored = pq.read_table(subscriptions, columns=["tags", "key"])
        self._gin = Gin(stored["tags"].combine_chunks(), stored["key"].to_numpy(), threads)
        self.n_bytes = self._gin.n_bytes()

    def run(self, events: str) -> None:
        """Find all pairs and drop them."""
        self.collect(events)

    def count(self, events: str) -> int:
        """How many pairs there are."""
        return len(self.collect(events))

    def collect(self, events: str) -> pa.Table:
        """The pairs: id and key."""
        asked = pq.read_table(events, columns=["id", "tags"])
        pairs = self._gin.match(asked["tags"].combine_chunks()).to_arrow()
        return pa.table({"id": asked["id"].take(pairs["event"]), "key": pairs["key"]})

    def close(self) -> None:
        """Stop the server."""
        self._gin.close()


class Prepared(NamedTuple):
    """A way that is ready to be timed, and the cost of its preparation."""

    way: Way
    on_all: bool  # timed on all events rather than the common ones
    build_s: float = 0.0
    index_bytes: int = 0  # without keys
    close: Callable[[], None] = lambda: None


def usable_ways(note: Callable[[str], None]) -> Sequence[str]:
    """All ways that this machine can run; a note tells of the others."""
    lack = missing()
    if lack is not None:
        note(f"postgres is left out: {lack}")
    return [name for name in ALL if lack is None or name != "postgres"]


def compare(
    workload: str = "twitter",
    size: int = 100_000,
    ways: Sequence[str] = ALL,
    threads: int = 2,
    seed: int = 1,
    n_events: int = 500_000,
    n_common: int = 5_000,
    passes: int = 5,
    options: dict[str, Any] | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> Iterator[Result]:
    """Yield a result per way, in the running session or in a new one on `threads` cores."""
    for name in ways:
        if name not in WAYS:
            raise UsageError(f"no way {name!r} in Spark; expected one of: {', '.join(WAYS)}")
    lack = missing() if "postgres" in ways else None
    if lack is not None:  # before the other ways take their time
        raise UsageError(f"this rival needs PostgreSQL: {lack}")
    source = my.workload("tags", workload, size, seed)
    n_common = min(n_common, n_events)
    with running_session(threads) as spark, tempfile.TemporaryDirectory() as folder:
        progress(f"writing {size:,} subscriptions and {n_events:,} events")
        inputs = write_inputs(source, Path(folder), n_events, n_common, 2 * threads)
        for name in ways:
            progress(f"preparing {name}")
            prepared = WAYS[name](spark, inputs, Path(folder) / name, threads, options)
            progress(f"matching with {name}")
            counts = n_events if prepared.on_all else n_common, n_common
            timed = measure(prepared, inputs, passes)
            prepared.close()
            yield _result(workload, name, threads, size, counts, prepared, timed)


class Timed(NamedTuple):
    """The matches of a way and the duration of each pass."""

    seconds: list[float]
    matches: int
    checksum: str  # of the common events


def measure(prepared: Prepared, inputs: Inputs, passes: int) -> Timed:
    """Collect the common pairs, as a warm-up, then time passes over the way's events."""
    way = prepared.way
    pairs = way.collect(inputs.common)
    events, matches = inputs.common, len(pairs)
    if prepared.on_all:
        events, matches = inputs.events, way.count(inputs.events)
    seconds: list[float] = []
    while len(seconds) < passes and sum(seconds) < LONG_S:
        start = time.perf_counter()
        way.run(events)
        seconds.append(time.perf_counter() - start)
    ids, keys = (pairs[name].to_numpy() for name in ("id", "key"))
    return Timed(seconds, matches, checksum_of_pairs(ids, keys))


def _result(
    workload: str,
    name: str,
    threads: int,
    size: int,
    counts: tuple[int, int],
    prepared: Prepared,
    timed: Timed,
) -> Result:
    n_events, n_common = counts
    median = statistics.median(timed.seconds)
    pairs_per_s = timed.matches / median
    spread = (max(timed.seconds) - min(timed.seconds)) / median
    return Result(
        "spark", workload, name, "cpu", threads, size, n_events, prepared.build_s,
        n_events / median, pairs_per_s, timed.matches, None, prepared.index_bytes, timed.checksum,
        n_common, None, spread, len(timed.seconds), pairs_per_s, "parquet",
    )  # fmt: skip


# -------------------------------------------------------------------- preparing


def _with_index(
    output: str,
    spark: SparkSession,
    inputs: Inputs,
    folder: Path,
    threads: int,
    options: dict[str, Any] | None,
) -> Prepared:
    # Build a few rows first: that starts workers and compiles kernels before the clock starts.
    stored = spark.read.parquet(inputs.subscriptions)
    build(stored.limit(200), f"{folder}-tiny", options=options)
    start = time.perf_counter()
    build(spark.read.parquet(inputs.subscriptions), folder, options=options)
    build_s = time.perf_counter() - start
    info = my.open(folder).info()
    way = InSpark(spark, partial(match, index=folder, output=output))
    return Prepared(way, True, build_s, info["index_bytes"] - info["key_bytes"])


def _joined(
    join: Callable[[DataFrame, DataFrame], DataFrame],
    spark: SparkSession,
    inputs: Inputs,
    folder: Path,
    threads: int,
    options: dict[str, Any] | None,
) -> Prepared:
    def matched(events: DataFrame) -> DataFrame:
        return join(spark.read.parquet(inputs.subscriptions), events)

    return Prepared(InSpark(spark, matched), False)


def _in_duckdb(
    spark: SparkSession,
    inputs: Inputs,
    folder: Path,
    threads: int,
    options: dict[str, Any] | None,
) -> Prepared:
    return Prepared(InDuckDB(inputs.subscriptions, threads), False)


def _in_postgres(
    spark: SparkSession,
    inputs: Inputs,
    folder: Path,
    threads: int,
    options: dict[str, Any] | None,
) -> Prepared:
    start = time.perf_counter()
    way = InPostgres(inputs.subscriptions, threads)
    return Prepared(way, False, time.perf_counter() - start, way.n_bytes, way.close)


WAYS: dict[str, Callable[..., Prepared]] = {
    "matchyard": partial(_with_index, "pairs"),
    "matchyard_arrays": partial(_with_index, "arrays"),
    "explode_join": partial(_joined, explode_join),
    "forall_join": partial(_joined, forall_join),
    "duckdb": _in_duckdb,
    "postgres": _in_postgres,
}


@contextmanager
def running_session(cores: int) -> Iterator[SparkSession]:
    """The running session, or a new one, which is stopped afterwards."""
    try:
        spark, is_ours = find_session(), False
    except UsageError:
        spark, is_ours = session(cores=cores, config=CONFIG), True
    try:
        yield spark
    finally:
        if is_ours:
            spark.stop()


# -------------------------------------------------------------------- files


def write_inputs(source: Any, folder: Path, n_events: int, n_common: int, n_files: int) -> Inputs:
    """Write a workload as Parquet, in at least `n_files` files of one size, for all cores."""
    inputs = Inputs(*(str(folder / name) for name in Inputs._fields))
    write_subscriptions(source, inputs.subscriptions, n_files)
    write_files(inputs.events, partial(numbered, source), n_events, n_files)
    write_files(inputs.common, partial(numbered, source), n_common, n_files)
    return inputs


def write_subscriptions(source: Any, folder: str, n_files: int) -> None:
    """Write the subscriptions of a workload: row, tags, key."""

    def rows(start: int, stop: int) -> pa.Table:
        tags, keys = source.subscriptions(start, stop)
        return pa.table({"row": np.arange(start, stop), "tags": tags, "key": keys})

    write_files(folder, rows, source.size, n_files)


def numbered(source: Any, start: int, stop: int) -> pa.Table:
    """The events of a workload, with their numbers as ids."""
    return pa.table({"id": np.arange(start, stop), "tags": source.events(stop - start, start)})


def write_files(
    folder: str, rows: Callable[[int, int], pa.Table], n_rows: int, n_files: int
) -> None:
    """Write rows to at least `n_files` files of one size, none with too many rows."""
    Path(folder).mkdir(parents=True)
    n_files = min(n_rows, -(-max(n_files, -(-n_rows // FILE_ROWS)) // n_files) * n_files)
    ends = [n_rows * number // n_files for number in range(n_files + 1)]
    for number, (start, stop) in enumerate(pairwise(ends)):
        pq.write_table(rows(start, stop), f"{folder}/{number:04}.parquet")
