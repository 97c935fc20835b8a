"""The demo's pipeline on Spark: interests, their index, tweets that keep arriving, and changes."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import matchyard as my
from matchyard.bench.demo.tally import NEW_KEY, PER_CHANGE, Batch, Change, Seen, Tally
from matchyard.errors import MatchyardError
from matchyard.spark import Built, Progress, append, build, match, to_files, workloads

_EVERY_S = 0.25  # between two files of tweets
_MOST_FILES = 16  # in a micro-batch, so that a batch after a pause does not take long
_TARGET_S = 2.0  # target duration of a micro-batch; it sets the rate of tweets
_FIRST_RATE, _LEAST_RATE = 4000.0, 1000.0  # tweets/s
_BAD_EVERY = 4  # every fourth file has two tweets that cannot be read
_JOIN, _LEAVE = 500, 100  # added interests and removed users of one change
_CHANGES_AT = (0.2, 0.45, 0.7)  # of the streaming time
_PATIENCE_S = 180.0  # limit to wait for the use of a version, or for the last report of a batch


class Places:
    """The folders of a run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.interests, self.index = root / "interests", root / "interests.index"
        self.tweets, self.checkpoint = root / "tweets", root / "checkpoint"
        self.matches, self.dead_letters = root / "matches", root / "dead_letters"


# -------------------------------------------------------------------- interests


def generate(spark: SparkSession, places: Places, size: int, seed: int, partitions: int) -> None:
    """Write the interests to Parquet."""
    interests = workloads.subscriptions("twitter", size, seed, spark, partitions)
    interests.write.parquet(str(places.interests))


def build_index(spark: SparkSession, places: Places) -> Built:
    """Compile the interests."""
    return build(spark.read.parquet(str(places.interests)), places.index)


def warm_up(spark: SparkSession, folder: Path) -> None:
    """Run the pipeline once with little data, to compile all kernels before the measurement."""
    places, size = Places(folder), 1000
    generate(spark, places, size, 1, 1)
    build_index(spark, places)
    source = my.workload("tags", "twitter", size, 1)
    places.tweets.mkdir()
    pq.write_table(_tweets(source, 0, 100, bad=True), places.tweets / "0.parquet")
    changes = _changes_table([(["a"], NEW_KEY)], [1])
    append(spark.createDataFrame(changes), places.index)
    save = to_files(str(places.matches), dead_letters=str(places.dead_letters))
    query = _query(spark, places, save).trigger(availableNow=True).start()
    query.awaitTermination()
    if query.exception() is not None:
        raise _failure(query.exception())


def _failure(error: Any) -> MatchyardError:
    """The error of a stream, on one line."""
    text = str(error or "for an unknown reason").strip()
    told = re.findall(r"\b(\w+(?:Error|Exception): (?!An? error occurred)[^\n\\]+)", text)
    return MatchyardError(f"the stream has stopped: {(told or text.splitlines())[0]}")


def _query(spark: SparkSession, places: Places, write: Callable[[DataFrame, int], None]) -> Any:
    """The stream, not started yet."""
    schema = "id string, tags array<string>"
    arriving = spark.readStream.schema(schema).option("maxFilesPerTrigger", _MOST_FILES)
    tweets = arriving.parquet(str(places.tweets))
    matched = match(tweets, places.index, follow=True, version=True, bad="keep", output="arrays")
    writer = matched.writeStream.foreachBatch(write).queryName("tweets")
    return writer.option("checkpointLocation", str(places.checkpoint))


# -------------------------------------------------------------------- tweets


def _tweets(source: Any, start: int, n_tweets: int, bad: bool) -> pa.Table:
    tags = source.events(n_tweets, start=start)
    if bad and n_tweets >= 2:  # one with null instead of tags, one with a null tag
        unreadable = pa.array([None, ["half", None]], tags.type)
        tags = pa.concat_arrays([unreadable, tags.slice(2)])
    ids = [f"tweet-{number}" for number in range(start, start + n_tweets)]
    return pa.table({"id": pa.array(ids, pa.string()), "tags": tags})


def number_of(ids: Any) -> Any:
    """The numbers of a column of ids: 12 for `tweet-12`."""
    return pc.cast(pc.utf8_slice_codeunits(ids, len("tweet-")), pa.int64())


class Tweets(threading.Thread):
    """Writes files of tweets, at a rate that the stream can just keep up with."""

    def __init__(self, source: Any, folder: Path, tally: Tally) -> None:
        super().__init__(daemon=True, name="tweets")
        self.source, self.folder, self.tally = source, folder, tally
        self.rate = _FIRST_RATE
        self._end = threading.Event()
        self.problem: BaseException | None = None

    def run(self) -> None:
        """Write until `stop`."""
        try:
            for number in itertools.count():
                self._write(number)
                while self._end.wait(_EVERY_S) or self._is_behind():
                    if self._end.is_set():
                        return
        except Exception as error:  # the watching thread raises it again
            self.problem = error

    def _write(self, number: int) -> None:
        n_tweets = max(2, int(self.rate * _EVERY_S))
        table = _tweets(self.source, self.tally.written, n_tweets, number % _BAD_EVERY == 1)
        draft = self.folder / f".{number:06}.parquet"  # Spark does not see hidden files
        pq.write_table(table, draft)
        self.tally.written += n_tweets
        draft.rename(self.folder / f"{number:06}.parquet")

    def _is_behind(self) -> bool:
        waiting = self.tally.written - self.tally.total("events")
        return waiting > 2 * _TARGET_S * self.rate

    def pace(self, batch: Batch) -> None:
        """Adjust the rate so that the next batches come nearer to the target duration.

        A batch has a fixed cost: on a busy machine, it would dominate short batches.
        """
        recent = self.tally.batches[1:][-8:]
        if not recent:
            return
        target_s = max(_TARGET_S, 1.6 * min(one.seconds for one in recent))
        factor = (target_s / max(batch.seconds, 0.1)) ** 0.5
        speed = max(one.events / one.seconds for one in recent[-3:])
        wanted = min(self.rate * min(1.25, max(0.8, factor)), 1.2 * speed)  # near its speed
        self.rate = max(_LEAST_RATE, wanted)

    def stop(self) -> None:
        """Stop writing."""
        self._end.set()
        self.join()


# -------------------------------------------------------------------- the stream


class Watch(Progress):
    """Adds every micro-batch to the tally."""

    def __init__(self, tally: Tally, then: Callable[[Batch], None]) -> None:
        super().__init__()
        self._tally, self._then = tally, then
        self.query = ""  # id of our query; a session may have others

    def onQueryProgress(self, event: Any) -> None:
        """Record the numbers of one micro-batch."""
        super().onQueryProgress(event)
        progress = event.progress
        sample = self.samples.get(str(progress.id))
        if sample is None or str(progress.id) != self.query or not progress.numInputRows:
            return
        began = datetime.fromisoformat(progress.timestamp).timestamp() - self._tally.started
        batch = Batch(
            sample.batch, began + sample.seconds, sample.seconds, sample.events, sample.matches,
            sample.bad, sample.version,
        )  # fmt: skip
        self._tally.batches.append(batch)
        self._then(batch)


class Stream:
    """A running stream and the thread that feeds it."""

    def __init__(self, spark: SparkSession, places: Places, source: Any, tally: Tally) -> None:
        self.spark, self.places, self.source, self.tally = spark, places, source, tally
        places.tweets.mkdir()
        self.tweets = Tweets(source, places.tweets, tally)
        self.watch = Watch(tally, self.tweets.pace)
        self._save = to_files(str(places.matches), dead_letters=str(places.dead_letters))

    def start(self) -> None:
        """Start the stream and the tweets."""
        self.spark.streams.addListener(self.watch)
        self.tally.started, self.tally.state = time.time(), "streaming"
        self.query = _query(self.spark, self.places, self._batch).start()
        self.watch.query = str(self.query.id)
        self.tweets.start()

    def _batch(self, batch: DataFrame, number: int) -> None:
        self._save(batch, number)
        rows = pq.read_table(
            self.places.matches / f"batch={number}", columns=["id", "keys", "version"]
        )
        if len(rows):
            self._look_at(rows.combine_chunks())

    def _look_at(self, table: pa.Table) -> None:
        """Count the tweets of new users, and pick a few tweets for the view."""
        tally, lists = self.tally, table["keys"].combine_chunks()
        lengths = np.asarray(pc.list_value_length(lists))
        tally.spread += np.bincount(
            np.minimum(lengths, len(tally.spread) - 1), minlength=len(tally.spread)
        )
        owners, keys = np.repeat(np.arange(len(lengths)), lengths), np.asarray(lists.flatten())
        is_new = keys >= NEW_KEY
        caught = np.unique(np.stack([owners, (keys - NEW_KEY) // PER_CHANGE])[:, is_new], axis=1)
        tally.caught.update(caught[1].tolist())
        rows = [*caught[0, -1:].tolist(), *np.flatnonzero(lengths)[:2].tolist()]
        for row in dict.fromkeys(rows):
            name = table["id"][row].as_py()
            tags = self.source.events(1, start=int(name.partition("-")[2]))[0].as_py()
            some = sorted(lists[row].as_py(), reverse=True)[:8]  # new users first
            version = table["version"][row].as_py()
            tally.seen.append(Seen(name, tags, int(lengths[row]), some, version))

    def change(self) -> None:
        """Publish a version: new users want tags of upcoming tweets, and others leave."""
        tally, number = self.tally, len(self.tally.changes) + 1
        asked_s = tally.elapsed()
        ahead = tally.written + int(4 * self.tweets.rate) + number * _JOIN
        upcoming = self.source.events(_JOIN, start=ahead)
        first = NEW_KEY + number * PER_CHANGE
        added = [(tags[:2], first + row) for row, tags in enumerate(upcoming.to_pylist())]
        users = max(1, tally.size // 3)  # half of the leaving users are old, half joined lately
        removed = [(number * 7919 + 104729 * row) % users for row in range(_LEAVE)]
        if tally.changes:
            removed[: _LEAVE // 2] = [key for _, key in tally.changes[-1].added[: _LEAVE // 2]]
        removed = list(dict.fromkeys(removed))
        changes = self.spark.createDataFrame(_changes_table(added, removed))
        made = append(changes, self.places.index)
        published_s = (self.places.index / "CURRENT").stat().st_mtime - tally.started
        tally.changes.append(
            Change(number, int(made.version), added, removed, asked_s, published_s)
        )

    def run(self, tick: Callable[[], None]) -> None:
        """Stream for the given time, with changes, until a batch uses the last change."""
        tally = self.tally
        for share in _CHANGES_AT:
            self._wait(tick, lambda share=share: tally.elapsed() >= share * tally.seconds)  # type: ignore[misc]
            if tally.elapsed() < tally.seconds:
                self.change()
        self._wait(tick, lambda: tally.elapsed() >= tally.seconds)
        late = tally.elapsed() + _PATIENCE_S
        last = tally.changes[-1:]
        self._wait(
            tick,
            lambda: all(map(tally.taken_up, last)) or tally.elapsed() > late,
        )
        tally.state = "draining"
        self.tweets.stop()
        try:
            self.query.processAllAvailable()
        except StreamingQueryException as error:
            raise _failure(error) from None
        late = tally.elapsed() + _PATIENCE_S
        self._wait(tick, lambda: tally.total("events") >= tally.written or tally.elapsed() > late)

    def _wait(self, tick: Callable[[], None], is_over: Callable[[], bool]) -> None:
        while not is_over():
            if self.tweets.problem is not None:
                raise self.tweets.problem
            if not self.query.isActive:
                raise _failure(self.query.exception())
            tick()
            time.sleep(0.1)

    def close(self) -> None:
        """Stop the stream and the thread, also after an error."""
        if self.tweets.is_alive():
            self.tweets.stop()
        if hasattr(self, "query"):
            self.query.stop()
        self.spark.streams.removeListener(self.watch)
        self.tally.state = "stopped"


def _changes_table(added: list[tuple[list[str], int]], removed: list[int]) -> pa.Table:
    rows = [
        *(("add", tags, key) for tags, key in added),
        *(("remove", None, key) for key in removed),
    ]
    kinds, tags, keys = zip(*rows)
    return pa.table(
        {
            "change": pa.array(kinds, pa.string()),
            "tags": pa.array(tags, pa.list_(pa.string())),
            "key": pa.array(keys, pa.int64()),
        }
    )
