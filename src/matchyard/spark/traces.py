"""Workloads from what there is: traces of real descriptors, and topics of real texts.

A row is a function of its content or its id; never of the partition that it is made in. Topics are
fitted once and stored, then sampled.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    factor = _copier(seed).copies(languages)
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


def _as(column: str, name: str) -> Column:
    from pyspark.sql import functions

    return functions.col(column).alias(name)


@lru_cache(maxsize=4)
def _copier(seed: int) -> Any:
    """What makes copies of traces."""
    return my.workload("tags", "icn", 1, seed)


def _copy(traces: DataFrame, seed: int, languages: int, factor: int | None) -> DataFrame:
    """(tags, key, language, number, copy) from (tags, key, number), `factor` copies of each."""
    from pyspark.sql.types import IntegerType, StringType, StructType

    factor = _copier(seed).copies(languages) if factor is None else factor
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
            tags, spoken = _copier(seed).expand(piece.column("tags"), numbers, languages, factor)
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
