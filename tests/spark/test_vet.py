"""Subscriptions that cannot be read are told apart before they end a build."""

from __future__ import annotations

import pytest

import matchyard as my
from matchyard import spark as ms


@pytest.mark.parametrize(
    ("engine", "good", "bad", "reason"),
    [
        ("tags", "jazz live", " ", "not a set of tags: column 1: found the end"),
        ("predicates", "x = 1 or y > 2", "x >", "not a predicate: column 4: it ends here"),
        ("twigs", "//a[b]", "//", "not a twig: column 3: it ends here"),
    ],
)
def test_bad_subscriptions_have_reasons_and_the_others_are_built(
    spark, tmp_path, engine, good, bad, reason
):
    texts = [good, bad, None, *[good] * 40, bad]
    rows = spark.createDataFrame(
        [(n, (text,)) for n, text in enumerate(texts)], "key int, a struct<row: string>"
    )
    vetted = ms.vet(rows, engine, "a.row")
    assert vetted.columns == ["key", "a", "reason"]
    refused = {row.key: row.reason for row in vetted.where("reason is not null").collect()}
    assert set(refused) == {1, 2, 43}
    assert refused[1] == refused[43]
    assert refused[1].startswith(reason)
    built = ms.build(vetted.where("reason is null"), tmp_path / "a.index", engine, "a.row")
    assert built.subscriptions == len(texts) - 3


def test_a_stream_is_vetted_too(spark, tmp_path):
    rules = spark.createDataFrame([(1, "x = 1"), (2, "x =")], "key int, rule string")
    rules.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rules.schema).parquet(str(tmp_path / "in"))
    writer = ms.vet(stream, "predicates", "rule").writeStream.format("memory").queryName("vetted")
    writer.trigger(availableNow=True).start().awaitTermination()
    found = {row.key: row.reason is None for row in spark.table("vetted").collect()}
    assert found == {1: True, 2: False}


def test_what_cannot_be_vetted_is_told(spark):
    rows = spark.createDataFrame([("a", "b")], "tags string, reason string")
    with pytest.raises(my.UsageError, match="two columns of one name: tags, reason, reason"):
        ms.vet(rows)
    with pytest.raises(my.UsageError, match="no column 'rule'"):
        ms.vet(rows, "predicates", "rule", into="why")
    stream = spark.readStream.format("rate").load()
    for function in (ms.build, ms.append):
        with pytest.raises(my.UsageError, match="are a stream; expected a DataFrame that is not"):
            function(stream, "a.index")
    with pytest.raises(my.UsageError, match="follow_changes takes a stream"):
        ms.follow_changes(rows, "a.index", "state")
