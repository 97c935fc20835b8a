"""Matching in SQL: a scalar function that is bound to versions, and one version for each query."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from pyspark.sql import Observation

import matchyard as my
from matchyard import spark as ms
from matchyard.storage import leases
from tests.spark.frames import EVENTS, TAGS, events, found, subscriptions, wanted


@pytest.fixture
def index(spark, tmp_path):
    path = tmp_path / "a.index"
    ms.build(subscriptions(spark), path)
    return path


def test_a_scalar_function_returns_the_keys_of_its_version(spark, tmp_path, index):
    ms.register_function({"music": index}, spark)
    events(spark, [*EVENTS, None]).createOrReplaceTempView("tagged")
    for _ in range(4):
        my.TagIndex().add("jazz", 99).save(index)  # later versions
    asked = spark.sql("SELECT id, matches('music', tags) AS keys FROM tagged")
    rows = {row.id: row["keys"] for row in asked.collect()}
    assert rows.pop(len(EVENTS)) is None  # a null event
    assert found(asked.where("id < 8")) == wanted()
    assert sorted(rows) == list(range(8))
    assert leases.leased(index) == {"0001"}
    wrong = spark.sql("SELECT matches('films', tags) FROM tagged")
    with (
        pytest.raises(my.UsageError, match="the index is films; expected one of: music"),
        ms.plain_errors(),
    ):
        wrong.collect()


def test_a_function_that_is_registered_again_lets_its_versions_go(spark, tmp_path, index):
    def held():
        return sorted(
            use.version
            for use in leases._process.held - leases._process.let_go
            if use.path == str(index)
        )

    for name in ("again", "other", "Again"):
        my.TagIndex().add("jazz", 99).save(index)
        ms.register_function({"music": index}, name=name)
    assert held() == ["0003", "0004"]  # of `other` and the second `again`
    assert spark.sql("SELECT again('music', array('jazz')) AS keys").first()["keys"] == [99]


def test_scalar_functions_of_structs_and_string_keys(spark, tmp_path):
    rules = spark.createDataFrame(
        [("temp < 0", "frost"), ("wind > 20", "storm")], "rule string, id string"
    )
    ms.build(rules, tmp_path / "w.index", engine="predicates", subscription="rule", key="id")
    ms.register_function({"weather": tmp_path / "w.index"}, spark, "alarms")
    row = spark.sql(
        "SELECT alarms('weather', named_struct('temp', -1, 'wind', 25)) AS keys"
    ).first()
    assert sorted(row["keys"]) == ["frost", "storm"]
    ms.build(subscriptions(spark), tmp_path / "a.index")
    with pytest.raises(
        my.UsageError, match="the keys of all indexes must be bigint, or all string"
    ):
        ms.register_function({"w": tmp_path / "w.index", "a": tmp_path / "a.index"}, spark)


def test_a_query_has_one_version_whatever_is_published_meanwhile(spark, tmp_path):
    path = str(tmp_path / "a.index")
    my.TagIndex().add("jazz", 0).save(path)

    def rows(batches):
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.record_batch({"id": [number], "tags": pa.array([["jazz"]], TAGS)})
                my.TagIndex().add("jazz", number + 1).save(path)

    ms.register(spark)
    frame = spark.range(0, 8, 1, 4).mapInArrow(rows, "id bigint, tags array<string>")
    frame.createOrReplaceTempView("slow")
    found_keys = spark.sql(f"SELECT key FROM matchyard_match(TABLE(slow), '{path}')").collect()
    assert len(found_keys) == 8
    assert len({row.key for row in found_keys}) == 1


@pytest.mark.parametrize("output", ["pairs", "arrays"])
def test_a_batch_job_is_observed(spark, index, output):
    asked = Observation("matched")
    tagged = events(spark, [*EVENTS, None])
    ms.match(tagged, index, bad="keep", output=output, observe=asked).collect()
    assert asked.get == {"matches": sum(wanted().values()), "bad": 1}
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "array('a') AS tags")
    with pytest.raises(my.UsageError, match="observe is for batch jobs"):
        ms.match(stream, index, observe="matched")


def test_errors_name_the_event_however_its_id_looks(spark, index):
    ids = ["good", "a\n\n b\n at c SQLSTATE: x" + "d" * 5000]
    with (
        pytest.raises(
            my.ParseError, match=r"^event 'a\\n\\n b.*…: not a set of tags: None;"
        ) as told,
        ms.plain_errors(),
    ):
        ms.match(events(spark, [["jazz"], None], ids), index).collect()
    assert len(str(told.value)) < 400
    events(spark, [["jazz"], ["jazz", None]]).createOrReplaceTempView("odd")
    ms.register_function({"music": index}, spark)
    with pytest.raises(my.ParseError, match=r"^an event: not a tag: None"), ms.plain_errors():
        spark.sql("SELECT matches('music', tags) FROM odd").collect()


def test_a_query_of_no_index_leaves_nothing(spark, tmp_path):
    ms.register(spark)
    path = tmp_path / "none" / "a.index"
    asked = f"SELECT * FROM matchyard_match(TABLE(SELECT 1L, array('jazz')), '{path}')"
    with pytest.raises(my.StorageError, match="it has no file CURRENT"), ms.plain_errors():
        spark.sql(asked).collect()
    assert not path.parent.exists()


@pytest.mark.parametrize(
    ("engine", "rule", "event"), [("predicates", "a = 1", '{"a"'), ("twigs", "//a", "<a>")]
)
def test_an_event_that_cannot_be_explained_is_told(spark, tmp_path, engine, rule, event):
    rules = spark.createDataFrame([(rule, 1)], "rule string, key int")
    ms.build(rules, tmp_path / "b.index", engine, "rule")
    pairs = spark.createDataFrame([(event, 1)], "event string, key int")
    explained = ms.explain(pairs, tmp_path / "b.index", "event")
    with pytest.raises(my.ParseError, match="an event cannot be explained: "), ms.plain_errors():
        explained.collect()


@pytest.mark.parametrize("wrong", [None, {}, "music.index", ["music.index"]])
def test_indexes_of_a_function_have_names(spark, wrong):
    with pytest.raises(my.UsageError, match="indexes are names with paths"):
        ms.register_function(wrong, spark)


@pytest.mark.parametrize("rows", [[["jazz"], None], [["jazz"], [None]]])
def test_a_first_build_that_fails_leaves_nothing(spark, tmp_path, rows):
    with pytest.raises(my.ParseError, match="a subscription of key 1"):
        ms.build(subscriptions(spark, rows), tmp_path / "a.index")
    assert not (tmp_path / "a.index").exists()


def test_plans_that_fail_hold_no_version_and_new_indexes_have_new_leases(spark, tmp_path, index):
    held = len(leases._process.held - leases._process.let_go)
    for wrong in (lambda: ms.match(events(spark), index, event="nope"),
                  lambda: ms.subscriptions(index, "9999"), lambda: ms.subscriptions(index, "../x"),
                  lambda: ms.explain(events(spark), index, event="nope")):  # fmt: skip
        with pytest.raises(my.MatchyardError):
            wrong()
    assert len(leases._process.held - leases._process.let_go) == held
    ms.match(events(spark), index)
    shutil.rmtree(index)
    ms.build(subscriptions(spark), index)
    plan = ms.match(events(spark), index)
    assert leases.leased(index) == {"0001"}
    assert plan.count()
