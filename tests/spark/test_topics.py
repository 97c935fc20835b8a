"""Topics: found once by Spark's LDA, stored, and sampled the same way ever after."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import matchyard as my
from matchyard.spark import workloads
from matchyard.spark.workloads import checksum

MUSIC = ["jazz", "piano", "opera", "concert", "violin"]
MONEY = ["bank", "shares", "tax", "bond", "budget"]


def posts(n_posts: int = 4) -> list[tuple[str, str]]:
    """Ada, Bo and Cy write about music, Di and Ed about money, and Flo too little of both."""
    written = []
    for author, words in [
        ("ada", MUSIC),
        ("bo", MUSIC),
        ("cy", MUSIC),
        ("di", MONEY),
        ("ed", MONEY),
    ]:
        for post in range(n_posts):
            chosen = [words[(post + place) % 5] for place in range(4)]
            written.append((author, f"The {', '.join(chosen * 3)} and: {chosen[0].upper()}!"))
    return [*written, ("flo", "jazz piano opera"), ("flo", "bank tax")]


@pytest.fixture(scope="module")
def fitted(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("topics") / "stored")
    documents = spark.createDataFrame(posts(), "author string, text string")
    workloads.fit_topics(documents, path, topics=2, words=5, iterations=15)
    return path


def read(spark: Any, fitted: str, part: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in spark.read.parquet(f"{fitted}/{part}").collect()]


def test_words_that_are_used_together_make_a_topic(spark: Any, fitted: str) -> None:
    topics = read(spark, fitted, "topics")
    # A word may stray; two of the other subject would be no topic.
    assert sorted(len(set(topic["words"]) & set(MUSIC)) > 2 for topic in topics) == [False, True]
    for topic in topics:
        assert max(len(set(topic["words"]) & set(words)) for words in (MUSIC, MONEY)) >= 4
        assert topic["weights"] == sorted(topic["weights"], reverse=True)


def test_authors_are_interested_in_what_more_than_two_of_their_posts_are_about(
    spark: Any, fitted: str
) -> None:
    words = {topic["topic"]: set(topic["words"]) for topic in read(spark, fitted, "topics")}
    interests = sorted(read(spark, fitted, "interests"), key=lambda one: one["interest"])
    assert [one["interest"] for one in interests] == list(range(len(interests)))
    assert all(one["posts"] > 2 for one in interests)
    found = {(one["author"], "jazz" in words[one["topic"]]) for one in interests}
    assert found == {("ada", True), ("bo", True), ("cy", True), ("di", False), ("ed", False)}


def test_samples_are_the_same_with_any_number_of_partitions(spark: Any, fitted: str) -> None:
    made = [workloads.from_topics(fitted, 500, seed=4, partitions=n) for n in (1, 8)]
    assert checksum(made[0]) == checksum(made[1])
    assert checksum(workloads.from_topics(fitted, 500, seed=5)) != checksum(made[0])
    rows = made[0].collect()
    topics = [set(topic["words"]) for topic in read(spark, fitted, "topics")]
    assert len(rows) == 500
    for row in rows:
        tags = {tag.rpartition("_")[2] for tag in row.tags}
        assert tags in topics
        assert ("jazz" in tags) == (row.key in ("ada", "bo", "cy"))
        prefix = "" if row.language == "english" else f"{row.language}_"
        assert {tag.removeprefix("sy1_").removeprefix("sy2_") for tag in row.tags} == {
            prefix + tag for tag in tags
        }


def test_stored_topics_are_kept_unless_overwriting_is_asked_for(spark: Any, fitted: str) -> None:
    documents = spark.createDataFrame(posts(1), "author string, text string")
    before = read(spark, fitted, "topics")
    with pytest.raises(my.UsageError, match="holds topics already"):
        workloads.fit_topics(documents, fitted, topics=2, words=5, iterations=1)
    assert read(spark, fitted, "topics") == before


def test_texts_must_be_text_or_words(spark: Any, tmp_path: Path) -> None:
    numbers = spark.createDataFrame([("ada", 1)], "author string, text int")
    with pytest.raises(my.UsageError, match="'text' is int; expected string or array<string>"):
        workloads.fit_topics(numbers, str(tmp_path / "none"))


def test_nobody_interested_is_said(spark: Any, tmp_path: Path) -> None:
    spark.createDataFrame([], "interest bigint, author string, topic int").write.parquet(
        str(tmp_path / "interests")
    )
    spark.createDataFrame([], "topic int, words array<string>").write.parquet(
        str(tmp_path / "topics")
    )
    with pytest.raises(my.UsageError, match="no author in"):
        workloads.from_topics(str(tmp_path), 10)


@pytest.mark.data
@pytest.mark.skipif("MATCHYARD_DATA" not in os.environ, reason="needs MATCHYARD_DATA")
def test_hashtags_of_congress_make_topics_and_traces(spark: Any, tmp_path: Path) -> None:
    tags, keys = my.workload("tags", "congress", 6000).subscriptions(0, 6000)
    posts: dict[int, list[list[str]]] = {}
    for row, key in zip(tags.to_pylist(), keys.tolist()):
        own = posts.setdefault(key, [[]])
        own[-1] += row
        if len(own[-1]) > 8:
            own.append([])
    rows = [(author, post) for author, own in posts.items() for post in own if len({*post}) > 4]
    documents = spark.createDataFrame(rows[:300], "author bigint, words array<string>")
    path = str(tmp_path / "congress")
    workloads.fit_topics(documents, path, text="words", topics=4, iterations=5)
    known = {tag for row in rows for tag in row[1]}
    topics = read(spark, path, "topics")
    assert [len(topic["words"]) for topic in topics] == [10] * 4
    assert {word for topic in topics for word in topic["words"]} <= known
    sample = workloads.from_topics(path, 240)
    assert {row.key for row in sample.select("key").distinct().collect()} <= set(posts)
    traced = workloads.from_traces(documents, tags="words", key="author", factor=3)
    lengths = [len(row.tags) for row in traced.collect()]
    assert len(lengths) == 3 * documents.count()
    assert 5 <= min(lengths) <= max(lengths) <= 15
