"""An index is evaluated: counts, scores against a truth, two versions, and one page."""

from __future__ import annotations

import gc
from pathlib import Path

import pyarrow as pa
import pytest

import matchyard as my
from matchyard import spark as ms
from matchyard.storage import leases
from tests.spark.frames import EVENTS, ROWS, TAGS, changes, events, subscriptions, wanted


@pytest.fixture
def index(spark, tmp_path):
    path = tmp_path / "a.index"
    ms.build(subscriptions(spark), path)
    return path


def test_what_an_index_makes_of_events_is_counted(spark, index):
    found = ms.evaluate(events(spark, [*EVENTS, None]), index, nearly=0.8)
    per_event = [
        sum(n for (event, _), n in wanted(unique=True).items() if event == e) for e in range(8)
    ]
    assert found.summary["events"] == found.events == 9
    assert (found.summary["bad"], found.summary["unmatched"]) == (1, per_event.count(0))
    assert found.summary["pairs"] == sum(per_event)
    quantiles = [found.summary[f"matches_per_event_{name}"] for name in ("p50", "p90", "max")]
    assert quantiles == [sorted(per_event)[n] for n in (3, 7, 7)]
    rows = [(row.id, row.matches) for row in found.per_event.collect()]
    assert rows == sorted(enumerate(per_event), key=lambda row: (-row[1], row[0]))
    counts = {row.key: row.events for row in found.per_key.collect()}
    asked = wanted(unique=True)
    assert counts == {key: sum(k == key for _, k in asked) for key in {k for _, k in asked}}
    assert found.summary["events_per_matching_key_max"] == max(counts.values()) == 8
    assert (
        found.summary["events_per_matching_key_p50"]
        == sorted(counts.values())[(len(counts) - 1) // 2]
    )
    assert {row.key for row in found.silent.collect()} == set(range(len(ROWS))) - set(counts)
    assert [row.key for row in found.loud.collect()] == [3]  # the empty set
    assert [row.id for row in found.bad.collect()] == [8]
    found.close()


def test_scores_and_differences_from_a_truth(spark, index, tmp_path):
    right = [(event, key) for event, key in wanted(unique=True)]
    truth = spark.createDataFrame([*right[1:], (0, 12)], "id bigint, key bigint")
    found = ms.evaluate(events(spark), index, truth=truth)
    assert found.scores["missing"] == found.scores["extra"] == 1
    assert found.scores["recall"] == pytest.approx(1 - 1 / len(right))
    rows = {(row.id, row.key, row.difference) for row in found.differences.collect()}
    assert rows == {(*right[0], "extra"), (0, 12, "missing")}
    page = Path(found.page(tmp_path / "page.html")).read_text()
    assert "Pairs of the truth that were not found: 1" in page
    assert "Pairs that the truth does not have: 1" in page
    assert "Keys that at least 50% of the events match: " in page
    found.close()
    assert page.count("<table>") >= 4
    with pytest.raises(my.UsageError, match="the truth has no column 'key'"):
        ms.evaluate(events(spark), index, truth=truth.select("id"))


def test_two_versions_are_compared_on_the_same_events(spark, index, tmp_path):
    ms.append(changes(spark, [("add", 50, ["rock"]), ("remove", 4, None)]), index)
    tagged = spark.createDataFrame(
        pa.table({"n": [1, 2], "tags": pa.array([["rock"], ["oslo"]], TAGS)})
    )
    found = ms.evaluate(tagged, index, id="n", before=1)
    page = Path(found.page(tmp_path / "page.html")).read_text()
    assert "Pairs that version 1 did not find: 1" in page
    assert "Pairs that only version 1 found: 1" in page
    assert ms.match(tagged, index, id="n", at=1, version=True).first().version == 1
    rows = {(row.id, row.key, row.difference) for row in found.changed.collect()}
    assert rows == {(1, 50, "new"), (2, 4, "gone")}
    with pytest.raises(my.UsageError, match="nearly is a share"):
        ms.evaluate(tagged, index, id="n", nearly=0)
    with pytest.raises(my.StorageError, match="has no version 0009"):
        ms.match(tagged, index, id="n", at="0009")


@pytest.mark.parametrize(
    ("schema", "row", "words"),
    [
        ("id bigint, key string", (0, "abc"), "column 'key' of the truth is string; .* bigint"),
        ("id string, key bigint", ("x", 1), "column 'id' of the truth is string; .* bigint"),
        ("id bigint, key double", (0, 1.5), "column 'key' of the truth is double"),
    ],
)
def test_a_truth_of_other_types_is_refused_before_anything_runs(spark, index, schema, row, words):
    truth = spark.createDataFrame([row], schema)
    before = len(spark.sparkContext._jsc.getPersistentRDDs())
    with pytest.raises(my.UsageError, match=words):
        ms.evaluate(events(spark), index, truth=truth)
    assert len(spark.sparkContext._jsc.getPersistentRDDs()) == before


def test_a_truth_of_wider_integers_is_not_cut_off(spark, index):
    narrow = events(spark, [["jazz"]]).selectExpr("cast(id AS int) AS key", "tags")
    right = sorted(index_keys for _, index_keys in wanted(asked=[["jazz"]], unique=True))
    rows = [(0, right[0]), (1 << 32, right[0])]
    truth = spark.createDataFrame(rows, "id bigint, key bigint")
    found = ms.evaluate(narrow, index, id="key", truth=truth)  # ids in a column `key`
    assert (found.scores["right"], found.scores["missing"]) == (1, 1)
    assert found.scores["extra"] == len(right) - 1
    missing = found.differences.where("difference = 'missing'").first()
    assert (missing.id, missing.key) == rows[1]
    found.close()


def test_versions_are_compared_on_one_reading_of_the_events(spark, index):
    changing = events(spark).selectExpr("id", "array(string(rand())) AS tags")
    first = spark.createDataFrame(
        [(77, ["jazz"], "add")], "key int, tags array<string>, change string"
    )
    ms.append(first, index)
    some = changing.selectExpr("id", "if(tags[0] < '0.5', array('jazz'), array('rock')) AS tags")
    own = events(spark).persist()
    ms.evaluate(own, index, before=1).close()
    assert own.storageLevel.useMemory  # what the caller has persisted stays
    own.unpersist()
    found = ms.evaluate(some, index, before=1)
    found.page(index / "page.html")
    changed = {(row.key, row.difference) for row in found.changed.collect()}
    assert changed <= {(77, "new")}
    assert len(changed) == (
        found.summary["pairs"] > 0 and 77 in {r.key for r in found.per_key.collect()}
    )
    found.close()


def test_what_cannot_be_evaluated_is_told_before_anything_runs(spark, index):
    held = len(leases._process.held - leases._process.let_go)
    n_persisted = spark.sparkContext._jsc.getPersistentRDDs().size()
    for given, words in (
        ({"nearly": True}, "nearly is a share"),
        ({"id": "map"}, "column 'map' is map<int,int>, whose values have no order"),
    ):
        rows = events(spark).selectExpr("id", "tags", "map(1, 2) AS map")
        with pytest.raises(my.UsageError, match=words):
            ms.evaluate(rows, index, **given)
    with pytest.raises(my.UsageError, match="the keys are one column"):
        ms.explain(events(spark), index, event="tags", key=["id"])
    with pytest.raises(my.UsageError, match="there is a column 'KEY' already"):
        ms.explain(events(spark).withColumnRenamed("id", "key"), index, event="tags", into="KEY")
    assert len(leases._process.held - leases._process.let_go) == held
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == n_persisted


def test_versions_of_other_keys_are_not_compared(spark, index):
    my.TagIndex().add("jazz", "ada").save(index)
    with pytest.raises(my.UsageError, match="keys of versions 0002 and 0001 have different types"):
        ms.evaluate(events(spark), index, before=1)


def test_ids_of_odd_names_and_no_events(spark, index):
    rows = events(spark).withColumnRenamed("id", "the `id`")
    truth = spark.createDataFrame([(0, 0)], "`the ``id``` int, key int")
    found = ms.evaluate(rows, index, id="`the ``id```", truth=truth)
    assert found.scores["missing"] == 0
    found.close()
    with pytest.raises(my.UsageError, match="one column of ids"):
        ms.evaluate(rows, index, id=["a", "b"])
    nothing = ms.evaluate(events(spark).limit(0), index, truth=truth.limit(0).toDF("id", "key"))
    assert (nothing.scores["precision"], nothing.scores["recall"]) == (1.0, 1.0)
    assert nothing.summary["events"] == 0
    nothing.close()
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "array('a') AS tags")
    with pytest.raises(my.UsageError, match="a stream is not evaluated as a whole"):
        ms.evaluate(stream, index)


def test_an_evaluation_keeps_its_versions(spark, index):
    found = ms.evaluate(events(spark), index)
    gc.collect()
    assert {
        use.version
        for use in leases._process.held - leases._process.let_go
        if use.path == str(index)
    } == {"0001"}
    found.close()
    gc.collect()
    assert not [
        use for use in leases._process.held - leases._process.let_go if use.path == str(index)
    ]


def test_events_of_one_id_and_null_ids_stay_apart(spark, index):
    rows = events(spark, [["jazz"], ["jazz"], ["jazz"]], ["a", "a", None])
    truth = spark.createDataFrame(
        [("a", 0), (None, 0), (None, 99), ("a", None)], "id string, KEY int"
    )
    found = ms.evaluate(rows, index, truth=truth)
    counts = {row.key: row.events for row in found.per_key.collect()}
    assert counts == {0: 3, 3: 3, 6: 3}
    rows = sorted((str(row.id), row.key, row.difference) for row in found.differences.collect())
    assert rows == [("None", 3, "extra"), ("None", 6, "extra"), ("None", 99, "missing"),
                    ("a", 3, "extra"), ("a", 6, "extra")]  # fmt: skip
    assert (found.scores["right"], found.scores["missing"]) == (2, 1)
    found.close()


def test_the_page_shows_texts_as_texts_and_cuts_off_long_ones(spark, tmp_path):
    path = tmp_path / "<b>&.index"
    ms.build(subscriptions(spark, [["jazz"]], ["<script>"]), path)
    rows = events(spark, [["jazz"], None], ["<i>" + "x" * 5000, "&"])
    found = ms.evaluate(rows, path)
    page = Path(found.page(tmp_path / "page.html")).read_text()
    found.close()
    assert not any(tag in page for tag in ("<script>", "<i>", "<b>"))
    assert "&lt;script&gt;" in page
    assert "x" * 300 not in page


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"nearly": "x"}, "nearly is a share"),
        ({"truth": [(1, 2)]}, "the pairs of the truth are a DataFrame of Spark, not list"),
        ({"events": "e.parquet"}, "the events are a DataFrame of Spark, not str"),
        ({"id": 5}, "one column of ids"),
    ],
)
def test_arguments_of_other_types_are_told(spark, index, given, words):
    with pytest.raises(my.UsageError, match=words):
        ms.evaluate(**{"events": events(spark), "index": index, **given})
