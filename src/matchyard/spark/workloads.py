"""Workloads on Spark: the same rows as `matchyard.workload`, by seed, however they are partitioned.

A generated row is a function of its number, a row from a trace one of its content or its id; never
of the partition that it is made in. Topics are fitted once and stored, then sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import matchyard as my
from matchyard.errors import UsageError
from matchyard.spark.session import find_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_ROWS = 10_000  # per Arrow batch
_RELEVANT = 0.2  # a post is about a topic that has more than this probability [thesis §2.4.3]…
_ACTIVE = 2  # …and its author interested in one with more than this many such posts
_FEWEST_SAMPLED = 1000  # documents per step of the LDA, where there are as many


def subscriptions(
    name: str,
    size: int,
    seed: int = 1,
    spark: SparkSession | None = None,
    partitions: int | None = None,
) -> DataFrame:
    """Subscriptions of a named workload: `tags` and `key`.

    >>> frame = subscriptions("active-web", 1_000_000, partitions=200)  # doctest: +SKIP
    """
    size = my.workload("tags", name, size, seed).size  # recorded ones may have fewer
    return _generate(
        size, partial(_subscriptions, name, size, seed), "tags array<string>, key bigint", spark,
        partitions,
    )  # fmt: skip


def events(
    name: str,
    size: int,
    n_events: int,
    seed: int = 1,
    spark: SparkSession | None = None,
    partitions: int | None = None,
) -> DataFrame:
    """Events for the workload of that name and size: `id` and `tags`."""
    size = my.workload("tags", name, size, seed).size  # also says here if there is none
    make = partial(_events, name, size, seed)
    return _generate(n_events, make, "id bigint, tags array<string>", spark, partitions)


def users(
    size: int, seed: int = 1, spark: SparkSession | None = None, partitions: int | None = None
) -> DataFrame:
    """Users of the workload `twitter`: languages, and how many interests each has.

    Each partition passes over the owners of all `size` interests, which takes some nanoseconds each.
    """
    return _people(
        "users", size, seed, spark, partitions,
        "user bigint, first_language string, second_language string, interests bigint",
    )  # fmt: skip


def publishers(
    size: int, seed: int = 1, spark: SparkSession | None = None, partitions: int | None = None
) -> DataFrame:
    """Publishers of the workload `twitter`: the tag that is their id, tweets, follower counts."""
    return _people(
        "publishers", size, seed, spark, partitions,
        "publisher bigint, tag string, frequent boolean, tweets bigint, followers bigint",
    )  # fmt: skip


def tweets(
    size: int, seed: int = 1, spark: SparkSession | None = None, partitions: int | None = None
) -> DataFrame:
    """The tweets that the interests of the workload `twitter` are copies of, in English."""
    return _people(
        "tweets", size, seed, spark, partitions,
        "tweet bigint, publisher bigint, tags array<string>",
    )  # fmt: skip


def from_traces(
    traces: DataFrame,
    seed: int = 1,
    languages: int = 25,
    factor: int | None = None,
    tags: str = "tags",
    key: str = "key",
    row: str | None = None,
) -> DataFrame:
    """Real descriptors as a workload: normalised, amplified and with synonyms.

    Every trace comes in `factor` copies (12 for 25 languages, so that English keeps about one), each
    in a language by its native speakers: `tags`, `key` and `language`. The integers in the column
    `row` decide what chance does to a trace; without it, its tags and key do, and equal traces have
    equal copies.

    >>> frame = from_traces(spark.table("bookmarks"), key="user")  # doctest: +SKIP
    """
    from pyspark.sql import functions

    found = dict(traces.dtypes).get(tags)
    if found != "array<string>":
        raise UsageError(f"column {tags!r} is {found}; expected array<string>, a column of tags")
    content = functions.xxhash64(tags, key)
    number = (
        content if row is None else functions.coalesce(functions.col(row).cast("bigint"), content)
    )
    rows = traces.select(_as(tags, "tags"), _as(key, "key"), number.alias("number"))
    copied = _copy(rows, seed, languages, factor)
    return copied.select("tags", "key", "language")


def fit_topics(
    documents: DataFrame,
    path: str,
    text: str = "text",
    author: str = "author",
    topics: int = 400,
    words: int = 10,
    seed: int = 1,
    iterations: int = 50,
    overwrite: bool = False,
) -> None:
    """Find topics with Spark's LDA, and who is interested in which; both stored as Parquet.

    `documents` have an author and a text, or an array of words. Under `path`: `topics` (number, top
    words and their weights) and `interests` (authors with more than two posts on a topic, a post
    being on it with a probability above 20 %).

    >>> fit_topics(spark.table("posts"), "blog06.topics", author="blog")  # doctest: +SKIP
    """
    from pyspark.ml.clustering import LDA
    from pyspark.ml.feature import CountVectorizer

    spark = documents.sparkSession
    if not overwrite and _is_stored(spark, f"{path}/topics"):  # said before the work, not after
        raise UsageError(f"{path} holds topics already; sample from them, or pass overwrite=True")
    posts = documents.select(_as(author, "author"), _read_words(documents, text).alias("words"))
    counter = CountVectorizer(inputCol="words", outputCol="features").fit(posts)
    counted = counter.transform(posts).select("author", "features").persist()
    try:
        rate = min(1.0, max(0.05, _FEWEST_SAMPLED / max(1, counted.count())))
        lda = LDA(k=topics, seed=seed, maxIter=iterations, optimizer="online", subsamplingRate=rate)
        model = lda.fit(counted)
        mode = "overwrite" if overwrite else "error"
        found = model.describeTopics(words).collect()
        vocabulary = counter.vocabulary
        rows = [
            (one.topic, [vocabulary[i] for i in one.termIndices], [*map(float, one.termWeights)])
            for one in found
        ]
        schema = "topic int, words array<string>, weights array<double>"
        _interests(model.transform(counted)).write.mode(mode).parquet(f"{path}/interests")
        spark.createDataFrame(rows, schema).coalesce(1).write.mode(mode).parquet(f"{path}/topics")
    finally:
        counted.unpersist()


def from_topics(
    path: str,
    size: int,
    seed: int = 1,
    languages: int = 25,
    spark: SparkSession | None = None,
    partitions: int | None = None,
) -> DataFrame:
    """`size` subscriptions sampled from the stored topics: `tags`, `key` (the author), `language`.

    Each is the words of a topic that an author is interested in, normalised, amplified and with
    synonyms.
    """
    from pyspark.sql import functions

    spark = find_session(spark)
    interests, topics = (spark.read.parquet(f"{path}/{part}") for part in ("interests", "topics"))
    n_interests = interests.count()
    if not n_interests:
        raise UsageError(f"nobody in {path} is interested in a topic; fit fewer topics")
    factor = _workload("icn", 1, seed).copies(languages)
    chosen = functions.pmod(functions.xxhash64(functions.lit(seed), "number"), n_interests)
    sources = spark.range(0, -(-size // factor), 1, partitions).withColumnRenamed("id", "number")
    described = (
        sources.withColumn("interest", chosen)
        .join(functions.broadcast(interests), "interest")
        .join(functions.broadcast(topics), "topic")
        .select(_as("words", "tags"), _as("author", "key"), "number")
    )
    copied = _copy(described, seed, languages, factor)
    return copied.where(f"number * {factor} + copy < {size}").select("tags", "key", "language")


def checksum(frame: DataFrame) -> int:
    """A number for the rows of a DataFrame, whatever their order and partitions.

    It is the sum of Spark's `xxhash64` of the rows, so equal rows count as often as they occur.
    """
    from pyspark.sql import functions

    code = functions.xxhash64(*frame.columns).cast("decimal(38,0)")
    return int(frame.select(functions.sum(code).alias("code")).head().code or 0)


def _as(column: str, name: str) -> Column:
    from pyspark.sql import functions

    return functions.col(column).alias(name)


def _generate(
    n_rows: int,
    make: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: str,
    spark: SparkSession | None,
    partitions: int | None,
) -> DataFrame:
    return find_session(spark).range(0, n_rows, 1, partitions).mapInArrow(make, schema)


def _people(
    kind: str,
    size: int,
    seed: int,
    spark: SparkSession | None,
    partitions: int | None,
    schema: str,
) -> DataFrame:
    n_people = getattr(my.workload("tags", "twitter", size, seed), f"n_{kind}")
    return _generate(n_people, partial(_describe, kind, size, seed), schema, spark, partitions)


# What runs in the workers. A worker process serves many tasks, and keeps the tables of a workload.


@lru_cache(maxsize=4)
def _workload(name: str, size: int, seed: int) -> Any:
    return my.workload("tags", name, size, seed)


def _ranges(numbers: Any) -> Iterator[tuple[int, int]]:
    """Runs of numbers that follow each other; Spark's ranges are one run per partition."""
    for run in np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1):
        for start in range(0, len(run), _ROWS):
            piece = run[start : start + _ROWS]
            yield int(piece[0]), int(piece[-1]) + 1


def _numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    return (batch.column(0).to_numpy() for batch in batches if batch.num_rows)


def _subscriptions(
    name: str, size: int, seed: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for numbers in _numbers(batches):
        for start, stop in _ranges(numbers):
            tags, keys = _workload(name, size, seed).subscriptions(start, stop)
            yield pa.record_batch({"tags": tags, "key": pa.array(keys, pa.int64())})


def _events(
    name: str, size: int, seed: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for numbers in _numbers(batches):
        for start, stop in _ranges(numbers):
            made = _workload(name, size, seed).events(stop - start, start)
            yield pa.record_batch({"id": np.arange(start, stop), "tags": made})


def _describe(
    kind: str, size: int, seed: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Users and publishers are counted once per partition, so its numbers are read first."""
    found = [*_numbers(batches)]
    if found:
        numbers = np.concatenate(found)
        first, last = int(numbers.min()), int(numbers.max())
        described = getattr(_workload("twitter", size, seed), kind)(first, last + 1)
        yield from described.take(pa.array(numbers - first)).to_batches(_ROWS)


def _copy(traces: DataFrame, seed: int, languages: int, factor: int | None) -> DataFrame:
    """(tags, key, language, number, copy) from (tags, key, number), `factor` copies of each."""
    from pyspark.sql.types import IntegerType, StringType, StructType

    factor = _workload("icn", 1, seed).copies(languages) if factor is None else factor
    if factor < 1:
        raise UsageError(f"{factor} copies of a trace; expected at least 1, say 12")
    schema = StructType([*traces.schema.fields[:2]])
    schema = schema.add("language", StringType()).add(traces.schema["number"])
    return traces.mapInArrow(
        partial(_expand, seed, languages, factor), schema.add("copy", IntegerType())
    )


def _expand(
    seed: int, languages: int, factor: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    step = max(1, _ROWS // factor)
    for batch in batches:
        for start in range(0, batch.num_rows, step):
            piece = batch.slice(start, step)
            numbers = piece.column("number").to_numpy()
            tags, spoken = _workload("icn", 1, seed).expand(
                piece.column("tags"), numbers, languages, factor
            )
            source = pa.array(np.repeat(np.arange(piece.num_rows), factor))
            copy = np.tile(np.arange(factor, dtype=np.int32), piece.num_rows)
            columns = [tags, piece.column("key").take(source), spoken,
                       piece.column("number").take(source), copy]  # fmt: skip
            names = ["tags", "key", "language", "number", "copy"]
            yield pa.record_batch(dict(zip(names, columns)))


def _is_stored(spark: SparkSession, path: str) -> bool:
    from pyspark.errors import AnalysisException

    try:
        return bool(spark.read.parquet(path).columns)
    except AnalysisException:
        return False


def _read_words(documents: DataFrame, text: str) -> Column:
    """Words of a text without those that every text has; an array of words is taken as it is."""
    from pyspark.ml.feature import StopWordsRemover
    from pyspark.sql import functions

    found = dict(documents.dtypes).get(text)
    if found == "array<string>":
        return functions.col(text)
    if found != "string":
        raise UsageError(f"column {text!r} is {found}; expected string or array<string>")
    common = StopWordsRemover.loadDefaultStopWords("english")
    words = functions.split(functions.lower(text), r"[^\p{L}\p{N}']+")
    return functions.filter(words, lambda word: (word != "") & ~word.isin(common))


def _interests(posts: DataFrame) -> DataFrame:
    """(interest, author, topic, posts), numbered from 0, from posts with the topics they are on."""
    from pyspark.ml.functions import vector_to_array
    from pyspark.sql import functions

    likely = functions.posexplode(vector_to_array("topicDistribution")).alias("topic", "likely")
    active = (
        posts.select("author", likely)
        .where(f"likely > {_RELEVANT}")
        .groupBy("author", "topic")
        .agg(functions.count("*").alias("posts"))
        .where(f"posts > {_ACTIVE}")
    )
    # Numbered in one sorted array: there are no more of them than authors times a few topics.
    every = functions.sort_array(
        functions.collect_list(functions.struct("author", "topic", "posts"))
    )
    numbered = active.agg(every.alias("all")).select(
        functions.posexplode("all").alias("interest", "one")
    )
    return numbered.select(functions.col("interest").cast("bigint").alias("interest"), "one.*")
