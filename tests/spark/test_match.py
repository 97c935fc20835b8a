"""match: the same rows by every strategy, and clear words for what cannot be matched."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import matchyard as my
from matchyard import spark as ms
from matchyard.spark.tasks import match
from matchyard.spark.tasks import rows as match_rows
from matchyard.spark.tasks.job import MatchJob
from tests.spark.frames import EVENTS, ROWS, TAGS, events, found, subscriptions, wanted

KEYS = [n % 4 for n in range(len(ROWS))]  # several subscriptions under one key
STRATEGIES = ["replicated", "sharded"]


@pytest.fixture(scope="module")
def index(spark, tmp_path_factory):
    """Five shards; keys are shared."""
    path = tmp_path_factory.mktemp("match") / "a.index"
    ms.build(subscriptions(spark, keys=KEYS), path, shards=5)
    return path


@pytest.fixture(scope="module")
def named(spark, tmp_path_factory):
    """The same with string keys."""
    path = tmp_path_factory.mktemp("match") / "b.index"
    ms.build(subscriptions(spark, keys=[f"k{key}" for key in KEYS]), path, shards=3)
    return path


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("output", ["pairs", "arrays"])
@pytest.mark.parametrize("unique", [False, True])
def test_every_strategy_and_form_gives_the_same_matches(spark, index, strategy, output, unique):
    matched = ms.match(
        events(spark).repartition(3), index, unique=unique, strategy=strategy, output=output
    )
    assert matched.columns == ["id", "key" if output == "pairs" else "keys"]
    assert found(matched) == wanted(keys=KEYS, unique=unique)
    if output == "arrays":
        assert sorted(row.id for row in matched.collect()) == list(range(len(EVENTS)))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("unique", [False, True])
def test_string_keys_come_back_as_strings(spark, named, strategy, unique):
    matched = ms.match(events(spark), named, strategy=strategy, unique=unique)
    assert dict(matched.dtypes)["key"] == "string"
    assert found(matched) == wanted(keys=[f"k{key}" for key in KEYS], unique=unique)


def test_events_as_text_are_split_into_tags(spark, index):
    frame = spark.createDataFrame([(0, "jazz  oslo"), (1, "")], "id int, tags string")
    pairs = found(ms.match(frame, index))
    assert pairs == wanted(asked=[["jazz", "oslo"], []], keys=KEYS)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_names_of_events_are_carried_and_not_interpreted(spark, index, strategy):
    when = datetime(2026, 11, 15, tzinfo=UTC)
    rows = pa.table(
        {
            "who": ["ada", "ada", None],
            "at": pa.array([when, when, when], pa.timestamp("us", tz="UTC")),
            "deep": pa.array([{"tags": ["rock"]}] * 3, pa.struct({"tags": TAGS})),
        }
    )
    matched = ms.match(
        spark.createDataFrame(rows), index, event="deep.tags", id=["who", "at"],
        strategy=strategy, output="arrays",
    )  # fmt: skip
    assert matched.columns == ["who", "at", "keys"]
    some = [(row.who, sorted(row["keys"])) for row in matched.collect()]
    assert Counter(who for who, _ in some) == {"ada": 2, None: 1}  # two events of one name are two
    assert all(keys == [3, 3] for _, keys in some)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("output", ["pairs", "arrays"])
def test_bad_events_are_kept_with_the_reason(spark, index, strategy, output):
    rows = [["rock"], None, ["rock", None], [], ["rock"] * 5000]
    matched = ms.match(
        events(spark, rows), index, strategy=strategy, output=output, bad="keep", unique=True
    )
    kept = {row.id: row.reason for row in matched.where("reason is not null").collect()}
    assert sorted(kept) == [1, 2, 4]
    assert "not a set of tags: None" in kept[1]
    assert "not a tag: None" in kept[2]
    assert "limit is 4096" in kept[4]
    everyone = {key for key, row in zip(KEYS, ROWS) if row == []}
    rock = everyone | {key for key, row in zip(KEYS, ROWS) if row == ["rock"]}
    expected = {(0, key) for key in rock} | {(3, key) for key in everyone}
    assert set(found(matched.where("reason is null"))) == expected
    empty = "key" if output == "pairs" else "keys"
    assert matched.where(f"reason is not null and {empty} is not null").count() == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_bad_event_is_named_in_the_error(spark, index, strategy):
    frame = events(spark, [["rock"], None], ["good", "evil"])
    with pytest.raises(Exception, match=r"event evil: not a set of tags: None.*bad='keep'"):
        ms.match(frame, index, strategy=strategy).collect()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_events_may_be_named_by_anything(spark, index, strategy):
    """Names like those that are used inside, nested ones, and types that are rarely met."""
    frame = events(spark, [["rock"]]).selectExpr(
        "7 as _row", "8 as _event", "named_struct('id', 9, 'x', array(1)) as s", "tags",
        "cast(1.5 as decimal(10, 2)) as `a b`", "x'ff' as _shard", "timestamp_ntz'2026-11-15' as t",
        "null as nothing", "map('k', 1) as m",
    )  # fmt: skip
    names = ["m", "_row", "_event", "s.id", "s", "`a b`", "_shard", "t", "nothing", "tags"]
    matched = ms.match(frame, index, id=names, strategy=strategy, unique=True)
    assert matched.columns == ["m", "_row", "_event", "id", "s", "a b", "_shard", "t", "nothing", "tags", "key"]  # fmt: skip
    [row] = matched.collect()
    assert (row["_row"], row["_event"], row["id"], row["s"].x, row["key"]) == (7, 8, 9, [1], 3)
    assert (str(row["a b"]), row["_shard"], row["tags"]) == ("1.50", b"\xff", ["rock"])
    assert (row["t"], row["nothing"]) == (datetime(2026, 11, 15), None)


def test_events_whose_names_have_equal_hashes_or_texts_stay_apart(spark, index):
    """In the hour when clocks go back, two moments have one local time; 0.0 and -0.0 have one hash."""
    ids = [
        "named_struct('at', timestamp'2026-10-25 00:30:00Z')",
        "named_struct('at', timestamp'2026-10-25 01:30:00Z')",
        "named_struct('at', 0D)", "0D", "-0D", "0F", "-0F", "double('NaN')", "parse_json('1')",
    ]  # fmt: skip
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Oslo")
    try:
        for one in (ids[:2], ids[3:5], ids[5:7], [ids[7]] * 2, [ids[8]] * 2):
            query = " UNION ALL ".join(f"SELECT {id} AS id, array('rock') AS tags" for id in one)
            matched = ms.match(spark.sql(query), index, strategy="sharded", output="arrays")
            rows = matched.select("id", F.size("keys").alias("n")).collect()
            wanted_ids = [row.id for row in spark.sql(query).select("id").collect()]
            assert sorted(map(str, wanted_ids)) == sorted(str(row.id) for row in rows)
            assert {row.n for row in rows} == {2}
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_an_index_that_is_made_anew_at_its_path_is_opened_anew(spark, tmp_path):
    path = tmp_path / "a.index"
    for key in (1, 2):
        my.TagIndex().add("jazz", key).save(path)
        assert {row.key for row in ms.match(events(spark), path).collect()} == {key}
        shutil.rmtree(path)


@pytest.mark.parametrize("output", ["pairs", "arrays"])
def test_equal_events_stay_as_many_as_they_are(spark, index, output):
    rows, ids = [["rock", "jazz"], None, [], ["none"]] * 3, ["a", "a", "b", "c"] * 3
    frame = events(spark, rows, ids).repartition(5)
    for unique in (False, True):
        one, other = (
            Counter(
                (row.id, row.reason is None, tuple(sorted(row["keys"] or [])) if output == "arrays" else row.key)
                for row in ms.match(
                    frame, index, unique=unique, output=output, bad="keep", strategy=strategy
                ).collect()
            )
            for strategy in STRATEGIES
        )  # fmt: skip
        assert one == other
        assert set(one.values()) <= {3, 6}


def test_rows_can_carry_the_version(spark, index):
    rows = ms.match(events(spark), index, version=True, output="arrays").collect()
    assert {row.version for row in rows} == {1}


def test_nothing_runs_before_an_action_and_the_version_is_the_plans(spark, tmp_path):
    path, gone = tmp_path / "a.index", tmp_path / "b.index"
    for place in (path, gone):
        my.TagIndex().add("jazz", 1).save(place)
    matched, late = ms.match(events(spark), path), ms.match(events(spark), gone)
    my.TagIndex().add("jazz", 2).save(path)
    assert {row.key for row in matched.collect()} == {1}
    shutil.rmtree(gone / "leases")  # as if they had run out
    for key in (2, 3):
        my.TagIndex().add("jazz", key).save(gone)
    with (
        pytest.raises(my.StorageError, match=r"has no version 0001: it was removed.* one is 0003$"),
        ms.plain_errors(),
    ):
        late.collect()


def test_what_is_wrong_is_said_when_the_plan_is_made(spark, index, tmp_path):
    frame = events(spark)
    for given, message in [
        ({"event": "tag"}, "no column 'tag' for the events; found: id, tags"),
        ({"event": "id"}, "column 'id' is bigint; events of engine 'tags' are array<string>"),
        ({"id": "tweet"}, "no column 'tweet' for the ids of events"),
        ({"strategy": "fast"}, "strategy is 'fast'; expected one of: auto, replicated, sharded"),
        ({"output": "rows"}, "output is 'rows'"),
        ({"bad": "drop"}, "bad is 'drop'"),
        ({"follow": True}, "follow is for streams"),
        ({"id": ["id", "id"]}, "two columns of one name: id, id, key"),
    ]:
        with pytest.raises(my.UsageError, match=message):
            ms.match(frame, index, **given)
    with pytest.raises(my.UsageError, match="two columns of one name: key, key"):
        ms.match(frame.withColumnRenamed("id", "key"), index, id="key")
    with pytest.raises(my.UsageError, match="interval year, which Spark does not hand to Python"):
        ms.match(frame.selectExpr("tags", "interval '1' year as id"), index)
    with pytest.raises(my.StorageError, match="is not a Matchyard index"):
        ms.match(frame, tmp_path / "none.index")


def test_the_choice_is_by_size_and_explained(spark, index, capsys):
    ms.match(events(spark), index, explain=True)
    assert "matchyard: replicated, because the index has " in capsys.readouterr().out
    matched = ms.match(events(spark), index, worker_memory=1000, explain=True)
    assert "matchyard: sharded, because " in capsys.readouterr().out
    assert found(matched) == wanted(keys=KEYS)
    spark.conf.set("spark.matchyard.workerMemory", "2k")
    try:
        ms.match(events(spark), index, explain=True)
        told = capsys.readouterr().out
        assert "sharded" in told
        assert "may map 2 kB (spark.matchyard.workerMemory)" in told
        spark.conf.set("spark.matchyard.workerMemory", "much")
        with pytest.raises(my.UsageError, match="'much'; expected a size such as 512m or 4g"):
            ms.match(events(spark), index)
    finally:
        spark.conf.unset("spark.matchyard.workerMemory")


def test_an_index_of_one_shard_is_replicated_whatever_its_size(spark, tmp_path, capsys):
    my.TagIndex().add("jazz", 1).save(tmp_path / "a.index")
    ms.match(events(spark), tmp_path / "a.index", worker_memory=10, explain=True)
    assert "build it with more, e.g. build(…, shards=32)" in capsys.readouterr().out


def test_an_event_with_very_many_matches_is_handed_on_in_pieces(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(match_rows.Layout, "_PAIRS", 1000)
    index = my.TagIndex().add_many([["jazz"]] * 3500, range(3500)).save(tmp_path / "a.index")
    job = MatchJob(str(tmp_path / "a.index"), "0001", ["id", "key"], string_keys=False)
    batch = pa.record_batch({"id": [7, 8], "tags": pa.array([["jazz"], ["rock"]], TAGS)})
    pieces = list(match.match_replicated(job, iter([batch])))
    assert [len(piece) for piece in pieces] == [1000, 1000, 1000, 500]
    assert sorted(key for piece in pieces for key in piece["key"].to_pylist()) == list(range(3500))
    assert len(index) == 3500


@pytest.mark.parametrize("n_ids", [0, 1, 2])
def test_batches_of_long_ids_have_few_rows(spark, index, monkeypatch, n_ids):
    monkeypatch.setattr(match_rows.Layout, "_BYTES", 1000)
    job = MatchJob("", "0001", [*["id", "text"][:n_ids], "key"], string_keys=False)
    texts = ["x" * n for n in (300, 5000, 10, 400, 0, 20)]
    ids = [pa.array(range(6)), pa.array(texts)][:n_ids]
    matches = my.open(index).match([["jazz", "oslo"]] * 6)
    batches = list(match_rows.Layout(job, "0001").rows(ids, matches))
    whole = pa.Table.from_batches(batches)
    assert whole.column("key").to_pylist() == [key for keys in matches for key in keys]
    assert (len(batches) >= 8) == (n_ids == 2)
    if n_ids == 2:
        assert max(batch.nbytes for batch in batches if len(batch) > 1) < 1500


def test_match_is_a_table_function_in_sql(spark, index, named):
    ms.register(spark)
    ms.register(spark, "match_names", id="string", key="string", unique=True)
    events(spark).createOrReplaceTempView("events")
    query = "SELECT * FROM {}(TABLE(SELECT id, tags FROM events), '{}')"
    assert found(spark.sql(query.format("matchyard_match", index))) == wanted(keys=KEYS)
    pairs = found(spark.sql(query.format("match_names", named)))
    expected = wanted(keys=[f"k{key}" for key in KEYS], unique=True)
    assert pairs == Counter({(str(id), key): n for (id, key), n in expected.items()})
    with pytest.raises(Exception, match="are string: register"):
        spark.sql(query.format("matchyard_match", named)).collect()
    with pytest.raises(my.UsageError, match="key is 'float'; expected 'bigint' or 'string'"):
        ms.register(spark, key="float")
