"""An index built in Spark answers as one built in one process does, and changes without a rebuild."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import matchyard as my
from matchyard import shards
from matchyard import spark as ms
from matchyard.spark import segments
from matchyard.spark.tasks import build as tasks
from tests.spark.frames import EVENTS, ROWS, changes, events, found, subscriptions, wanted


def answers(path, asked=EVENTS):
    return [sorted(keys) for keys in my.open(path, verify=True).match(asked)]


@pytest.fixture
def index(spark, tmp_path):
    path = tmp_path / "a.index"
    ms.build(subscriptions(spark), path, shards=3)
    return path


def test_a_task_deals_its_rows_into_one_file(spark, tmp_path, monkeypatch):
    write, n_files = segments._write, []

    def counted(source, job, by_shard):
        n_files.append(len(list(Path(job.folder).glob("scratch/*/dealt"))))
        return write(source, job, by_shard)

    monkeypatch.setattr(segments, "_write", counted)
    path = tmp_path / "a.index"
    ms.build(subscriptions(spark).repartition(4), path, shards=7)
    assert 1 < n_files[0] <= 4
    expected = my.TagIndex().add_many(ROWS, range(14)).consolidate().match(EVENTS)
    assert answers(path) == [sorted(keys) for keys in expected]


@pytest.mark.parametrize("n_shards", [None, 1, 7])
def test_a_build_answers_like_the_embedded_index(spark, tmp_path, n_shards):
    path = tmp_path / "a.index"
    built = ms.build(subscriptions(spark), path, shards=n_shards)
    opened = my.open(path, verify=True)
    assert (built.version, built.subscriptions, built.shards) == ("0001", 14, n_shards or 1)
    assert opened.info()["tables"] == built.shards
    assert built.index_bytes == sum(f[1] for f in shards.manifest_of(path, "0001")["files"])
    expected = my.TagIndex().add_many(ROWS, range(14)).consolidate().match(EVENTS)
    assert answers(path) == [sorted(keys) for keys in expected]
    assert [p.name for p in (path / "versions").iterdir()] == ["0001"]  # nothing is left behind


def test_parts_compiled_by_tasks_are_joined_to_the_table_of_one_build(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "_PER_TASK", 3)
    built = ms.build(subscriptions(spark), tmp_path / "joined.index", options={"leaf": 1})
    ms.build(subscriptions(spark), tmp_path / "one.index", shards=1, options={"leaf": 1})
    assert built.shards == 1
    (joined,), (one,) = (
        shards.open_shards(tmp_path / name).segments()[0].tables
        for name in ("joined.index", "one.index")
    )
    for field in set(joined._fields) - {"keys"}:  # keys of one set come in any order
        assert getattr(joined, field).tolist() == getattr(one, field).tolist(), field
    assert sorted(joined.keys) == sorted(one.keys)
    assert not (tmp_path / "joined.index/versions/0001/scratch").exists()


def test_one_table_is_compiled_in_a_task_or_in_the_driver(spark, tmp_path, monkeypatch):
    ms.build(subscriptions(spark), tmp_path / "driver.index")
    monkeypatch.setattr(segments, "_IN_DRIVER", 0)
    ms.build(subscriptions(spark), tmp_path / "task.index")
    assert answers(tmp_path / "driver.index") == answers(tmp_path / "task.index")


def test_several_joined_tables_keep_their_routes(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "_PER_TASK", 2)
    monkeypatch.setattr(segments, "_PER_SHARD", 5)
    path = tmp_path / "a.index"
    assert ms.build(subscriptions(spark), path).shards == 3
    assert found(ms.match(events(spark), path, strategy="sharded")) == wanted()


@pytest.mark.parametrize("algorithm", my.algorithms("tags"))
def test_every_algorithm_can_be_built(spark, tmp_path, algorithm):
    path = tmp_path / "a.index"
    ms.build(subscriptions(spark), path, algorithm=algorithm, shards=2)
    assert my.open(path).algorithm == algorithm
    assert found(ms.match(events(spark), path, strategy="sharded")) == wanted()


def test_string_keys_are_numbered_over_all_shards(spark, tmp_path):
    keys = [f"user {n % 5}" for n in range(len(ROWS))]
    ms.build(subscriptions(spark, keys=keys), tmp_path / "a.index", shards=4)
    opened = my.open(tmp_path / "a.index", verify=True)
    assert opened.info()["keys"] == "str"
    assert sorted(opened.match_unique([["jazz", "live"]])[0]) == sorted(
        {keys[n] for n in (0, 1, 2, 3, 6, 12)}
    )


def test_columns_by_any_name_text_and_small_integers_are_taken(spark, tmp_path):
    frame = spark.createDataFrame(
        pa.table({"wish": ["jazz live", "oslo"], "who": pa.array([1, 2], pa.int16())})
    )
    ms.build(frame, tmp_path / "a.index", subscription="wish", key="who")
    assert answers(tmp_path / "a.index", ["live jazz", "oslo jazz"]) == [[1], [2]]


def test_options_hold_for_the_whole_build(spark, tmp_path):
    frame = subscriptions(spark, [["Jazz"], ["JAZZ", "live"]])
    ms.build(frame, tmp_path / "a.index", options={"casefold": True}, shards=2)
    assert answers(tmp_path / "a.index", [["jAzZ", "LIVE"]]) == [[0, 1]]


def test_an_empty_frame_makes_an_empty_index(spark, tmp_path):
    ms.build(subscriptions(spark).where("false"), tmp_path / "a.index", shards=2)
    assert answers(tmp_path / "a.index", [["jazz"], []]) == [[], []]
    assert ms.match(events(spark), tmp_path / "a.index").count() == 0


def test_what_is_wrong_is_said_before_anything_runs(spark, tmp_path):
    frame, path = subscriptions(spark), tmp_path / "a.index"
    with pytest.raises(my.UsageError, match="no column 'tag' for the subscriptions; found: tags"):
        ms.build(frame, path, subscription="tag")
    with pytest.raises(my.UsageError, match="column 'key' is bigint; subscriptions of engine"):
        ms.build(frame, path, subscription="key")
    with pytest.raises(my.UsageError, match="column 'tags' is array<string>; keys are"):
        ms.build(frame, path, key="tags")
    with pytest.raises(my.UsageError, match="no algorithm 'fast'"):
        ms.build(frame, path, algorithm="fast")
    with pytest.raises(my.UsageError, match="no option 'leaves'"):
        ms.build(frame, path, options={"leaves": 3})
    with pytest.raises(my.UsageError, match="shards must be 1 to 9999"):
        ms.build(frame, path, shards=0)
    assert not path.exists()


def test_bad_subscriptions_stop_the_build_and_publish_nothing(spark, index):
    before = answers(index)
    with pytest.raises(my.ParseError, match=r"^a subscription of key 7 is null; expected tags"):
        ms.build(subscriptions(spark, [["a"], None], [1, 7]), index)
    with pytest.raises(my.ParseError, match="of key 'eve' has a tag that is null; expected tags"):
        ms.build(subscriptions(spark, [["a"], ["a", None]], ["ada", "eve"]), index)
    with pytest.raises(
        my.ParseError, match=r"^a subscription of key 7: not a set of tags"
    ) as caught:
        ms.build(spark.createDataFrame([("a", 1), (" ", 7)], ["tags", "key"]), index)
    assert (caught.value.column, caught.value.found, caught.value.example) == (
        1,
        "the end",
        "jazz oslo",
    )
    with pytest.raises(my.UsageError, match="null among the keys"):
        ms.build(subscriptions(spark, [["a"], ["b"]], [1, None]).coalesce(1), index)
    assert answers(index) == before
    assert shards.current_version(index) == "0001"


def test_the_row_with_the_error_is_named_after_one_that_the_algorithm_cannot_hold(tmp_path):
    rows = pa.table({"rule": ['x contains "a"', "x >"], "key": [7, 8]})
    task = tasks.stage(shards.Plan("predicates", "hem"), str(tmp_path), iter, [rows])
    with pytest.raises(my.ParseError, match="a subscription of key 8: not a predicate"):
        list(task)


def test_changes_make_a_version_beside_the_old_one(spark, index):
    base = index / "versions/0001/shards/0000/ids.npy"
    built = ms.append(
        changes(
            spark,
            [
                ("add", 100, ["jazz", "new"]),
                ("add", 0, ["new"]),  # 0 had ["jazz"], which goes
                ("remove", 0, None),
                ("remove", 5, ["oslo", "jazz"]),
                ("remove", 13, ["oslo"]),  # is not what 13 has
                ("remove", 77, None),  # is not there
            ],
        ),
        index,
    )
    assert (built.version, built.subscriptions) == ("0002", 2)
    linked = index / "versions/0002/shards/0000/ids.npy"
    assert linked.samefile(base)  # not compiled again, not even copied
    assert answers(index, [["jazz", "new", "oslo"], ["rock", "oslo", "jazz"]]) == [
        [0, 3, 4, 6, 100],
        [3, 4, 6, 11, 13],
    ]
    old = my.open(index, version="0001").match([["jazz"]])[0]
    assert sorted(old) == [0, 3, 6]


@pytest.mark.parametrize("strategy", ["replicated", "sharded"])
def test_changes_of_changes_are_matched_and_folded(spark, index, strategy, monkeypatch):
    ms.append(changes(spark, [("add", 50, ["jazz"]), ("remove", 1, None)]), index, shards=2)
    ms.append(changes(spark, [("remove", 50, ["jazz"]), ("add", 51, ["neu", "jazz"])]), index)
    rows = [row for key, row in enumerate(ROWS) if key != 1] + [["neu", "jazz"]]
    keys = [key for key in range(14) if key != 1] + [51]
    asked = [*EVENTS, ["neu", "jazz"]]
    frame = events(spark, asked)
    assert found(ms.match(frame, index, strategy=strategy)) == wanted(rows, asked, keys)
    assert my.open(index).info()["segments"] == 3
    monkeypatch.setattr(segments, "_PER_TASK", 4)  # which matters for one shard only
    folded = ms.compact(index, spark=spark)
    assert (folded.version, folded.subscriptions, folded.shards) == ("0004", 14, 3)
    assert my.open(index, verify=True).info()["segments"] == 1
    assert found(ms.match(frame, index, strategy=strategy)) == wanted(rows, asked, keys)


def test_string_keys_keep_their_numbers_when_more_come(spark, tmp_path):
    path = tmp_path / "a.index"
    ms.build(subscriptions(spark, [["a"], ["b"]], ["ada", "bob"]), path)
    ms.append(changes(spark, [("add", "eve", ["a"]), ("remove", "ada", ["a"])]), path)
    assert answers(path, [["a", "b"]]) == [["bob", "eve"]]
    ms.append(changes(spark, [("remove", "bob", None), ("remove", "nobody", None)]), path)
    assert answers(path, [["a", "b"]]) == [["eve"]]
    rows = ms.subscriptions(path, spark=spark).collect()
    assert [(row.subscription, row.key) for row in rows] == [(["a"], "eve")]


def test_keys_stay_of_one_kind_also_when_all_are_removed(spark, tmp_path):
    path = tmp_path / "a.index"
    ms.build(subscriptions(spark, [["a"], ["b"]], ["ada", "bob"]), path)
    ms.append(changes(spark, [("remove", "ada", None), ("remove", "bob", None)]), path)
    with pytest.raises(my.UsageError, match="the keys of this index are strings"):
        ms.append(changes(spark, [("add", 1, ["a"])]), path)
    ms.build(subscriptions(spark, [["a"]], ["ada"]).where("false"), path)
    assert dict(ms.match(events(spark), path).dtypes)["key"] == "string"


def test_bare_signatures_cannot_be_read_back(spark, tmp_path):
    index = my.TagIndex("tagmatch", {"exact": False})
    index.add_many(index.sign([["jazz"], ["rock"]]), [1, 2]).save(tmp_path / "a.index")
    with pytest.raises(my.UsageError, match="bare signatures have no tags that could be read back"):
        ms.compact(tmp_path / "a.index", spark=spark)
    assert answers(tmp_path / "a.index", [["jazz"]]) == [[1]]


def test_changes_that_make_no_sense_are_refused(spark, index):
    with pytest.raises(
        my.UsageError, match="a change is 'drop'; expected 'add', 'remove' or 'delete'"
    ):
        ms.append(changes(spark, [("drop", 1, ["a"])]), index)
    with pytest.raises(
        my.UsageError, match="keys of this index are integers; those of the changes"
    ):
        ms.append(changes(spark, [("add", "eve", ["a"])]), index)
    with pytest.raises(my.UsageError, match="string keys cannot be removed from an index with int"):
        ms.append(changes(spark, [("remove", "eve", None)]), index)
    with pytest.raises(my.StorageError, match="is not a Matchyard index"):
        ms.append(changes(spark, [("add", 1, ["a"])]), index.parent / "none.index")
    assert shards.current_version(index) == "0001"


def test_the_subscriptions_can_be_read_back(spark, index):
    rows = ms.subscriptions(index, spark=spark).toArrow().to_pylist()
    assert {(row["key"], frozenset(row["subscription"])) for row in rows} == {
        (key, frozenset(row)) for key, row in enumerate(ROWS)
    }


@pytest.mark.parametrize("emptied", [False, True])
def test_an_index_without_keys_takes_keys_of_either_type(spark, tmp_path, emptied):
    path = tmp_path / "a.index"
    if emptied:
        ms.build(subscriptions(spark, [["a"]], ["ada"]), path)
        ms.append(changes(spark, [("remove", "ada", None)]), path)
        ms.compact(path)
    else:
        ms.build(spark.createDataFrame([], "tags array<string>, key string"), path)
    ms.append(changes(spark, [("add", 7, ["a"])]), path)
    assert found(ms.match(events(spark, [["a"]]), path)) == {(0, 7): 1}
    ms.compact(path)
    assert my.open(path).match([["a"]])[0] == [7]
