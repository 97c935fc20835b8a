"""The version of a micro-batch: taken again when the batch runs again, and kept until then."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import matchyard as my
from matchyard.storage import retention, stream_records, stream_versions, versions
from matchyard.storage.stream_versions import version_of_batch
from tests.storage.published import kept


@pytest.fixture
def index(tmp_path, quick_saves) -> Path:
    path = tmp_path / "a.index"
    my.TagIndex().add("jazz", 1).save(path)
    return path


def publish(path: Path, times: int = 1) -> None:
    for _ in range(times):
        my.open(path).add("jazz", 2).save(path)


def test_a_batch_has_one_version_however_often_it_is_asked(index):
    assert version_of_batch(index, "s", 0) == "0001"
    publish(index)
    assert version_of_batch(index, "s", 0) == "0001"
    assert version_of_batch(index, "s", 1) == "0002"
    assert version_of_batch(index, "t", 0) == "0002"  # another stream is another story


def test_tasks_that_ask_at_once_get_the_same_version(index):
    gate, stop = threading.Barrier(8), threading.Event()

    def publisher():
        while not stop.is_set():
            publish(index)

    def ask(batch):
        gate.wait()
        return version_of_batch(index, "s", batch)

    writer = threading.Thread(target=publisher)
    writer.start()
    with ThreadPoolExecutor(8) as pool:
        for batch in range(20):
            assert len(set(pool.map(ask, [batch] * 8))) == 1
    stop.set()
    writer.join()
    assert not [name for name in os.listdir(index / "streams" / "s") if name.startswith(".")]


def test_versions_of_the_last_two_batches_are_kept(index):
    version_of_batch(index, "s", 0)
    publish(index)
    version_of_batch(index, "s", 1)
    publish(index, 4)
    assert kept(index) == ["0001", "0002", "0005", "0006"]
    version_of_batch(index, "s", 2)
    publish(index, 2)
    assert kept(index) == ["0002", "0006", "0007", "0008"]
    assert my.open(index, version="0002").match(["jazz"])[0] == [1, 2]


def test_a_version_that_a_task_takes_while_it_is_removed_comes_back(index, monkeypatch):
    """Between hiding old versions and removing them, the records are looked at once more."""
    look, looks = retention.in_use, []

    def look_late(root):
        looks.append(look(root))
        if len(looks) == 1:  # a task that has read CURRENT two versions ago writes it down now
            (root / "streams" / "s").mkdir(parents=True)
            (root / "streams" / "s" / "000000000").write_text("0001\n")
        return looks[-1]

    publish(index)
    monkeypatch.setattr(retention, "in_use", look_late)
    publish(index)
    assert looks == [set(), {"0001"}]
    assert kept(index) == ["0001", "0002", "0003"]


def test_a_task_that_finds_its_version_gone_takes_the_current_one(index, monkeypatch):
    current, asked = stream_versions.current_version, []

    def current_before(path):
        asked.append(current(path))
        if len(asked) == 1:
            publish(index, 2)  # between reading CURRENT and writing it down
        return asked[-1] if len(asked) == 1 else current(path)

    with monkeypatch.context() as patch:
        patch.setattr(stream_versions, "current_version", current_before)
        found = version_of_batch(index, "s", 0)
    assert found == "0003"
    assert version_of_batch(index, "s", 0) == "0003"


def test_strange_files_among_the_records_do_not_stop_publishing(index):
    version_of_batch(index, "s", 0)
    (index / "streams" / ".DS_Store").touch()
    (index / "streams" / "s" / "note.txt").touch()
    publish(index)
    assert versions.current_version(index) == "0002"
    record = index / "streams" / "s" / "000000000"
    assert record.stat().st_mode & 0o777 == 0o644


def test_one_record_for_several_indexes_keeps_them_apart(index, tmp_path):
    other = tmp_path / "b.index"
    my.TagIndex().add("rock", 1).save(other)
    publish(other, 2)
    assert version_of_batch(index, "s", 0, tmp_path) == "0001"
    assert version_of_batch(other, "s", 0, tmp_path) == "0003"


def test_streams_that_ended_long_ago_keep_nothing(index, monkeypatch):
    version_of_batch(index, "s", 0)
    monkeypatch.setattr(stream_records, "_STREAM_FORGOTTEN_S", -1.0)
    publish(index, 3)
    assert kept(index) == ["0003", "0004"]


def test_batches_without_a_stream_are_kept_by_time(index, monkeypatch):
    for moment in range(3):
        assert version_of_batch(index, "", 1_700_000_000_000 + moment) == f"{moment + 1:04}"
        publish(index)
    publish(index, 2)
    assert kept(index) == ["0001", "0002", "0003", "0005", "0006"]
    monkeypatch.setattr(stream_records, "_NAMELESS_KEPT_S", -1.0)
    publish(index)
    assert kept(index) == ["0002", "0003", "0006", "0007"]


def test_only_so_many_batches_are_remembered(index, monkeypatch):
    monkeypatch.setattr(stream_records, "_BATCHES_KEPT", 3)
    for batch in range(10):
        version_of_batch(index, "s", batch)
    assert sorted(os.listdir(index / "streams" / "s")) == [f"{n:09}" for n in (7, 8, 9)]
