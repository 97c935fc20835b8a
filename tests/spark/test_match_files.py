"""Parquet files in, Parquet files out: as `match`, and whole or not at all."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import matchyard as my
from matchyard import spark as ms
from matchyard.storage import file_places
from tests.spark.frames import EVENTS, TAGS, events, found, subscriptions, wanted


@pytest.fixture
def index(spark, tmp_path):
    path = tmp_path / "a.index"
    ms.build(subscriptions(spark), path)
    return path


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "events"
    folder.mkdir()
    for number, (start, stop) in enumerate([(0, 3), (3, 4), (4, 8)]):
        rows = {"id": range(start, stop), "tags": pa.array(EVENTS[start:stop], TAGS)}
        pq.write_table(pa.table(rows), folder / f"{number}.parquet", row_group_size=2)
    return folder


def entries(folder):
    return sorted(entry.name for entry in folder.iterdir())


def pairs(spark: Any, folder: Any) -> Counter[Any]:
    return found(spark.read.parquet(str(folder)))


@pytest.mark.parametrize("form", ["pairs", "arrays"])
@pytest.mark.parametrize("unique", [False, True])
def test_files_are_matched_as_dataframes_are(spark, tmp_path, index, files, form, unique):
    out = tmp_path / "out"
    done = ms.match_files(str(files), index, out, form=form, unique=unique, version=True)
    assert pairs(spark, out) == wanted(unique=unique)
    asked = ms.match(events(spark), index, output=form, unique=unique, version=True)
    read = spark.read.parquet(str(out))
    assert read.schema.simpleString() == asked.schema.simpleString()
    assert read.count() == asked.count()
    assert (done.version, done.events, done.matches) == (
        "0001",
        8,
        sum(wanted(unique=unique).values()),
    )
    assert entries(tmp_path) == ["a.index", "events", "out"]  # nothing is left over
    assert "_SUCCESS" in entries(out)


def test_an_output_never_replaces_its_input_or_a_file(tmp_path, index, files):
    before = entries(files)
    for output in (files, files / "out", tmp_path, index, index / "out"):
        with pytest.raises(my.UsageError, match="lie within each other"):
            ms.match_files(str(files), index, output, overwrite=True)
    (tmp_path / "file").touch()
    with pytest.raises(my.UsageError, match="is a file"):
        ms.match_files(str(files), index, tmp_path / "file", overwrite=True)
    assert entries(files) == before


def test_columns_are_found_in_capitals_with_dots_and_beside_odd_types(spark, tmp_path, index):
    folder = tmp_path / "what?x y"
    folder.mkdir()
    table = pa.table(
        {"i.d": [7], "Tags": pa.array([["jazz"]], TAGS), "odd": pa.array([1.0], pa.float16())}
    )
    pq.write_table(table, folder / "0.parquet")
    ms.match_files(str(folder), index, tmp_path / "ou?t", event="TAGS", id="`i.d`", spark=spark)
    rows = pq.read_table(tmp_path / "ou?t").to_pylist()
    assert sorted(row["key"] for row in rows) == [0, 3, 6]
    assert {row["i.d"] for row in rows} == {7}


def test_files_are_matched_with_an_older_version(spark, tmp_path, index, files):
    my.TagIndex().add("jazz", 99).save(index)
    done = ms.match_files(files, index, tmp_path / "new", version=True)
    old = ms.match_files(files, index, tmp_path / "old", version=True, at=1)
    assert (done.version, old.version) == ("0002", "0001")
    assert pairs(spark, tmp_path / "old") == wanted()


def test_a_folder_is_replaced_only_if_asked(spark, tmp_path, index, files):
    out = tmp_path / "out"
    ms.match_files(str(files), index, out)
    with pytest.raises(my.UsageError, match="exists already"):
        ms.match_files(str(files), index, out)
    ms.match_files(str(files), index, out, overwrite=True)
    assert pairs(spark, out) == wanted()


def test_events_of_several_columns_and_of_whole_rows(spark, tmp_path):
    rules = spark.createDataFrame(
        [("temp < 0", "frost"), ("wind > 20", "storm")], "rule string, id string"
    )
    ms.build(rules, tmp_path / "w.index", engine="predicates", subscription="rule", key="id")
    table = pa.table({"id": [1, 2], "temp": [-3.5, 4.0], "wind": [25, None]})
    pq.write_table(table, tmp_path / "e.parquet")
    for number, event in enumerate((["temp", "wind"], None)):
        out = tmp_path / f"out{number}"
        ms.match_files(str(tmp_path / "e.parquet"), tmp_path / "w.index", out, event=event)
        assert pairs(spark, out) == {(1, "frost"): 1, (1, "storm"): 1}


def test_bad_events_are_kept_or_end_the_job_and_leave_nothing(spark, tmp_path, index):
    tags = pa.array([["jazz"], None], TAGS)
    pq.write_table(pa.table({"id": [1, 2], "tags": tags}), tmp_path / "e.parquet")
    out = tmp_path / "out"
    with pytest.raises(my.ParseError, match=r"event 2: .*match_files\(…, bad='keep'\)"):
        ms.match_files(str(tmp_path / "e.parquet"), index, out)
    assert entries(tmp_path) == ["a.index", "e.parquet"]
    done = ms.match_files(str(tmp_path / "e.parquet"), index, out, bad="keep")
    assert done.bad == 1
    rows = spark.read.parquet(str(out)).where("reason is not null").collect()
    assert [(row.id, row.key) for row in rows] == [(2, None)]


def test_files_of_tasks_that_did_not_count_are_left_out(spark, tmp_path, index, files, monkeypatch):
    out = tmp_path / "out"
    publish = file_places.publish_files

    def publish_some(written, whole, target, overwrite):
        folder = file_places.local_path(written[0]).parent
        (folder / "part-00000-lost.parquet").write_bytes(b"half")  # of a task that was killed
        publish(written, whole, target, overwrite)

    monkeypatch.setattr(ms.match_files.__globals__["shards"], "publish_files", publish_some)
    ms.match_files(str(files), index, out)
    assert pairs(spark, out) == wanted()
    assert entries(tmp_path) == ["a.index", "events", "out"]


def test_no_matches_are_an_empty_folder(spark, tmp_path, index):
    pq.write_table(
        pa.table({"id": [1], "tags": pa.array([["unheard"]], TAGS)}), tmp_path / "e.parquet"
    )
    ms.build(subscriptions(spark, [["jazz"]], [1]), index)
    done = ms.match_files(str(tmp_path / "e.parquet"), index, tmp_path / "out")
    assert (done.events, done.matches) == (1, 0)
    assert pairs(spark, tmp_path / "out") == {}
    assert "_SUCCESS" in entries(tmp_path / "out")


@pytest.mark.parametrize(
    ("given", "words"),
    [({"event": "words"}, "no column 'words'"), ({"id": "name"}, "no column 'name'"),
     ({"form": "rows"}, "form is 'rows'"), ({"bad": "drop"}, "bad is 'drop'")],
)  # fmt: skip
def test_wrong_arguments_are_told_before_anything_runs(tmp_path, index, files, given, words):
    with pytest.raises(my.UsageError, match=words):
        ms.match_files(str(files), index, tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_the_old_folder_stays_if_the_new_one_cannot_take_its_place(
    tmp_path, index, files, monkeypatch
):
    out = tmp_path / "out"
    ms.match_files(files, index, out)
    before = sorted(out.iterdir())
    move, moved = pa.fs.LocalFileSystem.move, []

    class Files(pa.fs.LocalFileSystem):
        def move(self, source: str, target: str) -> None:
            if target == str(out) and not moved:
                moved.append(target)
                raise KeyboardInterrupt
            move(self, source, target)

    monkeypatch.setattr(file_places, "LocalFileSystem", Files)
    with pytest.raises(KeyboardInterrupt):
        ms.match_files(files, index, out, overwrite=True)
    assert moved
    assert sorted(out.iterdir()) == before
    assert [entry.name for entry in tmp_path.iterdir() if ".writing-" in entry.name] == []


def test_folders_of_killed_drivers_go_when_they_are_a_day_old(spark, tmp_path, index, files):
    for name, age_h in ((".out.writing-old", 25), (".out.writing-new", 1), (".o.writing-old", 25)):
        part = tmp_path / name / "tasks/part.parquet"
        part.parent.mkdir(parents=True)
        part.touch()
        for place in (part, part.parent, part.parent.parent):
            os.utime(place, (0, time.time() - 3600 * age_h))
    ms.match_files(files, index, tmp_path / "out")
    assert sorted(place.name for place in tmp_path.glob(".*")) == [
        ".o.writing-old",
        ".out.writing-new",
    ]


def test_a_link_stays_a_link(spark, tmp_path, index, files):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    ms.match_files(files, index, tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real/_SUCCESS").exists()


def test_ids_that_do_not_fit_the_first_file_name_their_own(tmp_path, index):
    (tmp_path / "in").mkdir()
    tags = pa.array([["jazz"]], TAGS)
    for name, ids in (("a", pa.array([1], pa.int32())), ("b", pa.array([1 << 40]))):
        pq.write_table(pa.table({"id": ids, "tags": tags}), tmp_path / f"in/{name}.parquet")
    with pytest.raises(my.StorageError, match=r"in/b\.parquet: column 'id' does not fit the type"):
        ms.match_files(tmp_path / "in", index, tmp_path / "out")
    (tmp_path / "in/b.parquet").unlink()
    assert ms.match_files(tmp_path / "in", index, tmp_path / "out").events == 1


def test_groups_of_rows_of_the_output_are_large(spark, tmp_path, index):
    rows = {"id": range(200_000), "tags": pa.array([["jazz"]] * 200_000, TAGS)}
    pq.write_table(pa.table(rows), tmp_path / "in.parquet")
    done = ms.match_files(tmp_path / "in.parquet", index, tmp_path / "out", spark=spark)
    [file] = (tmp_path / "out").glob("*.parquet")
    assert pq.ParquetFile(file).metadata.num_row_groups == 1
    assert done.matches == pq.read_metadata(file).num_rows == 600_000


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"id": None}, "the ids of events are a column or several"),
        ({"id": [1]}, "the ids of events are a column or several"),
        ({"event": 5}, "the columns of the event are a column or several"),
        ({"output": None}, "not a path: None"),
        ({"output": ""}, "not a path: ''"),
        ({"events": None}, "not a path or several: None"),
        ({"events": [5]}, "not a path: 5"),
    ],
)
def test_arguments_of_other_types_are_told(tmp_path, index, files, given, words):
    asked = {"events": files, "index": index, "output": tmp_path / "out", **given}
    with pytest.raises(my.UsageError, match=words):
        ms.match_files(**asked)
    assert not (tmp_path / "out").exists()
