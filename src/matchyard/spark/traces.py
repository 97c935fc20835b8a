"""Workloads from real data: traces of descriptors, and topics of texts.

A row depends on its content or its id, never on its partition. Topics are fitted once and stored,
then sampled.
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
_RELEVANT = 0.2  # a post is on a topic if its probability is above this [thesis §2.4.3]…
_ACTIVE = 2  # …and an author is interested in a topic with more than this many posts
_FEWEST_SAMPLED = 1000  # documents per step of the LDA, if there are so many


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

    Every trace has `factor` copies (12 for 25 languages, so that English keeps about one). Languages
    are drawn by their native speakers. Columns: `tags`, `key` and `language`. The integers in the
    column `row` seed the random choices of a trace; without it, the tags and key do, and equal
    traces have equal copies.

    >>> frame = from_traces(spark.table("bookmarks"), key="user")  # doctest: +SKIP
    """
    from pyspark.sql import functions

    kind = dict(traces.dtypes).get(tags)
    if kind != "array<string>":
        raise UsageError(f"column {tags!r} is {kind}; expected array<string>, a column of tags")
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
    """Find topics with Spark's LDA, and the interests of authors; store both as Parquet.

    `documents` have an author and a text, or an array of words. Under `path`: `topics` (number, top
    words and their weights) and `interests` (authors with more than two posts on a topic; a post is
    on a topic if its probability is above 20 %).

    >>> fit_topics(spark.table("posts"), "blog06.topics", author="blog")  # doctest: +SKIP
    """
    from pyspark.ml.clustering import LDA
    from pyspark.ml.feature import CountVectorizer

    spark = documents.sparkSession
    if not overwrite and _is_stored(spark, f"{path}/topics"):  # check before the long fit
        raise UsageError(f"{path} holds topics already; sample from them, or pass overwrite=True")
    posts = documents.select(_as(author, "author"), _read_words(documents, text).alias("words"))
    counter = CountVectorizer(inputCol="words", outputCol="features").fit(posts)
    counted = counter.transform(posts).select("author", "features").persist()
    try:
        rate = min(1.0, max(0.05, _FEWEST_SAMPLED / max(1, counted.count())))
        lda = LDA(k=topics, seed=seed, maxIter=iterations, optimizer="online", subsamplingRate=rate)
        model = lda.fit(counted)
        mode = "overwrite" if overwrite else "error"
        described = model.describeTopics(words).collect()
        vocabulary = counter.vocabulary
        rows = [
            (one.topic, [vocabulary[i] for i in one.termIndices], [*map(float, one.termWeights)])
            for one in described
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
    """Sample `size` subscriptions from the stored topics: `tags`, `key` (the author), `language`.

    A subscription consists of the words of one topic of an author's interests, normalised, amplified
    and with synonyms.
    """
    from pyspark.sql import functions

    spark = find_session(spark)
    interests, topics = (spark.read.parquet(f"{path}/{part}") for part in ("interests", "topics"))
    n_interests = interests.count()
    if not n_interests:
        raise UsageError(f"no author in {path} is interested in a topic; fit fewer topics")
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
    """The generator of copies of traces."""
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
    """The words of a text without stop words; an array of words stays as it is."""
    from pyspark.ml.feature import StopWordsRemover
    from pyspark.sql import functions

    kind = dict(documents.dtypes).get(text)
    if kind == "array<string>":
        return functions.col(text)
    if kind != "string":
        raise UsageError(f"column {text!r} is {kind}; expected string or array<string>")
    common = StopWordsRemover.loadDefaultStopWords("english")
    words = functions.split(functions.lower(text), r"[^\p{L}\p{N}']+")
    return functions.filter(words, lambda word: (word != "") & ~word.isin(common))


def _interests(posts: DataFrame) -> DataFrame:
    """(interest, author, topic, posts), numbered from 0, from posts with their topics."""
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
    # One sorted array is small enough: an author has only a few topics.
    every = functions.sort_array(
        functions.collect_list(functions.struct("author", "topic", "posts"))
    )
    numbered = active.agg(every.alias("all")).select(
        functions.posexplode("all").alias("interest", "one")
    )
    return numbered.select(functions.col("interest").cast("bigint").alias("interest"), "one.*")
